"""Nests of tensors as files of plain arrays, with their form in JSON: nothing is unpickled.

A form is a dict {"dict": {...}}, {"tuple": [...]}, {"list": [...]}, {"array": number}, {"named":
[module, name, [...]]} for a named tuple, or {"value": ...} for None, a number or a word.
"""

from __future__ import annotations

import hashlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from .files import put


def form_of(nest: Any, arrays: list[np.ndarray]) -> Any:
    """Return the form of a nest, and append its arrays."""
    if nest is None or isinstance(nest, (bool, int, float, str)):
        return {"value": nest}
    if isinstance(nest, dict):
        return {"dict": {k: form_of(v, arrays) for k, v in nest.items()}}
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        cls = type(nest)
        return {"named": [cls.__module__, cls.__qualname__, [form_of(v, arrays) for v in nest]]}
    if isinstance(nest, (tuple, list)):
        return {type(nest).__name__: [form_of(v, arrays) for v in nest]}
    arrays.append(np.asarray(nest))
    if arrays[-1].dtype.hasobject:
        raise TypeError(f"a state must be made of arrays and numbers, not {type(nest).__name__}")
    return {"array": len(arrays) - 1}


def nest_of(form: Any, arrays: list[np.ndarray]) -> Any:
    """Undo `form_of`, with tensors in place of arrays."""
    ((kind, content),) = form.items()
    if kind == "value":
        return content
    if kind == "dict":
        return {k: nest_of(v, arrays) for k, v in content.items()}
    if kind == "named":
        module, name, parts = content
        return named_tuple(module, name)(*(nest_of(v, arrays) for v in parts))
    if kind in ("tuple", "list"):
        parts = [nest_of(v, arrays) for v in content]
        return tuple(parts) if kind == "tuple" else parts
    return tf.constant(arrays[content])


def named_tuple(module: str, name: str) -> type:
    """Find the class of a named tuple, in a module that the program has imported itself."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
        raise ValueError(
            f"its state has a {name} of the module {module!r}, which is not a named tuple here: "
            "run it by the script that wrote it"
        )
    return found


def save(path: Path, nest: Any) -> dict[str, Any]:
    """Write the arrays of a nest to a file, and return its form and the file's checksum."""
    arrays: list[np.ndarray] = []
    form = form_of(nest, arrays)
    content = io.BytesIO()
    named: dict[str, Any] = {str(i): x for i, x in enumerate(arrays)}
    np.savez(content, **named)
    data = content.getvalue()
    put(path, [data])
    return {"file": path.name, "form": form, "sha256": hashlib.sha256(data).hexdigest()}


def load(folder: Path, saved: dict[str, Any]) -> Any:
    """Read what `save` has written."""
    path = folder / saved["file"]
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != saved["sha256"]:
        raise ValueError(f"{str(path)!r} is damaged: its checksum is another one")
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return nest_of(saved["form"], [arrays[str(i)] for i in range(len(arrays.files))])
