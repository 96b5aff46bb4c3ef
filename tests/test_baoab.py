"""BAOAB against exact answers: on a Gaussian in closed form, elsewhere by quadrature.

False alarms and power are those of `ztest`: comparisons find relative errors of 3 %.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf
from scipy.ndimage import map_coordinates, spline_filter

import sgmcmc
from sgmcmc import BAOAB, tree

from . import gaussian, slow
from .gaussian import Case, mean_squares
from .test_stationary import too_little_noise, wrong  # noqa: F401
from .ztest import assert_mean, assert_normal, assert_rejected

CASES = {
    "large_step": Case(1, 2.0, 0, 0.3, size=8),
    "noisy": Case(2, 0.1, 2, 0.3, size=8),
    "stiff": Case(20, 0.1, 3, 0.5, size=8),
    "all_friction": Case(3, 0.2, 1, 1.0, size=8),
}


def run(sampler, seed, **more):
    alpha = {name: case.alpha for name, case in CASES.items()}
    return gaussian.run(sampler, CASES, alpha=alpha, n_iters=2500, seed=seed, **more)


@pytest.mark.slow
def test_variance_and_temperature(seed):
    draws = run(sgmcmc.baoab, seed)
    for name, case in CASES.items():
        assert_mean(mean_squares(draws[name]), gaussian.baoab_variance(case))
        temperature = draws.stats["temperature"][name].mean(axis=1)
        assert_mean(temperature, gaussian.baoab_temperature(case))
    assert_normal(draws["large_step"], gaussian.baoab_variance(CASES["large_step"]))


@dataclass(frozen=True)
class EulersFriction(BAOAB):
    """The noise of SGHMC, 2αε, where friction is exact and wants α(2 − α)ε."""

    def update(self, chain, estimate, noise, h):
        more = tree.map(lambda z, a: z * (2 / (2 - a)) ** 0.5, noise.normals, self.alpha)
        return super().update(chain, estimate, noise._replace(normals=more), h)


@dataclass(frozen=True)
class DriftAtOnce(BAOAB):
    """Both halves of the drift before the friction."""

    def update(self, chain, estimate, noise, h):
        right = super().update(chain, estimate, noise, h)
        kicked = tree.map(lambda v, g, h: v + h * g, chain.nu, estimate.gradient, h)
        return right._replace(x=tree.map(tf.add, chain.x, kicked))


@pytest.mark.parametrize(
    "dynamics", [slow(too_little_noise(BAOAB)), slow(EulersFriction), slow(DriftAtOnce)]
)
def test_wrong_ones_are_rejected(seed, wrong, dynamics):  # noqa: F811
    draws = run(wrong(dynamics), seed)
    case = CASES["large_step"]
    assert_rejected(mean_squares(draws["large_step"]), gaussian.baoab_variance(case))


# A target that is no Gaussian: exp(−√(1 + x⁴))


def force(x):
    return -2 * x**3 / np.sqrt(1 + x**4)


def on_a_grid(eps, alpha, count=161):
    """E x² of BAOAB's stationary law, and of the target: the chain's operator on a grid.

    The expectation of x² after k steps is a function of where the chain starts, which becomes flat.
    It is held on a grid of (x, ν) and interpolated by splines; noise is integrated by Gauss and
    Hermite's rule.
    """
    x, nu = np.linspace(-5, 5, count), np.linspace(-6, 6, 121) * np.sqrt(eps)
    here, speed = np.meshgrid(x, nu, indexing="ij")
    points, weights = np.polynomial.hermite_e.hermegauss(10)
    kicked, maps = speed + eps * force(here), []
    for z in points:
        after = (1 - alpha) * kicked + np.sqrt(alpha * (2 - alpha) * eps) * z
        there = here + (kicked + after) / 2
        at_x = (np.clip(there, x[0], x[-1]) - x[0]) / (x[1] - x[0])
        at_nu = (np.clip(after, nu[0], nu[-1]) - nu[0]) / (nu[1] - nu[0])
        maps.append(np.stack([at_x, at_nu]))
    law = np.exp(-np.sqrt(1 + here**4) - speed**2 / 2 / eps)
    law /= law.sum()
    value = here**2
    target = np.sum(law * value)
    while np.sqrt(np.sum(law * (value - np.sum(law * value)) ** 2)) > 1e-7:
        curve = spline_filter(value, order=5)
        each = [map_coordinates(curve, m, order=5, prefilter=False, mode="nearest") for m in maps]
        value = np.tensordot(weights / weights.sum(), each, 1)
    return np.sum(law * value), target


@pytest.mark.slow
def test_the_error_is_of_second_order():
    """The slope of its logarithm against that of the step √ε is 2, with friction γ = .8 a time."""
    errors = []
    for eps in (0.1, 0.05, 0.025):
        chain, target = on_a_grid(eps, 1 - np.exp(-0.8 * eps**0.5))
        errors.append(abs(chain / target - 1))
    assert errors[0] < 0.001
    np.testing.assert_allclose(np.diff(np.log(errors)) / np.log(0.5**0.5), 2, atol=0.1)
    fine, coarse = (on_a_grid(0.1, 0.3, count)[0] for count in (201, 161))
    assert fine == pytest.approx(coarse, abs=1e-6)


@pytest.mark.slow
def test_the_law_of_large_steps(seed):
    """At ε = .8 the second moment is 5.5 % too large, and the chain has just that."""
    chain, target = on_a_grid(0.8, 0.3)
    assert chain / target == pytest.approx(1.055, abs=0.001)
    draws = sgmcmc.baoab(
        lambda params, data: -tf.reduce_sum(tf.sqrt(1 + params["x"] ** 4)) + 0 * data["none"][0],
        {"none": np.zeros(1)},
        {"x": np.zeros(16)},
        0.8,
        alpha=0.3,
        minibatch_size=1,
        n_chains=gaussian.CHAINS,
        burn_in=200,
        n_iters=2000,
        seed=seed,
        verbose=False,
    )
    assert_mean(mean_squares(draws["x"]), chain, detect=0.02)
    assert_rejected(mean_squares(draws["x"]), target)
