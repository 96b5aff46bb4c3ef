"""What a worker does with shards: it loads them, keeps them, and works on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import checks
from ..columns import parquet
from ..sampler import State
from ..source import Source
from .tilted import Tilt, Tilted
from .worker import Recipe, Round, advance, let_go, plan_of

HDF5 = ".h5", ".hdf5"
Part = Mapping[str, Any] | str | Path | Callable[[], Mapping[str, Any]]
lock = threading.Lock()
loaded: dict[tuple[str, int], Source] = {}  # in this process
plans: dict[Source, tuple[str, Any]] = {}  # by shard, with the name of the run


def load(part: Part, columns: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Load a shard, or open it: arrays of one length, by name."""
    named = "a function" if callable(part) else repr(part) if not isinstance(part, Mapping) else ""
    try:
        found = part() if callable(part) else part
        if isinstance(found, (str, Path)):
            return parquet(str(found), **columns)
        return {k: opened(v) if isinstance(v, (str, Path)) else v for k, v in found.items()}
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


def shard(where: Where, part: Part) -> Source:
    """Return a shard that this process has loaded, or load it."""
    key, dtype = (where.token, where.number), tf.as_dtype(where.dtype)
    at_home = {key, *((where.token, i) for i in where.beside)}
    with lock:
        drop([old for old in loaded if old not in at_home])
        if key not in loaded:
            found = load(part, where.columns, where.number)
            try:
                loaded[key] = Source(checks.dataset(found, dtype), dtype)
            except (TypeError, ValueError) as error:
                raise type(error)(f"shard {where.number}: {error}") from None
        loaded[key].stands_for = where.N
        return loaded[key]


def on_shard(where: Where, part: Part, function: Callable, arguments: tuple) -> Any:
    """Call function(shard, ...) on a worker."""
    return function(shard(where, part), *arguments)


async def unload(token: str) -> None:
    """Forget the shards of data that are done with."""
    with lock:
        drop([key for key in loaded if key[0] == token])


def drop(keys: Iterable[tuple[str, int]]) -> None:
    """Forget shards, with the models and samplers that were made with them."""
    for key in keys:
        source = loaded.pop(key)
        plans.pop(source, None)
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
    known = plans.get(source)
    if known is None or known[0] != recipe.token:
        known = plans[source] = recipe.token, plan_of(recipe, source)
    return function(known[1].model, source, *arguments)


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
