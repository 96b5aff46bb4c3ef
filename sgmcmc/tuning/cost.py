"""What an iteration costs, and the size of minibatches with the most effective draws a second."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ..sampler import Sampler
from . import Tuner

LONG_ENOUGH = 0.02  # seconds for which the compiled program is timed
FEW, MANY = 50, 1000  # rows in the minibatches of which iterations are timed
MOST = 20_000  # rows in a minibatch that is considered


def cheapest(tuner: Tuner, made: Callable[[int], Sampler], N: int) -> int:
    """Return the size of minibatches with the most effective draws a second, of N rows.

    That is of the slowest direction. The time of an iteration is measured with samplers that are
    `made` for two sizes, and counts as linear in the number of rows.
    """
    sizes = [min(FEW, N), min(MANY, N)]
    low, high = (timed(made(n)) for n in sizes)
    each = max(high - low, 0.0) / max(sizes[1] - sizes[0], 1)
    candidates = np.unique(np.geomspace(min(10, N), min(N, MOST), 50).astype(int))

    def draws_a_second(n: int) -> float:
        choice, _, _ = tuner.choose(n)
        seconds = max(low + each * (n - sizes[0]), low / 2)
        return float(choice.law.ess.min() / seconds)

    return int(max(candidates, key=draws_a_second))


def timed(sampler: Sampler) -> float:
    """Return the time of an iteration of a sampler that is not needed any more."""
    try:
        return seconds_per_iteration(sampler)
    finally:
        sampler.feeder.close()


def seconds_per_iteration(sampler: Sampler) -> float:
    """Return the time of an iteration, measured on the first block without moving the chain."""
    size = sampler.feeder.size
    began = time.perf_counter()
    sampler.feeder.fill(0)  # the worker thread, which does this at the same time, may be slower
    filling = (time.perf_counter() - began) / size
    data, block = sampler.feeder.data(0), sampler.feeder.block(0, size)
    given = sampler.engine.model.affine, data, *sampler.state[:2], block
    sampler.program(*given, tf.constant([0, 1]))  # compiles it
    count, seconds = 0, 0.0
    while count < size and seconds < LONG_ENOUGH:
        count, began = min(size, max(1, 4 * count)), time.perf_counter()
        sampler.program(*given, tf.constant([0, count]))
        seconds = time.perf_counter() - began
    return max(filling, seconds / count)
