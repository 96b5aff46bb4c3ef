"""Samplers of probabilities: exact moments, posteriors that are known, counts, and bad input.

Moments are compared by z-tests over independent chains (see ztest.py for how often these err).
"""

import re
import warnings

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy.special import digamma, polygamma

import sgmcmc
from sgmcmc import cir, moments, programs
from sgmcmc.dynamics import scircv
from sgmcmc.dynamics.scircv import SCIRCV
from sgmcmc.estimators import counts
from sgmcmc.estimators.gradient import Gradient

from . import slow
from .test_stationary import too_little_noise
from .ztest import assert_mean, assert_rejected

N, n, H, CHAINS, COPIES = 1000, 100, 0.1, 500, 320
COUNT, ALPHA, START = 150, 0.1, 7.67  # paper 001, Figure 3
STEPS = (1, 5, 20, 60)


def gamma_chains(name, seed, **more):
    """Return θ of many chains, (chains, steps, copies), with the target Gamma(ALPHA + COUNT, 1).

    Each copy is a component with its own column of data, the same rows in another order. Each has
    the exact distribution. Tests use the mean over the copies of a chain.
    """
    rng = np.random.default_rng(seed)
    z = rng.permuted(np.tile(np.arange(N)[:, None] < COUNT, COPIES), axis=0).astype(np.float32)

    def log_lik(params, data):
        return tf.reduce_sum(tf.math.log(params["theta"]) * tf.reduce_sum(data["z"], 0))

    draws = getattr(sgmcmc, name)(
        *(log_lik, {"z": z}, {"theta": np.full(COPIES, START)}),
        stepsize=H,
        alpha=ALPHA,
        positive=["theta"],
        minibatch_size=n,
        minibatches="independent",
        n_iters=STEPS[-1],
        **dict(n_chains=CHAINS, seed=seed, verbose=False, **more),
    )
    return draws["theta"][:, np.array(STEPS) - 1].astype(float)


def exact(name, steps, form="alternative"):
    a, noise = ALPHA + COUNT, moments.a_hat_variance(COUNT, N, n)
    if name == "scircv":
        a_hat = moments.a_hat_distribution(ALPHA, COUNT, N, n)
        return moments.scircv_moments(START, a, a_hat, H, steps, form)
    of = moments.scir_moments if name == "scir" else moments.sgrld_moments
    return of(START, a, noise, H, steps)


def squares(x, mean):
    """Return the mean square deviation of each chain."""
    return ((x - mean) ** 2).mean(axis=1)


CASES = [
    slow("scir", {}),
    slow("scircv", {}),
    slow("scircv", {"form": "main"}),
    slow("sgrld", {}),
]


@pytest.mark.parametrize(("name", "more"), CASES)
def test_moments_after_some_steps_are_exact(name, more, seed):
    theta = gamma_chains(name, seed, **more)
    for i, steps in enumerate(STEPS):
        mean, variance = exact(name, steps, **more)
        assert_mean(theta[:, i].mean(axis=1), mean, detect=0.005)
        assert_mean(squares(theta[:, i], mean), variance, detect=0.035)


@pytest.mark.slow
def test_moments_of_other_samplers_are_rejected(seed, monkeypatch):
    """Negative controls: samplers with another's moments, and an update with b̂ := 1 once."""
    theta = gamma_chains("scir", seed)[:, -1]
    mean, variance = exact("scircv", STEPS[-1])
    assert_rejected(squares(theta, mean), variance)
    cir = moments.cir_moments(START, ALPHA + COUNT, H, STEPS[-1])
    assert_rejected(squares(theta, cir.mean), cir.variance)

    mean, variance = exact("scircv", STEPS[-1], "main")
    monkeypatch.setattr(scircv, "main", lambda b, h: 0 * b - tf.math.expm1(-h))
    theta = gamma_chains("scircv", seed, form="main")[:, -1]
    assert_rejected(squares(theta, mean), variance)


@pytest.mark.parametrize("shape", [0.01, slow(0.1), slow(1.0), slow(100.0)])
def test_stationary_law_is_a_dirichlet(shape, seed):
    """With all data in each minibatch SCIR is exact, whatever the step; so is log ω."""
    counts = np.array([0, 0, 3])

    def log_lik(params, data):
        return tf.reduce_sum(tf.math.log(tf.gather(params["omega"], data["z"], axis=1)))

    draws = sgmcmc.scir(
        *(log_lik, {"z": np.repeat([0, 1, 2], counts)}, {"omega": np.full((100, 3), 1 / 3)}),
        *(0.7, shape),
        minibatch_size=3,
        n_iters=1,
        burn_in=40,
        n_chains=500,
        seed=seed,
        verbose=False,
        keep_log=True,
    )
    omega, log = (x[:, 0].astype(float) for x in (draws["omega"], draws.stats["log_omega"]))
    assert np.isfinite(log).all()
    np.testing.assert_allclose(omega.sum(-1), 1, atol=1e-5)
    a = shape + counts
    share, variance = a / a.sum(), polygamma(1, a) - polygamma(1, a.sum())
    middle = digamma(a) - digamma(a.sum())
    assert_mean(omega[..., 2].mean(axis=1), share[2], detect=0.015)
    for j in range(2):
        assert_mean(log[..., j].mean(axis=1), middle[j], detect=0.05)
        assert_mean(squares(log[..., j], middle[j]), variance[j], detect=0.15)


def test_steps_and_runs_give_one_chain(seed):
    def setup():
        return sgmcmc.scir_setup(
            *(categories, {"z": Z}, {"omega": np.full((4,), 0.25)}, 0.1, 0.1),
            minibatch_size=10,
            seed=seed,
        )

    whole = sgmcmc.run(setup(), 30, verbose=False)["omega"]
    sampler, steps = setup(), []
    for _ in range(30):
        sgmcmc.step(sampler)
        steps.append(sgmcmc.get_params(sampler)["omega"])
    np.testing.assert_array_equal(whole, steps)


@pytest.mark.parametrize(("rows", "detect"), [(1000, 1e-3), (5003, 0.25)])
def test_the_variance_of_counts_is_estimated(rows, detect, seed, monkeypatch):
    """From single rows it is exact; from some 1000 groups, one of them smaller, right to 4.5 %."""
    monkeypatch.setattr("sgmcmc.estimators.counts.FAR", 1.0)
    count, batch = rows // 5, rows // 10
    sampler = sgmcmc.scircv_setup(
        *(categories, {"z": np.repeat([0, 1], [count, rows - count])}, {"omega": [0.5, 0.5]}),
        *(0.1, 0.1),
        minibatch_size=batch,
        seed=seed,
        dtype="float64",
        jit=False,
    )
    a, limit = (x["omega"].numpy()[0, 0] for x in sampler.state.estimator[1:3])
    assert a == pytest.approx(count + 0.1)
    variance = (limit - a - 1) ** 2 - a
    assert variance == pytest.approx(moments.a_hat_variance(count, rows, batch), rel=detect)


@pytest.mark.parametrize(("rows", "used"), [(50, False), (90, True)])
def test_an_estimate_from_too_few_rows_is_not_trusted(rows, used):
    """Its error, relative to that of minibatches, is .11 or .012. The limit tanh(h/2) is .05."""
    draws = call({**cv(refresh_every=10, refresh_size=rows), "n_iters": 30})
    assert (draws.stats["control_variates"]["omega"].max() > 0) == used


def test_all_rows_are_all_rows():
    """The 47 rows are counted in groups of two. Without the odd row, a would not be trusted."""

    def counts(params, data, key):
        return {"omega": tf.reduce_sum(tf.one_hot(data["z"], 4), axis=0)}

    more = {"dataset": {"z": Z[:47]}, "stepsize": 0.01, **counting(counts)}
    draws = call({**cv(refresh_every=2), **more})
    assert draws.stats["control_variates"]["omega"].max() > 0


MIXTURES = 12


def mixture(size=400):
    """Return component densities at each row, these in MIXTURES orders, and the log likelihood.

    Each order of the rows has its own weights.
    """
    rng = np.random.default_rng(0)
    mu = np.array([-2.0, 0.0, 2.5])
    x = mu[rng.choice(3, size, p=[0.6, 0.3, 0.1])] + rng.normal(size=size)
    density = np.exp(-((x[:, None] - mu) ** 2) / 2)
    orders = rng.permuted(np.tile(np.arange(size)[:, None], MIXTURES), axis=0)

    def log_lik(params, data):
        each = tf.reduce_sum(data["density"] * params["omega"], axis=-1)
        return tf.reduce_sum(tf.math.log(each))

    return density, density[orders], log_lik


def posterior_of_weights(density):
    """Return means and variances of the weights with a uniform prior, by sums over a grid."""
    side = (np.arange(400) + 0.5) / 400
    first, second = (x.ravel() for x in np.meshgrid(side, side))
    omega = np.stack([first, second, 1 - first - second], axis=1)[first + second < 1]
    log_posterior = sum(np.log(omega @ each) for each in density)
    share = np.exp(log_posterior - log_posterior.max())
    mean = share @ omega / share.sum()
    return mean, share @ (omega - mean) ** 2 / share.sum()


def drawn_components(params, data, key):
    """Draw the component of each row once, by inversion, and count them."""
    sums = tf.cumsum(data["density"] * params["omega"], axis=-1)
    u, _ = sgmcmc.random.uniforms(key, sums.shape[:-1])
    level = (u * sums[..., -1])[..., None]
    component = tf.reduce_sum(tf.cast(level > sums[..., :-1], tf.int32), axis=-1)
    return {"omega": tf.reduce_sum(tf.one_hot(component, 3), axis=0)}


def expected_components(params, data, key):
    p = data["density"] * params["omega"]
    return {"omega": tf.reduce_sum(p / tf.reduce_sum(p, axis=-1, keepdims=True), axis=0)}


WEIGHTS = {  # dynamics, estimator, step size, rows of a minibatch
    "scir": (sgmcmc.SCIR(alpha=1.0), Gradient(), 0.05, 200),
    "scircv": (SCIRCV(alpha=1.0), counts.Counted(refresh_every=100), 0.05, 200),
    "drawn": (
        *(SCIRCV(alpha=1.0, counts=drawn_components), counts.Counted(refresh_every=20)),
        *(0.3, 100),
    ),
    "expected, as in fit_lda": (
        *(SCIRCV(alpha=1.0, counts=expected_components), counts.CountedTwice(100)),
        *(0.05, 200),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_of_a_mixture(case, seed):
    """Standard deviations are right to 5 % if counts depend on the weights.

    Counts come from autodiff or from functions. The step size makes variances up to 2.5 % too small
    or too large, and the bound is 10 %. So chance fails this test only by an error of 7.5 %, which
    is at least 5.5 standard errors. An error of 18 % is always found.
    """
    density, in_orders, log_lik = mixture()
    mean, variance = posterior_of_weights(density)
    dynamics, estimator, h, n_rows = WEIGHTS[case]
    sampler = sgmcmc.sample_setup(
        *(dynamics, None if dynamics.counts else log_lik),
        *({"density": in_orders}, {"omega": np.tile(mean, (MIXTURES, 1))}, h),
        gradient=estimator,
        minibatch_size=n_rows,
        n_chains=250,
        seed=seed,
    )
    omega = sgmcmc.run(sampler, 300, burn_in=200, verbose=False)["omega"].astype(float)
    sampler.feeder.close()
    each = ((omega - mean) ** 2).mean(axis=(1, 2)) / variance  # by chain
    np.testing.assert_allclose(omega.mean(axis=(0, 1, 2)), mean, rtol=0.05)
    np.testing.assert_allclose(each.mean(axis=0), 1, rtol=0.1)
    assert (5.5 * each.std(axis=0) / np.sqrt(len(each)) < 0.075).all()


def of_where_the_chain_is(self, model, x, aim, batch):
    """The papers' b̂, of where the chain is: it cannot follow counts that depend on the weights."""
    here, _ = Gradient.estimate(self, model, x, (), batch)
    b = {k: (a - 1) / tf.where(aim.limit[k] > 0, aim.a[k] - 1, 1) for k, a in here.gradient.items()}
    return here._replace(extra=counts.Relative(b, aim.limit, aim.error)), aim


@pytest.mark.slow
@pytest.mark.parametrize("case", ["scircv", "expected, as in fit_lda"])
def test_weights_of_a_mixture_with_a_centre_that_stands_still(case, seed, monkeypatch):
    """Negative control: variances are 20 to 35 % too small."""
    monkeypatch.setattr(counts.Counted, "estimate", of_where_the_chain_is)
    with pytest.raises(AssertionError, match=r"rtol=0\.1\b"):
        test_weights_of_a_mixture(case, seed)


@pytest.mark.slow
def test_weights_of_a_mixture_with_noise_of_draws_in_the_centre(seed, monkeypatch):
    """Negative control: if components are drawn twice, variances are up to 80 % too large."""
    monkeypatch.setattr(counts.Counted, "draws_latent", False)
    with pytest.raises(AssertionError, match=r"rtol=0\.1\b"):
        test_weights_of_a_mixture("drawn", seed)


# Several samplers in one chain


GROUPS, REPEATS = np.array([60.0, 30.0, 10.0]), 150


def observed_groups(rng):
    """Return the number of rows and the mean of each group, all that the model needs."""
    mean = np.arange(3) + rng.normal(size=(REPEATS, 3)) / np.sqrt(GROUPS)

    def log_lik(params, data):
        error = data["mean"] - params["mu"]
        return tf.reduce_sum(data["count"] * (tf.math.log(params["omega"]) - error**2 / 2))

    return {"count": np.tile(GROUPS, (1, REPEATS, 1)), "mean": mean[None]}, log_lik


def sgld_width(step):
    """Return the factor by which the variance is too large on a Gaussian, from ALGORITHMS.md."""
    return 1 / (1 - step / 4)


def sghmc_width(step, alpha=0.2):
    return 2 * (2 - alpha) / (4 - 2 * alpha - step)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "h", "width"),
    [
        (sgmcmc.SGLD(), 4e-3, sgld_width),
        (sgmcmc.SGHMC(alpha=0.2, L=2), 2e-3, sghmc_width),
        (too_little_noise(sgmcmc.SGLD)(), 4e-3, sgld_width),
    ],
    ids=["sgld", "sghmc", "control"],
)
def test_blocks_have_their_posteriors(block, h, width, seed):
    dataset, log_lik = observed_groups(np.random.default_rng(seed))
    start = np.tile(np.arange(3.0), (REPEATS, 1))
    draws = sgmcmc.mixed(
        *(log_lik, dataset, {"omega": np.full((REPEATS, 3), 1 / 3), "mu": start}),
        *({"omega": 0.3, "mu": h}, {"omega": sgmcmc.SCIR(alpha=0.5), "mu": block}),
        minibatch_size=1,
        n_iters=1,
        burn_in=300,
        n_chains=400,
        seed=seed,
        verbose=False,
    )
    omega, mu = (draws[name][:, 0].astype(float) for name in ("omega", "mu"))
    error, wide = (mu - dataset["mean"]) * np.sqrt(GROUPS), width(h * GROUPS)
    if type(block).__name__ == "TooLittleNoise":
        assert_rejected(squares(error, 0)[:, 0], wide[0])
        return
    a = 0.5 + GROUPS
    for j, share in enumerate(a / a.sum()):
        assert_mean(omega[..., j].mean(axis=1), share, detect=0.02)
        variance = share * (1 - share) / (a.sum() + 1)
        assert_mean(squares(omega[..., j], share), variance, detect=0.07)
        assert_mean(1 + error[..., j].mean(axis=1), 1, detect=0.05)
        assert_mean(squares(error, 0)[:, j], wide[j], detect=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [2.0, 2.1])
def test_a_gibbs_step_has_its_posterior(shape, seed):
    """Many copies of a mean ~ N(0, 1/tau) with tau ~ Gamma(2, 1); the control has Gamma(2.1, 1)."""
    x = np.random.default_rng(seed).normal(1.5, 1, 20)

    def draw(params, data, key):
        rate = 1 + params["mu"] ** 2 / 2
        return sgmcmc.random.gammas(key, tf.fill(rate.shape, shape + 0.5)) / rate

    draws = sgmcmc.mixed(
        lambda params, data: -tf.reduce_sum((data["x"][:, None] - params["mu"]) ** 2) / 2,
        *({"x": x}, {"mu": np.zeros(100), "tau": np.ones(100)}, {"mu": 0.005}),
        {"mu": sgmcmc.SGLD(), "tau": sgmcmc.Gibbs(draw)},
        lambda params: -tf.reduce_sum(params["tau"] * params["mu"] ** 2) / 2,
        minibatch_size=20,
        n_iters=1,
        burn_in=300,
        n_chains=400,
        seed=seed,
        verbose=False,
    )
    tau = np.linspace(1e-4, 30, 300_000)
    variance = 1 / 20 + 1 / tau
    log = np.log(tau) - tau - np.log(variance) / 2 - x.mean() ** 2 / (2 * variance)
    weight = np.exp(log - log.max())
    mean = weight @ tau / weight.sum()
    found = draws["tau"][:, 0].mean(axis=1, dtype=float)
    if shape == 2:
        assert_mean(found, mean, detect=0.03)
    else:
        assert_rejected(found, mean)


CENTRE = 5.0


def counts_of_gamma(params, data, key):
    return {name: 0 * x + CENTRE - 1 for name, x in params.items()}


def gaussian(params, data):
    return -tf.reduce_sum((params["a"] - CENTRE) ** 2 + (params["b"] - CENTRE) ** 2) / 2


def of_its_own(params, data, key):
    return CENTRE + sgmcmc.random.normals(key, (50,))


def first_half_twice(rate, shape, key):
    half = rate.shape[-1] // 2
    drawn = cir.gamma_poisson(rate[:, :half], shape[:, :half], key)
    return cir.Drawn(*(tf.concat([x, x], -1) for x in drawn))


def same_for_all(key, shape, use, dtype):
    return sgmcmc.random.normals(key, shape, 0, dtype)


def noise_of_the_first(mixed, name, noise):
    return noise._replace(normals={name: noise.normals["a"]["a"]}, uniforms=())


TWO_PARAMETERS = {  # the log likelihood, arguments, and a patch by which both share their noise
    "scir": (
        *(None, {"alpha": 1.0, "counts": counts_of_gamma, "positive": ["a", "b"]}),
        *("dynamics.scir.gamma_poisson", first_half_twice),
    ),
    "sgrld": (
        *(None, {"alpha": 1.0, "counts": counts_of_gamma, "positive": ["a", "b"]}),
        *("dynamics.sgrld.normals", same_for_all),
    ),
    "mixed": (
        *(gaussian, {"blocks": {"a": sgmcmc.SGLD(), "b": sgmcmc.SGLD()}}),
        *("dynamics.mixed.Mixed.own", noise_of_the_first),
    ),
    "gibbs": (
        *(None, {"blocks": dict.fromkeys("ab", sgmcmc.Gibbs(of_its_own))}),
        *("engine.folded", lambda key, number: key),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(TWO_PARAMETERS))
def test_parameters_have_noise_of_their_own(name, seed, monkeypatch):
    log_lik, more, what, shared = TWO_PARAMETERS[name]

    def products():
        draws = getattr(sgmcmc, "mixed" if "blocks" in more else name)(
            log_lik or (lambda params, data: 0.0),
            {"rows": np.zeros(1)},
            {"a": np.full(50, CENTRE), "b": np.full(50, CENTRE)},
            0.1,
            minibatch_size=1,
            n_iters=1,
            burn_in=50,
            n_chains=500,
            seed=seed,
            verbose=False,
            **more,
        )
        a, b = (draws[k][:, 0].astype(float) - CENTRE for k in "ab")
        return 1 + (a * b).mean(axis=1) / (a.std() * b.std())

    assert_mean(products(), 1, detect=0.07)
    monkeypatch.setattr(f"sgmcmc.{what}", shared)
    programs.known.clear()
    assert_rejected(products(), 1)


@pytest.mark.slow
def test_a_function_of_counts_makes_the_same_draws_as_autodiff(seed):
    def counts(params, data, key):
        return {"omega": tf.reduce_sum(tf.one_hot(data["z"], 4), axis=0)}

    of_all = {"minibatch_size": 50, "dtype": "float64", "seed": seed}
    for sampler in ("scir", "sgrld", "scircv"):
        own, same = (
            call({"sampler": sampler, **of_all, **more})["omega"] for more in ({}, counting(counts))
        )
        np.testing.assert_allclose(own, same, rtol=1e-6)


# Mistakes

Z = np.repeat([0, 1, 2], [80, 10, 10])


def categories(params, data):
    return tf.reduce_sum(tf.math.log(tf.gather(params["omega"], data["z"])))


def normalised(params, data):
    return categories({"omega": params["omega"] / tf.reduce_sum(params["omega"])}, data)


def by_tfp(params, data):
    return tf.reduce_sum(tfp.distributions.Categorical(probs=params["omega"]).log_prob(data["z"]))


def call(overrides):
    arguments = {
        "log_lik": categories,
        "dataset": {"z": Z},
        "params": {"omega": np.full(4, 0.25)},
        "stepsize": 0.1,
        "alpha": 0.1,
        "minibatch_size": 10,
        "n_iters": 3,
        "verbose": False,
        **overrides,
    }
    name = arguments.pop("sampler", "scir")
    if name == "mixed":
        del arguments["alpha"]
    return getattr(sgmcmc, name)(**arguments)


def start(*omega):
    return {"params": {"omega": np.array(omega)}}


def counting(counts):
    return {"log_lik": None, "counts": counts}


def blocks(**values):
    return {"sampler": "mixed", "blocks": values}


def cv(**values):
    return {"sampler": "scircv", **values}


BAD = {  # the error message, with … for any words: the arguments
    "alpha must be above 0, but has 0": {"alpha": 0},
    "alpha must be above 0, but has -1": {"alpha": [1, 1, -1, 1]},
    "alpha must be a number, or of shape (4,), not (2,)": {"alpha": [0.1, 0.2]},
    "alpha has nan in row 1": {"alpha": [0.1, np.nan, 1, 1]},
    "alpha names 'omeg'…(did you mean 'omega'?)": {"alpha": {"omeg": 1}},
    "params['omega'] must not be negative, but has -0.1": start(0.5, 0.6, -0.1, 0),
    "params['omega'] must hold…at least 2 categories…shape is (1,)": start(1.0),
    "params['omega'] must hold…at least 2 categories…shape is ()": {"params": {"omega": 1.0}},
    "params['omega'] must have probabilities that add up to 1, but some": start(0, 0, 0, 0),
    "the counts of 'omega'…are negative or…Do not divide them": {"log_lik": normalised},
    "are negative or…as TensorFlow Probability's Categorical": {"log_lik": by_tfp},
    "log_lik must be a function of (params, data), not None": {"log_lik": None},
    "keep_log must be False with a parameter 'posterior'": {
        "params": {"posterior": np.full(4, 0.25)},
        "keep_log": True,
    },
    "counts must be a function of (params, data, key), not 3": counting(3),
    "counts must return an array of shape (4,), not (3,)": counting(
        lambda params, data, key: {"omega": tf.zeros(3)}
    ),
    "counts names 'omeg'…(did you mean 'omega'?)": counting(
        lambda params, data, key: {"omeg": tf.zeros(4)}
    ),
    "counts must return a dict of counts, not": counting(lambda params, data, key: tf.zeros(4)),
    "counts raised TypeError: <lambda>() takes 1 positional": counting(lambda params: 0),
    "counts of 'omega' must be finite and not negative": counting(
        lambda params, data, key: {"omega": -tf.ones(4)}
    ),
    "positive must be a list of names of parameters, not 'omega'": {"positive": "omega"},
    "positive names 'om', which is no parameter": {"positive": ["om"]},
    "stepsize must be a finite number above 0, not 0": {"stepsize": 0},
    "refresh_size must be at most N = 100 rows, not 101": cv(refresh_size=101),
    "refresh_every must be a positive whole number, not 0": cv(refresh_every=0),
    "refresh_size = 10 needs refresh_every, such as 100": cv(refresh_size=10),
    "counts depends on the parameters…scircv needs refresh_every": cv(
        **counting(lambda params, data, key: params)
    ),
    "counts depends on the parameters…as where categories are latent": cv(
        **counting(lambda params, data, key: params), params={"omega": 2.0}, positive=["omega"]
    ),
    "counts must draw latent variables by its key, but some of it are expectations": cv(
        **counting(lambda params, data, key: params), refresh_every=10
    ),
    "form must be 'alternative' or 'main', not 'other'": cv(form="other"),
    "blocks is an empty dict: it must hold the samplers": blocks(),
    "blocks['omega'] must be SCIR(...)…not <class": blocks(omega=sgmcmc.SCIR),
    "blocks['omega']: alpha must be above 0, but has -1": blocks(omega=sgmcmc.SCIR(alpha=-1)),
    "blocks names 'mu', which is no parameter": blocks(omega=sgmcmc.SCIR(1.0), mu=sgmcmc.SGLD()),
    "blocks['omega'].draw must return an array of shape (4,), not (3,)": blocks(
        omega=sgmcmc.Gibbs(lambda params, data, key: tf.zeros(3))
    ),
    "blocks['omega'].draw must return finite numbers, but does not at the start": blocks(
        omega=sgmcmc.Gibbs(lambda params, data, key: params["omega"] * np.nan)
    ),
    "blocks must have equal L, not {'a': 5, 'b': 3}": {
        **blocks(a=sgmcmc.SGHMC(), b=sgmcmc.SGHMC(L=3)),
        "params": {"a": 0.0, "b": 0.0},
    },
}


@pytest.mark.parametrize("message", BAD)
def test_mistakes_are_told_at_once(message):
    parts = (re.escape(part) for part in message.split("…"))
    with pytest.raises((TypeError, ValueError), match=".*".join(parts)):
        call(BAD[message])


def test_probabilities_that_do_not_add_up_are_normalised_with_a_warning():
    with pytest.warns(UserWarning, match=r"params\['omega'\] do not add up to 1.*off by up to 3"):
        call(start(2, 1, 1, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(start(0.7, 0.2, 0.1, 0))


def test_negative_counts_in_the_middle_of_a_run_lose_nothing():
    """Counts turn negative if omega[0] is large."""

    def log_lik(params, data):
        return categories(params, data) - 40 * tf.nn.relu(params["omega"][0] - 0.6)

    with pytest.raises(sgmcmc.ChainDiverged, match="counts ω ∂log_lik/∂ω are negative") as caught:
        call({"log_lik": log_lik, "n_iters": 1000, "alpha": 0.1, "stepsize": 0.02, "seed": 1})
    assert 0 < len(caught.value.draws["omega"]) < 1000
    assert np.isfinite(caught.value.draws["omega"]).all()


def test_drawn_counts_that_turn_negative_are_an_error():
    def counts(params, data, key):
        return {"omega": tf.stack([5.0, 1.0, 1.0, 0.5 - params["omega"][0]])}

    with pytest.raises(sgmcmc.ChainDiverged, match=r"counts is at fault: .* negative"):
        call({**counting(counts), "n_iters": 200, "stepsize": 1.0})


def test_a_gibbs_step_draws_a_nest_and_may_change_its_arguments():
    def draw(params, data, key):
        del params["mu"]
        return {"a": tf.ones(()), "b": tf.zeros(2)}

    both = {"mu": sgmcmc.SGLD(), "nu": sgmcmc.Gibbs(draw)}
    draws = sgmcmc.mixed(
        lambda params, data: -tf.reduce_sum((data["x"] - params["mu"]) ** 2),
        {"x": np.arange(10.0)},
        {"mu": 1.0, "nu": {"a": 0.0, "b": [1.0, 1.0]}},
        *({"mu": 1e-3}, both),
        n_iters=2,
        minibatch_size=5,
        verbose=False,
    )
    assert (draws["nu"]["a"] == 1).all()


def test_draws_of_gibbs_that_are_not_finite_are_an_error():
    def draw(params, data, key):
        u, _ = sgmcmc.random.uniforms(key, (2,))
        return u / tf.nn.relu(u - 0.1)

    both = {"mu": sgmcmc.SGLD(), "nu": sgmcmc.Gibbs(draw)}
    with pytest.raises(sgmcmc.ChainDiverged, match="draw is at fault"):
        sgmcmc.mixed(
            lambda params, data: -tf.reduce_sum((data["x"] - params["mu"]) ** 2),
            *({"x": np.arange(10.0)}, {"mu": 1.0, "nu": [1.0, 1.0]}, {"mu": 1e-3}, both),
            n_iters=500,
            minibatch_size=5,
            verbose=False,
            seed=3,
        )


def test_blocks_without_probabilities_in_double_precision():
    draws = sgmcmc.mixed(
        lambda params, data: -tf.reduce_sum((data["x"] - params["mu"]) ** 2),
        *({"x": np.arange(10.0)}, {"mu": 1.0}, 1e-3, {"mu": sgmcmc.SGLD()}),
        minibatch_size=5,
        n_iters=5,
        dtype="float64",
        verbose=False,
    )
    assert draws["mu"].dtype == np.float64


def test_a_rare_category_that_comes_back_is_counted(seed):
    """Its probability underflows between the minibatches that hold it."""
    draws = sgmcmc.scir(
        *(categories, {"z": Z}, {"omega": np.array([0.5, 0.5, 0, 0])}, 1.0, 0.01),
        minibatch_size=2,
        n_iters=2000,
        burn_in=100,
        seed=seed,
        verbose=False,
    )
    assert draws["omega"][:, 3].max() < 0.5
    assert (draws["omega"][:, 2] == 0).any()
    assert draws["omega"][:, 2].max() > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("far", [10, pytest.param(1e30, id="control")])
def test_chains_far_above_a_stale_estimate_come_back(far, seed, monkeypatch):
    """The first category has all rows at the point where a is estimated, none elsewhere: b̂ < 0."""
    monkeypatch.setattr("sgmcmc.estimators.counts.FAR", far)

    def counts(params, data, key):
        at_start = tf.abs(params["omega"][0] - 0.95) < 1e-6
        counts = tf.where(at_start, [20.0, 0.0], [0.0, 20.0])
        return {"omega": counts * data["z"].shape[0] / 100}

    draws = sgmcmc.scircv(
        *(None, {"z": Z}, {"omega": np.array([0.95, 0.05])}, 0.5, 0.5),
        counts=counts,
        refresh_every=10_000,  # never in this run
        minibatch_size=10,
        n_iters=1000,
        burn_in=1000,
        seed=seed,
        verbose=False,
    )
    assert (draws["omega"][:, 0].mean() < 0.9) == (far == 10)
