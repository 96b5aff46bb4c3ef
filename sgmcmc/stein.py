"""How far draws are from a distribution whose score is known, and which of them stand for it best.

The score is the gradient of the log density. The kernel Stein discrepancy compares draws with the
density without knowing its constant, and unlike effective sample sizes it sees bias.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from . import checks

BYTES = 64 << 20  # of the pairs of draws that are looked at together


def ksd(draws: np.ndarray, scores: np.ndarray) -> float:
    """Compute the kernel Stein discrepancy of draws, with the inverse multiquadric kernel.

    It is the root of the mean of k₀(x, y) over all pairs of draws, each with itself included. With
    the scores s, d = x − y, p dimensions and u = 1 + ‖d‖²,

        k₀(x, y) = u^(−1/2) s(x)ᵀs(y) + u^(−3/2) (s(x) − s(y))ᵀd + p u^(−3/2) − 3 ‖d‖² u^(−5/2),

    which belongs to the kernel u^(−1/2). It tends to 0 as draws of the density become more, and to
    a positive number for those of another one. The kernel looks at distances of about 1: scale
    coordinates to a standard deviation of about 1, and divide scores by the same factors. Even m
    exact draws have a discrepancy of about √(E k₀(x, x) / m). The time is proportional to m², the
    memory to m.

    Gorham and Mackey (2017), Measuring sample quality with kernels, ICML.

    Parameters
    ----------
    draws : array of shape (m,) or (m, p)
        The draws.
    scores : array
        The gradient of the log density at each draw, in the same shape.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc import stein
    >>> x = np.random.default_rng(1).normal(size=(1000, 2))
    >>> good, too_wide = stein.ksd(x, -x), stein.ksd(1.3 * x, -1.3 * x)
    >>> bool(good < 0.1 < too_wide)
    True
    """
    x, s = pairs_of(draws, scores)
    total = sum(kernel(x[i], s[i], x, s).sum() for i in blocks(len(x)))
    return float(np.sqrt(max(total, 0.0)) / len(x))


def thin(draws: np.ndarray, scores: np.ndarray, m: int) -> np.ndarray:
    """Choose draws that together stand for a density best: Stein thinning.

    One after the other, the draw is taken that makes the kernel Stein discrepancy of those taken so
    far smallest. So draws from before the chain was stationary are left out, and a chain that is
    too wide is made up for to some degree. A draw may be taken more than once. The time is
    proportional to m times the number of draws.

    Riabiz, Chen, Cockayne, Swietach, Niederer, Mackey and Oates (2022), Optimal thinning of MCMC
    output, Journal of the Royal Statistical Society B.

    Parameters
    ----------
    draws : array of shape (draws,) or (draws, p)
        The draws; scale coordinates as for `ksd`.
    scores : array
        The gradient of the log density at each draw, in the same shape.
    m : int
        How many draws to choose.

    Returns
    -------
    array of int
        Their numbers, in the order in which they were chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc import stein
    >>> x = np.random.default_rng(1).normal(size=1000)
    >>> chosen = stein.thin(x, -x, 10)
    >>> bool(abs(x[chosen].mean()) < 0.2)
    True
    """
    x, s = pairs_of(draws, scores)
    m = checks.whole("m", m)
    objective = np.concatenate([diagonal(x[i], s[i]) for i in blocks(len(x))]) / 2
    chosen = np.empty(m, int)
    for k in range(m):
        i = chosen[k] = np.argmin(objective)
        objective += kernel(x[i : i + 1], s[i : i + 1], x, s)[0]
    return chosen


def pairs_of(draws: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws and their scores as finite arrays (m, p) in float64."""
    found = []
    for name, value in (("draws", draws), ("scores", scores)):
        x = checks.array(name, value).astype(float)
        if x.ndim not in (1, 2):
            raise ValueError(f"{name} must have shape (m,) or (m, p), not {x.shape}")
        if not np.isfinite(x).all():
            raise ValueError(f"{name} must be finite, but has NaN or infinite values")
        found.append(x)
    x, s = found
    if x.shape != s.shape:
        raise ValueError(f"scores must have the shape of draws, {x.shape}, not {s.shape}")
    return x.reshape(len(x), -1), s.reshape(len(x), -1)


def blocks(m: int) -> Iterator[slice]:
    """Parts of m draws, whose pairs with all draws take a bounded amount of memory."""
    size = max(1, BYTES // (8 * m))
    return (slice(start, start + size) for start in range(0, m, size))


def kernel(x: np.ndarray, s: np.ndarray, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """k₀ of all pairs of draws x with scores s, and draws y with scores t."""
    p = x.shape[1]
    squared = np.maximum((x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * x @ y.T, 0)
    u = 1 + squared
    root = 1 / np.sqrt(u)
    towards = (s * x).sum(axis=1)[:, None] + (t * y).sum(axis=1) - s @ y.T - x @ t.T
    return root * (s @ t.T + (towards + p - 3 * squared / u) / u)


def diagonal(x: np.ndarray, s: np.ndarray) -> np.ndarray:
    """k₀ of each draw with itself."""
    return (s**2).sum(axis=1) + x.shape[1]
