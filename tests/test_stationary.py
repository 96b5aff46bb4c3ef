"""Stationary distributions against the exact answers of ALGORITHMS.md, section 1.

False alarms and power are those of `ztest`: all comparisons find relative errors of 3 %, and each
sampler has negative controls, the usual faults of the field, that the same comparisons reject.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import tree
from sgmcmc.describe import SAMPLERS, public
from sgmcmc.dynamics import Chain
from sgmcmc.dynamics.sghmc import SGHMC, Moving
from sgmcmc.dynamics.sgld import SGLD
from sgmcmc.dynamics.sgnht import SGNHT, Thermostatted

from . import gaussian, slow
from .gaussian import Case, mean_squares
from .ztest import assert_mean, assert_normal, assert_rejected

LANGEVIN = {
    "table_1": Case(1, 0.5, 0, size=8),
    "table_2": Case(4, 0.3, 2, size=8),
    "noisy": Case(2, 0.2, 5, size=8),
    "small_step": Case(10, 0.02, 1, size=8),
    "large_step": Case(1, 2.0, 1, size=8),
}
HAMILTON = {
    "table": Case(1, 0.1, 0, 0.1, size=8),
    "noisy": Case(2, 0.1, 2, 0.3, size=8),
    "little_friction": Case(1, 0.3, 0.5, 0.03, size=8),
    "all_friction": Case(3, 0.2, 1, 1.0, size=8),
    "stiff": Case(20, 0.1, 3, 0.5, size=8),
}


@pytest.fixture
def wrong():
    """Make a sampler of faulty dynamics, and take it off the table after the test."""

    def sampler(dynamics):
        return public("wrong", dynamics)[0]

    yield sampler
    SAMPLERS.pop("wrong", None)


def alphas(cases):
    return {name: case.alpha for name, case in cases.items()}


@pytest.mark.parametrize("n", [1, slow(10), slow(25)])
def test_sgld(seed, n):
    draws = gaussian.run(sgmcmc.sgld, LANGEVIN, n=n, n_iters=1200, seed=seed)
    for name, case in LANGEVIN.items():
        assert_mean(mean_squares(draws[name]), gaussian.sgld_variance(case))
    assert_normal(draws["table_1"], gaussian.sgld_variance(LANGEVIN["table_1"]))


def test_sgld_table():
    assert gaussian.sgld_variance(LANGEVIN["table_1"]) == pytest.approx(1.14286, abs=1e-5)
    assert gaussian.sgld_variance(LANGEVIN["table_2"]) == pytest.approx(0.46429, abs=1e-5)
    assert gaussian.sghmc_variance(HAMILTON["table"]) == pytest.approx(1.02703, abs=1e-5)


@pytest.mark.parametrize("L", [slow(1), slow(5)])
def test_sghmc(seed, L):
    lengths = {"n_iters": 4000 // L, "burn_in": 500 // L}
    draws = gaussian.run(sgmcmc.sghmc, HAMILTON, alpha=alphas(HAMILTON), L=L, **lengths, seed=seed)
    for name, case in HAMILTON.items():
        assert_mean(mean_squares(draws[name]), gaussian.sghmc_variance(case))
        temperature = draws.stats["temperature"][name].mean(axis=1)
        assert_mean(temperature, gaussian.sghmc_temperature(case))
    assert_normal(draws["table"], gaussian.sghmc_variance(HAMILTON["table"]))


@pytest.mark.parametrize("L", [slow(2), slow(5)])
def test_sghmc_resampled(seed, L):
    cases = {k: HAMILTON[k] for k in ("table", "noisy", "stiff")}
    lengths = {"n_iters": 1000, "burn_in": 300}
    draws = gaussian.run(
        sgmcmc.sghmc, cases, alpha=alphas(cases), L=L, resample_momentum=True, **lengths, seed=seed
    )
    for name, case in cases.items():
        assert_mean(mean_squares(draws[name]), gaussian.resampled_variance(case, L))


@pytest.mark.slow
def test_sgnht(seed):
    cases = {"many": Case(1, 1e-3, 10, size=50)}
    draws = gaussian.run(
        sgmcmc.sgnht, cases, a=0.05, n_iters=2500, burn_in=1500, seed=seed, N=400, n=20
    )
    friction = gaussian.sgnht_friction(cases["many"], 0.05)
    assert_mean(mean_squares(draws["many"]), (1 - friction / 2) / 1, detect=0.02)
    assert_mean(draws.stats["thermostat"]["many"].mean(axis=1), friction, detect=0.02)
    assert_mean(draws.stats["temperature"]["many"].mean(axis=1), 1, detect=0.02)


@pytest.mark.parametrize("name", [slow("sgldcv"), slow("sghmccv"), slow("sgnhtcv")])
def test_control_variates_take_all_noise_out_of_a_gaussian(seed, name):
    tuning = {"sghmccv": {"alpha": 0.1, "L": 1}, "sgnhtcv": {"a": 0.1}}.get(name, {})
    case = Case(2, 0.01, 10, size=50)
    draws = gaussian.run(SAMPLERS[name], {"theta": case}, seed=seed, n_iters=2000, **tuning)
    noiseless = case._replace(sigma=0)
    exact = {
        "sgldcv": gaussian.sgld_variance(noiseless),
        "sghmccv": gaussian.sghmc_variance(noiseless),
        "sgnhtcv": (1 - gaussian.sgnht_friction(noiseless, 0.1) / 2) / case.lam,
    }
    assert_mean(mean_squares(draws["theta"]), exact[name])


def too_little_noise(dynamics):
    @dataclass(frozen=True)
    class TooLittleNoise(dynamics):
        def update(self, chain, estimate, noise, h):
            less = tree.map(lambda z: tf.sqrt(tf.cast(0.9, z.dtype)) * z, noise.normals)
            return super().update(chain, estimate, noise._replace(normals=less), h)

    return TooLittleNoise


@dataclass(frozen=True)
class DriftRoundedAway(SGLD):
    """The drift is added to a large θ before the noise is: in float32 it vanishes."""

    def update(self, chain, estimate, noise, h):
        move = lambda x, g, z, h: (x + h / 2 * g) + tf.sqrt(h) * z  # noqa: E731
        return Chain(tree.map(move, chain.x, estimate.gradient, noise.normals, h))


def test_small_steps_far_from_zero(seed, wrong):
    lam, h, centre = 1e4, 1e-6, 3000.0

    def squares(sampler):
        draws = sampler(
            lambda params, data: -lam / 2 * (params["x"] - centre) ** 2 + 0 * data["none"][0],
            {"none": np.zeros(1)},
            {"x": centre},
            h,
            minibatch_size=1,
            n_chains=gaussian.CHAINS,
            burn_in=1000,
            n_iters=4000,
            seed=seed,
            verbose=False,
        )
        return mean_squares(draws["x"] - centre)

    exact = gaussian.sgld_variance(Case(lam, h, 0))
    assert_mean(squares(sgmcmc.sgld), exact, detect=0.15)
    assert_rejected(squares(wrong(DriftRoundedAway)), exact)


@dataclass(frozen=True)
class PaperOneStep(SGLD):
    """SGLD that takes the h = ε/2 of paper 000 for ε: half the drift, all the noise."""

    def update(self, chain, estimate, noise, h):
        half = tree.map(lambda g: g / 2, estimate.gradient)
        return super().update(chain, estimate._replace(gradient=half), noise, h)


@dataclass(frozen=True)
class HalfTemperature(SGHMC):
    """The R package's refresh, ν ~ N(0, ε/2)."""

    def begin(self, chain, noise, h):
        return self.init(chain.x, noise, tree.map(lambda h: h / 2, h))


@dataclass(frozen=True)
class KickBeforeDrift(SGHMC):
    """The gradient is from before the drift, as in BlackJAX, posteriors and SGMCMCJax."""

    def update(self, chain, estimate, noise, h):
        moved = tree.map(tf.add, chain.x, chain.nu)
        return Moving(moved, super().update(chain, estimate, noise, h).nu)


@dataclass(frozen=True)
class ThermostatKickBeforeDrift(SGNHT):
    """The same fault with a thermostat."""

    def update(self, chain, estimate, noise, h):
        moved = tree.map(tf.add, chain.x, chain.nu)
        right = super().update(chain, estimate, noise, h)
        return Thermostatted(moved, right.nu, right.xi)


@dataclass(frozen=True)
class HalfThermostat(SGNHT):
    """A thermostat that holds E ν² = ε/2."""

    def update(self, chain, estimate, noise, h):
        right = super().update(chain, estimate, noise, h)
        return right._replace(xi=tree.map(lambda xi, r: xi + r / 2, right.xi, self.thermostat_rate))


@dataclass(frozen=True)
class SharedNoise(SGLD):
    """One seed for all noise, as in the R package: parameters of one shape move together."""

    def update(self, chain, estimate, noise, h):
        first = tree.leaves(noise.normals)[0]
        z = tree.map(lambda _: first, noise.normals)
        move = lambda x, g, z, h: x + h / 2 * g + tf.sqrt(h) * z  # noqa: E731
        return Chain(tree.map(move, chain.x, estimate.gradient, z, h))


@pytest.mark.parametrize("dynamics", [too_little_noise(SGLD), slow(PaperOneStep)])
def test_wrong_sgld_is_rejected(seed, wrong, dynamics):
    draws = gaussian.run(wrong(dynamics), LANGEVIN, n_iters=1000, seed=seed)
    assert_rejected(mean_squares(draws["table_2"]), gaussian.sgld_variance(LANGEVIN["table_2"]))
    assert_rejected(mean_squares(draws["table_1"]), gaussian.sgld_variance(LANGEVIN["table_1"]))


@pytest.mark.slow
def test_parameters_have_noise_of_their_own(seed, wrong):
    def products(sampler):
        cases = {"a": Case(1, 0.5, 0), "b": Case(1, 0.5, 0)}
        draws = gaussian.run(sampler, cases, n_iters=2500, seed=seed)
        return 1 + (draws["a"] * draws["b"]).mean(axis=(1, 2))

    assert_mean(products(sgmcmc.sgld), 1)
    assert_rejected(products(wrong(SharedNoise)), 1)


@pytest.mark.parametrize("dynamics", [too_little_noise(SGHMC), slow(KickBeforeDrift)])
def test_wrong_sghmc_is_rejected(seed, wrong, dynamics):
    cases = {"damped": Case(1, 0.1, 0, 0.3, size=8), "noisy": HAMILTON["noisy"]}
    draws = gaussian.run(wrong(dynamics), cases, alpha=0.3, L=1, n_iters=2000, seed=seed)
    for name, case in cases.items():
        assert_rejected(mean_squares(draws[name]), gaussian.sghmc_variance(case))


@pytest.mark.slow
def test_half_temperature_refresh_is_rejected(seed, wrong):
    cases = {"table": HAMILTON["table"]}
    options = {"alpha": 0.1, "L": 5, "resample_momentum": True, "n_iters": 500, "seed": seed}
    draws = gaussian.run(wrong(HalfTemperature), cases, **options)
    assert_rejected(mean_squares(draws["table"]), gaussian.resampled_variance(cases["table"], 5))
    assert_rejected(mean_squares(draws["table"]), gaussian.sghmc_variance(cases["table"]))


@pytest.mark.parametrize(
    ("dynamics", "seen_in"),
    [
        slow(too_little_noise(SGNHT), "thermostat"),
        slow(ThermostatKickBeforeDrift, "thermostat"),
        slow(HalfThermostat, "temperature"),
    ],
)
def test_wrong_sgnht_is_rejected(seed, wrong, dynamics, seen_in):
    case = Case(1, 0.01, 3, size=50)
    draws = gaussian.run(
        wrong(dynamics), {"many": case}, a=0.05, n_iters=2000, burn_in=1000, seed=seed
    )
    friction = gaussian.sgnht_friction(case, 0.05)
    seen, exact = {
        "thermostat": (draws.stats["thermostat"]["many"].mean(axis=1), friction),
        "temperature": (draws.stats["temperature"]["many"].mean(axis=1), 1),
    }[seen_in]
    assert_rejected(seen, exact)
