"""Draws from the transition of the Cox-Ingersoll-Ross process, in compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from . import random

USES = 4  # one call uses the numbers use, use + 1, ..., use + USES − 1 of its key
DRAWN_WHOLE = 1000  # up to this size, the whole array is drawn again if one element is rejected
DEPTH = 100  # larger arrays are cut into columns of this length, and one element of each is redrawn
WHOLE = {tf.float32: tf.int32, tf.float64: tf.int64}  # the integers with as many bits
TINY = float(np.finfo(np.float32).tiny)  # is added to a square, so that its logarithm is finite
MANY = 50  # at a rate above this, there is always at least one event, for any random number


class Drawn(NamedTuple):
    """The logarithm of a draw G or, if the rate λ is large, its excess G − λ."""

    value: tf.Tensor
    is_excess: tf.Tensor


def gamma_poisson(rate: tf.Tensor, a: tf.Tensor, key: tf.Tensor, use: int = 0) -> Drawn:
    """Draw from Gamma(a + K, 1) with K ~ Poisson(rate), for each element.

    Write λ for the rate, and G(a) for a Gamma(a, 1) variable. Twice the draw is
    non-central chi-squared, with 2a degrees of freedom and non-centrality 2λ. If a ≥ ½, one of
    these degrees of freedom can take all the non-centrality:

        G(a + Poisson(λ)) = (Z/√2 + √λ)² + G(a − ½),  Z ~ N(0, 1)

    (Glasserman 2003, Monte Carlo methods in financial engineering, 3.4.1). If a < ½, think of
    Poisson(λ) as the number of events up to the time λ. The first event comes at E ~ Exp(1). If
    E < λ, there are 1 + Poisson(λ − E) events, so that the shape is above ½ after all. Otherwise
    there are none. Then E − λ is again Exp(1), and is used to draw from

        log G(a) = log G(a + 1) − Exp(1)/a.

    Parameters
    ----------
    rate, a : tensors of one shape and dtype
        Where a is NaN, so is the draw.
    key : tensor of int32, (2,) or (chains, 2)
        With a key for each chain, the first axis is the chains.
    use : int
        Two calls with the same key must differ in this number by `USES` or more. Further attempts
        take keys that are folded by it.

    Returns
    -------
    Drawn
        For λ ≤ MANY, log G, which is exact even where G itself would underflow. For λ > MANY, the
        excess G − λ = Z²/2 + √(2λ)Z + G(a − ½), whose rounding error is small relative to the
        excess, and not only relative to λ. Each element has one of the two: to return both would
        take twice the time, as XLA would draw twice.
    """
    chains = tuple(key.shape[:-1])
    size = int(np.prod(a.shape[len(chains) :]))
    flat = [tf.reshape(x, (*chains, size)) for x in (rate, a)]
    draw = as_a_whole if size <= DRAWN_WHOLE else in_columns
    drawn = tf.reshape(draw(*flat, key, use), a.shape)
    return Drawn(drawn, is_marked(drawn))


def as_a_whole(rate: tf.Tensor, a: tf.Tensor, key: tf.Tensor, use: int) -> tf.Tensor:
    """Draw all elements again and again, until each has been accepted once.

    The elements are a row of a matrix, of which XLA makes vector instructions: that takes a fifth
    of the time of a vector.
    """
    number, row = tf.range(a.shape[-1])[None], [x[..., None, :] for x in (rate, a)]

    def body(drawn: tf.Tensor, fresh: tf.Tensor) -> tuple:
        new = attempt(*row, number, key, fresh, use)
        return tf.where(rejected(drawn), new, drawn), random.folded(fresh, use)

    return until_accepted(body, (tf.fill(row[0].shape, a.dtype.max), key))


def in_columns(rate: tf.Tensor, a: tf.Tensor, key: tf.Tensor, use: int) -> tf.Tensor:
    """Draw all elements once, then one rejected element of each column at a time.

    A column has DEPTH elements.
    """
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

    # The draws are carried by the loop. Otherwise XLA would compute them again for each element.
    none = tf.fill((*chains, 1, number.shape[1]), -1)
    drawn = until_accepted(body, (drawn, none, tf.cast(none, a.dtype), key))
    return tf.reshape(drawn, (*chains, -1))[..., :size]


def until_accepted(body: Callable, start: tuple) -> tf.Tensor:
    """Repeat `body` until no element is rejected, and return the draws."""
    more = lambda drawn, *_: tf.reduce_any(rejected(drawn))  # noqa: E731
    return tf.while_loop(more, body, start, parallel_iterations=1)[0]


def rejected(drawn: tf.Tensor) -> tf.Tensor:
    """True for elements that have no accepted draw yet."""
    return drawn == drawn.dtype.max


def attempt(
    rate: tf.Tensor,
    a: tf.Tensor,
    number: tf.Tensor,
    key: tf.Tensor,
    fresh: tf.Tensor,
    use: int,
) -> tf.Tensor:
    """Try to draw each element, from at most three candidates for its Gamma variable.

    An element whose candidates are all rejected gets the largest floating-point number. The event E
    and the normal Z depend on `key` and on the element's `number`, and are the same at each
    attempt: to draw them again would favour values that make acceptance likely. Two of the three
    candidates come from `fresh`. Uniforms and their logarithms are in single precision always, as
    those in double precision are slow.
    """
    keys = tf.bitcast(tf.stack([key, key, fresh, fresh]), tf.uint32)
    uses = tf.constant(np.arange(use, use + USES), tf.uint32)
    words = random.threefry(
        [k[..., None, None] for k in tf.unstack(keys, axis=-1)],
        tf.cast(number, tf.uint32)[None],
        tf.reshape(uses, (USES, *[1] * a.shape.rank)),
    )  # all random words in one call, as each call takes long to compile
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
    d = tf.where(raised, a + 2 / 3, a - 1 / 3)  # the shape − ⅓, where it is raised by 1 if below ½

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
    """Store a condition in the last bit of each number.

    XLA may compute a condition a second time where it is used. Rounded differently, the second
    answer may contradict the first.
    """
    bits = tf.bitcast(x, WHOLE[x.dtype])
    one = tf.ones_like(bits)
    even = tf.bitwise.bitwise_or(bits, one) - one
    return tf.bitcast(tf.where(mark, even + one, even), x.dtype)


def is_marked(x: tf.Tensor) -> tf.Tensor:
    """Read the condition that `marked` has stored."""
    bits = tf.bitcast(x, WHOLE[x.dtype])
    return tf.bitwise.bitwise_and(bits, tf.ones_like(bits)) == 1


def candidate(d: tf.Tensor, x: tf.Tensor, level: tf.Tensor) -> tf.Tensor:
    """Propose v with d v ~ Gamma(d + ⅓, 1), from a normal and a uniform; 0 if it is rejected.

    Marsaglia and Tsang (2000), A simple method for generating gamma variables, ACM TOMS 26. The
    proposal v = (1 + x/√(9d))³ is accepted with probability exp(x²/2 + d(1 − v + log v)): .95 for
    Gamma(1), more for larger shapes. They ask for d ≥ ⅔, but this probability is at most 1 for all
    d > 0. For Gamma(½) it is .83.
    """
    x, log_level = (tf.cast(y, d.dtype) for y in (x, tf.math.log(level)))
    v = (1 + x / (3 * tf.sqrt(d))) ** 3
    rejected = (v <= 0) | (log_level > x**2 / 2 + d * (1 - v + tf.math.log(v)))
    return tf.where(~rejected, v, 0)  # NaN counts as accepted, so that loops end
