"""Gradient estimates by a table of the last gradient of each row."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import checks, tree
from ..model import Batch, Evaluation, Model
from . import Data, Estimate, Estimator, Mode, posterior
from .rows import by_row

ANNOUNCED = 64 << 20  # bytes of a table, from which on its size is said
REFRESHED = 10_000  # iterations after which the sum of the table is added up anew
LARGEST = 0.8  # of the memory that is free
PIECE = 16 << 20  # bytes of gradients of single rows, at a time
CLOSE = 1e-3  # how far the gradient of a row may be from a multiple of its features


class Table(NamedTuple):
    """The last gradient of each row, (chains, N, ...), and their sum, (chains, ...).

    Where features are named, the table of a parameter (d, ...) has gradients divided by features:
    (chains, N, ...) without the axis d.
    """

    rows: Any
    total: Any


@dataclass(frozen=True)
class SAGA(Estimator):
    """Stochastic average gradients: each row is compared with its own last gradient.

    A table has the last gradient of each row, ∇fᵢ(αᵢ), and their sum. With a minibatch S of n of
    the N rows the estimate is

        ∇log prior(θ) + Σ_all ∇fᵢ(αᵢ) + (N/n) Σ_S (∇fᵢ(θ) − ∇fᵢ(αᵢ)),

    and only then the rows of S in the table are replaced. It needs no mode and no passes over the
    data but the first. The table takes N times as much memory as the parameters, for each chain.
    For linear predictors, name the `features`: the gradient of a row is then a multiple of these,
    and the table takes one number a row and outcome.

    Dubey et al. (2016), Variance reduction in stochastic gradient Langevin dynamics, NIPS;
    Baker (2018), thesis, section 3.5.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     error = data["y"] - tf.linalg.matvec(data["X"], params["beta"])
    ...     return -tf.reduce_sum(error**2) / 2
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(1000, 3))
    >>> dataset = {"X": X, "y": X @ [1, 2, 3] + rng.normal(size=1000)}
    >>> draws = sgmcmc.sgld(
    ...     log_lik, dataset, {"beta": np.zeros(3)}, 1e-4, gradient=sgmcmc.SAGA(features="X"),
    ...     n_iters=2000, burn_in=1000, seed=1, verbose=False,
    ... )
    >>> bool(np.abs(draws["beta"].mean(axis=0) - [1, 2, 3]).max() < 0.2)
    True
    """

    features: str | None = checks.tunable(
        None,
        checks.optional_text,
        "The name of an array of `dataset`, of shape (N, d), if log_lik depends on parameters of "
        "shape (d,) or (d, k) only by its product with them. None: the table has whole gradients.",
    )

    carried = True
    needs_index = True
    every = REFRESHED

    def init(self, model: Model, x: Any, data: Data, mode: Mode) -> Table:
        """Fill the table with the gradients where the chains start."""
        rows = data.source.rows(0, 1)
        if self.features is not None:
            self.check_features(x, rows)
        dtype, N = tree.leaves(x)[0].dtype, data.source.N
        shapes = [
            (a.shape[0], N, *a.shape[2 if self.is_compact(a, rows) else 1 :])
            for a in tree.leaves(x)
        ]
        make_room(sum(math.prod(s) for s in shapes) * dtype.size, data.source.N)
        arrays, start = [np.empty(s, dtype.as_numpy_dtype) for s in shapes], 0

        def of_piece(x: Any, rows: Any) -> tuple[Any, tf.Tensor]:
            shared = tree.map(lambda a: a[None], rows)
            _, gradient = by_row(lambda rows: model.on_rows(x, Batch(rows, 1.0)), model, shared)
            found = tree.map(lambda g: self.packed(g, shared), gradient)
            again = tree.map(lambda s, g: self.unpacked(s, g, shared), found, gradient)
            return found, worst(gradient, again)

        count = max(1, PIECE // (tree.size(x) * dtype.size))
        for rows in data.source.pieces(count * data.source.row_bytes):
            purpose = "saga", self.features
            found, off = model.programs.traced(purpose, of_piece, x, rows)(x, rows)
            if float(off) > CLOSE:
                raise ValueError(
                    "features must be left out: gradients of single rows are no multiples of "
                    f"{self.features!r} (off by {float(off):.2g} of their size)"
                )
            stop = start + len(next(iter(rows.values())))
            for array, part in zip(arrays, tree.leaves(found)):
                array[:, start:stop] = part.numpy()
            start = stop
        table = tree.pack(x, [tf.constant(a) for a in arrays])
        return Table(table, self.summed(x, table, data))

    def renew(self, model: Model, x: Any, state: Table, data: Data) -> Table:
        """Add up the table anew, without the rounding errors of the steps."""
        return state._replace(total=self.summed(x, state.rows, data))

    def estimate(self, model: Model, x: Any, state: Table, batch: Batch) -> tuple[Estimate, Any]:
        value, gradient = by_row(
            lambda rows: model.on_rows(x, batch._replace(rows=rows)), model, batch.rows
        )
        new = tree.map(lambda g: self.packed(g, batch.rows), gradient)
        place = places(batch.index, tree.leaves(x)[0].shape[0])
        old = tree.map(lambda t: tf.gather_nd(t, place), state.rows)
        change = tree.map(lambda a, b, g: self.added(a - b, g, batch.rows), new, old, gradient)
        data = tree.map(lambda t, c: t + batch.scale * c, state.total, change)
        found = Evaluation(batch.scale * tf.reduce_sum(value, axis=1), data)
        # 0 * old: read before it is written, or XLA would copy the table
        rows = tree.map(
            lambda t, a, b: tf.tensor_scatter_nd_update(t, place, a + 0 * b), state.rows, new, old
        )
        return posterior(model, x, found, batch), Table(rows, tree.map(tf.add, state.total, change))

    def check_features(self, x: Any, rows: Any) -> None:
        """See that the features are there, and that a parameter has their number of rows."""
        if self.features not in rows:
            raise ValueError(
                f"features names {self.features!r}, which is no array of dataset"
                f"{checks.nearest(str(self.features), rows)}; there are {sorted(rows)}"
            )
        array = rows[self.features]
        if array.shape.rank != 2 or not any(self.is_compact(a, rows) for a in tree.leaves(x)):
            raise ValueError(
                f"features must name an array (N, d) with as many columns as a parameter has rows, "
                f"but {self.features!r} has the shape (N, {', '.join(map(str, array.shape[1:]))})"
            )

    def is_compact(self, a: tf.Tensor, rows: Any) -> bool:
        """Whether gradients of a parameter (chains, d, ...) are kept as multiples of features."""
        known = self.features is not None and a.shape.rank > 1
        return known and a.shape[1] == rows[self.features].shape[-1]

    def packed(self, gradient: tf.Tensor, rows: Any) -> tf.Tensor:
        """What the table has of gradients (chains, n, d, ...) of single rows (chains, n, d)."""
        if not self.is_compact(gradient[:, 0], rows):
            return gradient
        X = rows[self.features]
        ones = tf.ones(X.shape[-1:], X.dtype)  # XLA adds up rows faster as a product
        square = tf.einsum("cnd,d->cn", X**2, ones)
        inner = tf.einsum("cnd...,d->cn...", along(X, gradient) * gradient, ones)
        square = tf.reshape(square, square.shape + (1,) * (inner.shape.rank - 2))
        return tf.math.divide_no_nan(inner, square)

    def unpacked(self, kept: tf.Tensor, like: tf.Tensor, rows: Any) -> tf.Tensor:
        """Gradients of single rows, from what the table has of them."""
        if not self.is_compact(like[:, 0], rows):
            return kept
        return along(rows[self.features], like) * tf.expand_dims(kept, 2)

    def added(self, kept: tf.Tensor, like: tf.Tensor, rows: Any) -> tf.Tensor:
        """The sum of gradients over rows, from what the table has of them."""
        if not self.is_compact(like[:, 0], rows):
            return tf.reduce_sum(kept, axis=1)
        return tf.einsum("cnd,cn...->cd...", rows[self.features], kept)

    def summed(self, x: Any, table: Any, data: Data) -> Any:
        """The sum of all gradients in the table, in float64."""
        total = [np.zeros(a.shape) for a in tree.leaves(x)]
        start = 0
        for rows in data.source.pieces():
            stop = start + len(next(iter(rows.values())))
            for sum_, t, a in zip(total, tree.leaves(table), tree.leaves(x)):
                part = t[:, start:stop].numpy().astype(float)
                if self.is_compact(a, rows):
                    X = rows[self.features].numpy().astype(float)
                    sum_ += np.einsum("cn...,nd->cd...", part, X)
                else:
                    sum_ += part.sum(axis=1)
            start = stop
        return tree.pack(x, [tf.constant(s, a.dtype) for s, a in zip(total, tree.leaves(x))])


def along(X: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Reshape features (chains, n, d) so that they broadcast over gradients (chains, n, d, ...)."""
    return tf.reshape(X, X.shape + (1,) * (like.shape.rank - 3))


def places(index: tf.Tensor, chains: int) -> tf.Tensor:
    """Where the rows of each chain's minibatch are in its table: (chains, n, 2)."""
    index = tf.broadcast_to(tf.cast(index, tf.int32), (chains, index.shape[1]))
    chain = tf.broadcast_to(tf.range(chains)[:, None], index.shape)
    return tf.stack([chain, index], axis=-1)


def worst(gradient: Any, again: Any) -> tf.Tensor:
    """The largest difference of two nests, as a share of the largest number."""
    pairs = list(zip(tree.leaves(gradient), tree.leaves(again)))
    off = tf.reduce_max([tf.reduce_max(tf.abs(a - b)) for a, b in pairs])
    return tf.math.divide_no_nan(off, tf.reduce_max([tf.reduce_max(tf.abs(a)) for a, _ in pairs]))


def make_room(nbytes: int, N: int) -> None:
    """Say how large a table is, or refuse it where it does not fit into memory."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = f"the table of SAGA takes {nbytes / 1e9:.3g} GB for {N:,} rows"
    if nbytes > LARGEST * free:
        raise ValueError(
            f"{size}, but {free / 1e9:.3g} GB of memory are free. Name the features of a linear "
            "predictor, as in SAGA(features='X'), or take gradient=SVRG(every=...)"
        )
    if nbytes > ANNOUNCED:
        print(size, file=sys.stderr)
