"""Products of kernel density estimates of the subposteriors, sampled by chains of indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import checks
from ..streams import COMBINATION, stream
from .gaussian import product_of
from .parts import Parts, covariance

ANNEALED = 2 / 3  # the share of the sweeps during which the bandwidth falls


def kde_product(
    parts: Sequence[Any],
    *,
    semiparametric: bool = False,
    bandwidth: float | None = None,
    n_sweeps: int = 100,
    n_draws: int | None = None,
    constrain: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Any:
    """Draw from the product of kernel density estimates of the subposteriors.

    Coordinates are made white by the average covariance of the subposteriors, and each density is
    estimated by M Gaussian kernels of standard deviation h around its draws. The product of W
    estimates is a mixture of Gaussians, one for each way t to take a draw from every shard: with
    the mean θ̄ of these draws, its weight and its component are

        w = Π_s N(θ_s | θ̄, h²),    N(θ | θ̄, h²/W).

    With `semiparametric=True`, the estimates are of the ratios of the subposteriors to Gaussians
    with their means μ_s and covariances C_s. With the product N(μ, C) of these, that is

        w N(θ̄ | μ, C + h²/W) / Π_s N(θ_s | μ_s, C_s),
        N(θ | V (W θ̄/h² + C⁻¹μ), V),    V = (W/h² + C⁻¹)⁻¹,

    which has little bias where subposteriors are nearly Gaussian.

    Each draw of the result is the end of a chain of its own through the M^W components, and is
    independent of the others, given those of the shards. A sweep proposes another draw of each
    shard in turn, uniformly, and accepts it by the rule of Metropolis (algorithm 1 of the paper).
    During the first two thirds of the sweeps, h falls from 1 to the bandwidth. The time is
    proportional to n_draws × n_sweeps × W.

    Kernels make Gaussian subposteriors wider by a factor 1 + h² in the variance, without
    `semiparametric`. In more than a few dimensions few proposals are accepted, and many shards need
    many sweeps: if twice as many change the result, take still more. `weierstrass` and `consensus`
    go further.

    Neiswanger, Wang and Xing (2014), Asymptotically exact, embarrassingly parallel MCMC,
    Uncertainty in Artificial Intelligence, sections 3.2 and 3.3.

    Parameters
    ----------
    parts : list of Draws, or list of dicts of arrays
        The draws of each shard, as for `consensus`. Shards may have different numbers of draws.
    semiparametric : bool
        Multiply kernels by Gaussians.
    bandwidth : float, optional
        The standard deviation h of the kernels, in units of that of a subposterior. By default
        M^(−1/(4 + p)) for p numbers and M draws of the shard with the fewest.
    n_sweeps : int
        Sweeps of each chain.
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
    >>> x = combine.kde_product(parts, n_draws=5000, seed=1)["x"]  # the product is Gamma(5, rate 2)
    >>> bool(abs(x.mean() - 2.5) < 0.1 and abs(x.var() - 1.25) < 0.1)
    True
    """
    seed = checks.seed(seed)
    semiparametric = checks.boolean("semiparametric", semiparametric)
    n_sweeps = checks.whole("n_sweeps", n_sweeps)
    if bandwidth is not None:
        bandwidth = checks.number("bandwidth", bandwidth, above=0)
    found = Parts(parts, constrain)
    n, rng = found.count(n_draws), stream(seed, COMBINATION)
    fewest, p = min(map(len, found.pooled)), found.pooled[0].shape[1]
    h = fewest ** (-1 / (4 + p)) if bandwidth is None else bandwidth
    root = np.linalg.cholesky(np.mean([covariance(x) for x in found.pooled], axis=0))
    white = [np.linalg.solve(root, x.T).T for x in found.pooled]
    if semiparametric:
        mean, product = product_of(white)
        variances, axes = np.linalg.eigh(product)
        white, root = [x @ axes for x in white], root @ axes
        part = Tilted(white, mean @ axes, variances)
    else:
        part = Kernels(white)
    x = part.draw(rng, part.centres(rng, n, falling(h, n_sweeps)), h)
    return found.returned(x @ root.T, "kde_product", seed)


def falling(h: float, n_sweeps: int) -> np.ndarray:
    """Return the bandwidth of each sweep: from 1, or h if that is larger, down to h."""
    steps = int(ANNEALED * n_sweeps)
    start = max(1.0, h)
    return np.concatenate([np.geomspace(start, h, steps + 1)[:-1], np.full(n_sweeps - steps, h)])


class Kernels:
    """The product of kernel density estimates, of draws (draws, p) of each shard."""

    def __init__(self, shards: list[np.ndarray]) -> None:
        self.shards = shards

    def centres(self, rng: np.random.Generator, n: int, bandwidths: np.ndarray) -> np.ndarray:
        """Return the mean θ̄ of the draws at which each of n chains of indices ends."""
        W = len(self.shards)
        chosen = [rng.integers(0, len(x), n) for x in self.shards]
        total = np.zeros((n, self.shards[0].shape[1]))
        for x, t in zip(self.shards, chosen):
            total += x[t]
        for h in bandwidths:
            for s, x in enumerate(self.shards):
                old, new = chosen[s], rng.integers(0, len(x), n)
                rest = total - x[old]
                others = rest / (W - 1)
                away = ((x[new] - others) ** 2).sum(axis=1) - ((x[old] - others) ** 2).sum(axis=1)
                log_ratio = -(W - 1) / W * away / (2 * h**2)
                log_ratio += self.log_factor(s, new, rest, h) - self.log_factor(s, old, rest, h)
                accepted = -rng.standard_exponential(n) < log_ratio
                chosen[s] = np.where(accepted, new, old)
                total = rest + x[chosen[s]]
        return total / W

    def log_factor(self, s: int, t: np.ndarray, rest: np.ndarray, h: float) -> Any:
        """Return the log of what weights have beside kernels, up to terms without draw t of s."""
        return 0.0

    def draw(self, rng: np.random.Generator, centres: np.ndarray, h: float) -> np.ndarray:
        """Draw from the component around each centre."""
        return centres + h / np.sqrt(len(self.shards)) * rng.standard_normal(centres.shape)


class Tilted(Kernels):
    """The same for semiparametric estimates, in coordinates where C is diagonal."""

    def __init__(self, shards: list[np.ndarray], mean: np.ndarray, variances: np.ndarray) -> None:
        super().__init__(shards)
        self.mean, self.variances = mean, variances
        self.against = []  # −log N(θ_s | μ_s, C_s) of each draw, up to a constant
        for x in shards:
            centred = x - x.mean(axis=0)
            self.against.append(
                0.5 * (centred @ np.linalg.inv(covariance(x)) * centred).sum(axis=1)
            )

    def log_factor(self, s: int, t: np.ndarray, rest: np.ndarray, h: float) -> Any:
        W = len(self.shards)
        off = (rest + self.shards[s][t]) / W - self.mean
        return self.against[s][t] - 0.5 * (off**2 / (self.variances + h**2 / W)).sum(axis=1)

    def draw(self, rng: np.random.Generator, centres: np.ndarray, h: float) -> np.ndarray:
        precision = len(self.shards) / h**2
        variances = 1 / (precision + 1 / self.variances)
        means = variances * (precision * centres + self.mean / self.variances)
        return means + np.sqrt(variances) * rng.standard_normal(centres.shape)
