"""Random numbers that are functions of a key, the same with XLA and without it.

Samplers whose randomness depends on their state (SCIR's Poisson counts) get a key for each step and
chain from the host, and draw from it inside compiled code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA
FOLD = 0xFFFFFFFF  # a use that no call of `uniforms` has


def rotated(x: tf.Tensor, by: int) -> tf.Tensor:
    """The bits of 32-bit words, turned left."""
    left = tf.bitwise.left_shift(x, tf.constant(by, tf.uint32))
    return tf.bitwise.bitwise_or(left, tf.bitwise.right_shift(x, tf.constant(32 - by, tf.uint32)))


def threefry(key: Any, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Two random words for each pair of words (x, y): Threefry-2x32 with 20 rounds.

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
    """Two arrays of random words; calls with the same key must differ in `use`.

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
    """Two arrays of numbers in (0, 1); calls with the same key must differ in `use`.

    In single precision, 32 bits near 0 and 24 near 1: the logarithm of each is finite and below 0.
    """
    return tuple(open_unit(word, dtype) for word in words(key, shape, use))


def open_unit(word: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """A random word as a number in (0, 1)."""
    below = tf.constant(1 - 2.0**-24, dtype)
    return tf.minimum((tf.cast(word, dtype) + 0.5) * 2.0**-32, below)


def normals(
    key: tf.Tensor, shape: tuple[int, ...], use: int = 0, dtype: tf.DType = tf.float32
) -> tf.Tensor:
    """Standard normals by Box and Muller; calls with the same key must differ in `use`."""
    radius, angle = uniforms(key, shape, use, dtype)
    return tf.sqrt(-2 * tf.math.log(radius)) * tf.cos(2 * np.pi * angle)


def folded(key: tf.Tensor, number: int) -> tf.Tensor:
    """Another key, or one a chain, for each number; they serve uses of their own."""
    first, second = tf.unstack(tf.bitcast(key, tf.uint32), axis=-1)
    number = tf.fill(first.shape, tf.constant(number, tf.uint32))
    words = threefry((first, second), number, tf.fill(first.shape, tf.constant(FOLD, tf.uint32)))
    return tf.bitcast(tf.stack(words, axis=-1), tf.int32)
