"""What a worker does with shards: it loads them, keeps them, and works on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow as tf

from .. import checks
from ..columns import NoRows, parquet
from ..model import Model
from ..sampler import State
from ..source import Source
from .tilted import Tilt, Tilted
from .worker import Recipe, Round, advance, let_go, plan_of

HDF5 = ".h5", ".hdf5"
Part = Mapping[str, Any] | str | Path | Callable[[], Mapping[str, Any]]
STALE = 600.0  # seconds without use, after which shards of a run that has not ended are dropped
lock = threading.Lock()  # of what follows. It is never held while a shard is loaded
loaded: dict[tuple[str, int], Held] = {}  # in this process
unloaded: set[str] = set()  # the tokens of data that are done with
models: WeakKeyDictionary[Source, tuple[str, Model]] = WeakKeyDictionary()  # with the run's name


def load(part: Part, columns: Mapping[str, Any], number: int) -> dict[str, Any] | None:
    """Load a shard, or open it: arrays of one length, by name. None for a file without rows."""
    named = "a function" if callable(part) else repr(part) if not isinstance(part, Mapping) else ""
    try:
        found = part() if callable(part) else part
        if isinstance(found, (str, Path)):
            return parquet(str(found), **columns)
        return {k: opened(v) if isinstance(v, (str, Path)) else v for k, v in found.items()}
    except NoRows:
        return None
    except Exception as error:
        raise ValueError(
            f"dataset: shard {number} ({named or 'a dict'}) cannot be read: {checks.summary(error)}"
        ) from error


def opened(path: str | Path) -> Any:
    """Open an array in a file, of which rows are read as they are needed."""
    path = str(path)
    if path.endswith(".npy"):
        return np.load(here(path), mmap_mode="r", allow_pickle=False)
    for ending in HDF5:
        file, found, name = path.partition(ending + "/")
        if found:
            import h5py

            return h5py.File(here(file + ending), "r")[name]
    import zarr

    return zarr.open_array(path, mode="r")


def here(path: str) -> str:
    """Return the path of a file on this machine: a copy, if its URL is given."""
    if "://" not in path:
        return path
    import fsspec

    return fsspec.open_local(f"simplecache::{path}")


class Where(NamedTuple):
    """A shard, as workers are told of it. `token` is a name for the whole data, of N rows.

    `beside` are the numbers of all shards that have their home there.
    """

    token: str
    number: int
    beside: tuple[int, ...]
    columns: Mapping[str, Any]
    dtype: str
    N: int | None


class Held:
    """A shard that a process has loaded, or is loading; `source` is None if it has no rows."""

    def __init__(self) -> None:
        self.lock, self.used, self.is_known = threading.Lock(), 0.0, False
        self.source: Source | None = None


def shard(where: Where, part: Part) -> Source | None:
    """Return a shard that this process has loaded, or load it. None if it has no rows."""
    with lock:
        held = place_of(where)
    with held.lock:  # others go on meanwhile
        if not held.is_known:
            held.source, held.is_known = sourced(where, part), True
        held.used = time.monotonic()
        if held.source is not None:
            held.source.stands_for = where.N
        return held.source


def place_of(where: Where) -> Held:
    """Return the place of a shard. Those of the same data that are at home elsewhere are dropped.

    Those of other data stay until they are unloaded, as another run may need them.
    """
    at_home, now = {where.number, *where.beside}, time.monotonic()
    drop(
        key
        for key, held in list(loaded.items())
        if (key[0] == where.token and key[1] not in at_home)
        or (key[0] != where.token and held.is_known and now - held.used > STALE)
    )
    if where.token in unloaded:  # its run was interrupted, and nobody would drop it
        return Held()
    return loaded.setdefault((where.token, where.number), Held())


def sourced(where: Where, part: Part) -> Source | None:
    """Load a shard as a source of rows; None if it has none."""
    found, dtype = load(part, where.columns, where.number), tf.as_dtype(where.dtype)
    if found and all(np.shape(x)[:1] == (0,) for x in found.values()):
        return None
    try:
        return None if found is None else Source(checks.dataset(found, dtype), dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(f"shard {where.number}: {error}") from None


def on_shard(where: Where, part: Part, function: Callable, arguments: tuple) -> Any:
    """Call function(shard, ...) on a worker. None if the shard has no rows."""
    source = shard(where, part)
    return None if source is None else function(source, *arguments)


async def unload(token: str) -> None:
    """Forget the shards of data that are done with."""
    with lock:
        unloaded.add(token)
        drop([key for key in loaded if key[0] == token])


def drop(keys: Iterable[tuple[str, int]]) -> None:
    """Forget shards, with the samplers that were made with them."""
    for key in keys:
        source = loaded.pop(key).source
        if source is not None:
            let_go(source)


def look(source: Source) -> dict[str, Any]:
    """Say how many rows a shard has, and of which form."""
    described = [(k, (tuple(x.shape[1:]), source.dtypes[k].str)) for k, x in source.arrays.items()]
    return {"rows": source.N, "arrays": sorted(described)}


def pick(source: Source, index: np.ndarray) -> dict[str, np.ndarray]:
    """Return some rows of a shard."""
    return source.subset(index).arrays


def of_model(source: Source, recipe: Recipe, function: Callable, arguments: tuple) -> Any:
    """Call function(model, shard, ...), with the model of a sampler."""
    known = models.get(source)
    if known is None or known[0] != recipe.token:
        known = models[source] = recipe.token, plan_of(recipe, source).model
    return function(known[1], source, *arguments)


def visit(
    source: Source,
    recipe: Recipe,
    chains: Sequence[int],
    state: State,
    until: int,
    number: int,
    tilt: np.ndarray | None,
) -> Round:
    """Make a round of one chain on a shard, whose curvature is corrected by a matrix."""
    if tilt is None:
        return advance(recipe, chains, state, until, source, number)
    tilted = state._replace(estimator=Tilt(state.estimator, tilt))
    found = advance(recipe, chains, tilted, until, source, number, Tilted())
    return found._replace(state=found.state._replace(estimator=state.estimator))
