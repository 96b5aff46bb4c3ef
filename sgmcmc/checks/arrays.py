"""Check arrays, and dicts of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from .. import tree
from ..outside import Outside, read_by_slices
from .words import described

SLICE_BYTES = 16 << 20


def named(name: str, value: Any, wanted: str) -> None:
    """Check that this is a dict that is not empty and has strings as names."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict of {wanted}, not {described(value)}")
    if not value:
        raise ValueError(f"{name} is an empty dict: it must hold {wanted}")
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{name} must have strings as names, not {key!r}")
        if "/" in key:
            raise ValueError(
                f"{name} must not have '/' in its names, which parts those of nests: {key!r}"
            )


def array(name: str, value: Any, outside: bool = False) -> Any:
    """Return an array of numbers or booleans, in memory unless it may be `outside`."""
    if isinstance(value, np.memmap):
        x = value
    elif outside and read_by_slices(value):
        if not all(isinstance(size, (int, np.integer)) for size in value.shape):
            raise TypeError(
                f"{name} must have a known shape, not {value.shape}: compute it, or for an array "
                "of dask call its compute_chunk_sizes()"
            )
        x = value if isinstance(value, Outside) else Outside(value)
        first = np.asarray(value[:1])
        if first.shape[1:] != x.shape[1:]:
            raise TypeError(f"{name} must be a dense array, not a {type(value).__name__}")
        if len(x):
            array(name, first)
    else:
        try:
            x = np.asarray(value)
        except ValueError:
            raise ValueError(f"{name} must be an array, not lists of unequal lengths") from None
    dtype = value.dtype if hasattr(value, "iloc") and len(value.shape) == 1 else x.dtype
    if x.dtype.kind not in "biuf" or not isinstance(dtype, np.dtype):
        came = not_numbers(dtype, x) if x.ndim or dtype.kind in "US" else described(value)
        raise TypeError(f"{name} must hold real numbers or booleans, not {came}")
    if np.ma.is_masked(value):
        raise ValueError(f"{name} must not have masked values: fill them, or remove their rows")
    if x.size == 0:
        raise ValueError(f"{name} must not be empty, but its shape is {x.shape}")
    return x


def not_numbers(dtype: Any, x: Any) -> str:
    """Describe values of a type of NumPy or pandas, and how to make numbers of them."""
    kind, name = dtype.kind, str(dtype)
    if name == "category":
        return "category values: use their integer codes, .cat.codes"
    if kind == "U" or (x.size and isinstance(x.flat[0], str)):
        return "text: code it as integers"
    if kind == "S":
        return "bytes: code them as integers"
    if kind in "mM":
        return f"{name} values: use numbers, such as the days since a date"
    if name == "object":
        return "object values: convert them by .astype('float64')"
    if kind in "biuf":  # of pandas, with a mask
        numpy_type = {"b": "bool", "f": "float64"}.get(kind, "int64")
        return f"{name} values: fill in missing ones, and convert them by .astype({numpy_type!r})"
    return f"{name} values"


def tensors(nest: Any) -> Any:
    """Return the arrays of a nest as tensors."""
    return tree.map(tf.convert_to_tensor, nest)


def cast(name: str, x: np.ndarray, dtype: Any, copy: bool = True) -> np.ndarray:
    """Return finite numbers of this type, contiguous in memory."""
    with np.errstate(over="ignore"):
        result = x.astype(dtype, order="C", copy=copy)
    finite(name, result, given=x)
    return result


def finite(
    name: str,
    x: np.ndarray,
    rows: np.ndarray | None = None,
    given: Any = None,
    first: int = 0,
) -> None:
    """Check that there is no NaN and no infinite value.

    `given` has the values before they were converted to a type that may be too small for them.
    `rows` has the numbers of the rows in x, if x does not have all rows; if these are contiguous,
    `first` is the number of the first of them, and `given` has no others.
    """
    is_scalar, x = x.ndim == 0, np.atleast_1d(x)
    given = x if given is None else np.atleast_1d(given) if is_scalar else given
    count = max(1, SLICE_BYTES // max(1, x[:1].nbytes))
    for start in range(0, len(x), count):
        part = x[start : start + count]
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(np.vdot(part, part)):  # a third of the time of looking at each number
                continue
        good = np.isfinite(part)
        if not good.all():
            bad = np.argwhere(~good)[0]
            bad[0] += start
            row = bad[0] = bad[0] if rows is None else rows[bad[0]]
            value = given[row : row + 1][(0, *bad[1:])]
            where = f"in row {row + first}"
            found = f"{name} is {value}" if is_scalar else f"{name} has {value} {where}"
            if np.isfinite(value):
                raise ValueError(
                    f"{found}, too large for {x.dtype}: rescale it, or pass dtype='float64'"
                )
            raise ValueError(f"{found}: every value must be finite")
