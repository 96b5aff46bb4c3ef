"""Gradient estimates by a table of the last gradient of each row."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import checks, tree
from ..model import Batch, Evaluation, Model
from . import Data, Estimate, Estimator, Mode, posterior
from .predictors import Predictors, Whole

ANNOUNCED = 64 << 20  # bytes of a table, from which on its size is said
REFRESHED = 100_000  # iterations after which the sum of the table is added up anew
LARGEST = 0.8  # of the memory that is free
PIECE = 16 << 20  # bytes of gradients of single rows, at a time


class Table(NamedTuple):
    """The last gradient of each row, (chains, N, ...), and their sum, (chains, ...).

    Where features are named, gradients are by the user's values, and the table of a parameter
    (d, ...) has slopes, (chains, N, ...) without the axis d (see `Predictors`).
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
    the table takes one number a row and outcome, and a step little more time than a plain one.
    `log_lik` is evaluated with products in the place of features for this. Whether it may be is
    checked on some rows before the chain starts.

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
        of, dtype, N = self.rows_of(model), tree.leaves(x)[0].dtype, data.source.N
        count = max(1, PIECE // (tree.size(x) * dtype.size))
        if isinstance(of, Predictors):
            of.check(x, data.source, count)
        point = of.point(x)
        linear = of.is_linear(point, data.source.rows(0, 1))
        shapes = [
            (a.shape[0], N, *a.shape[2 if in_short else 1 :])
            for a, in_short in zip(tree.leaves(point), linear)
        ]
        make_room(sum(math.prod(s) for s in shapes) * dtype.size, N)
        arrays, start = [np.empty(s, dtype.as_numpy_dtype) for s in shapes], 0

        def of_piece(affine: tuple, x: Any, rows: Any) -> Any:
            shared = tree.map(lambda a: a[None], rows)
            return self.rows_of(model.behind(affine)).kept(x, Batch(shared, 1.0)).gradient

        for rows in data.source.pieces(count * data.source.row_bytes):
            given = model.affine, x, rows
            found = model.programs.traced(("saga", self.features), of_piece, *given)(*given)
            stop = start + len(next(iter(rows.values())))
            for array, part in zip(arrays, tree.leaves(found)):
                array[:, start:stop] = part.numpy()
            start = stop
        table = tree.pack(point, [tf.constant(a) for a in arrays])
        return Table(table, self.summed(model, x, table, data))

    def renew(self, model: Model, x: Any, state: Table, data: Data) -> Table:
        """Add up the table anew, without the rounding errors of the steps."""
        return state._replace(total=self.summed(model, x, state.rows, data))

    def estimate(self, model: Model, x: Any, state: Table, batch: Batch) -> tuple[Estimate, Any]:
        of = self.rows_of(model)
        value, new = of.kept(x, batch)
        place = places(batch.index, tree.leaves(x)[0].shape[0])
        new, old = beside(new, tree.map(lambda t: tf.gather_nd(t, place), state.rows))
        change = of.summed(tree.map(tf.subtract, new, old), of.point(x), batch.rows)
        data = tree.map(lambda t, c: t + batch.scale * c, state.total, change)
        found = Evaluation(batch.scale * value, of.back(x, data))
        # 0 * old: read before it is written, or XLA would copy the table
        rows = tree.map(
            lambda t, a, b: tf.tensor_scatter_nd_update(t, place, a + 0 * b), state.rows, new, old
        )
        return posterior(model, x, found, batch), Table(rows, tree.map(tf.add, state.total, change))

    def rows_of(self, model: Model) -> Whole:
        """Return what computes the gradients of single rows that are kept."""
        return Whole(model) if self.features is None else Predictors(model, self.features)

    def summed(self, model: Model, x: Any, table: Any, data: Data) -> Any:
        """The sum of all gradients in the table, in float64 sums over pieces."""
        of = self.rows_of(model)
        point, start = of.point(x), 0
        total = [np.zeros(a.shape) for a in tree.leaves(point)]
        for rows in data.source.pieces():
            stop = start + len(next(iter(rows.values())))
            part = tree.map(lambda t, a=start, b=stop: t[:, a:b], table)
            shared = tree.map(lambda a: a[None], rows)
            program = model.programs.traced(
                ("saga sum", self.features), of.summed, part, point, shared
            )
            for sum_, found in zip(total, tree.leaves(program(part, point, shared))):
                sum_ += found.numpy()
            start = stop
        dtype = tree.leaves(x)[0].dtype
        return tree.pack(point, [tf.constant(s, dtype) for s in total])


def beside(new: Any, old: Any) -> tuple[Any, Any]:
    """Return two nests as they are, but the second in a place beside the first.

    XLA would hand reading from the table to threads, as it counts the whole table. That takes
    longer than the rest of a step. It does not where it writes what it reads to a part of an array.
    """

    def pair(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.TensorArray(a.dtype, 2, element_shape=a.shape).write(0, a).write(1, b).stack()

    both = tree.map(pair, new, old)
    return tree.map(lambda a: a[0], both), tree.map(lambda a: a[1], both)


def places(index: tf.Tensor, chains: int) -> tf.Tensor:
    """Where the rows of each chain's minibatch are in its table: (chains, n, 2)."""
    index = tf.broadcast_to(tf.cast(index, tf.int32), (chains, index.shape[1]))
    chain = tf.broadcast_to(tf.range(chains)[:, None], index.shape)
    return tf.stack([chain, index], axis=-1)


def available() -> int | None:
    """The memory that can be had, in bytes, or None where the system does not say so."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kB = next((line.split()[1] for line in lines if line.startswith("MemAvailable")), None)
    return None if kB is None else int(kB) * 1024


def make_room(nbytes: int, N: int) -> None:
    """Say how large a table is, or refuse it where it does not fit into memory."""
    free, size = available(), f"the table of SAGA takes {nbytes / 1e9:.3g} GB for {N:,} rows"
    if free is not None and nbytes > LARGEST * free:
        raise ValueError(
            f"{size}, but {free / 1e9:.3g} GB of memory are free. Name the features of a linear "
            "predictor, as in SAGA(features='X'), or take gradient=SVRG(every=...)"
        )
    if nbytes > ANNOUNCED:
        print(size, file=sys.stderr)
