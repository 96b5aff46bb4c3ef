"""The Weierstrass rejection sampler: combine subposteriors in pairs, then pairs of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import checks
from ..streams import COMBINATION, stream
from .parts import Parts, covariance

NUMBERS = 2**21  # coordinates of pairs that are looked at together, which takes about 0.2 s
TURNS = 3000  # the most times that this may be expected for two shards: ten minutes


def weierstrass(
    parts: Sequence[Any],
    *,
    acceptance: float = 0.1,
    n_draws: int | None = None,
    constrain: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Any:
    """Combine draws of subposteriors by the Weierstrass rejection sampler.

    Two shards are combined by pairs of draws θ₁, θ₂ that happen to be near each other. With the
    covariances C₁ and C₂ of the draws, a pair is kept with probability

        exp(−(θ₁ − θ₂)ᵀ (C₁ + C₂)⁻¹ (θ₁ − θ₂) / 2h²),

    and gives the draw (C₁⁻¹ + C₂⁻¹)⁻¹ (C₁⁻¹θ₁ + C₂⁻¹θ₂). Shards are combined in pairs, then what
    comes out is, until one is left. Each time the bandwidth h is chosen so that a share
    `acceptance` of the pairs is kept.

    The average is exact for Gaussians with any h, as it is independent of θ₁ − θ₂. So an error only
    comes from what is not Gaussian, is of the order h², and takes many dimensions well. With an
    acceptance near 1 this is `consensus`; with a small one, draws of the result share the same
    draws of the shards. Wang and Dunson add the noise of the kernel, N(0, h²(C₁⁻¹ + C₂⁻¹)⁻¹). We
    leave it out, as their R package does.

    Wang and Dunson (2013), Parallelizing MCMC via Weierstrass sampler, arXiv:1312.4605.

    Parameters
    ----------
    parts : list of Draws, or list of dicts of arrays
        The draws of each shard, as for `consensus`. Shards may have different numbers of draws.
    acceptance : float
        The share of pairs that are kept, above 0 and at most 1. The time is proportional to
        n_draws / acceptance, and more than about ten minutes for two shards are refused.
    n_draws : int, optional
        How many draws to return; by default as many as the shard with the fewest has.
    constrain : dict, optional
        As for `consensus`.
    seed : int, optional
        Fixes the draws.

    Returns
    -------
    Draws or dict of arrays
        In the form of `parts[0]`, without an axis of chains.

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc import combine
    >>> rng = np.random.default_rng(1)
    >>> parts = [{"x": rng.gamma(3, 1, 10_000)}, {"x": rng.gamma(3, 1, 10_000)}]
    >>> x = combine.weierstrass(parts, seed=1)["x"]  # the product is Gamma(5, rate 2)
    >>> bool(abs(x.mean() - 2.5) < 0.1 and abs(x.var() - 1.25) < 0.1)
    True
    """
    seed = checks.seed(seed)
    acceptance = checks.number("acceptance", acceptance, above=0, at_most=1)
    found = Parts(parts, constrain)
    n, rng = found.count(n_draws), stream(seed, COMBINATION)
    left = found.pooled
    least = left[0].shape[1] + 2
    while len(left) > 1:
        wanted = n if len(left) == 2 else max(n, least)  # enough for a covariance
        pairs = [
            product_of_two(rng, x, y, acceptance, wanted) for x, y in zip(left[::2], left[1::2])
        ]
        left = pairs + left[len(left) - len(left) % 2 :]
    return found.returned(left[0], "weierstrass", seed)


def product_of_two(
    rng: np.random.Generator, x: np.ndarray, y: np.ndarray, acceptance: float, n: int
) -> np.ndarray:
    """Return n draws from about the product of the densities of the draws x and y."""
    least = n * x.shape[1] / (TURNS * NUMBERS)
    if acceptance < least:
        raise ValueError(
            f"acceptance must be at least {least:.1e} for {n:,} draws of {x.shape[1]:,} numbers, "
            f"not {acceptance:g}: about {n / acceptance:.0e} pairs of draws would be looked at, "
            "which takes too long. Or take a smaller n_draws"
        )
    of_x, of_y = covariance(x), covariance(y)
    total = of_x + of_y
    root = np.linalg.cholesky(total)
    far_x, far_y = (np.linalg.solve(root, z.T).T for z in (x, y))
    near_x, near_y = (z @ np.linalg.solve(total, c) for z, c in ((x, of_y), (y, of_x)))
    size = int(np.clip(n / acceptance, 1000, max(1000, NUMBERS // x.shape[1])))
    rate, kept, count = None, [], 0
    while count < n:
        i, j = rng.integers(0, len(x), size), rng.integers(0, len(y), size)
        squared = ((far_x[i] - far_y[j]) ** 2).sum(axis=1)
        if rate is None:
            rate = rate_of(squared, acceptance)
        near = rng.random(size) < np.exp(-rate * squared)
        kept.append(near_x[i[near]] + near_y[j[near]])
        count += len(kept[-1])
    return np.concatenate(kept)[:n]


def rate_of(squared: np.ndarray, acceptance: float) -> float:
    """Return the rate 1/2h² with which exp(−rate · squared) has the mean `acceptance`."""
    low, high = 0.0, 1 / max(np.median(squared), np.finfo(float).tiny)
    while np.exp(-high * squared).mean() > acceptance and high < 1e100:  # equal draws are kept
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        if np.exp(-middle * squared).mean() > acceptance:
            low = middle
        else:
            high = middle
    return high
