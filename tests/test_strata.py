"""Stratified minibatches: one row of each stratum, all rows alike, and less noise.

False alarms and power of the z-tests are those of `ztest`.
"""

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import checks
from sgmcmc.minibatches import minibatches_of
from sgmcmc.source import Source

from .ztest import assert_mean, assert_rejected, assert_squares


def test_a_stratified_minibatch_has_a_row_of_each_stratum(seed):
    labels = np.random.default_rng(seed).permutation(np.repeat([3.0, 1.0, 2.0], 40))
    source = Source({"x": np.zeros(120)}, tf.float64)
    rows = minibatches_of(checks.minibatches(labels, 120), source, 6, seed, 1).rows(0, 500, 0)
    assert rows.shape == (500, 6)
    np.testing.assert_array_equal(labels[rows], np.broadcast_to([1, 1, 2, 2, 3, 3], (500, 6)))


def test_all_rows_are_in_stratified_minibatches_alike(seed):
    """Also those that belong to two strata: of 10 rows, the second third begins within row 3."""
    source = Source({"x": np.zeros(10)}, tf.float64)
    made = minibatches_of(checks.minibatches(np.arange(10), 10), source, 3, seed, 1)
    rows = np.stack([made.rows(k, 1000, 0) for k in range(300)])
    for row in (0, 3):
        assert_mean((rows == row).sum(axis=2).mean(axis=1), 0.3)
    assert_rejected((rows == 3).sum(axis=2).mean(axis=1), 1 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("minibatches", ["strata", "independent"])
def test_stratified_counts_have_no_noise(minibatches, seed):
    """Where strata are the categories, counts are exact, and so is the law of SCIR."""
    rng, sizes, chains = np.random.default_rng(seed), np.array([500, 300, 200]), 2000
    z = rng.permutation(np.repeat(np.arange(3), sizes))
    a = 1 + sizes
    starts = rng.dirichlet(a, chains)
    draws = sgmcmc.scir(
        lambda p, d: tf.reduce_sum(tf.math.log(tf.gather(p["omega"], d["z"]))),
        {"z": z},
        {"omega": starts[0]},
        0.5,
        alpha=1.0,
        minibatch_size=10,
        minibatches=z if minibatches == "strata" else minibatches,
        n_iters=1,
        burn_in=10,
        n_chains=chains,
        starts={"omega": starts},
        seed=seed,
        verbose=False,
    )["omega"][:, -1, 0]
    share = a[0] / a.sum()
    square, exact = (draws - share) ** 2, share * (1 - share) / (a.sum() + 1)
    if minibatches == "strata":
        assert_squares(square, exact, 1, detect=0.4)
    else:
        assert_rejected(square, exact)


@pytest.mark.parametrize(
    ("minibatches", "message"),
    [
        (np.zeros(9), "stratum of each of N = 10 rows, not of shape"),
        ("stratified", "minibatches must be"),
        (np.full(10, "a"), "text"),
    ],
)
def test_bad_strata_are_refused(minibatches, message):
    with pytest.raises((ValueError, TypeError), match=message):
        checks.minibatches(minibatches, 10)
