"""Gradients of single rows in a table: whole, or in short for linear predictors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from .. import checks, tree
from ..curvature import NOT_DIFFERENTIABLE
from ..model import Batch, Evaluation, Model, each_chain, pulled_back
from ..source import Source
from ..spaces import Chart
from .rows import by_row

CLOSE = 1e-3  # how far the gradient of a row may be from a multiple of its features


@dataclass(frozen=True)
class Whole:
    """Gradients of single rows by chart coordinates, as they are."""

    model: Model

    def point(self, x: Any) -> Any:
        """Return what gradients are by, at chart coordinates x."""
        return x

    def back(self, x: Any, gradient: Any) -> Any:
        """Turn each chain's gradient by the point into that by chart coordinates."""
        return gradient

    def is_linear(self, point: Any, rows: Any) -> list[bool]:
        """Whether each parameter has features, and is kept in short."""
        return [False] * len(tree.leaves(point))

    def kept(self, x: Any, batch: Batch) -> Evaluation:
        """Evaluate the log likelihood of each chain's rows, and what is kept of each row."""
        value, gradient = by_row(
            lambda rows: self.model.on_rows(x, batch._replace(rows=rows)), self.model, batch.rows
        )
        return Evaluation(tf.reduce_sum(value, axis=1), gradient)

    def summed(self, kept: Any, point: Any, rows: Any) -> Any:
        """Return each chain's sum of gradients over rows, from what is kept of them."""
        return tree.map(lambda a: tf.reduce_sum(a, axis=1), kept)


@dataclass(frozen=True)
class Predictors(Whole):
    """Gradients of a log likelihood that depends on parameters by products with features alone.

    Features X have the shape (n, d), and these parameters β the shape (d,) or (d, ...). The
    gradient of a row by β is then the product of its features with its slope, the gradient by its
    predictor η = Xβ. Slopes are kept. With η as the first columns of the features, and columns of
    the unit matrix as β, `log_lik` has the same value. So slopes are found without work on all
    features of a row. Gradients are by the user's values.
    """

    features: str

    @property
    def in_values(self) -> Model:
        """The model with the user's values as its chart coordinates."""
        return replace(self.model, chart=Chart({}))

    @property
    def is_plain(self) -> bool:
        """Whether chart coordinates are the user's values already."""
        return self.model.chart.is_identity and self.model.chart.same("inside")

    def point(self, x: Any) -> Any:
        return x if self.is_plain else self.model.each_chain(self.model.chart.inside, x)

    def back(self, x: Any, gradient: Any) -> Any:
        if self.is_plain:
            return gradient
        return each_chain(partial(pulled_back, self.model.chart.inside), x, gradient)

    def is_linear(self, point: Any, rows: Any) -> list[bool]:
        d = rows[self.features].shape[-1]
        return [a.shape.rank > 1 and a.shape[1] == d for a in tree.leaves(point)]

    def kept(self, x: Any, batch: Batch) -> Evaluation:
        return self.slopes(self.point(x), batch.rows)

    def slopes(self, point: Any, rows: Any) -> Evaluation:
        """Evaluate the log likelihood of rows (chains, n, ...), and the slopes of each row.

        Slopes have the form of the parameters, with axes (chains, n, ...) in place of (chains, d,
        ...). For all other parameters they are gradients, (chains, n, *shape).
        """
        model, linear, X = self.in_values, self.is_linear(point, rows), self.matrix(point, rows)
        betas, others = parted(tree.leaves(point), linear)
        rest = {k: v for k, v in rows.items() if k != self.features}
        columns = [math.prod(a.shape[2:]) for a in betas]
        width = max(X.shape[-1], sum(columns))
        units = tf.split(tf.eye(width, sum(columns), dtype=X.dtype), columns, axis=1)
        units = [tf.reshape(u, (width, *a.shape[2:])) for u, a in zip(units, betas)]

        def log_lik(both: Any, rest: Any) -> Any:
            others, eta = both
            wide = tf.pad(eta, [[0, 0], [0, width - eta.shape[1]]])
            params = tree.pack(point, joined(units, others, linear))
            return self.model.log_lik(params, {**rest, self.features: wide})

        def at(others: Any, eta: tf.Tensor, rest: Any) -> Evaluation:
            return model.differentiated(log_lik, (others, eta), rest)

        eta = model.each_chain(products, betas, X)
        if others:
            value, (gradients, slopes) = by_row(
                lambda rows: model.each_chain(at, others, *rows), model, (eta, rest)
            )
            value, slopes = tf.reduce_sum(value, axis=1), tf.squeeze(slopes, 2)
        else:
            value, (gradients, slopes) = model.each_chain(at, others, eta, rest)
        slopes = [
            tf.reshape(s, (*s.shape[:2], *a.shape[2:]))
            for s, a in zip(tf.split(slopes, columns, axis=2), betas)
        ]
        return Evaluation(value, tree.pack(point, joined(slopes, gradients, linear)))

    def summed(self, kept: Any, point: Any, rows: Any) -> Any:
        X, linear = self.matrix(point, rows), self.is_linear(point, rows)

        def of_chain(X: tf.Tensor, kept: Any) -> Any:
            return [
                tf.einsum("nd,n...->d...", X, s) if by_features else tf.reduce_sum(s, axis=0)
                for s, by_features in zip(kept, linear)
            ]

        return tree.pack(point, self.model.each_chain(of_chain, X, tree.leaves(kept)))

    def matrix(self, point: Any, rows: Any) -> tf.Tensor:
        """Return the features in the type of the parameters."""
        return tf.cast(rows[self.features], tree.leaves(point)[0].dtype)

    def check(self, x: Any, source: Source, count: int) -> None:
        """Check that features tell the gradients of the first rows, at most so many."""
        rows = tree.map(lambda a: a[None], source.rows(0, min(count, source.N)))
        if self.features not in rows:
            raise ValueError(
                f"features names {self.features!r}, which is no array of dataset"
                f"{checks.nearest(self.features, rows)}; there are {sorted(rows)}"
            )
        shape, point = rows[self.features].shape[2:], self.point(x)
        if shape.rank != 1 or not any(self.is_linear(point, rows)):
            raise ValueError(
                f"features must name an array (N, d) with as many columns as a parameter has rows, "
                f"but {self.features!r} has the shape (N, {', '.join(map(str, shape))})"
            )
        try:
            off = self.off(self.elsewhere(point, rows), rows)
        except NOT_DIFFERENTIABLE as error:
            raise ValueError(
                "features must be left out: log_lik cannot be evaluated with products in place of "
                f"{self.features!r}: {checks.summary(error)}"
            ) from error
        if not off <= CLOSE:
            raise ValueError(
                "features must be left out: gradients of single rows are no multiples of "
                f"{self.features!r} (off by {off:.2g} of their size)"
            )

    def elsewhere(self, point: Any, rows: Any) -> Any:
        """Return a point where no linear parameter is 0, but products are of moderate size.

        Many start at 0, where other ways in which `log_lik` may depend on them are not seen.
        """
        X = self.matrix(point, rows)
        size = tf.math.divide_no_nan(1.0, tf.norm(X) / np.sqrt(X.shape[1]))
        rng = np.random.default_rng(0)
        moved = [
            tf.where(a == 0, size * tf.constant(rng.standard_normal(a.shape), a.dtype), a)
            if by_features
            else a
            for a, by_features in zip(tree.leaves(point), self.is_linear(point, rows))
        ]
        return tree.pack(point, moved)

    def off(self, point: Any, rows: Any) -> float:
        """Return the largest error of gradients from slopes, as a share of the largest gradient."""

        def both(point: Any, rows: Any) -> Any:
            model, X = self.in_values, self.matrix(point, rows)
            _, exact = by_row(lambda rows: model.each_chain(model.data, point, rows), model, rows)
            found = self.slopes(point, rows).gradient
            again = [
                tf.reshape(X, (*X.shape, *[1] * (s.shape.rank - 2))) * s[:, :, None]
                if by_features
                else s
                for s, by_features in zip(tree.leaves(found), self.is_linear(point, rows))
            ]
            return tree.leaves(exact), again

        traced = self.model.programs.traced(("saga check", self.features), both, point, rows)
        size = error = 0.0
        for exact, found in zip(*tree.map(lambda a: a.numpy(), traced(point, rows))):
            known = np.isfinite(exact)
            size = max(size, np.max(np.abs(exact), where=known, initial=0))
            error = np.maximum(error, np.max(np.abs(found - exact), where=known, initial=0))
        return float(error / size) if size > 0 else float(error)


def products(betas: list, X: tf.Tensor) -> tf.Tensor:
    """Return products of features (n, d) with parameters (d, ...), side by side: (n, columns)."""
    found = [
        tf.linalg.matvec(X, a)[:, None]
        if a.shape.rank == 1
        else X @ tf.reshape(a, (a.shape[0], -1))
        for a in betas
    ]
    return found[0] if len(found) == 1 else tf.concat(found, axis=1)


def parted(leaves: list, where: list[bool]) -> tuple[list, list]:
    """Part a list into what is at True, and what is at False."""
    yes, no = ([a for a, there in zip(leaves, where) if there is kind] for kind in (True, False))
    return yes, no


def joined(yes: list, no: list, where: list[bool]) -> list:
    """Undo `parted`."""
    parts = {True: iter(yes), False: iter(no)}
    return [next(parts[there]) for there in where]
