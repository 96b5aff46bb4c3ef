"""Spread the chains of one run over the workers of a cluster."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import checks, tree
from ..draws import Draws
from ..estimators.counts import Counted
from ..plan import Plan
from ..running import Part, Wish, collect
from ..sampler import Sampler, State
from ..store.writing import start_of
from .cluster import connected, threads
from .rounds import Ends, Rounds
from .worker import Recipe, advance, as_array

FEWEST = 2  # chains of a group: the arithmetic of a single one rounds differently


def check(plan: Plan) -> None:
    """Check that the chains of a plan can run on a cluster."""
    if plan.estimator.carried:
        raise ValueError(
            f"client must be None with gradient={type(plan.estimator).__name__}(), whose state is "
            "too large to travel with the chains: take another gradient, such as SVRG"
        )
    if plan.source.buffer_rows is not None:
        raise ValueError(
            "client must be None for a stream, which workers cannot go through: pass arrays, or "
            "files that workers can read"
        )


def spread(
    name: str,
    arguments: Mapping[str, Any],
    sampler: Sampler,
    plan: Plan,
    wish: Wish,
    of_run: Mapping[str, Any],
    part: Part | None,
    client: Any,
) -> Draws:
    """Run the chains of a sampler on the workers of a cluster, and return their draws."""
    with connected(client) as workers:
        chains = sampler.engine.chains
        most = 1 if isinstance(plan.estimator, Counted) else max(1, chains // FEWEST)
        groups = np.array_split(np.arange(chains), min(most, threads(workers)))

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
            began = sampler.state.iteration
            if began >= end:
                return
            recipe = recipe_of(name, arguments, sampler, plan, of_run, origin)
            sent = Sent(workers, recipe)
            Rounds(
                sampler, [[int(c) for c in g] for g in groups], sent.submit, Ends(began, end)
            ).run(collectors, keep, progress, origin)

        return collect(sampler, wish, part, advance=run)


class Sent:
    """A recipe that the workers have."""

    def __init__(self, client: Any, recipe: Recipe) -> None:
        self.client, self.recipe = client, recipe
        self.future = client.scatter(recipe, broadcast=True, hash=False)

    def submit(
        self, number: int, chains: Sequence[int], state: State, until: int, trial: int
    ) -> Any:
        """Let a worker make a round."""
        if trial:
            self.future = self.client.scatter(self.recipe, broadcast=True, hash=False)
        key = f"sgmcmc-round-{number}-of-{chains[0]}-{self.recipe.token}-{trial}"
        return self.client.submit(advance, self.future, chains, state, until, pure=False, key=key)


def recipe_of(
    name: str,
    arguments: Mapping[str, Any],
    sampler: Sampler,
    plan: Plan,
    of_run: Mapping[str, Any],
    origin: int,
) -> Recipe:
    """What workers need to go on with a sampler."""
    own = {
        **arguments,
        "dataset": plan.source.given,
        "minibatch_size": sampler.settings["minibatch_size"],
        "seed": plan.seed,
        "n_chains": None,
        "starts": None,
    }
    run = {**of_run, "out": None, "resume": False, "verbose": False}
    start = tree.map(as_array, start_of(sampler))
    recipe = Recipe(uuid.uuid4().hex[:12], name, own, start, dict(sampler.settings), run, origin)
    for argument, value in {**own, **run}.items():
        if argument != "dataset":
            see_pickled(argument, value)
    return recipe


def see_pickled(name: str, value: Any) -> None:
    """See that an argument can be sent to workers."""
    import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception as error:
        raise ValueError(
            f"{name} must be something that can be sent to workers, but pickling it fails: "
            f"{checks.summary(error)}. Make what it refers to inside the function"
        ) from error
