"""The draw in a transition of the Cox-Ingersoll-Ross process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from . import random

USES = 4  # a call takes the uses use, use + 1, ..., use + USES − 1 of its key
DRAWN_WHOLE = 1000  # an array up to this size is drawn anew as a whole where one is rejected
DEPTH = 100  # of larger ones, one in so many at a time
WHOLE = {tf.float32: tf.int32, tf.float64: tf.int64}  # of the same size
TINY = float(np.finfo(np.float32).tiny)  # so that log 0 never occurs
MANY = 50  # a rate at which there is an event, whatever the random numbers


class Drawn(NamedTuple):
    """log G, or the excess G − λ where the rate was found to be large."""

    value: tf.Tensor
    is_excess: tf.Tensor


def gamma_poisson(rate: tf.Tensor, shape: tf.Tensor, key: tf.Tensor, use: int = 0) -> Drawn:
    """G(shape + K) with K ~ Poisson(λ), λ = rate: elementwise.

    Twice G is non-central chi-squared with 2 shape degrees of freedom and non-centrality 2λ. From
    shape ½ on, one of the degrees takes all the non-centrality,

        G(a + Poisson(λ)) = (Z/√2 + √λ)² + G(a − ½),  Z ~ N(0, 1)

    (Glasserman 2003, Monte Carlo methods in financial engineering, 3.4.1). Below, Poisson(λ) is
    seen as the number of events by the time λ. The first comes at E ~ Exp(1); if E < λ, there are
    1 + Poisson(λ − E), which brings the shape above ½; else none, and E − λ ~ Exp(1) still serves
    to draw from

        log G(a) = log G(a + 1) − Exp(1)/a.

    Parameters
    ----------
    rate, shape : tensors of one shape and dtype
        Where shape is NaN, so is the draw.
    key : tensor of int32, (2,) or (chains, 2)
        With a key for each chain, the first axis is the chains.
    use : int
        Calls with the same key must differ in it by `USES` or more; they fold the key by it.

    Returns
    -------
    Drawn
        log G, which is right where G would underflow; but where λ > MANY, the excess G − λ =
        Z²/2 + √(2λ)Z + G(a − ½), whose rounding errors are small beside itself, not beside λ.
        One number for each draw: to have both would cost twice the time, as XLA would draw twice.
    """
    chains = tuple(key.shape[:-1])
    size = int(np.prod(shape.shape[len(chains) :]))
    flat = [tf.reshape(x, (*chains, size)) for x in (rate, shape)]
    draw = as_a_whole if size <= DRAWN_WHOLE else in_columns
    drawn = tf.reshape(draw(*flat, key, use), shape.shape)
    return Drawn(drawn, is_marked(drawn))


def as_a_whole(rate: tf.Tensor, a: tf.Tensor, key: tf.Tensor, use: int) -> tf.Tensor:
    """Attempts at all elements, until none of them is rejected any more.

    XLA makes vector instructions of a row of them, not of a bare vector: a fifth of the time.
    """
    number, row = tf.range(a.shape[-1])[None], [x[..., None, :] for x in (rate, a)]

    def body(drawn: tf.Tensor, fresh: tf.Tensor) -> tuple:
        new = attempt(*row, number, key, fresh, use)
        return tf.where(rejected(drawn), new, drawn), random.folded(fresh, use)

    return until_accepted(body, (tf.fill(row[0].shape, a.dtype.max), key))


def in_columns(rate: tf.Tensor, a: tf.Tensor, key: tf.Tensor, use: int) -> tf.Tensor:
    """An attempt at all elements, then at one rejected element a column, of DEPTH elements each."""
    chains, size = tuple(a.shape[:-1]), a.shape[-1]
    pad = [[0, 0]] * len(chains) + [[0, -size % DEPTH]]
    flat = [tf.pad(x, pad) for x in (rate, a)]
    number = tf.reshape(tf.range(flat[0].shape[-1]), (DEPTH, -1))
    columns = [tf.reshape(x, (*chains, *number.shape)) for x in flat]
    drawn = attempt(*columns, number, key, key, use)

    def body(drawn: tf.Tensor, which: tf.Tensor, new: tf.Tensor, fresh: tf.Tensor) -> tuple:
        drawn, fresh = tf.where(number == which, new, drawn), random.folded(fresh, use)
        left = tf.where(rejected(drawn), number, -1)
        which = tf.reduce_max(left, axis=-2, keepdims=True)
        some = [tf.gather(x, tf.maximum(which, 0), batch_dims=len(chains)) for x in flat]
        return drawn, which, attempt(*some, which, key, fresh, use), fresh

    # What is carried is computed once; else XLA would redo the columns' draws for each element.
    none = tf.fill((*chains, 1, number.shape[1]), -1)
    drawn = until_accepted(body, (drawn, none, tf.cast(none, a.dtype), key))
    return tf.reshape(drawn, (*chains, -1))[..., :size]


def until_accepted(body: Callable, start: tuple) -> tf.Tensor:
    """What is drawn once nothing is rejected any more."""
    more = lambda drawn, *_: tf.reduce_any(rejected(drawn))  # noqa: E731
    return tf.while_loop(more, body, start, parallel_iterations=1)[0]


def rejected(drawn: tf.Tensor) -> tf.Tensor:
    """Where an attempt has drawn nothing yet."""
    return drawn == drawn.dtype.max


def attempt(
    rate: tf.Tensor,
    a: tf.Tensor,
    number: tf.Tensor,
    key: tf.Tensor,
    fresh: tf.Tensor,
    use: int,
) -> tf.Tensor:
    """The draw, or the largest of floats where three candidates are rejected.

    Elements of the same number have the same events and Z from `key` at each attempt (redrawing
    them, too, would favour those that make acceptance likely), and two candidates from `fresh`.
    Uniforms and their logarithms are single precision in any case, as those of doubles are slow.
    """
    keys = tf.bitcast(tf.stack([key, key, fresh, fresh]), tf.uint32)
    uses = tf.constant(np.arange(use, use + USES), tf.uint32)
    words = random.threefry(
        [k[..., None, None] for k in tf.unstack(keys, axis=-1)],
        tf.cast(number, tf.uint32)[None],
        tf.reshape(uses, (USES, *[1] * a.shape.rank)),
    )  # all at once, as this is much to compile
    pairs = zip(*(tf.unstack(random.open_unit(word, tf.float32)) for word in words))
    first, (level, event), second, levels = pairs
    x, z = random.box_muller(*first)
    event, z = -tf.cast(tf.math.log(event), a.dtype), tf.cast(z, a.dtype)

    many, small = rate > MANY, a < 0.5
    shifted, taken = ~small | (event < rate), tf.where(small, event, 0)
    rate = rate - taken
    a = tf.where(shifted, tf.where(small, a + 0.5, a - 0.5), a)
    raised = a < 0.5
    log_power = tf.where(raised, tf.where(small, rate, -event) / a, 0)
    d = tf.where(raised, a + 2 / 3, a - 1 / 3)  # raised by 1, then − ⅓

    v = candidate(d, x, level)
    for x, level in zip(random.box_muller(*second), levels):
        v = tf.where(v == 0, candidate(d, x, level), v)
    gamma, root = d * v, tf.sqrt(rate)
    rest = gamma * tf.exp(log_power)
    square = (z * np.sqrt(0.5) + root) ** 2 + TINY
    total = tf.math.log(tf.where(shifted, square + rest, gamma))
    log_g = tf.where(shifted, total, total + log_power)
    excess = z * (np.sqrt(2) * root + z / 2) - taken + rest
    return tf.where(v != 0, marked(tf.where(many, excess, log_g), many), a.dtype.max)


def marked(x: tf.Tensor, mark: tf.Tensor) -> tf.Tensor:
    """Numbers whose last bit tells of a condition.

    XLA may compute a condition again where it is used, round otherwise, and come to another answer.
    """
    bits = tf.bitcast(x, WHOLE[x.dtype])
    one = tf.ones_like(bits)
    even = tf.bitwise.bitwise_or(bits, one) - one
    return tf.bitcast(tf.where(mark, even + one, even), x.dtype)


def is_marked(x: tf.Tensor) -> tf.Tensor:
    """The condition."""
    bits = tf.bitcast(x, WHOLE[x.dtype])
    return tf.bitwise.bitwise_and(bits, tf.ones_like(bits)) == 1


def candidate(d: tf.Tensor, x: tf.Tensor, level: tf.Tensor) -> tf.Tensor:
    """A number v with d v ~ G(d + ⅓), from a normal and a uniform; or 0: rejected.

    Marsaglia and Tsang (2000), A simple method for generating gamma variables, ACM TOMS 26: v is
    (1 + x/√(9d))³, and accepted with probability exp(x²/2 + d(1 − v + log v)): .95 for G(1), more
    for larger shapes. They ask for d ≥ ⅔, but the probability is at most 1 for all d > 0; at
    G(½), .83 are accepted.
    """
    x, log_level = (tf.cast(y, d.dtype) for y in (x, tf.math.log(level)))
    v = (1 + x / (3 * tf.sqrt(d))) ** 3
    rejected = (v <= 0) | (log_level > x**2 / 2 + d * (1 - v + tf.math.log(v)))
    return tf.where(~rejected, v, 0)  # NaN is not rejected, so loops end
