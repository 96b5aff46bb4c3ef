"""SAGA with features: chains are those by whole gradients, and what is no predictor is refused.

All tests are exact up to rounding.
"""

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import tree

from .test_variance import GIVEN, log_lik


def softmax(params, data):
    eta = data["X"] @ params["W"] + params["bias"]
    y = tf.one_hot(tf.cast(data["y"], tf.int32), 3, dtype=eta.dtype)
    return tf.reduce_sum(y * tf.nn.log_softmax(eta))


def mean_and_scale(params, data):
    """A heteroscedastic regression: two parameters have features, and more columns than these."""
    mean = tf.linalg.matvec(data["X"], params["mean"])
    log_sd = data["X"] @ params["log_sd"]
    z = (data["y"] - mean) / tf.exp(tf.reduce_sum(log_sd, axis=1))
    return -tf.reduce_sum(z**2 / 2 + tf.reduce_sum(log_sd, axis=1))


def for_two_columns(params, data):
    """The mean over columns, and a shape that is written out."""
    X = tf.reshape(tf.cast(data["X"], params["beta"].dtype), [-1, 2])
    eta = 2 * tf.reduce_mean(X * params["beta"], axis=1) + params["inner"]["bias"]
    return tf.reduce_sum(data["y"] * eta - tf.nn.softplus(eta))


PREDICTORS = {
    "softmax": (softmax, {"W": np.ones((2, 3)) * [0.2, -0.4, 0.1], "bias": np.zeros(3)}, {}),
    "two parameters": (
        mean_and_scale,
        {"mean": np.zeros(2), "log_sd": np.zeros((2, 2))},
        {"stepsize": 1e-4, "shared_minibatches": True},
    ),
    "hard-coded shape": (
        for_two_columns,
        {"beta": np.zeros(2), "inner": {"bias": 0.0}},
        {"precondition": "hessian", "shared_minibatches": True},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PREDICTORS)
def test_chains_are_those_by_whole_gradients(name):
    """Whatever shapes `log_lik` has, in white coordinates too, and with features that are whole."""
    log_lik, params, more = PREDICTORS[name]
    given = {**GIVEN, "log_lik": log_lik, "params": params, "dtype": "float64", **more}
    if name == "hard-coded shape":
        whole = np.rint(3 * GIVEN["dataset"]["X"]).astype(np.int64)
        given["dataset"] = {**GIVEN["dataset"], "X": whole}
    in_short, whole = (
        sgmcmc.sgld(**given, n_chains=2, n_iters=80, gradient=gradient)
        for gradient in (sgmcmc.SAGA(features="X"), sgmcmc.SAGA())
    )
    for a, b in zip(tree.leaves(dict(in_short)), tree.leaves(dict(whole))):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


# What is said of mistakes


def test_features_that_do_not_tell_the_gradient():
    def not_linear(params, data):
        return log_lik(params, data) - tf.reduce_sum(data["y"] * tf.reduce_sum(params["beta"] ** 4))

    given = {**GIVEN, "log_lik": not_linear}  # it is linear where params are 0
    with pytest.raises(ValueError, match="gradients of single rows are no multiples of 'X'"):
        sgmcmc.sgld_setup(**given, gradient=sgmcmc.SAGA(features="X"))


def test_more_products_than_columns():
    """Then `log_lik` gets more columns, which may not suit it."""
    given = {**GIVEN, "log_lik": softmax, "params": {"W": np.zeros((2, 3)), "bias": np.zeros(3)}}
    sgmcmc.sgld_setup(**given, gradient=sgmcmc.SAGA(features="X"))

    def for_two_columns_alone(params, data):
        return softmax(params, {**data, "X": tf.ensure_shape(data["X"], [None, 2])})

    given["log_lik"] = for_two_columns_alone
    with pytest.raises(ValueError, match="cannot be evaluated with products in place of 'X'"):
        sgmcmc.sgld_setup(**given, gradient=sgmcmc.SAGA(features="X"))


def test_counts_are_refused():
    def log_lik(params, data):
        eta = tf.linalg.matvec(data["X"], params["beta"])
        return tf.reduce_sum(tf.math.log(params["p"][0]) - (data["y"] - eta) ** 2)

    with pytest.raises(ValueError, match="gradient must be 'plain' with probabilities that move"):
        sgmcmc.mixed_setup(
            log_lik,
            GIVEN["dataset"],
            {"beta": np.zeros(2), "p": np.full(3, 1 / 3)},
            {"beta": 1e-3, "p": 0.1},
            blocks={"beta": sgmcmc.SGLD(), "p": sgmcmc.SCIR(alpha=1.0)},
            gradient=sgmcmc.SAGA(features="X"),
            verbose=False,
        )
