"""The draw in a transition of the Cox-Ingersoll-Ross process, by its logarithm."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from numpy.polynomial import Chebyshev, Polynomial

from . import random

USES = 4  # a call takes the uses use, use + 1, ..., use + USES − 1 of its key
DRAWN_WHOLE = 1000  # an array up to this size is drawn anew as a whole where one is rejected
DEPTH = 100  # of larger ones, one in so many at a time
TINY = float(np.finfo(np.float32).tiny)  # so that log 0 never occurs
COS, SIN = (
    Chebyshev.interpolate(f, 7, [0, 1]).convert(kind=Polynomial).coef[::-1]
    for f in (lambda t: np.cos(np.pi * np.sqrt(t)), lambda t: np.pi * np.sinc(np.sqrt(t)))
)  # polynomials in t = y² for cos(πy) and sin(πy) / y, right to 2e-10 for |y| < 1


def log_gamma_poisson(
    log_rate: tf.Tensor, shape: tf.Tensor, key: tf.Tensor, use: int = 0
) -> tf.Tensor:
    """The logarithm of G(shape + K) with K ~ Poisson(λ), λ = exp(log_rate): elementwise.

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
    log_rate, shape : tensors of one shape and dtype
        log_rate may be −inf. Where shape is NaN, so is the draw.
    key : tensor of int32, (2,) or (chains, 2)
        With a key for each chain, the first axis is the chains.
    use : int
        Calls with the same key must differ in it by `USES` or more; they fold the key by it.
    """
    chains = tuple(key.shape[:-1])
    size = int(np.prod(shape.shape[len(chains) :]))
    flat = [tf.reshape(x, (*chains, size)) for x in (log_rate, shape)]
    draw = as_a_whole if size <= DRAWN_WHOLE else in_columns
    return tf.reshape(draw(*flat, key, use), shape.shape)


def as_a_whole(log_rate: tf.Tensor, a: tf.Tensor, key: tf.Tensor, use: int) -> tf.Tensor:
    """Attempts at all elements, until none of them is rejected any more.

    XLA makes vector instructions of a row of them, not of a bare vector: a fifth of the time.
    """
    number, row = tf.range(a.shape[-1])[None], [x[..., None, :] for x in (log_rate, a)]

    def body(log_g: tf.Tensor, fresh: tf.Tensor) -> tuple:
        new = attempt(*row, number, key, fresh, use)
        return tf.where(rejected(log_g), new, log_g), random.folded(fresh, use)

    start = tf.fill(row[0].shape, a.dtype.max), key
    return tf.while_loop(
        lambda log_g, _: tf.reduce_any(rejected(log_g)), body, start, parallel_iterations=1
    )[0]


def in_columns(log_rate: tf.Tensor, a: tf.Tensor, key: tf.Tensor, use: int) -> tf.Tensor:
    """An attempt at all elements, then at one rejected element a column, of DEPTH elements each."""
    chains, size = tuple(a.shape[:-1]), a.shape[-1]
    pad = [[0, 0]] * len(chains) + [[0, -size % DEPTH]]
    flat = [tf.pad(x, pad) for x in (log_rate, a)]
    number = tf.reshape(tf.range(flat[0].shape[-1]), (DEPTH, -1))
    columns = [tf.reshape(x, (*chains, *number.shape)) for x in flat]
    log_g = attempt(*columns, number, key, key, use)

    def body(log_g: tf.Tensor, which: tf.Tensor, new: tf.Tensor, fresh: tf.Tensor) -> tuple:
        log_g, fresh = tf.where(number == which, new, log_g), random.folded(fresh, use)
        left = tf.where(rejected(log_g), number, -1)
        which = tf.reduce_max(left, axis=-2, keepdims=True)
        chosen = [tf.gather(x, tf.maximum(which, 0), batch_dims=len(chains)) for x in flat]
        return log_g, which, attempt(*chosen, which, key, fresh, use), fresh

    # What is carried is computed once; else XLA would redo the columns' draws for each element.
    none = tf.fill((*chains, 1, number.shape[1]), -1)
    start = log_g, none, tf.cast(none, log_g.dtype), key
    log_g = tf.while_loop(
        lambda log_g, *_: tf.reduce_any(rejected(log_g)), body, start, parallel_iterations=1
    )[0]
    return tf.reshape(log_g, (*chains, -1))[..., :size]


def rejected(log_g: tf.Tensor) -> tf.Tensor:
    """Where an attempt has drawn nothing yet."""
    return log_g == log_g.dtype.max


def attempt(
    log_rate: tf.Tensor,
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
    x, z = normals(*first)
    event, rate = -tf.cast(tf.math.log(event), a.dtype), tf.exp(log_rate)

    small = a < 0.5
    shifted = ~small | (event < rate)
    rate = tf.where(small, rate - event, rate)
    a = tf.where(shifted, tf.where(small, a + 0.5, a - 0.5), a)
    raised = a < 0.5
    log_power = tf.where(raised, tf.where(small, rate, -event) / a, 0)
    d = tf.where(raised, a + 2 / 3, a - 1 / 3)  # raised by 1, then − ⅓

    v = candidate(d, x, level)
    for x, level in zip(normals(*second), levels):
        v = tf.where(v == 0, candidate(d, x, level), v)
    gamma = d * v
    square = (tf.cast(z, a.dtype) * np.sqrt(0.5) + tf.sqrt(rate)) ** 2 + TINY
    total = tf.math.log(tf.where(shifted, square + gamma * tf.exp(log_power), gamma))
    log_g = tf.where(shifted, total, total + log_power)
    return tf.where(v != 0, log_g, a.dtype.max)


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


def normals(radius: tf.Tensor, angle: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Two standard normals from two uniforms, by Box and Muller's method."""
    radius, y = tf.sqrt(-2 * tf.math.log(radius)), 2 * angle - 1
    return radius * polynomial(COS, y * y), radius * y * polynomial(SIN, y * y)


def polynomial(coefficients: np.ndarray, t: tf.Tensor) -> tf.Tensor:
    """Horner's scheme: a sixth of the time of XLA's own sine and cosine."""
    value = tf.constant(coefficients[0], t.dtype)
    for c in coefficients[1:]:
        value = value * t + tf.constant(c, t.dtype)
    return value
