"""A run whose chains are spread over the workers of a cluster."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import tree
from ..estimators.counts import Counted
from ..outside import Outside
from ..plan import Plan
from ..sampler import Sampler, State, is_by_chain
from ..store.writing import start_of
from .cluster import see_workers, tell, threads
from .rounds import Ends, Rounds
from .sending import see_pickled, see_unpickled
from .worker import File, Recipe, advance, as_array, forget

TRIALS, WAIT_TO_SEND = 5, 5.0  # how often, and for how many seconds, it is tried to send something
FEWEST = 2  # chains of a group: the arithmetic of a single one rounds differently


class Spread:
    """Runs the chains of one sampler on workers, each of which has all data.

    `name` and `arguments` are those of the sampler, and `of_run` are the arguments of its run.
    """

    def __init__(
        self, client: Any, name: str, arguments: Mapping[str, Any], of_run: Mapping[str, Any]
    ) -> None:
        self.client, self.name, self.of_run = client, name, of_run
        self.arguments = arguments
        self.token = uuid.uuid4().hex
        see_unpickled(client, {**arguments, **of_run})

    def prepare(self, plan: Plan) -> None:
        """Check that the chains of a plan can run on a cluster."""
        if plan.estimator.carried:
            raise ValueError(
                f"client must be None with gradient={type(plan.estimator).__name__}(), whose state "
                "is too large to travel with the chains: take another gradient, such as SVRG"
            )
        if plan.source.buffer_rows is not None:
            raise ValueError(
                "client must be None for a stream, which workers cannot go through: pass arrays, "
                "or Shards"
            )
        arrays = plan.source.arrays.items()
        outside = {f"dataset[{k!r}]": x for k, x in arrays if isinstance(x, Outside)}
        see_pickled({**outside, **self.arguments, **self.of_run})

    def recipe(self, plan: Plan, sampler: Sampler, origin: int) -> Recipe:
        """What workers need to go on with a sampler."""
        own = {
            **self.arguments,
            "dataset": {k: File.of(x) for k, x in plan.source.arrays.items()},
            "minibatch_size": sampler.settings["minibatch_size"],
            **{"seed": plan.seed, "n_chains": None, "starts": None, "verbose": False},
        }
        run = {**self.of_run, "out": None, "resume": False, "verbose": False}
        start = tree.map(as_array, start_of(sampler))
        return Recipe(self.token, self.name, own, start, dict(sampler.settings), run, origin)

    def groups(self, plan: Plan, chains: Sequence[int], count: int) -> list[list[int]]:
        """Cut a group if there are workers for more than it and the others, `count` chains in all.

        The estimate of some samplers depends on all chains, which then stay together.
        """
        if isinstance(plan.estimator, Counted) or len(chains) < 2 * FEWEST:
            return [list(chains)]
        return cut(chains, -(-count // threads(self.client)))

    def run(
        self, plan: Plan, sampler: Sampler, end: int, origin: int, collectors: Any, progress: Any
    ) -> None:
        """Advance the chains of a sampler up to iteration `end`."""
        recipe, count = self.recipe(plan, sampler, origin), sampler.engine.chains
        by_chain = any(tree.leaves(is_by_chain(sampler.state).estimator))
        is_fixed = plan.estimator.every is None and not by_chain
        if is_fixed:  # it may have a number for each row
            recipe = replace(recipe, fixed=tree.map(as_array, sampler.state.estimator))
        everywhere = Everywhere(self.client, recipe)

        def submit(number: int, chains: Sequence[int], state: State, until: int, trial: int) -> Any:
            recipe = everywhere.future(is_lost=trial > 0)
            return self.client.submit(advance, recipe, chains, state, until, pure=False)

        def groups(chains: Sequence[int]) -> list[list[int]]:
            return self.groups(plan, chains, count)

        ends = Ends(sampler.state.iteration, end)
        rounds = Rounds(sampler, groups(range(count)), submit, ends, cut=groups, is_fixed=is_fixed)
        rounds.run(collectors, progress, origin)

    def close(self) -> None:
        """Tell the workers to forget this run."""
        tell(self.client, forget, self.token)

    def instead_of(self, plan: Plan, sampler: Sampler) -> Any:
        """Return what takes the place of `Sampler.run`."""

        def run(
            n_iters: int,
            collectors: Any,
            keep: Sequence[str],
            burn_in: int,
            thin: int,
            track: Any,
            progress: Any,
            origin: int,
            keep_gradients: bool,
        ) -> None:
            end = origin + burn_in + n_iters
            if sampler.state.iteration < end:
                self.run(plan, sampler, end, origin, collectors, progress)

        return run


class Everywhere:
    """A value that all workers have, those too that join late."""

    def __init__(self, client: Any, value: Any) -> None:
        self.client, self.value = client, value
        self.send()

    def send(self) -> None:
        """Send the value to all workers. The first may have to be started, and leave again."""
        from distributed import TimeoutError

        for _ in range(TRIALS):
            see_workers(self.client)
            self.workers = set(self.client.nthreads())
            with contextlib.suppress(TimeoutError, OSError):
                self.sent = self.client.scatter(
                    self.value, broadcast=True, hash=False, timeout=WAIT_TO_SEND
                )
                return
        raise RuntimeError(
            "client: workers leave its cluster before anything can be sent to them. If it is "
            "adaptive, give it a minimum of workers"
        )

    def future(self, is_lost: bool) -> Any:
        """Return a future of the value, which may be lost with a worker."""
        if is_lost or self.sent.status != "finished":
            self.send()
        joined = set(self.client.nthreads()) - self.workers
        if joined:  # Dask gives a task to a worker that has its data, and moves only small ones
            self.workers |= joined
            with contextlib.suppress(Exception):  # it does not matter if one has gone meanwhile
                self.client.replicate(self.sent, workers=list(joined))
        return self.sent


def cut(chains: Sequence[int], share: int) -> list[list[int]]:
    """Cut a group so that none has more chains than its share, nor fewer than FEWEST."""
    parts = min(max(1, len(chains) // FEWEST), -(-len(chains) // share))
    return [part.tolist() for part in np.array_split(np.asarray(chains), parts)]
