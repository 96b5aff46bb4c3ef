"""Samplers and estimators that a user writes outside the package have all that its own have.

The dynamics is that of the vignette `your_own_sampler`, whose law on a Gaussian is known at any
step size. False alarms and power are those of `ztest`: comparisons find relative errors of 3 % in
variances, and each has a negative control, a mistake that the same comparison must reject.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

from . import gaussian, slow
from .gaussian import Case, mean_squares
from .ztest import assert_mean, assert_normal, assert_rejected


class State(NamedTuple):
    x: Any
    z: Any


@dataclass(frozen=True)
class TwiceUsedNoise(sgmcmc.Dynamics):
    """Langevin dynamics whose step uses the noise of the step before, with this weight, and new."""

    weight: float = 0.5

    def init(self, x, noise, h):
        return State(x, noise.normals)

    def mixed(self, old, new):
        return self.weight * old + (1 - self.weight) * new

    def update(self, chain, estimate, noise, h):
        def move(x, g, old, new, h):
            return x + (h / 2 * g + tf.sqrt(h) * self.mixed(old, new))

        x = tf.nest.map_structure(move, chain.x, estimate.gradient, chain.z, noise.normals, h)
        return State(x, noise.normals)


class SquaresAddUpToOne(TwiceUsedNoise):
    """A single step has noise of the right variance, but that of many steps is too large."""

    def mixed(self, old, new):
        return (old + new) / np.sqrt(2)


class NoiseIsNotKept(TwiceUsedNoise):
    """The first noise is used in all steps. This is seen unless hλ is about 2."""

    def update(self, chain, estimate, noise, h):
        return super().update(chain, estimate, noise, h)._replace(z=chain.z)


def variance(case, weight):
    """The stationary variance, by the linear recursion that the update is on a Gaussian."""
    el = case.eps * case.lam
    numerator = 1 - weight * (1 - weight) * el + case.eps * case.sigma**2 / 4
    return numerator / (case.lam * (1 - el / 4))


CASES = {
    "no_noise": Case(1, 0.5, 0, size=8),
    "noisy": Case(4, 0.3, 2, size=8),
    "large_step": Case(1, 2.0, 1, size=8),
}


def drawn(dynamics, seed, cases=CASES, **options):
    return gaussian.run(partial(sgmcmc.sample, dynamics), cases, n_iters=1200, seed=seed, **options)


@pytest.mark.parametrize("weight", [0.5, slow(0.2)])
def test_stationary_law(seed, weight):
    draws = drawn(TwiceUsedNoise(weight), seed)
    for name, case in CASES.items():
        assert_mean(mean_squares(draws[name]), variance(case, weight))
    assert_normal(draws["no_noise"], variance(CASES["no_noise"], weight))


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [SquaresAddUpToOne(), NoiseIsNotKept(), TwiceUsedNoise(0.0)])
def test_control_stationary_law(seed, wrong):
    draws = drawn(wrong, seed, {"no_noise": CASES["no_noise"]})
    assert_rejected(mean_squares(draws["no_noise"]), variance(CASES["no_noise"], 0.5))


def test_control_variates_take_out_the_noise(seed):
    case = Case(4, 0.3, 5, size=8)
    draws = drawn(TwiceUsedNoise(), seed, {"theta": case}, gradient="control_variates")
    assert_mean(mean_squares(draws["theta"]), variance(case._replace(sigma=0), 0.5))
    assert_rejected(mean_squares(draws["theta"]), variance(case, 0.5))


def log_normal(log_jacobian, seed):
    """Mean squares of log θ, where the density of log θ is N(0, 1/2)."""
    draws = sgmcmc.sample(
        TwiceUsedNoise(),
        log_lik=lambda params, data: 0 * tf.reduce_sum(data["none"] * params["theta"]),
        dataset={"none": np.zeros(1)},
        params={"theta": np.ones(8)},
        stepsize=0.5,
        log_prior=lambda params: tf.reduce_sum(
            log_jacobian * tf.math.log(params["theta"]) - tf.math.log(params["theta"]) ** 2
        ),
        minibatch_size=1,
        constrain={"theta": "positive"},
        n_iters=800,
        burn_in=100,
        n_chains=gaussian.CHAINS,
        seed=seed,
        verbose=False,
    )
    return mean_squares(np.log(draws["theta"]))


@pytest.mark.slow
def test_constraint(seed):
    """The user gives the density of θ, whose logarithm the chain moves on: exact here."""
    assert_mean(log_normal(-1, seed), 1 / 2)
    assert_rejected(log_normal(0, seed), 1 / 2)  # as if the package forgot the Jacobian


# One chain, however it is run

N = 300
X = np.random.default_rng(0).normal(size=(N, 2))
REGRESSION = {
    "log_lik": lambda params, data: (
        -tf.reduce_sum((data["y"] - tf.linalg.matvec(data["X"], params["beta"])) ** 2) / 2
    ),
    "dataset": {"X": X, "y": X @ [1.0, -1.0] + np.random.default_rng(1).normal(size=N)},
    "params": {"beta": np.zeros(2)},
    "stepsize": 1e-3,
    "minibatch_size": 20,
    "verbose": False,
}


def assert_same_chain(dynamics, seed, n_chains, **options):
    """One run is the same as shorter runs and single steps, bit for bit."""
    options = {**REGRESSION, **options, "n_chains": n_chains, "seed": seed}
    whole = sgmcmc.sample(dynamics, n_iters=60, **options)["beta"]
    sampler = sgmcmc.sample_setup(dynamics, **options)
    parts = [sgmcmc.run(sampler, n, verbose=False)["beta"] for n in (7, 13)]
    for _ in range(40):
        sgmcmc.step(sampler)
        here = sgmcmc.get_params(sampler)["beta"]
        parts.append(here[None] if n_chains is None else here[:, None])
    np.testing.assert_array_equal(whole, np.concatenate(parts, axis=0 if n_chains is None else 1))
    assert (np.diff(whole, axis=-2) != 0).mean() > 0.9


@pytest.mark.parametrize("n_chains", [None, 2])
@pytest.mark.parametrize("gradient", ["plain", slow("control_variates")])
def test_steps_and_runs_are_one_chain(seed, n_chains, gradient):
    assert_same_chain(TwiceUsedNoise(), seed, n_chains, gradient=gradient)


def test_two_chains_with_functions_to_track(seed):
    draws = sgmcmc.sample(
        TwiceUsedNoise(),
        **REGRESSION,
        n_iters=200,
        n_chains=2,
        track={"first": lambda params: params["beta"][0]},
        seed=seed,
    )
    assert draws["beta"].shape == (2, 200, 2)
    assert (draws["beta"][0] != draws["beta"][1]).mean() > 0.9
    np.testing.assert_array_equal(draws["first"], draws["beta"][..., 0])
    assert draws.summary().names == ["beta[0]", "beta[1]", "first"]
    assert draws.settings["sampler"] == "TwiceUsedNoise"
    assert draws.settings["weight"] == 0.5


def test_divergence_is_told_with_advice(seed):
    with pytest.raises(sgmcmc.ChainDiverged, match=r"stepsize 1\. .*try a tenth") as caught:
        sgmcmc.sample(TwiceUsedNoise(), **REGRESSION | {"stepsize": 1.0}, n_iters=500, seed=seed)
    assert len(caught.value.draws["beta"]) == caught.value.iteration > 0


# Noise of all kinds, and statistics


class Counted(NamedTuple):
    x: Any
    steps: Any


@dataclass(frozen=True)
class UniformNoise(sgmcmc.Dynamics):
    """Langevin dynamics with uniform noise, which counts its steps.

    `source` says where the noise comes from: from the host, or from a key.
    """

    source: str
    width: float = 12**0.5  # at which the variance is 1

    def noise(self, x):
        return sgmcmc.Noise(uniforms=x) if self.source == "host" else sgmcmc.Noise(key=True)

    def init(self, x, noise, h):
        return Counted(x, tf.nest.map_structure(lambda x: tf.zeros(x.shape[:1], x.dtype), x))

    def update(self, chain, estimate, noise, h):
        if self.source == "host":
            u = noise.uniforms
        else:
            parts = enumerate(tf.nest.flatten(chain.x))
            u = [sgmcmc.random.uniforms(noise.key, x.shape, i, x.dtype)[0] for i, x in parts]
            u = tf.nest.pack_sequence_as(chain.x, u)

        def move(x, g, u, h):
            return x + (h / 2 * g + tf.sqrt(h) * self.width * (u - 0.5))

        x = tf.nest.map_structure(move, chain.x, estimate.gradient, u, h)
        return Counted(x, tf.nest.map_structure(lambda n: n + 1, chain.steps))

    def draw(self, chain, h):
        return chain.x, {"steps": chain.steps}


@pytest.mark.slow
@pytest.mark.parametrize("source", ["host", "key"])
def test_uniform_noise(seed, source):
    """Of a linear recursion, the variance depends on that of the noise alone."""
    cases = {k: CASES[k] for k in ("no_noise", "noisy")}
    draws = drawn(UniformNoise(source), seed, cases)
    wrong = drawn(UniformNoise(source, width=3.2), seed, cases)
    for name, case in cases.items():
        assert_mean(mean_squares(draws[name]), gaussian.sgld_variance(case))
        assert_rejected(mean_squares(wrong[name]), gaussian.sgld_variance(case))
    counted = np.broadcast_to(np.arange(501, 1701), (gaussian.CHAINS, 1200))
    np.testing.assert_array_equal(draws.stats["steps"]["noisy"], counted)


@pytest.mark.parametrize("source", ["host", "key"])
def test_steps_and_runs_are_one_chain_with_uniform_noise(seed, source):
    assert_same_chain(UniformNoise(source), seed, 2)


# Estimators of one's own


@dataclass(frozen=True)
class RunningMean(sgmcmc.Estimator):
    """The mean of gradients so far, weighted by how recent they are; the gradient is that mean."""

    carried: bool = True

    def init(self, model, x, data, mode):
        return tf.nest.map_structure(tf.zeros_like, x)

    def estimate(self, model, x, state, batch):
        data = tf.nest.map_structure(lambda a: batch.scale * a, model.on_rows(x, batch))
        value, gradient = model.with_prior(x, data)
        mean = tf.nest.map_structure(lambda m, g: 0.8 * m + 0.2 * g, state, gradient)
        return sgmcmc.Estimate(value, mean, N), mean


@pytest.mark.parametrize("n_chains", [None, 2])
def test_an_estimator_that_carries_state(seed, n_chains):
    assert_same_chain(sgmcmc.SGLD(), seed, n_chains, gradient=RunningMean())


def test_the_state_that_is_carried(seed):
    """The mean after each step, by hand from the draws, where all rows are in each minibatch."""
    options = {**REGRESSION, "minibatch_size": N, "dtype": "float64", "seed": seed}
    sampler = sgmcmc.sample_setup(sgmcmc.SGLD(), **options, gradient=RunningMean())
    draws = sgmcmc.run(sampler, 50, verbose=False)["beta"]
    before = np.concatenate([np.zeros((1, 2)), draws[:-1]])
    mean = np.zeros(2)
    for beta in before:
        mean = 0.8 * mean + 0.2 * X.T @ (REGRESSION["dataset"]["y"] - X @ beta)
    found = sampler.state.estimator["beta"].numpy()[0]
    np.testing.assert_allclose(found, mean, rtol=1e-9, atol=1e-9)

    forgetful = sgmcmc.sample_setup(sgmcmc.SGLD(), **options, gradient=RunningMean(carried=False))
    sgmcmc.step(forgetful, 50)
    np.testing.assert_array_equal(forgetful.state.estimator["beta"], np.zeros((1, 2)))


class Wrong(sgmcmc.Estimator):
    """As its gradient, the sum over the rows of how far their numbers are from `batch.index`."""

    needs_index = True

    def estimate(self, model, x, state, batch):
        value, _ = model.with_prior(x, model.on_rows(x, batch))
        off = tf.abs(batch.rows["number"] - tf.cast(batch.index, tf.int64))
        return sgmcmc.Estimate(value, {"off": tf.cast(tf.reduce_sum(off, 1), value.dtype)}, N), ()


class Sum(sgmcmc.Dynamics):
    """Adds up what the estimator returns as the gradient."""

    def noise(self, x):
        return sgmcmc.Noise()

    def update(self, chain, estimate, noise, h):
        return chain._replace(x=tf.nest.map_structure(tf.add, chain.x, estimate.gradient))


@pytest.mark.parametrize("minibatch_size", [1, 20, N - 10])
@pytest.mark.parametrize("shared_minibatches", [False, True])
def test_row_numbers_are_those_of_the_rows(seed, minibatch_size, shared_minibatches):
    def off_by(first):
        draws = sgmcmc.sample(
            Sum(),
            log_lik=lambda params, data: params["off"] * tf.cast(data["number"][0], tf.float64),
            dataset={"number": np.arange(first, first + N)},
            params={"off": 0.0},
            stepsize=1.0,
            minibatch_size=minibatch_size,
            gradient=Wrong(),
            n_chains=2,
            shared_minibatches=shared_minibatches,
            n_iters=100,
            dtype="float64",
            seed=seed,
            verbose=False,
        )
        return draws["off"]

    np.testing.assert_array_equal(off_by(0), np.zeros((2, 100)))
    right = np.broadcast_to(minibatch_size * np.arange(1, 101), (2, 100))
    np.testing.assert_array_equal(off_by(1), right)  # control: one off for each row
