"""What is compiled: iterations of a sampler as a pure function, in TensorFlow alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from . import tree
from .dynamics import COUNTS, Dynamics
from .estimators import Posterior, each_chain, on_rows
from .minibatch import Batch, Block
from .operations import in_turn, types_of
from .random import folded

APART_BYTES = 1 << 15  # a minibatch that is worth copying out of its block


@dataclass(frozen=True)
class Engine:
    """The iterations of a sampler: model, estimator and dynamics, and the sizes of things.

    `N` and `n` are the rows of the data and of a minibatch, `row_bytes` the size of one, `size` the
    iterations in a block. `many` tells whether the user sees an axis of chains.
    """

    model: Posterior
    estimator: Any
    dynamics: Dynamics
    N: int
    n: int
    row_bytes: int
    size: int
    chains: int
    dtype: Any
    many: bool

    @property
    def apart(self) -> bool:
        """Whether minibatches are copied out of their block before they are used."""
        return self.n * self.row_bytes > APART_BYTES

    @property
    def constants(self) -> tuple:
        """What of it is part of the program, but for the model and the dynamics' fields."""
        sizes = self.N, self.n, self.size, self.chains, self.dtype, self.many, self.apart
        return type(self.estimator), type(self.dynamics), sizes

    @staticmethod
    def per_parameter(theta: Any, h: Iterable) -> Any:
        """Step sizes in the form of the parameters."""
        dtype = tree.leaves(theta)[0].dtype
        return tree.pack(theta, [tf.convert_to_tensor(x, dtype) for x in h])

    def shown(self, theta: Any) -> Any:
        """Without the axis of chains, where the user asked for none."""
        return theta if self.many else tree.map(lambda x: x[0], theta)

    def transition(
        self, chain: Any, estimator_state: Any, block: Block, i: tf.Tensor, once: tf.Tensor | None
    ) -> tuple:
        """One iteration, with row i of the block: a pure function."""
        dynamics = self.dynamics
        h = self.per_parameter(dynamics.position(chain), tf.unstack(tf.gather(block.stepsize, i)))

        def inner(l: tf.Tensor, chain: Any, _: tf.Tensor) -> tuple:
            here = tf.stack([i, l])
            noise = tf.gather_nd(block.noise, here)

            def update(chain: Any, rows: dict[str, tf.Tensor]) -> tuple:
                key = folded(noise, COUNTS) if self.model.keyed else None
                batch = Batch(rows, self.N / self.n, key)
                estimate = self.estimator.estimate(
                    self.model, dynamics.position(chain), estimator_state, batch
                )
                chain = dynamics.update(chain, estimate.gradient, noise, h)
                chain = dynamics.finish(chain, rows, noise)
                return chain, estimate.value

            rows = {k: tf.gather_nd(v, here) for k, v in block.rows.items()}
            return l + 1, *apart(update, chain, rows, once)

        chain = dynamics.begin(chain, block.noise[i, -1], h)
        start = 0, chain, tf.zeros(self.chains, self.dtype)
        if dynamics.inner_steps == 1:
            _, chain, value = inner(*start)
        else:
            _, chain, value = tf.while_loop(lambda l, *_: l < dynamics.inner_steps, inner, start)
        return chain, value, h

    def record(self, chain: Any, value: tf.Tensor, h: Any) -> dict[str, Any]:
        """What is kept of an iteration."""
        trace = {"log_posterior": value} if self.model.has_value else {}
        report = self.dynamics.report(chain, h)
        return {"params": self.dynamics.position(chain), **trace, **report}

    def survey(self, theta: Any, rows: dict[str, tf.Tensor], key: tf.Tensor, *, jit: bool) -> Any:
        """What each of some groups of rows says: (groups, chains, ...)."""
        groups, chains = (tree.leaves(x)[0].shape[0] for x in (rows, theta))
        if groups > 1:
            rows = tree.map(lambda x: tf.repeat(x, chains, axis=0), rows)
            theta = tree.map(lambda x: tf.tile(x, (groups, *[1] * (x.shape.rank - 1))), theta)
        found = on_rows(self.model, theta, Batch(rows, 1.0, key)).gradient
        return tree.map(lambda x: tf.reshape(x, (groups, chains, *x.shape[1:])), found)

    def advance(
        self, chain: Any, estimator_state: Any, block: Block, span: tf.Tensor, *, jit: bool
    ) -> tuple:
        """Iterations first ... last − 1 of a block, which is what is compiled.

        The first thing returned is the number of the first that is not finite, or `last`.
        """
        first, last = tf.unstack(span)
        size, once = self.size, tf.minimum(last - first, 1) if jit and self.apart else None
        h = self.per_parameter(self.dynamics.position(chain), tf.unstack(block.stepsize[0]))
        like = self.record(chain, tf.zeros(self.chains, self.dtype), h)
        draws = [tf.TensorArray(x.dtype, size, element_shape=x.shape) for x in tree.leaves(like)]

        def body(i: tf.Tensor, chain: Any, draws: list) -> tuple:
            chain, value, h = self.transition(chain, estimator_state, block, i, once)
            draw = tree.leaves(self.record(chain, value, h))
            return i + 1, chain, [a.write(i, x) for a, x in zip(draws, draw)]

        _, chain, draws = tf.while_loop(
            lambda i, *_: i < last, body, (first, chain, draws), parallel_iterations=1
        )
        draws = [a.stack() for a in draws]
        each, good = tf.range(size), tf.stack([finite_rows(x) for x in draws])
        gone_wrong = (each >= first) & (each < last) & ~tf.reduce_all(good, axis=0)
        stop = tf.reduce_min(tf.where(gone_wrong, each, last))
        draws = tree.pack(like, draws)
        now = tree.map(lambda x: tf.gather(x, last - 1), draws["params"])  # equal to the last bit
        return stop, chain, self.shown(now), draws


def apart(
    update: Callable, chain: Any, rows: dict[str, tf.Tensor], once: tf.Tensor | None
) -> tuple:
    """update(chain, rows), with rows that XLA copies out of their block first, given `once`: 1.

    It would otherwise read the block anew, number by number, for each product of the rows with a
    vector. It does not see through a loop, not even of one trip if it cannot know that.
    """
    if once is None:
        return update(chain, rows)
    one = all(x.shape[0] == 1 for x in rows.values())  # XLA sees through an axis of length 1
    rows = tree.map(lambda x: x[0], rows) if one else rows

    def trip(k: tf.Tensor, chain: Any, _: tf.Tensor, flat: dict[str, tf.Tensor]) -> tuple:
        rows = tree.map(lambda x: x[None], flat) if one else flat
        return k + 1, *update(chain, rows), flat

    leaf = tree.leaves(chain)[0]
    start = 0, chain, tf.zeros(leaf.shape[0], leaf.dtype), rows
    _, chain, value, _ = tf.while_loop(lambda k, *_: k < once, trip, start, parallel_iterations=1)
    return chain, value


def finite_rows(x: tf.Tensor) -> tf.Tensor:
    """Whether there is no NaN and no infinite value, for each entry along the first axis."""
    return tf.reduce_all(tf.math.is_finite(x), axis=range(1, x.shape.rank))


def as_tensor(fn: Callable) -> Callable:
    """A test function whose lists, too, are one array."""
    return lambda params: tf.convert_to_tensor(fn(*tree.copies(params)))


def makes_choices(fn: Callable, params: Any) -> bool:
    """Whether a test function has tf.cond in it, so that chains must take turns."""
    program = tf.function(fn, autograph=False).get_concrete_function(params)
    return in_turn(types_of(program.graph))


def tracker(track: Mapping[str, Callable]) -> Callable:
    """A function of all draws of a block that evaluates the test functions at every thin-th."""

    def follow(params: Any, span: tf.Tensor, *, jit: bool) -> dict[str, Any]:
        low, stop, thin = tf.unstack(span)

        def evaluate(i: tf.Tensor) -> dict[str, Any]:
            theta = tree.map(lambda x: x[i], params)
            first = tree.map(lambda x: x[0], theta)
            return {
                k: each_chain(as_tensor(fn), theta, in_turn=makes_choices(as_tensor(fn), first))
                for k, fn in track.items()
            }

        like = tf.function(evaluate, autograph=False).get_concrete_function(low).structured_outputs
        size = tree.leaves(params)[0].shape[0]
        values = [tf.TensorArray(x.dtype, size, element_shape=x.shape) for x in tree.leaves(like)]

        def body(i: tf.Tensor, values: list) -> tuple:
            return i + thin, [a.write(i, x) for a, x in zip(values, tree.leaves(evaluate(i)))]

        _, values = tf.while_loop(lambda i, _: i < stop, body, (low, values), parallel_iterations=1)
        return tree.pack(like, [a.stack() for a in values])

    return follow
