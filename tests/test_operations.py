"""Operations that cannot be compiled, or do other in compiled code, are told; choices work."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

X = np.random.default_rng(0).normal(size=(200, 2))


def squares(params, data):
    return -tf.reduce_sum((data["x"] - params["mu"]) ** 2) / 2


def choosing(params, data):
    above = params["mu"][0] > 0
    return tf.cond(above, lambda: squares(params, data), lambda: 2 * squares(params, data))


def without_choice(params, data):
    return tf.where(params["mu"][0] > 0, 1.0, 2.0) * squares(params, data)


def noisy(params, data):
    return squares(params, {"x": data["x"] + tf.random.normal(tf.shape(data["x"]))})


def noisy_inside(params, data):
    more = tf.while_loop(lambda i, _: i < 2, lambda i, s: (i + 1, tf.random.uniform([])), (0, 0.0))
    return squares(params, data) + more[1]


def noisy_by_generator(params, data):
    return squares(params, data) + GENERATOR.normal([])


def repeatable(params, data):
    return squares(params, {"x": data["x"] + tf.random.stateless_normal([2], [1, 2])})


def asserting(params, data):
    tf.debugging.assert_less(tf.abs(params["mu"]), 1e6)
    return squares(params, data)


def checking(params, data):
    return tf.debugging.check_numerics(squares(params, data), "log_lik")


def by_python(params, data):
    return tf.py_function(
        lambda mu, x: -tf.reduce_sum((x - mu) ** 2), [params["mu"], data["x"]], tf.float32
    )


GENERATOR = tf.random.Generator.from_seed(1)
PRIOR = {"log_lik": squares, "log_prior": lambda params: tf.random.normal([]) + params["mu"][0]}


def sample(log_lik=squares, name="sgld", **more):
    arguments = {"minibatch_size": 10, "n_iters": 50, "seed": 1, "verbose": False, **more}
    return getattr(sgmcmc, name)(log_lik, {"x": X}, {"mu": np.zeros(2)}, 1e-3, **arguments)


@pytest.mark.parametrize("name", ["sgld", "sgldcv"])
@pytest.mark.parametrize("n_chains", [None, 3])
@pytest.mark.parametrize("jit", [True, False])
def test_choices_are_those_of_where(name, n_chains, jit):
    more = {"n_chains": n_chains, "jit": jit, "track": {"sign": sign}}
    if name == "sgldcv":
        more["mode"] = {"mu": np.full(2, 0.05)}
    chosen, other = (sample(f, name, **more) for f in (choosing, without_choice))
    np.testing.assert_allclose(chosen["mu"], other["mu"], atol=1e-5)
    np.testing.assert_array_equal(chosen["sign"], np.sign(chosen["mu"][..., 0]))
    assert len(np.unique(chosen["sign"])) == 2


def sign(params):
    return tf.cond(params["mu"][0] > 0, lambda: 1.0, lambda: -1.0)


@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize("log_lik", [noisy, noisy_inside, noisy_by_generator])
def test_numbers_that_no_seed_fixes_are_told(log_lik, jit):
    with pytest.warns(UserWarning, match="log_lik draws random numbers by tf.random"):
        sample(log_lik, jit=jit)


def test_a_noisy_prior_is_told():
    with pytest.warns(UserWarning, match="log_prior draws random numbers"):
        sample(**PRIOR)


@pytest.mark.parametrize("log_lik", [asserting, checking])
def test_assertions_that_are_left_out_are_told(log_lik):
    with pytest.warns(UserWarning, match="log_lik has assertions of tf.debugging"):
        sample(log_lik)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample(log_lik, jit=False)


@pytest.mark.parametrize("log_lik", [squares, choosing, repeatable])
def test_nothing_is_told_of_others(log_lik):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample(log_lik)


@pytest.mark.parametrize("n_chains", [None, 2])
def test_python_at_each_step_is_refused(n_chains):
    with pytest.raises(ValueError, match=r"^log_lik calls tf.py_function, which"):
        sample(by_python, n_chains=n_chains)
