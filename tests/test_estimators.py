"""Estimates of the log posterior and its gradient are unbiased, as noisy as theory says, and exact
where they should be.

Each random test raises a false alarm less than once in a million times. They find a bias of 2% of
the length of a gradient, and of 1% of a value; errors of 10% in noise variances, and of .1 in the
exponents with which noise grows in N. Each has a negative control. All other tests are exact.
"""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from sgmcmc import checks, tree
from sgmcmc.estimators import Data, Mode
from sgmcmc.estimators.control_variate import ControlVariate
from sgmcmc.estimators.gradient import Gradient
from sgmcmc.model import Batch, Model
from sgmcmc.source import Source
from sgmcmc.spaces import Chart
from sgmcmc.streams import without_replacement

from .ztest import ALARM, POWER, assert_mean, assert_rejected, z_score

tfd = tfp.distributions
PLAIN, CONTROLLED = Gradient(), ControlVariate()
ESTIMATORS = pytest.mark.parametrize("estimator", [PLAIN, CONTROLLED], ids=["plain", "control"])
PRIOR_PRECISION = 100.0

# Logistic regression, by TensorFlow and by hand


def log_lik(params, data):
    logits = tf.linalg.matvec(data["X"], params["beta"])
    return tf.reduce_sum(data["y"] * logits - tf.nn.softplus(logits))


def log_prior(params):
    return -PRIOR_PRECISION / 2 * tf.reduce_sum(params["beta"] ** 2)


def posterior(log_lik, log_prior):
    """Return a model of unconstrained parameters."""
    return Model(Chart({}), log_lik, log_prior)


LOGISTIC = posterior(log_lik, log_prior)


class ByHand:
    """The same model in NumPy."""

    def __init__(self, data, precision=PRIOR_PRECISION):
        self.X, self.y, self.precision = data["X"], data["y"], precision

    def rows(self, beta):
        return self.X * (self.y - 1 / (1 + np.exp(-self.X @ beta)))[:, None]

    def value(self, beta):
        z = self.X @ beta
        return np.sum(self.y * z - np.logaddexp(0, z)) - self.precision / 2 * beta @ beta

    def gradient(self, beta):
        return self.rows(beta).sum(axis=0) - self.precision * beta

    def precision_matrix(self, beta):
        p = 1 / (1 + np.exp(-self.X @ beta))
        return (self.X.T * (p * (1 - p))) @ self.X + self.precision * np.eye(len(beta))

    def mode(self):
        beta = np.zeros(self.X.shape[1])
        for _ in range(60):
            step = np.linalg.solve(self.precision_matrix(beta), self.gradient(beta))
            while self.value(beta + step) < self.value(beta) - 1e-9:
                step /= 2
            beta = beta + step
        assert step @ self.gradient(beta) < 1e-12
        return beta


def logistic_data(rng, N, d=3, scales=1.0):
    X = rng.normal(size=(N, d)) * scales
    beta = rng.normal(size=d) / scales / np.sqrt(d)
    return {"X": X, "y": (rng.random(N) < 1 / (1 + np.exp(-X @ beta))).astype(float)}


def source_of(data, dtype=tf.float64):
    return Source(checks.dataset(data, dtype), dtype)


def batch_of(data, index, scale=None):
    """Return minibatches of the rows with the numbers `index`, (chains, n)."""
    N = len(next(iter(data.values())))
    rows = {k: tf.constant(x[index]) for k, x in data.items()}
    return Batch(rows, scale or N / index.shape[1])


def repeated(params, count):
    return tree.map(lambda x: tf.repeat(tf.constant(x)[None], count, axis=0), params)


def centred(estimator, model, data, centre):
    x = repeated(centre, 1)
    return estimator.init(model, x, Data(source_of(data), 1, None), Mode(centre, None))


def estimate(estimator, model, x, state, batch):
    return estimator.estimate(model, x, state, batch)[0]


def estimates(estimator, data, beta, centre, index, model=LOGISTIC, scale=None):
    """Return values (m,) and gradients (m, d) on m minibatches, at one beta or m of them (m, d)."""
    state = centred(estimator, model, data, {"beta": centre})
    theta = {"beta": tf.constant(np.broadcast_to(beta, (len(index), np.shape(beta)[-1])))}
    result = estimate(estimator, model, theta, state, batch_of(data, index, scale))
    return result.value.numpy(), result.gradient["beta"].numpy()


# No bias


def bias(value, gradient, exact, beta):
    """Return the largest z-score of the value and of all coordinates of the gradient."""
    full = exact.gradient(beta)
    scores = [z_score(g, f) for g, f in zip(gradient.T, full)]
    for _, error in scores:
        assert (ALARM + POWER) * error < 0.02 * np.linalg.norm(full)
    z, error = z_score(value, exact.value(beta))
    assert (ALARM + POWER) * error < 0.01 * abs(exact.value(beta))
    return np.abs([z, *(z for z, _ in scores)]).max()


@pytest.fixture
def problem(seed):
    """Data, a point, a centre that is not the mode, and rows of 20,000 minibatches."""
    rng = np.random.default_rng(seed)
    data = logistic_data(rng, 1000)
    mode = ByHand(data).mode()
    beta, centre = mode + np.array([0.8, -0.6, 0.9]), mode + np.array([0.2, 0.0, -0.1])
    return data, beta, centre, without_replacement(rng, 1000, 100, 20_000)


@ESTIMATORS
def test_no_bias(estimator, problem):
    data, beta, centre, index = problem
    value, gradient = estimates(estimator, data, beta, centre, index)
    assert bias(value, gradient, ByHand(data), beta) < ALARM


@ESTIMATORS
@pytest.mark.parametrize("wrong", ["scale 1", "N/(n-9)", "prior twice", "no prior", "large rows"])
def test_control_bias(estimator, wrong, problem):
    data, beta, centre, index = problem
    model, scale = LOGISTIC, None
    if wrong == "scale 1":
        scale = 1.0
    elif wrong == "N/(n-9)":
        scale = 1000 / 91
    elif wrong == "prior twice":
        model = posterior(log_lik, lambda p: 2 * log_prior(p))
    elif wrong == "no prior":
        model = posterior(log_lik, None)
    else:
        index = np.argsort(-np.linalg.norm(data["X"], axis=1))[index // 2]
    value, gradient = estimates(estimator, data, beta, centre, index, model, scale)
    assert bias(value, gradient, ByHand(data), beta) > ALARM


def test_no_noise_at_the_centre(problem):
    """Both gradients are on the same rows, so that their noise cancels; the prior has none."""
    data, beta, _, index = problem
    value, gradient = estimates(CONTROLLED, data, beta, beta, index)
    np.testing.assert_allclose(value, ByHand(data).value(beta), rtol=1e-12)
    exact = np.broadcast_to(ByHand(data).gradient(beta), gradient.shape)
    np.testing.assert_allclose(gradient, exact, rtol=1e-10)
    assert estimates(PLAIN, data, beta, beta, index)[1].std(axis=0).min() > 1


@ESTIMATORS
@pytest.mark.parametrize("has_prior", [True, False])
def test_all_rows_give_the_full_gradient(estimator, has_prior, problem):
    data, beta, centre, _ = problem
    model = LOGISTIC if has_prior else posterior(log_lik, None)
    index = np.stack([np.arange(1000), np.arange(1000)[::-1]])
    value, gradient = estimates(estimator, data, beta, centre, index, model)
    exact = ByHand(data, PRIOR_PRECISION if has_prior else 0)
    np.testing.assert_allclose(value, [exact.value(beta)] * 2, rtol=1e-12)
    np.testing.assert_allclose(gradient, [exact.gradient(beta)] * 2, rtol=1e-10, atol=1e-10)


@ESTIMATORS
def test_what_only_the_prior_knows_is_exact(estimator, seed):
    rng = np.random.default_rng(seed)
    model = posterior(
        lambda p, d: -tf.reduce_sum((d["x"] - p["a"]) ** 2),
        lambda p: -tf.reduce_sum(p["b"] ** 4) - tf.reduce_sum(p["a"] ** 2),
    )
    data = {"x": rng.normal(size=100)}
    centre = {"a": np.float64(1), "b": np.ones(2)}
    state = centred(estimator, model, data, centre)
    theta = {"a": tf.constant(rng.normal(size=50)), "b": tf.constant(rng.normal(size=(50, 2)))}
    batch = batch_of(data, without_replacement(rng, 100, 5, 50))
    gradient = estimate(estimator, model, theta, state, batch).gradient["b"]
    np.testing.assert_allclose(gradient, -4 * theta["b"] ** 3, rtol=1e-12)


# Noise


@pytest.mark.parametrize("n", [10, 30, 50, 75])
def test_noise_is_that_of_draws_without_replacement(n, seed):
    rng = np.random.default_rng(seed)
    N, m, beta = 100, 20_000, np.ones(3)
    data = logistic_data(rng, N)
    exact = ByHand(data)
    S2 = exact.rows(beta).var(axis=0, ddof=1)
    for replace in (False, True):
        index = rng.integers(0, N, (m, n)) if replace else without_replacement(rng, N, n, m)
        _, gradient = estimates(PLAIN, data, beta, beta, index)
        squares = (gradient - exact.gradient(beta)) ** 2
        for k in range(3):
            if not replace:
                assert_mean(squares[:, k], N * (N - n) / n * S2[k], detect=0.15)
            elif n >= 30:
                assert_rejected(squares[:, k], N * (N - n) / n * S2[k])


SIZES = (2_000, 16_000, 128_000)


def noise_exponent(rng, estimator, data, centre_at=0.0):
    """Slope of log E‖noise‖² in log N at draws from the posterior, with its standard error."""
    n, m, logs, errors = 10, 4000, [], []
    for N in SIZES:
        part = {k: x[:N] for k, x in data.items()}
        exact = ByHand(part)
        mode = exact.mode()
        covariance = np.linalg.inv(exact.precision_matrix(mode))
        beta = rng.multivariate_normal(mode, covariance, m)
        two = [
            estimates(estimator, part, beta, mode + centre_at, without_replacement(rng, N, n, m))
            for _ in range(2)
        ]
        squares = np.sum((two[0][1] - two[1][1]) ** 2, axis=1) / 2
        logs.append(np.log(squares.mean()))
        errors.append(squares.std() / squares.mean() / np.sqrt(m))
    weights = np.log(SIZES) - np.mean(np.log(SIZES))
    weights /= weights @ np.log(SIZES)
    return weights @ logs, np.sqrt(weights**2 @ np.square(errors))


@pytest.mark.slow
def test_growth_of_noise(seed):
    """The exponent is 2; with control variates it is 1 if they are centred on the mode, else 2."""
    rng = np.random.default_rng(seed)
    data = logistic_data(rng, SIZES[-1])
    for estimator, centre_at, exponent in (
        (PLAIN, 0.0, 2.0),
        (CONTROLLED, 0.0, 1.01),
        (CONTROLLED, 1.0, 2.0),
    ):
        slope, error = noise_exponent(rng, estimator, data, centre_at)
        assert (ALARM + POWER) * error < 0.1
        assert abs(slope - exponent) < 0.1, (estimator, centre_at)


# Sums over all data


@pytest.mark.parametrize("rows", [1, 7, 50, 999, 1000, 1001, None])
def test_sums_over_pieces(rows, seed, monkeypatch):
    """To rounding: adding up 1,000 numbers errs by at most 500 ε = 6e-5 of the sum of their sizes.

    A row that is left out or counted twice is, on average, 1e-3 of that sum.
    """
    rng = np.random.default_rng(seed)
    data = logistic_data(rng, 1000)
    source = source_of(data, tf.float32)
    if rows:
        in_pieces_of(rows * source.row_bytes, monkeypatch)
    assert len(list(source.pieces())) == (-(-1000 // rows) if rows else 1)
    beta = np.full(3, 0.5)
    total = LOGISTIC.on_all({"beta": tf.constant(beta, tf.float32)}, source)
    data32 = {k: x.astype(np.float32).astype(float) for k, x in data.items()}
    exact = ByHand(data32, precision=0)
    rounding = 1000 * np.finfo(np.float32).eps / 2
    np.testing.assert_allclose(total.value, exact.value(beta), rtol=rounding)
    size = np.abs(exact.rows(beta)).sum(axis=0)
    assert (np.abs(total.gradient["beta"] - exact.gradient(beta)) < rounding * size).all()


def in_pieces_of(nbytes, monkeypatch):
    pieces = Source.pieces
    monkeypatch.setattr(Source, "pieces", lambda source: pieces(source, nbytes))


def test_sums_in_double_precision(monkeypatch):
    """In single precision 2²⁴ + 1 = 2²⁴."""
    in_pieces_of(4, monkeypatch)
    source = source_of({"x": np.array([2.0**24, *np.ones(100)])}, tf.float32)
    model = posterior(lambda p, d: p["a"] * tf.reduce_sum(d["x"]), None)
    total = model.on_all({"a": tf.constant(1.0)}, source)
    assert total.value == total.gradient["a"] == 2**24 + 100


# Models of many kinds


def embedding(rng, N):
    """Two embedding tables, from which users and items gather their rows."""
    data = {
        "user": rng.integers(0, 6, N),
        "item": rng.integers(0, 4, N).astype(np.uint8),
        "rating": rng.normal(size=N),
    }
    params = {"user": rng.normal(size=(8, 2)), "item": rng.normal(size=(4, 2))}

    def log_lik(params, data):
        u = tf.gather(params["user"], data["user"])
        v = tf.gather(params["item"], tf.cast(data["item"], tf.int32))
        return -tf.reduce_sum((data["rating"] - tf.reduce_sum(u * v, axis=-1)) ** 2)

    def log_prior(params):
        return -sum(tf.reduce_sum(x**2) for x in params.values())

    return data, params, log_lik, log_prior


def network(rng, N):
    """A nested dict of weights, data of several types, a scalar."""
    data = {
        "X": rng.normal(size=(N, 3)),
        "labels": rng.integers(0, 3, N).astype(np.int32),
        "seen": rng.random(N) < 0.7,
    }
    params = {
        "hidden": {"W": rng.normal(size=(3, 4)), "b": rng.normal(size=4)},
        "out": {"W": rng.normal(size=(4, 3))},
        "log_scale": np.float64(0.3),
    }

    def log_lik(params, data):
        hidden = tf.tanh(data["X"] @ params["hidden"]["W"] + params["hidden"]["b"])
        logits = tf.exp(params["log_scale"]) * (hidden @ params["out"]["W"])
        log_p = tf.nn.sparse_softmax_cross_entropy_with_logits(data["labels"], logits)
        return -tf.reduce_sum(tf.where(data["seen"], log_p, tf.zeros_like(log_p)))

    def log_prior(params):
        return -sum(tf.reduce_sum(x**2) for x in tree.leaves(params))

    return data, params, log_lik, log_prior


def by_distributions(rng, N):
    """A model with groups, written in TFP; rho has no prior."""
    data = {"x": rng.normal(size=N), "group": rng.integers(0, 3, N)}
    params = {"mu": rng.normal(size=3), "rho": rng.normal(size=())}

    def log_lik(params, data):
        law = tfd.StudentT(
            np.float64(5), tf.gather(params["mu"], data["group"]), tf.nn.softplus(params["rho"])
        )
        return tf.reduce_sum(law.log_prob(data["x"]))

    def log_prior(params):
        return tf.reduce_sum(tfd.Laplace(np.float64(0), np.float64(2)).log_prob(params["mu"]))

    return data, params, log_lik, log_prior


MODELS = pytest.mark.parametrize("kind", [embedding, network, by_distributions])


def near(rng, params, count):
    """Return `count` random points near `params`."""
    return tree.map(lambda x: tf.constant(x + 0.3 * rng.normal(size=(count, *x.shape))), params)


@MODELS
@ESTIMATORS
@pytest.mark.parametrize("shared", [False, True])
def test_many_chains_are_many_single_chains(kind, estimator, shared, seed):
    rng = np.random.default_rng(seed)
    data, params, *densities = kind(rng, 40)
    model, theta = posterior(*densities), near(rng, params, 3)
    state = centred(estimator, model, data, params)
    batch = batch_of(data, without_replacement(rng, 40, 7, 1 if shared else 3))
    together = estimate(estimator, model, theta, state, batch)
    for c in range(3):
        own = slice(0, 1) if shared else slice(c, c + 1)
        alone = estimate(
            estimator,
            model,
            tree.map(lambda x, c=c: x[c : c + 1], theta),
            state,
            Batch(tree.map(lambda x, own=own: x[own], batch.rows), batch.scale),
        )
        tree.map(
            lambda x, y, c=c: np.testing.assert_allclose(x[0], y[c], rtol=1e-9, atol=1e-10),
            alone[:2],
            together[:2],
        )


@MODELS
def test_control_variates_are_differences_of_plain_estimates(kind, seed):
    rng = np.random.default_rng(seed)
    data, params, *densities = kind(rng, 40)
    model, theta, there = posterior(*densities), near(rng, params, 3), repeated(params, 3)
    batch = batch_of(data, without_replacement(rng, 40, 7, 3))
    everything = batch_of(data, np.arange(40)[None])
    state = centred(CONTROLLED, model, data, params)
    tree.map(
        lambda x, here, there, full: np.testing.assert_allclose(x, here - there + full, atol=1e-9),
        estimate(CONTROLLED, model, theta, state, batch).gradient,
        estimate(PLAIN, model, theta, (), batch).gradient,
        estimate(PLAIN, model, there, (), batch).gradient,
        estimate(PLAIN, model, there, (), everything).gradient,
    )


@MODELS
def test_gradients_are_those_of_the_values(kind, seed):
    rng = np.random.default_rng(seed)
    data, params, *densities = kind(rng, 40)
    model, theta = posterior(*densities), near(rng, params, 1)
    batch = batch_of(data, without_replacement(rng, 40, 7, 1))
    direction = tree.map(lambda x: tf.constant(rng.normal(size=x.shape)), theta)
    h = 1e-5
    ends = [
        estimate(
            PLAIN, model, tree.map(lambda x, d, s=s: x + s * h * d, theta, direction), (), batch
        ).value
        for s in (1, -1)
    ]
    gradient = estimate(PLAIN, model, theta, (), batch).gradient
    parts = tree.map(lambda g, d: tf.reduce_sum(g * d).numpy(), gradient, direction)
    size = np.abs(tree.leaves(parts)).sum()
    assert abs((ends[0] - ends[1])[0] / (2 * h) - sum(tree.leaves(parts))) < 1e-6 * size


@pytest.mark.parametrize("chains", [1, 3])
def test_embeddings(chains, seed):
    """Gradients of rows gathered twice add up; rows not gathered have the prior's gradient."""
    rng = np.random.default_rng(seed)
    data, params, *densities = embedding(rng, 40)
    index = without_replacement(rng, 40, 12, chains)
    theta = near(rng, params, chains)
    model, batch = posterior(*densities), batch_of(data, index)
    result = estimate(PLAIN, model, theta, (), batch).gradient
    for c in range(chains):
        user, item, rating = (data[k][index[c]] for k in ("user", "item", "rating"))
        u, v = theta["user"][c].numpy(), theta["item"][c].numpy()
        error = 2 * (rating - np.sum(u[user] * v[item], axis=1))[:, None] * 40 / 12
        by_hand = {"user": -2 * u, "item": -2 * v}
        np.add.at(by_hand["user"], user, error * v[item])
        np.add.at(by_hand["item"], item, error * u[user])
        assert len(set(user)) < len(user)
        for name, g in by_hand.items():
            np.testing.assert_allclose(result[name][c], g, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(result["user"][c][6:], -2 * u[6:])
