"""The log posterior of single rows of a minibatch, for what looks at each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from .. import tree
from ..model import Batch, Evaluation, Model
from . import Estimate, Estimator


def by_row(function: Callable, model: Model, rows: Any) -> Any:
    """Evaluate a function of minibatches for each row alone: results have axes (chains, rows, ...).

    `rows` have axes (chains, rows, ...). The function gets minibatches of one row.
    """

    def of_one(row: Any) -> Any:
        return tuple(function(tree.map(lambda a: a[:, None], row)))

    each = tree.each if model.in_turn else vectorised
    return tree.map(rows_first, each(of_one, tree.map(rows_first, rows)))


def weighted(model: Model, x: Any, rows: Any, weights: tf.Tensor) -> Evaluation:
    """Evaluate the log likelihoods of rows (chains, rows, ...), and add them up with weights."""
    # Gradients by row: that of a sum over vectorised rows would make XLA compare all data at a call
    each = by_row(lambda rows: model.each_chain(model.data, x, rows), model, rows)
    return Evaluation(*tree.map(lambda a: tf.einsum("cn,cn...->c...", weights, a), each))


def row_by_row(estimator: Estimator, model: Model, x: Any, state: Any, batch: Batch) -> Estimate:
    """Return the mean of the estimates from single rows, with their gradients as `extra`.

    `extra` has the form of the parameters, with axes (chains, rows, ...). The estimate is the same
    as that of the whole minibatch, up to rounding.
    """
    n = next(iter(batch.rows.values())).shape[1]
    N = round(n * batch.scale)

    def of_one(rows: Any) -> tuple[Any, Any]:
        one = batch._replace(rows=rows, scale=float(N))
        return estimator.estimate(model, x, state, one)[0][:2]

    values, gradients = by_row(of_one, model, batch.rows)
    mean = tree.map(lambda g: tf.reduce_mean(g, axis=1), gradients)
    return Estimate(tf.reduce_mean(values, axis=1), mean, N, gradients)


def vectorised(function: Callable, rows: Any) -> Any:
    """Map a function over rows, all at once."""
    return tf.vectorized_map(function, rows, warn=False)


def rows_first(a: tf.Tensor) -> tf.Tensor:
    """Exchange the first two axes."""
    return tf.transpose(a, [1, 0, *range(2, a.shape.rank)])
