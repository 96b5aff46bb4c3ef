"""The log posterior near its mode, where parameters are too many for a matrix of curvature.

Coordinates are then scaled one by one, and all directions have one step size. How large it may be
depends on the directions in which curvature and noise are largest, and what comes of it on that in
which curvature is least. The method of Lanczos finds these by products of matrices with vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..curvature import SADDLE, WEAKEST, in_pieces
from ..estimators import Mode
from ..model import Model
from ..source import Source
from .near import CURVED_UP, NO_MODE, Near

CURVED, NOISY = 40, 8  # products with vectors for the extremes of curvature, and of noise


class Krylov(NamedTuple):
    """An orthonormal basis from products of a matrix with vectors, and the matrix in that basis."""

    basis: np.ndarray
    matrix: np.ndarray


class Many(Near):
    """What `Near` knows, for many parameters: `back` and `forth` are diagonal matrices here."""

    directions, most = 2, 0

    def __init__(self, model: Model, source: Source, mode: Mode, seed: int) -> None:
        super().__init__(model, source, mode, seed)
        self.values, vectors = self.curvatures(self.sd)
        self.axes = self.sd[:, None] * vectors

    def displaced(self, z: np.ndarray) -> np.ndarray:
        """A point relative to the mode, about as likely as white coordinates z would be.

        This is sd · M^(−1/2) z, for the curvature M in coordinates scaled by sd, within the space
        of some products of M with z.
        """
        found = lanczos(self.curved(self.sd), z, CURVED)
        values, vectors = np.linalg.eigh(found.matrix)
        root = np.sqrt(np.maximum(values, WEAKEST))
        weights = vectors @ (vectors[0] / root) * np.linalg.norm(z)
        return self.sd * (found.basis @ weights)

    def curved(self, L: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The product of the curvature with vectors, in coordinates that are scaled by L."""
        here, parts, kinks = self.point(self.theta), self.rows.parts, self.kinks
        return lambda v: L * self.curvature.product(here, L * v, kinks, parts)

    def curvatures(self, L: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Curvatures in coordinates that are scaled by L, from least to largest, and directions."""
        found = lanczos(self.curved(L), self.rng.standard_normal(len(L)), CURVED)
        values, vectors = np.linalg.eigh(found.matrix)
        if not values[0] > SADDLE:
            raise ValueError(NO_MODE.format(CURVED_UP))
        return np.maximum(values, WEAKEST), found.basis @ vectors

    def noisy(self, L: np.ndarray, away: Any) -> Callable[[np.ndarray], np.ndarray]:
        """The product of the covariance of rows' gradients with vectors, in the same coordinates.

        With a point `away`, gradients are those there, relative to those at the mode.
        """
        here, curvature, N = self.point(self.theta), self.curvature, self.rows.N

        def multiply(v: np.ndarray) -> np.ndarray:
            total, mean, along = np.zeros_like(v), np.zeros_like(v), 0.0
            for rows, weight in in_pieces(self.rows.parts, 1):
                each = curvature.slopes(here, L * v, rows)
                ones = np.ones_like(each)
                if away is not None:
                    each = curvature.slopes(away, L * v, rows) - each
                for point, sign in ((here, 1.0),) if away is None else ((away, 1.0), (here, -1.0)):
                    total += sign * weight * curvature.combined(point, each, rows)
                    mean += sign * weight * curvature.combined(point, ones, rows)
                along += weight * each.sum()
            return L * (total - mean * along / N) / max(N - 1, 1)

        return multiply

    def extremes(self, L: np.ndarray, is_relative: bool) -> tuple[np.ndarray, ...]:
        """Four directions w of coordinates x = mode + Lw: curvature, variance of noise, and w.

        Their curvatures are the least, a middle one and the largest. The fourth is where noise is
        largest.
        """
        is_known = np.array_equal(L, self.sd)
        precision, vectors = (
            (self.values, self.axes / L[:, None]) if is_known else self.curvatures(L)
        )
        ritz, away = vectors.T, None
        if is_relative:
            away = self.point(self.theta + self.displaced(self.rng.standard_normal(len(L))))
        noisy = self.noisy(L, away)
        few = [0, len(ritz) // 2, -1]
        noise = np.array([ritz[i] @ noisy(ritz[i]) for i in few])
        top = lanczos(noisy, ritz[few].sum(axis=0), NOISY)
        values, vectors = np.linalg.eigh(top.matrix)
        worst = top.basis @ vectors[:, -1]
        return (
            np.append(precision[few], worst @ self.curved(L)(worst)),
            np.append(noise, values[-1]),
            np.column_stack([ritz[few].T, worst]),
        )


def lanczos(multiply: Callable[[np.ndarray], np.ndarray], start: np.ndarray, most: int) -> Krylov:
    """The space of start, M start, M² start, ..., with M in it, of at most so many dimensions."""
    basis = [start / np.linalg.norm(start)]
    products: list[np.ndarray] = []
    while True:
        products.append(multiply(basis[-1]))
        rest = products[-1]
        for _ in range(2):  # once more, against rounding
            rest = rest - np.array(basis).T @ (np.array(basis) @ rest)
        length = np.linalg.norm(rest)
        if len(basis) == min(most, len(start)) or length <= 1e-6 * np.linalg.norm(products[-1]):
            break
        basis.append(rest / length)
    Q = np.array(basis).T
    matrix = Q.T @ np.array(products).T
    return Krylov(Q, (matrix + matrix.T) / 2)
