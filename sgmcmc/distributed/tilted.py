"""Control variates on a shard, whose curvature is corrected to that of all shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import tree
from ..curvature import NOT_DIFFERENTIABLE, Curvature, flat, unflat
from ..estimators import Estimate
from ..estimators.control_variate import Centre, ControlVariate
from ..model import Batch, Model
from ..sampler import Sampler
from ..source import Source

MOST = 300  # parameters, whose matrix travels with each visit


class Tilt(NamedTuple):
    """The centre of control variates, and the matrix T of a shard."""

    centre: Centre
    matrix: Any


@dataclass(frozen=True)
class Tilted(ControlVariate):
    """Control variates with what a shard's curvature lacks, to second order.

    On shard s with N_s of N rows, control variates have the drift g(θ̂) − (N/N_s) H_s (θ − θ̂) about
    the mode, with the curvature H_s of that shard. Where shards differ, so do their curvatures, and
    a chain that stays on each for long has draws that are too wide. So T_s (θ − θ̂) is added, with

        T_s = (N/N_s) H_s − H,   H = Σ H_s.

    The mean of T over visits is 0, so that the estimate stays unbiased. It is the conducive
    gradient of El Mekkaoui, Mesquita, Blomstedt and Kaski (2021), Federated stochastic gradient
    Langevin dynamics, UAI, for Gaussian surrogates at the mode, here on top of control variates.
    Alone it takes out the difference of shards, too, but not the noise of minibatches.
    """

    def estimate(self, model: Model, x: Any, state: Any, batch: Batch) -> tuple[Estimate, Any]:
        found, _ = super().estimate(model, x, state.centre, batch)
        away = tree.flat(tree.map(lambda a, c: a - c, x, state.centre.x))
        push = tf.matmul(away, state.matrix)
        value = found.value + tf.reduce_sum(push * away, axis=1) / 2
        gradient = tree.map(tf.add, found.gradient, tree.split(push, x))
        return found._replace(value=value, gradient=gradient), state


def curvature_of(model: Model, source: Source, theta: np.ndarray, like: Any) -> np.ndarray | None:
    """Return minus the second derivatives of the log likelihood of a shard; None if it has none."""
    curvature = Curvature(model, source, like)
    try:
        return source.N * curvature.mean_hessian(unflat(theta, like, curvature.dtype), source)
    except NOT_DIFFERENTIABLE:
        return None


def tilts(source: Source, model: Model, sampler: Sampler, sizes: np.ndarray) -> list[Any]:
    """Return T of each shard, in the coordinates of the chains; None where it is not known."""
    affine, mode = sampler.engine.model.chart.affine, sampler.state.estimator.x
    p, dtype = tree.size(mode), np.dtype(sampler.engine.dtype)
    if p > MOST:
        return [None] * len(sizes)
    free = tree.map(np.asarray, mode if affine is None else affine.forward(mode))
    parts = [found for _, found in source.each(model, curvature_of, flat(free), free)]
    if any(part is None for part in parts):
        return [None] * len(sizes)
    back = np.eye(p) if affine is None else np.asarray(affine.matrix, float)
    back = np.diag(back) if back.ndim == 1 else back
    tilted = [N * part - sum(parts) for N, part in zip(sizes.sum() / sizes, parts)]
    return [(back.T @ T @ back).astype(dtype) for T in tilted]
