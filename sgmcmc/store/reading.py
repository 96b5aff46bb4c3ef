"""Read the draws of a store: arrays that are read from disk when they are wanted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import checks
from ..draws import Draws
from . import record
from .layout import GROUPS, Kind


def chunk_of(folder: Path, kind: Kind, chains: int, length: int, number: int) -> np.ndarray:
    """The numbers of a chunk, as a memory map."""
    path, shape = folder / kind.file(number), kind.chunk(chains, length)
    try:
        return np.memmap(path, kind.dtype, "r", shape=shape)
    except (OSError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is missing or damaged: {error}") from None


class StoredArray(np.lib.mixins.NDArrayOperatorsMixin):
    """Draws of one quantity on disk, of shape (draws, ...) or (chains, draws, ...).

    Slices read what they are of. Functions and methods of NumPy read all of it into memory.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draws = sgmcmc.Draws({"x": np.arange(10.0)}, {}, {"n_chains": None})
    ...     draws.save(folder + "/draws.zarr")
    ...     x = sgmcmc.load_draws(folder + "/draws.zarr")["x"]
    ...     print(x.shape, x[2:4], x.mean())
    (10,) [2. 3.] 4.5
    """

    def __init__(
        self, folder: Path, kind: Kind, chains: int, draws: int, length: int, chained: bool
    ) -> None:
        self.folder, self.kind, self.chains, self.length = folder, kind, chains, length
        self.chained, self.dtype = chained, kind.dtype
        self.shape = (*((chains,) if chained else ()), draws, *kind.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of numbers."""
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        """The bytes that all numbers take."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"StoredArray({self.shape}, {self.dtype}, in {str(self.folder)!r})"

    def __getitem__(self, key: Any) -> Any:
        keys, axis = key if isinstance(key, tuple) else (key,), int(self.chained)
        if not all(isinstance(k, (int, np.integer, slice)) for k in keys[: axis + 1]):
            return self.read(slice(None))[key]
        keys = (*keys, *[slice(None)] * (axis + 1 - len(keys)))
        numbers = np.arange(self.shape[axis])[keys[axis]]  # an IndexError where it is due
        if numbers.size == 0:
            return self.read(slice(0, 0))[(*keys[:axis], slice(None), *keys[axis + 1 :])]
        low = int(numbers.min())
        part = self.read(slice(low, int(numbers.max()) + 1))
        inside: Any = 0
        if numbers.ndim:
            inside = slice(int(numbers[0]) - low, None, keys[axis].step)
        return part[(*keys[:axis], inside, *keys[axis + 1 :])]

    def pieces(self, low: int, high: int) -> Iterator[tuple[int, np.ndarray]]:
        """Memory maps (chains, draws, ...) of the draws from low to high, with their numbers."""
        while low < high:
            number, skip = divmod(low, self.length)
            some = min(high - low, self.length - skip)
            chunk = chunk_of(self.folder, self.kind, self.chains, self.length, number)
            yield low, chunk[:, skip : skip + some]
            low += some

    def read(self, draws: slice) -> np.ndarray:
        """Read some draws into memory."""
        low, high, _ = draws.indices(self.shape[int(self.chained)])
        found = np.empty((self.chains, high - low, *self.kind.shape), self.dtype)
        for at, part in self.pieces(low, high):
            found[:, at - low : at - low + part.shape[1]] = part
        return found if self.chained else found[0]

    def columns(self, some: slice) -> np.ndarray:
        """Read some of the numbers of all draws, laid end to end: (chains, draws, numbers)."""
        axis, parts = int(self.chained), []
        for _, part in self.pieces(0, self.shape[axis]):
            parts.append(np.array(part.reshape(*part.shape[:2], -1)[:, :, some]))
        return np.concatenate(parts, axis=1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = self.read(slice(None))
        return found if dtype is None else found.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(x) if isinstance(x, StoredArray) else x for x in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a StoredArray has no attribute {name!r}")
        return getattr(np.asarray(self), name)


def load_draws(path: str | Path) -> Draws:
    """Open the draws of a store, which `out=` or `Draws.save` has written.

    Its arrays are read from disk when they are wanted, and may be larger than memory. A run may go
    on writing meanwhile: what it has committed by now is what there is.

    Parameters
    ----------
    path : path
        The folder of the store.

    Returns
    -------
    Draws
        With the draws, statistics and settings of the run so far.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tempfile, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = folder + "/chain.zarr"
    ...     draws = sgmcmc.sgldcv(
    ...         log_lik, {"x": np.linspace(-1, 3, 1000)}, {"mean": 1.0}, n_iters=500, seed=1,
    ...         out=path, verbose=False,
    ...     )
    ...     again = sgmcmc.load_draws(path)
    ...     print(again, bool(again["mean"][-1] == draws["mean"][-1]))
    Draws(mean (500,); sgldcv, seed 1) True
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be that of a folder, not {checks.described(path)}")
    folder = Path(path)
    known = record.read(folder)
    if known is None:
        what = "has no record of sgmcmc" if folder.exists() else "is not there"
        raise ValueError(
            f"path must be a store that out= or Draws.save has written, but {str(folder)!r} {what}"
        )
    return opened(folder, known)


def opened(folder: Path, known: dict[str, Any]) -> Draws:
    """The draws of a store with this record."""
    chained, settings = known["chains"] is not None, known["settings"]
    groups: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
    for kind in record.kinds(known):
        of = folder, kind, known["chains"] or 1, known["draws"], known["chunk"], chained
        put(groups[kind.group], kind.origin.split("/"), StoredArray(*of))
    posterior, stats = groups.values()
    return Draws(posterior, stats, settings)


def put(nest: dict[str, Any], path: list[str], value: Any) -> None:
    """Put a value into a nest of dicts."""
    *outer, last = path
    for name in outer:
        nest = nest.setdefault(name, {})
    nest[last] = value
