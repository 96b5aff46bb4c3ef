"""Noise of dynamics that is smaller by an estimate of the noise of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from .. import tree
from ..estimators import Estimate
from ..spaces.flat import Euclidean
from . import Dynamics
from .heat import covariance, heated

FLAT = Euclidean()
TERMS = 8  # products with the covariance for the root of what it leaves
ROUNDING = 1e-5  # of a vector, where only rounding errors are left of it
NOISE_ESTIMATE = (
    "Add less noise by an estimate of the gradient's. None: add all. `'fisher'`: the variance of "
    "each coordinate of the gradient is estimated in each step from the gradients of single rows "
    "in the minibatch. `'fisher_matrix'`: so is the covariance of all coordinates of a parameter, "
    "laid end to end. Or a dict of these by parameter."
)


class Corrected(Dynamics):
    """Base class of dynamics that can add less noise by an estimate of the gradient's."""

    noise_estimate: Any

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]  # read-only, as all fields are
        return any(kind is not None for kind in tree.leaves(self.noise_estimate))

    @property
    def white_noise(self) -> bool:  # type: ignore[override]  # the estimate is for such noise
        return self.needs_rows

    def rows(self, estimate: Estimate) -> Any:
        """Return the gradients of single rows, or None for each parameter."""
        if self.needs_rows:
            return estimate.extra
        return tree.map(lambda _: None, estimate.gradient)


def lessened(z: tf.Tensor, share: Any, h: Any, rows: tf.Tensor, N: int, kind: str) -> tf.Tensor:
    """Return N(0, 2c − h²V), with 0 in place of what would be negative, for a share c.

    V is the covariance of the noise of gradients as `rows` tell it (chains, n, ...): its diagonal,
    or all of it, for the coordinates of the parameter laid end to end.
    """
    if kind == "fisher":
        return heated(z, None, share, covariance(FLAT, z, rows, N, "diagonal"), h, False)
    flat, n = tree.flat(z), rows.shape[1]
    apart = tf.reshape(rows - tf.reduce_mean(rows, axis=1, keepdims=True), (*rows.shape[:2], -1))
    share, h = (tf.reshape(a, (-1, 1)) if a.shape.rank else a for a in (share, h))
    scale = (N - n) / (N * n * (n - 1)) * h**2 / (2 * share)

    def product(v: tf.Tensor) -> tf.Tensor:
        along = tf.linalg.matvec(apart, v)
        return scale * tf.linalg.matvec(apart, along, transpose_a=True)

    return tf.reshape(tf.sqrt(2 * share) * root(product, flat), z.shape)


def root(product: Callable, z: tf.Tensor) -> tf.Tensor:
    """Return √max(I − M, 0) z, by the method of Lanczos, for z (chains, p) and products with M.

    M is symmetric and not negative. The root of its projection on the space of z, Mz, M²z, ...
    takes the place of its own. This needs no matrix of p × p numbers. It is exact for p ≤ TERMS. It
    has five digits where M < .9, but may be wrong by a quarter where most of M is above 1.
    """
    length = tf.norm(z, axis=1, keepdims=True)
    basis, within, beside = [tf.math.divide_no_nan(z, length)], [], []
    for k in range(min(TERMS, z.shape[1])):
        next_one = product(basis[k])
        within.append(tf.reduce_sum(next_one * basis[k], axis=1))
        if k + 1 == min(TERMS, z.shape[1]):
            break
        so_far = tf.stack(basis, axis=1)
        size = tf.norm(next_one, axis=1, keepdims=True)
        for _ in range(2):  # the second time for what rounding has left
            shares = tf.linalg.matvec(so_far, next_one)
            next_one -= tf.linalg.matvec(so_far, shares, transpose_a=True)
        rest = tf.norm(next_one, axis=1, keepdims=True)
        rest = tf.where(rest > ROUNDING * size, rest, 0)  # at 0, the space has all that matters
        basis.append(tf.math.divide_no_nan(next_one, rest))
        beside.append(rest[:, 0])
    projected = tf.linalg.diag(tf.stack(within, axis=1))
    if beside:
        off = tf.stack(beside, axis=1)
        projected += tf.linalg.diag(off, k=1) + tf.linalg.diag(off, k=-1)
    values, vectors = tf.linalg.eigh(projected)
    roots = tf.sqrt(tf.maximum(1 - values, 0)) * vectors[:, 0]
    weights = tf.linalg.matvec(vectors, roots)
    return length * tf.linalg.matvec(tf.stack(basis, axis=1), weights, transpose_a=True)
