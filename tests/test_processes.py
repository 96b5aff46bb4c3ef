"""A sampler in threads and processes: it runs where it can, and explains where it cannot."""

import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

from . import slow

ARGUMENTS = {
    "log_lik": lambda params, data: -tf.reduce_sum((data["x"] - params["mu"]) ** 2) / 2,
    "dataset": {"x": np.random.default_rng(0).normal(size=(200, 2))},
    "params": {"mu": np.zeros(2)},
    "stepsize": 1e-3,
    "verbose": False,
    "seed": 1,
}


@pytest.fixture
def sampler():
    return sgmcmc.sgld_setup(**ARGUMENTS)


# Threads


def test_a_sampler_runs_in_one_thread_at_a_time():
    """The second thread calls while the first is in the middle of a block."""
    inside, done = threading.Event(), threading.Event()

    def stepsize(k):
        if k == 100:
            inside.set()
            done.wait(60)
        return 1e-3

    sampler = sgmcmc.sgld_setup(**{**ARGUMENTS, "stepsize": stepsize})
    found = []
    thread = threading.Thread(target=lambda: found.append(sgmcmc.run(sampler, 1000)["mu"]))
    thread.start()
    assert inside.wait(60)
    try:
        with pytest.raises(RuntimeError, match="this sampler is running already, in another thre"):
            sgmcmc.run(sampler, 10)
        with pytest.raises(RuntimeError, match="running already"):
            sgmcmc.step(sampler)
        assert sgmcmc.get_params(sampler)["mu"].shape == (2,)
    finally:
        done.set()
        thread.join(60)
    after = sgmcmc.run(sampler, 10)["mu"]
    whole = sgmcmc.sgld(**ARGUMENTS, n_iters=1010)["mu"]
    np.testing.assert_array_equal(np.concatenate([*found, after]), whole)


def test_a_function_that_runs_its_own_sampler_does_not_wait_for_ever():
    def stepsize(k):
        if k == 5:
            sgmcmc.step(sampler)
        return 1e-3

    sampler = sgmcmc.sgld_setup(**{**ARGUMENTS, "stepsize": stepsize})
    with pytest.raises(ValueError, match="in a function that its run calls"):
        sgmcmc.step(sampler, 10)


def test_ctrl_c_lets_the_sampler_go_on(sampler):
    program, tries = sampler.program, []

    def interrupted(*arguments):
        if not tries:
            tries.append(1)
            signal.raise_signal(signal.SIGINT)
        return program(*arguments)

    sampler.program = interrupted
    with pytest.raises(KeyboardInterrupt):
        sgmcmc.step(sampler, 10)
    np.testing.assert_array_equal(
        sgmcmc.run(sampler, 10)["mu"], sgmcmc.sgld(**ARGUMENTS, n_iters=10)["mu"]
    )


# Copies


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_sampler_is_not_copied(copied, sampler):
    with pytest.raises(TypeError, match="a Sampler cannot be copied or pickled"):
        copied(sampler)
    draws = sgmcmc.run(sampler, 10)
    again = pickle.loads(pickle.dumps(draws))
    np.testing.assert_array_equal(again["mu"], draws["mu"])
    assert (again.settings, list(again.stats)) == (draws.settings, list(draws.stats))


# Processes

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")


def answer(function, connection):
    try:
        connection.send(function())
    except BaseException as error:
        connection.send(error)


def in_a_fork(function):
    """What a function returns, or the error that it raises, in a forked process."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=answer, args=(function, there), daemon=True)
    process.start()
    try:
        assert here.poll(30), "it hangs"
        return here.recv()
    finally:
        process.kill()
        process.join()


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_says_that_a_sampler_cannot_run_in_it(sampler):
    sgmcmc.step(sampler)
    for function in (
        lambda: sgmcmc.run(sampler, 10_000),
        lambda: sgmcmc.step(sampler, 10_000),
        lambda: sgmcmc.sgld_setup(**ARGUMENTS),
        lambda: sgmcmc.sgld(**ARGUMENTS, jit=False),
    ):
        error = in_a_fork(function)
        assert isinstance(error, RuntimeError), error
        assert "forked from one in which TensorFlow was in use" in str(error)
        assert "'spawn' or 'forkserver'" in str(error)
    here = in_a_fork(lambda: sgmcmc.get_params(sampler))
    np.testing.assert_array_equal(here["mu"], sgmcmc.get_params(sampler)["mu"])
    sgmcmc.step(sampler)  # nothing is wrong here


EARLY = """
import multiprocessing, sys, numpy as np, sgmcmc, tensorflow as tf

def work(seed):
    log_lik = lambda params, data: -tf.reduce_sum((data["x"] - params["m"]) ** 2) / 2
    return sgmcmc.sgldcv(
        log_lik, {"x": np.arange(100.0)}, {"m": 0.0}, 1e-3, seed=seed, n_iters=100, verbose=False
    )

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    if sys.argv[1] == "spawn":
        work(1)
    with context.Pool(1) as pool:
        print(pool.apply(work, (1,)))
"""


@needs_fork
@pytest.mark.parametrize("method", [slow("fork"), slow("spawn")])
def test_processes_that_may_run_samplers_do(method, tmp_path):
    """Forked before TensorFlow was used, or spawned after that."""
    (tmp_path / "early.py").write_text(EARLY)
    done = subprocess.run(
        [sys.executable, tmp_path / "early.py", method], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "Draws(m (100,); sgldcv, seed 1)\n", done.stderr
