"""The spherical admixture model: proportions of topics in documents, and gradients by topics.

A document is v ~ vMF(v̄, κ) with v̄ = βᵀθ/‖βᵀθ‖, where the rows of β (K, V) are topics. Given β, it
enters only by a = βv, and the topics by G = ββᵀ: vᵀv̄ = θᵀa/√(θᵀGθ). So proportions are drawn in
K dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import tree
from ..estimators import Estimate, Estimator
from ..model import Batch, Evaluation, Model
from ..random import folded, normals, uniforms
from ..spaces.manifolds import Sphere

SPHERE = Sphere()
WANTED = 0.7  # the share of trajectories that is accepted, to which step sizes adapt
ADAPTS, STEADY = 0.2, 0.05  # how fast the logarithm of a step size adapts, and how far θ is from 0
START = 0.3  # of 1/√κ: the first step size


class Inner(NamedTuple):
    """How proportions are drawn: trajectories before and while they are kept, and their steps."""

    n_burn_in: int
    n_samples: int
    steps: int = 5


def fit(theta: tf.Tensor, a: tf.Tensor, G: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return vᵀv̄, and its derivative by θ."""
    G_theta = tf.matmul(theta, G)
    square = tf.reduce_sum(theta * G_theta, axis=-1, keepdims=True)
    inner, per_length = tf.reduce_sum(theta * a, axis=-1, keepdims=True), tf.math.rsqrt(square)
    slope = per_length * (a - inner / square * G_theta)
    return (inner * per_length)[..., 0], slope


def least_squares(a: tf.Tensor, G: tf.Tensor) -> tf.Tensor:
    """The proportions with the best fit that are not negative, nearly: G⁻¹a, kept above 0."""
    ridge = 1e-3 * tf.linalg.trace(G) / G.shape[-1] * tf.eye(G.shape[-1], dtype=G.dtype)
    theta = tf.transpose(tf.linalg.solve(G + ridge, tf.transpose(a)))
    largest = tf.reduce_max(theta, axis=-1, keepdims=True)
    theta = tf.where(largest > 0, theta, tf.ones_like(theta))
    theta = tf.maximum(theta, STEADY * tf.reduce_max(theta, axis=-1, keepdims=True))
    return theta / tf.reduce_sum(theta, axis=-1, keepdims=True)


def draw_proportions(
    a: tf.Tensor, G: tf.Tensor, kappa: float, alpha: float, key: tf.Tensor, inner: Inner
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draw proportions θ of documents from their law given topics, by geodesic Monte Carlo.

    θ = z² with z on a sphere, as for `Simplex`. Step sizes adapt while nothing is kept, each to its
    document. Returns θ as (samples, documents, K), and the share of accepted trajectories.
    """
    count, K = a.shape
    steps = inner.n_burn_in + inner.n_samples

    def log_density(z: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        value, slope = fit(z**2, a, G)
        away = tf.where(z < 0, tf.minimum(z, -1e-6), tf.maximum(z, 1e-6))
        prior = (2 * alpha - 1) * tf.reduce_sum(tf.math.log(tf.abs(away)), axis=-1)
        gradient = 2 * kappa * slope * z + (2 * alpha - 1) / away
        return kappa * (value - 1) + prior, SPHERE.tangent(z, gradient)

    def trajectory(i: tf.Tensor, z: Any, value: Any, gradient: Any, h: Any, kept: Any, taken: Any):  # noqa: ANN202
        now = folded(key, i)
        v = SPHERE.tangent(z, normals(now, (count, K), dtype=a.dtype))
        start = value - tf.reduce_sum(v**2, axis=-1) / 2
        there, slope, there_value = z, gradient, value
        for _ in range(inner.steps):
            v = v + h / 2 * slope
            there, v = SPHERE.flow(there, v, h)
            there_value, slope = log_density(there)
            v = SPHERE.tangent(there, v + h / 2 * slope)
        gain = there_value - tf.reduce_sum(v**2, axis=-1) / 2 - start
        u = uniforms(now, (count,), 1, a.dtype)[0]
        accept = tf.math.log(u) < gain
        chance = tf.exp(tf.minimum(tf.where(tf.math.is_nan(gain), -np.inf, gain), 0))
        z = tf.where(accept[:, None], there, z)
        value = tf.where(accept, there_value, value)
        gradient = tf.where(accept[:, None], slope, gradient)
        is_kept = i >= inner.n_burn_in
        h = tf.where(is_kept, h, h * tf.exp(ADAPTS * (chance - WANTED))[:, None])
        kept = kept.write(tf.maximum(i - inner.n_burn_in, 0), z**2)
        taken += tf.where(is_kept, tf.reduce_mean(chance), 0)
        return i + 1, z, value, gradient, h, kept, taken

    z = tf.sqrt(least_squares(a, G))
    h = tf.fill((count, 1), tf.constant(START * kappa**-0.5, a.dtype))
    kept = tf.TensorArray(a.dtype, inner.n_samples, element_shape=(count, K))
    start = (0, z, *log_density(z), h, kept, tf.zeros((), a.dtype))
    _, *_, kept, taken = tf.while_loop(
        lambda i, *_: i < steps, trajectory, start, parallel_iterations=1
    )
    return kept.stack(), taken / inner.n_samples


def dense(words: tf.Tensor, weights: tf.Tensor, n_words: int) -> tf.Tensor:
    """Return sparse rows as a matrix."""
    count, width = words.shape
    row = tf.broadcast_to(tf.range(count)[:, None], (count, width))
    index = tf.reshape(row * n_words + words, [-1, 1])
    flat = tf.scatter_nd(index, tf.reshape(weights, [-1]), [count * n_words])
    return tf.reshape(flat, (count, n_words))


@dataclass(frozen=True)
class Admixture(Estimator):
    """The gradient of log p(v | β) by topics β, averaged over proportions drawn given β.

    ∇_β log p(v | β) = E[∇_β log p(v, θ | β)] over the law of θ given v and β (Liu, Zhu and Song,
    2016, section 4). The recorded log posterior is the mean of log p(v | θ, β) over these draws,
    with the log prior of β.
    """

    kappa: float
    alpha: float
    inner: Inner

    needs_key = True

    def estimate(self, model: Model, x: Any, state: Any, batch: Batch) -> tuple[Estimate, Any]:
        data = tree.each(self.on_documents, x["beta"], batch.rows, batch.key)
        data = tree.map(lambda a: batch.scale * a, data)
        n = batch.rows["words"].shape[1]
        found = model.with_prior(x, Evaluation(data[0], {"beta": data[1]}))
        return Estimate(*found, round(n * batch.scale)), state

    def on_documents(self, beta: Any, rows: Any, key: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """The mean log likelihood of some documents given drawn proportions, and its gradient."""
        v = dense(rows["words"], rows["weights"], beta.shape[1])
        a, G = tf.matmul(v, beta, transpose_b=True), tf.matmul(beta, beta, transpose_b=True)
        theta, _ = draw_proportions(a, G, self.kappa, self.alpha, key, self.inner)
        G_theta = tf.einsum("nsk,kl->nsl", theta, G)
        square = tf.reduce_sum(theta * G_theta, axis=-1)
        inner, per_length = tf.reduce_sum(theta * a, axis=-1), tf.math.rsqrt(square)
        value = tf.reduce_sum(tf.reduce_mean(inner * per_length - 1, axis=0))
        first = tf.reduce_mean(per_length[..., None] * theta, axis=0)
        weight = (inner * per_length**3)[..., None] / theta.shape[0]
        second = tf.einsum("nsk,nsl->kl", weight * theta, theta)
        gradient = tf.matmul(first, v, transpose_a=True) - tf.matmul(second, beta)
        return self.kappa * value, self.kappa * gradient
