"""The cost of a step with less gradient noise, and how many steps an effective draw then takes."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import sgmcmc

from .contestants.tensorflow_models import MODELS, PRIORS
from .problems import ALPHA, PROBLEMS, L
from .race import say, spread, undisturbed

P1 = PROBLEMS["P1"]
STEPS, ROUNDS = 100_000, 5  # a round has the passes over all rows of SVRG and SAGA in it
SVRG_EVERY = 10_000
FEW = 2_000  # rows of a quick run
LEVERAGE = sgmcmc.ControlVariate(row_probabilities="leverage")
LANGEVIN: dict[str, dict[str, Any]] = {
    "sgld": {},
    "control variates": {"gradient": "control_variates"},
    "SVRG": {"gradient": sgmcmc.SVRG(every=SVRG_EVERY)},
    "SAGA": {"gradient": sgmcmc.SAGA(features="X")},
    "control variates, leverage": {"gradient": LEVERAGE},
}
HAMILTONIAN: dict[str, dict[str, Any]] = {
    "sghmc, reshuffled minibatches": {"minibatches": "reshuffled"},
    "sghmc, independent minibatches": {"minibatches": "independent"},
    "sghmc, noise_estimate": {"noise_estimate": "fisher"},
}
MINIBATCHES: dict[str, dict[str, Any]] = {
    "independent": {"minibatches": "independent"},
    "reshuffled": {},
    "by leverage": {"gradient": LEVERAGE},
}


def run(quick: bool) -> dict:
    """Seconds a step, and the steps for an effective draw."""
    return {"step": seconds(quick), "draws": draws(quick)}


def seconds(quick: bool) -> dict[str, dict]:
    """Seconds a step on P1, in turn, in one process. SGHMC makes L steps an iteration."""
    rows, steps, rounds = (FEW, 200, 1) if quick else (P1.rows, STEPS, ROUNDS)
    model = MODELS["P1"], P1.data(rows), P1.start()
    given = {
        "log_prior": PRIORS["P1"],
        "minibatch_size": P1.minibatch,
        "seed": 1,
        "verbose": False,
    }
    samplers = {}
    for kind, settings in (("sgld", LANGEVIN), ("sghmc", HAMILTONIAN)):
        own = {"alpha": ALPHA, "L": L} if kind == "sghmc" else {}
        setup = getattr(sgmcmc, f"{kind}_setup")
        for name, more in settings.items():
            say(f"variance: {name}")
            stepsize = P1.stepsize(kind, rows)
            samplers[name] = setup(*model, stepsize, **given, **own, **more)
            call(samplers[name], steps // 10)
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    for k in range(rounds):
        say(f"variance: round {k + 1}")
        for name, sampler in samplers.items():
            samples[name].append(undisturbed(lambda s=sampler: call(s, steps), []) / steps)
    for sampler in samplers.values():
        sampler.feeder.close()
    return {name: spread(each) for name, each in samples.items()}


def call(sampler: sgmcmc.Sampler, steps: int) -> float:
    """Return the seconds for so many gradients, the chain stored."""
    start = time.perf_counter()
    sgmcmc.run(sampler, steps // sampler.feeder.L, verbose=False)
    return time.perf_counter() - start


def draws(quick: bool) -> dict[str, dict]:
    """What chosen step sizes of `sgldcv` say of cover types, by prior and kind of minibatches."""
    dataset = P1.data(FEW) if quick else sgmcmc.get_dataset("covertype")
    params = {"beta": np.zeros(dataset["X"].shape[1]), "bias": 0.0}
    found = {}
    for prior, log_prior in (("Laplace(1)", laplace), ("N(0, 10²)", normal)):
        for name, more in MINIBATCHES.items():
            say(f"variance: cover types, {prior}, {name}")
            found[f"{prior} | {name}"] = promised(dataset, params, log_prior, more)
        if quick:
            break
    return found


def promised(dataset: dict, params: dict, log_prior: Callable, more: dict) -> dict[str, float]:
    """Iterations for an effective draw of the slowest direction, and the largest noise."""
    given = {"log_prior": log_prior, "minibatch_size": P1.minibatch, "seed": 1, "verbose": False}
    setup = sgmcmc.sgld_setup if "gradient" in more else sgmcmc.sgldcv_setup
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sgmcmc.TuningWarning)  # of directions that are slow
        sampler = setup(log_lik, dataset, params, **given, **more)
    sampler.feeder.close()
    report = sampler.settings["tuning"]
    return {"iterations": 1 / report["ess"][0], "noise": report["noise"][-1]}


def log_lik(params: dict, data: dict) -> tf.Tensor:
    """Logistic regression with an intercept."""
    logits = tf.linalg.matvec(data["X"], params["beta"]) + params["bias"]
    return -tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(data["y"], logits))


def laplace(params: dict) -> tf.Tensor:
    """Laplace priors with scale 1."""
    return -tf.reduce_sum(tf.abs(params["beta"])) - tf.abs(params["bias"])


def normal(params: dict) -> tf.Tensor:
    """Normal priors with standard deviation 10."""
    return -(tf.reduce_sum(params["beta"] ** 2) + params["bias"] ** 2) / 200
