"""The friction of velocities, and the noise that is added to them, on a manifold.

A share c = Cε of the momentum is a tensor that broadcasts over the parameter, or, if friction is a
matrix, one (..., d, d) that acts along its last axis. So is a covariance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ..spaces.manifolds import Manifold

TERMS = 12  # of the series of exp(−A), which is used for matrices with a norm of at most 1


def share_of(friction: Any, h: Any) -> tf.Tensor:
    """The share of the momentum, for a friction that is a number or a matrix."""
    h = tf.convert_to_tensor(h)
    if not isinstance(friction, np.ndarray):
        return friction * h
    return tf.constant(friction, h.dtype) * h[..., None]


def damped(manifold: Manifold, x: Any, v: Any, share: Any, is_matrix: bool) -> tf.Tensor:
    """Return exp(−Λ(x) c) v: the velocity after friction."""
    if not is_matrix:
        return tf.exp(-share) * v
    norm = tf.reduce_max(tf.reduce_sum(tf.abs(share), axis=-1))
    parts = tf.maximum(tf.math.ceil(norm), 1)

    def part(i: Any, v: Any) -> tuple[Any, Any]:
        total = term = v
        for k in range(1, TERMS):
            term = manifold.tangent(x, tf.linalg.matvec(share / parts, term)) / -k
            total += term
        return i + 1, total

    return tf.while_loop(lambda i, _: i < parts, part, (tf.zeros_like(parts), v))[1]


def heated(z: Any, friction: Any, share: Any, variance: Any, h: Any, is_matrix: bool) -> tf.Tensor:
    """Return N(0, 2c − ε²V), with 0 in place of what would be negative."""
    of_matrix = isinstance(friction, np.ndarray)
    if variance is None and of_matrix:
        root = np.linalg.cholesky(friction.astype(float))
        return tf.sqrt(2 * h) * tf.linalg.matvec(tf.constant(root, z.dtype), z)
    if variance is None:
        return tf.sqrt(2 * share) * z
    if not is_matrix and not of_matrix:
        return tf.sqrt(tf.maximum(2 * share - h**2 * variance, 0)) * z
    h = tf.convert_to_tensor(h)
    eye = tf.eye(z.shape[-1], dtype=z.dtype)
    wanted = 2 * share if of_matrix else 2 * share[..., None] * eye
    less = h[..., None] ** 2 * (variance if is_matrix else tf.linalg.diag(variance + 0 * z))
    values, vectors = tf.linalg.eigh(wanted - less)
    inner = tf.linalg.matvec(vectors, z, transpose_a=True)
    return tf.linalg.matvec(vectors, tf.sqrt(tf.maximum(values, 0)) * inner)


def covariance(manifold: Manifold, x: Any, rows: Any, N: int, kind: str) -> tf.Tensor:
    """Estimate the covariance of the noise of a minibatch's gradient, tangent at x.

    `rows` are estimates ĝᵢ from single rows (chains, n, ...), of which the minibatch's is the mean.
    They stand for N rows each, so that V = N(N − n)/n · Cov ∇fᵢ = (N − n)/(Nn) · Cov ĝᵢ.
    """
    n = rows.shape[1]
    apart = rows - tf.reduce_mean(rows, axis=1, keepdims=True)
    apart = manifold.tangent(tf.broadcast_to(x[:, None], rows.shape), apart)
    scale = (N - n) / (N * n * (n - 1))
    if kind == "full":
        apart = tf.experimental.numpy.moveaxis(apart, 1, -2)
        return scale * tf.matmul(apart, apart, transpose_a=True)
    variance = scale * tf.reduce_sum(apart**2, axis=1)
    if kind == "diagonal":
        return variance
    inner = list(range(1, variance.shape.rank))
    total = tf.reduce_sum(variance, axis=inner, keepdims=True)
    return total / manifold.dimension(tuple(x.shape[1:]))


def projected(manifold: Manifold, x: Any, variance: np.ndarray) -> tf.Tensor:
    """Project a covariance along the last axis onto the tangent space at x: Λ(x) V Λ(x)."""
    each = tf.broadcast_to(x[..., None, :], (*x.shape, x.shape[-1]))
    once = manifold.tangent(each, tf.broadcast_to(tf.constant(variance), each.shape))
    return manifold.tangent(each, tf.linalg.matrix_transpose(once))
