"""Control variates on a shard, whose curvature is corrected to that of all shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import tree
from ..checks.coordinates import DENSE
from ..curvature import Curvature, flat, unflat
from ..estimators import Estimate
from ..estimators.control_variate import Centre, ControlVariate
from ..model import Batch, Model
from ..sampler import Sampler
from ..source import Source
from ..streams import without_replacement

MOST = 300  # parameters whose matrix travels with each visit; of more, only its diagonal


class Tilt(NamedTuple):
    """The centre of control variates, and T of a shard: a matrix in the chain's coordinates.

    Or the diagonal of T in free coordinates.
    """

    centre: Centre
    T: Any


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
        centre = tree.map(lambda c: c[None], state.centre.x)
        if len(state.T.shape) == 2:
            away = tree.flat(tree.map(tf.subtract, x, centre))
            push = tf.matmul(away, state.T)
            gradient = tree.split(push, x)
        else:
            away = tree.flat(tree.map(tf.subtract, model.free(x), model.free(centre)))
            push = away * state.T
            gradient = model.of_free(x, tree.split(push, x))
        value = found.value + tf.reduce_sum(push * away, axis=1) / 2
        gradient = tree.map(tf.add, found.gradient, gradient)
        return found._replace(value=value, gradient=gradient), state


def curvature_of(model: Model, source: Source, theta: np.ndarray, like: Any) -> np.ndarray:
    """Minus the second derivatives of a shard's log likelihood, or of many parameters a diagonal.

    That is by a sample of the rows. Where there are no second derivatives, or for very many
    parameters, the Fisher information takes their place.
    """
    curvature, rows = Curvature(model, source, like, DENSE), source
    if len(theta) > MOST and curvature.enough < source.N:
        some = without_replacement(np.random.default_rng(0), source.N, curvature.enough, 1)[0]
        rows = source.subset(some)
    found = curvature.of_data(unflat(theta, like, curvature.dtype), [(rows, source.N / rows.N)])
    return np.diag(found) if len(theta) > MOST and found.ndim == 2 else found


def tilts(source: Source, model: Model, sampler: Sampler, sizes: np.ndarray) -> list[np.ndarray]:
    """Return T of each shard."""
    affine, mode = sampler.engine.model.chart.affine, sampler.state.estimator.x
    dtype = np.dtype(sampler.engine.dtype)
    free = tree.map(np.asarray, mode if affine is None else affine.forward(mode))
    parts = [found for _, found in source.each(model, curvature_of, flat(free), free)]
    lacking = [N * part - sum(parts) for N, part in zip(sizes.sum() / sizes, parts)]
    if lacking[0].ndim == 1 or affine is None:
        return [T.astype(dtype) for T in lacking]
    back = np.asarray(affine.matrix, float)
    back = np.diag(back) if back.ndim == 1 else back
    return [(back.T @ T @ back).astype(dtype) for T in lacking]
