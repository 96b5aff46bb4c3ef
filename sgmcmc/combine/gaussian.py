"""Combinations of subposterior draws that are exact where subposteriors are Gaussian."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import checks
from ..streams import COMBINATION, stream
from .parts import Parts, covariance


def consensus(parts: Sequence[Any], *, constrain: Mapping[str, Any] | None = None) -> Any:
    """Combine draws of subposteriors by weighted averages: consensus Monte Carlo.

    With the covariance C_s of the draws of shard s, draw i is

        θ_i = (Σ_s C_s⁻¹)⁻¹ Σ_s C_s⁻¹ θ_si.

    This is exact if all subposteriors are Gaussian. It has no settings, works in many dimensions,
    and keeps chains apart, so that R̂ and effective sample sizes of the result mean what they do
    for one run. An average of draws from different modes or different arms of a bent posterior is
    in neither: of such posteriors the result is wrong.

    Scott, Blocker, Bonassi, Chipman, George and McCulloch (2016), Bayes and big data: the consensus
    Monte Carlo algorithm, International Journal of Management Science and Engineering Management.

    Parameters
    ----------
    parts : list of Draws, or list of dicts of arrays
        The draws of each shard, equally many. Arrays in dicts have shape (draws, ...); `Draws` may
        have an axis of chains. All entries are combined as parameters: leave out test functions.
    constrain : dict, optional
        As for the sampler, such as ``{"sigma": "positive"}``. Draws are then combined in free
        coordinates, where the product of the subposteriors must be the posterior. `subposteriors`
        takes care of that.

    Returns
    -------
    Draws or dict of arrays
        In the form of `parts[0]`.

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc import combine
    >>> rng = np.random.default_rng(1)
    >>> parts = [{"x": rng.normal(0, 1, 10_000)}, {"x": rng.normal(5, 2, 10_000)}]
    >>> x = combine.consensus(parts)["x"]  # the product is N(1, 0.8)
    >>> bool(abs(x.mean() - 1) < 0.1 and abs(x.var() - 0.8) < 0.1)
    True
    """
    found = Parts(parts, constrain)
    for i, x in enumerate(found.matrices):
        if x.shape != found.matrices[0].shape:
            chains, n = found.matrices[0].shape[:2]
            raise ValueError(
                f"parts must have equally many chains and draws, as draws are averaged one by one, "
                f"but parts[{i}] has {x.shape[0]:,} × {x.shape[1]:,}, and parts[0] has "
                f"{chains:,} × {n:,}"
            )
    precisions = [np.linalg.inv(covariance(x)) for x in found.pooled]
    total = sum(precisions)
    x = sum(x @ np.linalg.solve(total, p).T for x, p in zip(found.matrices, precisions))
    return found.returned(x if found.chained else x[0], "consensus", None)


def gaussian_product(
    parts: Sequence[Any],
    *,
    n_draws: int | None = None,
    constrain: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Any:
    """Draw from the product of Gaussians that have the means and covariances of the subposteriors.

    With the mean μ_s and the covariance C_s of the draws of shard s, draws are independent and from

        N(μ, C),    C = (Σ_s C_s⁻¹)⁻¹,    μ = C Σ_s C_s⁻¹ μ_s.

    By the theorem of Bernstein and von Mises, this is right where every shard has many rows.

    Neiswanger, Wang and Xing (2014), Asymptotically exact, embarrassingly parallel MCMC,
    Uncertainty in Artificial Intelligence, section 3.1.

    Parameters
    ----------
    parts : list of Draws, or list of dicts of arrays
        The draws of each shard, as for `consensus`. Shards may have different numbers of draws.
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
    >>> parts = [{"x": rng.normal(0, 1, 10_000)}, {"x": rng.normal(5, 2, 10_000)}]
    >>> x = combine.gaussian_product(parts, n_draws=5000, seed=1)["x"]  # N(1, 0.8)
    >>> x.shape, bool(abs(x.mean() - 1) < 0.1 and abs(x.var() - 0.8) < 0.1)
    ((5000,), True)
    """
    seed, found = checks.seed(seed), Parts(parts, constrain)
    n = found.count(n_draws)
    mean, total = product_of(found.pooled)
    z = stream(seed, COMBINATION).standard_normal((n, len(mean)))
    root = np.linalg.cholesky(total)
    return found.returned(mean + z @ root.T, "gaussian_product", seed)


def product_of(pooled: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and covariance of the product of Gaussians fitted to draws (draws, p)."""
    precisions = [np.linalg.inv(covariance(x)) for x in pooled]
    total = np.linalg.inv(sum(precisions))
    mean = total @ sum(p @ x.mean(axis=0) for p, x in zip(precisions, pooled))
    return mean, (total + total.T) / 2
