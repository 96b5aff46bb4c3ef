"""The error for a chain that diverged: which parameter, at which iteration, and what to try."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import tree
from .engine import Engine


class ChainDiverged(FloatingPointError):
    """The chain became NaN or infinite at `iteration`; `draws` has the draws before.

    `chains` has the numbers of the chains to which this happened.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> dataset, far_too_large = {"x": np.linspace(-1, 3, 1000)}, 0.1
    >>> try:
    ...     sgmcmc.sgld(log_lik, dataset, {"mean": 1.0}, far_too_large, seed=1, verbose=False)
    ... except sgmcmc.ChainDiverged as error:
    ...     print(str(error).split(" at ")[0])
    ...     draws = error.draws
    the log posterior became NaN or infinite
    >>> bool(np.isfinite(draws["mean"]).all())
    True
    """

    iteration: int
    chains: tuple[int, ...]
    draws: Any = None


def diverged(
    engine: Engine, draw: dict[str, Any], iteration: int, schedule: np.ndarray
) -> ChainDiverged:
    """Make the error for a draw that is not finite. `schedule` has the step sizes of that draw."""
    gibbs, names = engine.gibbs, tree.names(draw["params"])
    parts = [
        dict(zip(tree.names(part), tree.leaves(part)))
        for part in draw.values()
        if isinstance(part, dict)
    ]
    wrong = [k for k in names if not all(np.isfinite(part.get(k, 0)).all() for part in parts)]
    name = wrong[0] if wrong else ""
    what = f"the parameter {name!r}" if name else "the log posterior"
    if iteration == 0:
        message = (
            f"{what} is NaN or infinite after the first step: log_lik or log_prior is not finite "
            "where the chain starts, or for some rows of dataset, or stepsize is far too large"
        )
    else:
        moving = [k for k in names if k.split("/")[0] not in gibbs]
        steps = schedule[[moving.index(name)]] if name in moving else schedule[: len(moving)]
        message = (
            f"{what} became NaN or infinite at iteration {iteration} with stepsize "
            f"{' or '.join(f'{h:.3g}' for h in np.unique(steps))}. {advice(engine, name)}. Else "
            "see that log_lik and log_prior are finite wherever the chain may go. The draws before "
            "are in the exception's .draws"
        )
    error = ChainDiverged(message)
    error.iteration = iteration
    finite = [np.isfinite(x[0]).reshape(len(x[0]), -1).all(axis=1) for x in tree.leaves(draw)]
    error.chains = tuple(int(c) for c in np.flatnonzero(~np.all(finite, axis=0)))
    return error


def advice(engine: Engine, name: str) -> str:
    """Return the hint of `ChainDiverged` for this parameter; "" is the log posterior."""
    model, first = engine.model, name.split("/")[0]
    counts = model.chart.has_counts
    is_count = dict(zip(tree.names(counts), tree.leaves(counts)))
    if first in engine.gibbs:
        return "Most often draw is at fault: what it returned is not finite, or not possible there"
    if not (is_count[name] if name else all(is_count.values())):
        return "Most often the step is too large: try a tenth of it"
    if first in model.counted or (not name and model.counters):
        return "Most often counts is at fault: what it returned is negative or not finite there"
    return (
        "Most often log_lik is at fault: its counts ω ∂log_lik/∂ω are negative or not finite "
        "there. Write it in the probabilities as they are, not normalised again"
    )
