"""Coordinates in which the posterior is round: an affine map in front of the free coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from .. import tree


@dataclass(frozen=True)
class Affine:
    """The map x = c + Lw from coordinates w, in which the chain moves, to free coordinates x.

    It covers the parameters `names`, laid end to end in alphabetical order, and leaves others as
    they are. `matrix` is L, or its diagonal. Draws are recorded at `shrink` times w.
    """

    names: tuple[str, ...]
    centre: Any
    matrix: Any
    shrink: Any = ()

    @property
    def tensors(self) -> tuple:
        """All but the names: what a compiled program takes as arguments."""
        return self.centre, self.matrix, self.shrink

    def of_tensors(self, tensors: tuple) -> Affine:
        """The same map by other tensors."""
        return Affine(self.names, *tensors)

    def covered(self, x: Any) -> Any:
        """The parameters that the map covers."""
        return {k: x[k] for k in self.names}

    def laid(self, x: Any) -> Any:
        """The parameters that the map covers, laid end to end."""
        parts = [tf.reshape(a, [-1]) for a in tree.leaves(self.covered(x))]
        return parts[0] if len(parts) == 1 else tf.concat(parts, axis=0)

    def with_covered(self, x: Any, flat: Any) -> Any:
        """X with other values of the parameters that the map covers."""
        like = self.covered(x)
        leaves = tree.leaves(like)
        sizes = [int(np.prod(a.shape)) for a in leaves]
        parts = [flat] if len(sizes) == 1 else tf.split(flat, sizes)
        return {**x, **tree.pack(like, [tf.reshape(a, b.shape) for a, b in zip(parts, leaves)])}

    def forward(self, w: Any) -> Any:
        """Free coordinates."""
        flat = self.laid(w)
        if len(self.matrix.shape) == 2:
            flat = tf.linalg.matvec(self.matrix, flat)
        else:
            flat = self.matrix * flat
        return self.with_covered(w, self.centre + flat)

    def recorded(self, w: Any) -> Any:
        """The coordinates w that are recorded."""
        return self.with_covered(w, self.shrink * self.laid(w))

    def inverse(self, x: Any) -> Any:
        """Coordinates w of free coordinates, as NumPy arrays."""
        dtype = tree.leaves(x)[0].dtype
        flat = np.asarray(self.laid(x), float) - np.asarray(self.centre, float)
        matrix = np.asarray(self.matrix, float)
        w = np.linalg.solve(matrix, flat) if matrix.ndim == 2 else flat / matrix
        return tree.map(np.asarray, self.with_covered(x, w.astype(dtype)))

    def pulled_back(self, gradient: Any) -> Any:
        """The gradient by w of a function, given that by x."""
        flat, matrix = np.asarray(self.laid(gradient), float), np.asarray(self.matrix, float)
        flat = matrix.T @ flat if matrix.ndim == 2 else matrix * flat
        return tree.map(np.asarray, self.with_covered(gradient, flat))

    def to_free(self) -> Callable[[Any], Any]:
        """A function that maps gradients by w, (draws, chains, ...), to those by x.

        Gradients are nests of NumPy arrays.
        """
        matrix = np.asarray(self.matrix, float)
        inverse = np.linalg.inv(matrix) if matrix.ndim == 2 else 1 / matrix

        def mapped(gradient: Any) -> Any:
            like = self.covered(gradient)
            leaves = tree.leaves(like)
            flat = np.concatenate([a.reshape(*a.shape[:2], -1) for a in leaves], axis=2)
            flat = flat @ inverse if matrix.ndim == 2 else flat * inverse
            ends = np.cumsum([int(np.prod(a.shape[2:])) for a in leaves])[:-1]
            parts = [
                part.reshape(a.shape).astype(a.dtype)
                for part, a in zip(np.split(flat, ends, axis=2), leaves)
            ]
            return {**gradient, **tree.pack(like, parts)}

        return mapped


def around(x: Any, matrix: np.ndarray, shrink: Any = ()) -> Affine:
    """The map by a matrix L, or its diagonal, around some parameters."""
    dtype = tree.leaves(x)[0].dtype
    centre = np.concatenate([np.ravel(leaf) for leaf in tree.leaves(x)])
    if not isinstance(shrink, tuple):
        shrink = tf.constant(shrink, dtype)
    return Affine(tuple(x), tf.constant(centre, dtype), tf.constant(matrix, dtype), shrink)
