"""Prepare the rows, noise and step sizes of the next iterations, on the host.

A worker thread draws the random numbers and gathers the rows of the next blocks while compiled code
works on the present one, which it reads in place. If compiled code reads the data themselves in
place (`resident.py`), a block only says where their rows are. Random numbers are drawn in chunks of
iterations, whose length depends on the problem alone. Each chunk of each chain has its own stream.
So the chain does not depend on how the iterations are divided into blocks, steps and runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import tree
from .cores import ONE_CORE
from .dynamics import Noise
from .minibatches import Strata, minibatches_of
from .resident import page_aligned, resident, tensor
from .source import BLOCK_BYTES, Source
from .streams import AT_START, KEYS, NOISE, UNIFORMS, row_type, standard_normals, stream

BLOCK_MAX, SLOTS = 1024, 3
CHUNK_NUMBERS, CHUNK_MAX, CHUNK_BYTES = 1 << 17, 1024, 16 << 20


class Block(NamedTuple):
    """The inputs of some iterations. A part that nobody asked for is (), and costs nothing.

    The leading axes are (iteration, inner step). Noise and keys have one more inner step if the
    dynamics draws something before each iteration (`Noise.refresh`).
    """

    rows: Any  # further axes (chain, row, ...), with one chain if all share their minibatches
    place: Any  # or where they are in resident data; further axes (chain), or (chain, row)
    index: Any  # the numbers of these rows; further axes (chain, row)
    noise: Any  # further axes (chain, normals and uniforms laid end to end)
    key: Any  # further axes (chain, 2)
    schedule: Any  # step sizes and temperature: (iteration, column), or (iteration, column, chain)


class Wanted(NamedTuple):
    """What a block must hold besides rows and step sizes."""

    noise: Noise  # as the dynamics declares it
    inner_steps: int
    index: bool  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    key: bool


class Feeder:
    """Prepares blocks of iterations, each in a worker thread while the one before it is used.

    Parameters
    ----------
    schedule : sequence of numbers, functions of the iteration, and arrays (chains,)
        The columns of `Block.schedule`. An array has a number for each chain: then all columns
        have an axis of chains.
    x : nest of arrays
        The parameters that move, in chart coordinates, with a leading axis of chains.
    probabilities : array, optional
        How probable each row is, if rows are drawn with replacement.
    """

    def __init__(
        self,
        source: Source,
        n: int,
        wanted: Wanted,
        schedule: Sequence[float | np.ndarray | Callable[[int], float]],
        x: Any,
        seed: int,
        shared_minibatches: bool,
        minibatches: str | Strata = "independent",
        probabilities: np.ndarray | None = None,
    ) -> None:
        self.source, self.n, self.seed, self.schedule = source, n, seed, list(schedule)
        self.wanted, leaf = wanted, tree.leaves(x)[0]
        self.chains, self.dtype = leaf.shape[0], np.dtype(tf.as_dtype(leaf.dtype).as_numpy_dtype)
        self.is_shared = shared_minibatches
        self.row_chains = 1 if shared_minibatches else self.chains
        self.first = 0  # the number of the first of these chains among all
        self.L, self.steps = wanted.inner_steps, wanted.inner_steps + wanted.noise.refresh
        self.widths = [tree.size(nest) // self.chains for nest in wanted.noise[:2]]
        self.minibatches = minibatches_of(minibatches, source, n, seed, self.L, probabilities)
        self.resident = resident(source, self.minibatches, self.L)

        width = sum(self.widths)
        numbers = self.L * n + self.steps * (width + 2 * wanted.key)
        most = min(CHUNK_NUMBERS, CHUNK_BYTES // (4 * self.chains))
        self.chunk = 1 << int(np.clip(np.log2(most / numbers), 0, np.log2(CHUNK_MAX)))
        row_bytes = source.row_bytes if self.resident is None else 8
        nbytes = self.L * self.row_chains * n * row_bytes
        widest = max(width, tree.size(x) // self.chains)  # a block has as many draws, too
        nbytes += self.steps * self.chains * widest * self.dtype.itemsize
        self.size = int(np.clip(BLOCK_BYTES // nbytes, 1, BLOCK_MAX))
        self.arrays = [self.empty() for _ in range(SLOTS)]
        for arrays in self.arrays:
            arrays.schedule[:] = self.steps_at(None)
        self.blocks = [tree.map(tensor, arrays) for arrays in self.arrays]
        self.worker = ThreadPoolExecutor(1, "sgmcmc-feeder")
        self.pending: dict[int, Future[None]] = {}
        self.filled: int | None = None  # the block that was filled last, without the worker
        self.drawn: tuple[int, tuple] | None = None

    def serve(self, first: int) -> None:
        """Prepare blocks for other chains from now on: those with the numbers first, first + 1, ...

        No program may be using a block.
        """
        if first != self.first:
            for future in self.pending.values():
                future.cancel()
            wait([f for f in self.pending.values() if not f.cancelled()])
            self.pending, self.filled, self.drawn, self.first = {}, None, None, first

    def empty(self) -> Block:
        """Allocate the buffers of one block."""
        wanted, each, resident = self.wanted, (self.steps, self.chains), self.resident
        rows = self.L, self.row_chains, self.n
        place = rows if resident is not None and resident.by_row else rows[:2]

        def buffer(is_wanted: Any, shape: tuple[int, ...], dtype: Any) -> Any:
            return page_aligned((self.size, *shape), dtype) if is_wanted else ()

        shapes = self.source.shapes(*rows) if resident is None else {}
        width = sum(self.widths)
        return Block(
            {k: buffer(True, shape, self.source.dtypes[k]) for k, shape in shapes.items()},
            buffer(resident is not None, place, np.int32),
            buffer(wanted.index, rows, row_type(self.source.N)),
            buffer(width, (*each, width), self.dtype),
            buffer(wanted.key, (*each, 2), np.int32),
            buffer(True, self.steps_at(None).shape, self.dtype),
        )

    def steps_at(self, iteration: int | None) -> np.ndarray:
        """Return the schedule at one iteration; at None, what does not depend on it."""
        by_chain = any(np.ndim(h) for h in self.schedule if not callable(h))
        row = np.zeros((len(self.schedule), *[self.chains] * by_chain), self.dtype)
        for column, h in enumerate(self.schedule):
            if not callable(h):
                row[column] = h
            elif iteration is not None:
                row[column] = h(iteration)
        return row

    def reschedule(self, schedule: Sequence[Any]) -> None:
        """Replace the schedule by another of the same form, between two calls of a program."""
        self.schedule = list(schedule)
        for arrays in self.arrays:
            arrays.schedule[:] = self.steps_at(None)

    def data(self, iteration: int) -> Any:
        """Return the data that compiled code reads in place in this iteration, or ()."""
        return () if self.resident is None else self.resident.at(iteration)

    def left(self, iteration: int) -> float:
        """Return for how many iterations, from this one on, these data stay as they are."""
        return np.inf if self.resident is None else self.resident.left(iteration)

    def block(self, j: int, end: int) -> Block:
        """Return block j, and let the worker prepare those after it, up to iteration `end`."""
        if ONE_CORE:
            if self.filled != j:
                self.filled = None
                self.fill(j)
                self.filled = j
            return self.blocks[j % SLOTS]
        for k in [k for k in self.pending if not j <= k < j + SLOTS]:
            self.pending.pop(k).cancel()
        for k in range(j, j + SLOTS):
            if k not in self.pending and (k == j or k * self.size < end):
                self.pending[k] = self.worker.submit(self.fill, k)
        try:
            self.pending[j].result()
        except Exception:
            del self.pending[j]
            raise
        return self.blocks[j % SLOTS]

    @property
    def nbytes(self) -> int:
        """The bytes of all buffers."""
        blocks = sum(x.nbytes for x in tree.leaves(self.arrays))
        return blocks + (0 if self.resident is None else self.resident.nbytes)

    def ask_schedules(self, j: int, first: int, last: int) -> None:
        """Evaluate the schedules for iterations first ... last − 1 of block j, and no others."""
        for column, h in enumerate(self.schedule):
            if callable(h):
                steps = [h(j * self.size + i) for i in range(first, last)]
                column_of = self.arrays[j % SLOTS].schedule[first:last, column]
                column_of.T[...] = steps

    def fill(self, j: int) -> None:
        """Write block j to its buffers. This runs in the worker thread."""
        to, t, end = self.arrays[j % SLOTS], j * self.size, (j + 1) * self.size
        while t < end:
            chunk, skip = divmod(t, self.chunk)
            index, place, noise, key = self.random(chunk)
            count = min(self.chunk - skip, end - t)
            here = slice(t - j * self.size, t - j * self.size + count)
            there = slice(skip, skip + count)
            for buffer, drawn in zip(
                (to.place, to.index, to.noise, to.key), (place, index, noise, key)
            ):
                if len(buffer):
                    buffer[here] = drawn[there]
            if to.rows:
                self.source.gather(index[there], {k: out[here] for k, out in to.rows.items()})
            t += count

    def random(self, chunk: int) -> tuple[Any, ...]:
        """Return row numbers, places in resident data, noise and keys of a chunk of iterations."""
        if self.drawn is None or self.drawn[0] != chunk:
            self.drawn, by_row = None, self.resident is None or self.resident.by_row
            needs_rows = by_row or self.wanted.index
            index = self.of_chains(self.minibatches.rows, chunk) if needs_rows else ()
            place = index
            if not by_row:
                place = self.of_chains(self.resident.places, chunk)
            chunks = chunk, chunk, chunk
            noise, key = self.noise((NOISE, UNIFORMS, KEYS), chunks, self.chunk)
            self.drawn = chunk, (index, place, noise, key)
        return self.drawn[1]

    def of_chains(self, numbers: Callable[[int, int, int], np.ndarray], chunk: int) -> np.ndarray:
        """Return numbers of rows or of minibatches of a chunk, with axes of steps and chains."""
        count, L = self.chunk, self.L
        found, first = None, 0 if self.is_shared else self.first
        for c in range(self.row_chains):
            each = numbers(chunk, count * L, first + c)
            if found is None:
                shape = count, L, self.row_chains, *each.shape[1:]
                found = np.empty(shape, row_type(self.source.N))
            found[:, :, c] = each.reshape(count, L, *each.shape[1:])
        return found

    def noise_at_start(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw the noise and keys of one step, (chains, ...), for the initial state of chains."""
        noise, key = self.noise((AT_START,) * 3, (0, 1, 2), 1)
        return noise[0, 0], key[0, 0]

    def noise(
        self, purposes: Sequence[int], chunks: Sequence[int], count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw normals and uniforms, laid end to end, and keys, for `count` iterations."""
        each, dtype = (count, self.steps, self.chains), self.dtype
        noise = np.empty((*each, sum(self.widths)), dtype)
        key = np.empty((*each, 2 * self.wanted.key), np.int32)
        cut, shape = self.widths[0], (count, self.steps)
        for c in range(self.chains):
            normals, uniforms, words = (
                partial(stream, self.seed, purpose, chunk, self.first + c)
                for purpose, chunk in zip(purposes, chunks)
            )
            if self.widths[0]:
                noise[:, :, c, :cut] = standard_normals(normals(), (*shape, cut), dtype)
            if self.widths[1]:
                noise[:, :, c, cut:] = uniforms().random((*shape, self.widths[1]), dtype)
            if self.wanted.key:
                raw = words().bit_generator.random_raw(count * self.steps)
                key[:, :, c] = raw.view(np.int32).reshape(*shape, 2)
        return noise, key

    def close(self) -> None:
        """Stop the worker threads."""
        if self.resident is not None:
            self.resident.close()
        self.worker.shutdown(wait=False, cancel_futures=True)
