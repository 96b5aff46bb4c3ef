"""Preconditioned Langevin dynamics on a Gaussian, with Γ and without.

False alarms and power are those of `ztest`. The variance is compared with that of `sgld` whose
step is εG; what Γ leaves of the error is below .5 % here, and errors of 3.5 % are found.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import PSGLD, tree

from . import gaussian
from .gaussian import Case, mean_squares
from .test_stationary import too_little_noise, wrong  # noqa: F401
from .ztest import assert_mean, assert_rejected

N, EL = 40, 0.02  # rows, and ε G λ
STEP_OF = {  # a case whose eps is εG, so that the formula of sgld serves
    "plain": Case(1, EL, 0, size=16),
    "noisy": Case(4, EL / 4, 3, size=16),
    "floor": Case(1, 0.05, 0, size=16),
}


def with_step(case, floor=0.0):
    """The case with the ε for which εG is the case's, with V its expectation."""
    root = np.sqrt(case.lam + case.sigma**2) / N
    return case._replace(eps=case.eps * (floor + root))


def squares(sampler, seed, name="plain", n_iters=5000, burn_in=3000, **options):
    """Mean squares of the chains."""
    case = with_step(STEP_OF[name], options.get("floor", 0.0))
    lengths = {"n_iters": n_iters, "burn_in": burn_in}
    draws = gaussian.run(sampler, {name: case}, seed=seed, **lengths, **options)
    return mean_squares(draws[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "noisy"])
def test_variance(name, seed):
    exact = gaussian.sgld_variance(STEP_OF[name])
    assert_mean(squares(sgmcmc.psgld, seed, name), exact, detect=0.035)


@pytest.mark.slow
def test_without_gamma_draws_are_too_wide(seed):
    """By the factors that the docstring tells: a negative control of the test above."""
    exact = gaussian.sgld_variance(STEP_OF["plain"])
    found = squares(sgmcmc.psgld, seed, correction=False)
    assert_rejected(found, exact)
    assert_mean(found, 1.05 * exact, detect=0.05)
    found = squares(sgmcmc.psgld, seed, correction=False, beta=0.99)
    assert_mean(found, 1.33 * exact, detect=0.05)


@dataclass(frozen=True)
class GammaOfTheWrongSign(PSGLD):
    def seen(self, slopes, g, rate):
        right = super().seen(slopes, g, rate)
        return right._replace(slope=tree.map(lambda x: -x, right.slope))


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", [too_little_noise(PSGLD), GammaOfTheWrongSign])
def test_wrong_ones_are_rejected(seed, wrong, dynamics):  # noqa: F811
    exact = gaussian.sgld_variance(STEP_OF["plain"])
    assert_rejected(squares(wrong(dynamics), seed, n_iters=3000), exact)


FLOOR = {"beta": 0.5, "floor": 1 / N, "n_iters": 1000, "burn_in": 200}  # λ = √V


@pytest.mark.slow
def test_a_floor_as_large_as_the_gradients(seed):
    """Γ takes .5 % too much, by a long simulation with NumPy."""
    exact = gaussian.sgld_variance(STEP_OF["floor"])
    assert_mean(squares(sgmcmc.psgld, seed, "floor", **FLOOR), 0.995 * exact, detect=0.04)


@dataclass(frozen=True)
class SmallGamma(PSGLD):
    """−½ G³V′ in place of −½ G²V′/√V, which is right for λ far below √V alone."""

    def gamma(self, slope, root):
        return -slope / (2 * (self.floor + root) ** 2)


@pytest.mark.slow
def test_a_gamma_for_small_floors_is_rejected(seed, wrong):  # noqa: F811
    """If V follows ḡ² at once, draws with that Γ have the density N(0, 1) exp(−λ/(λ + |θ|))."""
    exact = gaussian.sgld_variance(STEP_OF["floor"])
    found = squares(wrong(SmallGamma), seed, "floor", **FLOOR)
    assert_rejected(found, exact)
    assert found.mean() / exact == pytest.approx(1.21, abs=0.05)


@pytest.mark.parametrize("sigma", [0, 3])
def test_first_gradients_near_0_throw_no_chain_far_away(sigma, seed):
    """All are 0, or 8,192 are random, some of them 1/1,000 of what is usual."""
    case = with_step(Case(1, EL, sigma, size=16))
    draws = gaussian.run(sgmcmc.psgld, {"x": case}, n_iters=300, burn_in=0, beta=0.9, seed=seed)
    assert np.abs(draws["x"][:, :10]).max() < 4  # 9 standard deviations or more
    assert draws["x"][:, -100:].var() > 0.5  # nor does it stay where it is


def test_a_chain_that_starts_at_its_mode_without_noise_stays_near(seed):
    x = np.random.default_rng(seed).normal(5, 1, 1000)
    draws = sgmcmc.psgld(
        lambda params, data: -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2,
        *({"x": x}, {"mean": 0.0}),
        gradient="control_variates",
        n_iters=300,
        n_chains=64,
        seed=seed,
        verbose=False,
    )
    far = np.abs(draws["mean"] - x.mean()) * np.sqrt(1000)
    assert 1 < far.max() < 8


@pytest.mark.slow
def test_one_step_size_for_many_scales(seed):
    """Precisions 1 and 25: steps have variances that differ by 5, where gradients do by 5."""
    cases = {"wide": Case(1, EL / N, 0, size=8), "narrow": Case(25, EL / N, 0, size=8)}
    draws = gaussian.run(sgmcmc.psgld, cases, n_iters=5000, burn_in=3000, seed=seed)
    for name, case in cases.items():
        step = case._replace(eps=case.eps * N / np.sqrt(case.lam))
        assert_mean(mean_squares(draws[name]), gaussian.sgld_variance(step), detect=0.05)
