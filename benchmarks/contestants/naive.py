"""What a first port does: one `tf.function` a step, fed from NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from . import Task
from .tensorflow_models import MODELS, PRIORS

PACKAGES = ("tensorflow", "numpy")
RESAMPLED = False


def build(task: Task) -> Callable[[int], np.ndarray]:
    """SGLD on the first problem, rows drawn with replacement."""
    data, rng = task.data, np.random.default_rng(0)
    h, N, n = task.stepsize, task.rows, task.minibatch
    beta = tf.Variable(task.options.get("mode", task.start)["beta"])

    @tf.function
    def step(X: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            rows = {"X": X, "y": y}
            value = N / n * MODELS["P1"]({"beta": beta}, rows) + PRIORS["P1"]({"beta": beta})
        noise = tf.random.normal(beta.shape)
        beta.assign_add(h / 2 * tape.gradient(value, beta) + tf.sqrt(h) * noise)

    def call(steps: int) -> np.ndarray:
        chain = np.empty((steps, task.width), np.float32)
        for k in range(steps):
            index = rng.integers(0, N, n)
            step(data["X"][index], data["y"][index])
            chain[k] = beta.numpy()
        return chain

    return call
