"""The examples of paper 002 (Ding et al., 2014), with the figures of ALGORITHMS.md, section 2.

Its h and A are ε = h² and a = Ah here. Figures that have an exact formula are compared with it by
`ztest`; the others by the bounds given, from runs whose own standard error is ten times smaller.
"""

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

from . import gaussian
from .gaussian import Case, mean_squares
from .ztest import ALARM, assert_mean, z_score

pytestmark = pytest.mark.slow


def well(theta):
    return (theta + 4) * (theta + 1) * (theta - 1) * (theta - 3) / 14 + 0.5


def double_well(sampler, h, B, seed, **tuning):
    """16 chains of 10⁶ steps with gradient noise N(0, 2B/h), which comes from the data."""
    N = 1000
    z = np.random.default_rng(0).normal(size=N)
    noise = (z - z.mean()) / z.std() * np.sqrt(2 * B / h)

    def log_lik(params, data):
        slope = tf.reduce_sum(data["noise"]) / N
        return slope * params["x"] - tf.cast(tf.size(data["noise"]), tf.float32) / N * well(
            params["x"]
        )

    return sampler(
        log_lik,
        {"noise": noise},
        {"x": -3.0},
        h**2,
        minibatch_size=1,
        n_iters=1_000_000,
        thin=20,
        n_chains=16,
        seed=seed,
        verbose=False,
        **tuning,
    )


def kolmogorov_smirnov(draws):
    grid = np.linspace(-8, 8, 4001)
    density = np.exp(-well(grid))
    cdf = np.cumsum(density) / density.sum()
    return np.abs(np.searchsorted(np.sort(draws.ravel()), grid) / draws.size - cdf).max()


def test_double_well(seed):
    h = 0.01
    draws = double_well(sgmcmc.sgnht, h, 1, seed, a=0.0)
    assert kolmogorov_smirnov(draws["x"]) <= 0.10
    assert draws.stats["temperature"]["x"].mean() / 2 == pytest.approx(0.5, abs=0.001)
    assert draws.stats["thermostat"]["x"].mean() / h == pytest.approx(1, abs=0.06)


def test_double_well_without_thermostat_is_rejected(seed):
    h = 0.01
    draws = double_well(sgmcmc.sghmc, h, 1, seed, alpha=h, L=1)
    assert kolmogorov_smirnov(draws["x"]) > 0.10
    assert draws.stats["temperature"]["x"].mean() / 2 > 0.9


@pytest.mark.parametrize(
    ("h", "sghmc_figure", "sgnht_figure", "n_iters"),
    [(0.001, 1.27, 1.00, 36_000), (0.01, 3.7, 0.98, 6_000)],
)
def test_gaussian_mean(seed, h, sghmc_figure, sgnht_figure, n_iters):
    x = np.random.default_rng(42).normal(size=100)
    case = Case(100, h**2, np.sqrt(100 * 90 / 10 * x.var(ddof=1)), alpha=h)

    def centred(sampler, **options):
        draws = sampler(
            lambda params, data: -tf.reduce_sum((params["mu"] - data["x"]) ** 2) / 2,
            {"x": x - x.mean()},
            {"mu": 0.0},
            h**2,
            minibatch_size=10,
            n_chains=gaussian.CHAINS,
            burn_in=10_000 // options.get("L", 1),
            seed=seed,
            verbose=False,
            **options,
        )
        return 100 * mean_squares(draws["mu"])

    exact = 100 * gaussian.sghmc_variance(case)
    assert exact == pytest.approx(sghmc_figure, rel=0.03)
    hamilton = centred(sgmcmc.sghmc, alpha=h, L=10, n_iters=n_iters)
    assert_mean(hamilton, exact)

    thermostat = centred(sgmcmc.sgnht, a=h, n_iters=2 * n_iters, thin=10)
    z, error = z_score(thermostat, sgnht_figure)
    assert ALARM * error < 0.02 * sgnht_figure
    assert thermostat.mean() == pytest.approx(sgnht_figure, rel=0.03)
    z, _ = z_score(hamilton, sgnht_figure)
    assert abs(z) > ALARM
