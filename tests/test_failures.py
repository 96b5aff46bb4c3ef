"""A failure in the middle of a run says what happened, and loses nothing already drawn."""

import contextlib
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

X = np.random.default_rng(0).normal(size=(200, 2))
ARGUMENTS = {
    "log_lik": lambda params, data: -tf.reduce_sum((data["x"] - params["mu"]) ** 2) / 2,
    "dataset": {"x": X},
    "params": {"mu": np.zeros(2), "free": 0.0},
    "log_prior": lambda params: -(params["free"] ** 2) / 2,
    "stepsize": 1e-3,
    "verbose": False,
    "seed": 1,
}


def explodes_at(iteration):
    return lambda k: 1e-3 if k < iteration else 1e30


@pytest.mark.parametrize(("burn_in", "thin", "kept"), [(0, 1, 1234), (100, 1, 1134), (34, 7, 171)])
def test_divergence_keeps_the_draws_before(burn_in, thin, kept):
    arguments = {**ARGUMENTS, "n_iters": 5000, "burn_in": burn_in, "thin": thin}
    stepsize = {"mu": 1e-3, "free": explodes_at(1233)}
    with pytest.raises(sgmcmc.ChainDiverged) as caught:
        sgmcmc.sgld(**{**arguments, "stepsize": stepsize})
    error = caught.value
    assert isinstance(error, FloatingPointError)
    assert error.iteration == 1234
    assert "'free' became NaN or infinite at iteration 1234 with stepsize 1e+30" in str(error)
    whole = sgmcmc.sgld(**{**arguments, "n_iters": 1234 - burn_in})
    assert len(error.draws["mu"]) == kept == len(whole["mu"])
    np.testing.assert_array_equal(error.draws["mu"], whole["mu"])
    assert np.isfinite(error.draws["free"]).all()
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_divergence_of_the_log_posterior_alone(value):
    def log_lik(params, data):
        beyond = tf.stop_gradient(params["free"]) > 1
        return ARGUMENTS["log_lik"](params, data) + tf.where(beyond, value, 0.0)

    with pytest.raises(sgmcmc.ChainDiverged, match="the log posterior became NaN or infinite"):
        sgmcmc.sgld(**{**ARGUMENTS, "log_lik": log_lik, "stepsize": {"mu": 1e-3, "free": 1.0}})


def test_one_chain_of_many_diverges():
    starts = {"mu": np.zeros((3, 2)), "free": np.array([0, 1e30, 0])}
    with pytest.raises(sgmcmc.ChainDiverged, match="is NaN or infinite after the first") as caught:
        sgmcmc.sgld(**{**ARGUMENTS, "stepsize": 30.0, "n_chains": 3, "starts": starts})
    assert caught.value.draws["mu"].shape[0] == 3


@contextlib.contextmanager
def interrupted_in(seconds):
    """Ctrl-C after so many seconds, and then every two seconds until it is heard.

    Python ignores it if it comes during a function that a weak reference calls.
    """
    over = threading.Event()

    def send():
        pause = seconds
        while not over.wait(pause):
            os.kill(os.getpid(), signal.SIGINT)
            pause = 2.0

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield time.perf_counter() + seconds
    finally:
        over.set()
        thread.join()


def test_ctrl_c_returns_at_once_and_keeps_the_draws():
    sampler = sgmcmc.sgld_setup(**ARGUMENTS)
    sgmcmc.step(sampler)
    with interrupted_in(0.5) as at, pytest.raises(KeyboardInterrupt) as caught:
        sgmcmc.run(sampler, 500_000_000, keep=["free"], thin=100_000, verbose=False)
    assert time.perf_counter() - at < 3
    assert set(caught.value.draws) == {"free"}


def test_a_run_goes_on_after_ctrl_c_as_if_nothing_had_been():
    sampler = sgmcmc.sgld_setup(**ARGUMENTS)
    sgmcmc.step(sampler)  # compiles, however long that takes
    with interrupted_in(0.5), pytest.raises(KeyboardInterrupt) as caught:
        sgmcmc.run(sampler, 3_000_000, verbose=False)
    before = caught.value.draws["free"]
    assert len(before) == sampler.state.iteration - 1
    after = sgmcmc.run(sampler, 100, verbose=False)["free"]
    whole = sgmcmc.sgld(**{**ARGUMENTS, "n_iters": len(before) + 101})
    np.testing.assert_array_equal(np.concatenate([before, after]), whole["free"][1:])


SETTINGS = {
    "sgld": {"out": "draws", "track": {"norm": lambda params: tf.norm(params["mu"])}},
    "sghmccv": {"n_chains": 3, "track": {"list": lambda params: [params["free"], 1.0]}},
    "sgnht": {"dtype": "float64", "keep": ["free"], "params": {"mu": np.zeros(2), "free": 0.0}},
    "scir": {
        "params": {"omega": np.full(3, 1 / 3)},
        "stepsize": 0.1,
        "alpha": 0.1,
        "dataset": {"z": np.arange(300) % 3},
        "log_lik": lambda params, data: tf.reduce_sum(
            tf.math.log(tf.gather(params["omega"], data["z"]))
        ),
        "keep_log": True,
        "n_chains": 2,
    },
}


@pytest.mark.parametrize("name", SETTINGS)
def test_ctrl_c_before_the_first_draw_gives_draws_of_length_0(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {**ARGUMENTS, **SETTINGS[name]}
    if name == "scir":
        del settings["log_prior"]
    log_lik, compiling = settings["log_lik"], []

    def interrupted(params, data):
        if compiling:
            signal.raise_signal(signal.SIGINT)
        return log_lik(params, data)

    of_run = {k: settings.pop(k) for k in ("track", "keep", "out") if k in settings}
    make = getattr(sgmcmc, f"{name}_setup")
    sampler = make(**{**settings, "log_lik": interrupted})
    compiling.append(True)
    with pytest.raises(KeyboardInterrupt) as caught:
        sgmcmc.run(sampler, 20, thin=2, **of_run)
    compiling.clear()
    nothing = caught.value.draws
    draws = sgmcmc.run(sampler, 20, thin=2, **of_run)
    at = 1 if "n_chains" in settings else 0
    for found, whole in ((dict(nothing), dict(draws)), (nothing.stats, draws.stats)):
        tf.nest.assert_same_structure(found, whole)
        for x, y in zip(tf.nest.flatten(found), tf.nest.flatten(whole)):
            assert x.shape == (*y.shape[:at], 0, *y.shape[at + 1 :])
            assert x.dtype == y.dtype
    assert nothing.settings == draws.settings


def test_a_failure_before_the_first_draw_gives_draws_of_length_0():
    def schedule(k):
        if tries:
            raise RuntimeError("no step size")
        return 1e-3

    tries = []
    sampler = sgmcmc.sgld_setup(**{**ARGUMENTS, "stepsize": schedule})
    tries.append(1)
    with pytest.raises(ValueError, match="no step size") as caught:
        sgmcmc.run(sampler, 10)
    assert {k: x.shape for k, x in caught.value.draws.items()} == {"free": (0,), "mu": (0, 2)}


def test_a_run_is_as_silent_as_its_setup(capsys):
    for verbose in (False, True):
        sampler = sgmcmc.sgld_setup(**{**ARGUMENTS, "verbose": verbose})
        sgmcmc.run(sampler, 10)
        assert ("sgld: 10 of 10" in capsys.readouterr().err) is verbose
        sgmcmc.run(sampler, 10, verbose=not verbose)
        assert ("sgld: 10 of 10" in capsys.readouterr().err) is not verbose
    with pytest.raises(
        TypeError, match="verbose must be True, False or a function of a Report, not 'no'"
    ):
        sgmcmc.run(sampler, 10, verbose="no")
    with pytest.raises(
        TypeError, match="verbose must be True, False or a function of a Report, not None"
    ):
        sgmcmc.sgld(**{**ARGUMENTS, "verbose": None})


def test_slow_steps_can_be_interrupted(monkeypatch):
    def log_lik(params, data):
        slow = tf.eye(700) + tf.stop_gradient(params["free"])
        for _ in range(20):
            slow = tf.cos(tf.linalg.matmul(slow, slow))
        return ARGUMENTS["log_lik"](params, data) + 1e-9 * tf.reduce_sum(slow)

    sampler = sgmcmc.sgld_setup(**{**ARGUMENTS, "log_lik": log_lik})
    sgmcmc.step(sampler)
    with interrupted_in(0.5) as at, pytest.raises(KeyboardInterrupt):
        sgmcmc.run(sampler, 100_000, verbose=False)
    assert time.perf_counter() - at < 3


def test_a_schedule_that_fails_later_keeps_the_draws():
    def schedule(k):
        if k == 3000:
            raise RuntimeError("no step size")
        return 1e-3

    sampler = sgmcmc.sgld_setup(**{**ARGUMENTS, "stepsize": schedule})
    with pytest.raises(ValueError, match=r"stepsize\(3000\) raised RuntimeError") as caught:
        sgmcmc.run(sampler, 5000, verbose=False)
    drawn = caught.value.draws["free"]
    assert len(drawn) == sampler.state.iteration > 1000
    whole = sgmcmc.sgld(**{**ARGUMENTS, "n_iters": len(drawn)})
    np.testing.assert_array_equal(drawn, whole["free"])
    sgmcmc.step(sampler, 3000 - len(drawn))
    with pytest.raises(ValueError, match="no step size"):
        sgmcmc.step(sampler)
