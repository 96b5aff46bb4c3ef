"""The directions in which a point can move on its manifold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from . import Space
from .manifolds import Around, Manifold


@dataclass(frozen=True, eq=False)
class Tangent(Around):
    """The points near one point x of a manifold, by coordinates w of its tangent directions.

    `basis` has orthonormal directions, along its first axis. w stands for the point of the manifold
    that `retract` finds for x + Bw: for small w, nearly the end of the shortest path from x with
    velocity Bw.

    On a curved manifold there is less room far from x than w has: −m|w|²/2 is added to the log
    density. With m directions for each vector, a uniform density is then about as wide as it is on
    a sphere.
    """

    point: np.ndarray
    basis: np.ndarray

    @classmethod
    def at(cls, manifold: Manifold, point: np.ndarray) -> Tangent:
        """Return the coordinates around a point."""
        return cls(manifold, point, directions(manifold, point))

    def near(self, w: Any) -> Any:
        """The point of the manifold for coordinates w."""
        return self.manifold.retract(self.point + tf.tensordot(w, self.basis, 1))

    def forward(self, x: Any) -> Any:
        return self.manifold.forward(self.near(x))

    def inside(self, x: Any) -> Any:
        return self.manifold.inside(self.near(x))

    def log_density(self, x: Any) -> Any:
        room = self.curvature * tf.reduce_sum(x**2) / 2
        return self.manifold.log_density(self.near(x)) - room

    @property
    def curvature(self) -> float:
        """The number m of directions for each vector; 0 in flat spaces."""
        m, shape = self.manifold, self.point.shape
        if len(self.basis) == self.point.size:
            return 0.0
        return m.dimension(shape[-2:]) / shape[-1] if m.matrices else m.dimension(shape[-1:])


def directions(space: Space, point: np.ndarray) -> np.ndarray:
    """Orthonormal directions in which a point can move, along the first axis."""
    p = point.size
    every = np.eye(p, dtype=point.dtype).reshape(p, *point.shape)
    if not isinstance(space, Manifold):
        return every
    x = tf.broadcast_to(point, every.shape)
    projection = np.asarray(space.tangent(x, tf.constant(every)), float).reshape(p, p)
    _, vectors = np.linalg.eigh((projection + projection.T) / 2)
    tangent = vectors[:, p - space.dimension(point.shape) :].T
    return tangent.reshape(-1, *point.shape).astype(point.dtype)
