"""Streams of random numbers, drawn on the host: one for each purpose, chunk and chain."""

from __future__ import annotations

from typing import Any

import numpy as np

# The purposes of streams
ROWS, NOISE, AT_START, SUBSET, RENEWAL, UNIFORMS, KEYS, TUNING = range(8)
ORDER, TURNS, LEVERAGE, VISITS, SHARDS, COMBINATION = range(8, 14)


def stream(seed: int, purpose: int, chunk: int = 0, chain: int = 0) -> np.random.Generator:
    """Return the generator of one purpose, chunk of iterations and chain."""
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, chunk, chain, purpose]))


def row_type(N: int) -> type:
    """Return a type of integers that can number N rows."""
    return np.int32 if N <= 2**31 else np.int64


def without_replacement(rng: np.random.Generator, N: int, n: int, count: int) -> np.ndarray:
    """Draw `count` sets of n distinct rows out of N, each in time O(n).

    Rows are drawn with replacement, and duplicates are drawn again until there are none. This is
    the same as to draw rows one by one and keep the first n distinct ones. If n is above N/2, the
    rows to be left out are drawn.
    """
    if 2 * n > N:
        kept = np.ones((count, N), bool)
        np.put_along_axis(kept, without_replacement(rng, N, N - n, count), False, axis=1)
        return np.nonzero(kept)[1].reshape(count, n)
    rows = rng.integers(0, N, (count, n), dtype=row_type(N))
    rows.sort()
    todo = np.arange(count)
    while n and len(todo):
        part = rows[todo]
        twice = np.zeros(part.shape, bool)
        np.equal(part[:, 1:], part[:, :-1], out=twice[:, 1:])
        bad = twice.any(axis=1)
        todo, part, twice = todo[bad], part[bad], twice[bad]
        part[twice] = rng.integers(0, N, twice.sum(), dtype=part.dtype)
        part.sort()
        rows[todo] = part
    return rows


def standard_normals(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Draw standard normals; in single precision by the method of Box and Muller.

    Its logarithms and sines use vector instructions, and take a third of the time of NumPy's
    ziggurat. Radii come from 32 bits, and so are at most 6.8 standard deviations.
    """
    if np.dtype(dtype) != np.float32:
        return rng.standard_normal(shape, dtype)
    size = int(np.prod(shape))
    half = -(-size // 2)
    u = rng.bit_generator.random_raw(half).view(np.uint32).astype(np.float32).reshape(2, half)
    radius, angle = u
    radius += 0.5
    radius *= 2.0**-32
    np.log(radius, out=radius)
    radius *= -2
    np.sqrt(radius, out=radius)
    angle *= 2 * np.pi * 2.0**-32
    z = np.stack([np.cos(angle), np.sin(angle)])
    z *= radius
    return z.reshape(-1)[:size].reshape(shape)
