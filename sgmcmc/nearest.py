"""How far draws are from other draws: the Kullback-Leibler divergence, by nearest neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import checks
from .combine.parts import SINGULAR, by_chain, check_alike, covariance, matrix


def kl_divergence(draws: Any, reference: Any, k: int = 5) -> float:
    """Estimate the Kullback-Leibler divergence of draws from reference draws, by their neighbours.

    With n draws θ_i of p numbers from a density f, and m draws of the reference g, it is

        KL(f ‖ g) ≈ (p/n) Σ_i log(ν_i / ρ_i) + log(m / (n − 1)),

    where ρ_i is the distance from θ_i to its k-th nearest neighbour among the other draws, and ν_i
    that to its k-th nearest neighbour in the reference. Distances are measured in coordinates in
    which the reference has the unit matrix as covariance. No density is estimated, and draws may
    have any distribution with a density. The estimate tends to KL(f ‖ g) as n and m grow, and may
    be below 0 by chance. A larger k has less variance and more bias.

    Draws must be nearly independent: if neighbours in a chain are neighbours in space, distances
    ρ_i are too small and the estimate is too large. Thin chains to about their effective sample
    size. In many dimensions the estimate is biased, as neighbours are far away.

    Boltz, Debreuve and Barlaud (2009), High-dimensional statistical measure for region-of-interest
    tracking, IEEE Transactions on Image Processing; Wang, Kulkarni and Verdú (2009), Divergence
    estimation for multidimensional densities via k-nearest-neighbor distances, IEEE Transactions on
    Information Theory. Needs SciPy: `pip install 'sgmcmc[data]'`.

    Parameters
    ----------
    draws : Draws, dict of arrays, or array of shape (draws,) or (draws, p)
        The draws. Chains are taken together.
    reference : Draws, dict of arrays, or array
        The draws to compare with, of the same parameters.
    k : int
        The number of the neighbour.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, sgmcmc
    >>> rng = np.random.default_rng(1)
    >>> x, y = rng.normal(size=(4000, 2)), rng.normal(1, 1, size=(4000, 2))
    >>> 0.9 < sgmcmc.kl_divergence(x, y) < 1.1  # 1 is right
    True
    >>> abs(sgmcmc.kl_divergence(x, rng.normal(size=(4000, 2)))) < 0.1
    True
    """
    k = checks.whole("k", k)
    nests = [nest_of(name, x) for name, x in (("draws", draws), ("reference", reference))]
    check_alike("reference", nests[0], nests[1], first_name="draws")
    x, y = (matrix(nest) for nest in nests)
    x, y = x.reshape(-1, x.shape[2]), y.reshape(-1, y.shape[2])
    n, p = x.shape
    m = len(y)
    if n < k + 1 or m < max(k, p + 1):
        raise ValueError(
            f"draws must be at least {k + 1:,} and reference at least {max(k, p + 1):,}, for k = "
            f"{k} and {p:,} numbers a draw, but there are {n:,} and {m:,}"
        )
    scale = y.std(axis=0)
    if (scale == 0).any() or (p > 1 and np.linalg.eigvalsh(np.corrcoef(y.T))[0] < SINGULAR):
        raise ValueError(
            "reference must have a covariance that can be inverted: leave out quantities that are "
            "constant or functions of others"
        )
    y, x = y / scale, x / scale
    root = np.linalg.cholesky(covariance(y))
    x, y = (np.linalg.solve(root, (z - y.mean(axis=0)).T).T for z in (x, y))
    own = distances(x, x, k + 1)  # the nearest is the draw itself
    other = distances(x, y, k)
    for name, found in (("draws", own), ("reference", other)):
        if not (found > 0).all():
            raise ValueError(
                f"{name} must be without repetitions, but some draw has {k} others at its place: "
                "keep one draw of each, or take a larger k"
            )
    return float(p * np.mean(np.log(other / own)) + np.log(m / (n - 1)))


def nest_of(name: str, value: Any) -> Any:
    """Return arrays (chains, draws, ...), from an array or from a dict of arrays."""
    if isinstance(value, Mapping):
        return by_chain(name, value)
    x = checks.array(name, value)
    if x.ndim not in (1, 2):
        raise ValueError(f"{name} must have shape (draws,) or (draws, p), not {x.shape}")
    return by_chain(name, {"x": x})


def distances(x: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """Return the distance of each x from its k-th nearest neighbour among y."""
    try:
        from scipy.spatial import cKDTree
    except ImportError as error:
        raise ImportError("kl_divergence needs SciPy: pip install 'sgmcmc[data]'") from error
    return cKDTree(y).query(x, k=[k])[0][:, 0]
