"""The user's model in chart coordinates: the log posterior and its gradient.

Parameters and minibatches have a leading axis, the chains, except in `data` and `prior`, which are
of one chain; a minibatch that all chains share has an axis of length 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import checks, tree
from .programs import Programs
from .random import folded
from .source import Source
from .spaces import Chart


class Evaluation(NamedTuple):
    """The logarithm of a density, and its gradient by chart coordinates."""

    value: Any
    gradient: Any


class Batch(NamedTuple):
    """One minibatch: rows of data with a leading axis of chains, and N / n.

    `index` holds the numbers of the rows, for an estimator that `needs_index`. `key` holds a key
    for each chain, where functions of the user's draw counts.
    """

    rows: dict[str, Any]
    scale: float
    index: Any = ()
    key: Any = ()


@dataclass(frozen=True)
class Model:
    """A sum over rows of data, and a prior that is known exactly.

    `counters` are functions of (params, data, key) that draw the gradients of some parameters,
    named in `counted`, which are then counts. Where the model is `in_turn`, it is evaluated for one
    chain after the other. `jit` tells whether its programs are compiled by XLA.
    """

    chart: Chart
    log_lik: Callable | None
    log_prior: Callable | None = None
    counters: tuple[Callable, ...] = ()
    counted: frozenset[str] = frozenset()
    in_turn: bool = False
    jit: bool = True
    programs: Programs = field(default_factory=Programs, compare=False)

    @property
    def has_prior(self) -> bool:
        """Whether anything is added to the log likelihood."""
        return self.log_prior is not None or self.chart.has_density

    @property
    def has_value(self) -> bool:
        """Whether the log posterior is known, and not its gradient alone."""
        return self.log_lik is not None or not self.counters

    def differentiated(self, log_density: Callable, x: Any, *rows: Any) -> Evaluation:
        """A log density of (params, *rows), with its gradient."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            value = log_density(*tree.copies(self.chart.inside(x), *rows))
            value = tf.cast(value, tree.leaves(x)[0].dtype)
        gradient = tape.gradient(value, x, unconnected_gradients="zero")
        gradient = tree.map(tf.convert_to_tensor, gradient)  # those of gathered rows are sparse
        return Evaluation(value, self.chart.of_data(gradient))

    def data(self, x: Any, rows: Any, *key: tf.Tensor) -> Evaluation:
        """The log likelihood of some rows, with a key where counts are drawn."""
        log_lik = self.log_lik or (lambda params, rows: 0.0)
        value, gradient = self.differentiated(log_lik, x, rows)
        for i, counts in enumerate(self.counters):
            found = counts(*tree.copies(self.chart.inside(x), rows), folded(*key, i))
            old = {name: gradient[name] for name in found}
            gradient = {**gradient, **tree.map(as_counts, found, old)}
        return Evaluation(value, gradient)

    def prior(self, x: Any) -> Evaluation:
        """The log prior, and what the spaces add to it."""
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
        """The log likelihood of each chain's minibatch; in turn, where counts are drawn."""
        if not self.counters:
            return self.each_chain(self.data, x, batch.rows)
        return tree.each(self.data, x, batch.rows, batch.key)

    def with_prior(self, x: Any, data: Evaluation) -> Evaluation:
        """The log posterior, from what is known of the log likelihood."""
        if not self.has_prior:
            return data
        return tree.map(tf.add, data, self.each_chain(self.prior, x))

    def each_chain(self, fn: Callable, *nests: Any) -> Any:
        """`fn` of each chain's part of the nests."""
        return each_chain(fn, *nests, in_turn=self.in_turn)

    def params(self, x: Any) -> Any:
        """What users see at the chart coordinates of each chain."""
        return x if self.chart.is_identity else each_chain(self.chart.forward, x)

    def seen_value(self, x: Any, value: Any) -> Any:
        """The log posterior of each chain as a density of what users see, from that of x."""
        if not self.chart.has_jacobian:
            return value
        return value - self.each_chain(self.chart.log_jacobian, x)

    def traced_data(self, *arguments: Any) -> Evaluation:
        """`data`, traced once for each shape of its arguments."""
        return self.programs.traced("data", self.data, *arguments)(*arguments)

    def traced_prior(self, x: Any) -> Evaluation:
        """`prior`, traced once."""
        return self.programs.traced("prior", self.prior, x)(x)

    def on_all(self, x: Any, source: Source) -> Evaluation:
        """The log likelihood of all rows of a source, at one point, summed in float64."""
        total = None
        for rows in source.pieces():
            try:
                part = self.traced_data(x, rows)
            except tf.errors.OpError as error:
                raise ValueError(f"log_lik raised {checks.summary(error)}") from error
            part = tree.map(lambda a: a.numpy().astype(np.float64), part)
            total = part if total is None else tree.map(np.add, total, part)
        return total


def as_counts(counts: Any, like: tf.Tensor) -> tf.Tensor:
    """Counts in the type of `like`, NaN where they are negative."""
    counts = tf.cast(counts, like.dtype)
    return tf.where(counts < 0, tf.constant(np.nan, like.dtype), counts)


def each_chain(fn: Callable, *nests: Any, in_turn: bool = False) -> Any:
    """`fn` of each chain's part of the nests: for all chains at once, unless `in_turn`.

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
