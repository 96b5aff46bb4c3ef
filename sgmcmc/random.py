"""Random numbers from a key, which are the same with XLA and without it.

Some samplers need random numbers whose law depends on their state, such as the Poisson counts of
SCIR. They get a key for each step and chain, and draw the numbers from it in compiled code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.polynomial import Chebyshev, Polynomial

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA
FOLD = 0xFFFFFFFF  # a `use` that is reserved for `folded`
COS, SIN = (
    Chebyshev.interpolate(f, 7, [0, 1]).convert(kind=Polynomial).coef[::-1]
    for f in (lambda t: np.cos(np.pi * np.sqrt(t)), lambda t: np.pi * np.sinc(np.sqrt(t)))
)  # polynomials in t = y² for cos(πy) and sin(πy) / y, with an error of 2e-10 for |y| < 1


def rotated(x: tf.Tensor, by: int) -> tf.Tensor:
    """Rotate the bits of 32-bit words to the left."""
    left = tf.bitwise.left_shift(x, tf.constant(by, tf.uint32))
    return tf.bitwise.bitwise_or(left, tf.bitwise.right_shift(x, tf.constant(32 - by, tf.uint32)))


def threefry(key: Any, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Map each pair of words (x, y) to two random words: Threefry-2x32 with 20 rounds.

    Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3, SC.
    """
    keys = (
        *key,
        tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(*key), tf.constant(PARITY, tf.uint32)),
    )
    x, y = x + keys[0], y + keys[1]
    for i in range(5):
        for by in ROTATIONS[i % 2]:
            x = x + y
            y = tf.bitwise.bitwise_xor(rotated(y, by), x)
        x = x + keys[(i + 1) % 3]
        y = y + keys[(i + 2) % 3] + tf.constant(i + 1, tf.uint32)
    return x, y


def words(key: tf.Tensor, shape: tuple[int, ...], use: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Draw two arrays of random words. Two calls with the same key must differ in `use`.

    Parameters
    ----------
    key : tensor of int32, (2,) or (chains, 2)
        With a key for each chain, the first axis of `shape` is the chains.
    """
    key = tf.bitcast(key, tf.uint32)
    inner = shape[key.shape.rank - 1 :]
    counter = tf.cast(tf.reshape(tf.range(int(np.prod(inner))), inner), tf.uint32)
    first, second = (tf.reshape(k, (*k.shape, *[1] * len(inner))) for k in tf.unstack(key, axis=-1))
    counter = tf.broadcast_to(counter, shape)
    return threefry((first, second), counter, tf.zeros_like(counter) + tf.constant(use, tf.uint32))


def uniforms(
    key: tf.Tensor, shape: tuple[int, ...], use: int = 0, dtype: tf.DType = tf.float32
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draw two independent arrays of uniform numbers in (0, 1).

    In single precision, numbers near 0 have 32 random bits and those near 1 have 24. The logarithm
    of each is finite and below 0.

    Parameters
    ----------
    key : tensor of int32, (2,) or (chains, 2)
        The key that a function of (params, data, key) is given. With a key for each chain, the
        first axis of `shape` is the chains.
    shape : tuple of int
        The shape of each of the two arrays.
    use : int
        Two calls with the same key must differ in this number, or their results are the same.
    dtype : tf.DType
        The type of the numbers.

    Returns
    -------
    pair of tensors

    Examples
    --------
    >>> import sgmcmc, tensorflow as tf
    >>> u, v = sgmcmc.random.uniforms(tf.constant([1, 2]), (1000,))
    >>> bool(abs(tf.reduce_mean(u) - 0.5) < 0.05)
    True
    """
    return tuple(open_unit(word, dtype) for word in words(key, shape, use))


def open_unit(word: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Turn random words into numbers in (0, 1)."""
    below = tf.constant(1 - 2.0**-24, dtype)
    return tf.minimum((tf.cast(word, dtype) + 0.5) * 2.0**-32, below)


def normals(
    key: tf.Tensor, shape: tuple[int, ...], use: int = 0, dtype: tf.DType = tf.float32
) -> tf.Tensor:
    """Draw standard normals, by the method of Box and Muller.

    Parameters
    ----------
    key : tensor of int32, (2,) or (chains, 2)
        As in `uniforms`.
    shape : tuple of int
        The shape of the result.
    use : int
        Two calls with the same key must differ in this number.
    dtype : tf.DType
        The type of the numbers.

    Returns
    -------
    tensor

    Examples
    --------
    >>> import sgmcmc, tensorflow as tf
    >>> z = sgmcmc.random.normals(tf.constant([1, 2]), (1000,))
    >>> bool(abs(tf.math.reduce_std(z) - 1) < 0.1)
    True
    """
    inner = shape[key.shape.rank - 1 :]
    chains, size = shape[: key.shape.rank - 1], int(np.prod(inner))
    both = box_muller(*uniforms(key, (*chains, -(-size // 2)), use, dtype))
    return tf.reshape(tf.concat(both, axis=-1)[..., :size], shape)


def box_muller(radius: tf.Tensor, angle: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Turn two uniforms into two standard normals."""
    radius, y = tf.sqrt(-2 * tf.math.log(radius)), 2 * angle - 1
    return radius * polynomial(COS, y * y), radius * y * polynomial(SIN, y * y)


def polynomial(coefficients: np.ndarray, t: tf.Tensor) -> tf.Tensor:
    """Evaluate a polynomial. This takes a sixth of the time of XLA's own sine and cosine."""
    value = tf.constant(coefficients[0], t.dtype)
    for c in coefficients[1:]:
        value = value * t + tf.constant(c, t.dtype)
    return value


def gammas(key: tf.Tensor, a: tf.Tensor, use: int = 0) -> tf.Tensor:
    """Draw Gamma(a, 1) variables. TensorFlow's own function for this does not compile.

    Parameters
    ----------
    key : tensor of int32, (2,) or (chains, 2)
        As in `uniforms`.
    a : tensor
        The parameter of each variable, which is its mean. The result has its shape and type.
    use : int
        A call takes four uses: two calls with the same key must differ in this number by 4 or more.

    Returns
    -------
    tensor

    Examples
    --------
    >>> import sgmcmc, tensorflow as tf
    >>> g = sgmcmc.random.gammas(tf.constant([1, 2]), tf.fill([1000], 3.0))
    >>> bool(abs(tf.reduce_mean(g) - 3) < 0.3)
    True
    """
    from .cir import gamma_poisson

    return tf.exp(gamma_poisson(tf.zeros_like(a), a, key, use).value)


def folded(key: tf.Tensor, number: int | tf.Tensor) -> tf.Tensor:
    """Derive a new key from a key and an integer; from keys of several chains, one for each."""
    first, second = tf.unstack(tf.bitcast(key, tf.uint32), axis=-1)
    number = tf.fill(first.shape, tf.cast(number, tf.uint32))
    words = threefry((first, second), number, tf.fill(first.shape, tf.constant(FOLD, tf.uint32)))
    return tf.bitcast(tf.stack(words, axis=-1), tf.int32)
