"""The running experiment of paper 000 (sections 1.3 and 2.2), with ALGORITHMS.md, section 3.

Ten categories, counts 800, 100, 100 and seven times 0, prior Dirichlet(.1): how far 1000 draws are
from the posterior, by the Kolmogorov-Smirnov distance after Rosenblatt's transform. What has an
exact answer is compared with it by `ztest`. Published figures are means of 5 seeds and their
standard deviation; here a mean of 40 chains, whose standard error is ten times smaller, is to lie
within that standard deviation of theirs. Chance alone makes it fail less than once in 10⁹ runs: the
mean of `scir` is .086, and is known to .0013.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf
from scipy import special, stats

from sgmcmc import SCIR, SGRLD, run, sample_setup, tree

from .ztest import assert_mean, assert_rejected

N, DRAWS = 1000, 1000
COUNTS = np.array([800, 100, 100] + [0] * 7)
A = 0.1 + COUNTS
STEPS = {  # table B.5.1 of the thesis
    SCIR: [1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0],
    SGRLD: [1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5],
}
IDEAL = stats.kstwo(DRAWS).mean()  # of independent draws


def distance(log_omega):
    """Of each chain, (chains, draws, 10), from Dirichlet(A): the mean over 9 sequential Betas."""
    log_omega = log_omega.astype(float)
    tail = np.logaddexp.accumulate(log_omega[..., ::-1], axis=-1)[..., ::-1]
    share = np.exp(log_omega - tail)[..., :-1]
    rest = np.exp(tail[..., 1:] - tail[..., :-1])
    first, others = A[:-1], np.cumsum(A[::-1])[-2::-1]
    low = share < 0.5
    tail = special.betainc(
        np.where(low, first, others), np.where(low, others, first), np.where(low, share, rest)
    )
    uniform = np.where(low, tail, 1 - tail)
    uniform, n = np.sort(uniform, axis=-2), uniform.shape[-2]
    rank = np.arange(1, n + 1)[:, None]
    return np.maximum(rank / n - uniform, uniform - (rank - 1) / n).max(axis=-2).mean(axis=-1)


def independent(shape, chains, seed):
    """log ω of exact draws from Dirichlet(shape)."""
    rng = np.random.default_rng(seed)
    size = (chains, DRAWS, len(shape))
    log_theta = np.log(rng.gamma(shape + 1, size=size)) + np.log(rng.random(size)) / shape
    return log_theta - special.logsumexp(log_theta, axis=-1, keepdims=True)


def log_omega(dynamics, dataset, log_lik, minibatch_size, stepsize, seed, chains, **lengths):
    sampler = sample_setup(
        *(dynamics, log_lik, dataset, {"omega": np.full(10, 0.1)}, stepsize),
        minibatch_size=minibatch_size,
        n_chains=chains,
        seed=seed,
        verbose=False,
    )
    return run(sampler, keep=[], verbose=False, **lengths).stats["log_omega"]


def of_counts(params, data):
    return tf.reduce_sum(data["counts"] * tf.math.log(params["omega"]))


def best(dynamics, steps, seed, scale=1.0, chains=40):
    """The smallest distance of each chain over the step sizes, with minibatches of 1 %.

    A chain goes through them all, 1000 iterations of burn-in and 1000 that count at each. It begins
    with the smallest, for which it matters most that it starts afresh.
    """
    each = 2 * DRAWS

    def log_lik(params, data):
        counts = tf.reduce_sum(tf.one_hot(data["z"], 10), axis=0)
        return scale * tf.reduce_sum(counts * tf.math.log(params["omega"]))

    draws = log_omega(
        *(dynamics, {"z": np.repeat(np.arange(10), COUNTS)}, log_lik, N // 100),
        *(lambda k: steps[k // each], seed, chains),
        n_iters=each * len(steps),
    )
    draws = draws.reshape(chains, len(steps), each, 10)[:, :, -DRAWS:]
    return np.min([distance(draws[:, i]) for i in range(len(steps))], axis=0)


@dataclass(frozen=True)
class HalfDegrees(SCIR):
    """A wrong one: â degrees of freedom, where twice a Gamma(â) has 2â."""

    def update(self, chain, estimate, noise, h):
        half = tree.map(lambda a: a / 2, estimate.gradient)
        return super().update(chain, estimate._replace(gradient=half), noise, h)


def test_independent_draws(seed):
    found = distance(independent(A, 256, seed))
    assert_mean(found, IDEAL, detect=0.06)
    assert abs(found.mean() - 0.0274) < 0.0026
    assert found.std(ddof=1) == pytest.approx(0.0026, abs=0.0007)  # 6 standard errors


@pytest.mark.slow
def test_independent_draws_from_another_posterior(seed):
    """Negative control: a prior of .12 in place of .1 is rejected."""
    assert_rejected(distance(independent(A + 0.02, 256, seed)), IDEAL)


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", [SCIR, HalfDegrees, SGRLD])
def test_scir_on_all_data_draws_as_if_independently(dynamics, seed):
    """Takes every 10th step with h = 1, after which a chain has kept e⁻¹⁰ of where it was."""
    found = distance(
        log_omega(
            *(dynamics(0.1, keep_log=True), {"counts": COUNTS[None].astype(float)}, of_counts, 1),
            *(1e-3 if dynamics is SGRLD else 1.0, seed, 256),
            n_iters=10 * DRAWS,
            thin=10,
            burn_in=100,
        )
    )
    if dynamics is SCIR:
        assert_mean(found, IDEAL, detect=0.06)
    else:
        assert_rejected(found, IDEAL)


@pytest.mark.slow
def test_scir_with_minibatches_of_one_percent(seed):
    found = best(SCIR(0.1, keep_log=True), STEPS[SCIR], seed)
    assert abs(found.mean() - 0.090) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("what", ["half the degrees of freedom", "counts not scaled to all rows"])
def test_a_wrong_scir_with_minibatches_of_one_percent(what, seed):
    """Negative control: these are outside."""
    if what == "half the degrees of freedom":
        found = best(HalfDegrees(0.1, keep_log=True), STEPS[SCIR], seed)
    else:
        found = best(SCIR(0.1, keep_log=True), STEPS[SCIR], seed, scale=1 / 100)
    assert abs(found.mean() - 0.090) > 0.02


@pytest.mark.slow
def test_sgrld_with_minibatches_of_one_percent(seed):
    """Far outside what SCIR does."""
    assert best(SGRLD(0.1, keep_log=True), STEPS[SGRLD], seed).mean() > 0.30
