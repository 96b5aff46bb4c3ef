"""The check of draws in the benchmarks accepts right draws and rejects wrong ones.

It calls right draws wrong up to once in a thousand times, so the seeds are fixed here. The faults
are large, and are found with any seed.
"""

import numpy as np
import pytest

from benchmarks import reference, simulated
from benchmarks.problems import ALPHA, L, dead


def independent(scale=1.0, shift=0.0):
    mean, cov = np.array([1.0, -2.0, 3.0]), np.array([[2, 1, 0], [1, 2, 0], [0, 0, 0.1]])
    rng = np.random.default_rng(0)
    z = np.sqrt(scale) * rng.standard_normal((20_000, 3)) + shift
    return reference.compare(mean + z @ np.linalg.cholesky(cov).T, mean, cov)


def test_independent_draws_are_right():
    assert not independent().wrong


@pytest.mark.parametrize(
    "fault", [{"scale": 1.2}, {"scale": 0.8}, {"shift": 1.0}, {"shift": np.nan}]
)
def test_control_independent_draws(fault):
    assert independent(**fault).wrong


def weights(kind, steps=100, h=1e-6, heat=1.0, resampled=False):
    """Simulate weights on which the data have no influence, by the equations themselves."""
    rng = np.random.default_rng(0)
    theta = np.zeros((784, 100))
    nu = np.sqrt(h) * rng.standard_normal(theta.shape)
    for k in range(steps * (L if kind == "sghmc" else 1)):
        z = np.sqrt(heat) * rng.standard_normal(theta.shape)
        if kind == "sgld":
            theta = theta - h / 2 * theta + np.sqrt(h) * z
            continue
        if resampled and kind == "sghmc" and k % L == 0:
            nu = np.sqrt(h) * rng.standard_normal(theta.shape)
        nu = (1 - ALPHA) * nu - h * theta + np.sqrt(2 * ALPHA * h) * z
        theta = theta + nu
    assert dead(784).sum() * 100 > 6000
    return reference.untouched(theta, steps, kind, h, resampled)


@pytest.mark.parametrize("resampled", [False, True])
@pytest.mark.parametrize("kind", ["sgld", "sghmc", "sgnht"])
def test_weights_without_data(kind, resampled):
    assert not weights(kind, resampled=resampled).wrong
    assert weights(kind, heat=2, resampled=resampled).wrong
    assert weights(kind, heat=np.nan, resampled=resampled).wrong


class Exponential:
    """Rounds whose lengths are exponential, so that the workers are a closed network of queues."""

    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.integers, self.exponential = self.rng.integers, self.rng.exponential

    def lognormal(self, mean, sd):
        return self.rng.exponential()


INSTANT = {"lost": 1e12, "latency": 0.0, "task": 0.0, "answer": 0.0, "bandwidth": 1e18}
FREE = simulated.Assumed(workers=5, **INSTANT)


def share(chains, ahead, monkeypatch):
    monkeypatch.setattr(simulated, "AHEAD", ahead)
    simulation = simulated.Simulation(FREE, chains, 1.0, 4000)
    simulation.rng = Exponential()
    return simulation.run()


@pytest.mark.parametrize("chains", [1, 5, 20])
def test_simulated_workers_are_as_busy_as_queues_say(chains, monkeypatch):
    """Jackson's network of W equal queues with C customers: each is busy C/(C + W − 1)."""
    exact = chains / (chains + 4)
    assert share(chains, 10**9, monkeypatch) == pytest.approx(exact, rel=0.03)


def test_control_chains_that_wait_for_the_slowest(monkeypatch):
    assert share(20, 1, monkeypatch) < 0.9 * 20 / 24
