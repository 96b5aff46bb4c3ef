"""Choose step sizes and other settings by a race: successive halving within a time budget.

`arms.py` makes the arms from the user's grid, `program.py` runs those that differ in step size
alone as chains of one compiled program, `discrepancy.py` scores their draws, and `table.py` has the
result.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import api, checks, tree
from ..describe import ROWS, SAMPLERS, Row, bound
from ..distributed.shards import Shards
from ..plan import Plan
from .arms import Arm, choices, combined, default_steps, steps_of
from .discrepancy import Discrepancy
from .program import Program
from .rounds import Rounds
from .table import Race

NOT_HERE = ("stepsize", "n_chains", "starts")
PART = (
    "pass the rows of one shard, or some rows of all, as arrays. The best step size is about "
    "inversely proportional to the number of rows"
)


def tune(
    sampler: Callable,
    log_lik: Callable[[dict, dict], Any] | None,
    dataset: Mapping[str, Any] | Any,
    params: Mapping[str, Any],
    *,
    grid: Mapping[str, Any] | None = None,
    seconds: float = 60.0,
    loss: Callable[[dict], Any] | None = None,
    seed: int | None = None,
    verbose: bool = True,
    **arguments: Any,
) -> Race:
    """Choose the step size and other settings of a sampler by a race (MAMBA).

    All combinations of the values in `grid` are the arms of a race in rounds. In each round all
    arms that are left run for equal times, from where they stand, and are scored by draws from the
    round's later half. The better half goes on to the next round, with twice the time for each,
    until one is left. An arm that diverges leaves the race. Arms that differ in step size alone run
    side by side, as chains of one compiled program.

    Scores are a kernel Stein discrepancy, which sees both bias and slow mixing: the root of the
    mean, over coordinates, of the squares of `stein.ksd` of single ones. It is 0 for many exact
    draws, about .2 for a hundred, and 1 for a chain that stays at the mode. Of more than 5,000
    rows, it looks at 5,000, the same for all arms. With `loss`, scores are its averages over draws.
    Take a loss for networks, whose posterior no chain explores.

    The best settings are those for a chain of about the length that the last round has, from
    `params`: shorter races prefer larger steps. As time decides how many iterations there are in a
    round, results depend on the speed of the machine, even with the same seed.

    Coullon, South and Nemeth (2023), Efficient and generalizable tuning strategies for stochastic
    gradient MCMC, Statistics and Computing.

    Parameters
    ----------
    sampler : function
        A sampler of this package, such as `sgmcmc.sghmc`.
    log_lik : function of (params, data)
        The log likelihood, as for the sampler.
    dataset : dict of arrays or DataFrame
        The data, as for the sampler, but not `Shards`: a race runs on this machine.
    params : dict of arrays
        Starting values of all arms.
    grid : dict of lists, optional
        Values to try, by argument: `stepsize`, `minibatch_size`, and the sampler's own, such as
        `alpha` and `L`. Without `stepsize`, step sizes are tried in steps of 2 over a range that
        the gradients of single rows give at `params`: with v for one over the largest curvature
        of a coordinate that these tell, from .03 v n/N to 2v; for `scir` from .02 n/N to 1.
    seconds : float
        The time of the race, without that to set up and compile its programs.
    loss : function of params, optional
        What to make small, in TensorFlow operations, such as the log loss of held-out data.
    seed : int, optional
        Fixes the arms' random numbers, and the rows that scores look at.
    verbose : bool
        Show a line for each round, on the standard error stream.
    arguments : keyword arguments
        Other arguments of the sampler, for all arms, such as `log_prior`.

    Returns
    -------
    Race
        A table of all arms, the best first. `Race.best` has its settings.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> dataset = {"x": np.random.default_rng(1).normal(5, 1, 10_000)}
    >>> table = sgmcmc.tune(
    ...     sgmcmc.sgld, log_lik, dataset, {"mean": 5.0}, minibatch_size=0.1, seed=1,
    ...     grid={"stepsize": np.geomspace(1e-9, 1, 10)}, seconds=1.0, verbose=False,
    ... )
    >>> 1e-7 <= table.best["stepsize"] <= 1e-3
    True
    >>> draws = sgmcmc.sgld(
    ...     log_lik, dataset, {"mean": 5.0}, minibatch_size=0.1, **table.best,
    ...     n_iters=1000, seed=1, verbose=False,
    ... )
    """
    row = row_of(sampler)
    seconds = checks.number("seconds", seconds, above=0)
    verbose, seed = checks.boolean("verbose", verbose), checks.seed(seed)
    check_arguments(row, dataset, arguments)
    known = choices(row, {} if grid is None else grid, params)
    for name in known:
        if name in arguments:
            raise TypeError(f"{name} is both in grid and an argument: give it once")
    given = {**arguments, "log_lik": log_lik, "dataset": dataset, "params": params}
    began = time.perf_counter()
    programs: list[Program] = []
    try:
        track, scorer = set_up_programs(programs, row, known, given, loss, seed)
        rounds = Rounds(programs, scorer, track, seconds, seed, verbose)
        rounds.setting_up = time.perf_counter() - began
        rounds.run()
        return rounds.table()
    finally:
        for program in programs:
            program.sampler.feeder.close()


def check_arguments(row: Row, dataset: Any, arguments: Mapping[str, Any]) -> None:
    """Check that a race has these arguments, and data that are on this machine."""
    if isinstance(dataset, Shards):
        raise ValueError(f"dataset must not be Shards for tune, which runs on this machine: {PART}")
    if "client" in arguments:
        raise TypeError(
            "tune() has no argument 'client', as it runs on this machine: leave it out. If the "
            f"data are too large for that, {PART}"
        )
    known = inspect.signature(getattr(api, f"{row.name}_setup")).parameters
    for name in arguments:
        if name in NOT_HERE:
            where = "give it in grid, as a list" if name == "stepsize" else "leave it out"
            raise TypeError(f"tune() has no argument {name!r}, as arms run as chains: {where}")
        if name in inspect.signature(SAMPLERS[row.name]).parameters and name not in known:
            raise TypeError(
                f"tune() has no argument {name!r}, which is of a run: give it to {row.name}, with "
                "the settings that tune has chosen"
            )
        if name not in known:
            raise TypeError(f"tune() has no argument {name!r}{checks.nearest(name, known)}")


def row_of(sampler: Any) -> Row:
    """Return the row of a public sampler."""
    for name, function in SAMPLERS.items():
        if sampler in (function, getattr(api, f"{name}_setup")):
            return ROWS[name]
    raise TypeError(
        "sampler must be one of this package, such as sgmcmc.sghmc (or sgmcmc.sample, for dynamics "
        f"of your own), not {checks.described(sampler)}"
    )


def set_up_programs(
    programs: list[Program],
    row: Row,
    known: dict[str, list],
    given: dict[str, Any],
    loss: Any,
    seed: int,
) -> tuple[Any, Discrepancy | None]:
    """Append the programs of all arms, and return what scores them: a loss or a discrepancy."""
    setup = getattr(api, f"{row.name}_setup")
    others = {k: values for k, values in known.items() if k != "stepsize"}
    stepsizes = known.get("stepsize")
    track, scorer = None, None
    for settings in combined(others):
        first = 1.0 if stepsizes is None else stepsizes[0]
        call = {**given, **settings, "stepsize": first, "seed": seed, "verbose": False}
        if "resume" in call:
            raise TypeError("tune() cannot resume a run")
        try:
            complete = bound(setup, (), call)
        except TypeError as error:  # the user has not called the setup
            raise TypeError(str(error).replace(setup.__name__, row.name)) from None
        plan = row.plan(complete)
        if not programs:
            if loss is None:
                check_scored(plan, row.name)
                scorer = Discrepancy(plan.model, plan.source, seed)
            else:
                track = checks.track({"loss": loss}, plan.params)
                if np.ndim(track["loss"].program(checks.tensors((plan.params,))[0])):
                    raise ValueError("loss must return one number: take its tf.reduce_mean")
        some = default_steps(plan) if stepsizes is None else stepsizes
        arms = [Arm({**settings, "stepsize": h}, steps_of(plan, h)) for h in some]
        programs.append(Program(plan, arms))
        given = {**given, "dataset": plan.source.given}  # converted, and not to be copied again
        mode = programs[0].sampler.mode
        if mode is not None and "mode" in call and given.get("mode") is None:
            given["mode"] = tree.map(np.asarray, mode)  # not searched for again
    return track, scorer


def check_scored(plan: Plan, name: str) -> None:
    """Check that draws can be scored by the gradient of the log posterior."""
    if any(tree.leaves(plan.model.chart.has_counts)) or plan.gibbs or plan.model.counters:
        raise ValueError(
            f"{name} needs loss: without it, draws are scored by the gradient of the log posterior "
            "by all parameters, but some are probabilities, or drawn by Gibbs steps"
        )
    if plan.model.chart.has_manifold:
        raise ValueError(f"{name} needs loss: draws on a manifold are not scored by gradients")
    if plan.temperature != 1:
        raise ValueError("loss must be given where temperature is not 1")
