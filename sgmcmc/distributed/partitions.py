"""The partitions of arrays and data frames of Dask, as shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import checks


@dataclass(frozen=True)
class Partition:
    """A partition of a data frame of Dask, or a block of each of its arrays.

    A worker calls it as it calls any function that loads a shard. `delayed` is a Delayed, or a dict
    of these by the name of the array. `is_elsewhere` is True if the partition may be in the memory
    of workers: then Dask must compute it, which knows where.
    """

    delayed: Any
    columns: Mapping[str, Any]
    is_elsewhere: bool = False

    def __repr__(self) -> str:
        return "a partition of Dask"

    def __call__(self) -> dict[str, Any]:
        """Compute the partition in this process."""
        return arrays_of(self.each(lambda x: x.compute(scheduler="synchronous")), self.columns)

    def on(self, client: Any, home: str) -> Any:
        """Let Dask compute the partition, and return a future of its arrays on this worker."""
        futures = self.each(client.compute)
        return client.submit(arrays_of, futures, self.columns, workers=[home], pure=False)

    def each(self, function: Callable) -> Any:
        """Apply a function to the Delayed, or to each of them."""
        if isinstance(self.delayed, Mapping):
            return {name: function(x) for name, x in self.delayed.items()}
        return function(self.delayed)


def is_delayed(value: Any) -> bool:
    """Whether this is a Delayed of Dask, which has any other attribute, too."""
    return hasattr(type(value), "__dask_graph__") and hasattr(type(value), "key")


def is_of_dask(value: Any) -> bool:
    """Whether this is a data frame of Dask, or a dict of its arrays."""
    if isinstance(value, Mapping):
        return len(value) > 0 and all(hasattr(x, "to_delayed") for x in value.values())
    return hasattr(value, "to_delayed") and not is_delayed(value)


def partitions(value: Any, columns: Mapping[str, Any]) -> list[Partition]:
    """Return each partition of a data frame, or the blocks of rows of arrays."""
    found = blocks(value) if isinstance(value, Mapping) else frames(value, columns)
    return [Partition(part, columns, is_persisted(value)) for part in found]


def frames(value: Any, columns: Mapping[str, Any]) -> list[Any]:
    """Return the partitions of a data frame."""
    if not hasattr(value, "columns"):
        raise TypeError(
            "parts must be a list, a data frame of Dask, or a dict of its arrays such as "
            f"{{'X': X, 'y': y}}, not {checks.described(value)}"
        )
    check_columns(columns, list(value.columns))
    return culled(value.to_delayed(optimize_graph=not is_persisted(value)))


def blocks(arrays: Mapping[str, Any]) -> list[Any]:
    """Return the blocks of rows of arrays with the same chunks, as dicts."""
    for name, array in arrays.items():
        if not hasattr(type(array), "chunks"):
            raise TypeError(
                f"parts[{name!r}] must be an array of Dask, not a {type(array).__name__}: pass a "
                "list with an entry for each shard"
            )
    rows = {name: array.chunks[0] for name, array in arrays.items()}
    if len(set(rows.values())) > 1:
        raise ValueError(
            f"parts must be arrays of Dask with the same chunks of rows, not {rows}: call rechunk"
        )
    each = []
    for array in arrays.values():
        whole = array.rechunk(dict.fromkeys(range(1, array.ndim), -1))
        each.append(culled(whole.to_delayed(optimize_graph=not is_persisted(arrays)).ravel()))
    return [dict(zip(arrays, block)) for block in zip(*each)]


def is_persisted(value: Any) -> bool:
    """Whether some of this is in the memory of workers.

    The optimised graph of such arrays lacks the futures, and cannot be computed.
    """
    try:
        from distributed import futures_of
    except ImportError:
        return False
    return bool(futures_of(dict(value) if isinstance(value, Mapping) else value))


def culled(parts: Sequence[Any]) -> list[Any]:
    """Return Delayed objects with what each of them needs of their graph, and no more."""
    from dask.delayed import Delayed
    from dask.optimization import cull

    found, shared, tasks = [], None, {}
    for part in parts:
        if (graph := part.dask) is not shared:  # those of one collection have one graph
            shared, tasks = graph, dict(graph)
        found.append(Delayed(part.key, cull(tasks, [part.key])[0]))
    return found


def arrays_of(value: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a data frame as arrays, and a dict of arrays as it is."""
    if isinstance(value, Mapping):
        return {k: x if isinstance(x, str) else np.asarray(x) for k, x in value.items()}
    if not hasattr(value, "columns"):
        raise TypeError(
            f"a partition must be a data frame or a dict of arrays, not {checks.described(value)}"
        )
    known = list(value.columns)
    check_columns(columns, known)
    chosen = columns or {name: name for name in known}
    return {
        name: value[column if isinstance(column, str) else list(column)].to_numpy()
        for name, column in chosen.items()
    }


def check_columns(columns: Mapping[str, Any], known: Sequence[str]) -> None:
    """Check that a data frame has the columns that are to be arrays."""
    for entry, names in columns.items():
        for name in [names] if isinstance(names, str) else names:
            if name not in known:
                raise ValueError(
                    f"{entry}: there is no column {name!r}{checks.nearest(name, known)}; there are "
                    f"{', '.join(map(repr, known[:10]))}{', ...' * (len(known) > 10)}"
                )
