"""The variance of draws over that of the posterior, by gradients alone.

For draws of a density with scores s, and any point c, Stein's identity is −E (x − c) sᵀ = I. If
draws of a Gaussian are too wide by a factor v, it is v I instead. So the mean of −(x − c)ᵀ s / p is
1 for right draws of *any* density, and otherwise about the factor by which their variance is wrong.

What it must be for a sampler is exact, too. In the stationary distribution E |x|² does not change
from step to step, and so

- SGLD: 1 + Σ hⱼ E ĝⱼ² / (4p) + E xᵀη / p, by the gradients ĝ of minibatches and their noise η,
- SGHMC: (1 − α/2) T, by the kinetic temperature T,
- SGNHT: 1 − ξ/2, by its friction,
- BAOAB: a linear function of T,

whatever the density and the noise. E xᵀη is 0 if the noise is independent from step to step. For
minibatches that are taken in turn from a shuffled data set it is a small correction, which is
known for a Gaussian; the others are not known then. Nor is that of SGLD with `noise_estimate`. If
the friction of SGNHT is one for each coordinate, or a matrix, ξ is the mean of these, or of its
diagonal. That of `mixed` is the mean over blocks, if all have momentum. A chain for which the two
sides differ has not reached its stationary distribution, or does not move as its equation says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import tree
from ..dynamics import Dynamics
from ..dynamics.baoab import BAOAB
from ..dynamics.gsgnht import GSGNHT
from ..dynamics.mixed import Mixed
from ..dynamics.sghmc import SGHMC, friction
from ..dynamics.sgld import SGLD
from ..dynamics.sgnht import SGNHT
from ..summary import summary_of
from .evidence import Evidence
from .scores import Scores

DENSE = 500  # with more coordinates, each is looked at by itself


class Estimated(NamedTuple):
    """Means of dependent numbers, with their Monte Carlo errors and effective sample sizes."""

    mean: np.ndarray
    error: np.ndarray
    ess: np.ndarray


def estimated(series: np.ndarray) -> Estimated:
    """The means of series (chains, draws, quantities)."""
    x = np.array(series.transpose(2, 0, 1), order="C")  # a copy, which is reordered
    count, sd = x.shape[1] * x.shape[2], x.std(axis=(1, 2))
    found = summary_of(x)
    ess = np.clip(np.nan_to_num(found["ess"], nan=count), 1, count)
    return Estimated(found["mean"], sd / np.sqrt(ess), ess)


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of draws (chains, draws, p), or its diagonal if that is large."""
    flat = x.reshape(-1, x.shape[-1])
    if flat.shape[1] > DENSE or len(flat) < 5 * flat.shape[1]:
        return flat.mean(axis=0), flat.var(axis=0)
    return flat.mean(axis=0), np.atleast_2d(np.cov(flat.T))


def relative(evidence: Evidence, scores: Scores) -> tuple[np.ndarray, np.ndarray]:
    """The series of −(x − c)ᵀs / p, and by coordinate a those of −(x − c)ₐ (Σs)ₐ / Σₐₐ.

    The second tells of the marginal variance of each coordinate. The centre c and covariance Σ for
    draws of one half of the run are from the other half: with those of the same draws, the mean
    would be wrong by p over the number of effective draws.
    """
    middle = evidence.x.shape[1] // 2
    both = [moments(evidence.x[:, middle:]), moments(evidence.x[:, :middle])]
    whole, each = [], []
    for half, (centre, covariance) in zip((scores.at < middle, scores.at >= middle), both):
        away, score = scores.x[:, half] - centre, scores.exact[:, half]
        is_full = covariance.ndim == 2
        towards = score @ covariance / np.diag(covariance) if is_full else score
        whole.append(-(away * score).mean(axis=2, keepdims=True))
        each.append(-away * towards)
    return np.concatenate(whole, axis=1), np.concatenate(each, axis=1)


def by_the_sampler(
    evidence: Evidence, scores: Scores, taken_back: float | None
) -> tuple[float, np.ndarray | float] | None:
    """What the mean of −(x − c)ᵀs / p must be: its Monte Carlo error, and its value or series.

    `taken_back` is E xᵀη / p if it is known. The result is None where there is no identity.
    """
    dynamics, in_turn = evidence.origin.engine.dynamics, evidence.epoch is not None
    if evidence.origin.engine.model.chart.is_shrunk or (in_turn and taken_back is None):
        return None
    if isinstance(dynamics, SGLD):
        if scores.moved is None or scores.steps is None or dynamics.needs_rows:
            return None
        known = 1 + (scores.steps * scores.moved**2).mean(axis=2, keepdims=True) / 4
        return 0.0, known + (taken_back or 0.0)
    if in_turn:
        return None
    found = temperatures(evidence)
    size = np.array([t.size for t in found])
    if size.sum() < evidence.p or any(t.width is None for t in found):
        return None  # in `mixed`, a block may have no momentum
    mean = sum(t.width * t.size for t in found) / size.sum()
    error = np.sqrt(sum((t.width_error * t.size) ** 2 for t in found)) / size.sum()
    return float(error), float(mean)


class Temperature(NamedTuple):
    """The kinetic temperature of a parameter, and what it must be for draws to be right.

    `width` is the factor on the variance of draws that it shows, and `size` how many numbers the
    parameter has.
    """

    name: str
    size: int
    mean: float
    error: float
    ess: float
    expected: float
    width: float | None
    width_error: float
    thermostat: float | None
    drift: float  # of the thermostat, from the first half of the run to the second


def temperatures(evidence: Evidence) -> list[Temperature]:
    """The temperatures of all parameters, of samplers with momentum."""
    draws, origin = evidence.draws, evidence.origin
    stats = draws.stats.get("temperature")
    if stats is None or origin is None:
        return []
    chained = draws.settings.get("n_chains") is not None
    position = origin.engine.dynamics.position(origin.chains.moving)
    heat, frictions = by_name(stats), by_name(draws.stats.get("thermostat", {}))
    found = []
    for (name, x), step in zip(by_name(position).items(), origin.schedule):
        if name not in heat or np.ndim(heat[name]) != 1 + chained:
            continue  # in `mixed`, not all have momentum; of own samplers, it may be another number
        dynamics, T = mover(origin.engine.dynamics, name), np.asarray(heat[name], float)
        series = T[..., None] if chained else T[None, :, None]
        (mean,), (error,), (ess,) = estimated(series)
        xi, drift = None, 0.0
        if name in frictions:
            frictions_here = np.asarray(frictions[name], float)
            frictions_here = frictions_here if chained else frictions_here[None]
            if isinstance(dynamics, GSGNHT) and not callable(step):
                frictions_here = frictions_here * step  # which is in units of 1/time
            middle = frictions_here.shape[1] // 2
            parts = frictions_here[:, :middle], frictions_here[:, middle:]
            xi, drift = float(frictions_here.mean()), float(parts[1].mean() - parts[0].mean())
        expected, slope = relation(dynamics, name, xi)
        width = None if slope is None else 1 + slope * (mean - expected)
        if isinstance(dynamics, SGNHT):
            width = (1 - xi / 2) * mean
        size = int(np.prod(x.shape[1:]))
        found.append(
            Temperature(
                *(name, size, mean, error, ess),
                *(expected, width, (slope or 0) * error, xi, drift),
            )
        )
    return found


def by_name(nest: Any) -> dict[str, Any]:
    """The leaves of a nest by their paths."""
    return dict(zip(tree.names(nest), tree.leaves(nest)))


def mover(dynamics: Dynamics, name: str) -> Dynamics:
    """The dynamics that moves a parameter: in `mixed`, its block."""
    if not isinstance(dynamics, Mixed):
        return dynamics
    return dynamics.blocks[name.split("/")[0]]


def relation(dynamics: Dynamics, name: str, xi: float | None) -> tuple[float, float | None]:
    """The temperature of a parameter at which its draws are right, and how their width changes.

    The second is the change with the temperature; None if the temperature does not tell the width.
    """
    if isinstance(dynamics, SGNHT):
        return 1.0, 1 - xi / 2
    if isinstance(dynamics, SGHMC):
        alpha = by_name(friction(dynamics.alpha))[name]
        return 1 / (1 - alpha / 2), None if dynamics.resample_momentum else 1 - alpha / 2
    if isinstance(dynamics, BAOAB):
        a = by_name(friction(dynamics.alpha))[name]
        if a == 1:  # then the momentum that is recorded is noise alone
            return 1.0, None
        heat = 1 / (1 - a) ** 2  # by which E of the kicked momentum's square grows with T
        slope = a * (heat * (3 - 2 * a) + 1) / (4 * (2 - a)) + ((1 - a) * heat + 1) / 2
        return 1.0, slope
    return 1.0, None
