"""Rows drawn with unequal probabilities: unbiased exactly, with the exact stationary variance.

False alarms and power of the z-tests are those of `ztest`.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import tree
from sgmcmc.alias import AliasTable
from sgmcmc.estimators import Data, Mode
from sgmcmc.estimators.weights import UNIFORM, by_leverage, given
from sgmcmc.model import Batch
from sgmcmc.source import Source
from sgmcmc.streams import stream
from sgmcmc.tuning import Tuner, near

from .test_estimators import posterior
from .test_variance import DATASET, HERE, X0, N, exact, log_lik, log_prior, tensors
from .ztest import assert_mean, assert_rejected

SKEWED = np.arange(1.0, N + 1) ** 2


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize("kind", ["equal", "mild", "heavy", "one", "zeros"])
def test_an_alias_table_has_the_probabilities(size, kind, seed):
    rng = np.random.default_rng(seed)
    p = {
        "equal": np.ones(size),
        "mild": rng.exponential(size=size),
        "heavy": rng.pareto(0.5, size) + 1e-9,
        "one": 1.0 * (np.arange(size) == size // 2),
        "zeros": rng.exponential(size=size) * (np.arange(size) % 2 == 0),
    }[kind]
    table = AliasTable(p)
    found = table.own / size
    np.add.at(found, table.alias, (1 - table.own) / size)
    np.testing.assert_allclose(found, p / p.sum(), rtol=1e-9, atol=1e-15)
    assert (p[table.draw(rng, (2, 500))] > 0).all()


def test_draws_have_these_probabilities(seed):
    rng = np.random.default_rng(seed)
    drawn = AliasTable(SKEWED).draw(rng, (400, 2000))
    assert_mean((drawn == N - 1).mean(axis=1), SKEWED[-1] / SKEWED.sum())
    assert_rejected((drawn == N - 2).mean(axis=1), SKEWED[-1] / SKEWED.sum())


@pytest.mark.parametrize("weighted", [True, False], ids=["", "weights left out"])
@pytest.mark.parametrize("chains", [1, 2])
def test_unbiased_over_all_rows(chains, weighted):
    """The mean over minibatches of one row, each as probable as it is, is the whole gradient."""
    source = Source({k: v.astype(float) for k, v in DATASET.items()}, tf.float64)
    model = posterior(log_lik, log_prior)
    estimator = sgmcmc.ControlVariate(row_probabilities=SKEWED / SKEWED.sum())
    mode = Mode(tree.map(lambda a: a[0], X0), None, None, estimator.row_probabilities)
    x = tree.map(lambda a: a[:chains], tensors(HERE))
    state = estimator.init(model, x, Data(source, 1, stream(0, 0)), mode)
    if not weighted:
        state = state._replace(weights=tf.ones_like(state.weights))

    @tf.function(autograph=False)
    def estimate(x, rows, index):
        return estimator.estimate(model, x, state, Batch(rows, float(N), index))[0].gradient

    total = 0.0
    for i in range(N):
        rows = {k: tf.constant(v[None, [i]]) for k, v in DATASET.items()}
        found = estimate(x, rows, tf.constant([[i]]))["beta"]
        total = total + estimator.row_probabilities[i] * found
    off = np.abs(total - exact(model, source)["beta"][:chains]).max()
    assert off < 1e-12 if weighted else off > 0.1


def squares(params, data):
    return -tf.reduce_sum(data["w"] * (data["x"] - params["a"]) ** 2) / 2


@dataclass(frozen=True)
class WrongWeights(sgmcmc.ControlVariate):
    """Rows have the weights of probabilities that are nearer to one another."""

    def estimate(self, model, x, state, batch):
        return super().estimate(model, x, state._replace(weights=state.weights**0.8), batch)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True], ids=["", "wrong weights"])
def test_the_stationary_variance_is_exact(wrong, seed):
    """Rows of unequal precision w, whose sum is 1: θ ← (1 − εĤ/2)θ + N(0, ε) about the mode.

    Ĥ is the mean of w/(N p) · N over n draws, so that the variance is ε/(1 − E(1 − εĤ/2)²). The
    chains start there. After 60 steps of ε = .5, 10⁻⁸ of that is left.
    """
    size, n, eps, chains = 1000, 2, 0.5, 8000
    rng = np.random.default_rng(seed)
    w = 1 / np.arange(1.0, size + 1)
    w /= w.sum()
    p = 0.7 * w + 0.3 / size
    data = {"x": rng.normal(size=size), "w": w}
    second = ((w**2 / p).sum() + (n - 1)) / n  # E Ĥ²
    variance = eps / (1 - (1 - eps + eps**2 * second / 4))
    mean = (w * data["x"]).sum()
    draws = sgmcmc.sgld(
        squares,
        data,
        {"a": mean},
        eps,
        gradient=(WrongWeights if wrong else sgmcmc.ControlVariate)(
            mode={"a": mean}, row_probabilities=p
        ),
        minibatch_size=n,
        n_iters=1,
        burn_in=60,
        n_chains=chains,
        starts={"a": rng.normal(mean, np.sqrt(variance), chains)},
        seed=seed,
        verbose=False,
    )["a"][:, -1]
    square = (draws - mean) ** 2
    (assert_rejected if wrong else lambda *a: assert_mean(*a, detect=0.2))(square, variance)


def rare(rng, size):
    """Rows of a logistic regression in which ten tell one coefficient."""
    X = rng.normal(size=(size, 3))
    X[:, 2] = 0
    X[rng.choice(size, 10, replace=False), 2] = 1
    y = (rng.random(size) < 1 / (1 + np.exp(-X @ [0.5, -0.5, 1]))).astype(float)
    return {"X": X, "y": y}


def logistic(params, data):
    eta = tf.linalg.matvec(data["X"], params["beta"])
    return tf.reduce_sum(data["y"] * eta - tf.nn.softplus(eta))


def normal(params):
    return -tf.reduce_sum(params["beta"] ** 2) / 2


def test_leverage_finds_the_rows_that_tell_a_coefficient(seed):
    """Of 20,000 rows, ten have the share of one of three directions, up to its noise."""
    data = rare(np.random.default_rng(seed), 20_000)
    tuned = {}
    for wanted in (None, "leverage", "lipschitz"):
        tuned[wanted] = sgmcmc.sgldcv_setup(
            logistic,
            data,
            {"beta": np.zeros(3)},
            log_prior=normal,
            minibatch_size=20,
            minibatches="independent",
            row_probabilities=wanted,
            seed=seed,
            verbose=False,
        )
    p = tuned["leverage"].feeder.minibatches
    found = p.table.own / 20_000
    np.add.at(found, p.table.alias, (1 - p.table.own) / 20_000)
    assert 0.05 < found[data["X"][:, 2] > 0].sum() < 0.6
    assert found.min() >= 0.99 * UNIFORM / 20_000
    noise = {k: s.settings["tuning"]["noise"][-1] for k, s in tuned.items()}
    assert noise["leverage"] < 0.1 * min(noise[None], noise["lipschitz"])
    ess = {k: s.settings["tuning"]["ess"][0] for k, s in tuned.items()}
    assert ess["leverage"] > ess[None]


@pytest.mark.slow
def test_the_noise_that_a_step_size_is_chosen_by(seed, monkeypatch):
    """Linear regression: rows change by x xᵀδ, with δ from the posterior, in white coordinates."""
    monkeypatch.setattr(near, "DRAWS", 2000)
    rng, size = np.random.default_rng(seed), 300
    X = rng.normal(size=(size, 2)) * np.geomspace(0.1, 3, size)[:, None]
    data = {"X": X, "y": rng.normal(size=size)}
    model = posterior(
        lambda p, d: -tf.reduce_sum((d["y"] - tf.linalg.matvec(d["X"], p["b"])) ** 2) / 2, None
    )
    source, p = Source(data, tf.float64), np.geomspace(3, 1, size)  # strong rows are rare
    p /= p.sum()
    b = np.linalg.solve(X.T @ X, X.T @ data["y"])
    mode = Mode({"b": b}, None, None, p)
    plan = sgmcmc.SGLD(), sgmcmc.ControlVariate(), "hessian", 0.05, False, "independent", seed
    tuner = Tuner(model, source, mode, *plan)
    white = X @ tuner.L
    square = np.einsum("ni,nj,n->ij", white, white, (white**2).sum(axis=1) / p)
    expected = (square - np.eye(2)) / 4  # the mean change of the sum is δ, of covariance 1
    found = tuner.choose(4)[1].noise.sum()
    np.testing.assert_allclose(found, np.trace(expected), rtol=0.15)
    alike = (np.sum(np.sum(white**2, axis=1) ** 2) * size - 2) / 4  # control: as if drawn alike
    assert found > 1.3 * alike


def test_the_same_draws_after_a_resumption(tmp_path):
    rng = np.random.default_rng(1)
    given = {
        "log_lik": logistic,
        "dataset": rare(rng, 500),
        "params": {"beta": np.zeros(3)},
        "stepsize": 1e-3,
        "log_prior": normal,
        "minibatch_size": 5,
        "row_probabilities": "leverage",
        "seed": 3,
        "verbose": False,
    }
    whole = sgmcmc.sgldcv(**given, n_iters=60)["beta"]
    sampler = sgmcmc.sgldcv_setup(**given)
    sgmcmc.step(sampler, 20)
    sampler.save(tmp_path / "here")
    again = sgmcmc.sgldcv_setup(**given, resume=tmp_path / "here")
    np.testing.assert_array_equal(sgmcmc.run(again, 40)["beta"], whole[20:])
    again.feeder.close()
    other = {**given, "row_probabilities": np.arange(500.0) + 1}
    with pytest.raises(ValueError, match="row_probabilities"):
        sgmcmc.sgldcv_setup(**other, resume=tmp_path / "here")


X = np.random.default_rng(0).normal(size=(50, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"row_probabilities": -np.ones(50)}, "negative, but that of row 0 is -1"),
        ({"row_probabilities": np.zeros(50)}, "positive sum"),
        ({"row_probabilities": np.ones(49)}, "each of N = 50 rows, not 49"),
        ({"row_probabilities": np.ones((50, 1))}, "not of shape"),
        ({"row_probabilities": np.arange(50.0)}, "0 for row 0, on which the gradient depends"),
        ({"row_probabilities": np.full(50, np.nan)}, "row_probabilities"),
        ({"row_probabilities": "levrage"}, "did you mean 'leverage'"),
        ({"row_probabilities": "leverage", "minibatches": "reshuffled"}, "'auto' or 'independent'"),
        ({"row_probabilities": "lipschitz", "dataset": {"y": X[:, 0]}}, "for linear predictors"),
    ],
)
def test_bad_probabilities_are_refused(arguments, message):
    def log_lik(params, data):
        x = data["X"] if "X" in data else data["y"][:, None]
        return -tf.reduce_sum((x - params["a"]) ** 2) / 2

    arguments = {"dataset": {"X": X, "y": X[:, 0]}, **arguments}
    with pytest.raises(ValueError, match=message):
        sgmcmc.sgldcv(
            log_lik, params={"a": np.zeros(2)}, stepsize=1e-3, minibatch_size=5, **arguments
        )


def test_rows_without_a_gradient_may_be_left_out():
    data = {"x": np.array([1.0, 2.0, 0.0]), "w": np.array([1.0, 2.0, 0.0])}
    source, model = Source(data, tf.float64), posterior(squares, None)
    p = np.array([0.5, 0.5, 0.0])
    assert given(p, model, source, {"a": np.array(0.3)}) is p
    by = by_leverage(model, source, Mode({"a": np.array(5 / 3)}, None), 1)
    np.testing.assert_allclose(by, UNIFORM / 3 + (1 - UNIFORM) * np.array([1, 2, 0]) / 3)


def test_step_sizes_with_rows_that_do_not_matter():
    """Rows with weight 0 are never drawn, and change nothing."""
    x, weight = np.linspace(-1, 1, 100), np.repeat([1.0, 0.0], [60, 40])

    def log_lik(params, data):
        return -tf.reduce_sum(data["weight"] * tf.math.log1p((data["x"] - params["mu"]) ** 2))

    noise = [
        sgmcmc.sgldcv_setup(
            *(log_lik, {"x": x[:n], "weight": weight[:n]}, {"mu": -0.4}), minibatch_size=5,
            row_probabilities=weight[:n], seed=1, verbose=False,
        ).settings["tuning"]["noise"][2]
        for n in (60, 100)
    ]  # fmt: skip
    assert noise[0] == pytest.approx(noise[1], rel=0.05)
