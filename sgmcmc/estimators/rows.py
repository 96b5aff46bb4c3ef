"""The estimate of a minibatch, row by row, for dynamics that look at its noise."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .. import tree
from ..model import Batch, Model
from . import Estimate, Estimator


def row_by_row(estimator: Estimator, model: Model, x: Any, state: Any, batch: Batch) -> Estimate:
    """Return the mean of the estimates from single rows, with their gradients as `extra`.

    `extra` has the form of the parameters, with axes (chains, rows, ...). The estimate is the same
    as that of the whole minibatch, up to rounding.
    """
    n = next(iter(batch.rows.values())).shape[1]
    N = round(n * batch.scale)

    def of_one(rows: Any) -> tuple[Any, Any]:
        one = batch._replace(rows=tree.map(lambda a: a[:, None], rows), scale=float(N))
        estimate, _ = estimator.estimate(model, x, state, one)
        return estimate.value, estimate.gradient

    def each(function: Any, rows: Any) -> Any:
        if model.in_turn:
            return tree.each(function, rows)
        return tf.vectorized_map(function, rows, warn=False)

    values, gradients = each(of_one, tree.map(rows_first, batch.rows))
    gradients = tree.map(rows_first, gradients)
    mean = tree.map(lambda g: tf.reduce_mean(g, axis=1), gradients)
    return Estimate(tf.reduce_mean(values, axis=0), mean, N, gradients)


def rows_first(a: tf.Tensor) -> tf.Tensor:
    """Exchange the first two axes."""
    return tf.transpose(a, [1, 0, *range(2, a.shape.rank)])
