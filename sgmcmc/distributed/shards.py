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
from .partitions import is_of_dask, partitions
from .tasks import LOST, Tasks


class Shards:
    """Data in parts that workers load themselves: pass it as `dataset`, with a `client`.

    No shard is sent through the scheduler. A worker loads the shards that it is to work on, and
    keeps them; others take them over if it is lost. Have more chains than workers, so that few
    workers wait for one. Of files, and of more than 64 MB of arrays, a worker shuffles parts of
    32 MB at a time; of fewer it has a shuffled copy. So it needs the memory of its shards and
    200 MB. Zarr decodes its files by the codecs that they name: open only those that you trust.

    The number of rows may differ from shard to shard, and so may what is in them. The mode is
    searched for on all shards, each of which returns its sum of gradients. A chain then makes
    rounds. In each it visits one shard, which is drawn with a probability proportional to its rows,
    and takes all minibatches from there, with weights for all N rows.

    With control variates, rounds may be long: the gradient at the mode is that of all shards, and
    with up to 300 parameters the curvature there is corrected to that of all. (With more, draws are
    a little too wide if shards differ much.) Without them, a chain that stays on a shard
    settles on the posterior of that shard alone, and draws of many rounds have the variance of the
    posterior times the number of shards. So `round_iterations` must then be given, and be short:
    the fastest coordinate of the chain must take at least ten rounds to forget where it was. That
    is measured before the run, and longer rounds are refused.

    The draws depend on the seed and on `round_iterations`, but not on the number of workers.

    Parameters
    ----------
    parts : list
        One entry for each shard. A path or URL of a Parquet file, or of a folder of such files,
        that workers can read; a dict of arrays, paths or URLs by name: of `.npy` files, of Zarr
        arrays, or of HDF5 data sets as in "rows.h5/X" (workers copy files of URLs); or a function
        without arguments that returns such a dict, which a worker calls. In place of the list, a
        data frame of Dask, or a dict of its arrays, each partition of which is a shard.
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
        if is_of_dask(parts):
            parts, columns = partitions(parts, columns), {}
        self.parts = list(parts) if not isinstance(parts, (str, Path, Mapping)) else []
        if not self.parts:
            raise ValueError(
                "parts must be a list with an entry for each shard, such as paths of Parquet "
                "files, or a data frame or a dict of arrays of Dask"
            )
        for i, part in enumerate(self.parts):
            if not (isinstance(part, (Mapping, str, Path)) or callable(part)):
                raise TypeError(
                    f"parts[{i}] must be a path, a dict of arrays or paths, or a function that "
                    f"returns one, not {checks.described(part)}"
                )
        self.columns = columns
        self.round_seconds = checks.number("round_seconds", round_seconds, above=0)
        self.round_iterations = (
            None if round_iterations is None else checks.whole("round_iterations", round_iterations)
        )

    def __repr__(self) -> str:
        return f"Shards({len(self.parts)} parts)"


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
    """The shards of a run on a cluster: how many rows they have, and work on each of them."""

    def __init__(self, shards: Shards, client: Any, dtype: tf.DType) -> None:
        self.shards, self.client, self.dtype = shards, client, dtype
        self.token, self.N = uuid.uuid4().hex, None
        self.sent: dict[int, Any] = {}  # futures of shards that are in memory here
        self.homes = Homes(client, len(shards.parts))
        self.home_of: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # by future
        self.last: tuple[bytes, dict[str, np.ndarray]] = b"", {}
        looks = self.all(look, dict.fromkeys(range(len(shards.parts)), ()))
        self.rows = np.array([found["rows"] for found in looks])
        for i, found in enumerate(looks):
            if found["arrays"] != looks[0]["arrays"]:
                raise ValueError(
                    f"dataset: all shards must have the same arrays, but shard {i} has "
                    f"{found['arrays']}, and shard 0 {looks[0]['arrays']}"
                )
        self.ends = np.cumsum(self.rows)
        self.N = N = int(self.ends[-1])
        self.arrays = {
            k: Column(self, k, (N, *shape), dtype) for k, (shape, dtype) in looks[0]["arrays"]
        }

    def call(self, function: Callable, number: int, *arguments: Any) -> Any:
        """Let the home of a shard call function(shard, ...), and return a future.

        No other worker may do it, as it would load the shard. If the home is lost, see `waits`.
        """
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
        """Return what a worker loads a shard by. Arrays in memory are sent once, to its home."""
        part = self.shards.parts[number]
        if not isinstance(part, Mapping):
            return part
        if number not in self.sent:
            home = [self.homes.of(number)]
            [self.sent[number]] = self.client.scatter([dict(part)], workers=home, hash=False)
        return self.sent[number]

    def all(self, function: Callable, arguments: Mapping[int, tuple]) -> list[Any]:
        """Call function(shard, ...) for some shards, by their numbers, and wait for the results."""
        tasks = Tasks(lambda i: f"had shard {i}", self.waits)
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
        """Let the workers forget the shards, without waiting for them."""
        tell(self.client, unload, self.token)

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
