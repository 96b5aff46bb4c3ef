"""The partitions of arrays and data frames of Dask, as functions that load them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np


def is_of_dask(value: Any) -> bool:
    """Whether this is a data frame of Dask, or a dict of its arrays."""
    if isinstance(value, Mapping):
        return len(value) > 0 and all(hasattr(x, "to_delayed") for x in value.values())
    return hasattr(value, "to_delayed")


def partitions(value: Any, columns: Mapping[str, Any]) -> list[Callable[[], dict[str, Any]]]:
    """Return a function for each partition, which computes it where it is called."""
    if not isinstance(value, Mapping):
        return [partial(of_frame, part, columns) for part in value.to_delayed()]
    rows = {name: array.chunks[0] for name, array in value.items()}
    if len(set(rows.values())) > 1:
        raise ValueError(
            f"parts must be arrays of Dask with the same chunks of rows, not {rows}: call rechunk"
        )
    blocks = {
        name: array.rechunk(dict.fromkeys(range(1, array.ndim), -1)).to_delayed().ravel()
        for name, array in value.items()
    }
    count = len(next(iter(rows.values())))
    return [partial(of_arrays, {k: b[i] for k, b in blocks.items()}) for i in range(count)]


def of_frame(part: Any, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Compute a partition of a data frame, and return its columns as arrays."""
    frame = part.compute(scheduler="synchronous")
    chosen = columns or {name: name for name in frame.columns}
    return {
        name: frame[column if isinstance(column, str) else list(column)].to_numpy()
        for name, column in chosen.items()
    }


def of_arrays(blocks: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Compute a block of each array."""
    return {name: np.asarray(b.compute(scheduler="synchronous")) for name, b in blocks.items()}
