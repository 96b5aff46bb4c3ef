"""The argument `constrain`: exact distributions, exact values, and what is refused.

False alarms and power are those of `ztest`.
"""

import pickle
import re
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import sgmcmc
from sgmcmc import tree
from sgmcmc.spaces.constrained import space_of

from . import gaussian, slow
from .ztest import assert_mean, assert_rejected

tfb, tfd = tfp.bijectors, tfp.distributions
CHAINS = 512
NO_DATA = {"none": np.zeros(10, np.float32)}


def flat(params, data):
    """A likelihood that says nothing."""
    return 0 * tf.reduce_sum(data["none"])


def softmax_centred():
    """TFP 0.25 makes it by an argument of np.reshape that NumPy 2.4 no longer has."""
    reshape = np.reshape

    def as_before(a, shape=None, newshape=None):
        return reshape(a, newshape if shape is None else shape)

    with mock.patch.object(np, "reshape", as_before):
        return tfb.SoftmaxCentered()


class Target(NamedTuple):
    """A distribution of one parameter, with the exact means and variances of `numbers` of it."""

    constrain: Any
    start: Any
    log_density: Any
    eps: float
    mean: Any
    variance: Any
    numbers: Any = lambda draws: draws[..., None]


def correlations(cholesky):
    full = cholesky @ np.swapaxes(cholesky, -1, -2)
    return np.stack([full[..., 1, 0], full[..., 2, 0], full[..., 2, 1]], axis=-1)


SHARES = np.array([0.2, 0.3, 0.5], np.float32)
TARGETS = {
    "gamma": Target(
        *("positive", 1.5, lambda x: tf.reduce_sum(2 * tf.math.log(x) - 2 * x), 0.002),
        *(3 / 2, 3 / 4),
    ),
    "beta": Target(
        *("unit", 0.6, lambda x: tf.reduce_sum(2 * tf.math.log(x) + tf.math.log1p(-x)), 0.005),
        *(3 / 5, 6 / 150),
    ),
    "half_normal": Target(
        *("positive", 1.0, lambda x: -tf.reduce_sum(x**2) / 2, 0.003),
        *(np.sqrt(2 / np.pi), 1 - 2 / np.pi),
    ),
    "lkj": Target(  # of each correlation r, (r + 1) / 2 ~ Beta(5/2, 5/2)
        *(tfb.CorrelationCholesky(), np.eye(3)),
        *(lambda x: tf.reduce_sum(tfd.CholeskyLKJ(3, 2.0).log_prob(x)), 0.0015),
        *(0.0, 1 / 6, correlations),
    ),
    "dirichlet": Target(
        *(softmax_centred(), SHARES),
        *(lambda x: tf.reduce_sum((10 * SHARES - 1) * tf.math.log(x)), 0.003),
        *(SHARES, SHARES * (1 - SHARES) / 11, lambda draws: draws),
    ),
}


@dataclass(frozen=True)
class WithoutJacobian(sgmcmc.Space):
    """A space whose values are taken to have the density of the free coordinates."""

    space: sgmcmc.Space

    def forward(self, x):
        return self.space.forward(x)

    def inverse(self, value):
        return self.space.inverse(value)


def standardised(names, seed, copies, wrap=lambda space: space):
    """Draws of several independent copies of targets, with mean 0 and variance 1 where right."""
    targets = {name: TARGETS[name] for name in names}
    draws = sgmcmc.sghmc(
        flat,
        NO_DATA,
        {k: np.stack([t.start] * copies) for k, t in targets.items()},
        {k: t.eps for k, t in targets.items()},
        lambda params: tf.add_n([t.log_density(params[k]) for k, t in targets.items()]),
        minibatch_size=10,
        constrain={k: wrap(space_of(k, t.constrain)) for k, t in targets.items()},
        alpha=0.1,
        L=1,
        n_iters=1000,
        burn_in=200,
        n_chains=CHAINS,
        seed=seed,
        verbose=False,
    )
    found = {}
    for name, t in targets.items():
        numbers = t.numbers(draws[name].astype(float))
        found[name] = (numbers - t.mean) / np.sqrt(t.variance)
    return found


def per_chain(numbers):
    """Means over the draws and copies of each chain."""
    return numbers.mean(axis=(1, 2))


@pytest.mark.slow
def test_exact_moments(seed):
    """Errors of .03 standard deviations, and of 3 % in a variance, would be found.

    The step sizes bias variances by .2 % at most, and means by .1 % of a standard deviation, as
    seen in runs that are a hundred times as long.
    """
    for numbers in standardised(TARGETS, seed, 16).values():
        for u in np.moveaxis(numbers, -1, 0):
            assert_mean(1 + per_chain(u), 1, 0.03)
            assert_mean(per_chain(u**2), 1, 0.03)


@pytest.mark.parametrize("names", [["gamma"], slow([*TARGETS])])
def test_without_the_jacobian_moments_are_wrong(seed, names):
    for name, numbers in standardised(names, seed, 4, WithoutJacobian).items():
        u = numbers[..., 0]
        seen = per_chain(u**2) if name == "lkj" else 1 + per_chain(u)
        assert_rejected(seen, 1)


def jeffreys(a):
    """Beta(a, a) and Gamma(a, 1), whose draws often round to 0 and 1."""

    def log_prior(params):
        p, x = params["p"], params["x"]
        return (a - 1) * (tf.math.log(p) + tf.math.log1p(-p) + tf.math.log(x)) - x

    return log_prior


def test_chains_come_back_from_values_that_round_to_the_boundary(seed):
    start = {"p": 1 - 1e-6, "x": 1e-37}
    draws = sgmcmc.sgld(
        *(flat, NO_DATA, start, 0.5, jeffreys(0.05)),
        minibatch_size=10,
        constrain={"p": "unit", "x": "positive"},
        n_iters=4000,
        n_chains=300,
        seed=seed,
        verbose=False,
    )
    assert draws["p"].max() == 1
    assert draws["x"].min() == 0
    assert (draws["p"][:, -1] < 0.5).any()
    assert (draws["x"][:, -1] > 1e-3).any()


class InverseJacobianAlone(tfb.Bijector):
    """exp, whose Jacobian is known by the value alone."""

    def __init__(self):
        super().__init__(forward_min_event_ndims=0, name="inverse_jacobian_alone")

    def _forward(self, x):
        return tf.exp(x)

    def _inverse(self, y):
        return tf.math.log(y)

    def _inverse_log_det_jacobian(self, y):
        return -tf.math.log(y)


MATRIX = np.array([[1.0, 0.5], [0.5, 2.0]])
IMAGES = {
    "Exp": (tfb.Exp, [0.5, 2.0]),
    "Softplus": (tfb.Softplus, 0.3),
    "Ascending": (tfb.Ascending, [1.0, 2.0, 4.0]),
    "InverseJacobianAlone": (InverseJacobianAlone, [0.5, 2.0]),
    "Invert": (lambda: tfb.Invert(tfb.Log()), [0.5, 2.0]),
    "SoftmaxCentered": (softmax_centred, SHARES.astype(float) / SHARES.sum(dtype=float)),
    "IteratedSigmoidCentered": (tfb.IteratedSigmoidCentered, [[0.2, 0.3, 0.5], [0.7, 0.2, 0.1]]),
    "FillScaleTriL": (lambda: tfb.FillScaleTriL(diag_shift=None), np.linalg.cholesky(MATRIX)),
    "CorrelationCholesky": (tfb.CorrelationCholesky, np.linalg.cholesky(0.5 * np.eye(3) + 0.5)),
    "CholeskyOuterProduct": (
        lambda: tfb.Chain([tfb.CholeskyOuterProduct(), tfb.FillScaleTriL(diag_shift=None)]),
        MATRIX,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("n_chains", [2, None])
def test_a_step_without_noise_follows_the_density_of_the_free_coordinates(n_chains):
    """A bijector remembers its last values: they must not hide part of the gradient."""
    makers = {k: make for k, (make, _) in IMAGES.items()}
    draws = sgmcmc.sgld(
        *(flat, NO_DATA, {k: start for k, (_, start) in IMAGES.items()}, 0.1),
        lambda params: -tf.add_n([tf.reduce_sum(x**2) for x in params.values()]),
        minibatch_size=10,
        constrain={k: make() for k, make in makers.items()},
        temperature=0.0,
        n_iters=1,
        n_chains=n_chains,
        dtype="float64",
        jit=False,
        verbose=False,
    )
    for name, (make, start) in IMAGES.items():
        x = tf.constant(make().inverse(np.array(start)).numpy())
        with tf.GradientTape() as tape:
            tape.watch(x)
            jacobian = make().forward_log_det_jacobian(x, x.shape.rank)
            density = jacobian - tf.reduce_sum(make().forward(x) ** 2)
        there = make().forward(x + 0.05 * tape.gradient(density, x)).numpy()
        for draw in draws[name] if n_chains is None else draws[name][:, 0]:
            np.testing.assert_allclose(draw, there, 1e-12, 1e-12, err_msg=name)


N, P = 1000, 3
PRIOR_A, PRIOR_B, PRIOR_SCALE = 2.0, 1.0, 10.0


def regression_data():
    rng = np.random.default_rng(1)
    X = np.concatenate([np.ones((N, 1)), rng.normal(size=(N, P - 1))], axis=1)
    return {"X": X, "y": X @ [1.0, -2.0, 0.5] + 2 * rng.normal(size=N)}


def regression_log_lik(params, data):
    error = data["y"] - tf.linalg.matvec(data["X"], params["beta"])
    scaled = error / params["sigma"]
    return tf.reduce_sum(-(scaled**2) / 2 - tf.math.log(params["sigma"]))


def regression_log_prior(params):
    """σ² ~ InverseGamma(2, 1), β | σ² ~ N(0, 10 σ²), as a density of β and σ."""
    variance = params["sigma"] ** 2
    of_sigma = -(2 * PRIOR_A + 1) * tf.math.log(params["sigma"]) - PRIOR_B / variance
    squares = tf.reduce_sum(params["beta"] ** 2) / (PRIOR_SCALE * variance)
    return of_sigma - P * tf.math.log(params["sigma"]) - squares / 2


def regression_posterior(data):
    """Means and covariances of β and of σ², from the normal-inverse-gamma posterior."""
    X, y = data["X"], data["y"]
    precision = X.T @ X + np.eye(P) / PRIOR_SCALE
    mean = np.linalg.solve(precision, X.T @ y)
    a = PRIOR_A + N / 2
    b = PRIOR_B + (y @ y - mean @ precision @ mean) / 2
    square = b / (a - 1)
    return mean, square * np.linalg.inv(precision), square, square**2 / (a - 2)


class GradientByValue(sgmcmc.Space):
    """Positive numbers whose gradient is not multiplied by the derivative of exp."""

    def forward(self, x):
        return tf.stop_gradient(tf.exp(x) - x) + x

    def inverse(self, value):
        return tf.math.log(value)


def regression_draws(seed, constrain, e, length):
    """Draws of β and σ², with mean 0 and variance 1 where right."""
    data = regression_data()
    mean, covariance, square, variance = regression_posterior(data)
    draws = sgmcmc.sgldcv(
        *(regression_log_lik, data, {"beta": np.zeros(P), "sigma": 1.0}),
        {"beta": e * square / N, "sigma": e / (2 * N)},
        log_prior=regression_log_prior,
        minibatch_size=50,
        constrain={"sigma": constrain},
        n_iters=round(length / e),
        burn_in=round(10 / e),
        n_chains=CHAINS,
        seed=seed,
        verbose=False,
    )
    of_sigma = (draws["sigma"].astype(float) ** 2 - square) / np.sqrt(variance)
    of_beta = (draws["beta"] - mean) / np.sqrt(np.diag(covariance))
    return np.concatenate([of_beta, of_sigma[..., None]], axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize(("e", "length", "detect"), [(0.1, 160, 0.08), (0.02, 320, 0.05)])
def test_regression_with_unknown_sigma(seed, e, length, detect):
    """Errors of `detect` standard deviations, and of `detect` in a variance, would be found.

    With steps of e posterior variances, SGLD's variance is 1 / (1 − e/4) times the posterior's, and
    gradient noise adds a share of e/40: at most .3 %.
    """
    variance = gaussian.sgld_variance(gaussian.Case(lam=1, eps=e, sigma=0))
    for u in np.moveaxis(regression_draws(seed, "positive", e, length), -1, 0):
        assert_mean(1 + u.mean(axis=1), 1, detect)
        assert_mean((u**2).mean(axis=1), variance, detect)


@pytest.mark.slow
def test_regression_with_a_wrong_gradient_is_rejected(seed):
    """It is wrong in all rows: the Jacobian alone, one part in 1000, would be too little to see."""
    e = 0.1
    u = regression_draws(seed, GradientByValue(), e, length=160)[..., -1]
    variance = gaussian.sgld_variance(gaussian.Case(lam=1, eps=e, sigma=0))
    assert_rejected((u**2).mean(axis=1), variance)


NESTED = {"sigma": 1.5, "net": {"w": np.array([0.3, 0.6]), "b": 0.4}, "p": SHARES}
CONSTRAIN = {
    "sigma": "positive",
    "net": "unit",
    "p": tfb.IteratedSigmoidCentered(),
}
ROWS = {"x": np.random.default_rng(2).normal(size=(40, 2))}


def nested_log_lik(params, data):
    """Normal data whose mean and standard deviation depend on all parameters."""
    mean = params["net"]["w"] - params["net"]["b"]
    scaled = (data["x"] - mean) / params["sigma"]
    return -tf.reduce_sum(scaled**2 / 2 + tf.math.log(params["sigma"]))


def nested_log_prior(params):
    of_net = [tf.math.log(x) + tf.math.log1p(-x) for x in tree.leaves(params["net"])]
    of_p = tf.reduce_sum(2 * tf.math.log(params["p"]))
    return of_p - params["sigma"] + tf.add_n([tf.reduce_sum(x) for x in of_net])


def arguments(**options):
    first = {"log_lik": nested_log_lik, "dataset": ROWS, "params": NESTED, "stepsize": 1e-3}
    rest = {"log_prior": nested_log_prior, "minibatch_size": 10, "constrain": CONSTRAIN}
    return {**first, **rest, "seed": 1, "jit": False, "verbose": False, **options}


def assert_inside(params):
    assert np.all(np.asarray(params["sigma"]) > 0)
    for x in tree.leaves(params["net"]):
        assert np.all((np.asarray(x) > 0) & (np.asarray(x) < 1))
    np.testing.assert_allclose(np.sum(params["p"], axis=-1), 1, 1e-5)


def assert_same(one, other):
    for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("gradient", ["plain", "control_variates"])
def test_the_log_posterior_is_of_the_values_that_users_see(gradient):
    """With all rows in a minibatch it is exact, at the point where the step began."""
    options = {"minibatch_size": 40, "dtype": "float64", "gradient": gradient}
    sampler = sgmcmc.sgld_setup(**arguments(**options))
    points, seen = [sgmcmc.get_params(sampler)], []
    for _ in range(4):
        seen.append(sgmcmc.run(sampler, 1, verbose=False).stats["log_posterior"][0])
        points.append(sgmcmc.get_params(sampler))
    exact = [nested_log_lik(at, ROWS) + nested_log_prior(at) for at in points]
    np.testing.assert_allclose(seen, exact[:-1], 1e-10)
    assert np.min(np.abs(np.diff(exact))) > 1e-3, "another point would be told apart"


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        ("sgld", {}),
        ("sghmc", {"L": 2}),
        ("sgnht", {}),
        ("sgldcv", {}),
        slow("sghmccv", {"L": 2}),
        slow("sgnhtcv", {}),
        (
            "mixed",
            {"blocks": {"sigma": sgmcmc.SGHMC(), "net": sgmcmc.SGNHT(), "p": sgmcmc.SGLD()}},
        ),
        (
            "mixed",
            {
                "blocks": {"sigma": sgmcmc.SGLD(), "net": sgmcmc.SGLD(), "p": sgmcmc.SCIR(2.0)},
                "constrain": {"sigma": "positive", "net": "unit"},
            },
        ),
    ],
)
def test_draws_and_parameters_are_constrained_values(sampler, options):
    """The same draws in one run and step by step, each inside of its bounds."""
    make = getattr(sgmcmc, f"{sampler}_setup")
    starts = tree.map(lambda x: np.stack([x, x, x]), NESTED) | {"sigma": np.array([1.0, 1.5, 2.0])}
    options = arguments(**options, n_chains=3, starts=starts)
    draws = sgmcmc.run(make(**options), 12, verbose=False)
    assert draws["p"].shape == (3, 12, 3)
    assert draws["net"]["w"].shape == (3, 12, 2)
    assert_inside(dict(draws))

    stepped = make(**options)
    at_start = sgmcmc.get_params(stepped)
    tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5), at_start, starts)
    for i in range(12):
        sgmcmc.step(stepped)
        now = tree.map(lambda x, i=i: x[:, i], dict(draws))
        assert_same(sgmcmc.get_params(stepped), now)
    assert_same(tree.map(lambda x: x.numpy(), stepped.params), now)


def test_the_mode_is_in_constrained_values():
    searched = sgmcmc.sgldcv_setup(**arguments())
    assert_inside(searched.mode)
    tree.map(
        lambda a, b: np.testing.assert_array_equal(a.shape, np.shape(b)), searched.mode, NESTED
    )
    given = sgmcmc.sgldcv_setup(**arguments(mode=NESTED))
    tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5), given.mode, NESTED)
    np.testing.assert_allclose(given.settings["mode"]["p"], SHARES, 1e-5)


def test_control_variates_by_name_are_sgldcv():
    by_name = sgmcmc.sgld(**arguments(gradient="control_variates", n_iters=20))
    assert_same(dict(by_name), dict(sgmcmc.sgldcv(**arguments(n_iters=20))))


def test_a_constraint_of_a_nest_is_that_of_each_of_its_leaves():
    deeper = CONSTRAIN | {"net": {"w": "unit", "b": "unit"}}
    draws = sgmcmc.sgld(**arguments(n_iters=20))
    assert_same(dict(draws), dict(sgmcmc.sgld(**arguments(n_iters=20, constrain=deeper))))
    some = CONSTRAIN | {"net": {"b": "unit"}}
    other = sgmcmc.sgld(**arguments(n_iters=20, constrain=some))
    assert not np.array_equal(other["net"]["w"], draws["net"]["w"])


def test_bijectors_with_other_constants_are_other_programs():
    """Programs are shared by equal models: these are not equal."""
    start = {"x": 1.0}
    log_prior = lambda params: -(params["x"] ** 2)  # noqa: E731

    def draws(scale):
        constrain = {"x": tfb.Scale(scale)}
        options = {"minibatch_size": 10, "n_iters": 5, "seed": 1, "verbose": False, "jit": False}
        return sgmcmc.sgld(*(flat, NO_DATA, start, 0.1, log_prior), constrain=constrain, **options)[
            "x"
        ]

    assert not np.array_equal(draws(2.0), draws(3.0))
    np.testing.assert_array_equal(draws(2.0), draws(2.0))


class Odds(sgmcmc.Space):
    """A space of the user's own: numbers above 1."""

    def forward(self, x):
        return 1 + tf.exp(x)

    def inverse(self, value):
        return tf.math.log(value - 1)

    def log_density(self, x):
        return tf.reduce_sum(x)


def test_draws_with_any_constraint_can_be_pickled():
    constrain = {"sigma": Odds(), "net": tfb.Sigmoid(), "p": softmax_centred()}
    draws = sgmcmc.sgld(**arguments(n_iters=3, constrain=constrain))
    again = pickle.loads(pickle.dumps(draws))
    assert again.settings["constrain"]["sigma"] == "Odds()"
    assert (again["sigma"] > 1).all()


@dataclass(frozen=True)
class Given:
    """What is passed to `sampler` in place of arguments that are valid."""

    options: dict
    sampler: str = "sgld"


class NoInverse(tfb.Bijector):
    def __init__(self):
        super().__init__(forward_min_event_ndims=0, name="no_inverse")

    def _forward(self, x):
        return tf.exp(x)


STARTS = tree.map(lambda x: np.stack([x, x]), NESTED)
KNOWN = "'positive' or 'unit', a bijector of TensorFlow Probability or a sgmcmc.Space, not"


def bounds(**constrain):
    return Given({"constrain": constrain})


def start(constrain, **values):
    return Given({"constrain": constrain, "params": NESTED | values})


def starts(constrain, **values):
    return Given({"constrain": constrain, "starts": STARTS | values, "n_chains": 2})


def mode(**values):
    return Given({"mode": NESTED | values}, "sgldcv")


def blocks(constrain, **others):
    samplers = dict.fromkeys(NESTED, sgmcmc.SGLD()) | others
    return Given({"constrain": constrain, "blocks": samplers}, "mixed")


CHOLESKY = {"p": tfb.CorrelationCholesky()}
BAD_VALUES = {  # what the error says, … for some words of it: what is passed
    "constrain names 'sigmaa', which is no parameter (did you mean 'sigma'?)": bounds(
        sigmaa="unit"
    ),
    "constrain['net'] names 'c', which is no parameter…['b', 'w']": bounds(net={"c": "unit"}),
    f"constrain['sigma'] must be {KNOWN} 'postive' (did you mean 'positive'?)": bounds(
        sigma="postive"
    ),
    f"constrain['net']['w'] must be {KNOWN} 'real'": bounds(net={"w": "real"}),
    "params['sigma'] must be above 0…constrain says 'positive', not 0": start(
        {"sigma": "positive"}, sigma=0
    ),
    "params['p'] must be above 0…not -1": start({"p": "positive"}, p=[1, -1, 1]),
    "params['sigma'] must be above 0 (in float32, at least 1.18e-38)…not 1.00053e-42": start(
        {"sigma": "positive"}, sigma=1e-42
    ),
    "params['sigma'] must be strictly between 0 and 1, as constrain says 'unit', not 1": start(
        {"sigma": "unit"}, sigma=1.0
    ),
    "params['net']['w'] must be strictly between 0 and 1…not -0.5": start(
        {"net": {"w": "unit"}}, net={"w": [0.5, -0.5], "b": 0.5}
    ),
    "params['p'] must be inside the range of the bijector 'correlation_cholesky': "
    "forward(inverse(params['p'])) differs from it by up to 1": start(CHOLESKY, p=2 * np.eye(2)),
    "params['p'] must be inside the range of the bijector 'correlation_cholesky': …0.5": start(
        CHOLESKY, p=0.5 * np.eye(2) + 0.5
    ),
    "params['p'] must be inside…'softmax_centered': …differs from it by up to 0.167": start(
        {"p": softmax_centred()}, p=[0.5, 0.5, 0.5]
    ),
    "params['p'] must be inside the range of the bijector 'softmax_centered', not on its boundary "
    "or outside: there is no finite inverse of": start({"p": softmax_centred()}, p=[0.5, 0.5, 0.0]),
    "params['sigma'] must be inside the range of the bijector 'softplus', not on its boundary": (
        start({"sigma": tfb.Softplus()}, sigma=-1.0)
    ),
    "constrain: the bijector 'correlation_cholesky' cannot take params['p'], of shape (3,) and type"
    " float32: InvalidArgumentError: input must be at least 2-dim": bounds(**CHOLESKY),
    "constrain: the bijector 'scale' does not act on params['sigma'] as one value of shape (): it "
    "returns shape (2,)": bounds(sigma=tfb.Scale([1.0, 2.0])),
    "constrain: the bijector 'scale' makes float64 of params['sigma'], which is float32: make it "
    "of float32 constants, or pass dtype='float64'": bounds(
        sigma=tfb.Scale(tf.constant(2.0, tf.float64))
    ),
    "constrain: the bijector 'absolute_value' of params['sigma'] cannot be used, as it lacks an "
    "inverse or the log of its Jacobian: ": bounds(sigma=tfb.AbsoluteValue()),
    "constrain: the bijector 'no_inverse' of params['sigma'] cannot be used, as it lacks an "
    "inverse or the log of its Jacobian: NotImplementedError: inverse not implemented": bounds(
        sigma=NoInverse()
    ),
    "starts['sigma'] must be above 0…constrain says 'positive', not 0": starts(
        {"sigma": "positive"}, sigma=[1, 0]
    ),
    "starts['p'] must be inside…'iterated_sigmoid'": starts(CONSTRAIN, p=[[0.5] * 3] * 2),
    "starts['p'] must have shape (2, 3), not (2, 2)": starts(CONSTRAIN, p=[[0, 0], [0, 0]]),
    "mode['sigma'] must be above 0…constrain says 'positive', not -1": mode(sigma=-1),
    "mode['p'] must be inside…'iterated_sigmoid'": mode(p=[0.5] * 3),
    "constrain names 'p', which its sampler moves in a space of its own: leave it out": blocks(
        {"p": CONSTRAIN["p"]}, p=sgmcmc.SCIR(0.1)
    ),
    "constrain names 'sigma', which a Gibbs step draws: what its function returns is taken as it is"
    ", so leave it out": blocks(
        {"sigma": "positive"}, sigma=sgmcmc.Gibbs(lambda params, data, key: params["sigma"])
    ),
}
BAD_TYPES = {
    "constrain must be a dict by parameter, such as {'sigma': 'positive'}, not 'positive'": Given(
        {"constrain": "positive"}
    ),
    f"constrain['sigma'] must be {KNOWN} 3": bounds(sigma=3),
    f"constrain['sigma'] must be {KNOWN} {{'a': 'unit'}}": bounds(sigma={"a": "unit"}),
    f"constrain['sigma'] must be {KNOWN} <function exp": bounds(sigma=tf.exp),
    f"constrain['net']['b'] must be {KNOWN} a Gamma": bounds(net={"b": tfd.Gamma(1.0, 1.0)}),
    f"constrain['sigma'] must be {KNOWN} the class Exp: make an object of it, as in Exp()": bounds(
        sigma=tfb.Exp
    ),
    "scir() has no argument 'constrain'": Given({"alpha": 0.1, "log_prior": ...}, "scir"),
}


@pytest.mark.parametrize(
    ("error", "message", "given"),
    [
        pytest.param(error, *row, id=row[0])
        for error, table in ((ValueError, BAD_VALUES), (TypeError, BAD_TYPES))
        for row in table.items()
    ],
)
def test_bad_constraints_get_a_clear_error(error, message, given):
    wanted = ".*".join(re.escape(part) for part in message.split("…"))
    options = {k: v for k, v in arguments(**given.options, n_iters=2).items() if v is not ...}
    with pytest.raises(error, match=f"(?s)^{wanted}") as caught:
        getattr(sgmcmc, given.sampler)(**options)
    assert not re.search(r"\n|\{\{|\[Op:|in user code|[.:]\.$", str(caught.value))
