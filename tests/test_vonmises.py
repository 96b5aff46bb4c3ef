"""The von Mises-Fisher log density against SciPy, sums of series and its own derivative."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from scipy.special import gammaln, ive, logsumexp

import sgmcmc
from sgmcmc.vonmises import log_normaliser

from . import slow

KAPPAS = [0.0, 1e-8, 0.01, 0.3, 1.0, 5.0, 50.0, 500.0, 3e4]


def by_series(d, kappa):
    """log c(κ) + κ, with the Bessel function as the sum of its series, in logarithms."""
    order, k = d / 2 - 1, np.arange(40_000.0)
    if kappa == 0:
        return gammaln(d / 2) - np.log(2) - d / 2 * np.log(np.pi)
    terms = (2 * k + order) * np.log(kappa / 2) - gammaln(k + 1) - gammaln(k + order + 1)
    return order * np.log(kappa) - d / 2 * np.log(2 * np.pi) - logsumexp(terms) + kappa


@pytest.mark.slow
@pytest.mark.parametrize("d", [slow(2), slow(3), slow(10), 41, slow(43), slow(1000), 5000])
@pytest.mark.parametrize(("dtype", "error"), [("float32", 1e-5), ("float64", 1e-9)])
def test_the_normaliser_and_its_slope(d, dtype, error):
    """With XLA, for small and large orders and concentrations."""
    kappas = np.array(KAPPAS)
    with tf.GradientTape() as tape:
        kappa = tf.constant(kappas, dtype)
        tape.watch(kappa)
        found = tf.function(log_normaliser, jit_compile=True, autograph=False)(d, kappa)
    exact = np.array([by_series(d, k) for k in kappas])
    np.testing.assert_allclose(found, exact, rtol=error, atol=error)
    slope = tape.gradient(found, kappa)
    h = np.maximum(1e-3 * kappas, 1e-3)
    ratio = np.array([(by_series(d, k + e) - by_series(d, k)) / e for k, e in zip(kappas, h)])
    np.testing.assert_allclose(slope, ratio, atol=2e-3)


def test_the_ratio_of_bessel_functions():
    kappa = tf.constant([0.5, 5.0, 50.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(kappa)
        value = log_normaliser(10, kappa)
    np.testing.assert_allclose(
        1 - tape.gradient(value, kappa), ive(5, kappa) / ive(4, kappa), rtol=1e-8
    )


def test_densities_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    x, mean = (a / np.linalg.norm(a, axis=1)[:, None] for a in rng.normal(size=(2, 5, 4)))
    kappa = np.array([0.1, 1, 10, 100, 1000])
    found = sgmcmc.von_mises_fisher_log_prob(x[:, None], mean, kappa).numpy()
    for k in range(5):
        exact = stats.vonmises_fisher(mean[k], kappa[k]).logpdf(x)
        np.testing.assert_allclose(found[:, k], exact, rtol=1e-7, atol=1e-7)


def test_single_precision_at_a_large_concentration():
    """κμᵀx − log I would lose all digits: both are near 30,000."""
    d, kappa = 5000, 3e4
    x = np.zeros(d)
    x[:2] = np.cos(0.01), np.sin(0.01)
    found = sgmcmc.von_mises_fisher_log_prob(
        x.astype("float32"), np.eye(d, dtype="float32")[0], kappa
    )
    exact = by_series(d, kappa) + kappa * (np.cos(0.01) - 1)
    assert float(found) == pytest.approx(exact, rel=1e-6)


@pytest.mark.slow
def test_xla_compiles_it_for_many_chains_with_a_sampled_concentration(seed):
    x = np.random.default_rng(seed).normal([1, 0, 0], 0.3, (200, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)

    def log_lik(params, data):
        log_prob = sgmcmc.von_mises_fisher_log_prob(data["x"], params["mu"], params["kappa"])
        return tf.reduce_sum(log_prob)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it would say that XLA cannot compile an operation
        sgmcmc.sggmc(
            log_lik,
            {"x": x},
            {"mu": [1.0, 0.0, 0.0], "kappa": 5.0},
            1e-3,
            manifold={"mu": sgmcmc.Sphere()},
            constrain={"kappa": "positive"},
            minibatch_size=20,
            n_iters=5,
            n_chains=3,
            seed=seed,
            verbose=False,
        )
