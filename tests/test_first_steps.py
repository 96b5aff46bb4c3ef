"""The README's first step size for `sghmccv`, on a known posterior with noise in the gradient.

The posterior of a linear regression with known variance is Gaussian. Control variates do not remove
all noise, because the rows have different features. False alarms and power are those of `ztest`.
"""

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

from . import gaussian
from .ztest import ALARM, MIN_CHAINS, z_score

N, n, p, alpha = 1000, 50, 5, 0.01
UNIT = 0.01  # of the coefficients


def variances(stepsize_over_v, seed):
    """Return each chain's mean square in whitened coordinates, where it should be 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, p)) / UNIT
    X -= X.mean(0)
    covariance = np.linalg.inv(X.T @ X)
    white = np.linalg.inv(np.linalg.cholesky(covariance))
    y = rng.normal(size=N)
    mode = covariance @ (X.T @ y)
    v = np.linalg.eigvalsh(covariance)[0]
    starts = rng.multivariate_normal(mode, covariance, MIN_CHAINS)
    draws = sgmcmc.sghmccv(
        lambda q, data: -tf.reduce_sum((data["y"] - tf.linalg.matvec(data["X"], q["b"])) ** 2) / 2,
        {"X": X, "y": y},
        {"b": mode},
        stepsize_over_v * v,
        minibatch_size=n,
        alpha=alpha,
        mode={"b": mode},
        starts={"b": starts},
        n_chains=MIN_CHAINS,
        burn_in=200,
        n_iters=300,
        thin=20,
        seed=seed,
        verbose=False,
    )
    return gaussian.mean_squares((draws["b"] - mode) @ white.T)


def test_the_variance_is_at_most_some_15_percent_too_large(seed):
    z, error = z_score(variances(min(0.1, 0.05 * alpha * n / p), seed), 1.15)
    assert z < ALARM
    assert error < 0.02, "too few draws to tell"


@pytest.mark.slow
def test_a_tenth_of_the_variance_is_too_large_a_step(seed):
    """That rule ignores the friction, and the noise that remains with control variates."""
    z, _ = z_score(variances(0.1, seed), 1.15)
    assert z > ALARM
