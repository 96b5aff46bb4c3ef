"""Arrays in a folder, in the Zarr format (version 2): chunks of plain numbers, and JSON.

Each array has the axes chain and draw first. It is cut along the draws into chunks of one length;
a chunk is a file of numbers in C order without compression, which draws of chains do not gain
from. Nothing here needs the package `zarr`, as it could not say when its files are on the disk.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .files import put

CHUNK_BYTES, MOST_DRAWS = 4 << 20, 1 << 16  # of all arrays in a chunk; and the most draws in one
GROUPS = "posterior", "sample_stats"
METADATA = ".zmetadata"


class Kind(NamedTuple):
    """One array: its group and name, the shape of a draw of one chain, and its type.

    `origin` is the path in the nest of draws, such as "layer/weights", of which the name is made.
    """

    group: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    origin: str

    @property
    def path(self) -> str:
        """The folder of its files, in the store."""
        return f"{self.group}/{self.name}"

    def chunk(self, chains: int, length: int) -> tuple[int, ...]:
        """The shape of a chunk."""
        return chains, length, *self.shape

    def file(self, number: int) -> str:
        """The path of the file of a chunk, in the store."""
        return f"{self.path}/" + ".".join(["0", str(number), *["0"] * len(self.shape)])


def chunk_length(kinds: list[Kind], chains: int) -> int:
    """The number of draws in a chunk."""
    each = sum(int(np.prod(k.shape)) * k.dtype.itemsize for k in kinds)
    return int(np.clip(CHUNK_BYTES // max(1, each * chains), 1, MOST_DRAWS))


def metadata(kinds: list[Kind], chains: int, draws: int, length: int, attributes: dict) -> dict:
    """All metadata of the store, by path."""
    found: dict[str, Any] = {".zgroup": {"zarr_format": 2}, ".zattrs": attributes}
    for group in dict.fromkeys(k.group for k in kinds):
        found[f"{group}/.zgroup"] = {"zarr_format": 2}
        found[f"{group}/.zattrs"] = attributes
        number = np.dtype("<i8")
        add(found, f"{group}/chain", ["chain"], (chains,), (chains,), number)
        add(found, f"{group}/draw", ["draw"], (draws,), (length,), number)
    for k in kinds:
        dims = ["chain", "draw", *(f"{k.name}_dim_{i}" for i in range(len(k.shape)))]
        add(found, k.path, dims, (chains, draws, *k.shape), k.chunk(chains, length), k.dtype)
    return found


def add(
    found: dict[str, Any],
    path: str,
    dims: list[str],
    shape: tuple[int, ...],
    chunk: tuple[int, ...],
    dtype: np.dtype,
) -> None:
    """Add the metadata of an array."""
    found[f"{path}/.zarray"] = {
        "zarr_format": 2,
        "shape": list(shape),
        "chunks": list(chunk),
        "dtype": dtype.str,
        "compressor": None,
        "fill_value": "NaN" if dtype.kind == "f" else None,
        "order": "C",
        "filters": None,
    }
    found[f"{path}/.zattrs"] = {"_ARRAY_DIMENSIONS": dims}


def put_metadata(folder: Path, found: dict[str, Any]) -> None:
    """Write metadata: those of each part, and last all of them together, which readers prefer."""
    for path, content in found.items():
        (folder / path).parent.mkdir(exist_ok=True, parents=True)
        put(folder / path, [json.dumps(content).encode()], sync=False)
    whole = {"zarr_consolidated_format": 1, "metadata": found}
    put(folder / METADATA, [json.dumps(whole).encode()])


def coordinate(folder: Path, kinds: list[Kind], chains: int, length: int, number: int) -> None:
    """Write the numbers of chains, and those of the draws of a chunk."""
    for group in dict.fromkeys(k.group for k in kinds):
        for name, values in (
            ("chain", np.arange(chains, dtype="<i8")),
            ("draw", np.arange(number * length, (number + 1) * length, dtype="<i8")),
        ):
            (folder / group / name).mkdir(exist_ok=True, parents=True)
            file = "0" if name == "chain" else str(number)
            put(folder / group / name / file, [values], sync=False)
