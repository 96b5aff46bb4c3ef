"""Functions with mean zero under the posterior: polynomials, mapped by the Langevin generator.

They are made of draws and gradients, some draws at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from . import tree

FOLDS = 5  # parts of the draws, each of which gets coefficients from the others
NUMBERS = 2**20  # of the functions and quantities that are computed at a time
TINY = np.finfo(float).tiny
EACH = 4  # draws of a chain in a fold, at least, if chains are cut


class Part(NamedTuple):
    """Draws of one fold: some chains, and the numbers of some draws."""

    fold: int
    chains: slice
    draws: slice


class Folds:
    """Cuts draws into folds: whole chains if there are enough, or parts of each chain.

    Draws of one chain that are near in time depend on one another. So a fold has draws that follow
    one another.
    """

    def __init__(self, chains: int, n: int) -> None:
        self.chains, self.n = chains, n
        self.by_chain = chains >= FOLDS
        self.ends = ends(chains if self.by_chain else n)

    def parts(self, size: int) -> Iterator[tuple[slice, list[Part]]]:
        """Yield successive draws, at most `size` of each chain, with the folds that have them."""
        if not self.by_chain:
            for fold, (low, high) in enumerate(self.ends):
                for draws in steps(low, high, size):
                    yield draws, [Part(fold, slice(None), draws)]
            return
        for draws in steps(0, self.n, size):
            some = enumerate(slice(*each) for each in self.ends)
            yield draws, [Part(fold, chains, draws) for fold, chains in some]


def ends(count: int) -> list[tuple[int, int]]:
    """The bounds of FOLDS equal parts."""
    at = np.linspace(0, count, FOLDS + 1).round().astype(int)
    return [(int(low), int(high)) for low, high in pairwise(at)]


def steps(low: int, high: int, size: int) -> Iterator[slice]:
    """Successive slices of at most `size`."""
    return (slice(start, min(start + size, high)) for start in range(low, high, size))


class Columns:
    """Arrays (chains, draws, ...) laid end to end, read some draws at a time in float64."""

    def __init__(self, nest: Any, chained: bool) -> None:
        self.arrays, self.chained = tree.leaves(nest), chained
        self.names = tree.names(nest)
        lead = 2 if chained else 1
        self.sizes = [int(np.prod(x.shape[lead:])) for x in self.arrays]
        self.width = sum(self.sizes)

    def read(self, draws: slice) -> np.ndarray:
        """Return (chains, draws, numbers)."""
        parts = []
        for x in self.arrays:
            part = np.asarray(x[:, draws] if self.chained else x[draws][None], float)
            parts.append(part.reshape(*part.shape[:2], -1))
        return np.concatenate(parts, axis=2)

    def label(self, column: int) -> str:
        """The name of the array that has this column."""
        return self.names[int(np.searchsorted(np.cumsum(self.sizes), column, side="right"))]


class Scaling(NamedTuple):
    """Coordinates z = (x − centre) / scale in which polynomials are written.

    The scale is a power of two near the standard deviation, and the centre a multiple of it near
    the mean. So they hardly depend on the draws.
    """

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, x: Columns, folds: Folds) -> Scaling:
        """Choose them by one pass over the draws."""
        size = max(1, NUMBERS // (folds.chains * x.width))
        first = x.read(slice(0, 1)).mean(axis=(0, 1))
        total, squares = np.zeros(x.width), np.zeros(x.width)
        for draws in steps(0, folds.n, size):
            away = x.read(draws) - first
            total, squares = total + away.sum(axis=(0, 1)), squares + (away**2).sum(axis=(0, 1))
        count = folds.chains * folds.n
        variance = np.maximum(squares / count - (total / count) ** 2, 0)
        scale = np.where(variance > 0, np.exp2(np.round(np.log2(np.sqrt(variance) + TINY))), 1.0)
        return cls(scale * np.round((first + total / count) / scale), scale)


class Polynomials:
    """The functions h = −½ΔQ + ½∇Q·∇f for all monomials Q up to a degree, with f = −log π.

    They have mean zero under π. Q is a polynomial of the coordinates z of a `Scaling`.
    """

    def __init__(self, x: Columns, gradients: Columns, folds: Folds, degree: int) -> None:
        self.x, self.gradients = x, gradients
        self.scaling = Scaling.of(x, folds)
        self.degree, p = degree, x.width
        self.first, self.second = np.triu_indices(p)
        self.count = count(p, degree)

    def read(self, draws: slice) -> np.ndarray:
        """Return (chains, draws, functions)."""
        centre, scale = self.scaling
        slope = scale * self.gradients.read(draws)  # by z; of log π, so that ∇f = −slope
        if self.degree == 1:
            return -slope / 2
        z, (j, k) = (self.x.read(draws) - centre) / scale, (self.first, self.second)
        pairs = (z[..., j] * slope[..., k] + z[..., k] * slope[..., j]) / -2 - (j == k)
        return np.concatenate([-slope / 2, pairs], axis=2)


def count(p: int, degree: int) -> int:
    """The number of monomials of p variables from degree 1 up to this one."""
    return p if degree == 1 else p + p * (p + 1) // 2
