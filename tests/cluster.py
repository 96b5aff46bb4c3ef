"""Clusters of processes, and a model to run on them."""

import distributed
import numpy as np
import tensorflow as tf

from sgmcmc import tree

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 4))
DATA = {"X": X, "y": (RNG.random(3000) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)}


def logistic(params, data):
    eta = tf.linalg.matvec(data["X"], params["beta"])
    return tf.reduce_sum(data["y"] * eta - tf.nn.softplus(eta))


def normal(params):
    return -tf.reduce_sum(params["beta"] ** 2) / 2


GIVEN = {
    "log_lik": logistic,
    "dataset": DATA,
    "params": {"beta": np.zeros(4)},
    "log_prior": normal,
    "minibatch_size": 50,
    "n_iters": 3000,
    "burn_in": 300,
    "thin": 3,
    "n_chains": 4,
    "seed": 5,
    "verbose": False,
}


def cluster_of(count, **more):
    return distributed.LocalCluster(
        **{"n_workers": count, "threads_per_worker": 1, "dashboard_address": None},
        **{"env": {"SGMCMC_ONE_CORE": "1"}, **more},
    )


def assert_same(draws, alone):
    assert list(draws) == list(alone)
    tree.map(np.testing.assert_array_equal, dict(draws), dict(alone))
    tree.map(np.testing.assert_array_equal, draws.stats, alone.stats)
