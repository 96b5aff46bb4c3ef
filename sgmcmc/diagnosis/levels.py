"""How far apart two numbers must be before a finding is reported."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

RATE = 1e-3  # of false alarms of all z-tests of one diagnosis together


def level(comparisons: int, ess: Any, rate: float = RATE) -> Any:
    """Return the number of standard errors that so many two-sided comparisons exceed at a rate.

    The standard errors are from `ess` effective draws: the quantile is that of Student's t, to
    first order in 1 / ess.
    """
    z = NormalDist().inv_cdf(1 - rate / (2 * max(1, comparisons)))
    return z + (z**3 + z) / (4 * np.maximum(np.asarray(ess, float), 1))


def beyond(value: Any, error: Any, low: float, high: float) -> np.ndarray:
    """Return by how many standard errors values are outside low ... high; negative if below.

    It is 0 inside, and where a value or its error is not known.
    """
    value, error = np.asarray(value, float), np.maximum(np.asarray(error, float), 1e-300)
    outside = np.where(value > high, value - high, np.where(value < low, value - low, 0.0))
    return np.nan_to_num(outside / error, nan=0.0, posinf=1e9, neginf=-1e9)
