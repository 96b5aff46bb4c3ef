"""Columns of Parquet files and Arrow tables as arrays, whose rows are read by row groups."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

import numpy as np

from .checks import described, nearest
from .cores import ONE_CORE

CACHE_BYTES = 32 << 20  # of decoded rows that an array keeps, beside the row group in use
PATHS = "a path, a URL or a list of these, a pyarrow.dataset.Dataset or a pyarrow.Table"


class NoRows(ValueError):
    """The error of a source without rows."""


def parquet(source: Any, /, **arrays: str | Iterable[str]) -> dict[str, Any]:
    """Return columns of Parquet files as a `dataset`, whose rows are read as they are needed.

    A table in memory becomes arrays in memory.

    Parameters
    ----------
    source : path, list of paths, pyarrow.dataset.Dataset or pyarrow.Table
        A Parquet file, a folder of such files, or a list of files. Paths may be URLs (`s3://...`):
        of the file systems of pyarrow, or with fsspec installed of its own. A dataset of pyarrow
        may have another format: then each of its files is read as a whole.
    **arrays : str or list of str
        The entries of the result. The name of a column gives an array of its numbers, or if it
        holds lists of a fixed size (embeddings, images), of shape (rows, size). A list of names
        gives a matrix of these columns. Without any, each column is an entry by its own name.

    Returns
    -------
    dict of arrays
        Pass it as `dataset`, alone or with further arrays of as many rows. `result["X"][:]` is an
        array in memory.

    Notes
    -----
    Columns must hold numbers or booleans. Dictionary-encoded numbers count as numbers; text must
    be coded as integers when the file is written. A null raises an error with its column and row,
    when it is read.

    To read one row, its whole row group is decoded. Minibatches that are taken in turn are made of
    pieces of 1 MB from all over the data, so a row group of some 1 MB is best: write files with
    `pyarrow.parquet.write_table(table, path, row_group_size=25_000)` for rows of 40 bytes. If row
    groups are much larger, pass the data on with `sgmcmc.stream`, which decodes each of them once
    an epoch, or read them into memory.

    Examples
    --------
    >>> import numpy as np, pyarrow, pyarrow.parquet, sgmcmc, tempfile, tensorflow as tf
    >>> rng = np.random.default_rng(1)
    >>> table = pyarrow.table({name: rng.normal(size=1000) for name in ("age", "income", "y")})
    >>> def log_lik(params, data):
    ...     mean = tf.linalg.matvec(data["X"], params["beta"])
    ...     return -tf.reduce_sum((data["y"] - mean) ** 2) / 2
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pyarrow.parquet.write_table(table, folder + "/people.parquet", row_group_size=250)
    ...     dataset = sgmcmc.parquet(folder + "/people.parquet", X=["age", "income"], y="y")
    ...     print(dataset["X"])
    ...     draws = sgmcmc.sgld(
    ...         log_lik, dataset, {"beta": np.zeros(2)}, 1e-4, n_iters=100, verbose=False
    ...     )
    Columns(['age', 'income'], shape (1000, 2), float64, 4 row groups)
    """
    groups = opened(source)
    if not len(groups.ends) or not groups.ends[-1]:
        raise NoRows("source has no rows")
    known = groups.schema.names
    wanted: Mapping[str, Any] = arrays or {name: name for name in known}
    found = {}
    for entry, names in wanted.items():
        if not isinstance(names, str) and not (
            isinstance(names, (list, tuple)) and names and all(isinstance(k, str) for k in names)
        ):
            raise TypeError(
                f"{entry} must be the name of a column or a list of names, not {described(names)}"
            )
        for name in [names] if isinstance(names, str) else names:
            if name not in known:
                raise ValueError(
                    f"{entry}: there is no column {name!r}{nearest(name, known)}; there are "
                    f"{', '.join(map(repr, known[:10]))}{', ...' * (len(known) > 10)}"
                )
        columns = Columns(groups, names)
        found[entry] = columns[:] if groups.is_memory else columns
    return found


class Groups:
    """The row groups of a dataset of pyarrow, or the fragments of one that is not of Parquet."""

    def __init__(self, dataset: Any, is_memory: bool = False) -> None:
        self.schema, self.is_memory, self.parts, rows = dataset.schema, is_memory, [], []
        known = self.schema.names
        if len(set(known)) < len(known):
            twice = next(name for name in known if known.count(name) > 1)
            raise ValueError(f"source has several columns {twice!r}: give each a name of its own")
        for fragment in dataset.get_fragments():
            if hasattr(fragment, "row_groups"):
                for part in fragment.split_by_row_group():
                    self.parts.append(part)
                    rows.append(sum(group.num_rows for group in part.row_groups))
            else:
                self.parts.append(fragment)
                rows.append(fragment.count_rows())
        self.ends = np.cumsum(np.array(rows, np.int64))

    def read(self, number: int, names: list[str]) -> Any:
        """Return these columns of a row group as a table."""
        return self.parts[number].to_table(
            schema=self.schema, columns=names, use_threads=not ONE_CORE
        )


class Columns:
    """One column, or several of equal shape side by side, as an array that is read by row groups.

    The row groups that were decoded last are kept.
    """

    in_chunks = True  # tells `Outside` to ask for all rows in one call

    def __init__(self, groups: Groups, names: str | Iterable[str]) -> None:
        self.groups, self.is_matrix = groups, not isinstance(names, str)
        self.names = [names] if isinstance(names, str) else list(names)
        types = [numbers_of(name, groups.schema.field(name).type) for name in self.names]
        for name, (_, shape) in zip(self.names, types):
            if self.is_matrix and shape:
                raise ValueError(
                    f"column {name!r} holds lists, and cannot be one column of a matrix: give it "
                    "an entry of its own"
                )
        self.dtype = np.result_type(*(dtype for dtype, _ in types))
        tail = (len(self.names),) if self.is_matrix else types[0][1]
        self.shape = (int(groups.ends[-1]), *tail)
        self.decoded: OrderedDict[int, np.ndarray] = OrderedDict()
        self.lock = Lock()

    def __repr__(self) -> str:
        names = self.names if self.is_matrix else self.names[0]
        count = len(self.groups.parts)
        return f"Columns({names!r}, shape {self.shape}, {self.dtype}, {count} row groups)"

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or self.dtype, copy=False)

    def __getitem__(self, rows: Any) -> Any:
        """Return a row, or those of a slice, of a list of numbers, or of a mask, as NumPy does."""
        wanted = numbers_in(rows, len(self))
        if wanted.ndim == 1 and (np.diff(wanted) > 0).all():
            return self.take(wanted)
        unique, places = np.unique(wanted, return_inverse=True)
        return self.take(unique)[places.reshape(wanted.shape)]

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows with these numbers, which increase."""
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        first = 0
        while first < len(rows):
            number = int(np.searchsorted(self.groups.ends, rows[first], side="right"))
            last = first + int(np.searchsorted(rows[first:], self.groups.ends[number]))
            with self.lock:
                block = self.block(number)
            out[first:last] = block[rows[first:last] - self.start(number)]
            first = last
        return out

    def start(self, number: int) -> int:
        """Return the number of the first row of a row group."""
        return int(self.groups.ends[number - 1]) if number else 0

    def block(self, number: int) -> np.ndarray:
        """Return the rows of a row group."""
        if number in self.decoded:
            self.decoded.move_to_end(number)
            return self.decoded[number]
        table, start = self.groups.read(number, self.names), self.start(number)
        each = [as_numpy(name, table[name], start) for name in self.names]
        block = each[0]
        if self.is_matrix:
            block = np.empty((len(each[0]), len(each)), self.dtype)
            for column, x in enumerate(each):
                block[:, column] = x
        kept = sum(x.nbytes for x in self.decoded.values())
        while self.decoded and kept + block.nbytes > CACHE_BYTES:
            kept -= self.decoded.popitem(last=False)[1].nbytes
        self.decoded[number] = block
        return block


def numbers_in(rows: Any, count: int) -> np.ndarray:
    """Return the numbers 0, 1, ... of the rows that an index means, of `count` rows."""
    if isinstance(rows, slice):
        return np.arange(*rows.indices(count))
    index = None if isinstance(rows, tuple) else np.asarray(rows)
    if index is not None and index.size == 0 and index.dtype != bool:
        index = index.astype(np.int64)  # an empty list
    if index is None or index.dtype.kind not in "biu":
        raise TypeError(
            "columns of Parquet files are indexed by rows alone: by a whole number, a slice, a "
            "list of whole numbers or a mask, "
            f"not by {described(rows)}; take x[rows][:, column]"
        )
    if index.dtype == bool:
        if index.shape != (count,):
            raise IndexError(
                f"a mask must have shape {(count,)}, one entry a row, not {index.shape}"
            )
        return np.flatnonzero(index)
    outside = (index < -count) | (index >= count)
    if outside.any():
        raise IndexError(f"row {index[outside][0]} is out of range, as there are {count:,} rows")
    index = index.astype(np.int64)
    return np.where(index < 0, index + count, index)


def opened(source: Any) -> Groups:
    """Open what the user gave as `source`."""
    try:
        import pyarrow
        import pyarrow.dataset
    except ImportError:
        raise ImportError("sgmcmc.parquet needs pyarrow: pip install 'sgmcmc[parquet]'") from None
    if isinstance(source, pyarrow.RecordBatch):
        source = pyarrow.Table.from_batches([source])
    if isinstance(source, pyarrow.Table):
        return Groups(pyarrow.dataset.dataset(source), is_memory=True)
    if not isinstance(source, pyarrow.dataset.Dataset):
        source = dataset_of(source)
    try:
        return Groups(source)
    except ValueError as error:
        if "filtered" not in str(error):
            raise
        raise ValueError(
            "source must not be a filtered dataset, whose rows have no numbers: write what the "
            "filter leaves to a file of its own"
        ) from None


def dataset_of(source: Any) -> Any:
    """Return the dataset of pyarrow at a path or several."""
    import pyarrow.dataset

    several = isinstance(source, (list, tuple))
    paths = list(source) if several else [source]
    if not paths or not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise TypeError(f"source must be {PATHS}, not {described(source)}")
    found = [located(os.fspath(path)) for path in paths]
    system, paths = found[0][0], [path for _, path in found]
    try:
        return pyarrow.dataset.dataset(
            paths if several else paths[0], filesystem=system, format="parquet", partitioning="hive"
        )
    except FileNotFoundError as error:
        raise FileNotFoundError(f"source: there is no file or folder {error}") from None
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"source must be Parquet files: {error}") from None


def located(path: str) -> tuple[Any, str]:
    """Return the file system of a path or URL, None for that of the machine, and the path in it."""
    import pyarrow.fs

    if "://" not in path:
        return None, path
    try:
        return pyarrow.fs.FileSystem.from_uri(path)
    except pyarrow.ArrowInvalid:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ImportError(
                f"source: pyarrow has no file system for {path!r}; fsspec may have one: pip "
                "install fsspec"
            ) from None
        return url_to_fs(path)


def numbers_of(name: str, kind: Any) -> tuple[np.dtype, tuple[int, ...]]:
    """Return the type of the numbers in a column, and the shape of those in a row."""
    import pyarrow.types as types

    if types.is_fixed_size_list(kind):
        dtype, shape = numbers_of(name, kind.value_type)
        return dtype, (kind.list_size, *shape)
    if types.is_dictionary(kind):
        return numbers_of(name, kind.value_type)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype()), ()
    raise TypeError(f"column {name!r} must hold real numbers or booleans, not {kind}: {cure(kind)}")


def cure(kind: Any) -> str:
    """How to make numbers of values of another type."""
    import pyarrow.types as types

    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
        return "code it as integers, or name the columns that you need"
    if types.is_list(kind) or types.is_large_list(kind):
        return "if all have one length, cast them to pyarrow.list_(type, length)"
    if types.is_decimal(kind):
        return "cast it to float64"
    if types.is_temporal(kind):
        return "use numbers, such as the days since a date"
    return "name the columns that you need"


def as_numpy(name: str, column: Any, start: int) -> np.ndarray:
    """Return the values of a column, whose first row has the number `start`."""
    import pyarrow.compute
    import pyarrow.types as types

    shape = [len(column)]
    while True:
        if column.null_count:
            place = pyarrow.compute.index(column.is_null(), True).as_py()
            raise ValueError(
                f"column {name!r} has a null (a missing value) in row "
                f"{start + place * shape[0] // len(column)}: fill it in, or leave the row out"
            )
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not types.is_fixed_size_list(column.type):
            return column.to_numpy(zero_copy_only=False).reshape(shape)
        shape.append(column.type.list_size)
        column = pyarrow.compute.list_flatten(column)
