"""Without a step size, draws are as wide as promised: exact answers, warnings and errors."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import minibatches
from sgmcmc.tuning import TuningWarning

from . import slow
from .ztest import assert_mean, assert_rejected

CHAINS = 256
SAMPLERS = [
    sgmcmc.sgld,
    slow(sgmcmc.sghmc),
    slow(sgmcmc.sgnht),
    slow(sgmcmc.baoab),
    slow(sgmcmc.sgldcv),
    slow(sgmcmc.sghmccv),
    slow(sgmcmc.sgnhtcv),
]


def gaussian(p=4, N=400, condition=1e4):
    """A regression with known noise and a posterior of this condition number, by its covariance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, p)) * np.geomspace(1, condition**-0.5, p)
    X = X @ np.linalg.qr(rng.normal(size=(p, p)))[0]
    y = X @ rng.normal(size=p) + rng.normal(size=N)

    def log_lik(params, data):
        fit = tf.linalg.matvec(data["X"], params["beta"]) + params["nest"]["b"]
        return -tf.reduce_sum((data["y"] - fit) ** 2) / 2

    full = np.column_stack([X, np.ones(N)])
    covariance = np.linalg.inv(full.T @ full)
    mean = covariance @ full.T @ y
    return log_lik, {"X": X, "y": y}, {"beta": np.zeros(p), "nest": {"b": 0.0}}, mean, covariance


def white(draws, mean, covariance):
    """Draws in coordinates in which the posterior has mean 0 and variance 1."""
    x = np.concatenate([draws["beta"], draws["nest"]["b"][..., None]], axis=-1).astype(float)
    return np.linalg.solve(np.linalg.cholesky(covariance), (x - mean)[..., None])[..., 0]


def trace_of_variance(draws, mean, covariance):
    """The mean square over directions of each chain's draws: one number a chain."""
    return (white(draws, mean, covariance) ** 2).mean(axis=(1, 2))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.__name__)
def test_the_variance_is_that_promised(sampler, seed, monkeypatch):
    """Of a Gaussian of condition number 10⁴: an error of 4 % would be seen.

    Chains share the order of the rows. There are two minibatches in an epoch, whose noise depends
    much on that order, so each epoch has another one: else chains would not be independent.
    """
    monkeypatch.setattr(minibatches, "EPOCHS", 1)
    is_cv = sampler.__name__.endswith(
        "cv"
    )  # their noise depends on where the chain is: keep it small
    *model, mean, covariance = gaussian(N=60 if is_cv else 400)
    options = {"n_chains": CHAINS, "seed": seed, "verbose": False}
    options["minibatch_size"] = 59 if is_cv else 200
    n_iters = 500 if "sghmc" in sampler.__name__ else 2500
    draws = sampler(*model, n_iters=n_iters, burn_in=1000, thin=5, **options)
    tuning = draws.settings["tuning"]
    assert 0.95 < tuning["inflation"][0] <= tuning["inflation"][2] < 1.0501
    seen = trace_of_variance(draws, mean, covariance)
    if "sgnht" in sampler.__name__:  # exact for many directions alone
        assert seen.mean() == pytest.approx(1, abs=0.05)
    else:
        assert_mean(seen, tuning["inflation"][1], detect=0.04)


@pytest.mark.slow
def test_without_gradient_noise_in_the_rule_the_promise_is_broken(seed, monkeypatch):
    """Negative control: step sizes that leave out the noise of minibatches."""
    *model, mean, covariance = gaussian()
    monkeypatch.setattr(sgmcmc.tuning, "noise_scale", lambda N, n: 0.0)
    draws = sgmcmc.sgld(
        *model, minibatch_size=200, minibatches="independent", n_chains=CHAINS, n_iters=1500,
        burn_in=500, thin=5, seed=seed, verbose=False,
    )  # fmt: skip
    assert_rejected(
        trace_of_variance(draws, mean, covariance), draws.settings["tuning"]["inflation"][1]
    )


@pytest.mark.slow
def test_the_promise_is_kept_in_coordinates_that_are_not_white(seed):
    """A covariance six times the posterior's: its directions share a smaller step."""
    *model, mean, covariance = gaussian(N=60)
    draws = sgmcmc.sgldcv(
        *model, precondition=6 * covariance, minibatch_size=59, n_chains=CHAINS, n_iters=2500,
        burn_in=500, thin=5, seed=seed, verbose=False,
    )  # fmt: skip
    tuning = draws.settings["tuning"]
    assert tuning["inflation"][2] < 1.0501
    assert_mean(trace_of_variance(draws, mean, covariance), tuning["inflation"][1], detect=0.04)
    with pytest.raises(ValueError, match=r"rescale=True needs white.*variances are 0\.17"):
        sgmcmc.sgldcv_setup(*model, precondition=6 * covariance, rescale=True, minibatch_size=59)


@pytest.mark.slow
def test_rescaled_draws_are_as_wide_as_the_posterior(seed):
    *model, mean, covariance = gaussian(N=60)
    options = {"minibatch_size": 59, "n_chains": CHAINS, "seed": seed, "verbose": False}
    options |= {"n_iters": 2500, "burn_in": 200, "thin": 5}
    draws = sgmcmc.sgldcv(*model, rescale=True, **options)
    assert_mean(trace_of_variance(draws, mean, covariance), 1, detect=0.04)
    draws = sgmcmc.sgldcv(*model, **options)
    assert_rejected(trace_of_variance(draws, mean, covariance), 1)


@pytest.mark.slow
def test_effective_draws_are_those_promised():
    *model, mean, covariance = gaussian()
    draws = sgmcmc.sgldcv(
        *model, minibatch_size=200, n_chains=64, n_iters=4000, burn_in=500, seed=1, verbose=False,
    )  # fmt: skip
    z = white(draws, mean, covariance)
    tau = 1 / draws.settings["tuning"]["ess"][0]
    means = z.mean(axis=1)
    seen = z.var() / means.var(axis=0)  # effective draws a chain, by direction
    assert seen.mean() == pytest.approx(4000 / tau, rel=0.5)


@pytest.mark.parametrize("sampler", [sgmcmc.sgld, slow(sgmcmc.sgnhtcv), slow(sgmcmc.psgld)])
def test_step_by_step_is_one_run(sampler):
    *model, _, _ = gaussian()
    setup = getattr(sgmcmc, f"{sampler.__name__}_setup")
    draws = sampler(*model, n_iters=7, seed=3, verbose=False)
    stepped = setup(*model, seed=3, verbose=False)
    for i in range(7):
        sgmcmc.step(stepped)
        np.testing.assert_array_equal(sgmcmc.get_params(stepped)["beta"], draws["beta"][i])


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [sgmcmc.scir, sgmcmc.scircv])
def test_counts(sampler, seed):
    """Gamma posteriors of four rates: the noise of minibatches adds what the exact moments say."""
    N, alpha = 200, 0.5
    z = np.arange(N) % 4
    draws = sampler(
        lambda params, data: tf.reduce_sum(tf.math.log(tf.gather(params["rate"], data["z"]))),
        {"z": z},
        {"rate": np.full(4, 50.0)},
        None,
        alpha=alpha,
        positive=["rate"],
        minibatch_size=150,
        n_chains=CHAINS,
        n_iters=1500,
        burn_in=150,
        thin=5,
        seed=seed,
        verbose=False,
    )
    promised = draws.settings["tuning"]["inflation"][2]
    assert promised < 1.0501
    squares = (draws["rate"].astype(float) - (N / 4 + alpha)) ** 2
    assert_mean(squares.mean(axis=(1, 2)), promised * (N / 4 + alpha), detect=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [sgmcmc.psgld, sgmcmc.sgbarker])
def test_samplers_whose_law_is_that_of_langevin_dynamics(sampler):
    """They resemble it: within what is promised, and no more is claimed."""
    *model, mean, covariance = gaussian(condition=10)
    options = {"n_chains": CHAINS, "seed": 1, "verbose": False, "minibatch_size": 200}
    draws = sampler(*model, n_iters=3000, burn_in=1500, thin=5, **options)
    assert 0.95 < trace_of_variance(draws, mean, covariance).mean() < 1.1


@pytest.mark.slow
def test_the_size_of_minibatches():
    *model, _, _ = gaussian(N=2000)
    sampler = sgmcmc.sgldcv_setup(*model, minibatch_size="auto", seed=1, verbose=False)
    n = sampler.settings["minibatch_size"]
    assert 10 <= n <= 2000
    assert sampler.engine.n == n
    same = sgmcmc.sgldcv_setup(*model, minibatch_size=n, seed=1, verbose=False)
    sgmcmc.step(sampler)
    sgmcmc.step(same)
    assert sgmcmc.get_params(sampler)["nest"]["b"] == sgmcmc.get_params(same)["nest"]["b"]


def test_what_to_expect_is_said_before_the_run(capfd):
    *model, _, _ = gaussian()
    sgmcmc.sgldcv(*model, n_iters=100, seed=1)
    assert "5 directions; gradient noise" in capfd.readouterr().err


def test_chains_of_one_model_share_a_program():
    """Coordinates are arguments of the compiled program: other data do not compile it again."""
    log_lik, dataset, params, *_ = gaussian()
    first = sgmcmc.sgldcv_setup(log_lik, dataset, params, seed=1, verbose=False)
    other = {"X": 2 * dataset["X"], "y": dataset["y"]}
    second = sgmcmc.sgldcv_setup(log_lik, other, params, seed=1, verbose=False)
    assert first.engine.model.programs is second.engine.model.programs


class TestPrecondition:
    """A step size in coordinates that the user chose."""

    @pytest.mark.slow
    def test_covariance(self, seed):
        *model, mean, covariance = gaussian()
        draws = sgmcmc.sgldcv(
            *model, 0.5, minibatch_size=395, precondition=covariance, n_chains=CHAINS,
            n_iters=500, burn_in=50, thin=2, seed=seed, verbose=False,
        )  # fmt: skip
        assert_mean(trace_of_variance(draws, mean, covariance), 1 / (1 - 0.5 / 4), detect=0.05)
        assert draws.settings["precondition"] == covariance.tolist()

    def test_hessian_is_the_inverse_covariance(self):
        *model, mean, covariance = gaussian(N=4000)
        for kind in ("hessian", "fisher"):
            sampler = sgmcmc.sgldcv_setup(
                *model, 0.1, precondition=kind, seed=1, verbose=False, dtype="float64"
            )
            affine = sampler.engine.model.chart.affine
            L = np.asarray(affine.matrix)
            near = 1e-6 if kind == "hessian" else 0.3
            ratio = np.linalg.solve(covariance, L @ L.T)
            assert np.abs(np.linalg.eigvals(ratio) - 1).max() < near
            np.testing.assert_allclose(affine.centre, mean, atol=1e-2)

    def test_scales_are_a_change_of_units(self):
        """A parameter in other units, by hand and by `precondition`."""
        log_lik, dataset, params, *_ = gaussian(p=1)
        scales = {"beta": [0.5], "nest": {"b": 4.0}}

        def scaled(params, data):
            nest = {"b": 4.0 * params["nest"]["b"]}
            return log_lik({"beta": 0.5 * params["beta"], "nest": nest}, data)

        options = {"n_iters": 50, "seed": 2, "verbose": False, "dtype": "float64"}
        by_hand = sgmcmc.sghmc(scaled, dataset, params, 1e-4, **options)
        draws = sgmcmc.sghmc(log_lik, dataset, params, 1e-4, precondition=scales, **options)
        np.testing.assert_allclose(draws["beta"], 0.5 * by_hand["beta"], 1e-9)
        np.testing.assert_allclose(draws["nest"]["b"], 4 * by_hand["nest"]["b"], 1e-9)

    @pytest.mark.slow
    def test_mixed_takes_scales_of_what_moves_by_gradients(self):
        rng = np.random.default_rng(1)
        z = rng.choice(3, 1000)

        def log_lik(params, data):
            share = tf.math.log(tf.gather(params["omega"], data["z"]))
            return tf.reduce_sum(share - (data["x"] - params["mu"]) ** 2 / 2)

        call = (log_lik, {"z": z, "x": rng.normal(size=1000)}, {"omega": np.ones(3) / 3, "mu": 0.0})
        blocks = {"omega": sgmcmc.SCIR(alpha=0.1), "mu": sgmcmc.SGLD()}
        options = {"n_iters": 20, "seed": 1, "verbose": False, "minibatch_size": 100}
        h = {"omega": 0.5, "mu": 0.1}
        draws = sgmcmc.mixed(*call, h, blocks, precondition={"mu": 0.1}, **options)
        same = sgmcmc.mixed(*call, {"omega": 0.5, "mu": 0.001}, blocks, **options)
        np.testing.assert_allclose(draws["mu"], same["mu"], rtol=1e-3, atol=1e-5)
        with pytest.raises(ValueError, match="precondition='hessian' needs parameters that all"):
            sgmcmc.mixed(*call, h, blocks, precondition="hessian", **options)


@pytest.mark.slow
def test_with_constraints(seed):
    """A Gamma posterior of a rate, whose logarithm has about the curvature of its shape."""
    N = 400
    x = np.random.default_rng(0).exponential(size=N)
    draws = sgmcmc.sghmccv(
        lambda params, data: tf.reduce_sum(
            tf.math.log(params["rate"]) - params["rate"] * data["x"]
        ),
        {"x": x},
        {"rate": 1.0},
        constrain={"rate": "positive"},
        minibatch_size=300,
        n_chains=CHAINS,
        n_iters=400,
        burn_in=100,
        seed=seed,
        verbose=False,
    )["rate"].astype(float)
    mean, variance = (N + 1) / x.sum(), (N + 1) / x.sum() ** 2
    assert_mean(draws.mean(axis=1), mean, detect=0.01)
    assert_mean(((draws - mean) ** 2).mean(axis=1), variance * 1.05, detect=0.08)


def rare(N=60_000, seed=0):
    """A logistic regression in which three rows alone have a 1 in the last column."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(N), rng.normal(size=N), np.zeros(N)])
    few = rng.choice(N, 3, replace=False)
    X[few, 2] = 1
    y = (rng.random(N) < 1 / (1 + np.exp(-X @ [0.3, 1, 0]))).astype(float)
    y[few] = [0, 1, 1]

    def log_lik(params, data):
        eta = tf.linalg.matvec(data["X"], params["beta"])
        return tf.reduce_sum(data["y"] * eta - tf.nn.softplus(eta))

    return log_lik, {"X": X, "y": y}, {"beta": np.zeros(3)}, few


def test_rows_without_which_a_parameter_is_unknown_are_chosen():
    log_lik, dataset, params, few = rare()
    setup = {"minibatch_size": 30, "seed": 1, "verbose": False}
    with pytest.warns(TuningWarning, match=r"few rows tell beta\[2\]"):
        sampler = sgmcmc.sgldcv_setup(log_lik, dataset, params, precondition="hessian", **setup)
    mode = np.asarray(sampler.engine.model.chart.affine.centre, float)
    X = dataset["X"]
    p = 1 / (1 + np.exp(-X @ mode))
    covariance = np.linalg.inv((X * (p * (1 - p))[:, None]).T @ X)
    noise = sampler.settings["tuning"]["noise"][2]
    sd = np.sqrt(covariance[2, 2])
    z = np.random.default_rng(2).normal(size=1000) * sd
    tells = np.zeros(1000)
    for i in few:
        eta = X[i] @ mode
        change = 1 / (1 + np.exp(-eta - z)) - 1 / (1 + np.exp(-eta))
        tells += (change * sd) ** 2
    assert noise == pytest.approx(60_000 / 30 * tells.mean(), rel=0.5)


def collinear():
    log_lik, dataset, params, *_ = gaussian(p=2)
    dataset = {**dataset, "X": np.column_stack([dataset["X"][:, 0], dataset["X"][:, 0]])}
    return log_lik, dataset, params


class TestWarnings:
    """What is doubtful is said, and nothing where all is well."""

    def test_none_on_good_problems(self):
        *model, _, _ = gaussian()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for sampler in (sgmcmc.sgldcv_setup, sgmcmc.sgld_setup, sgmcmc.sgnht_setup):
                sampler(*model, seed=1, verbose=False)

    def test_collinear(self):
        with pytest.warns(TuningWarning, match=r"do not tell beta\[0\] and beta\[1\] apart"):
            sgmcmc.sgldcv_setup(*collinear(), seed=1, verbose=False)

    def test_not_gaussian(self):
        """Forty rows that a line all but separates."""
        X = np.random.default_rng(0).normal(size=(40, 6))
        dataset = {"X": X, "y": (X @ [4, 3, 2, 1, 0, 0] > 0).astype(float)}

        def log_lik(params, data):
            eta = tf.linalg.matvec(data["X"], params["beta"])
            return tf.reduce_sum(data["y"] * eta - tf.nn.softplus(eta))

        with pytest.warns(TuningWarning, match="far from Gaussian"):
            sgmcmc.sgldcv_setup(
                *(log_lik, dataset, {"beta": np.zeros(6)}),
                log_prior=lambda params: -tf.reduce_sum(params["beta"] ** 2) / 200,
                minibatch_size=20,
                verbose=False,
            )


class TestErrors:
    """Each mistake is named before any long work starts."""

    def setup_method(self):
        *self.model, _, self.covariance = gaussian()
        self.options = {"seed": 1, "verbose": False}

    @pytest.mark.parametrize(
        ("more", "error", "message"),
        [
            ({"bias": 0}, ValueError, "bias must be a finite number above 0 and below 1, not 0"),
            ({"bias": 1.5}, ValueError, "bias must be a finite number above 0 and below 1"),
            ({"bias": "5%"}, TypeError, "bias must be a finite number"),
            ({"precondition": "hesian"}, ValueError, "did you mean 'hessian'"),
            ({"precondition": 3}, TypeError, "precondition must be 'hessian'"),
            ({"precondition": np.eye(3)}, ValueError, r"precondition must have shape \(5, 5\)"),
            ({"precondition": -np.eye(5)}, ValueError, "a positive definite matrix"),
            ({"precondition": {"beta": 1.0}}, ValueError, "precondition lacks the parameter"),
            (
                {"precondition": {"beta": 0.0, "nest": {"b": 1.0}}},
                ValueError,
                r"precondition\['beta'\] must be above 0",
            ),
            ({"rescale": True, "precondition": None}, ValueError, "rescale=True needs"),
            ({"rescale": True, "stepsize": 1e-4}, ValueError, "rescale=True needs stepsize=None"),
            ({"temperature": 2}, ValueError, "stepsize must be given where temperature"),
            (
                {"minibatch_size": "auto", "stepsize": 1e-4},
                ValueError,
                "'auto' needs stepsize=None",
            ),
        ],
    )
    def test_arguments(self, more, error, message):
        with pytest.raises(error, match=message):
            sgmcmc.sgldcv_setup(*self.model, **more, **self.options)

    def test_samplers_that_need_a_step(self):
        blocks = {"beta": sgmcmc.SGLD(), "nest": sgmcmc.SGLD()}
        with pytest.raises(ValueError, match="mixed needs stepsize"):
            sgmcmc.mixed(*self.model, None, blocks, **self.options)
        with pytest.raises(ValueError, match="resample_momentum"):
            sgmcmc.sghmc_setup(*self.model, resample_momentum=True, **self.options)
        with pytest.raises(ValueError, match="thermostat_rate"):
            sgmcmc.sgnht_setup(*self.model, thermostat_rate="stepsize", **self.options)
        with pytest.raises(
            ValueError, match="stepsize must be given with minibatches='reshuffled'"
        ):
            sgmcmc.sgnht_setup(*self.model, minibatches="reshuffled", **self.options)

    def test_a_thermostat_with_too_much_diffusion(self):
        with pytest.raises(ValueError, match="cannot be kept with a="):
            sgmcmc.sgnht_setup(*self.model, a=0.3, **self.options)

    def test_no_mode(self):
        with pytest.raises(ValueError, match="stepsize=None needs a mode of the log posterior"):
            sgmcmc.sgld_setup(
                lambda params, data: params["a"] * tf.reduce_sum(data["x"]),
                *({"x": np.linspace(-1, 3, 1000)}, {"a": 0.0}),
                **self.options,
            )

    @pytest.mark.filterwarnings("error::sgmcmc.TuningWarning")
    def test_no_joint_mode(self, seed):
        """A centred hierarchical model, whose density grows without bound as groups become alike.

        The search ends wherever rounding stops it. Step sizes are refused there, or doubtful.
        """
        J, rng = 20, np.random.default_rng(0)
        dataset = {"group": np.arange(400) % J, "y": rng.normal(size=400)}

        def log_lik(params, data):
            return -tf.reduce_sum((data["y"] - tf.gather(params["a"], data["group"])) ** 2) / 2

        def log_prior(params):
            z = (params["a"] - params["mu"]) * tf.exp(-params["log_tau"])
            return -tf.reduce_sum(z**2) / 2 - J * params["log_tau"] - params["mu"] ** 2 / 2

        message = r"needs? a mode of the log posterior|do not tell (a|log_tau|mu)|far from Gaussian"
        with pytest.raises((ValueError, TuningWarning), match=message):
            sgmcmc.sghmccv_setup(
                *(log_lik, dataset, {"a": np.zeros(J), "mu": 0.0, "log_tau": 0.0}),
                log_prior=log_prior,
                minibatch_size=40,
                seed=seed,
                verbose=False,
            )


def test_all_rows_count_in_the_curvature():
    """Of 999 rows, the second column is next to nothing in all but the last 99."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(999, 2))
    X[:900, 1] *= 1e-3

    def log_lik(params, data):
        fit = tf.linalg.matvec(data["X"], params["beta"])
        return -tf.reduce_sum((data["y"] - fit) ** 2) / 2

    sampler = sgmcmc.sgldcv_setup(
        *(log_lik, {"X": X, "y": rng.normal(size=999)}, {"beta": np.zeros(2)}), verbose=False
    )
    matrix = sampler.engine.model.chart.affine.matrix.numpy()
    covariance = matrix / np.array(sampler.settings["tuning"]["steps"]) @ matrix.T
    np.testing.assert_allclose(covariance, np.linalg.inv(X.T @ X), rtol=1e-3, atol=1e-7)
