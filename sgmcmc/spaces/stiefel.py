"""The Stiefel manifold: matrices with orthonormal columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from .manifolds import Manifold


@dataclass(frozen=True)
class Stiefel(Manifold):
    """Matrices X along the last two axes, n × k with n ≥ k, whose columns are orthonormal.

    XᵀX = I. Leading axes are independent matrices. With k = n they are rotations, or rotations with
    a reflection: the chain stays with those of its start.

    The path from X with velocity V, with A = XᵀV and S = VᵀV, is
    [X(t), V(t)] = [X, V] exp(t [[A, −S], [I, A]]) diag(exp(−tA), exp(−tA)).

    Edelman, Arias and Smith (1998), The geometry of algorithms with orthogonality constraints,
    SIAM Journal on Matrix Analysis and Applications; Byrne and Girolami (2013), Geodesic Monte
    Carlo on embedded manifolds, Scandinavian Journal of Statistics.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):  # a plane near which rows lie
    ...     rest = data["x"] - data["x"] @ params["plane"] @ tf.transpose(params["plane"])
    ...     return -tf.reduce_sum(rest**2) / (2 * 0.1**2)
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=(1000, 3)) * [1, 1, 0.1]
    >>> draws = sgmcmc.sggmc(
    ...     log_lik, {"x": x}, {"plane": np.eye(3, 2)}, 1e-3, manifold=sgmcmc.Stiefel(),
    ...     n_iters=500, seed=1, verbose=False,
    ... )
    >>> plane = draws["plane"]
    >>> bool(np.abs(plane.transpose(0, 2, 1) @ plane - np.eye(2)).max() < 1e-5)
    True
    """

    matrices = True

    def flow(self, x: Any, v: Any, t: Any) -> tuple[Any, Any]:
        A = tf.matmul(x, v, transpose_a=True)
        A = (A - tf.linalg.matrix_transpose(A)) / 2
        S = tf.matmul(v, v, transpose_a=True)
        k = x.shape[-1]
        eye = tf.broadcast_to(tf.eye(k, dtype=x.dtype), A.shape)
        both = tf.concat([tf.concat([A, -S], axis=-1), tf.concat([eye, A], axis=-1)], axis=-2)
        back = tf.linalg.expm(-t * A)
        moved = tf.matmul(tf.concat([x, v], axis=-1), tf.linalg.expm(t * both))
        x, v = tf.matmul(moved[..., :k], back), tf.matmul(moved[..., k:], back)
        x = self.orthonormal(x)
        return x, self.tangent(x, v)

    def orthonormal(self, x: Any) -> Any:
        """Take out rounding errors: a step towards the nearest matrix, X(XᵀX)^(−1/2)."""
        return 1.5 * x - 0.5 * tf.matmul(x, tf.matmul(x, x, transpose_a=True))

    def tangent(self, x: Any, v: Any) -> Any:
        inner = tf.matmul(x, v, transpose_a=True)
        return v - tf.matmul(x, (inner + tf.linalg.matrix_transpose(inner)) / 2)

    def dimension(self, shape: tuple[int, ...]) -> int:
        n, k = shape[-2:]
        return int(np.prod(shape[:-2])) * (n * k - k * (k + 1) // 2)

    def retract(self, x: Any) -> Any:
        """Return Q of the decomposition x = QR, where R has a positive diagonal."""
        q, r = tf.linalg.qr(x)
        signs = tf.sign(tf.linalg.diag_part(r))
        return q * signs[..., None, :]

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        if value.ndim < 2 or value.shape[-2] < value.shape[-1]:
            raise ValueError(
                f"{name} must have at least as many rows as columns, so that its columns can be "
                f"orthonormal, but its shape is {value.shape}"
            )
        if self.dimension(value.shape) == 0:
            raise ValueError(f"{name} cannot move: matrices of 1 × 1 are only 1 and −1")
        if (np.linalg.matrix_rank(value) < value.shape[-1]).any():
            raise ValueError(
                f"{name} must have linearly independent columns to be near a point of {self!r}"
            )
        return super().check(name, value)
