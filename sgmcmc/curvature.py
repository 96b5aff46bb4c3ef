"""The curvature of the log posterior, and coordinates in which it is round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import tree
from .model import Model
from .source import Source

FULL = 500  # parameters up to which the whole matrix is used, and not its diagonal alone
ROWS, BYTES = 20_000, 64 << 20  # rows from which curvature is estimated, at most
CHUNK_BYTES = 16 << 20
WEAKEST = 1e-9  # smallest eigenvalue, relative to a diagonal of 1, that is told from 0
SADDLE = -0.05  # smallest eigenvalue, relative to a diagonal of 1, that is no mode's
NEAR = 0.1  # standard deviations from a kink within which a point counts as at it
TRUNCATED = 20  # conjugate gradient steps by which Newton's step is found for many parameters
NOT_DIFFERENTIABLE = LookupError, ValueError, TypeError, tf.errors.OpError  # twice, or by rows


class Coordinates(NamedTuple):
    """Coordinates x in which the curvature is round, with θ = back · x.

    `back` is a matrix or the diagonal of one, `forth` its inverse. `least` is the smallest
    eigenvalue of the curvature when its diagonal is scaled to 1: at a mode it is not negative.
    `kinks` is what kinks of the prior add to the diagonal, and `sd` one over the diagonal's root.
    """

    forth: np.ndarray
    back: np.ndarray
    least: float
    kinks: np.ndarray
    sd: np.ndarray


class Curvature:
    """The second derivatives of −log posterior, estimated from some rows of the data.

    With more than FULL parameters, and where the model cannot be differentiated twice, it is the
    covariance of the gradients of single rows instead (the Fisher information). They are centred:
    far from the mode the square of their mean is many times the curvature.
    """

    def __init__(self, model: Model, source: Source, params: Any) -> None:
        self.model, self.N, self.like = model, source.N, params
        self.p, self.dtype = tree.size(params), tree.leaves(params)[0].dtype
        self.is_full = self.p <= FULL
        self.twice = self.is_full  # whether the model can be differentiated twice, as far as known
        self.enough = int(np.clip(BYTES // (8 * self.p), 1, ROWS))
        self.enough_to_judge = max(ROWS, 2 * self.p)  # rows for products with a vector
        by_bytes = max(1, CHUNK_BYTES // source.row_bytes)
        self.chunk = min(max(500, 10 * self.p), self.enough, by_bytes, source.N)

    def run(self, method: Callable, *arguments: Any) -> Any:
        """A method of this object, traced once for each shape of its arguments."""
        return self.model.programs.traced(method.__name__, method, *arguments)(*arguments)

    def coordinates(self, theta: np.ndarray, rows: Source) -> Coordinates:
        """Coordinates in which the curvature at a point is round.

        Directions of negative curvature count as if it were positive: from a saddle point or a
        tail Newton's step then leads downhill. Directions that nothing tells count as the weakest.
        """
        point, kinks = unflat(theta, self.like, self.dtype), np.zeros(self.p)
        matrix = self.of_data(point, rows)
        if self.model.has_prior:
            prior = (
                self.matrix(self.run(self.hessian, point)) if self.twice else np.zeros_like(matrix)
            )
            matrix = matrix + prior
            kinks = self.kinks(theta, diagonal(matrix), diagonal(prior))
            matrix = matrix + (np.diag(kinks) if self.is_full else kinks)
        scale = np.abs(diagonal(matrix))
        if not scale.any():
            ones = np.ones(self.p)  # no mode where the model is known to be flat
            return Coordinates(ones, ones, -np.inf if self.twice else np.inf, kinks, ones)
        root = np.sqrt(np.where(scale > 0, scale, scale[scale > 0].min()))
        if not self.is_full:
            return Coordinates(root, 1 / root, np.inf, kinks, 1 / root)
        values, vectors = np.linalg.eigh(matrix / np.outer(root, root))
        eps = float(np.finfo(self.dtype).eps)
        length = np.sqrt(np.maximum(np.abs(values), max(WEAKEST, 10 * eps)))
        forth, back = (vectors * length).T * root, (vectors / length) / root[:, None]
        return Coordinates(forth, back, float(values[0]), kinks, 1 / root)

    def descent(
        self, theta: np.ndarray, slope: np.ndarray, now: Coordinates, rows: Source
    ) -> tuple[float, np.ndarray] | None:
        """How much −log posterior can fall by Newton's step, and where to go from here.

        `slope` is its gradient. At a kink it cannot fall along that parameter; at a saddle point
        the way is that of the most negative curvature. None where the curvature is not known.
        """
        if now.kinks.any():
            reach, here = NEAR * now.sd, self.prior_slope(theta)
            below, above = (slope + here - self.prior_slope(theta + s * reach) for s in (-1, 1))
            slope = np.where((now.kinks > 0) & (below < 0) & (above > 0), 0, slope)
        x = times(now.back.T, slope)
        if now.least <= SADDLE and now.back.ndim == 2:
            return float(x @ x) / 2, now.back[:, 0] * (-1 if x[0] > 0 else 1)
        if now.back.ndim == 2:
            return float(x @ x) / 2, -times(now.back, x)
        try:
            return self.truncated_newton(theta, x, now, rows)
        except NOT_DIFFERENTIABLE:
            return None

    def truncated_newton(
        self, theta: np.ndarray, slope: np.ndarray, now: Coordinates, rows: Source
    ) -> tuple[float, np.ndarray]:
        """The same by conjugate gradients, which find it too small if at all off."""
        point, residual, step, gain = unflat(theta, self.like, self.dtype), slope, 0 * slope, 0.0
        towards, squared = residual, residual @ residual
        for _ in range(TRUNCATED):
            product = now.back * self.product(point, now.back * towards, now, rows)
            curvature = towards @ product
            if not curvature > 0:
                break
            length = squared / curvature
            step, residual = step - length * towards, residual - length * product
            gain, before, squared = gain + length * squared / 2, squared, residual @ residual
            if squared < 0.01 * (slope @ slope):
                break
            towards = residual + squared / before * towards
        return gain, now.back * step

    def product(self, point: Any, vector: np.ndarray, now: Coordinates, rows: Source) -> np.ndarray:
        """The matrix of second derivatives times a vector."""
        v, total = unflat(vector, self.like, self.dtype), now.kinks * vector
        for part in rows.pieces():
            total = total - self.N / rows.N * flat(self.run(self.along, point, v, part))
        return total if not self.model.has_prior else total - flat(self.run(self.along, point, v))

    def along(self, point: Any, vector: Any, *rows: Any) -> Any:
        """Second derivatives of the log likelihood, or without rows of the log prior, times v."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(point)
            gradient = (self.model.data if rows else self.model.prior)(point, *rows).gradient
            inner = tree.map(lambda g, v: tf.reduce_sum(g * v), gradient, vector)
            slope = tf.add_n(tree.leaves(inner))
        return tape.gradient(slope, point, unconnected_gradients="zero")

    def of_data(self, point: Any, rows: Source) -> np.ndarray:
        """Minus the second derivatives of the log likelihood of all N rows.

        Where these are exactly 0 on the diagonal, as for absolute values, the Fisher information
        takes their place.
        """
        if not self.twice:
            return self.fisher(point, rows)
        total: Any = 0.0
        count = min(self.chunk, rows.N)  # chunks of one size: one program
        try:
            for start in range(0, rows.N - count + 1, count):
                total = total + self.matrix(
                    self.run(self.hessian, point, rows.rows(start, start + count))
                )
        except NOT_DIFFERENTIABLE:
            self.twice = False
            return self.fisher(point, rows)
        total *= self.N / (rows.N // count * count)
        straight = np.diag(total) == 0
        if straight.any():
            block = np.ix_(straight, straight)
            total[block] = self.fisher(point, rows)[block]
        return total

    def hessian(self, point: Any, *rows: Any) -> list[tf.Tensor]:
        """Blocks of second derivatives of the log likelihood, or without rows of the log prior."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(point)
            gradient = (self.model.data if rows else self.model.prior)(point, *rows).gradient
            laid_out = tf.concat([tf.reshape(g, [-1]) for g in tree.leaves(gradient)], axis=0)
        return tape.jacobian(laid_out, tree.leaves(point), unconnected_gradients="zero")

    def matrix(self, blocks: list[tf.Tensor]) -> np.ndarray:
        """Minus the second derivatives as one symmetric matrix, in float64."""
        parts = [np.asarray(x, np.float64).reshape(self.p, -1) for x in blocks]
        whole = np.nan_to_num(-np.concatenate(parts, axis=1), posinf=0, neginf=0)
        return (whole + whole.T) / 2

    def fisher(self, point: Any, rows: Source) -> np.ndarray:
        """N times the covariance of the rows' gradients, or its diagonal.

        0 where gradients of single rows cannot be had.
        """
        data = tree.map(lambda x: x[:, None], rows.rows(0, rows.N))
        try:
            gradients = tree.leaves(self.run(self.row_gradients, point, data))
        except NOT_DIFFERENTIABLE:
            return np.zeros((self.p, self.p) if self.is_full else self.p)
        parts = [np.asarray(g, np.float64).reshape(rows.N, -1) for g in gradients]
        g = np.nan_to_num(np.concatenate(parts, axis=1), posinf=0, neginf=0)
        g -= g.mean(axis=0)
        return self.N / rows.N * (g.T @ g if self.is_full else np.sum(g**2, axis=0))

    def row_gradients(self, point: Any, rows: Any) -> Any:
        """The gradient of the log likelihood of each row."""
        return tf.vectorized_map(lambda row: self.model.data(point, row).gradient, rows)

    def kinks(self, theta: np.ndarray, known: np.ndarray, smooth: np.ndarray) -> np.ndarray:
        """What the kinks of a prior, as of Laplace's, add to the diagonal.

        That is by how much the prior's slope falls over a standard deviation to each side, all
        parameters at once. A kink counts as the Gaussian that is as wide. There can be one where
        the `smooth` curvature of the prior is 0.
        """
        data = np.abs(known)
        if not data.any() or smooth.all():
            return np.zeros(self.p)
        data = np.where(data > 0, data, data[data > 0].min())
        added = np.zeros(self.p)
        for _ in range(10):  # from the width that the data leave to the prior's own
            sd = (data + added) ** -0.5
            fall = (self.prior_slope(theta - sd) - self.prior_slope(theta + sd)) / (2 * sd)
            fall = np.nan_to_num(fall, posinf=0, neginf=0)
            added = np.where(smooth == 0, np.clip(fall, 0, None), 0)
        return added

    def prior_slope(self, theta: np.ndarray) -> np.ndarray:
        """The gradient of the log prior."""
        return flat(self.model.traced_prior(unflat(theta, self.like, self.dtype)).gradient)


def times(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The product with a matrix, or with one that is given by its diagonal."""
    return matrix * x if matrix.ndim == 1 else matrix @ x


def diagonal(matrix: np.ndarray) -> np.ndarray:
    """The diagonal of a matrix, or of one that is given by it."""
    return matrix if matrix.ndim == 1 else np.diag(matrix)


def flat(nest: Any) -> np.ndarray:
    """A nest laid end to end, in float64."""
    return np.concatenate([np.asarray(x, np.float64).ravel() for x in tree.leaves(nest)])


def unflat(x: np.ndarray, like: Any, dtype: Any) -> Any:
    """Tensors in the form of `like`."""
    leaves = tree.leaves(like)
    with np.errstate(over="ignore"):
        parts = np.split(x.astype(dtype), np.cumsum([leaf.size for leaf in leaves])[:-1])
    shaped = [tf.constant(part.reshape(leaf.shape)) for part, leaf in zip(parts, leaves)]
    return tree.pack(like, shaped)
