"""SGMCMCJax, on the JAX of its time and, with its lost import replaced, on today's."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

import jax
import jax.experimental
import numpy as np

if not hasattr(jax.experimental, "host_callback"):
    try:
        from jax.experimental import host_callback  # noqa: F401
    except ImportError:  # of its progress bar alone, which is left out
        stub = types.ModuleType("jax.experimental.host_callback")
        sys.modules[stub.__name__] = jax.experimental.host_callback = stub

from sgmcmcjax import kernels, samplers

from ..problems import ALPHA, L
from . import Task, flat
from .jax_models import MODELS, PRIORS

PACKAGES = ("sgmcmcjax", "jax", "numpy")
RESAMPLED = True


def build(task: Task) -> Callable[[int], np.ndarray]:
    """Its compiled sampler; where the chain is not to be stored, its kernel in a loop."""
    mode = {k: jax.numpy.array(v) for k, v in task.options.get("mode", task.start).items()}
    state = {"params": mode, "key": jax.random.PRNGKey(0)}
    h = task.stepsize / 2 if task.kind == "sgld" else task.stepsize
    friction: list[float] = [] if task.kind in ("sgld", "psgld") else [ALPHA]
    if task.kind == "psgld":  # its preconditioner is of the sum of the gradient, not of the mean
        h *= task.rows
    cv = "CV" if task.cv else ""
    arguments = [MODELS[task.problem], PRIORS[task.problem], tuple(task.data.values())]
    arguments = [h, *([L] if task.kind == "sghmc" else []), *arguments, task.minibatch]
    arguments += [*([mode] if cv else []), *friction]

    if task.stored:
        sampler = getattr(samplers, f"build_{task.kind}{cv}_sampler")(*arguments, pbar=False)

        def call(steps: int) -> np.ndarray:
            state["key"], key = jax.random.split(state["key"])
            chain = {k: np.asarray(v) for k, v in sampler(key, steps, state["params"]).items()}
            state["params"] = {k: v[-1] for k, v in chain.items()}
            return flat(chain)

        return call

    init, kernel, get_params = getattr(kernels, f"build_{task.kind}{cv}_kernel")(*arguments)

    @jax.jit
    def block(key: jax.Array, chain: tuple, keys: jax.Array) -> tuple:
        def body(i: int, chain: tuple) -> tuple:
            return kernel(i, keys[i], chain)

        return jax.lax.fori_loop(0, len(keys), body, chain)

    state["chain"] = init(state["key"], mode)

    def call_unstored(steps: int) -> np.ndarray:
        state["key"], key = jax.random.split(state["key"])
        state["chain"] = block(key, state["chain"], jax.random.split(key, steps))
        return np.asarray(get_params(state["chain"])["w1"])

    return call_unstored
