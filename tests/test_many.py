"""Coordinates and step sizes of models with more parameters than a matrix of curvature is for."""

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import tree
from sgmcmc.checks.coordinates import DENSE
from sgmcmc.estimators import Mode
from sgmcmc.tuning import TuningWarning
from sgmcmc.tuning.many import Many, lanczos
from sgmcmc.tuning.near import Near

from . import slow
from .ztest import assert_mean, assert_rejected


def poisson(p=12, N=3000):
    """Counts that depend on correlated columns and on groups, with a normal prior."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, p)) @ (np.eye(p) + rng.normal(size=(p, p)) / p)
    y = rng.poisson(np.exp(X @ rng.normal(size=p) / p)).astype(float)

    def log_lik(params, data):
        eta = tf.linalg.matvec(data["X"], tf.concat([params["a"], params["b"]], 0))
        eta += tf.gather(params["a"], data["group"])
        return tf.reduce_sum(data["y"] * eta - tf.exp(eta))

    def log_prior(params):
        return -(tf.reduce_sum(params["a"] ** 2) + tf.reduce_sum(params["b"] ** 2)) / 2

    params = {"a": np.zeros(5), "b": np.zeros(p - 5)}
    dataset = {"X": X, "y": y, "group": np.arange(N) % 5}
    return {"log_lik": log_lik, "dataset": dataset, "params": params}, log_prior


@pytest.fixture(scope="module")
def both():
    """The matrix of curvature of a small model, and what products with vectors tell of it."""
    model, log_prior = poisson()
    sampler = sgmcmc.sgldcv_setup(
        **model, stepsize=1e-4, log_prior=log_prior, dtype="float64", seed=1, verbose=False
    )
    mode = Mode(tree.map(np.asarray, sampler.state.estimator.x), None)
    parts = sampler.engine.model, sampler.feeder.source, mode, 1
    return Near(*parts), Many(*parts)


def test_products_tell_the_spectrum(both):
    near, many = both
    scaled = near.forth * many.sd
    np.testing.assert_allclose(many.values, np.linalg.eigvalsh(scaled.T @ scaled), 1e-6)


@pytest.mark.parametrize("is_relative", [False, True])
def test_extremes(both, is_relative):
    """Curvature and noise in the directions that are found, by the whole matrices."""
    near, many = both
    precision, noise, w = many.extremes(many.sd, is_relative)
    scaled = near.forth * many.sd
    np.testing.assert_allclose(precision, ((scaled @ w) ** 2).sum(axis=0), 1e-5)
    whole = near.noise(np.diag(many.sd), is_relative)
    values = np.linalg.eigvalsh(whole)
    if is_relative:  # at one point near the mode, and at the mean of twenty
        assert values[-1] / 4 < noise[-1] < 4 * values[-1]
    else:
        np.testing.assert_allclose(noise, np.einsum("ji,jk,ki->i", w, whole, w), 1e-5)
        assert noise[-1] == pytest.approx(values[-1], rel=0.02)


def test_points_have_the_fall_of_a_gaussian(both):
    near, many = both
    for seed in range(3):
        z = np.random.default_rng(seed).normal(size=12)
        fall = np.sum((near.forth @ many.displaced(z)) ** 2)
        assert fall == pytest.approx(z @ z, rel=1e-6)
    assert many.misfit() < 0.3


def test_lanczos_stops_where_there_is_nothing_more():
    found = lanczos(lambda v: 3 * v, np.ones(7), 5)
    assert found.basis.shape == (7, 1)
    assert found.matrix == pytest.approx(3)


def regression(p=30, N=100):
    """A regression with known noise, and the mean and precision of its posterior."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, p)) @ (np.eye(p) + rng.normal(size=(p, p)) / p)
    y = X @ rng.normal(size=p) + rng.normal(size=N)

    def log_lik(params, data):
        return -tf.reduce_sum((data["y"] - tf.linalg.matvec(data["X"], params["beta"])) ** 2) / 2

    def log_prior(params):
        return -tf.reduce_sum(params["beta"] ** 2) / 2

    precision = X.T @ X + np.eye(p)
    return (log_lik, {"X": X, "y": y}, log_prior), np.linalg.solve(precision, X.T @ y), precision


@pytest.mark.slow
def test_the_stiffest_direction_is_as_wide_as_promised(seed, monkeypatch):
    """One step size for all directions; an error of 4 % would be seen.

    Gradients are of all rows, for which the law is exact. Negative control: twice the step size.
    """
    (log_lik, dataset, log_prior), mean, precision = regression()
    monkeypatch.setattr(sgmcmc.tuning, "DENSE", 20)
    options = {"log_prior": log_prior, "minibatch_size": 100, "n_chains": 256, "seed": seed}
    options |= {"bias": 0.2, "n_iters": 4000, "burn_in": 200, "thin": 4, "verbose": False}
    options |= {"precondition": "diagonal", "params": {"beta": mean}}
    draws = sgmcmc.sgldcv(log_lik, dataset, **options)
    tuning = draws.settings["tuning"]
    sd = np.diag(precision) ** -0.5
    values, vectors = np.linalg.eigh(sd[:, None] * precision * sd)

    def seen(draws):
        z = (draws["beta"].astype(float) - mean) / sd @ vectors[:, -1] * np.sqrt(values[-1])
        return (z**2).mean(axis=1)

    assert tuning["inflation"][2] == pytest.approx(1 / (1 - tuning["stepsize"][2] / 4), rel=1e-6)
    assert_mean(seen(draws), tuning["inflation"][2], detect=0.04)
    twice = 2 * tuning["stepsize"][2] / values[-1]
    wider = sgmcmc.sgldcv(log_lik, dataset, stepsize=twice, **options)
    assert_rejected(seen(wider), tuning["inflation"][2])


def test_a_direction_that_is_much_wider_is_named():
    """Two columns that are nearly the same, in coordinates that are scaled one by one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    dataset = {"X": np.column_stack([x, x + 0.003 * rng.normal(size=2000), rng.normal(size=2000)])}

    def log_lik(params, data):
        return -tf.reduce_sum((1 - tf.linalg.matvec(data["X"], params["beta"])) ** 2) / 2

    with pytest.warns(
        TuningWarning, match=r"very wide along beta\[[01]\].*Take precondition='hess"
    ):
        sgmcmc.sghmccv_setup(
            log_lik, dataset, {"beta": np.zeros(3)}, precondition="diagonal", seed=1, verbose=False
        )


MANY = {"a": np.zeros(DENSE + 1)}
SMALL_STEPS = {"minibatch_size": 5, "verbose": False, "seed": 1}


def squares(params, data):
    return -tf.reduce_sum(params["a"] ** 2) * tf.reduce_sum(data["x"])


@pytest.mark.parametrize(
    ("sampler", "more", "message"),
    [
        (sgmcmc.sgnht_setup, {}, "sgnht needs stepsize for 2,001 parameters"),
        (sgmcmc.psgld_setup, {}, "psgld needs stepsize for 2,001 parameters"),
        (sgmcmc.sgldcv_setup, {"precondition": "hessian"}, "too large for 2,001 coordinates"),
        (sgmcmc.sgldcv_setup, {"rescale": True}, "rescale=True needs"),
    ],
)
def test_what_needs_a_matrix_is_refused_before_the_mode_is_searched(
    sampler, more, message, monkeypatch
):
    monkeypatch.setattr(sgmcmc.assembly, "find_mode", None)
    with pytest.raises(ValueError, match=message):
        sampler(squares, {"x": np.ones(10)}, MANY, **more, **SMALL_STEPS)


@pytest.mark.parametrize("sampler", [sgmcmc.sgld_setup, slow(sgmcmc.baoab_setup)])
def test_other_samplers(sampler):
    made = sampler(squares, {"x": np.ones(10)}, MANY, **SMALL_STEPS)
    assert made.settings["tuning"]["directions"] == DENSE + 1
    sgmcmc.step(made, 3)
