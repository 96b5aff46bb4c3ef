"""Stochastic gradient Barker dynamics against their exact law on a Gaussian, by quadrature.

False alarms and power are those of `ztest`: comparisons find relative errors of 3 %, and of 4 %
with the correction, whose law is known to .5 % as it learns the size of the noise on the way.
"""

import functools
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import expit

import sgmcmc
from sgmcmc.dynamics.sgbarker import PROBIT, SPREAD, SGBarker

from . import gaussian, slow
from .gaussian import Case, mean_squares
from .test_stationary import wrong  # noqa: F401
from .ztest import assert_mean, assert_normal, assert_rejected

EXACT = {"small_step": Case(1, 0.1, 0, size=8), "large_step": Case(4, 0.2, 0, size=8)}
NOISY = {"noisy": Case(1, 0.1, 2, size=8), "noisier": Case(2, 0.1, 4, size=8)}


@functools.cache
def variance_of(case, corrected):
    """The variance of the stationary law: the chain's kernel on a grid, and its powers.

    A move to y from x has the density q(|y − x|) P(favour), where q is that of the length of moves.
    The chain takes half the mean square of how the gradient changes for the noise's variance. This
    is σ² + λ²ε/2 + λ E(Δx η), as the noise η of the last gradient had a part in the last move.
    """
    y = np.linspace(-9, 9, 1001) / np.sqrt(case.lam)
    move, noise = y[:, None] - y, case.sigma * np.linspace(-5, 5, 101)
    weights = np.exp(-(np.linspace(-5, 5, 101) ** 2) / 2)
    weights /= weights.sum()
    length, spread = np.sqrt(case.eps * (1 - SPREAD**2)), SPREAD * np.sqrt(case.eps)
    density = np.exp(-0.5 * ((np.abs(move) - length) / spread) ** 2)
    density /= density.sum(axis=0) / 2
    near = density > 1e-10
    steps, starts = move[near], np.broadcast_to(y, move.shape)[near]
    cross = 0.0
    for _ in range(5 if corrected and case.sigma else 1):
        tau2 = case.sigma**2 + case.lam**2 * case.eps / 2 + case.lam * cross
        left = PROBIT**2 - steps**2 * tau2
        factor = np.where(left > 0, PROBIT / np.sqrt(np.where(left > 0, left, 1)), 1e9)
        favour = (factor if corrected else 1) * steps
        up = expit(favour[:, None] * (-case.lam * starts[:, None] + noise))
        kernel = np.zeros_like(move)
        kernel[near] = density[near] * (up @ weights)
        kernel /= kernel.sum(axis=0)
        power = kernel
        for _ in range(12):  # 2¹² steps
            power = power @ power
        law = power[:, 500]
        with_noise = np.zeros_like(move)
        with_noise[near] = density[near] * steps * (up @ (weights * noise))
        cross = with_noise.sum(axis=0) @ law
    return law @ y**2


@pytest.mark.slow
def test_known_variances():
    """Those that the docstring tells."""
    for sigma, plain, corrected in ((5, 1.48, 1.09), (2, 1.12, 1.05)):
        case = Case(1, 0.1, sigma)
        assert variance_of(case, False) == pytest.approx(plain, abs=0.01)
        assert variance_of(case, True) == pytest.approx(corrected, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("corrected", [False, True])
def test_variance(corrected, seed):
    cases, detect = (NOISY, 0.04) if corrected else (EXACT | NOISY, 0.03)
    more = {"N": 400, "n": 40, "corrected": corrected}  # so that noise is nearly Gaussian
    draws = gaussian.run(sgmcmc.sgbarker, cases, n_iters=2000, seed=seed, **more)
    for name, case in cases.items():
        assert_mean(mean_squares(draws[name]), variance_of(case, corrected), detect)
    if not corrected:
        assert_normal(draws["small_step"], variance_of(EXACT["small_step"], False), detect=0.04)


@pytest.mark.slow
def test_the_correction_is_seen(seed):
    """Negative control: with and without it are told apart."""
    for corrected in (False, True):
        draws = gaussian.run(sgmcmc.sgbarker, NOISY, n_iters=500, corrected=corrected, seed=seed)
        for name, case in NOISY.items():
            assert_rejected(mean_squares(draws[name]), variance_of(case, not corrected))


@dataclass(frozen=True)
class HalfFavour(SGBarker):
    """The choice of direction by half the gradient."""

    def update(self, chain, estimate, noise, h):
        half = {k: g / 2 for k, g in estimate.gradient.items()}
        return super().update(chain, estimate._replace(gradient=half), noise, h)


@dataclass(frozen=True)
class OtherSide(SGBarker):
    """Uniforms that are too small: moves uphill too often."""

    def update(self, chain, estimate, noise, h):
        less = {k: 0.95 * u for k, u in noise.uniforms.items()}
        return super().update(chain, estimate, noise._replace(uniforms=less), h)


@pytest.mark.parametrize("dynamics", [slow(HalfFavour), slow(OtherSide)])
def test_wrong_ones_are_rejected(seed, wrong, dynamics):  # noqa: F811
    draws = gaussian.run(wrong(dynamics), EXACT, n_iters=1000, corrected=False, seed=seed)
    for name, case in EXACT.items():
        assert_rejected(mean_squares(draws[name]), variance_of(case, False))


def test_gradients_that_are_far_too_large_do_no_harm(seed):
    """Where Langevin dynamics diverge: at ελ = 100 their steps double the distance and more."""
    case = {"theta": Case(1e4, 0.01, 0)}
    draws = gaussian.run(sgmcmc.sgbarker, case, n_iters=200, seed=seed)
    assert np.abs(draws["theta"]).max() < 1
    with pytest.raises(sgmcmc.ChainDiverged):
        gaussian.run(sgmcmc.sgld, case, n_iters=200, seed=seed)
