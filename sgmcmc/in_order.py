"""Rows that come in an order of their own, from an iterator that is made anew for each epoch.

`Stream` is what the user gives. `StreamSource` reads all rows in passes, and `Reader` the rows of
minibatches, in the order in which they come.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from . import checks
from .minibatches import WINDOW_BYTES
from .source import BLOCK_BYTES, Source

HEAD_ROWS, HEAD_BYTES = 4096, 4 << 20  # of a stream, at most, that are kept for looking at often
BATCH = 1024  # rows that are taken together from a tf.data.Dataset of single rows


class Stream:
    """A data set whose rows are read in the order in which they come. Made by `stream`.

    Examples
    --------
    >>> import numpy as np, sgmcmc
    >>> sgmcmc.stream(lambda: [{"x": np.arange(1000.0)}], N=1000, buffer_size=100)
    Stream(N=1,000, buffer_size=100)
    """

    def __init__(self, make_iterator: Callable, N: int, buffer_size: int | None) -> None:
        self.N, self.buffer_size, self.make_iterator = N, buffer_size, make_iterator
        self.by_epoch = takes_epoch(make_iterator)

    def __repr__(self) -> str:
        size = "" if self.buffer_size is None else f", buffer_size={self.buffer_size:,}"
        return f"Stream(N={self.N:,}{size})"

    def __call__(self, epoch: int) -> Iterator[Any]:
        """Return an iterator over the batches of an epoch."""
        found = self.make_iterator(epoch) if self.by_epoch else self.make_iterator()
        if not isinstance(found, Iterable):
            raise TypeError(
                f"make_iterator must return an iterator over dicts of arrays, not {found!r}"
            )
        return iter(found)


def stream(
    make_iterator: Callable[..., Iterable[Mapping[str, Any]]],
    N: int,
    *,
    buffer_size: int | None = None,
) -> Stream:
    """Return a `dataset` whose rows are read in the order in which they come.

    Parameters
    ----------
    make_iterator : function of nothing, or of the epoch
        Returns an iterator over all rows, as dicts of arrays with some rows each, or as DataFrames
        or tables of pyarrow. It is called for each epoch, and for each pass over all data. It must
        return the same rows in the same order each time, in batches of any length; or if it has a
        required argument, the epoch 0, 1, ..., for the same epoch.
    N : int
        The number of all rows. An epoch with more or fewer raises an error.
    buffer_size : int, optional
        Rows that are shuffled together. By default those of 32 MB. Twice as many are in memory, as
        the next are read while some are used.

    Returns
    -------
    Stream
        Pass it as `dataset`.

    Notes
    -----
    The rows of the buffer are put into random order and cut into minibatches, and then come the
    next ones. Each row is used once an epoch.

    **The order of the rows matters**, unless all of them fit into the buffer. Minibatches are
    random samples of the buffer, not of all data. If rows are sorted, by their label or by date,
    the chain follows the part of the data that it sees, and draws are too wide. In a logistic
    regression with 100,000 rows, sorted by their label, the standard deviation was 23 times the
    posterior's with a tenth of the rows in the buffer, and 1.6 times where rows came in random
    order; control variates had no such error. Shuffle the rows when they are written, or let each
    batch have rows from all over the data. `make_iterator` may take the parts of the data in
    another order in each epoch.

    With `resume=True`, the stream is passed over again up to the row where the run stopped; earlier
    epochs are skipped. Draws are the same as without a stop.

    The search for the mode and chosen step sizes pass over all rows about a dozen times, and so
    does `diagnose`; `SVRG` does so at each renewal. What needs rows at random, or
    independent minibatches, is refused: `SAGA`, `scircv`, thermostats and `sgbarker`, and
    `noise_estimate`.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> x = np.random.default_rng(1).normal(5, 1, 10_000)
    >>> def batches():  # from anywhere: files, a data base, a network
    ...     for start in range(0, 10_000, 1000):
    ...         yield {"x": x[start : start + 1000]}
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> draws = sgmcmc.sgldcv(
    ...     log_lik, sgmcmc.stream(batches, N=10_000), {"mean": 0.0}, n_iters=1000, seed=1,
    ...     verbose=False,
    ... )
    >>> abs(float(draws["mean"].mean()) - 5) < 0.05
    True
    """
    checks.function("make_iterator", make_iterator, "without arguments, or of the epoch")
    N = checks.whole("N", N)
    if buffer_size is not None:
        buffer_size = checks.whole("buffer_size", buffer_size)
    return Stream(make_iterator, N, buffer_size)


def takes_epoch(make_iterator: Callable) -> bool:
    """Return whether a function needs one argument, the epoch, or none."""
    try:
        signature = inspect.signature(make_iterator)
    except ValueError:  # some functions of C have none
        return False
    for is_by_epoch, given in ((False, ()), (True, (0,))):
        try:
            signature.bind(*given)
        except TypeError:
            continue
        return is_by_epoch
    raise TypeError(
        "make_iterator must be a function without arguments, or of the epoch alone, not of "
        f"{signature}"
    )


def of_tensorflow(dataset: tf.data.Dataset) -> Stream:
    """Return a stream of a tf.data.Dataset of rows, whose number must be known."""
    spec, N = dataset.element_spec, int(dataset.cardinality())
    if not isinstance(spec, dict) or not all(isinstance(s, tf.TensorSpec) for s in spec.values()):
        raise TypeError(
            "dataset must have dicts of tensors as elements: map them, such as dataset.map(lambda "
            f"X, y: {{'X': X, 'y': y}}), not {spec}"
        )
    if N == tf.data.INFINITE_CARDINALITY:
        raise ValueError("dataset must not be repeated: leave out .repeat()")
    shapes = [s.shape for s in spec.values()]
    are_rows = any(shape.rank == 0 for shape in shapes)
    are_batches = any(shape.rank and shape[0] is None for shape in shapes)
    if N < 0 or not are_rows:
        what = "the number of its elements is not known" if are_rows else "it may be of batches"
        what = "it is of batches" if are_batches else what
        raise ValueError(
            f"dataset is a tf.data.Dataset whose number of rows is not known, as {what}: pass "
            "sgmcmc.stream(lambda: dataset.as_numpy_iterator(), N) with the number of rows N"
            + ", and dataset.batch(1000) if its elements are single rows"
            * (not are_batches)
        )
    return Stream(lambda: dataset.batch(BATCH).as_numpy_iterator(), N, None)


def as_dict(batch: Any) -> Any:
    """Return the columns of a table of pyarrow or a DataFrame by name; others as they are."""
    if type(batch).__module__.partition(".")[0] == "pyarrow":
        from .columns import parquet

        return parquet(batch) if len(batch) else {name: [] for name in batch.schema.names}
    return checks.by_column(batch) if hasattr(batch, "columns") else batch


def is_empty(value: Any) -> bool:
    """Whether an array of a batch has no rows."""
    shape = getattr(value, "shape", None)
    return value == [] if shape is None else tuple(shape)[:1] == (0,)


class StreamSource(Source):
    """The rows of a stream. Those that are wanted are read in one pass."""

    def __init__(self, given: Stream, dtype: tf.DType) -> None:
        self.stream, self.arrays = given, {}
        self.head: Source | None = None  # the first rows
        first = next(self.raw(0), None)
        if first is None:
            raise ValueError(f"N is {given.N:,}, but the stream has no rows")
        super().__init__({k: x[:1].copy() for k, x in first.items()}, dtype)
        self.N = given.N
        row_bytes = max(1, self.row_bytes)
        self.buffer_rows = given.buffer_size or max(1, WINDOW_BYTES // row_bytes)
        count = int(np.clip(HEAD_BYTES // row_bytes, 1, min(HEAD_ROWS, self.N)))
        with np.errstate(over="ignore", invalid="ignore"):
            begun = {k: x[:count].astype(self.dtypes[k]) for k, x in first.items()}
        self.begun = begun  # the first rows, as they were in an earlier pass
        self.head = self.subset(np.arange(count))
        self.begun = self.head.arrays

    @property
    def is_outside(self) -> bool:
        return True

    @property
    def given(self) -> Stream:
        return self.stream

    def raw(self, epoch: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield the batches of an epoch as the user gives them, checked but for their values."""
        for number, batch in enumerate(self.stream(epoch)):
            name = f"dataset, batch {number} of epoch {epoch}"
            batch = as_dict(batch)
            checks.named(name, batch, "arrays of some rows each")
            if all(map(is_empty, batch.values())):
                continue
            arrays = {k: checks.array(f"{name}, [{k!r}]", v) for k, v in batch.items()}
            lengths = {k: x.shape[:1] for k, x in arrays.items()}
            if () in lengths.values():
                raise ValueError(
                    f"{name} must have arrays of rows, but "
                    f"{next(k for k, v in lengths.items() if not v)!r} is one number: let the "
                    "iterator yield batches of rows"
                )
            if len(set(lengths.values())) > 1:
                raise ValueError(f"{name} must have equally many rows in all arrays, not {lengths}")
            self.check_like_first(name, arrays)
            yield arrays

    def check_like_first(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        """Check that a batch has the names, shapes and types of the first one."""
        if self.arrays and set(arrays) != set(self.arrays):
            raise ValueError(f"{name} has {sorted(arrays)}, but the first {sorted(self.arrays)}")
        for k, first in self.arrays.items():
            x = arrays[k]
            if (x.shape[1:], x.dtype) != (first.shape[1:], first.dtype):
                raise ValueError(
                    f"{name} has {k!r} of {x.dtype} and rows of shape {x.shape[1:]}, but the first "
                    f"batch had {first.dtype} and rows of shape {first.shape[1:]}"
                )

    def batches(self, epoch: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield the rows of an epoch in their order, and check that they are N."""
        start = 0
        for arrays in self.raw(epoch):
            count = len(next(iter(arrays.values())))
            if start + count > self.N:
                raise ValueError(
                    f"N is {self.N:,}, but the stream has at least {start + count:,} rows in epoch "
                    f"{epoch}"
                )
            rows = {}
            for k, x in arrays.items():
                with np.errstate(over="ignore"):
                    rows[k] = x.astype(self.dtypes[k], copy=False)
                if x.dtype.kind == "f":
                    checks.finite(f"dataset[{k!r}]", rows[k], given=x, first=start)
            self.check_same(epoch, rows, start)
            yield rows
            start += count
        if start < self.N:
            raise ValueError(
                f"N is {self.N:,}, but the stream has {start:,} rows in epoch {epoch}"
                + ": make_iterator must return a new iterator each time" * (start == 0)
            )

    def check_same(self, epoch: int, rows: dict[str, np.ndarray], start: int) -> None:
        """Check that the stream begins as it did in an earlier pass over the same rows.

        Where a batch ends may differ. `start` is the number of the first of these rows.
        """
        if epoch and self.stream.by_epoch:
            return
        for k, first in self.begun.items():
            known = first[start : start + len(rows[k])]
            if not np.array_equal(rows[k][: len(known)], known):
                raise ValueError(
                    "make_iterator must return a new iterator over the same rows, in the same "
                    "order, each time, but it began with other rows than before. If it shuffles "
                    "them, let it be a function of the epoch, which is the seed: lambda epoch: "
                    "batches(seed=epoch). A tf.data.Dataset must not shuffle, or with "
                    "reshuffle_each_iteration=False"
                )

    def subset(self, index: np.ndarray) -> Source:
        """Return a source of these rows alone, held in memory."""
        if self.head is not None and index.max() < self.head.N:
            return self.head.subset(index)
        out = {k: np.empty(s, self.dtypes[k]) for k, s in self.shapes(len(index)).items()}
        order = np.argsort(index, kind="stable")
        start = first = 0
        for rows in self.batches(0):
            stop = start + len(next(iter(rows.values())))
            last = first + int(np.searchsorted(index[order[first:]], stop))
            for name, x in rows.items():
                out[name][order[first:last]] = x[index[order[first:last]] - start]
            start, first = stop, last
            if first == len(index):
                break
        return Source(out, self.dtype)

    def gather(self, index: np.ndarray, out: dict[str, np.ndarray]) -> None:
        """Write the rows with these numbers to `out`."""
        wanted, places = np.unique(index, return_inverse=True)
        found = self.subset(wanted)
        for name, x in found.arrays.items():
            out[name][...] = x[places.reshape(index.shape)]

    def rows(self, start: int, stop: int) -> dict[str, tf.Tensor]:
        """Return the rows start ... stop − 1."""
        return self.subset(np.arange(start, stop)).rows(0, stop - start)

    def probe(self, count: int) -> dict[str, tf.Tensor]:
        """Return the first rows."""
        return self.rows(0, count)

    def some(self, count: int) -> np.ndarray:
        """The numbers of some rows that can be read at once: the first."""
        return np.arange(min(count, self.head.N))

    def pieces(self, nbytes: int = BLOCK_BYTES) -> Iterator[dict[str, tf.Tensor]]:
        """Yield all rows, in pieces of bounded size, in one pass."""
        reader, count = Reader(self), max(1, nbytes // max(1, self.row_bytes))
        for start in range(0, self.N, count):
            parts = list(reader.read(start, min(count, self.N - start)))
            arrays = {k: np.concatenate([part[k] for part in parts]) for k in self.arrays}
            yield {k: tf.convert_to_tensor(x) for k, x in arrays.items()}
        reader.finish()


class Reader:
    """Reads rows one after the other, of one epoch after the other."""

    def __init__(self, source: Any) -> None:
        self.source = source  # a StreamSource
        self.at: int | None = None  # the number of the next row, through all epochs
        self.batches: Iterator[dict[str, np.ndarray]] = iter(())
        self.left: dict[str, np.ndarray] = {}  # rows that were read, and not taken

    def read(self, first: int, count: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield rows first ... first + count − 1, in batches."""
        N = self.source.N
        if self.at != first:
            skipped = first % N
            self.at = first - skipped
            self.open()
            for _ in self.take(skipped):
                pass
        yield from self.take(count)

    def take(self, count: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield the next rows, in batches."""
        at, self.at = self.at, None  # after a failure, all is read again
        end = at + count
        while at < end:
            size = len(next(iter(self.left.values()))) if self.left else 0
            if not size:
                self.left = next(self.batches, None)
                if self.left is None:
                    self.at = at
                    self.open()
                    self.at = None
                continue
            taken = min(size, end - at)
            yield {k: x[:taken] for k, x in self.left.items()}
            self.left = {k: x[taken:] for k, x in self.left.items()}
            at += taken
        self.at = at

    def open(self) -> None:
        """Begin the epoch of the next row."""
        self.batches, self.left = self.source.batches(self.at // self.source.N), {}

    def finish(self) -> None:
        """See that the epoch has no more rows."""
        next(self.batches, None)
