"""The commit record: one small file that is replaced as a whole, and says what is in the store.

What is not in the record does not count: files that were written after it are ignored, and written
again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from .files import RECORD, put, sync
from .layout import Kind

FORMAT = 1


def write(folder: Path, content: dict[str, Any]) -> None:
    """Replace the record. Everything that it names is on the disk already."""
    sync(folder)
    text = json.dumps({"format": FORMAT, **content}, default=plain)
    checked = {"record": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    put(folder / RECORD, [json.dumps(checked).encode()])
    sync(folder)


def plain(value: Any) -> Any:
    """A number or an array of NumPy in a form that JSON has."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else repr(value)


def read(folder: Path) -> dict[str, Any] | None:
    """Return the record of a store; None if there is none."""
    try:
        raw = (folder / RECORD).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        checked = json.loads(raw)
        text = checked["record"]
        if hashlib.sha256(text.encode()).hexdigest() != checked["sha256"]:
            raise ValueError("its checksum is another one")
        found = json.loads(text)
    except (ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"the record {str(folder / RECORD)!r} is damaged: {error}") from None
    if found["format"] > FORMAT:
        raise ValueError(
            f"{str(folder)!r} was written by a newer version of sgmcmc (format {found['format']}, "
            f"and this one knows formats up to {FORMAT}): install it"
        )
    return found


def kinds(record: dict[str, Any]) -> list[Kind]:
    """The arrays of a store."""
    return [
        Kind(k["group"], k["name"], tuple(k["shape"]), np.dtype(k["dtype"]), k["origin"])
        for k in record["arrays"]
    ]


def described(kind: Kind) -> dict[str, Any]:
    """An array as it is in the record."""
    return {**kind._asdict(), "dtype": kind.dtype.str}
