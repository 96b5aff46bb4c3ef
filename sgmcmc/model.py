"""The user's model in chart coordinates: the log posterior and its gradient.

Parameters and minibatches have a leading axis of chains, except in `data` and `prior`, which take
one chain. A minibatch that all chains share has an axis of length 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import checks, tree
from .programs import Programs
from .random import folded
from .source import Source
from .spaces import Chart

COPIES_BYTES = 1 << 17  # of copies of a matrix, which stay in the cache


class Evaluation(NamedTuple):
    """A log density, and its gradient in chart coordinates."""

    value: Any
    gradient: Any


class Batch(NamedTuple):
    """One minibatch: rows of data with a leading axis of chains, and N / n.

    `index` has the numbers of the rows if the estimator `needs_index`. `key` has a key for each
    chain if the estimator or a user's function draws random numbers.
    """

    rows: dict[str, Any]
    scale: float
    index: Any = ()
    key: Any = ()


@dataclass(frozen=True)
class Model:
    """The log likelihood, a sum over rows of data, and the log prior.

    `counters` are users' functions of (params, data, key) that draw counts: the gradients of the
    parameters named in `counted`. If `in_turn`, the model is evaluated for one chain after the
    other. `jit` is True if its programs are compiled by XLA. `copies` has the matrix of the white
    coordinates once for each chain, or is ().
    """

    chart: Chart
    log_lik: Callable | None
    log_prior: Callable | None = None
    counters: tuple[Callable, ...] = ()
    counted: frozenset[str] = frozenset()
    in_turn: bool = False
    jit: bool = True
    programs: Programs = field(default_factory=Programs, compare=False)
    copies: Any = ()

    @property
    def has_prior(self) -> bool:
        """True if anything is added to the log likelihood."""
        return self.log_prior is not None or self.chart.has_density

    @property
    def has_value(self) -> bool:
        """True if the log posterior is known, and not only its gradient."""
        return self.log_lik is not None or not self.counters

    def differentiated(self, log_density: Callable, x: Any, *rows: Any) -> Evaluation:
        """Evaluate a log density of (params, *rows), and its gradient."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            value = log_density(*tree.copies(self.chart.inside(x), *rows))
            value = tf.cast(value, tree.leaves(x)[0].dtype)
        gradient = tape.gradient(value, x, unconnected_gradients="zero")
        gradient = tree.map(tf.convert_to_tensor, gradient)  # that of tf.gather is sparse
        return Evaluation(value, self.chart.of_data(gradient))

    def data(self, x: Any, rows: Any, *key: tf.Tensor) -> Evaluation:
        """Evaluate the log likelihood of some rows. It takes a key if counts are drawn."""
        log_lik = self.log_lik or (lambda params, rows: 0.0)
        value, gradient = self.differentiated(log_lik, x, rows)
        for i, counts in enumerate(self.counters):
            found = counts(*tree.copies(self.chart.inside(x), rows), folded(*key, i))
            old = {name: gradient[name] for name in found}
            gradient = {**gradient, **tree.map(as_counts, found, old)}
        return Evaluation(value, gradient)

    def prior(self, x: Any) -> Evaluation:
        """Evaluate the log prior, with what the spaces add to it."""
        total = None
        if self.log_prior is not None:
            total = self.differentiated(self.log_prior, x)
        if self.chart.has_density or total is None:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(x)
                value = self.chart.log_density(x)
            gradient = tape.gradient(value, x, unconnected_gradients="zero")
            own = Evaluation(value, gradient)
            total = own if total is None else tree.map(tf.add, total, own)
        return total

    def on_rows(self, x: Any, batch: Batch) -> Evaluation:
        """Evaluate the log likelihood of each chain's minibatch; one by one if counts are drawn."""
        if not self.counters:
            return self.each_chain(self.data, x, batch.rows)
        return tree.each(self.data, x, batch.rows, batch.key)

    def with_prior(self, x: Any, data: Evaluation) -> Evaluation:
        """Add the log prior to an evaluation of the log likelihood."""
        if not self.has_prior:
            return data
        return tree.map(tf.add, data, self.each_chain(self.prior, x))

    def each_chain(self, fn: Callable, *nests: Any) -> Any:
        """Apply `fn` to each chain's part of the nests."""
        return each_chain(fn, *nests, in_turn=self.in_turn)

    def has_small_matrix(self, chains: int) -> bool:
        """Whether copies of the matrix of the white coordinates for all chains fit the cache."""
        matrix = self.affine[1] if self.affine else None
        if matrix is None or matrix.shape.rank < 2 or chains == 1:
            return False
        return chains * matrix.shape.num_elements() * matrix.dtype.size <= COPIES_BYTES

    def with_copies(self, chains: int) -> Model:
        """The same model, which multiplies by a copy of the matrix for each chain.

        XLA compiles products of a matrix and a vector. For products with several vectors it calls a
        library, which takes longer if they are small.
        """
        return replace(self, copies=tf.tile(self.affine[1][None], [chains, 1, 1]))

    def by_chart(self, fn: Callable, *nests: Any) -> Any:
        """Apply fn(chart, ...) to each chain's part of the nests."""
        is_one = all(x.shape[0] == 1 for x in tree.leaves(nests))
        if isinstance(self.copies, tuple) or is_one:
            return each_chain(partial(fn, self.chart), *nests)
        return each_chain(
            lambda matrix, *own: fn(self.chart.with_matrix(matrix), *own), self.copies, *nests
        )

    def free(self, x: Any) -> Any:
        """Map the chart coordinates of each chain to free coordinates, which are not white."""
        return x if self.chart.affine is None else self.by_chart(Chart.free, x)

    def of_free(self, x: Any, gradient: Any) -> Any:
        """Turn each chain's gradient by free coordinates into that by chart coordinates."""
        if self.chart.affine is None:
            return gradient
        return self.by_chart(lambda chart, *own: pulled_back(chart.free, *own), x, gradient)

    def params(self, x: Any) -> Any:
        """Map the chart coordinates of each chain to the user's values."""
        return x if self.chart.is_identity else self.by_chart(Chart.forward, x)

    def recorded(self, x: Any) -> Any:
        """The chart coordinates that are recorded of each chain."""
        return each_chain(self.chart.recorded, x) if self.chart.is_shrunk else x

    def seen_value(self, x: Any, value: Any) -> Any:
        """Turn each chain's log posterior, a density of x, into one of the user's values."""
        if not self.chart.has_jacobian:
            return value
        return value - self.each_chain(self.chart.log_jacobian, x)

    @property
    def affine(self) -> tuple:
        """What compiled programs take as arguments of the chart."""
        return () if self.chart.affine is None else self.chart.affine.tensors

    def behind(self, affine: Any) -> Model:
        """The same model with other white coordinates: an `Affine`, or the tensors of one."""
        if isinstance(affine, tuple):
            if not affine:
                return self
            affine = self.chart.affine.of_tensors(affine)
        return replace(self, chart=replace(self.chart, affine=affine))

    def traced_data(self, *arguments: Any) -> Evaluation:
        """Evaluate `data` as a graph, traced once for each shape of its arguments."""
        return self.traced("data", *arguments)

    def traced_prior(self, x: Any) -> Evaluation:
        """Evaluate `prior` as a graph, traced once."""
        return self.traced("prior", x)

    def traced(self, method: str, *arguments: Any) -> Evaluation:
        """Call a method, which is traced once for each shape of its arguments."""

        def call(affine: tuple, *arguments: Any) -> Any:
            return getattr(self.behind(affine), method)(*arguments)

        return self.programs.traced(method, call, self.affine, *arguments)(self.affine, *arguments)

    def of_chains(self, x: Any, rows: Any) -> Evaluation:
        """Evaluate the log likelihood of some rows for each chain."""
        return self.each_chain(self.data, x, tree.map(lambda a: a[None], rows))

    def on_all(self, x: Any, source: Source, method: str = "data") -> Evaluation:
        """Evaluate the log likelihood of all rows of a source, in float64 sums.

        x is one point, or with the method `of_chains` one for each chain.
        """
        parts = [found for _, found in source.each(self, total, tree.map(np.asarray, x), method)]
        return parts[0] if len(parts) == 1 else tree.map(lambda *a: sum(a), *parts)


def total(model: Model, source: Source, x: Any, method: str) -> Evaluation:
    """Evaluate the log likelihood of all rows of one part of the data, in float64 sums."""
    total, x = None, tree.map(tf.constant, x)
    for rows in source.pieces():
        try:
            part = model.traced(method, x, rows)
        except tf.errors.OpError as error:
            raise ValueError(f"log_lik raised {checks.summary(error)}") from error
        part = tree.map(lambda a: a.numpy().astype(np.float64), part)
        total = part if total is None else tree.map(np.add, total, part)
    return total


def pulled_back(function: Callable, x: Any, gradient: Any) -> Any:
    """Return the gradient by x, given that by function(x)."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        value = function(x)
    return tape.gradient(value, x, output_gradients=gradient)


def as_counts(counts: Any, like: tf.Tensor) -> tf.Tensor:
    """Convert counts to the type of `like`. Negative ones become NaN."""
    counts = tf.cast(counts, like.dtype)
    return tf.where(counts < 0, tf.constant(np.nan, like.dtype), counts)


def each_chain(fn: Callable, *nests: Any, in_turn: bool = False) -> Any:
    """Apply `fn` to each chain's part of the nests: for all chains at once, unless `in_turn`.

    A nest whose leading axis has length 1 is shared by all chains.
    """
    shared = [all(x.shape[0] == 1 for x in tree.leaves(nest)) for nest in nests]
    if all(shared):
        first = tree.map(lambda x: tf.squeeze(x, 0), nests)
        return tree.map(lambda x: tf.expand_dims(x, 0), fn(*first))
    if in_turn:
        return tree.each(fn, *nests)
    of_all = [tree.map(lambda x: tf.squeeze(x, 0), n) for n, one in zip(nests, shared) if one]

    def of_one(own: list) -> Any:
        own, common = iter(own), iter(of_all)
        return fn(*(next(common) if one else next(own) for one in shared))

    return tf.vectorized_map(of_one, [n for n, one in zip(nests, shared) if not one], warn=False)
