"""One run of a sampler on Gaussian data: `python -m benchmarks.gaussian METHOD N SEED`.

The thesis's Figure 4.2.1: x ~ N(θ, 1), and θ ~ N(0, 10) beforehand. The time is from the data
to the draws, set-up and compilation included; KL is that of a Gaussian with their moments to the
posterior.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
import tensorflow_probability as tfp

import sgmcmc


def log_lik(params: dict, data: dict) -> tf.Tensor:
    """Of the rows."""
    return -tf.reduce_sum((data["x"] - params["theta"]) ** 2) / 2


def log_prior(params: dict) -> tf.Tensor:
    """N(0, 10)."""
    return -(params["theta"] ** 2) / 20


def nuts(x: np.ndarray, seed: int, draws: int) -> np.ndarray:
    """TFP's NUTS with step size adaptation, compiled by XLA: 1,000 draws after 500."""
    data = {"x": tf.constant(x)}
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
        tfp.mcmc.NoUTurnSampler(
            lambda theta: log_lik({"theta": theta}, data) + log_prior({"theta": theta}),
            step_size=np.float32(len(x) ** -0.5),
        ),
        num_adaptation_steps=draws // 2,
    )

    @tf.function(jit_compile=True)
    def sample() -> tf.Tensor:
        return tfp.mcmc.sample_chain(
            draws,
            tf.constant(x.mean()),
            kernel=kernel,
            num_burnin_steps=draws // 2,
            trace_fn=None,
            seed=(seed, 0),
        )

    return sample().numpy()


def main(method: str, rows: int, seed: int, n_iters: int = 10_000) -> dict:
    """Draw, and compare."""
    x = np.random.default_rng(seed).standard_normal(rows, np.float32)
    began = time.perf_counter()
    if method == "nuts":
        draws = nuts(x, seed, n_iters // 10)
    else:
        draws = getattr(sgmcmc, method)(
            log_lik,
            {"x": x},
            {"theta": x.mean()},
            0.1 / rows,
            log_prior=log_prior,
            minibatch_size=min(rows // 10, 1000) if rows < 500_000 else 5000,
            n_iters=n_iters,
            seed=seed,
            verbose=False,
        )["theta"]
    seconds = time.perf_counter() - began
    variance = 1 / (rows + 0.1)
    mean = variance * x.sum(dtype=float)
    ratio = draws.astype(float).var() / variance
    shift = (draws.astype(float).mean() - mean) ** 2 / variance
    return {"seconds": seconds, "kl": float((ratio + shift - 1 - np.log(ratio)) / 2)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], *map(int, sys.argv[2:]))))
