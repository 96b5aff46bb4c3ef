"""A run of chains that visit the shards of data on a cluster."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import checks, tree
from ..curvature import flat
from ..dynamics.gmc import GMC
from ..estimators.control_variate import ControlVariate
from ..estimators.gradient import Gradient
from ..model import total
from ..plan import Plan, planned
from ..sampler import Sampler, State, some_chains
from ..source import Source
from ..streams import VISITS, stream
from .chains import Spread
from .loading import of_model, visit
from .rounds import Ends, Rounds
from .sending import see_pickled
from .shards import Sharded, Shards
from .tilted import tilts
from .visits import response, widening
from .worker import Recipe, Round, as_array

TIMED = 300  # iterations by which it is found how long a round is
ROUNDS = 20  # in a run, at least
PILOT = 20_000  # iterations of a plain chain, so that it arrives where visits are looked at
DEFAULT = inspect.signature(planned).parameters["minibatch_size"].default


class ShardedSource(Source):
    """The rows of all shards, seen from the client. Those that are wanted come from the workers."""

    is_elsewhere = True

    def __init__(self, data: Sharded, recipe: Recipe) -> None:
        self.data, self.recipe = data, recipe
        self.shards = data.rows.tolist()
        super().__init__(checks.dataset(data.arrays, data.dtype), data.dtype)

    @property
    def is_outside(self) -> bool:
        return True

    def each(self, model: Any, function: Callable, *arguments: Any) -> list[tuple[int, Any]]:
        data, of = self.data, (self.recipe, function, arguments)
        found = data.all(of_model, dict.fromkeys(range(len(data.rows)), of))
        return list(zip((data.ends - data.rows).tolist(), found))

    def give_back(self) -> None:
        self.data.close()


def in_rows(minibatch_size: Any, rows: np.ndarray) -> Any:
    """Return a proportion of all rows as their number. Its default fits the smallest shard."""
    if not isinstance(minibatch_size, float) or not 0 < minibatch_size < 1:
        return minibatch_size  # `planned` says if it is wrong
    n = round(minibatch_size * int(rows.sum()))
    return (min(n, int(rows.min())) if minibatch_size == DEFAULT else n) or minibatch_size


class EvenEnds(Ends):
    """Rounds end at multiples of a number of iterations, and at the end of the run."""

    def __init__(self, began: int, end: int, each: int) -> None:
        super().__init__(began, end)
        self.each = each

    def of(self, number: int) -> int:
        first = self.known[0] // self.each
        return min(self.end, (first + number + 1) * self.each)

    def learn(self, number: int, seconds: float) -> None:
        """There is nothing to learn."""


class Visits(Spread):
    """Runs chains on the shards of the data, one chain and one shard in each task."""

    def __init__(
        self, client: Any, name: str, arguments: Mapping[str, Any], of_run: Mapping[str, Any]
    ) -> None:
        super().__init__(client, name, arguments, of_run)
        self.shards: Shards = arguments["dataset"]
        self.data = Sharded(self.shards, client, checks.dtype(arguments["dtype"]), leave_out=True)
        n = in_rows(arguments["minibatch_size"], self.data.rows)
        own = {**arguments, "minibatch_size": n, "n_chains": None, "starts": None, "verbose": False}
        del own["dataset"]
        try:
            self.source = ShardedSource(self.data, Recipe(self.token, name, own))
        except BaseException:
            self.data.close()
            raise
        self.arguments = {**arguments, "minibatch_size": n, "dataset": self.source}
        self.tilts: list[Any] = [None] * len(self.data.rows)

    def prepare(self, plan: Plan) -> None:
        estimator, n = plan.estimator, plan.n
        plain = type(estimator) is Gradient
        by_counts = any(tree.leaves(plan.model.chart.has_counts)) or plan.gibbs
        if type(estimator) not in (Gradient, ControlVariate) or by_counts:
            raise ValueError(
                "dataset must not be Shards here: chains on shards move by gradients, 'plain' or "
                "with 'control_variates'"
            )
        if plan.model.chart.has_manifold or isinstance(plan.dynamics, GMC):
            raise ValueError("dataset must not be Shards for parameters on manifolds")
        for name in ("opt_stepsize", "row_probabilities"):
            if getattr(estimator, name, None) is not None:
                raise ValueError(f"{name} must be None with Shards")
        if plan.is_auto or n > self.data.rows.min():
            raise ValueError(
                "minibatch_size must be at most the rows of the smallest shard, "
                f"{self.data.rows.min():,}, not {'auto' if plan.is_auto else f'{n:,}'}"
            )
        if not isinstance(plan.minibatches, str):
            raise ValueError("minibatches must be a word with Shards, not an array")
        if plain and plan.temperature != 1:
            raise ValueError("temperature must be 1 with Shards without control variates")
        if plain and self.shards.round_iterations is None:
            raise ValueError(
                "round_iterations must be given to Shards without control variates: a chain that "
                "stays on a shard for long settles on the posterior of that shard. Take "
                "gradient='control_variates'"
            )
        see_pickled({**self.arguments, **self.of_run})

    def recipe(self, plan: Plan, sampler: Sampler, origin: int) -> Recipe:
        whole = super().recipe(plan, sampler, origin)
        arguments = {k: v for k, v in whole.arguments.items() if k != "dataset"}
        return replace(whole, arguments=arguments)

    def close(self) -> None:
        self.data.close()
        super().close()

    def instead_of(self, plan: Plan, sampler: Sampler) -> Any:
        if type(plan.estimator) is not Gradient:
            self.tilts = tilts(self.source, plan.model, sampler, self.data.rows)
        given, known = self.shards.round_iterations, sampler.settings.get("round_iterations")
        if known is not None and given not in (None, known):
            raise ValueError(
                f"resume: round_iterations must be {known}, as in the run that "
                f"{str(self.of_run['out'])!r} has, not {given}"
            )
        if known is None:
            recipe = self.recipe(plan, sampler, 0)
            each = self.round_iterations(recipe, plan, sampler)
            sampler.settings["round_iterations"] = each
        return super().instead_of(plan, sampler)

    def run(
        self, plan: Plan, sampler: Sampler, end: int, origin: int, collectors: Any, progress: Any
    ) -> None:
        recipe = self.recipe(plan, sampler, origin)
        each = sampler.settings["round_iterations"]
        ends = EvenEnds(sampler.state.iteration, end, each)
        share = self.data.ends / self.data.ends[-1]

        def submit(number: int, chains: Sequence[int], state: State, until: int, trial: int) -> Any:
            rng = stream(plan.seed, VISITS, int(state.iteration) // each, chains[0])
            where = int(np.searchsorted(share, rng.random(), side="right"))
            if trial:
                self.data.sent.clear()  # it may be lost with a worker
            arguments = recipe, chains, state, until, where, self.tilts[where]
            return self.data.call(visit, where, *arguments)

        groups = [[c] for c in range(sampler.engine.chains)]
        Rounds(sampler, groups, submit, ends, self.data.waits).run(collectors, progress, origin)

    def round_iterations(self, recipe: Recipe, plan: Plan, sampler: Sampler) -> int:
        """Return how many iterations a round has: as given, or as a worker has time for.

        It is an error if so many are too many for a plain chain.
        """
        if type(plan.estimator) is Gradient:
            each = self.shards.round_iterations
            self.check_visits(recipe, plan, sampler, each)
            return each
        if self.shards.round_iterations is not None:
            return self.shards.round_iterations
        for _ in range(2):  # the program is compiled the first time
            seconds = self.tried(recipe, sampler, TIMED).seconds
        length = self.of_run["burn_in"] + self.of_run["n_iters"]
        in_time = int(self.shards.round_seconds * TIMED / seconds)
        return max(1, min(in_time, length // ROUNDS))

    def check_visits(self, recipe: Recipe, plan: Plan, sampler: Sampler, each: int) -> None:
        """See that rounds of a plain chain are so short that visits hardly make draws wider."""
        of_run = {
            **self.of_run,
            "n_iters": PILOT,
            "burn_in": 0,
            "thin": 1,
            "track": None,
            "keep": [],
        }
        of_run |= {"out": None, "resume": False, "verbose": False}
        pilot = replace(recipe, of_run=of_run, token=recipe.token + "-pilot")
        state = self.tried(pilot, sampler, PILOT).state
        moving, _ = state.chain
        dynamics = sampler.engine.dynamics  # with the friction that was chosen
        x = tree.map(lambda a: a[0], dynamics.position(moving))
        steps = sampler.feeder.steps_at(int(sampler.state.iteration))
        h = tree.pack(x, [np.ravel(step)[0] for step in steps])
        answer = response(dynamics, moving, h)
        if answer is None:
            raise ValueError(
                "gradient must be 'control_variates' with Shards for this sampler, of which it is "
                "not known how much wider visits of shards make its draws"
            )
        chart = sampler.engine.model.chart
        free = tree.map(np.asarray, chart.free(x))
        found = [g.gradient for _, g in self.source.each(plan.model, total, free, "data")]
        if chart.affine is not None:
            found = [chart.affine.pulled_back(g) for g in found]
        each_number = flat(tree.map(lambda a, x: np.broadcast_to(a, np.shape(x)), answer, x))
        wider = widening(np.array([flat(g) for g in found]), self.data.rows, each_number)
        if each * wider <= plan.bias:
            return
        most = int(plan.bias / wider)
        wanted = (
            f"round_iterations must be at most {most} without control variates, not {each}"
            if most
            else "gradient must be 'control_variates' with these shards"
        )
        raise ValueError(
            f"{wanted}: visits of {each if most else 1} would make draws wider by up to "
            f"{wider * (each if most else 1):.2g} of the posterior's variance, as the gradients of "
            f"the shards differ (measured), where bias={plan.bias:g} is allowed. Take "
            "gradient='control_variates', or a smaller step size"
        )

    def tried(self, recipe: Recipe, sampler: Sampler, count: int) -> Round:
        """Make some iterations of the first chain on the first shard, which do not count."""
        state = tree.map(as_array, some_chains(sampler.state, [0]))
        recipe = replace(recipe, origin=int(state.iteration))
        until = int(state.iteration) + count
        [found] = self.data.all(visit, {0: (recipe, [0], state, until, 0, self.tilts[0])})
        if found.error is not None:
            raise found.error
        return found
