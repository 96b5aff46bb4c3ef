"""Equal models compile once, and models that differ in anything at all do not share programs."""

import functools
import gc
import re
import types
import weakref

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import sgmcmc
from sgmcmc import programs
from sgmcmc.fingerprint import MAX_BYTES, Fingerprint, UnknownValue

X = np.random.default_rng(0).normal(size=(100, 2)).astype("float32")
settings = types.ModuleType("settings")
settings.deeper = types.ModuleType("deeper")
SCALE = 1.0
WEIGHTS = np.ones(2, "float32")
OPTIONS = {"scale": [1.0]}


def sample(log_lik, name="sgld", **more):
    arguments = {"minibatch_size": 10, "n_iters": 20, "seed": 1, "verbose": False, **more}
    return getattr(sgmcmc, name)(log_lik, {"x": X}, {"mu": np.zeros(2)}, 1e-3, **arguments)


@pytest.fixture
def traced(monkeypatch):
    """A list that grows with each program that is compiled."""
    count, trace = [], programs.trace

    def counted(*args):
        count.append(args[0])
        return trace(*args)

    monkeypatch.setattr(programs, "trace", counted)
    return count


def squares(params, data, scale=1.0):
    return -tf.reduce_sum((data["x"] - params["mu"]) ** 2) * scale / 2


def made_of(scale):
    """Make functions that refer to `scale`, one for each way in which a function can do so."""

    class Model:
        shared = scale

        def __init__(self):
            self.own = scale

        def by_attribute(self, params, data):
            return squares(params, data, self.own)

        def by_class(self, params, data):
            return self.helper(params, data)

        def helper(self, params, data):
            return squares(params, data, self.shared)

        __call__ = by_attribute

    def by_default(params, data, scale=scale):
        return squares(params, data, scale)

    def by_inner(params, data):
        def inner():
            return scale

        return squares(params, data, inner())

    def calls_another(params, data):
        return by_inner(params, data)

    array, nested, variable = np.full(3, scale), {"a": [scale]}, tf.constant(scale)
    law = tfp.distributions.Normal(0.0, scale**-0.5)
    return {
        "closure": lambda params, data: squares(params, data, scale),
        "default": by_default,
        "inner function": by_inner,
        "another function": calls_another,
        "array": lambda params, data: squares(params, data, array[0]),
        "nest": lambda params, data: squares(params, data, nested["a"][0]),
        "tensor": lambda params, data: squares(params, data, variable),
        "attribute": Model().by_attribute,
        "class attribute": Model().by_class,
        "object to call": Model(),
        "partial": functools.partial(squares, scale=scale),
        "tf.function": tf.function(lambda params, data: squares(params, data, scale)),
        "distribution": lambda params, data: tf.reduce_sum(law.log_prob(data["x"] - params["mu"])),
    }


@pytest.mark.parametrize("kind", made_of(1.0))
def test_another_value_is_another_program(kind, traced):
    first = sample(made_of(1.0)[kind], jit=False)["mu"]
    other = sample(made_of(2.0)[kind], jit=False)["mu"]
    assert len(traced) == 2
    assert not np.array_equal(first, other)
    again = sample(made_of(1.0)[kind], jit=False)["mu"]
    np.testing.assert_array_equal(again, first)
    if kind not in ("tensor", "distribution", "attribute", "class attribute", "object to call"):
        assert len(traced) == 2, "an equal function was compiled again"


def by_global(params, data):
    return squares(params, data, SCALE)


def by_global_array(params, data):
    return squares(params, data, WEIGHTS[0])


def by_global_nest(params, data):
    return squares(params, data, OPTIONS["scale"][0])


def by_module(params, data):
    return squares(params, data, settings.scale)


def by_module_of_module(params, data):
    return squares(params, data, settings.deeper.scale)


CHANGES = {
    by_global: lambda value: globals().update(SCALE=value),
    by_global_array: lambda value: WEIGHTS.fill(value),
    by_global_nest: lambda value: OPTIONS["scale"].__setitem__(0, value),
    by_module: lambda value: setattr(settings, "scale", value),
    by_module_of_module: lambda value: setattr(settings.deeper, "scale", value),
}


@pytest.mark.parametrize("log_lik", CHANGES, ids=lambda f: f.__name__)
def test_a_value_that_was_changed_is_seen(log_lik, traced):
    draws = {}
    for value in (1.0, 2.0, 1.0, 2.0):
        CHANGES[log_lik](value)
        draws.setdefault(value, []).append(sample(log_lik, jit=False)["mu"])
    CHANGES[log_lik](1.0)
    assert len(traced) == 2
    for first, second in draws.values():
        np.testing.assert_array_equal(first, second)
    assert not np.array_equal(draws[1.0][0], draws[2.0][0])


def test_an_old_function_whose_variable_changed_is_not_traced_for_a_new_shape():
    """Programs are shared, but not functions: the value in the first function has changed."""
    scale = 1.0

    def first(params, data):
        return squares(params, data, scale)

    sample(first, jit=False)
    scale = 2.0

    def made(scale):
        return lambda params, data: squares(params, data, scale)

    large = sample(made(1.0), jit=False, minibatch_size=20)["mu"]
    programs.known.clear()
    np.testing.assert_array_equal(large, sample(made(1.0), jit=False, minibatch_size=20)["mu"])


@pytest.mark.parametrize("name", ["sgld", "sgldcv", "sghmc", "sgnhtcv"])
def test_equal_calls_compile_once_and_draw_the_same(name, traced):
    first = sample(squares, name)
    count = len(traced)
    for _ in range(3):
        again = sample(squares, name)
        np.testing.assert_array_equal(again["mu"], first["mu"])
    fresh = sample(lambda params, data: squares(params, data), name, n_iters=40)
    np.testing.assert_array_equal(fresh["mu"][:20], first["mu"])
    assert len(traced) <= count + 1


@pytest.mark.parametrize(
    "other",
    [
        {"n_chains": 2},
        {"minibatch_size": 11},
        {"jit": False},
        {"dtype": "float64"},
        {"log_prior": lambda params: -tf.reduce_sum(params["mu"] ** 2)},
    ],
    ids=lambda x: next(iter(x)),
)
def test_other_arguments_are_other_programs(other, traced):
    sample(squares)
    sample(squares, **other)
    assert len(traced) == 2


def test_the_constants_of_a_sampler_are_part_of_the_program():
    draws = [sample(squares, "sghmc", alpha=alpha, jit=False)["mu"] for alpha in (0.1, 0.2, 0.1)]
    np.testing.assert_array_equal(draws[0], draws[2])
    assert not np.array_equal(draws[0], draws[1])


def test_test_functions_compile_once(traced):
    def norm(power):
        return lambda params: tf.reduce_sum(params["mu"] ** power)

    values = [sample(squares, track={"norm": norm(p)})["norm"] for p in (2, 4, 2)]
    assert len(traced) == 3  # the chain, and two functions
    np.testing.assert_array_equal(values[0], values[2])
    assert not np.array_equal(values[0], values[1])


@pytest.mark.parametrize("name", ["sgld", "sgldcv"])
def test_a_sampler_and_its_data_are_let_go(name):
    data = np.random.default_rng(0).normal(size=(1000, 2)).astype("float32")
    sampler = getattr(sgmcmc, f"{name}_setup")(
        squares, {"x": data}, {"mu": np.zeros(2)}, 1e-3, verbose=False
    )
    sgmcmc.step(sampler)
    alive = weakref.ref(sampler), weakref.ref(sampler.feeder), weakref.ref(data)
    assert sampler.feeder.source.arrays["x"] is data
    del sampler, data
    gc.collect()
    assert [ref() for ref in alive] == [None] * 3


def test_values_that_cannot_be_compared_are_not_shared():
    values = [np.random.default_rng(), np.zeros(MAX_BYTES + 1, "u1"), tf.zeros(MAX_BYTES // 4 + 1)]
    values += [object(), {1}, ValueError("a"), type("Slots", (), {"__slots__": ["a"]})()]
    for value in [*values, [settings], type("Holder", (), {})]:
        if isinstance(value, type):
            value = value()
            value.module = settings
        with pytest.raises(UnknownValue):
            Fingerprint().of(lambda value=value: value)


@pytest.mark.slow
def test_200_calls_of_one_model_take_little_memory():
    def own_memory():
        gc.collect()
        with open("/proc/self/status") as f:
            return int(re.search(r"RssAnon:\s+(\d+)", f.read())[1]) * 1024

    for _ in range(3):
        sample(squares, "sgldcv")
    before = own_memory()
    for seed in range(200):
        sample(squares, "sgldcv", seed=seed)
    assert own_memory() - before < 50e6
