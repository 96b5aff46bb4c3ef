"""The thermostat of SGNHT adapts at any scale of the parameters, and does not change the law.

That is because its rate has no units. False alarms and power are those of `ztest`. The rate of the
paper, which has units, is the negative control.
"""

import numpy as np
import pytest

import sgmcmc

from . import gaussian
from .gaussian import Case, mean_squares
from .ztest import assert_mean, assert_rejected

UNITS = 0.01, 0.1, 1, 10, 100


def in_units(unit, case):
    """The same problem with θ measured in other units."""
    return case._replace(lam=case.lam / unit**2, eps=case.eps * unit**2, sigma=case.sigma / unit)


def targets(case, units):
    return {f"unit_{unit:g}": in_units(unit, case) for unit in units}


def exact(case, a):
    return (1 - gaussian.sgnht_friction(case, a) / 2) / case.lam


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "n_iters", "units"), [(1, 12_000, UNITS), (10, 3000, UNITS), (1000, 200, [1])]
)
def test_the_law_is_the_same_in_any_units(seed, size, n_iters, units):
    cases = targets(Case(1, 0.1, 1, size=size), units)
    draws = gaussian.run(sgmcmc.sgnht, cases, a=0.1, n_iters=n_iters, burn_in=1500, seed=seed)
    for name, each in cases.items():
        assert_mean(mean_squares(draws[name]) * each.lam, exact(each, 0.1) * each.lam)


@pytest.mark.slow
def test_the_rate_of_the_paper_is_rejected(seed):
    """With the paper's rate, draws are too wide at unit 1, and nothing adapts at a small unit."""
    cases = targets(Case(1, 0.1, 1, size=10), [0.01, 1])
    draws = gaussian.run(
        sgmcmc.sgnht, cases, a=0.01, n_iters=3000, seed=seed, thermostat_rate="stepsize"
    )
    for name, case in cases.items():
        assert_rejected(mean_squares(draws[name]) * case.lam, exact(case, 0.01) * case.lam)


@pytest.mark.slow
def test_powers_of_two_give_the_same_chain_bit_for_bit(seed):
    case = Case(1, 0.125, 1, size=3)
    chains = [
        gaussian.run(sgmcmc.sgnht, {"x": in_units(unit, case)}, n_iters=300, seed=seed)["x"] / unit
        for unit in (2.0**-7, 1, 2.0**7)
    ]
    np.testing.assert_array_equal(chains[0], chains[1])
    np.testing.assert_array_equal(chains[2], chains[1])


@pytest.mark.slow
@pytest.mark.parametrize("N", [1_000, 30_000, 1_000_000])
def test_the_friction_adapts_within_some_thousand_steps(seed, N):
    """The mean of N rows, with step sizes at which the gradient's noise doubles the friction."""
    n, a, p = 100, 0.01, 4
    sigma = np.sqrt(N * (N - n) / n)
    case = Case(N, 2 * a / sigma**2, sigma, size=p)

    def friction(**more):
        draws = gaussian.run(
            sgmcmc.sgnht,
            {"x": case},
            N=N,
            n=n,
            a=a,
            burn_in=3000,
            n_iters=500,
            thin=10,
            starts={"x": np.random.default_rng(seed).normal(size=(gaussian.CHAINS, p)) / N**0.5},
            seed=seed,
            **more,
        )
        return draws.stats["thermostat"]["x"].mean(axis=1)

    exact = gaussian.sgnht_friction(case, a)
    assert exact > 1.9 * a
    assert_mean(friction(), exact, detect=0.1)
    assert friction(thermostat_rate="stepsize").mean() < 0.8 * exact


@pytest.mark.slow
def test_a_start_far_away_does_no_harm(seed):
    """Without its bound, the friction would rise on the way down, until the chain diverges."""
    case = Case(1, 0.1, 1, size=10)
    starts = {"x": np.full((gaussian.CHAINS, 10), 1000.0)}
    draws = gaussian.run(
        sgmcmc.sgnht, {"x": case}, a=0.1, starts=starts, n_iters=3000, burn_in=3000, seed=seed
    )
    assert_mean(mean_squares(draws["x"]), exact(case, 0.1))


@pytest.mark.slow
def test_more_noise_than_friction_can_take_out_shows_in_the_temperature(seed):
    case = Case(1, 0.1, 5, size=10)
    draws = gaussian.run(sgmcmc.sgnht, {"x": case}, n_iters=1000, seed=seed)
    assert draws.stats["temperature"]["x"].mean() > 2
