"""Data that compiled code reads in place, so that no minibatch has to be brought to it.

- If minibatches are taken in turn, they lie together in a copy of the data in shuffled order
  (`Shuffled`). Of data outside memory, parts are read and shuffled, one after the other
  (`Windows`); of a stream, in the order in which its rows come (`Streamed`).
- Otherwise, large rows are gathered from the arrays as they are, by their numbers (`InPlace`).
  Arrays that TensorFlow cannot read in place are copied.
- Small rows would be gathered at the speed of memory's latency. The host gathers those of each
  minibatch, in blocks (`feeder.py`). It does so, too, where small data change after each epoch.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from .cores import ONE_CORE
from .in_order import Reader
from .minibatches import InOrder, InWindows, Reshuffled
from .source import Source

# A logistic regression with 500 of 10⁶ rows a minibatch, µs a step on two cores (on one, 100 and
# 250 columns), of rows in a copy, gathered by compiled code, and gathered by the host:
#    54 columns   14.1         36.7         19.6
#   100 columns   14.7 (15.5)  24.5 (30.9)  27.5 (52.7)
#   250 columns   24.9 (32.4)  41.3 (62.8)  67.0 (116)
LARGE_ROW = 384  # bytes of a row, from which on compiled code gathers rows faster than the host
COPY_BYTES = 1 << 30  # of data, of which a copy is made at most
SMALL_BYTES = 1 << 19  # of copies in several orders, so that small data last for long calls
EXCHANGED_BYTES = 1 << 24  # of data in which it takes less than a part of an epoch to exchange rows
ALIGNED = 64  # bytes: TensorFlow reads arrays that start at a multiple of this
PAGE = 4096


class InPlace:
    """The arrays as they are, from which rows are gathered by their numbers."""

    by_row = True
    nbytes = 0  # copies of arrays that cannot be read in place are not counted

    def __init__(self, source: Source) -> None:
        self.data = {k: tensor(readable(x)) for k, x in source.arrays.items()}

    def at(self, iteration: int) -> dict[str, tf.Tensor]:
        """The data for this iteration."""
        return self.data

    def left(self, iteration: int) -> float:
        """The number of iterations, from this one on, for which `at` returns the same."""
        return np.inf

    def close(self) -> None:
        """Stop threads."""


class Shuffled:
    """A copy of the data in shuffled order, in which each minibatch is one piece.

    It is shuffled anew between two iterations. Small data are there several times, in `orders`
    that follow one another.
    """

    by_row = False

    def __init__(
        self, source: Source, minibatches: Reshuffled, inner: int, orders: int = 1
    ) -> None:
        self.source, self.minibatches, self.orders = source, minibatches, orders
        self.length = orders * minibatches.span // inner
        self.number: int | None = None
        self.written: int | None = None
        self.arrays, self.data = self.empty()

    def empty(self) -> tuple[dict[str, np.ndarray], dict[str, tf.Tensor]]:
        """Allocate arrays of minibatches, which TensorFlow reads in place."""
        source, each = self.source, (self.orders * self.minibatches.batches, self.minibatches.n)
        arrays = {
            k: page_aligned(shape, source.dtypes[k]) for k, shape in source.shapes(*each).items()
        }
        return arrays, {k: tensor(x) for k, x in arrays.items()}

    @property
    def nbytes(self) -> int:
        """The bytes of all buffers."""
        return sum(x.nbytes for x in self.arrays.values())

    def at(self, iteration: int) -> dict[str, tf.Tensor]:
        """The data for this iteration."""
        number = iteration // self.length
        if number != self.number:
            self.number = None
            self.fill(number, self.arrays)
            self.number = number
        return self.data

    def fill(self, number: int, arrays: dict[str, np.ndarray]) -> None:
        """Write the rows of all minibatches."""
        for k in range(number * self.orders, (number + 1) * self.orders):
            start = k % self.orders * self.minibatches.batches
            here = {name: x[start : start + self.minibatches.batches] for name, x in arrays.items()}
            rows, places = self.minibatches.order(k), self.minibatches.changed(k)
            is_next, self.written = self.written == k - 1, None
            if places is None or not is_next:
                self.source.gather(rows, here)
            else:
                new = {
                    name: np.empty((len(places), *x.shape[2:]), x.dtype) for name, x in here.items()
                }
                self.source.gather(rows.reshape(-1)[places], new)
                for name, x in here.items():
                    x.reshape(-1, *x.shape[2:])[places] = new[name]
            self.written = k

    def places(self, number: int, count: int, chain: int) -> np.ndarray:
        """Where the minibatches of a group are: (count,)."""
        found = self.minibatches.places(number, count, chain)
        order = (number * count + np.arange(count)) // self.minibatches.span % self.orders
        return found + (order * self.minibatches.batches).astype(found.dtype)

    def left(self, iteration: int) -> float:
        """The number of iterations, from this one on, for which `at` returns the same."""
        return self.length - iteration % self.length

    def close(self) -> None:
        """Stop threads."""


class Windows(Shuffled):
    """Shuffled parts of the data, the next of which is read while one is used, on two cores."""

    minibatches: Any

    def __init__(self, source: Source, minibatches: Any, inner: int) -> None:
        super().__init__(source, minibatches, inner)
        self.spare = (self.arrays, self.data) if ONE_CORE else self.empty()
        self.worker = ThreadPoolExecutor(1, "sgmcmc-windows")
        self.pending: tuple[int, Future[None]] | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of all buffers."""
        return super().nbytes * (1 if ONE_CORE else 2)

    def at(self, iteration: int) -> dict[str, tf.Tensor]:
        """The data for this iteration."""
        number = iteration // self.length
        if number != self.number:
            self.number = None
            if self.pending is None or self.pending[0] != number:
                self.read(number)
            _, read = self.pending
            self.pending = None
            read.result()
            (self.arrays, self.data), self.spare = self.spare, (self.arrays, self.data)
            self.number = number
            if not ONE_CORE:
                self.read(number + 1)
        return self.data

    def read(self, number: int) -> None:
        """Let the worker read a part, after what it is reading now."""
        if self.pending is not None:
            self.pending[1].cancel()
        self.pending = number, self.worker.submit(self.fill, number, self.spare[0])

    def fill(self, number: int, arrays: dict[str, np.ndarray]) -> None:
        """Write the rows of a part in shuffled order."""
        for each in (number, number + 1):
            self.source.expect(self.minibatches.starts(each), self.minibatches.piece)
        super().fill(number, arrays)

    def close(self) -> None:
        """Stop threads."""
        self.worker.shutdown(wait=False, cancel_futures=True)


class Streamed(Windows):
    """Parts of a stream, each in shuffled order, the next of which is read while one is used."""

    def __init__(self, source: Source, minibatches: InOrder, inner: int) -> None:
        super().__init__(source, minibatches, inner)
        self.reader = Reader(source)

    def fill(self, number: int, arrays: dict[str, np.ndarray]) -> None:
        """Write the rows of a part in shuffled order, as they come."""
        order = self.minibatches.shuffled(number)
        places, at = np.empty_like(order), 0
        places[order] = np.arange(len(order))
        for rows in self.reader.read(number * len(order), len(order)):
            count = len(next(iter(rows.values())))
            for name, x in arrays.items():
                x.reshape(-1, *x.shape[2:])[places[at : at + count]] = rows[name]
            at += count


def resident(source: Source, minibatches: Any, inner: int) -> Any:
    """What compiled code reads in place; None if the host brings rows to it."""
    if isinstance(minibatches, InOrder):
        return Streamed(source, minibatches, inner)
    if isinstance(minibatches, InWindows):
        return (Shuffled if minibatches.is_whole else Windows)(source, minibatches, inner)
    if source.is_outside:
        return None
    may_be_copied = source.N * source.row_bytes <= COPY_BYTES
    if isinstance(minibatches, Reshuffled) and may_be_copied:
        nbytes = source.N * source.row_bytes
        if minibatches.alike == 1:
            return Shuffled(source, minibatches, inner, max(1, SMALL_BYTES // nbytes))
        if nbytes >= EXCHANGED_BYTES:
            return Shuffled(source, minibatches, inner)
    if source.row_bytes >= LARGE_ROW and (
        may_be_copied or all(map(can_be_read, source.arrays.values()))
    ):
        return InPlace(source)
    return None


def can_be_read(x: np.ndarray) -> bool:
    """Whether TensorFlow can read an array in place, as a tensor of its own."""
    return x.flags.c_contiguous and x.flags.writeable and x.ctypes.data % ALIGNED == 0


def readable(x: np.ndarray) -> np.ndarray:
    """An array that TensorFlow can read in place: this one, or a copy."""
    if can_be_read(x):
        return x
    copied = page_aligned(x.shape, x.dtype)
    copied[...] = x
    return copied


def tensor(x: np.ndarray) -> tf.Tensor:
    """An array as a tensor that is not copied."""
    return tf.experimental.dlpack.from_dlpack(x.__dlpack__())


def page_aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Allocate an array that starts on a page, so that TensorFlow and XLA read it in place."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(nbytes + PAGE, np.uint8)
    start = -raw.ctypes.data % PAGE
    return raw[start : start + nbytes].view(dtype).reshape(shape)
