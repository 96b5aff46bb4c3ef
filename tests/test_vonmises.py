"""The von Mises-Fisher log density: values, derivatives, and compiled for many chains."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

import sgmcmc

KAPPAS = [1e-3, 0.3, 3.0, 30.0, 300.0]


def by_scipy(d, kappa):
    """log c(κ) + κ and 1 − A(κ), its derivative."""
    v = d / 2 - 1
    log_bessel = np.log(special.ive(v, kappa))
    value = v * np.log(kappa) - d / 2 * np.log(2 * np.pi) - log_bessel
    return value, 1 - special.ive(v + 1, kappa) / special.ive(v, kappa)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-5)])
@pytest.mark.parametrize("d", [2, 3, 10, 41, 60])
def test_values_and_derivatives_are_those_of_bessel_functions(d, dtype, tolerance):
    north = tf.constant([1.0] + (d - 1) * [0.0], dtype)
    kappa = tf.constant([k for k in KAPPAS if special.ive(d / 2, k) > 1e-300], dtype)
    with tf.GradientTape() as tape:
        tape.watch(kappa)
        value = sgmcmc.von_mises_fisher_log_prob(north, north, kappa)
    exact = by_scipy(d, kappa.numpy().astype(float))
    np.testing.assert_allclose(value, exact[0], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(tape.gradient(value, kappa), exact[1], rtol=10 * tolerance)


@pytest.mark.parametrize("d", [2, 3, 10, 1000])
def test_at_concentration_0_it_is_uniform(d):
    north = tf.constant([1.0] + (d - 1) * [0.0], "float64")
    area = np.log(2) + d / 2 * np.log(np.pi) - special.gammaln(d / 2)
    value = sgmcmc.von_mises_fisher_log_prob(north, north, 0.0)
    np.testing.assert_allclose(value, -area, rtol=1e-12)


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
