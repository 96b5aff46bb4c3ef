"""Control variates on a shard, whose curvature is corrected to that of all shards."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import tree
from ..checks.coordinates import DENSE
from ..curvature import NOT_DIFFERENTIABLE, Curvature, flat, unflat
from ..estimators import Estimate
from ..estimators.control_variate import Centre, ControlVariate
from ..model import Batch, Model
from ..sampler import Sampler
from ..source import Source
from ..streams import without_replacement
from ..tuning import TuningWarning

MOST = 300  # parameters whose matrix travels with each visit; of more, only its diagonal
WIDER = 0.05  # of the posterior's variance may be added by what is left, without a warning


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
    """Minus the second derivatives of a shard's log likelihood; of many parameters the diagonal.

    The diagonal is computed from a sample of the rows. Where there are no second derivatives, or
    for very many parameters, the Fisher information takes their place.
    """
    curvature, rows = Curvature(model, source, like, DENSE), source
    if len(theta) > MOST and curvature.enough < source.N:
        some = without_replacement(np.random.default_rng(0), source.N, curvature.enough, 1)[0]
        rows = source.subset(some)
    found = curvature.of_data(unflat(theta, like, curvature.dtype), [(rows, source.N / rows.N)])
    return np.diag(found) if len(theta) > MOST and found.ndim == 2 else found


def along(
    model: Model, source: Source, theta: np.ndarray, like: Any, vector: np.ndarray
) -> np.ndarray | None:
    """Minus the second derivatives of a shard's log likelihood, times a vector; None if none."""
    curvature = Curvature(model, source, like, DENSE)
    point, v = (unflat(a, like, curvature.dtype) for a in (theta, vector))
    try:
        parts = [flat(curvature.run(curvature.along, point, v, some)) for some in source.pieces()]
    except NOT_DIFFERENTIABLE:
        return None
    return -np.sum(parts, axis=0)


def warn_of_the_rest(
    source: Source, model: Model, theta: np.ndarray, like: Any, sizes: np.ndarray, each: list
) -> None:
    """Warn if the curvatures of shards differ by much beside their diagonals.

    In long rounds, a difference by the share δ along a direction adds δ² to the variance of draws.
    The mean of δ² is found along one direction with a part in each coordinate, in coordinates that
    are scaled so that the diagonal of all is 1.
    """
    scale = np.maximum(sum(each), np.finfo(float).tiny) ** -0.5
    v = scale * np.random.default_rng(0).choice([-1.0, 1.0], len(theta))
    products = [found for _, found in source.each(model, along, theta, like, v)]
    if any(product is None for product in products):
        warn("log_lik cannot be differentiated twice to see what is left")
        return
    whole = sum(products) - sum(each) * v
    off = [
        scale * (N * (product - own * v) - whole)
        for N, product, own in zip(sizes.sum() / sizes, products, each)
    ]
    wider = max(float(np.mean(x**2)) for x in off)
    if wider > WIDER:
        warn(f"what is left may make draws wider by {wider:.2g} of the posterior's variance")


def warn(why: str) -> None:
    """Warn that the curvature of shards may not be corrected enough."""
    warnings.warn(
        f"of more than {MOST} parameters, the curvature of shards is corrected by its diagonal "
        f"alone, and {why}. Compare the draws with those of shorter rounds (round_iterations=), or "
        "put rows into shards at random",
        TuningWarning,
        stacklevel=2,
    )


def tilts(source: Source, model: Model, sampler: Sampler, sizes: np.ndarray) -> list[np.ndarray]:
    """Return T of each shard."""
    affine, mode = sampler.engine.model.chart.affine, sampler.state.estimator.x
    dtype = np.dtype(sampler.engine.dtype)
    free = tree.map(np.asarray, mode if affine is None else affine.forward(mode))
    parts = [found for _, found in source.each(model, curvature_of, flat(free), free)]
    if parts[0].ndim == 1:
        warn_of_the_rest(source, model, flat(free), free, sizes, parts)
    lacking = [N * part - sum(parts) for N, part in zip(sizes.sum() / sizes, parts)]
    if lacking[0].ndim == 1 or affine is None:
        return [T.astype(dtype) for T in lacking]
    back = np.asarray(affine.matrix, float)
    back = np.diag(back) if back.ndim == 1 else back
    return [(back.T @ T @ back).astype(dtype) for T in lacking]
