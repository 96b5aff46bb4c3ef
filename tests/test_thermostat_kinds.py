"""What the argument `thermostat` of SGNHT is for: gradient noise that is not alike everywhere.

On Gaussians, each coordinate, or each direction, has the exact law of ALGORITHMS.md, section 1,
with its own noise. False alarms and power are those of `ztest`: comparisons find relative errors of
2 %, or 3 % where nothing is said. Controls are thermostats that have too little freedom for the
noise. The example of paper 002 has no exact law at finite steps: there the standard deviation is
compared with that of the posterior to 5 %, with a standard error below a tenth of that.
"""

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

from . import gaussian, slow
from .gaussian import Case, mean_squares
from .test_thermostat import exact
from .ztest import assert_mean, assert_rejected

KINDS = "parameter", "all", "coordinate", "matrix"
QUIET, NOISY = 0.5, 2.0
LENGTHS = {"n_iters": 3000, "burn_in": 3000, "a": 0.1}


@pytest.mark.slow
def test_noise_that_differs_by_coordinate(seed):
    cases = {"x": Case(1, 0.1, np.repeat([QUIET, NOISY], 5), size=10)}
    draws = gaussian.run(sgmcmc.sgnht, cases, thermostat="coordinate", seed=seed, **LENGTHS)
    wrong = gaussian.run(sgmcmc.sgnht, cases, seed=seed, **{**LENGTHS, "n_iters": 1000})
    for i, noise in ((slice(5), QUIET), (slice(5, 10), NOISY)):
        case = Case(1, 0.1, noise)
        variance = exact(case, LENGTHS["a"])
        assert_mean(mean_squares(draws["x"][..., i]), variance, detect=0.02)
        assert_rejected(mean_squares(wrong["x"][..., i]), variance)
        # Its fluctuations make the mean friction smaller by .4 %, so that no z-test fits it
        friction = draws.stats["thermostat"]["x"][..., i].mean()
        assert friction == pytest.approx(gaussian.sgnht_friction(case, LENGTHS["a"]), rel=0.02)


@pytest.mark.slow
def test_correlated_noise_needs_a_matrix(seed):
    case = Case(1, 0.1, 2)
    laws = [exact(each, LENGTHS["a"]) for each in (case, case._replace(sigma=0))]
    lengths = {**LENGTHS, "n_iters": 10_000, "seed": seed}
    found = gaussian.run_along(sgmcmc.sgnht, case, thermostat="matrix", **lengths)
    wrong = gaussian.run_along(sgmcmc.sgnht, case, thermostat="coordinate", **lengths)
    for each, faulty, variance in zip(found, wrong, laws):
        assert_mean(mean_squares(each), variance, detect=0.02)
        assert_rejected(mean_squares(faulty), variance)


@pytest.mark.slow
def test_one_for_all_parameters(seed):
    """Its friction is that of the mean heat, whatever the step sizes and sizes of parameters."""
    cases = {
        "quiet": Case(4, 0.025, 2 * QUIET, size=12),
        "noisy": Case(1, 0.1, NOISY, size=4),
    }
    lengths = {"n_iters": 2000, "burn_in": 2000, "a": 0.1, "seed": seed}
    draws = gaussian.run(sgmcmc.sgnht, cases, thermostat="all", **lengths)
    own = gaussian.run(sgmcmc.sgnht, cases, **{**lengths, "n_iters": 500})
    friction = draws.stats["thermostat"]
    np.testing.assert_array_equal(friction["quiet"], friction["noisy"])
    assert friction["quiet"].shape == (gaussian.CHAINS, 2000)
    heat = np.sqrt((12 * QUIET**2 + 4 * NOISY**2) / 16)
    mean = gaussian.sgnht_friction(Case(1, 0.1, heat), lengths["a"])
    assert_mean(friction["quiet"].mean(axis=1), mean, detect=0.02)
    for each in own.stats["thermostat"].values():
        assert_rejected(each.mean(axis=1), mean)


def normal_gamma(kind, seed):
    """Per chain, the mean square of γ's distance from its mean, over the posterior's variance."""
    x = np.random.default_rng(42).normal(size=100)
    shape = 1 + len(x) / 2
    rate = 1 + ((x - x.mean()) ** 2).sum() / 2 + len(x) / (2 * (len(x) + 1)) * x.mean() ** 2
    assert np.sqrt(shape) / rate == pytest.approx(0.231, abs=5e-4)

    def log_prior(params):
        mu, gamma = tf.unstack(params["both"])
        return tf.math.log(gamma) / 2 - gamma * mu**2 / 2 - gamma

    def log_lik(params, data):
        mu, gamma = tf.unstack(params["both"])
        return tf.reduce_sum(tf.math.log(gamma) - gamma * (data["x"] - mu) ** 2) / 2

    draws = sgmcmc.sgnht(
        *(log_lik, {"x": x}, {"both": [0.0, 1.6]}, 1e-4, log_prior),
        minibatch_size=10,
        n_iters=10_000,
        burn_in=5000,
        thin=5,
        n_chains=gaussian.CHAINS,
        a=0.01,
        thermostat=kind,
        seed=seed,
        verbose=False,
    )
    away = draws["both"][..., 1].astype(float) - shape / rate
    return (away**2).mean(axis=1) / (shape / rate**2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["coordinate", slow("matrix")])
def test_normal_gamma(seed, kind):
    """The paper's second example, with h = .01 and A = 1: ε = 10⁻⁴ and a = .01."""
    ratio = normal_gamma(kind, seed)
    error = ratio.std() / np.sqrt(len(ratio)) / 2
    assert error < 0.005
    assert np.sqrt(ratio.mean()) == pytest.approx(1, abs=0.05)


@pytest.mark.slow
def test_normal_gamma_with_one_friction_is_rejected(seed):
    ratio = normal_gamma("all", seed)
    assert_rejected(ratio, 1)
    assert 0.55 < np.sqrt(ratio.mean()) < 0.7


@pytest.mark.parametrize("kind", [slow("all"), slow("coordinate"), "matrix"])
def test_for_one_number_all_are_the_same(seed, kind):
    """From far away, too, where the friction is at its bound."""
    case, starts = {"x": Case(1, 0.1, 1)}, {"x": np.full((gaussian.CHAINS, 1), 100.0)}
    lengths = {"n_iters": 100, "burn_in": 0, "starts": starts, "seed": seed, "dtype": "float64"}
    one, other = (
        gaussian.run(sgmcmc.sgnht, case, thermostat=each, **lengths) for each in ("parameter", kind)
    )
    np.testing.assert_allclose(other["x"], one["x"], rtol=1e-6, atol=1e-6)
    frictions = [np.squeeze(each.stats["thermostat"]["x"]) for each in (one, other)]
    np.testing.assert_allclose(*frictions, rtol=1e-6, atol=1e-9)
    assert frictions[0].max() == 1


@pytest.mark.parametrize("kind", [slow("coordinate"), slow("matrix")])
def test_a_start_far_away_does_no_harm(seed, kind):
    case = Case(1, 0.1, 1, size=10)
    starts = {"x": np.random.default_rng(seed).normal(size=(gaussian.CHAINS, 10)) * 1000}
    lengths = {"a": 0.1, "n_iters": 2000, "burn_in": 4000}
    draws = gaussian.run(
        sgmcmc.sgnht, {"x": case}, thermostat=kind, starts=starts, seed=seed, **lengths
    )
    assert_mean(mean_squares(draws["x"]), exact(case, 0.1))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_recorded(kind, tmp_path):
    x = np.random.default_rng(0).normal(size=(100, 2, 3))
    log_lik = lambda params, data: (  # noqa: E731
        -tf.reduce_sum((data["x"] - params["net"]["w"]) ** 2) / 2
        - tf.reduce_sum((data["x"] - params["b"]) ** 2) / 2
    )
    arguments = {
        **{"log_lik": log_lik, "dataset": {"x": x}},
        **{"params": {"net": {"w": np.zeros((2, 3))}, "b": 0.0}, "stepsize": 1e-3},
        **{"minibatch_size": 20, "n_iters": 200, "seed": 1, "verbose": False},
    }
    draws = sgmcmc.sgnht(thermostat=kind, **arguments)
    friction, whole = draws.stats["thermostat"], kind in ("parameter", "all")
    assert friction["b"].shape == (200,)
    assert friction["net"]["w"].shape == ((200,) if whole else (200, 2, 3))
    assert set(sgmcmc.diagnose(draws).overall["temperature"]) == {"b", "net/w"}
    sgmcmc.sgnht(thermostat=kind, out=tmp_path / "a.zarr", **arguments)
    stored = sgmcmc.load_draws(tmp_path / "a.zarr").stats["thermostat"]
    np.testing.assert_array_equal(stored["net"]["w"], friction["net"]["w"])
    blocks = {"net": sgmcmc.SGNHT(thermostat=kind), "b": sgmcmc.SGNHT()}
    mixed = sgmcmc.mixed(blocks=blocks, **arguments).stats["thermostat"]
    if kind != "all":  # which has one friction for all of its block
        np.testing.assert_allclose(mixed["net"]["w"], friction["net"]["w"], rtol=1e-4)
    assert mixed["net"]["w"].shape == friction["net"]["w"].shape


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"thermostat": "coordinates"}, "'coordinate' or 'matrix', not 'coordinates' .did you"),
        ({"thermostat": None}, "thermostat must be 'parameter' or 'all' or"),
        ({"thermostat": "matrix", "params": {"m": np.zeros(101)}}, "'m' has 101 numbers: it is"),
        ({"thermostat": "matrix", "stepsize": None}, "stepsize must be given with thermostat='mat"),
        ({"thermostat": "all", "stepsize": None}, "stepsize must be given with thermostat='all'"),
    ],
)
def test_bad_arguments(more, message):
    arguments = {"params": {"m": np.zeros(2)}, "stepsize": 1e-3, "minibatch_size": 10, **more}
    with pytest.raises(ValueError, match=message):
        sgmcmc.sgnht_setup(
            lambda params, data: -tf.reduce_sum((data["x"][:, None] - params["m"]) ** 2),
            {"x": np.arange(50.0)},
            **arguments,
        )
