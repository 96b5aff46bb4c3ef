"""The argument `temperature`: stationary distributions against exact answers.

At temperature T the noise that a sampler adds has T times its variance; gradient noise stays. False
alarms and power are those of `ztest`.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import tree
from sgmcmc.dynamics.mixed import Mixed

from . import directional, gaussian, slow
from .gaussian import Case, mean_squares
from .ztest import assert_mean, assert_rejected

CASES = {"noisy": Case(2, 0.2, 2, 0.3, size=8), "exact": Case(1, 0.5, 0, 0.3, size=8)}


def test_sgld(seed):
    draws = gaussian.run(sgmcmc.sgld, CASES, n_iters=1200, seed=seed, temperature=2)
    for name, case in CASES.items():
        assert_mean(mean_squares(draws[name]), gaussian.sgld_variance(case, 2))


@pytest.mark.slow
def test_sghmc(seed):
    options = {"alpha": 0.3, "L": 1, "n_iters": 2000, "temperature": 2}
    draws = gaussian.run(sgmcmc.sghmc, CASES, seed=seed, **options)
    for name, case in CASES.items():
        assert_mean(mean_squares(draws[name]), gaussian.sghmc_variance(case, 2))
        seen = draws.stats["temperature"][name].mean(axis=1)
        assert_mean(seen, gaussian.sghmc_temperature(case, 2))


@pytest.mark.parametrize(
    ("case", "options"),
    [
        (Case(1, 1e-2, 0, size=20), {"n_iters": 1000, "burn_in": 500}),
        slow(
            Case(1, 1e-3, 10, size=50),
            {"n_iters": 2500, "burn_in": 1500, "N": 400, "n": 20},
        ),
    ],
)
def test_sgnht(seed, case, options):
    draws = gaussian.run(sgmcmc.sgnht, {"many": case}, a=0.05, seed=seed, temperature=2, **options)
    friction = gaussian.sgnht_friction(case, 0.05, 2)
    assert_mean(mean_squares(draws["many"]), 2 * (1 - friction / 2))
    assert_mean(draws.stats["thermostat"]["many"].mean(axis=1), friction)
    assert_mean(draws.stats["temperature"]["many"].mean(axis=1), 2)


FLAT = directional.Target(
    sgmcmc.Euclidean(), lambda x: -tf.reduce_sum(x**2) / 2, lambda rng: 2 * rng.normal(size=2), 1.5
)


def squares_on_flat_space(kind, seed):
    lengths = {"n_iters": 600, "burn_in": 50, "L": 1}
    draws = directional.run(kind, {"x": FLAT}, seed=seed, temperature=4.0, **lengths)
    return mean_squares(draws["x"])


@pytest.mark.parametrize("kind", [sgmcmc.GMC, sgmcmc.SGGMC])
def test_on_manifolds(kind, seed):
    factor = 1 if kind is sgmcmc.GMC else directional.aboba_moments(1, FLAT.eps, FLAT.friction)[0]
    assert_mean(squares_on_flat_space(kind, seed), 4 * factor)


@dataclass(frozen=True)
class DeafMetropolis(sgmcmc.GMC):
    """Points are accepted by exp(−ΔH), as at temperature 1."""

    def update(self, chain, estimate, noise, h):
        return super().update(chain, estimate, noise._replace(temperature=1.0), h)


def test_a_deaf_metropolis_step_is_rejected(seed):
    assert_rejected(squares_on_flat_space(DeafMetropolis, seed), 4)


@pytest.mark.parametrize("sampler", [sgmcmc.sgld, sgmcmc.sghmc, sgmcmc.sgnht])
def test_a_constant_schedule_is_a_number(sampler):
    options = {"n_iters": 5, "burn_in": 0, "seed": 1, "jit": False}
    run = partial(gaussian.run, sampler, {"exact": CASES["exact"]}, **options)
    number, schedule, other = (run(temperature=T)["exact"] for T in (2, lambda k: 2, 1))
    np.testing.assert_array_equal(number, schedule)
    assert not np.array_equal(number, other)


def test_a_schedule_sets_the_temperature_of_each_iteration(seed):
    """Temperatures 1 and 3 in turn: the variance after each solves v' = (1 − ελ/2)² v + εT."""
    case = Case(1, 0.5, 0, size=8)
    draws = gaussian.run(
        *(sgmcmc.sgld, {"x": case}),
        n_iters=1000,
        burn_in=100,
        seed=seed,
        temperature=lambda k: 1 if k % 2 == 0 else 3,
    )["x"]
    keep = (1 - case.eps * case.lam / 2) ** 2
    after_1 = case.eps * (1 + 3 * keep) / (1 - keep**2)
    after_3 = case.eps * (3 + 1 * keep) / (1 - keep**2)
    assert_mean(mean_squares(draws[:, ::2]), after_1)
    assert_mean(mean_squares(draws[:, 1::2]), after_3)
    assert_rejected(mean_squares(draws[:, ::2]), gaussian.sgld_variance(case, 2))


def test_without_temperature_a_chain_goes_downhill():
    case = Case(1, 0.5, 0)
    draws = sgmcmc.sgld(
        lambda params, data: -tf.reduce_sum(params["x"] ** 2) / 2 + 0 * data["none"][0],
        *({"none": np.zeros(1)}, {"x": np.ones(3)}, case.eps),
        minibatch_size=1,
        n_iters=20,
        temperature=0,
        verbose=False,
    )
    exact = (1 - case.eps / 2) ** np.arange(1, 21)
    np.testing.assert_allclose(draws["x"], np.repeat(exact[:, None], 3, axis=1), 1e-5)


@pytest.mark.parametrize("corrected", [False, slow(True)])
def test_barker_dynamics_are_those_of_a_flatter_posterior(corrected, seed):
    """At T, with the step size εT: all is multiplied by powers of 2, and rounds alike."""
    barker = partial(sgmcmc.sample, sgmcmc.SGBarker(corrected))
    case, flatter = Case(1, 0.1, 2, size=8), Case(1 / 4, 0.4, 2 / 4, size=8)
    lengths = {"n_iters": 200, "burn_in": 0, "seed": seed}
    draws = gaussian.run(barker, {"x": case}, temperature=4.0, **lengths)["x"]
    np.testing.assert_allclose(draws, gaussian.run(barker, {"x": flatter}, **lengths)["x"], 1e-4)


def at_zero_from(first):
    return lambda k: float(k < first)


@pytest.mark.parametrize(
    ("temperature", "message"),
    [
        (0, "temperature must be a finite number above 0, not 0"),
        (
            sgmcmc.cyclical(0.1, 10, 0.5).temperature,
            r"temperature\(0\) must be a finite number abo",
        ),
        (at_zero_from(3), r"temperature\(3\) must be a finite number above 0, not 0.0"),
    ],
)
@pytest.mark.parametrize("dynamics", [sgmcmc.SGBarker(), Mixed({"exact": sgmcmc.SGBarker()})])
def test_barker_dynamics_do_not_move_without_temperature(dynamics, temperature, message):
    with pytest.raises(ValueError, match=f"^SGBarker's {message}"):
        gaussian.run(
            *(partial(sgmcmc.sample, dynamics), {"exact": CASES["exact"]}),
            **{"n_iters": 10, "burn_in": 0, "seed": 1, "jit": False, "temperature": temperature},
        )


@dataclass(frozen=True)
class TemperatureTwice(sgmcmc.SGLD):
    """Noise whose variance is multiplied by T² instead of T."""

    def update(self, chain, estimate, noise, h):
        more = tree.map(lambda z: tf.sqrt(noise.temperature) * z, noise.normals)
        return super().update(chain, estimate, noise._replace(normals=more), h)


@dataclass(frozen=True)
class DeafThermostat(sgmcmc.SGNHT):
    """A thermostat that holds the kinetic energy of temperature 1."""

    def update(self, chain, estimate, noise, h):
        return super().update(chain, estimate, noise._replace(temperature=1.0), h)


@pytest.mark.slow
def test_temperature_taken_twice_is_rejected(seed):
    wrong = partial(sgmcmc.sample, TemperatureTwice())
    draws = gaussian.run(wrong, CASES, n_iters=1200, seed=seed, temperature=2)
    for name, case in CASES.items():
        assert_rejected(mean_squares(draws[name]), gaussian.sgld_variance(case, 2))


@pytest.mark.slow
def test_a_deaf_thermostat_is_rejected(seed):
    case = Case(1, 0.01, 3, size=50)
    wrong = partial(sgmcmc.sample, DeafThermostat(a=0.05))
    draws = gaussian.run(
        *(wrong, {"many": case}), n_iters=2000, burn_in=1000, seed=seed, temperature=2
    )
    friction = gaussian.sgnht_friction(case, 0.05, 2)
    assert_rejected(draws.stats["temperature"]["many"].mean(axis=1), 2)
    assert_rejected(mean_squares(draws["many"]), 2 * (1 - friction / 2))


BY_COUNTS = "temperature must be 1 with probabilities that move by counts, as in SCIR and SGRLD"


@pytest.mark.parametrize(
    ("error", "message", "temperature"),
    [
        (ValueError, "temperature must be a finite number of at least 0, not -1", -1),
        (ValueError, "temperature must be a finite number of at least 0, not nan", np.nan),
        (ValueError, "temperature must be a finite number of at least 0, not inf", np.inf),
        (ValueError, "temperature must be a finite number of at least 0 or a schedule", [1, 2]),
        (TypeError, "temperature must be a finite number of at least 0 or a schedule", "hot"),
        (TypeError, "temperature must be a finite number of at least 0 or a schedule", True),
        (TypeError, "temperature must be a finite number of at least 0 or a schedule", {"x": 1}),
        (
            ValueError,
            r"temperature\(0\) must be a finite number of at least 0, not -1",
            lambda k: -1,
        ),
        (ValueError, r"temperature\(0\) raised ZeroDivisionError", lambda k: 1 / k),
        (TypeError, r"temperature\(0\) must be a finite number of at least 0", lambda k: None),
        (ValueError, r"temperature\(5\) must be a finite number of at least 0", lambda k: 4.5 - k),
    ],
)
def test_bad_temperatures_get_a_clear_error(error, message, temperature):
    with pytest.raises(error, match=f"^{message}"):
        gaussian.run(
            sgmcmc.sgld, CASES, n_iters=10, burn_in=0, seed=1, jit=False, temperature=temperature
        )


def test_probabilities_that_move_by_counts_have_no_temperature():
    with pytest.raises(ValueError, match=f"^{BY_COUNTS}"):
        sgmcmc.sample(
            sgmcmc.SCIR(1.0),
            lambda params, data: tf.reduce_sum(tf.math.log(tf.gather(params["p"], data["z"]))),
            *({"z": np.arange(3)}, {"p": np.ones(3) / 3}, 0.1),
            minibatch_size=1,
            temperature=2.0,
            verbose=False,
        )
