"""SGLD and SGHMC that add less noise by an estimate of the gradient's: `noise_estimate`.

On Gaussians, the estimate takes gradient noise out of the formulas of ALGORITHMS.md, section 1,
exactly: the variance of draws is then that of σ = 0. False alarms and power are those of `ztest`:
each comparison finds relative errors of 2 %. Controls are the formula with all noise, and estimates
without the factor (N − n)/N or of the diagonal alone.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import tree
from sgmcmc.dynamics.corrected import lessened, root
from sgmcmc.dynamics.sghmc import SGHMC
from sgmcmc.dynamics.sgld import SGLD

from . import gaussian, slow
from .gaussian import Case, mean_squares
from .test_stationary import wrong  # noqa: F401
from .ztest import assert_mean, assert_rejected

LANGEVIN = {"estimated": Case(2, 0.2, 2, size=12), "whole": Case(2, 0.2, 2, size=12)}
HAMILTON = {
    "estimated": Case(2, 0.1, 1.2, 0.4, size=12),
    "whole": Case(5, 0.05, 2, 0.5, size=12),
}
KIND = {"estimated": "fisher", "whole": None}
VARIANCE = {"sgld": gaussian.sgld_variance, "sghmc": gaussian.sghmc_variance}


def settings(name):
    """Cases, and arguments of the sampler."""
    if name == "sgld":
        return LANGEVIN, {}
    return HAMILTON, {"alpha": {k: case.alpha for k, case in HAMILTON.items()}, "L": 1}


def noiseless(case):
    return case._replace(sigma=0)


@pytest.mark.parametrize("name", ["sgld", slow("sghmc")])
def test_the_noise_of_minibatches_is_taken_out(seed, name):
    cases, own = settings(name)
    draws = gaussian.run(
        getattr(sgmcmc, name),
        cases,
        n_iters=600,
        burn_in=200,
        noise_estimate=KIND,
        seed=seed,
        **own,
    )
    exact, squares = VARIANCE[name], mean_squares(draws["estimated"])
    assert_mean(squares, exact(noiseless(cases["estimated"])), detect=0.02)
    assert_rejected(squares, exact(cases["estimated"]))
    assert_mean(mean_squares(draws["whole"]), exact(cases["whole"]), detect=0.02)


def without_finite_population(dynamics):
    @dataclass(frozen=True)
    class WithoutFinitePopulation(dynamics):
        """V̂ = N²/n · Cov, as if rows were drawn with replacement: for 10 of 40 rows."""

        def rows(self, estimate):
            return tree.map(lambda g: g * np.sqrt(40 / 30), estimate.extra)

    return WithoutFinitePopulation


@pytest.mark.parametrize("name", [slow("sgld"), "sghmc"])
def test_an_estimate_without_the_finite_population_is_rejected(seed, name, wrong):  # noqa: F811
    cases, own = settings(name)
    faulty = wrong(without_finite_population({"sgld": SGLD, "sghmc": SGHMC}[name]))
    draws = gaussian.run(
        faulty, cases, n_iters=600, burn_in=200, noise_estimate="fisher", seed=seed, **own
    )
    exact = VARIANCE[name](noiseless(cases["estimated"]))
    assert_rejected(mean_squares(draws["estimated"]), exact)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sgld", slow("sghmc")])
def test_correlated_noise_needs_the_matrix(seed, name):
    """With the diagonal alone, half of the noise is left along (1, 1), and as much lacks across."""
    case, own = {
        "sgld": (Case(2, 0.2, 2), {}),
        "sghmc": (Case(2, 0.1, 1.2, 0.4), {"alpha": 0.4, "L": 1}),
    }[name]
    exact = VARIANCE[name](noiseless(case))

    def squares(kind):
        lengths = {"n_iters": 5000, "burn_in": 200, "noise_estimate": kind}
        draws = gaussian.run_along(getattr(sgmcmc, name), case, seed=seed, **lengths, **own)
        return map(mean_squares, draws)

    for each in squares("fisher_matrix"):
        assert_mean(each, exact, detect=0.02)
    half = VARIANCE[name](case._replace(sigma=case.sigma / np.sqrt(2)))
    along, across = squares("fisher")
    assert_mean(along, half, detect=0.02)
    assert_mean(across, 2 * exact - half, detect=0.02)
    for each in along, across:
        assert_rejected(each, exact)


@pytest.mark.parametrize("kind", ["fisher", "fisher_matrix"])
def test_the_root_of_the_noise_that_is_left(kind):
    """Each chain multiplies another unit vector by the root, for a parameter of two axes."""
    rng, n, N, share = np.random.default_rng(0), 5, 50, 0.3
    gradients = rng.normal(size=(n, 6)) * 8
    h = np.array([0.1, 0.3])
    variance = (N - n) / (N * n) * np.cov(gradients.T)
    if kind == "fisher":
        variance = np.diag(np.diag(variance))
    for step in h:
        found = lessened(
            tf.reshape(tf.eye(6, dtype=tf.float64), (6, 2, 3)),
            tf.fill((6, 1, 1), tf.constant(share * step, tf.float64)),
            tf.fill((6, 1, 1), tf.constant(step, tf.float64)),
            tf.constant(np.tile(gradients.reshape(n, 2, 3), (6, 1, 1, 1))),
            *(N, kind),
        )
        values, vectors = np.linalg.eigh(2 * share * step * np.eye(6) - step**2 * variance)
        exact = vectors @ np.diag(np.sqrt(np.maximum(values, 0))) @ vectors.T
        np.testing.assert_allclose(np.reshape(found, (6, 6)), exact, rtol=1e-6, atol=1e-9)
    assert values[0] < 0  # so that the last case has noise that cannot be taken out


@pytest.mark.parametrize(("p", "n"), [(1, 5), (54, 5), slow(54, 500), slow(500, 50)])
def test_the_root_of_a_large_matrix(p, n):
    rng = np.random.default_rng(0)
    gradients, z = rng.normal(size=(n, p)), rng.normal(size=(20, p))
    values, vectors = np.linalg.eigh(gradients.T @ gradients)
    gradients *= np.sqrt(0.8 / values[-1])
    of_roots = np.sqrt(1 - 0.8 * np.maximum(values, 0) / values[-1])
    product = lambda v: v @ gradients.T @ gradients  # noqa: E731
    found = root(lambda v: tf.constant(product(v.numpy())), tf.constant(z))
    np.testing.assert_allclose(found, z @ (vectors * of_roots) @ vectors.T, atol=1e-4)


def model(p=2, N=60):
    x = np.random.default_rng(0).normal(size=(N, p))
    log_lik = lambda params, data: -tf.reduce_sum((data["x"] - params["m"]) ** 2) / 2  # noqa: E731
    return {
        **{"log_lik": log_lik, "dataset": {"x": x}, "params": {"m": np.zeros(p)}},
        **{"stepsize": 1e-3, "minibatch_size": 10, "verbose": False},
    }


@pytest.mark.parametrize(
    "setup", [sgmcmc.sgld_setup, slow(sgmcmc.sghmc_setup), slow(sgmcmc.sghmccv_setup)]
)
def test_minibatches_are_then_independent(setup):
    for kind, minibatches in ((None, "reshuffled"), ("fisher", "independent")):
        sampler = setup(**model(), noise_estimate=kind)
        assert sampler.settings["minibatches"] == minibatches
        sgmcmc.step(sampler, 3)
        assert np.isfinite(sgmcmc.get_params(sampler)["m"]).all()


@pytest.mark.slow
def test_in_blocks_of_mixed(seed):
    """Of the two blocks, one has an estimate. They share a likelihood and minibatches."""
    cases = {"estimated": Case(2, 0.1, 1.2, 0.4, size=12), "whole": Case(2, 0.2, 2, size=12)}
    blocks = {
        "estimated": sgmcmc.SGHMC(alpha=0.4, L=1, noise_estimate="fisher"),
        "whole": sgmcmc.SGLD(),
    }
    draws = gaussian.run(sgmcmc.mixed, cases, n_iters=600, burn_in=200, blocks=blocks, seed=seed)
    exact = gaussian.sghmc_variance(noiseless(cases["estimated"]))
    assert_mean(mean_squares(draws["estimated"]), exact, detect=0.02)
    exact = gaussian.sgld_variance(cases["whole"])
    assert_mean(mean_squares(draws["whole"]), exact, detect=0.02)


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        slow(sgmcmc.sgld, {"stepsize": 5e-3}),
        (sgmcmc.sghmc, {"stepsize": 1e-3, "alpha": 0.4}),
    ],
)
def test_diagnose_knows_them(sampler, options, seed):
    """Without `noise_estimate`, gradient noise would make the variance 1.4 times what is right."""
    given = {**model(), **options, "n_iters": 8000, "seed": seed}
    found = sgmcmc.diagnose(sampler(**given, noise_estimate="fisher"))
    assert "expected" not in found
    assert not any("must be wrong by" in text for text in found.findings)
    known = found.overall
    off = known["width"] - known.get("width_expected", known["width"])
    assert abs(off) < 0.02 + 8 * known["width_error"]
    without = sgmcmc.diagnose(sampler(**given, minibatches="independent"))
    assert any("must be" in text or "too wide" in text for text in without.findings)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"noise_estimate": "fischer"}, r"noise_estimate must be None, 'fisher'.*mean 'fisher'"),
        ({"noise_estimate": 0.1}, r"'fisher_matrix' or a dict of these by parameter, not 0\.1"),
        ({"noise_estimate": {"m": "matrix"}}, r"noise_estimate\['m'\] must be None"),
        ({"noise_estimate": {"x": "fisher"}}, "names 'x', which is no parameter"),
        ({"minibatch_size": 1}, "minibatch_size must be 2 or more where noise_estimate is"),
        ({"temperature": 2.0}, "noise_estimate must be None where temperature is not 1"),
        ({"stepsize": None}, "stepsize must be given with noise_estimate"),
    ],
)
@pytest.mark.parametrize("setup", [sgmcmc.sgld_setup, sgmcmc.sghmc_setup])
def test_bad_arguments(setup, more, message):
    with pytest.raises(ValueError, match=message):
        setup(**{**model(), "noise_estimate": "fisher", **more})


@dataclass(frozen=True)
class Carried(sgmcmc.Estimator):
    """An estimator with a state of its own."""

    carried = True

    def estimate(self, model, x, state, batch):
        raise NotImplementedError


@pytest.mark.parametrize("name", ["sghmc_setup", "mixed_setup"])
def test_only_with_estimators_that_have_single_rows(name):
    block = {"noise_estimate": "fisher"}
    own = block if name == "sghmc_setup" else {"blocks": {"m": sgmcmc.SGHMC(**block)}}
    with pytest.raises(ValueError, match=r"noise_estimate must be None: .* of single rows"):
        getattr(sgmcmc, name)(**model(), gradient=Carried(), **own)
