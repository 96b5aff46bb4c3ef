"""Ridge regression of quantities on functions of draws: for each fold, by all other draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from .polynomials import FOLDS

PENALTIES = np.array([0, *10.0 ** np.arange(-6, 2), np.inf])  # the last leaves a quantity as it is
TIE = 1e-12  # of the variance, up to which the smaller penalty is taken


class Factors:
    """Second moments of h in each fold, and the eigenvectors of those of all but one or two."""

    def __init__(self, m: int, blocks: Iterable[tuple[int, np.ndarray]]) -> None:
        """Add up the products of m functions h, given as (fold, (chains, draws, m))."""
        self.n, self.sums = np.zeros(FOLDS), np.zeros((FOLDS, m))
        self.products = np.zeros((FOLDS, m, m))
        for fold, h in blocks:
            h = h.reshape(-1, m)
            self.n[fold] += len(h)
            self.sums[fold] += h.sum(axis=0)
            self.products[fold] += h.T @ h
        self.without = {
            out: Factor.of(self.centred(self.products, rest(out)))
            for k in (1, 2)
            for out in combinations(range(FOLDS), k)
        }
        self.within = [self.centred(self.products, [f]) for f in range(FOLDS)]

    def centred(
        self, products: np.ndarray, folds: list[int], sums: np.ndarray | None = None
    ) -> np.ndarray:
        """The covariances of h in some folds, with itself or with what has these sums."""
        n, mine = self.n[folds].sum(), self.sums[folds].sum(axis=0)
        other = mine if sums is None else sums[folds].sum(axis=0)
        return products[folds].sum(axis=0) / n - np.outer(mine / n, other / n)


class Factor(NamedTuple):
    """A covariance in units of its standard deviations: these, its eigenvalues and eigenvectors."""

    sd: np.ndarray
    values: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, covariance: np.ndarray) -> Factor:
        """Factorize it. Directions that do not vary have infinite eigenvalues, and no share."""
        sd = np.sqrt(np.maximum(np.diag(covariance), 0))
        sd = np.where(sd > 0, sd, 1)
        values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
        least = len(values) * np.finfo(float).eps * values[-1]
        return cls(sd, np.where(values > least, values, np.inf), vectors)

    def rotated(self, covariance: np.ndarray) -> np.ndarray:
        """The covariances of eigenvectors with quantities, given those of h."""
        return self.vectors.T @ (covariance / self.sd[:, None])

    def coefficients(self, rotated: np.ndarray, penalty: Any) -> np.ndarray:
        """Ridge regression: a = −(V + penalty)⁻¹ Cov(h, g), (functions, quantities)."""
        return -(self.vectors @ (rotated / (self.values[:, None] + penalty))) / self.sd[:, None]


def rest(out: Sequence[int]) -> list[int]:
    """The folds that are not left out."""
    return [f for f in range(FOLDS) if f not in out]


def fitted(
    factors: Factors, sums: np.ndarray, squares: np.ndarray, products: np.ndarray
) -> list[np.ndarray]:
    """The coefficients of each fold, (functions, quantities), from the draws of all others.

    The penalty of each quantity is that with which the variance is least in each of the other
    folds, with coefficients from the rest of these.
    """
    variance = squares / factors.n[:, None] - (sums / factors.n[:, None]) ** 2
    own = [factors.centred(products, [f], sums) for f in range(FOLDS)]
    left = np.zeros((FOLDS, len(PENALTIES), sums.shape[1]))
    for out in combinations(range(FOLDS), 2):
        factor = factors.without[out]
        rotated = factor.rotated(factors.centred(products, rest(out), sums))
        for i, penalty in enumerate(PENALTIES):
            a = factor.coefficients(rotated, penalty)
            for fold, seen in (out, out[::-1]):
                change = (a * (2 * own[seen] + factors.within[seen] @ a)).sum(axis=0)
                left[fold, i] += np.maximum(variance[seen] + change, 0)
    found = []
    for fold in range(FOLDS):
        close = left[fold] <= left[fold].min(axis=0) + TIE * left[fold, -1]
        penalty = PENALTIES[np.argmax(close, axis=0)]
        factor = factors.without[(fold,)]
        rotated = factor.rotated(factors.centred(products, rest([fold]), sums))
        found.append(factor.coefficients(rotated, penalty))
    return found
