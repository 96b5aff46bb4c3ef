"""The curvature of the log posterior, and coordinates in which it is the same in all directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import tree
from .model import Model
from .source import Source
from .streams import without_replacement

FULL = 500  # with more parameters, a search only uses the diagonal of the matrix
ROWS, BYTES = 20_000, 64 << 20  # the most rows from which the curvature is estimated
CHUNK_BYTES = 16 << 20
PIECE_BYTES = 16 << 20  # of the gradients of single rows, at a time
WEAKEST = 1e-9  # eigenvalues below this count as this, where the diagonal is scaled to 1
SADDLE = -0.05  # an eigenvalue below this shows a saddle point, where the diagonal is scaled to 1
NEAR = 0.1  # a point within this many standard deviations of a kink counts as at the kink
TRUNCATED = 20  # conjugate gradient steps to find Newton's step for many parameters
Parts = list[tuple[Source, float]]  # rows, and how many of all N each of them stands for
NOT_DIFFERENTIABLE = LookupError, ValueError, TypeError, tf.errors.OpError  # twice, or row by row


class Coordinates(NamedTuple):
    """Coordinates x with θ = back · x, in which the curvature is the same in all directions.

    `back` is a matrix or the diagonal of one, and `forth` its inverse. `least` is the smallest
    eigenvalue of the curvature when its diagonal is scaled to 1: at a mode it is not negative.
    `kinks` is what kinks of the prior add to the diagonal. `sd` is one over the square root of the
    diagonal. `values` are the eigenvalues of the curvature, scaled in this way, in ascending order.
    """

    forth: np.ndarray
    back: np.ndarray
    least: float
    kinks: np.ndarray
    sd: np.ndarray
    values: np.ndarray | None = None


class Curvature:
    """The matrix of second derivatives of −log posterior, estimated from some rows of the data.

    With more than `most` parameters, or if the model cannot be differentiated twice, the Fisher
    information takes its place: the covariance of the gradients of single rows. Their mean is
    subtracted, because far from the mode its square is many times the curvature.
    """

    def __init__(self, model: Model, source: Source, params: Any, most: int = FULL) -> None:
        self.model, self.N, self.like = model, source.N, params
        self.p, self.dtype = tree.size(params), tree.leaves(params)[0].dtype
        self.is_full = self.p <= most
        self.twice = self.is_full  # False once the model cannot be differentiated twice
        self.enough = int(np.clip(BYTES // (8 * self.p), 1, ROWS))  # rows for the matrix
        self.enough_to_judge = max(ROWS, 2 * self.p)  # rows for its products with a vector
        by_bytes = max(1, CHUNK_BYTES // source.row_bytes)
        self.chunk = min(max(500, 10 * self.p), self.enough, by_bytes, source.N)
        self.enough -= self.enough % self.chunk

    def run(self, method: Callable, *arguments: Any) -> Any:
        """Call a method of this object, which is traced once for each shape of its arguments."""
        return self.model.programs.traced(method.__name__, method, *arguments)(*arguments)

    def for_all(self, rows: Source) -> Parts:
        """Rows that stand for all N."""
        return [(rows, self.N / rows.N)]

    def coordinates(
        self, theta: np.ndarray, rows: Parts, slope: np.ndarray | None = None
    ) -> Coordinates:
        """Find coordinates in which the curvature at a point is the same in all directions.

        `slope` is the gradient of −log posterior there, or None at a mode.

        Negative curvature counts with its absolute value, so that Newton's step leads downhill from
        a saddle point or a tail, too. Directions without any curvature count as those of the least.
        """
        point, kinks = unflat(theta, self.like, self.dtype), np.zeros(self.p)
        matrix = self.of_data(point, rows)
        if self.model.has_prior:
            prior = np.zeros_like(matrix)
            if self.twice:
                prior = self.matrix(self.run(self.hessian, point))
            elif not self.is_full:
                prior = self.prior_diagonal(point)
            matrix = matrix + prior
            kinks = self.kinks(theta, diagonal(matrix), diagonal(prior), slope)
            matrix = matrix + (np.diag(kinks) if self.is_full else kinks)
        scale = np.abs(diagonal(matrix))
        if not scale.any():
            ones = np.ones(self.p)  # a model that is known to be flat has no mode
            return Coordinates(ones, ones, -np.inf if self.twice else np.inf, kinks, ones)
        root = np.sqrt(np.where(scale > 0, scale, scale[scale > 0].min()))
        if not self.is_full:
            return Coordinates(root, 1 / root, np.inf, kinks, 1 / root)
        values, vectors = np.linalg.eigh(matrix / np.outer(root, root))
        eps = float(np.finfo(self.dtype).eps)
        length = np.sqrt(np.maximum(np.abs(values), max(WEAKEST, 10 * eps)))
        forth, back = (vectors * length).T * root, (vectors / length) / root[:, None]
        return Coordinates(forth, back, float(values[0]), kinks, 1 / root, values)

    def by_sample(self, theta: np.ndarray, source: Source, rng: np.random.Generator) -> Coordinates:
        """Find these coordinates at a mode from a random sample of rows."""
        count = min(source.N, self.enough)
        some = source.subset(without_replacement(rng, source.N, count, 1)[0])
        return self.coordinates(theta, self.for_all(some))

    def descent(
        self, theta: np.ndarray, slope: np.ndarray, now: Coordinates, rows: Source
    ) -> tuple[float, np.ndarray] | None:
        """Return by how much Newton's step lowers −log posterior, and the direction to go.

        `slope` is the gradient. At a kink, a parameter cannot lower the function, and its slope
        counts as 0. At a saddle point, the direction is that of the most negative curvature.
        Returns None if the curvature is not known.
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
            return self.truncated_newton(theta, x, now, self.for_all(rows))
        except NOT_DIFFERENTIABLE:
            return None

    def truncated_newton(
        self, theta: np.ndarray, slope: np.ndarray, now: Coordinates, rows: Parts
    ) -> tuple[float, np.ndarray]:
        """Find the same by conjugate gradients. If they stop early, the decrease is too small."""
        point, residual, step, gain = unflat(theta, self.like, self.dtype), slope, 0 * slope, 0.0
        towards, squared = residual, residual @ residual
        for _ in range(TRUNCATED):
            product = now.back * self.product(point, now.back * towards, now.kinks, rows)
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

    def product(self, point: Any, vector: np.ndarray, kinks: np.ndarray, rows: Parts) -> np.ndarray:
        """Multiply minus the matrix of second derivatives by a vector."""
        v, total = unflat(vector, self.like, self.dtype), kinks * vector
        for part, weight in rows:
            for some in part.pieces():
                total = total - weight * flat(self.run(self.along, point, v, some))
        return total if not self.model.has_prior else total - flat(self.run(self.along, point, v))

    def prior_diagonal(self, point: Any) -> np.ndarray:
        """Minus the second derivatives of the log prior by single parameters.

        They are from one product with a vector of signs, which is exact if parameters are
        independent.
        """
        signs = np.random.default_rng(0).choice([-1.0, 1.0], self.p)
        try:
            product = flat(self.run(self.along, point, unflat(signs, self.like, self.dtype)))
        except NOT_DIFFERENTIABLE:
            return np.zeros(self.p)
        return np.nan_to_num(np.maximum(-signs * product, 0), posinf=0)

    def along(self, point: Any, vector: Any, *rows: Any) -> Any:
        """Multiply second derivatives of a log likelihood, or of the log prior, by a vector."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(point)
            gradient = (self.model.data if rows else self.model.prior)(point, *rows).gradient
            inner = tree.map(lambda g, v: tf.reduce_sum(g * v), gradient, vector)
            slope = tf.add_n(tree.leaves(inner))
        return tape.gradient(slope, point, unconnected_gradients="zero")

    def of_data(self, point: Any, rows: Parts) -> np.ndarray:
        """Estimate minus the second derivatives of the log likelihood of all N rows.

        For parameters whose second derivative is exactly 0, as in an absolute value, the Fisher
        information takes their place.
        """
        if not self.twice:
            return self.fisher(point, rows)
        total: Any = 0.0
        try:
            for part, weight in rows:
                total = total + weight * part.N * self.mean_hessian(point, part)
        except NOT_DIFFERENTIABLE:
            self.twice = False
            return self.fisher(point, rows)
        straight = np.diag(total) == 0
        if straight.any():
            block = np.ix_(straight, straight)
            total[block] = self.fisher(point, rows)[block]
        return total

    def mean_hessian(self, point: Any, rows: Source) -> np.ndarray:
        """Return minus the mean of the rows' second derivatives."""
        total = np.zeros((self.p, self.p))
        for start in range(0, rows.N, self.chunk):  # chunks of one size need one program
            some = rows.rows(start, min(start + self.chunk, rows.N))
            total += self.matrix(self.run(self.hessian, point, some))
        return total / rows.N

    def hessian(self, point: Any, *rows: Any) -> list[tf.Tensor]:
        """Return blocks of second derivatives, of a log likelihood or of the log prior."""
        with tf.GradientTape(persistent=True, watch_accessed_variables=False) as tape:
            tape.watch(point)
            gradient = (self.model.data if rows else self.model.prior)(point, *rows).gradient
            laid_out = tf.concat([tf.reshape(g, [-1]) for g in tree.leaves(gradient)], axis=0)

        def of_one(unit: tf.Tensor) -> list[tf.Tensor]:
            found = tape.gradient(laid_out, tree.leaves(point), unit, "zero")
            return [tf.convert_to_tensor(g) for g in found]  # that of tf.gather is sparse

        return tf.vectorized_map(of_one, tf.eye(self.p, dtype=self.dtype), warn=False)

    def matrix(self, blocks: list[tf.Tensor]) -> np.ndarray:
        """Return minus the second derivatives as one symmetric matrix, in float64."""
        parts = [np.asarray(x, np.float64).reshape(self.p, -1) for x in blocks]
        whole = np.nan_to_num(-np.concatenate(parts, axis=1), posinf=0, neginf=0)
        return (whole + whole.T) / 2

    def fisher(self, point: Any, rows: Parts) -> np.ndarray:
        """Return N times the covariance of the rows' gradients, or the diagonal of that.

        It is 0 if the gradients of single rows cannot be computed.
        """
        total, square = np.zeros(self.p), np.zeros((self.p, self.p) if self.is_full else self.p)
        try:
            for some, weight in in_pieces(rows, self.p):
                g = np.nan_to_num(self.gradients(point, some), posinf=0, neginf=0)
                total += weight * g.sum(axis=0)
                square += weight * (g.T @ g if self.is_full else np.sum(g**2, axis=0))
        except NOT_DIFFERENTIABLE:
            return np.zeros_like(square)
        return square - (np.outer(total, total) if self.is_full else total**2) / self.N

    def gradients(self, point: Any, rows: Any) -> np.ndarray:
        """The gradient of the log likelihood of each row, laid end to end: (rows, p)."""
        nest = self.run(self.row_gradients, point, tree.map(lambda x: x[:, None], rows))
        parts = [np.asarray(g, np.float64).reshape(len(g), -1) for g in tree.leaves(nest)]
        return np.concatenate(parts, axis=1)

    def values(self, point: Any, rows: Any) -> np.ndarray:
        """The log likelihood of each row."""
        each = self.run(self.row_values, point, tree.map(lambda x: x[:, None], rows))
        return np.asarray(each, np.float64)

    def combined(self, point: Any, weights: np.ndarray, rows: Any) -> np.ndarray:
        """The sum of the gradients of rows, each with a weight."""
        weights = tf.constant(weights, self.dtype)
        rows = tree.map(lambda x: x[:, None], rows)
        return flat(self.run(self.weighted_sum, point, weights, rows))

    def slopes(self, point: Any, vector: np.ndarray, rows: Any) -> np.ndarray:
        """The products of the gradient of each row with a vector."""
        v, rows = unflat(vector, self.like, self.dtype), tree.map(lambda x: x[:, None], rows)
        return np.asarray(self.run(self.row_slopes, point, v, rows), np.float64)

    def weighted_sum(self, point: Any, weights: tf.Tensor, rows: Any) -> Any:
        """The sum of the gradients of rows, each with a weight."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(point)
            total = tf.reduce_sum(weights * self.row_values(point, rows))
        found = tape.gradient(total, point, unconnected_gradients="zero")
        return tree.map(tf.convert_to_tensor, found)  # that of tf.gather is sparse

    def row_slopes(self, point: Any, vector: Any, rows: Any) -> tf.Tensor:
        """The products of the gradient of each row with a vector, by the weights of a sum."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            weights = tf.ones(tree.leaves(rows)[0].shape[0], self.dtype)
            tape.watch(weights)
            total = self.weighted_sum(point, weights, rows)
            each = tree.map(lambda g, v: tf.reduce_sum(g * v), total, vector)
            along = tf.add_n(tree.leaves(each))
        return tape.gradient(along, weights)

    def row_gradients(self, point: Any, rows: Any) -> Any:
        """Return the gradient of the log likelihood of each row."""
        return tf.vectorized_map(lambda row: self.model.data(point, row).gradient, rows)

    def row_values(self, point: Any, rows: Any) -> Any:
        """The log likelihood of each row."""
        return tf.vectorized_map(lambda row: self.model.data(point, row).value, rows)

    def kinks(
        self, theta: np.ndarray, known: np.ndarray, smooth: np.ndarray, slope: np.ndarray | None
    ) -> np.ndarray:
        """Return what kinks of a prior, such as a Laplace prior, add to the diagonal.

        A kink counts as the curvature of a Gaussian that is as wide: by how much the slope of the
        prior falls over one standard deviation to each side. All parameters are moved at once. Only
        parameters for which the `smooth` curvature of the prior is 0 can have a kink. A kink that
        is farther away than this width only counts if Newton's step would go beyond it.
        """
        data = np.abs(known)
        if not data.any() or smooth.all():
            return np.zeros(self.p)
        data, added = np.where(data > 0, data, data[data > 0].min()), np.zeros(self.p)
        for _ in range(10):  # the width narrows from that without kinks to that with them
            fall = self.fall(theta, (data + added) ** -0.5)
            added = np.where(smooth == 0, np.maximum(added, fall), 0)
        sd = (data + added) ** -0.5
        crosses = np.abs(slope) * sd > 1 if slope is not None else False
        return np.where((self.fall(theta, sd) > 0) | crosses, added, 0)

    def fall(self, theta: np.ndarray, width: np.ndarray) -> np.ndarray:
        """Return how much the slope of the prior falls over a width to each side, per length."""
        change = self.prior_slope(theta - width) - self.prior_slope(theta + width)
        return np.nan_to_num(np.maximum(change / (2 * width), 0), posinf=0)

    def prior_slope(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of the log prior."""
        return flat(self.model.traced_prior(unflat(theta, self.like, self.dtype)).gradient)


def in_pieces(parts: Parts, p: int) -> Iterator[tuple[dict[str, tf.Tensor], float]]:
    """Yield rows with their weights, in pieces whose gradients by p parameters fit in memory."""
    for part, weight in parts:
        nbytes = max(1, min(PIECE_BYTES, PIECE_BYTES * part.row_bytes // (4 * p)))
        for rows in part.pieces(nbytes):
            yield rows, weight


def times(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Multiply by a matrix, or by a diagonal matrix that is given by its diagonal."""
    return matrix * x if matrix.ndim == 1 else matrix @ x


def diagonal(matrix: np.ndarray) -> np.ndarray:
    """Return the diagonal of a matrix, which may be given by it."""
    return matrix if matrix.ndim == 1 else np.diag(matrix)


def flat(nest: Any) -> np.ndarray:
    """Lay the numbers of a nest end to end, in float64."""
    return np.concatenate([np.asarray(x, np.float64).ravel() for x in tree.leaves(nest)])


def unflat(x: np.ndarray, like: Any, dtype: Any) -> Any:
    """Undo `flat`: return tensors in the form of `like`."""
    leaves = tree.leaves(like)
    with np.errstate(over="ignore"):
        parts = np.split(x.astype(dtype), np.cumsum([leaf.size for leaf in leaves])[:-1])
    shaped = [tf.constant(part.reshape(leaf.shape)) for part, leaf in zip(parts, leaves)]
    return tree.pack(like, shaped)
