"""Arrays that are not in memory: memory maps, and array-likes such as those of h5py and zarr."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

GAP_BYTES = 4096  # to read this many unwanted bytes takes as long as to select one more row
PIECE = 16  # rows on average, of which a slice is read rather than each row
SLICE_BYTES = 16 << 20  # the most bytes that are read as one slice
SELECTED = 500  # rows selected at a time, as h5py's time grows with the square of their number


class Outside:
    """An array outside memory, which is read by slices or, if it can, by sorted row numbers."""

    def __init__(self, value: Any) -> None:
        self.value, self.takes_numbers = value, True
        self.shape, self.dtype = tuple(map(int, value.shape)), np.dtype(value.dtype)
        self.ndim, self.size = len(self.shape), int(np.prod(self.shape))
        self.row_bytes = max(1, int(np.prod(self.shape[1:])) * self.dtype.itemsize)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        if isinstance(rows, slice):
            return np.asarray(self.value[rows])
        wanted, places = np.unique(rows, return_inverse=True)
        return self.take(wanted)[places.reshape(rows.shape)]

    def take(self, wanted: np.ndarray) -> np.ndarray:
        """Read the rows with these numbers, which increase.

        Rows that lie close together, or in few pieces, are read as slices that cover them; others
        are selected, SELECTED at a time. Arrays of Zarr and Parquet select all rows in one call:
        its time is linear in their number, and each call decompresses a chunk once.
        """
        if getattr(self.value, "in_chunks", False):  # `Columns`
            return self.value[wanted]
        if type(self.value).__module__.startswith("zarr"):
            return self.select(wanted)
        others = int(wanted[-1]) + 1 - int(wanted[0]) - len(wanted)
        gaps = np.flatnonzero(np.diff(wanted) * self.row_bytes > GAP_BYTES)
        if others * self.row_bytes <= GAP_BYTES * len(wanted):
            slices = wanted // max(1, SLICE_BYTES // self.row_bytes)
            parts, read = np.split(wanted, np.flatnonzero(np.diff(slices)) + 1), self.pick
        elif PIECE * len(gaps) <= len(wanted):
            parts, read = np.split(wanted, gaps + 1), self.pick
        else:
            parts, read = np.split(wanted, range(SELECTED, len(wanted), SELECTED)), self.select
        return np.concatenate([read(part) for part in parts])

    def pick(self, wanted: np.ndarray) -> np.ndarray:
        """Read the rows with these numbers from one slice that covers them."""
        first = int(wanted[0])
        return self[first : int(wanted[-1]) + 1][wanted - first]

    def select(self, wanted: np.ndarray) -> np.ndarray:
        """Read the rows with these numbers, and no others."""
        if self.takes_numbers:
            try:
                found = np.asarray(self.value[wanted])
                if found.shape == (len(wanted), *self.shape[1:]):
                    return found
            except Exception:  # of any kind: if the file cannot be read, that fails again below
                pass
            self.takes_numbers = False
        return np.concatenate([self[i : i + 1] for i in wanted.tolist()])


def read_by_slices(value: Any) -> bool:
    """True if this appears to be an array outside memory.

    Arrays in memory are NumPy's, or have `__dlpack__`. Those of pandas are indexed by labels, and
    are not read by slices.
    """
    return (
        not isinstance(value, (np.ndarray, np.generic))
        and isinstance(getattr(value, "dtype", None), np.dtype)
        and isinstance(getattr(value, "shape", None), tuple)
        and len(value.shape) > 0
        and hasattr(value, "__getitem__")
        and not any(hasattr(value, name) for name in ("__dlpack__", "iloc"))
    )


def is_outside(array: Any) -> bool:
    """True if the rows of this array, which was checked, are read only when they are needed."""
    return isinstance(array, (np.memmap, Outside))


def expect(array: np.memmap, starts: np.ndarray, count: int) -> None:
    """Let the system read pieces of a memory map ahead, where it can."""
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is None or not hasattr(mmap, "MADV_WILLNEED") or array.ndim == 0:
        return
    begin = array.ctypes.data - np.frombuffer(base, np.uint8).ctypes.data
    size, stride = len(base), array.strides[0]
    for start in starts.tolist():
        first = (begin + start * stride) // mmap.PAGESIZE * mmap.PAGESIZE
        length = min(count * stride + mmap.PAGESIZE, size - first)
        if first >= 0 and length > 0:
            base.madvise(mmap.MADV_WILLNEED, first, length)
