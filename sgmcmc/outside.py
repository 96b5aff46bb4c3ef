"""Arrays that are not in memory: memory maps, and array-likes such as those of h5py and zarr."""

from __future__ import annotations

from typing import Any

import numpy as np


class Outside:
    """An array-like that is read by slices, or by sorted row numbers where it takes those."""

    def __init__(self, value: Any) -> None:
        self.value, self.takes_numbers = value, True
        self.shape, self.dtype = tuple(map(int, value.shape)), np.dtype(value.dtype)
        self.ndim, self.size = len(self.shape), int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        if isinstance(rows, slice):
            return np.asarray(self.value[rows])
        wanted, places = np.unique(rows, return_inverse=True)
        return self.take(wanted)[places.reshape(rows.shape)]

    def take(self, wanted: np.ndarray) -> np.ndarray:
        """The rows of these numbers, which increase."""
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
