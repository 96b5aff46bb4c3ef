"""The laws by which step sizes are chosen, against the closed forms of samplers on a Gaussian."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.dynamics.geodesic import Geodesic
from sgmcmc.tuning.laws import (
    CHOICES,
    LARGEST,
    Directions,
    geodesic,
    hamiltonian,
    langevin,
    second_order,
)

from . import gaussian
from .directional import aboba_moments
from .gaussian import Case

EPS = np.array([1e-6, 0.02, 0.2, 0.9])
NOISE = np.array([100.0, 3.0, 0.5, 0.0])
ALPHA = np.array([0.05, 0.2, 0.4, 1.0])
CASES = [Case(1, e, s**0.5, a) for e, s, a in zip(EPS, NOISE, ALPHA)]


def test_variances_are_the_closed_forms():
    for law, exact in (
        (langevin(EPS, NOISE), gaussian.sgld_variance),
        (hamiltonian(EPS, NOISE, ALPHA, ALPHA, 1), gaussian.sghmc_variance),
        (second_order(EPS, NOISE, ALPHA), gaussian.baoab_variance),
    ):
        np.testing.assert_allclose(law.inflation, [exact(case) for case in CASES], 1e-6)


def test_variances_on_flat_manifolds_are_the_closed_forms():
    for eps, noise, share in zip(EPS, NOISE, ALPHA):
        law = geodesic(*(np.array([x]) for x in (eps, noise, share)), share, 1)
        exact, _ = aboba_moments(1.0, eps**0.5, share / eps**0.5, noise**0.5)
        assert law.inflation[0] == pytest.approx(exact, rel=1e-6)


def default(kind, like):
    """A dynamics with its default constants."""
    own = {"manifold": sgmcmc.Euclidean()} if issubclass(kind, Geodesic) else {}
    return sgmcmc.checks.own(kind(**own), like)


def test_effective_draws_are_those_of_autocorrelations():
    """SGLD is an autoregression; of SGHMC with several steps every one is summed by hand."""
    rho = 1 - EPS / 2
    np.testing.assert_allclose(langevin(EPS, NOISE).ess, (1 - rho) / (1 + rho), 1e-6)
    eps, alpha, steps = 0.1, 0.3, 3
    A = np.array([[1 - eps, 1 - alpha], [-eps, 1 - alpha]])
    variance, total = np.zeros((2, 2)), 0.0
    for _ in range(3000):
        variance = A @ variance @ A.T + 2 * alpha * eps * np.ones((2, 2))
    later = variance
    for _ in range(3000):
        later = np.linalg.matrix_power(A, steps) @ later
        total += later[0, 0]
    one = [np.array([x]) for x in (eps, 0.0, alpha, alpha)]
    found = hamiltonian(*one, steps).ess[0]
    assert found == pytest.approx(variance[0, 0] / (variance[0, 0] + 2 * total), rel=1e-6)


@pytest.mark.parametrize("kind", list(CHOICES), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("bias", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("common", [False, True])
def test_the_bias_is_what_was_asked_for(kind, bias, common):
    noise = np.array([0.0, 0.5, 3, 3, 3, 100, 1e5])
    precision = np.geomspace(1e-3, 1e3, 7) if common else None
    like = {"a": np.zeros(2), "b": np.zeros(5)}
    dynamics = default(kind, like)
    choice = CHOICES[kind](dynamics, Directions(noise, precision, [2, 5]), bias)
    worst = np.abs(choice.law.inflation - 1).max()
    assert worst <= bias * 1.0001
    assert np.all(choice.eps > 0)
    assert np.all(choice.eps <= LARGEST)
    if not common and kind not in (sgmcmc.SGNHT, sgmcmc.GSGNHT):
        short = choice.eps < LARGEST
        np.testing.assert_allclose(choice.law.inflation[short], 1 + bias, 1e-6)
    if hasattr(choice.dynamics, "alpha"):
        assert set(tf.nest.flatten(choice.dynamics.alpha)) <= {0.2, 0.3, 0.4}


def test_a_friction_that_was_given_is_kept():
    dynamics = sgmcmc.checks.own(sgmcmc.SGHMC(alpha={"a": 0.1, "b": 0.7}), {"a": 0, "b": 0})
    of = Directions(np.ones(2), None, [1, 1])
    choice = CHOICES[sgmcmc.SGHMC](dynamics, of, 0.05)
    assert choice.dynamics.alpha == {"a": 0.1, "b": 0.7}
    assert choice.eps[0] < choice.eps[1]


def test_more_noise_means_smaller_steps():
    of = Directions(np.geomspace(0.1, 1e4, 20), None, [20])
    for kind, choose in CHOICES.items():
        dynamics = default(kind, {"a": np.zeros(20)})
        if hasattr(dynamics, "L"):
            dynamics = replace(dynamics, L=2)
        assert np.all(np.diff(choose(dynamics, of, 0.05).eps) <= 1e-12)
