"""The cost of a step on a sphere, beside that of SGHMC in the same number of dimensions."""

from __future__ import annotations

import time

import numpy as np
import tensorflow as tf

import sgmcmc

from .race import say, spread

SIZES = ((54, 500), (100, 100), (10, 10))  # dimensions, rows of a minibatch
ROWS, L = 100_000, 5
SAMPLERS = ("sghmc", "sggmc", "gsgnht", "sggmc, V estimated as a number")


def samplers(d: int, n: int, rows: int) -> dict[str, sgmcmc.Sampler]:
    """One log likelihood, linear in a direction; minibatches are taken in turn by all."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((rows, d), np.float32) + np.eye(1, d, dtype=np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)

    def log_lik(params: dict, data: dict) -> tf.Tensor:
        return 2 * tf.reduce_sum(tf.linalg.matvec(data["x"], params["mu"]))

    model = log_lik, {"x": x}, {"mu": np.eye(d)[0]}
    given = {"minibatch_size": n, "minibatches": "reshuffled", "L": L, "seed": 1, "verbose": False}
    sphere = {"stepsize": 1e-5, "manifold": sgmcmc.Sphere(), **given}
    return {
        "sghmc": sgmcmc.sghmc_setup(*model, stepsize=1e-10, **given),
        "sggmc": sgmcmc.sggmc_setup(*model, **sphere),
        "gsgnht": sgmcmc.gsgnht_setup(*model, **sphere),
        SAMPLERS[3]: sgmcmc.sggmc_setup(*model, gradient_noise="scalar", **sphere),
    }


def run(quick: bool) -> dict:
    """Seconds a step, in turn, in one process."""
    seconds, rounds = (0.02, 1) if quick else (0.5, 9)
    found = {}
    for d, n in SIZES[:1] if quick else SIZES:
        say(f"manifold: {d} dimensions, minibatches of {n}")
        made = samplers(d, n, 1000 if quick else ROWS)
        calls, times = {}, {name: [] for name in made}
        for name, sampler in made.items():
            sgmcmc.step(sampler, 200)
            start = time.perf_counter()
            sgmcmc.step(sampler, 200)
            calls[name] = max(1, int(200 * seconds / (time.perf_counter() - start)))
        for _ in range(rounds):
            for name, sampler in made.items():
                start = time.perf_counter()
                sgmcmc.step(sampler, calls[name])
                times[name].append((time.perf_counter() - start) / calls[name] / L)
        for name, each in times.items():
            found[f"{d} dimensions, minibatches of {n} | {name}"] = spread(each)
            made[name].feeder.close()
    return {"manifold": found}
