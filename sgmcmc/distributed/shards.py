"""Data in shards, each of which a worker loads itself."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import tensorflow as tf

from .. import checks
from .cluster import tell
from .homes import Homes
from .loading import Part, Where, look, on_shard, pick, unload
from .partitions import Partition, culled, is_delayed, is_of_dask, partitions
from .sending import see_pickled
from .tasks import LOST, Tasks


class Shards:
    """Data in parts that workers load themselves: pass it as `dataset`, with a `client`.

    No file is read here or sent through the scheduler: a worker loads the shards that it is to work
    on, and keeps them; others take them over if it is lost. Arrays that are given as such are sent
    to the workers once, and a sample of rows comes back, for a checksum and for step sizes (up to
    some 300 MB): these pass through the scheduler, unless the client was made with
    `direct_to_workers=True`. Have more chains than workers, so that few workers wait for one. Of
    files, and of more than 64 MB of arrays, a worker shuffles parts of 32 MB at a time; of fewer it
    has a shuffled copy. So it needs the memory of its shards and 200 MB. Zarr decodes its files by
    the codecs that they name: open only those that you trust.

    The number of rows may differ from shard to shard, and so may what is in them. The mode is
    searched for on all shards, each of which returns its sum of gradients. A chain then makes
    rounds. In each it visits one shard, which is drawn with a probability proportional to its rows,
    and takes all minibatches from there, with weights for all N rows.

    With control variates, rounds may be long: the gradient at the mode is that of all shards, and
    the curvature there is corrected to that of all. (Of more than 300 parameters, its diagonal is,
    and a `TuningWarning` says if shards differ much in the rest, which makes draws too wide.)
    Without them, a chain that stays on a shard settles on the posterior of that shard alone, and
    draws of many rounds have the variance of the posterior times the number of shards. So
    `round_iterations` must then be given, and be short: visits may make draws wider by a share of
    `bias` of the posterior's variance. That is measured before the run, and longer rounds are
    refused.

    The draws depend on the seed and on `round_iterations`, but not on the number of workers. The
    default of `minibatch_size` is at most the rows of the smallest shard here. Shards without rows
    are left out.

    Draws remember their shards and their client, and `diagnose` loads the shards once more: it
    needs a `distributed.Client` that is still open.

    Parameters
    ----------
    parts : list
        One entry for each shard. A path or URL of a Parquet file, or of a folder of such files,
        that workers can read; a dict of arrays, paths or URLs by name: of `.npy` files, of Zarr
        arrays, or of HDF5 data sets as in "rows.h5/X" (workers copy files of URLs); or a function
        without arguments that returns such a dict, which a worker calls; or a Delayed of Dask of
        such a dict or of a data frame. In place of the list, a data frame of Dask, or a dict of its
        arrays, each partition of which is a shard. A worker computes it by itself. Delayed, and
        what was persisted, are computed by Dask, and then in memory twice.
    round_seconds : float
        About how long a round is, if `round_iterations` is not given. It is measured once how many
        iterations that is, and a run has at least 20 rounds; `settings["round_iterations"]` has the
        number, which gives the same draws again.
    round_iterations : int, optional
        The number of iterations of a round.
    **columns : str or list of str
        For Parquet and data frames: which columns make an array, as in `parquet`.

    Examples
    --------
    >>> import numpy as np, sgmcmc
    >>> def load():  # a worker calls this
    ...     return {"x": np.random.default_rng(1).normal(5, 1, 1000)}
    >>> sgmcmc.Shards([load, {"x": np.full(500, 5.0)}], round_iterations=1000)
    Shards(2 parts)
    """

    def __init__(
        self,
        parts: Iterable[Part] | Any,
        /,
        *,
        round_seconds: float = 2.0,
        round_iterations: int | None = None,
        **columns: str | Sequence[str],
    ) -> None:
        check_names(columns)
        self.parts = parts_of(parts, columns)
        takers = [part for part in self.parts if isinstance(part, (str, Path, Partition))]
        if columns and (isinstance(parts, Mapping) or not takers):
            raise TypeError(
                f"Shards() has no argument {next(iter(columns))!r}{guess(columns)}: columns are "
                "chosen of Parquet files and data frames alone, and parts has none"
            )
        self.columns = columns
        self.round_seconds = checks.number("round_seconds", round_seconds, above=0)
        self.round_iterations = (
            None if round_iterations is None else checks.whole("round_iterations", round_iterations)
        )

    def __repr__(self) -> str:
        return f"Shards({len(self.parts)} parts)"


def parts_of(value: Any, columns: Mapping[str, Any]) -> list[Any]:
    """Return what a worker loads each shard by."""
    if is_of_dask(value):
        return list(partitions(value, columns))
    wanted = (
        "parts must be a list with an entry for each shard, such as paths of Parquet files, or a "
        "data frame or a dict of arrays of Dask"
    )
    if isinstance(value, (str, Path, Mapping)) or is_delayed(value):
        raise ValueError(f"{wanted}, not one {type(value).__name__}")
    parts = list(value)
    if not parts:
        raise ValueError(f"{wanted}, and this one is empty")
    for i, part in enumerate(parts):
        if is_delayed(part):  # Dask knows what is in memory already
            parts[i] = Partition(culled([part])[0], columns, is_elsewhere=True)
        elif not (isinstance(part, (Mapping, str, Path)) or callable(part)):
            raise TypeError(
                f"parts[{i}] must be a path, a dict of arrays or paths, a function that returns "
                f"one, or a Delayed of Dask, not {checks.described(part)}"
            )
    return parts


def check_names(columns: Mapping[str, Any]) -> None:
    """Check that these are names of columns, and not other arguments that were misspelled."""
    for entry, names in columns.items():
        if not isinstance(names, str) and not (
            isinstance(names, (list, tuple)) and names and all(isinstance(k, str) for k in names)
        ):
            raise TypeError(
                f"{entry} must be the name of a column or a list of names, not "
                f"{checks.described(names)}{guess([entry])}"
            )


def guess(names: Iterable[str]) -> str:
    """Return which argument of Shards may have been meant, in brackets, or an empty text."""
    return checks.nearest(next(iter(names)), ("round_seconds", "round_iterations"))


class Column:
    """An array whose rows are in shards: those that are wanted come from the workers."""

    in_chunks = True  # many rows are read in one call

    def __init__(self, data: Sharded, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        self.data, self.name, self.shape, self.dtype = data, name, shape, np.dtype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        return self.data.take(np.asarray(rows))[self.name]


class Sharded:
    """The shards of a run on a cluster: how many rows they have, and work on each of them.

    Shards without rows are an error; or they are left out, and the others count from 0 on.
    """

    def __init__(
        self, shards: Shards, client: Any, dtype: tf.DType, leave_out: bool = False
    ) -> None:
        self.shards, self.client, self.dtype = shards, client, dtype
        self.token = uuid.uuid4().hex
        self.N: int | None = None
        self.sent: dict[int, Any] = {}  # futures of what shards are loaded by
        self.numbers = list(range(len(shards.parts)))  # in the list of parts
        self.homes = Homes(client, self.numbers)
        self.home_of: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # by future
        self.last: tuple[bytes, dict[str, np.ndarray]] = b"", {}
        try:
            self.see(self.all(look, dict.fromkeys(self.numbers, ())), leave_out)
        except BaseException:  # also if it was interrupted
            self.close()
            raise

    def see(self, looks: Sequence[Any], leave_out: bool) -> None:
        """Take notice of what is in the shards."""
        numbers = [i for i, found in enumerate(looks) if found is not None]
        if not numbers or (len(numbers) < len(looks) and not leave_out):
            empty = next(i for i, found in enumerate(looks) if found is None)
            which = f"shard {empty} has no rows" if numbers else "none of the shards has rows"
            raise ValueError(f"dataset: {which}")
        self.homes.keep(numbers)
        self.numbers, seen = numbers, [looks[i] for i in numbers]
        self.rows = np.array([found["rows"] for found in seen])
        for i, found in zip(numbers, seen):
            if found["arrays"] != seen[0]["arrays"]:
                raise ValueError(
                    f"dataset: all shards must have the same arrays, but shard {i} has "
                    f"{found['arrays']}, and shard {numbers[0]} {seen[0]['arrays']}"
                )
        self.ends = np.cumsum(self.rows)
        self.N = N = int(self.ends[-1])
        self.arrays = {
            k: Column(self, k, (N, *shape), dtype) for k, (shape, dtype) in seen[0]["arrays"]
        }

    def call(self, function: Callable, number: int, *arguments: Any) -> Any:
        """Let the home of a shard call function(shard, ...), and return a future.

        No other worker may do it, as it would load the shard. If the home is lost, see `waits`.
        """
        number = self.numbers[number]
        part, home = self.part(number), self.homes.of(number)
        beside = tuple(i for i, other in self.homes.home.items() if other == home)
        where = Where(self.token, number, beside, self.shards.columns, self.dtype.name, self.N)
        task = where, part, function, arguments
        future = self.client.submit(on_shard, *task, pure=False, workers=[home])
        self.home_of[future] = home
        return future

    def waits(self, future: Any) -> bool:
        """Whether the worker that is to do this is gone."""
        return self.home_of[future] not in self.client.nthreads()

    def part(self, number: int) -> Any:
        """Return what a worker loads a shard by. All but paths are sent once, to its home."""
        part = self.shards.parts[number]
        if isinstance(part, (str, Path)):
            return part
        if number not in self.sent:
            home = self.homes.of(number)
            if isinstance(part, Partition) and part.is_elsewhere:
                self.sent[number] = part.on(self.client, home)
            else:
                if callable(part):
                    see_pickled({f"parts[{number}] of Shards": part})
                part = dict(part) if isinstance(part, Mapping) else part
                [self.sent[number]] = self.client.scatter([part], workers=[home], hash=False)
        return self.sent[number]

    def all(self, function: Callable, arguments: Mapping[int, tuple]) -> list[Any]:
        """Call function(shard, ...) for some shards, by their numbers, and wait for the results."""
        if self.client.status != "running":
            raise ValueError(
                "dataset: workers read the rows of Shards, and the client of these is closed. Pass "
                "a distributed.Client to the sampler, and keep it open"
            )
        tasks = Tasks(lambda i: f"had shard {self.numbers[i]}", self.waits)
        found: dict[int, Any] = {}
        try:
            for i, own in arguments.items():
                tasks.start(i, self.call(function, i, *own))
            while tasks.running:
                i, found[i] = tasks.next()
                if found[i] is LOST:
                    self.sent.clear()  # it may be lost with a worker
                    tasks.start(i, self.call(function, i, *arguments[i]))
        finally:
            tasks.cancel()
        return [found[i] for i in arguments]

    def close(self) -> None:
        """Let the workers forget the shards, without waiting for them.

        If rows are wanted once more, as `diagnose` does, the shards are loaded again.
        """
        tell(self.client, unload, self.token)
        self.token = uuid.uuid4().hex
        self.sent.clear()

    def take(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """Return the rows with these numbers, of all arrays."""
        key = index.tobytes()
        if self.last[0] != key:
            owner = np.searchsorted(self.ends, index, side="right")
            numbers = np.unique(owner)
            first = self.ends - self.rows
            found = self.all(pick, {i: (index[owner == i] - first[i],) for i in numbers.tolist()})
            out = {k: np.empty((len(index), *a.shape[1:]), a.dtype) for k, a in self.arrays.items()}
            for i, rows in zip(numbers, found):
                for k, x in rows.items():
                    out[k][owner == i] = x
            self.last = key, out
        return self.last[1]
