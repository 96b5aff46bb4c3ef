"""Arrays that are not in memory: memory maps, and array-likes such as those of h5py and zarr."""

from __future__ import annotations

from typing import Any

import numpy as np

GAP_BYTES = 4096  # reading so many bytes that are not wanted is as fast as selecting one more row
SLICE_BYTES = 16 << 20  # the most that one covering slice reads
SELECTED = 500  # rows in one selection: the time of h5py grows with the square of their number


class Outside:
    """An array-like that is read by slices, or by sorted row numbers where it takes those."""

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
        """The rows of these numbers, which increase.

        Rows that lie close together are picked from slices that cover them, others are selected.
        Zarr takes any selection: its time is linear, and it decompresses each chunk once a call.
        """
        if type(self.value).__module__.startswith("zarr"):
            return self.select(wanted)
        others = int(wanted[-1]) + 1 - int(wanted[0]) - len(wanted)
        if others * self.row_bytes <= GAP_BYTES * len(wanted):
            slices = wanted // max(1, SLICE_BYTES // self.row_bytes)
            parts, read = np.split(wanted, np.flatnonzero(np.diff(slices)) + 1), self.pick
        else:
            parts, read = np.split(wanted, range(SELECTED, len(wanted), SELECTED)), self.select
        return np.concatenate([read(part) for part in parts])

    def pick(self, wanted: np.ndarray) -> np.ndarray:
        """The rows of these numbers, from one slice."""
        first = int(wanted[0])
        return self[first : int(wanted[-1]) + 1][wanted - first]

    def select(self, wanted: np.ndarray) -> np.ndarray:
        """The rows of these numbers, and no others."""
        if self.takes_numbers:
            try:
                found = np.asarray(self.value[wanted])
                if found.shape == (len(wanted), *self.shape[1:]):
                    return found
            except Exception:  # whatever it is: if reading fails, it fails again below
                pass
            self.takes_numbers = False
        return np.concatenate([self[i : i + 1] for i in wanted.tolist()])


def read_by_slices(value: Any) -> bool:
    """Whether this is an array-like that is not in memory, as far as can be told.

    Arrays in memory are NumPy's, or have `__dlpack__`; those of pandas are indexed by labels.
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
    """Whether the rows of this checked array are read as they are wanted."""
    return isinstance(array, (np.memmap, Outside))
