"""The package itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import sgmcmc

from ..problems import ALPHA, L
from . import Task, flat
from .tensorflow_models import MODELS, PRIORS

PACKAGES = ("sgmcmc", "tensorflow", "numpy")
RESAMPLED = False


def build(task: Task) -> Callable[[int], np.ndarray]:
    """A sampler that is set up; each call goes on with the chain."""
    options = dict(task.options)
    of_kind: dict[str, dict] = {
        "sghmc": {"alpha": ALPHA, "L": L},
        "sgnht": {"a": ALPHA},
        "baoab": {"alpha": ALPHA},
    }
    own: dict[str, Any] = of_kind.get(task.kind, {})
    if task.kind == "sgnht" and task.problem == "P3":  # the peers' rate; P3's check counts on it
        own["thermostat_rate"] = "stepsize"
    mode = options.pop("mode", task.start)
    if task.cv:
        own["mode"] = mode
    setup = getattr(sgmcmc, f"{task.kind}{'cv' if task.cv else ''}_setup")
    sampler = setup(
        MODELS[task.problem],
        task.data,
        mode,
        task.stepsize,
        log_prior=PRIORS[task.problem],
        minibatch_size=task.minibatch,
        n_chains=task.chains or None,
        seed=1,
        verbose=False,
        **own,
        **options,
    )

    def call(steps: int) -> np.ndarray:
        keep = None if task.stored else []
        draws = sgmcmc.run(sampler, steps, keep=keep, verbose=False)
        return flat(draws) if task.stored else sgmcmc.get_params(sampler)["w1"]

    return call
