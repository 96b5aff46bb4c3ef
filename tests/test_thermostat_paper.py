"""The examples of paper 002 (Ding et al., 2014), with the figures of ALGORITHMS.md, section 2.

In the paper's h and A, ε = h² and a = Ah. The rate of its thermostat is ε. Figures with an exact
formula are compared with it by `ztest`. The others must lie within the bounds given, which are ten
times the standard error of the runs.
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


@pytest.mark.parametrize("rate", ["stepsize", 1e-3])
def test_double_well(seed, rate):
    h = 0.01
    draws = double_well(sgmcmc.sgnht, h, 1, seed, a=0.0, thermostat_rate=rate)
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
    [(0.001, 1.27, 1.00, 8000), (0.01, 3.7, 0.98, 1000)],
)
def test_gaussian_mean(seed, h, sghmc_figure, sgnht_figure, n_iters):
    """Many means in one model. Each has the same data in another order, so that all are alike."""
    x = np.random.default_rng(42).normal(size=100)
    case = Case(100, h**2, np.sqrt(100 * 90 / 10 * x.var(ddof=1)), alpha=h)
    rng = np.random.default_rng(seed)

    def centred(sampler, names, size, figure, **options):
        orders = rng.permuted(np.tile(x - x.mean(), (len(names), size, 1)), axis=2)
        draws = sampler(
            lambda params, data: sum(-tf.reduce_sum((params[k] - data[k]) ** 2) / 2 for k in names),
            dict(zip(names, orders.swapaxes(1, 2))),
            {k: np.zeros(size) for k in names},
            h**2,
            minibatch_size=10,
            n_chains=gaussian.CHAINS,
            starts={
                k: rng.normal(0, np.sqrt(figure / 100), (gaussian.CHAINS, size)) for k in names
            },
            seed=seed,
            verbose=False,
            **options,
        )
        return 100 * np.mean([mean_squares(draws[k]) for k in names], axis=0)

    exact = 100 * gaussian.sghmc_variance(case)
    assert exact == pytest.approx(sghmc_figure, rel=0.03)
    lengths = {"n_iters": n_iters // 10, "burn_in": 500, "L": 10}
    hamilton = centred(sgmcmc.sghmc, ["mu"], 50, exact, alpha=h, **lengths)
    assert_mean(hamilton, exact)

    # One a thermostat, as in the paper
    lengths = {"n_iters": 3 * n_iters // 2, "burn_in": 5000, "thin": 10}
    thermostat = centred(
        sgmcmc.sgnht, list("abcdefgh"), 1, sgnht_figure, a=h, thermostat_rate="stepsize", **lengths
    )
    z, error = z_score(thermostat, sgnht_figure)
    assert ALARM * error < 0.02 * sgnht_figure
    assert thermostat.mean() == pytest.approx(sgnht_figure, rel=0.03)
    z, _ = z_score(hamilton, sgnht_figure)
    assert abs(z) > ALARM
