"""The step size of samplers of probabilities, by the exact moments of their transitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..curvature import Curvature, flat, in_pieces, unflat
from ..dynamics.scir import SCIR
from ..dynamics.scircv import SCIRCV
from ..model import Model
from ..moments import scircv_moments
from ..source import Source
from . import Tuned, noise_scale, spread
from .epochs import Epoch, in_epochs
from .near import coordinate_names

LARGEST = 1.0
HALVINGS = 25
SETTLED = 12.0  # the time after which the variance is that of the stationary distribution


def tuned(
    model: Model,
    source: Source,
    n: int,
    x: Any,
    dynamics: SCIR,
    bias: float,
    epoch: Epoch | None,
) -> Tuned:
    """Choose the largest step with which no component is wider than 1 + bias times what is right.

    The noise in â is that of the counts of single rows at x. The mean of θ is a linear recursion
    with this noise, θ ← e⁻ʰ θ + (1 − e⁻ʰ) â.
    """
    curvature, theta = Curvature(model, source, x), flat(x)
    point = unflat(theta, x, curvature.dtype)
    total, square = np.zeros(curvature.p), np.zeros(curvature.p)
    for rows, _ in in_pieces([(source, 1.0)], curvature.p):
        counts = curvature.gradients(point, rows)
        total, square = total + counts.sum(axis=0), square + (counts**2).sum(axis=0)
    a = flat(model.traced_prior(point).gradient) + total
    variance = np.maximum(square - total**2 / source.N, 0) / max(source.N - 1, 1)
    variance *= noise_scale(source.N, n)

    def inflation(h: float) -> np.ndarray:
        added = math.tanh(h / 2) * variance
        if epoch is not None:
            stay, kick = np.full((1, 1, 1), math.exp(-h)), np.full((1, 1), -math.expm1(-h))
            share, _ = in_epochs(stay, np.zeros((1, 1, 1)), kick, np.ones(1), 1, epoch)
            added = variance * share
        plain = 1 + added / a
        if not isinstance(dynamics, SCIRCV):
            return plain
        controlled = (a > 1) & (variance <= (a - 1) ** 2)
        plain[controlled] = with_control(a[controlled], variance[controlled], h, dynamics.form)
        return plain

    h = largest(lambda h: bool((inflation(h) <= 1 + bias).all()))
    found = inflation(h)
    names = coordinate_names(x)
    report = {
        "directions": curvature.p,
        "noise": spread(variance / a),
        "stepsize": [h, h, h],
        "inflation": spread(found),
        "ess": [math.tanh(h / 2)] * 3,
        "slowest": [names[int(np.argmax(found))]],
    }
    return Tuned(None, dynamics, h, report)


def with_control(a: np.ndarray, variance: np.ndarray, h: float, form: str) -> np.ndarray:
    """The variance of θ over a, with control variates and â that has two values.

    Their mean is a, and their variance that of â.
    """
    sd = np.minimum(np.sqrt(variance), 0.999 * a)  # â is positive
    values = np.stack([a - sd, a + sd], axis=-1)
    a_hat = values, np.full_like(values, 0.5)
    return scircv_moments(a, a, a_hat, h, math.ceil(SETTLED / h), form).variance / a


def largest(fits: Callable[[float], bool]) -> float:
    """The largest step size that fits."""
    if fits(LARGEST):
        return LARGEST
    low, high = math.log(1e-6), math.log(LARGEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(math.exp(middle)) else (low, middle)
    return math.exp(low)
