"""Store the draws of a run, in memory or in files."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import tree

NO_ROOM = errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", None)


class File:
    """An array in a .npy file, which holds zeros at first and is written piece by piece.

    The memory map `array` is for reading only. If the disk is full, a write to a memory map kills
    the process, while a write to the file raises an OSError.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype) -> None:
        path.parent.mkdir(exist_ok=True, parents=True)
        self.path, self.array = path, np.lib.format.open_memmap(path, "w+", dtype, shape)
        if hasattr(os, "posix_fallocate"):
            with open(path, "r+b") as file:
                try:
                    os.posix_fallocate(file.fileno(), 0, self.array.offset + self.array.nbytes)
                except OSError as error:  # some file systems cannot allocate ahead: no harm
                    if error.errno in NO_ROOM:
                        raise

    def write(self, pieces: Mapping[int, np.ndarray]) -> None:
        """Write pieces of shape (draws, ...); each key is the number of the piece's first draw."""
        with open(self.path, "r+b", buffering=0) as file:
            for start, x in pieces.items():
                file.seek(self.array.offset + start * math.prod(x.shape[1:]) * x.itemsize)
                rest = memoryview(x.tobytes())
                while rest:
                    rest = rest[file.write(rest) :]


class Memory:
    """All draws of a run, in memory or in the .npy files of a folder.

    The arrays are allocated once. Their shape is (n, ...), or (n_chains, n, ...) if `n_chains` is
    given.
    """

    def __init__(self, n: int, n_chains: int | None, folder: Path | None = None) -> None:
        self.n, self.n_chains, self.folder = n, n_chains, folder
        self.filled, self.arrays = 0, None
        if folder is not None:
            claim(folder)

    def add(self, at: int, draws: Mapping[str, Any]) -> None:
        """Store the draws with numbers at, at + 1, ...; arrays have shape (draws, chains, ...)."""
        try:
            if self.arrays is None:
                self.arrays = tree.pack(draws, self.allocate(draws))
            for to, x in zip(tree.leaves(self.arrays), tree.leaves(draws)):
                if isinstance(to, File):
                    to.write({c * self.n + at: x[:, c] for c in range(x.shape[1])})
                else:
                    by_draw, x = (to.swapaxes(0, 1), x) if self.n_chains else (to, x[:, 0])
                    by_draw[at : at + len(x)] = x
        except OSError as error:
            raise OSError(error.errno, self.not_written(error, draws)) from error
        self.filled = at + len(x)

    def allocate(self, draws: Mapping[str, Any]) -> list[np.ndarray | File]:
        """Allocate an array or a file for each leaf; without room for all, leave no file behind."""
        leading = (self.n_chains, self.n) if self.n_chains else (self.n,)
        kinds = [((*leading, *x.shape[2:]), x.dtype) for x in tree.leaves(draws)]
        if self.folder is None:
            return [np.empty(*kind) for kind in kinds]
        paths = [self.folder / f"{name}.npy" for name in tree.names(draws)]
        try:
            return [File(path, *kind) for path, kind in zip(paths, kinds)]
        except OSError:
            for path in paths:
                path.unlink(missing_ok=True)
            self.abandon()
            raise

    def abandon(self) -> None:
        """Remove empty folders inside the run's folder, so that another run can use it."""
        for path in sorted(self.folder.rglob("*"), reverse=True) if self.folder else ():
            with contextlib.suppress(OSError):  # this is no empty folder
                path.rmdir()

    def not_written(self, error: OSError, draws: Mapping[str, Any]) -> str:
        """Return the message for a disk that does not take the draws."""
        said = f"out: the draws cannot be written to {str(self.folder)!r}: {error.strerror}. "
        if error.errno in NO_ROOM:
            size = self.n * sum(math.prod(x.shape[1:]) * x.itemsize for x in tree.leaves(draws))
            free = shutil.disk_usage(self.folder).free
            said += (
                f"All take {size / 1e6:,.1f} MB, and {free / 1e6:,.1f} MB are free there: free "
                "more, give a folder on another disk, or keep less (keep, thin). "
            )
        return f"{said}The draws before are in the exception's .draws"

    def result(self) -> dict[str, Any]:
        """Return the draws that are stored so far."""
        axis = (slice(None),) if self.n_chains else ()

        def filled(x: np.ndarray | File) -> np.ndarray:
            return (x.array if isinstance(x, File) else x)[(*axis, slice(self.filled))]

        return tree.map(filled, self.arrays or {"params": {}})


def claim(folder: Path) -> None:
    """Make the folder for a run's draws. If several runs try at once, one succeeds."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "params").mkdir()
    except FileExistsError:
        raise ValueError(
            "out must be a new or an empty folder, but another run has begun to write to "
            f"{str(folder)!r}"
        ) from None
    except OSError as error:
        raise ValueError(f"out must be a folder that can be made: {error}") from None
