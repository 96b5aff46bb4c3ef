"""What the host prepares: rows of data, noise and step sizes of the next iterations.

A worker thread draws the random numbers and gathers the rows of the coming blocks while compiled
code works on the present one, which it reads in place. Random numbers belong to chunks of
iterations whose length depends on the problem alone, and each chunk of each chain has a stream of
its own: how the iterations are cut into blocks, steps and runs cannot change the chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import checks, tree
from .cores import one_core
from .dynamics import Dynamics
from .outside import is_outside

ROWS, NOISE, START, SUBSET, RENEWAL = range(5)  # what a stream of random numbers is for
BLOCK_BYTES, BLOCK_MAX, SLOTS = 16 << 20, 1024, 3
CHUNK_NUMBERS, CHUNK_MAX, CHUNK_BYTES = 1 << 17, 1024, 16 << 20
ONE_CORE = one_core()
PAGE = 4096


class Block(NamedTuple):
    """All that some iterations need; the leading axes are (iteration, inner step)."""

    rows: dict[str, Any]  # then (chain, row, ...); one chain where all share their minibatches
    noise: Any  # standard normals: then (chain, parameters laid end to end); or keys, (chain, 2)
    stepsize: Any  # (iteration, parameter)


class Batch(NamedTuple):
    """One minibatch: rows of data with a leading axis of chains, N / n, and a key a chain."""

    rows: dict[str, tf.Tensor]
    scale: float
    key: tf.Tensor | None = None


def stream(seed: int, purpose: int, chunk: int = 0, chain: int = 0) -> np.random.Generator:
    """The random numbers of one purpose, chain and chunk of iterations."""
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, chunk, chain, purpose]))


def row_type(N: int) -> type:
    """Integers that can number N rows."""
    return np.int32 if N <= 2**31 else np.int64


def without_replacement(rng: np.random.Generator, N: int, n: int, count: int) -> np.ndarray:
    """`count` sets of n distinct rows out of N, each in time O(n).

    Rows are drawn with replacement and duplicates drawn again until there are none, which is a
    stream of draws that keeps the first n distinct ones. Past N/2, the rows left out are drawn.
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
    """Standard normals; in single precision by Box and Muller's method.

    Its logarithms and sines use the processor's vectors: a third of the time of NumPy's ziggurat.
    Radii come from 32 bits, and so reach 6.8 standard deviations.
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


def page_aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array that starts on a page, so that TensorFlow and XLA read it in place."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(nbytes + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    return raw[start : start + nbytes].view(dtype).reshape(shape)


class Source:
    """A data set in memory or outside, whose rows are read as they are wanted.

    Floating-point arrays in memory have the type `dtype` already; those outside are converted, and
    searched for NaN and infinite values, as they are read.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], dtype: tf.DType) -> None:
        self.arrays, self.dtype = dict(arrays), dtype
        self.N = len(next(iter(arrays.values())))
        self.dtypes = {
            k: np.dtype(dtype.as_numpy_dtype) if v.dtype.kind == "f" else v.dtype.newbyteorder("=")
            for k, v in arrays.items()
        }
        self.row_bytes = sum(
            int(np.prod(v.shape[1:])) * self.dtypes[k].itemsize for k, v in arrays.items()
        )

    def shapes(self, *leading: int) -> dict[str, tuple[int, ...]]:
        """The shapes of so many rows."""
        return {k: (*leading, *v.shape[1:]) for k, v in self.arrays.items()}

    def gather(self, index: np.ndarray, out: dict[str, np.ndarray]) -> None:
        """Write the rows of these numbers to `out`."""
        for name, array in self.arrays.items():
            to = out[name]
            in_one_piece = isinstance(array, np.ndarray) and array.flags.c_contiguous
            if array.dtype == to.dtype and in_one_piece:  # else take copies all of it
                np.take(array, index, axis=0, out=to, mode="clip")
            else:
                with np.errstate(over="ignore"):
                    to[...] = array[index]
            self.check(name, to.reshape(-1, *array.shape[1:]), index.reshape(-1))

    def rows(self, start: int, stop: int) -> dict[str, tf.Tensor]:
        """Consecutive rows."""
        out = {}
        for name, array in self.arrays.items():
            with np.errstate(over="ignore"):
                part = array[start:stop].astype(self.dtypes[name], copy=False)
            self.check(name, part, np.arange(start, stop))
            out[name] = tf.convert_to_tensor(part)
        return out

    def check(self, name: str, rows: np.ndarray, index: np.ndarray) -> None:
        """Search rows that were read from outside for NaN and infinite values."""
        array = self.arrays[name]
        if is_outside(array) and array.dtype.kind == "f":
            checks.finite(f"dataset[{name!r}]", rows, index, array)

    def probe(self, count: int) -> dict[str, tf.Tensor]:
        """The first rows, and those with the smallest and largest integers: indices, most often."""
        index = np.arange(count)
        for array in self.arrays.values():
            if count < self.N and array.dtype.kind in "iu" and not is_outside(array):
                ends = np.array([array.argmin(), array.argmax()]) // (array.size // self.N)
                index = np.concatenate([index, ends])
        return self.subset(index).rows(0, len(index))

    def pieces(self, nbytes: int = BLOCK_BYTES) -> Iterator[dict[str, tf.Tensor]]:
        """All rows, in pieces of bounded size."""
        count = max(1, nbytes // max(1, self.row_bytes))
        for start in range(0, self.N, count):
            yield self.rows(start, min(start + count, self.N))

    def subset(self, index: np.ndarray) -> Source:
        """A source of these rows alone, held in memory."""
        out = {k: np.empty(s, self.dtypes[k]) for k, s in self.shapes(len(index)).items()}
        self.gather(index, out)
        return Source(out, self.dtype)


class Feeder:
    """Blocks of iterations, each prepared by a worker thread while the one before it is used."""

    def __init__(
        self,
        source: Source,
        n: int,
        dynamics: Dynamics,
        theta: Any,
        stepsize: Any,
        seed: int,
        shared_minibatches: bool,
    ) -> None:
        self.source, self.n, self.seed = source, n, seed
        self.stepsize = tree.leaves(stepsize)
        leaf = tree.leaves(theta)[0]
        self.chains, self.dtype = leaf.shape[0], leaf.dtype.as_numpy_dtype
        self.row_chains = 1 if shared_minibatches else self.chains
        width = tree.size(theta) // self.chains
        self.keyed, self.width = dynamics.keyed, 2 if dynamics.keyed else width
        self.inner_steps, self.noises = dynamics.inner_steps, dynamics.noises
        self.noise_type = np.int32 if self.keyed else self.dtype

        numbers = self.inner_steps * n + self.noises * self.width
        most = min(CHUNK_NUMBERS, CHUNK_BYTES // (4 * self.chains))
        self.chunk = 1 << int(np.clip(np.log2(most / numbers), 0, np.log2(CHUNK_MAX)))
        rows = source.shapes(self.inner_steps, self.row_chains, n)
        noise = (self.noises, self.chains, self.width)
        nbytes = self.inner_steps * self.row_chains * n * source.row_bytes
        nbytes += self.noises * self.chains * width * np.dtype(self.dtype).itemsize  # or draws
        self.size = int(np.clip(BLOCK_BYTES // nbytes, 1, BLOCK_MAX))
        self.arrays = [
            Block(
                {k: page_aligned((self.size, *s), source.dtypes[k]) for k, s in rows.items()},
                page_aligned((self.size, *noise), self.noise_type),
                page_aligned((self.size, len(self.stepsize)), self.dtype),
            )
            for _ in range(SLOTS)
        ]
        for arrays in self.arrays:
            arrays.stepsize[:] = [0 if callable(h) else h for h in self.stepsize]
        self.blocks = [
            tree.map(lambda x: tf.experimental.dlpack.from_dlpack(x.__dlpack__()), arrays)
            for arrays in self.arrays
        ]
        self.worker = ThreadPoolExecutor(1, "sgmcmc-feeder")
        self.pending: dict[int, Future[None]] = {}
        self.drawn: tuple[int, np.ndarray, np.ndarray] | None = None

    def block(self, j: int, end: int) -> Block:
        """Block j; the worker goes on with those after it, as far as iteration `end`."""
        for k in [k for k in self.pending if not j <= k < j + SLOTS]:
            self.pending.pop(k).cancel()
        for k in range(j, j + (1 if ONE_CORE else SLOTS)):
            if k not in self.pending and (k == j or k * self.size < end):
                self.pending[k] = self.worker.submit(self.fill, k)
        try:
            self.pending[j].result()
        except Exception:
            del self.pending[j]
            raise
        return self.blocks[j % SLOTS]

    def ask_schedules(self, j: int, first: int, last: int) -> None:
        """Fill in the step sizes of some iterations of block j: no schedule is asked beyond."""
        for column, h in enumerate(self.stepsize):
            if callable(h):
                self.arrays[j % SLOTS].stepsize[first:last, column] = [
                    checks.scheduled(h, j * self.size + i) for i in range(first, last)
                ]

    def fill(self, j: int) -> None:
        """Write block j into its buffers: runs in the worker thread."""
        to, t, end = self.arrays[j % SLOTS], j * self.size, (j + 1) * self.size
        while t < end:
            chunk, skip = divmod(t, self.chunk)
            index, noise = self.random(chunk)
            count = min(self.chunk - skip, end - t)
            here = slice(t - j * self.size, t - j * self.size + count)
            to.noise[here] = noise[skip : skip + count]
            self.source.gather(
                index[skip : skip + count], {k: out[here] for k, out in to.rows.items()}
            )
            t += count

    def random(self, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers and noise of one chunk of iterations."""
        if self.drawn is None or self.drawn[0] != chunk:
            count, L = self.chunk, self.inner_steps
            self.drawn, N, n = None, self.source.N, self.n
            index = np.empty((count, L, self.row_chains, n), row_type(N))
            noise = np.empty((count, self.noises, self.chains, self.width), self.noise_type)
            for c in range(self.row_chains):
                rng = stream(self.seed, ROWS, chunk, c)
                index[:, :, c] = without_replacement(rng, N, n, count * L).reshape(count, L, n)
            for c in range(self.chains):
                noise[:, :, c] = self.noise(NOISE, chunk, c, count)
            self.drawn = chunk, index, noise
        return self.drawn[1:]

    def noise(self, purpose: int, chunk: int, chain: int, count: int) -> np.ndarray:
        """Standard normals, or keys, for so many iterations of one chain."""
        rng, shape = stream(self.seed, purpose, chunk, chain), (count, self.noises, self.width)
        if self.keyed:
            return rng.bit_generator.random_raw(count * self.noises).view(np.int32).reshape(shape)
        return standard_normals(rng, shape, self.dtype)

    def close(self) -> None:
        """Let the worker thread go."""
        self.worker.shutdown(wait=False, cancel_futures=True)
