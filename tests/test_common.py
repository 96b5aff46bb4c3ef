"""Tests that every sampler in the table must pass, new ones included."""

import functools
import gc
import pickle

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import feeder, tree
from sgmcmc.describe import SAMPLERS

from . import slow

N, D = 400, 3
STEPSIZE = {
    "sgld": 1e-3,
    "baoab": 1e-4,
    "sghmc": 1e-4,
    "sgnht": 1e-5,
    "sgrld": 1e-3,
    "sggmc": 0.01,
    "gsgnht": 0.01,
    "gmc": 0.002,
    "scir": 0.5,
    "mixed": 1e-3,
}
BLOCKS = {
    "weights": sgmcmc.SCIR(alpha=0.5),
    "bias": sgmcmc.SGHMC(alpha=0.1, L=2),
}


def model(name):
    """A model with a nest of parameters of several ranks, and data of several types."""
    if "alpha" in sampler_arguments(name) and "log_prior" not in sampler_arguments(name):
        return {**categories(), "alpha": 0.5, "positive": ["bias"]}
    if name == "mixed":
        return {**categories(), "blocks": BLOCKS, "log_prior": lambda p: -(p["bias"] ** 2) / 2}
    if name == "sample":
        return {**regression(), "dynamics": sgmcmc.SGLD()}
    if "manifold" in sampler_arguments(name):
        return directions()
    return regression()


def directions():
    """The regression, with all of its coefficients on manifolds."""
    on = {"matrix": sgmcmc.Stiefel(), "table": sgmcmc.Sphere()}
    start = {"matrix": np.eye(D, 2), "table": np.full(4, 0.5)}
    params = {"weights": start, "bias": 0.1}
    return {**regression(), "params": params, "manifold": {"weights": on}}


def categories():
    """A model of categories, whose bias may be restricted to positive numbers or not."""
    rng = np.random.default_rng(0)
    dataset = {
        "X": rng.normal(size=(N, D)),
        "row": rng.integers(0, D, N),
        "y": rng.integers(0, 2, N),
        "group": rng.integers(0, 3, N),  # of 4
        "used": rng.random(N) < 0.9,
    }
    table = np.array([0.4, 0.2, 0.4, 0])
    params = {"weights": {"matrix": np.full((D, 2), 0.5), "table": table}, "bias": 1.0}

    def log_lik(params, data):
        index = tf.stack([data["row"], data["y"]], axis=1)
        each = tf.math.log(tf.gather_nd(params["weights"]["matrix"], index))
        each += tf.math.log(tf.gather(params["weights"]["table"], data["group"]))
        each += tf.math.log(params["bias"] + 1 / 2) * tf.abs(data["X"][:, 0])
        return tf.reduce_sum(tf.where(data["used"], each, 0))

    return {
        "log_lik": log_lik,
        "dataset": dataset,
        "params": params,
        "minibatch_size": 20,
        "verbose": False,
    }


def regression():
    """A regression with a nest of parameters of several ranks, and data of several types."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    dataset = {
        "X": X,
        "y": X @ rng.normal(size=(D, 2)) + rng.normal(size=(N, 2)),
        "group": rng.integers(0, 4, N),
        "used": rng.random(N) < 0.9,
    }
    params = {"weights": {"matrix": np.zeros((D, 2)), "table": np.zeros(4)}, "bias": 0.1}

    def log_lik(params, data):
        fit = data["X"] @ params["weights"]["matrix"] + params["bias"]
        fit += tf.gather(params["weights"]["table"], data["group"])[:, None]
        error = tf.reduce_sum((data["y"] - fit) ** 2, axis=1)
        return -tf.reduce_sum(tf.where(data["used"], error, 0)) / 2

    def log_prior(params):
        return -tf.add_n([tf.reduce_sum(x**2) for x in tf.nest.flatten(params)]) / 20

    return {
        "log_lik": log_lik,
        "log_prior": log_prior,
        "dataset": dataset,
        "params": params,
        "minibatch_size": 20,
        "verbose": False,
    }


# Only the long run tests these. A new sampler is in the short run, as test_conftest.py checks.
LONG = {"sgnht", "sghmccv", "sgnhtcv", "psgld", "sgbarker", "scir", "scircv", "sgrld", "mixed"}
LONG |= {"sample", "sggmc", "gsgnht", "gmc"}


@pytest.fixture(params=[slow(name) if name in LONG else name for name in SAMPLERS])
def name(request):
    return request.param


def arguments(name, **more):
    known = {"n_iters_opt": 200} if "n_iters_opt" in sampler_arguments(name) else {}
    stepsize = next((h for prefix, h in STEPSIZE.items() if name.startswith(prefix)), 1e-3)
    given = {**model(name), "stepsize": stepsize, "seed": 1, **known, **more}
    if name == "gmc":
        del given["minibatch_size"]
    return given


def sampler_arguments(name):
    return SAMPLERS[name].__signature__.parameters


def sample(name, **more):
    return SAMPLERS[name](**arguments(name, **more))


def sampled(name, **more):
    """Sample without XLA, which is slow to compile, for tests that look only at the form."""
    return sample(name, jit=False, **more)


def setup(name, **more):
    return getattr(sgmcmc, f"{name}_setup")(**arguments(name, **more))


@functools.cache
def compiled(name, n_chains):
    """Return a sampler, its first state and its starting values."""
    sampler = setup(name, n_chains=n_chains)
    return sampler, sampler.state, sgmcmc.get_params(sampler)


def started(name, n_chains=None):
    """Return a sampler set back to its start; it is compiled once for all tests."""
    sampler, sampler.state, params = compiled(name, n_chains)
    tree.map(lambda variable, value: variable.assign(value), sampler.params, params)
    return sampler


def same(a, b):
    return all(
        np.array_equal(x, y)
        for x, y in zip(tree.leaves(dict(a)), tree.leaves(dict(b)), strict=True)
    )


def joined(*draws, axis=0):
    return tree.map(lambda *x: np.concatenate(x, axis), *(dict(d) for d in draws))


@functools.cache
def whole(name, n_chains=None):
    """Return 1,300 draws, which need more than one block and one chunk of random numbers."""
    return sgmcmc.run(started(name, n_chains), 1300, verbose=False)


def first(draws, count, axis=0):
    return tree.map(lambda x: x[(slice(None),) * axis + (slice(count),)], dict(draws))


@pytest.mark.parametrize("n_chains", [None, slow(3)])
def test_steps_runs_and_blocks_give_one_chain(name, n_chains, monkeypatch):
    axis = 0 if n_chains is None else 1
    sampler = started(name, n_chains)
    runs = [sgmcmc.run(sampler, n, verbose=False) for n in (337, 613)]
    steps = []
    for _ in range(350):
        sgmcmc.step(sampler)
        steps.append(sgmcmc.get_params(sampler))
    assert same(whole(name, n_chains), joined(*runs, tree.map(stack(axis), *steps), axis=axis))

    monkeypatch.setattr(feeder, "BLOCK_MAX", 37)
    assert same(whole(name, n_chains), sample(name, n_iters=1300, n_chains=n_chains))


def stack(axis):
    return lambda *x: np.stack(x, axis)


def test_with_and_without_xla_to_rounding(name):
    """With rejection sampling, rounding may decide a rejection: chains part, then meet again."""
    least = 0.95 if started(name).engine.wanted.noise.key is True else 1
    other = sampled(name, n_iters=300)
    for x, y in zip(tree.leaves(first(whole(name), 300)), tree.leaves(dict(other))):
        assert np.isclose(x, y, rtol=1e-4, atol=2e-4).mean() >= least


@pytest.mark.slow
@pytest.mark.parametrize("n_chains", [None, 3])
def test_rows_apart_from_their_block_to_rounding(name, n_chains, monkeypatch):
    """Minibatches are copied out of their block, as all but small ones are."""
    monkeypatch.setattr("sgmcmc.engine.APART_BYTES", 0)
    apart = sample(name, n_iters=300, n_chains=n_chains)
    axis = 0 if n_chains is None else 1
    for x, y in zip(tree.leaves(first(whole(name, n_chains), 300, axis)), tree.leaves(dict(apart))):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=2e-4)


def test_what_is_kept_does_not_change_the_chain(name):
    part = sgmcmc.run(
        started(name),
        1200,
        burn_in=100,
        thin=7,
        keep=["bias"],
        track={"double": lambda params: 2 * params["bias"]},
        verbose=False,
    )
    assert list(part) == ["bias", "double"]
    np.testing.assert_array_equal(part["bias"], whole(name)["bias"][106::7])
    np.testing.assert_array_equal(part["double"], 2 * part["bias"])
    np.testing.assert_array_equal(
        part.stats["log_posterior"], whole(name).stats["log_posterior"][106::7]
    )


def test_a_seed_fixes_all_and_another_changes_all(name):
    unseeded = sampled(name, n_iters=50, seed=None)
    assert same(unseeded, sampled(name, n_iters=50, seed=unseeded.settings["seed"]))
    other = sampled(name, n_iters=50, seed=2)
    for x, y in zip(tree.leaves(dict(unseeded)), tree.leaves(dict(other))):
        assert (x != y).mean() > 0.9  # some probabilities are too small for the data type


def test_draws_have_the_form_of_the_parameters(name):
    draws = sampled(name, n_iters=20)
    assert draws["weights"]["matrix"].shape == (20, D, 2)
    assert draws["weights"]["table"].shape == (20, 4)
    assert draws["bias"].shape == (20,)
    assert draws.stats["log_posterior"].shape == (20,)
    chains = sampled(name, n_iters=20, n_chains=2)
    assert chains["weights"]["matrix"].shape == (2, 20, D, 2)
    assert chains["bias"].shape == (2, 20)
    for trace in tree.leaves(chains.stats):
        assert trace.shape == (2, 20)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_types(name, dtype):
    draws = whole(name) if dtype == "float32" else sample(name, n_iters=20, dtype=dtype)
    assert all(x.dtype == dtype for x in tree.leaves([dict(draws), draws.stats]))


def test_chains_are_different_and_each_is_what_it_is_alone(name):
    three, alone = whole(name, 3)["bias"][:, :100], whole(name)["bias"][:100]
    assert (three[0] != three[1]).mean() > 0.98  # the first draw of gmc is the start
    # Rounding depends on the number of chains; large positive numbers come from their logarithms
    np.testing.assert_allclose(three[0], alone, rtol=2e-6, atol=1e-4)
    np.testing.assert_array_equal(sample(name, n_iters=100, n_chains=1)["bias"][0], alone)


def test_chains_start_where_told(name):
    starts = tree.map(lambda x: np.stack([x] * 4), model(name)["params"])
    starts["bias"] = np.arange(4.0)
    sampler = setup(name, n_chains=4, starts=starts, jit=False)
    bias = sgmcmc.get_params(sampler)["bias"]
    np.testing.assert_allclose(bias, np.arange(4.0), rtol=1e-6)  # geodesic samplers round it
    sgmcmc.run(sampler, 5, verbose=False)


def test_the_compiled_step_is_pure(name):
    sampler = started(name)
    before = sampler.state
    data, block = sampler.feeder.data(0), sampler.feeder.block(0, 1)
    inputs = sampler.engine.model.affine, data, *before[:2], block, tf.constant([0, 3])
    first, second = (tree.map(lambda x: x.numpy(), sampler.program(*inputs)) for _ in range(2))
    assert all(np.array_equal(x, y) for x, y in zip(tree.leaves(first), tree.leaves(second)))
    assert sampler.state is before


def test_nothing_is_traced_twice(name):
    calls, plain = [], model(name)["log_lik"]

    def log_lik(params, data):
        calls.append(1)
        return plain(params, data)

    sampler = setup(name, log_lik=log_lik)
    sgmcmc.step(sampler)
    traced = len(calls)
    sgmcmc.step(sampler, 17)
    sgmcmc.run(sampler, 2000, burn_in=3, thin=2, keep=[], verbose=False)
    assert len(calls) == traced


@pytest.mark.slow
def test_hundred_calls_leak_no_memory(name):
    def resident():
        gc.collect()
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    sampler = started(name)
    track = {"double": lambda params: 2 * params["bias"]}

    def call():
        sgmcmc.run(sampler, 50, track=track, verbose=False)
        sgmcmc.step(sampler)

    sgmcmc.run(sampler, 5000, keep=[], verbose=False)  # until all buffers have been written to
    for _ in range(20):
        call()
    before = resident()
    for _ in range(100):
        call()
    assert resident() - before < 5e6


def test_draws_can_be_pickled(name):
    draws = sampled(name, n_iters=20, stepsize=sgmcmc.decay(1e-5, 100, 0.5))
    copy = pickle.loads(pickle.dumps(draws))
    assert same(draws, copy)
    assert same(draws.stats, copy.stats)
    assert copy.settings == draws.settings


def test_inputs_are_left_as_they_were(name):
    given = arguments(name)
    before = tree.map(np.copy, [given["dataset"], given["params"]])
    SAMPLERS[name](**given, n_iters=10, jit=False)
    after = [given["dataset"], given["params"]]
    assert all(np.array_equal(x, y) for x, y in zip(tree.leaves(before), tree.leaves(after)))


def test_functions_of_the_variables_follow_each_step(name):
    sampler = started(name)
    bias = sampler.params["bias"]
    double = tf.function(lambda: 2 * bias)
    start = float(double())
    sgmcmc.step(sampler, 2)
    assert float(double()) == 2 * sgmcmc.get_params(sampler)["bias"] != start
