"""BlackJAX: its step in a compiled scan, each minibatch gathered there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

from ..problems import ALPHA, L
from . import Task, flat
from .jax_models import MODELS, PRIORS

PACKAGES = ("blackjax", "jax", "numpy")
RESAMPLED = True


def build(task: Task) -> Callable[[int], np.ndarray]:
    """Its Hamiltonian samplers take the root of ε, and friction by unit of time."""
    start = {k: jnp.asarray(v) for k, v in task.options.get("mode", task.start).items()}
    data = tuple(jnp.asarray(x) for x in task.data.values())

    def log_lik(params: Any, row: tuple) -> Any:
        return MODELS[task.problem](params, *row)

    gradient = blackjax.sgmcmc.gradients.grad_estimator(PRIORS[task.problem], log_lik, task.rows)
    if task.cv:
        gradient = blackjax.sgmcmc.gradients.control_variates(gradient, start, data)
    root = task.stepsize**0.5
    h = task.stepsize / 2 if task.kind == "sgld" else root
    sampler = {
        "sgld": lambda: blackjax.sgld(gradient),
        "sghmc": lambda: blackjax.sghmc(gradient, L, ALPHA / root),
        "sgnht": lambda: blackjax.sgnht(gradient, ALPHA / root),
    }[task.kind]()

    def position(chain: Any) -> Any:
        return chain.position if task.kind == "sgnht" else chain

    @jax.jit
    def block(keys: jax.Array, chain: Any, data: tuple) -> tuple:
        def body(chain: Any, key: jax.Array) -> tuple:
            rows_key, key = jax.random.split(key)
            index = jax.random.randint(rows_key, (task.minibatch,), 0, task.rows)
            batch = tuple(x[index] for x in data)
            chain = sampler.step(key, chain, batch, h)
            return chain, (position(chain) if task.stored else None)

        return jax.lax.scan(body, chain, keys)

    state = {"key": jax.random.PRNGKey(0)}
    state["chain"] = sampler.init(start, state["key"])

    def call(steps: int) -> np.ndarray:
        state["key"], key = jax.random.split(state["key"])
        state["chain"], draws = block(jax.random.split(key, steps), state["chain"], data)
        return flat(draws) if task.stored else np.asarray(position(state["chain"])["w1"])

    return call
