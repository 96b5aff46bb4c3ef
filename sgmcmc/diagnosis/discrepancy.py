"""The kernel Stein discrepancy of draws, and whether it is more than chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..stein import kernel, ksd
from .levels import RATE, level
from .scores import Scores
from .width import moments

MOST = 1000  # draws
ENOUGH = 50  # effective draws, of which fewer tell nothing


class Discrepancy(NamedTuple):
    """The discrepancy of `m` draws, beside that of as many exact ones of a Gaussian.

    Without the part of each draw with itself, which is there for exact draws, too, its square is
    `square`, which chance alone brings above `by_chance` at the stated rate. That of draws whose
    variance is wrong by as much as is allowed is `allowed`.
    """

    m: int
    ksd: float
    exact: float
    square: float
    by_chance: float
    allowed: float

    @property
    def is_too_large(self) -> bool:
        """Whether the draws are farther from the posterior than chance and bias explain."""
        return self.square > self.by_chance + self.allowed


def discrepancy(
    x: np.ndarray, scores: Scores, ess: float, bias: float, comparisons: int
) -> Discrepancy | None:
    """Compute the discrepancy of nearly independent draws, in coordinates in which they are white.

    `x` are all draws, by which coordinates are chosen. The null distribution is that of the mean of
    Wᵢ Wⱼ k₀(xᵢ, xⱼ) over pairs i ≠ j, with signs W drawn at random (Chwialkowski, Strathmann and
    Gretton 2016), by its first three moments. So it needs no Gaussian, and unbiased scores do.
    """
    p = scores.x.shape[2]
    flat, exact = scores.x.reshape(-1, p), scores.exact.reshape(-1, p)
    m = int(min(MOST, ess, len(flat)))
    if m < ENOUGH:
        return None
    at = np.linspace(0, len(flat) - 1, m).round().astype(int)
    mean, covariance = moments(x)
    if covariance.ndim == 2:
        sd = np.sqrt(np.diag(covariance))
        root = sd[:, None] * np.linalg.cholesky(covariance / np.outer(sd, sd) + 1e-12 * np.eye(p))
        z, s = np.linalg.solve(root, (flat[at] - mean).T).T, exact[at] @ root
    else:
        sd = np.sqrt(covariance)
        z, s = (flat[at] - mean) / sd, exact[at] * sd
    pairs = kernel(z, s, z, s)
    np.fill_diagonal(pairs, 0)
    square = pairs.sum() / m**2
    second = pairs @ pairs
    sd_of_it = np.sqrt(2 * np.trace(second)) / m**2
    skew = 8 * (second * pairs).sum() / m**6 / sd_of_it**3
    limit = sd_of_it * quantile(float(level(comparisons, np.inf, 2 * RATE)), skew)
    found = float(ksd(z, s))
    allowed = (2 * bias) ** 2 * curvature(p)
    return Discrepancy(m, found, float(np.sqrt(2 * p / m)), float(square), limit, allowed)


def quantile(z: float, skew: float) -> float:
    """A quantile of a Gamma distribution with mean 0, sd 1 and this skewness, by that of a normal.

    Wilson and Hilferty (1931).
    """
    if skew < 1e-6:
        return z
    return 2 / skew * ((1 + skew * z / 6 - skew**2 / 36) ** 3 - 1)


def curvature(p: int) -> float:
    """E k₀ of a Gaussian of variance v ≠ 1, over (v − 1)², in p white coordinates."""
    half = np.random.default_rng(0).chisquare(p, 100_000)  # |x − y|² / 2
    return float(np.mean((p - half) / np.sqrt(1 + 2 * half)) / 2)
