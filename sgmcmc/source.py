"""Read the rows of the data, from arrays in memory or outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from . import checks
from .outside import expect, is_outside

BLOCK_BYTES = 16 << 20


class Source:
    """A data set in memory or outside, whose rows are read as they are needed.

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

    buffer_rows: int | None = None  # that are shuffled together, if rows come in order
    is_elsewhere = False  # True if rows are on other machines
    stands_for: int | None = None  # the number of all rows, if these are a shard
    shards: list[int] | None = None  # the number of rows of each shard, if there are shards

    @property
    def all_rows(self) -> int:
        """The number of rows of the whole data set."""
        return self.stands_for or self.N

    def each(self, model: Any, function: Callable, *arguments: Any) -> list[tuple[int, Any]]:
        """Apply function(model, part, ...) to each part of the data, where that part is.

        Returns the number of the first row of each part, and what the function returned. On one
        machine there is one part. Arguments and results are arrays, and not tensors.
        """
        return [(0, function(model, self, *arguments))]

    def give_back(self) -> None:
        """Let other machines forget rows that they have loaded. They load them again if need be."""

    @property
    def given(self) -> Any:
        """What another sampler takes as `dataset`, without converting it again."""
        return self.arrays

    @property
    def is_outside(self) -> bool:
        """Whether some of the data are outside memory."""
        return any(map(is_outside, self.arrays.values()))

    def shapes(self, *leading: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array, with these leading axes in place of the rows."""
        return {k: (*leading, *v.shape[1:]) for k, v in self.arrays.items()}

    def gather(self, index: np.ndarray, out: dict[str, np.ndarray]) -> None:
        """Write the rows with these numbers to `out`."""
        for name, array in self.arrays.items():
            to = out[name]
            in_one_piece = isinstance(array, np.ndarray) and array.flags.c_contiguous
            if array.dtype == to.dtype and in_one_piece:  # else np.take copies the whole array
                np.take(array, index, axis=0, out=to, mode="clip")
            else:
                with np.errstate(over="ignore"):
                    to[...] = array[index]
            self.check(name, to.reshape(-1, *array.shape[1:]), index.reshape(-1))

    def expect(self, starts: np.ndarray, count: int) -> None:
        """Tell the system that so many rows from each of these on are read from files soon."""
        for array in self.arrays.values():
            if isinstance(array, np.memmap):
                expect(array, starts, count)

    def rows(self, start: int, stop: int) -> dict[str, tf.Tensor]:
        """Return the rows start ... stop − 1."""
        out = {}
        for name, array in self.arrays.items():
            with np.errstate(over="ignore"):
                part = array[start:stop].astype(self.dtypes[name], copy=False)
            self.check(name, part, np.arange(start, stop))
            out[name] = tf.convert_to_tensor(part)
        return out

    def check(self, name: str, rows: np.ndarray, index: np.ndarray) -> None:
        """Check that rows that were read from outside have no NaN and no infinite values."""
        array = self.arrays[name]
        if is_outside(array) and array.dtype.kind == "f":
            checks.finite(f"dataset[{name!r}]", rows, index, array)

    def probe(self, count: int) -> dict[str, tf.Tensor]:
        """Return the first rows, and those with the extremes of integers, which may be indices."""
        index = np.arange(count)
        for array in self.arrays.values():
            if count < self.N and array.dtype.kind in "iu" and not is_outside(array):
                ends = np.array([array.argmin(), array.argmax()]) // (array.size // self.N)
                index = np.concatenate([index, ends])
        return self.subset(index).rows(0, len(index))

    def some(self, count: int) -> np.ndarray:
        """Return the numbers of up to so many rows that tell data sets apart."""
        return np.unique(np.linspace(0, self.N - 1, min(count, self.N)).astype(np.int64))

    def pieces(self, nbytes: int = BLOCK_BYTES) -> Iterator[dict[str, tf.Tensor]]:
        """Yield all rows, in pieces of bounded size."""
        count = max(1, nbytes // max(1, self.row_bytes))
        for start in range(0, self.N, count):
            yield self.rows(start, min(start + count, self.N))

    def subset(self, index: np.ndarray) -> Source:
        """Return a source of these rows alone, held in memory."""
        out = {k: np.empty(s, self.dtypes[k]) for k, s in self.shapes(len(index)).items()}
        self.gather(index, out)
        return Source(out, self.dtype)
