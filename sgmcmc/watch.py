"""What `run` says by itself of draws that are not to be trusted, where it costs nothing.

Only the draws are looked at: a thousand of them, in the user's values. See `diagnose` for more.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from . import tree
from .draws import Draws
from .dynamics.sgld import SGLD
from .sampler import Sampler

FEWEST = 500  # draws of a chain, of which fewer say nothing
ENOUGH = 50  # effective draws
SOME = 1000  # draws that are looked at
QUANTITIES = 200  # that are looked at
FAR = 3.0  # standard deviations from the centre of control variates
INDEPENDENT = 0.5  # with a smaller autocorrelation, SGLD inflates the variance by a third
WIDE = 2.0  # a factor on the variance in white coordinates
ALARM = 6.0  # standard errors


class TrustWarning(UserWarning):
    """The draws of a run are doubtful. `sgmcmc.diagnose(draws)` says more.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf, warnings
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", sgmcmc.TrustWarning)  # rather stop than go on
    ...     try:  # a step of nearly twice the posterior's variance
    ...         sgmcmc.sgldcv(
    ...             log_lik, {"x": np.linspace(-1, 3, 1000)}, {"mean": 1.0}, 1.9e-3,
    ...             n_iters=2000, verbose=False,
    ...         )
    ...     except sgmcmc.TrustWarning as warning:
    ...         print(str(warning).split(":")[0])
    successive draws of mean are nearly independent
    """


def watch(sampler: Sampler, draws: Draws) -> None:
    """Warn once for a sampler where its draws are doubtful."""
    if sampler.warned or sampler.engine.gibbs or sampler.engine.tempered:
        return
    if sampler.state.iteration < 2 * sampler.watched:
        return  # of a chain that goes on in many runs, few are looked at
    sampler.watched = sampler.state.iteration
    found = doubts(sampler, draws)
    if found:
        sampler.warned = True
        message = f"{'; '.join(found)}. sgmcmc.diagnose(draws) says more"
        warnings.warn(message, TrustWarning, stacklevel=4)


def doubts(sampler: Sampler, draws: Draws) -> list[str]:
    """What is doubtful, in words."""
    chart, mode = sampler.engine.model.chart, sampler.mode
    if any(tree.leaves(chart.has_counts)):
        return []
    kept = {k: draws[k] for k in chart.spaces if k in draws}
    leaves = tree.leaves(kept)
    if not leaves or leaves[0].shape[1 if sampler.n_chains else 0] < FEWEST:
        return []
    values = tree.map(lambda a: np.asarray(a) if sampler.n_chains else a[None], kept)
    found = []
    first, spread = (laid(tree.map(part, values)) for part in (contiguous, apart))
    names = [
        n for n, a in zip(tree.names(values), tree.leaves(values)) for _ in range(a[0, 0].size)
    ]
    names = names[: first.shape[2]]
    rho = autocorrelation(first)
    small_steps = draws.settings["thin"] == 1 and isinstance(sampler.engine.dynamics, SGLD)
    if small_steps and settled(first, rho).any():
        error = ALARM / np.sqrt(first.shape[0] * first.shape[1])
        which = settled(first, rho) & (rho < INDEPENDENT - error)
        if which.any():
            found.append(
                f"successive draws of {listed(names, which)} are nearly independent: the step size "
                "is too large, and the draws are too wide. Divide stepsize by 5 or more, or leave "
                "it out"
            )
    rho, sd = autocorrelation(spread), spread.std(axis=(0, 1))
    ess = spread.shape[0] * spread.shape[1] * np.clip((1 - rho) / (1 + rho), 1e-9, 1)
    well = (ess > ENOUGH) & (sd > 0) & steady(spread, sd, ess)
    if mode is not None and all(k in kept for k in chart.spaces):
        centre = laid(tree.map(lambda a: np.asarray(a)[None, None], mode))[0, 0]
        with np.errstate(invalid="ignore", divide="ignore"):
            away = np.abs(spread.mean(axis=(0, 1)) - centre) / sd
            which = well & (away > FAR + ALARM / np.sqrt(ess))
        if which.any():
            found.append(
                f"draws of {listed(names, which)} are more than {FAR:g} standard deviations from "
                "the centre of the control variates, which are of no use there: take a sampler "
                "without them, or give mode="
            )
    found += of_white(sampler, values, chart)
    return found


def of_white(sampler: Sampler, values: Any, chart: Any) -> list[str]:
    """The variance in coordinates in which that of the posterior was to be 1."""
    eps = sampler.settings.get("tuning", {}).get("steps")
    if not eps or chart.affine is None or len(chart.affine.matrix.shape) != 2:
        return []
    if not chart.same("inverse") or set(values) != set(chart.spaces):
        return []
    x = laid(tree.map(apart, values), None) - np.asarray(chart.affine.centre, float)
    w = np.linalg.solve(np.asarray(chart.affine.matrix, float), x.reshape(-1, x.shape[2]).T).T
    z = w.reshape(x.shape) * np.sqrt(eps)
    rho = autocorrelation(z)
    ess = z.shape[0] * z.shape[1] * np.clip((1 - rho) / (1 + rho), 1e-9, 1)
    sd = z.std(axis=(0, 1))
    off = np.abs(2 * np.log(np.maximum(sd, 1e-9))) > np.log(WIDE) + ALARM * np.sqrt(2 / ess)
    off &= (ess > ENOUGH) & steady(z, sd, ess)
    if not off.any():
        return []
    worst = sd[np.argmax(np.where(off, np.abs(np.log(np.maximum(sd, 1e-9))), 0))]
    return [
        f"in {off.sum():,} of {len(off):,} white coordinates the variance is not near 1 (farthest: "
        f"{worst**2:.2g}): the posterior is not as its curvature at the mode says, and bias= is no "
        "bound. Compare with a quarter of the bias"
    ]


def contiguous(a: np.ndarray) -> np.ndarray:
    """Successive draws, from the end of a run."""
    return np.asarray(a[:, -SOME:])


def apart(a: np.ndarray) -> np.ndarray:
    """Some draws of the whole run."""
    return np.asarray(a[:, :: -(-a.shape[1] // SOME)])


def laid(values: Any, most: int | None = QUANTITIES) -> np.ndarray:
    """The first quantities of draws (chains, draws, ...), laid end to end."""
    x = [np.reshape(a, (*np.shape(a)[:2], -1)) for a in tree.leaves(values)]
    return np.concatenate(x, axis=2)[:, :, :most].astype(float)


def autocorrelation(x: np.ndarray) -> np.ndarray:
    """The correlation of successive draws."""
    x = x - x.mean(axis=(0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = (x[:, 1:] * x[:, :-1]).mean(axis=(0, 1)) / (x**2).mean(axis=(0, 1))
    return np.nan_to_num(rho, nan=1.0)


def settled(x: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """Whether there are enough effective draws, and both halves of the run agree."""
    ess = x.shape[0] * x.shape[1] * np.clip((1 - rho) / (1 + rho), 1e-9, 1)
    sd = x.std(axis=(0, 1))
    return (ess > ENOUGH) & (sd > 0) & steady(x, sd, ess)


def steady(x: np.ndarray, sd: np.ndarray, ess: np.ndarray) -> np.ndarray:
    """Whether the means of both halves agree, as they do not before a chain has settled."""
    middle = x.shape[1] // 2
    change = x[:, :middle].mean(axis=(0, 1)) - x[:, middle:].mean(axis=(0, 1))
    return np.abs(change) <= ALARM * 2 * sd / np.sqrt(ess)


def listed(names: list[str], which: np.ndarray) -> str:
    """The names of parameters, each once."""
    found = list(dict.fromkeys(names[i] for i in np.flatnonzero(which)))
    return ", ".join(found[:4]) + (", ..." if len(found) > 4 else "")
