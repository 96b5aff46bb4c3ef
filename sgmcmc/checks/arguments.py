"""Check the arguments that all samplers share."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from .. import tree
from ..minibatches import Strata
from ..outside import is_outside
from ..store.files import LOCK, RECORD
from .arrays import array, cast, named
from .values import by_parameter, names_of_parameters, number, one_of, same_names, scheduled, whole
from .words import described


def stepsize(value: Any, params: Any, of: str = "stepsize") -> Any:
    """Return, for each parameter, a positive number or a schedule that checks its values."""
    dtype = tree.leaves(params)[0].dtype if params else np.float32

    def check(name: str, value: Any, also: str = "") -> Any:
        if not callable(value):
            value = number(name, value, f" or a schedule{also}", above=0)
            if not np.finfo(dtype).tiny <= value <= np.finfo(dtype).max:
                raise ValueError(f"{name} must be a number that {dtype} can hold, not {value}")
            return value
        scheduled(value, 0, name)
        return partial(scheduled, value, name=of)

    return by_parameter(of, value, params, check)


def temperature(value: Any, unmoved: str = "") -> Any:
    """Return a number of at least 0, or a schedule that checks its values.

    `unmoved` names a dynamics that does not move at 0. Then the temperature must be above 0.
    """
    name = f"{unmoved}'s temperature" if unmoved else "temperature"
    above, at_least = (0.0, -math.inf) if unmoved else (-math.inf, 0.0)
    if not callable(value):
        return number(name, value, " or a schedule", above=above, at_least=at_least)
    checked = partial(scheduled, value, name=name, above=above, at_least=at_least)
    checked(0)
    return checked


def dataset(value: Any, dtype: tf.DType) -> dict[str, Any]:
    """Return arrays with equally many rows. Those in memory are contiguous, and floats `dtype`."""
    if type(value).__module__.partition(".")[0] == "pyarrow":
        from ..columns import parquet

        value = parquet(value)
    if isinstance(value, (str, os.PathLike)):
        raise TypeError(
            f"dataset must be a dict of arrays, not the path {os.fspath(value)!r}: for Parquet "
            "files, pass sgmcmc.parquet(path)"
        )
    if hasattr(value, "columns") and hasattr(value, "compute"):
        raise TypeError(
            "dataset must be a dict of arrays or a DataFrame in memory, not one of dask: compute "
            "it, or write it to Parquet files and pass sgmcmc.parquet(path)"
        )
    if hasattr(value, "columns") and hasattr(value, "to_numpy"):
        value = by_column(value)
    named("dataset", value, "arrays, such as {'X': X, 'y': y}, or a DataFrame")
    arrays = {k: array(f"dataset[{k!r}]", v, outside=True) for k, v in value.items()}
    for name, x in arrays.items():
        if x.ndim == 0:
            raise ValueError(
                f"dataset[{name!r}] must be an array whose first axis is the rows, not {x}"
            )
    lengths = {k: len(x) for k, x in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the arrays of dataset must have equally many rows, not {lengths}")
    for name, x in arrays.items():
        if is_outside(x):
            continue
        if x.dtype.kind == "f":
            arrays[name] = cast(f"dataset[{name!r}]", x, dtype.as_numpy_dtype, copy=False)
        else:
            arrays[name] = np.ascontiguousarray(x, x.dtype.newbyteorder("="))
    return arrays


def by_column(frame: Any) -> dict[str, Any]:
    """Return the columns of a DataFrame of pandas or polars, by name."""
    names = list(frame.columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"dataset has several columns {twice!r}: give each a name of its own")
    return {name: frame[name] for name in names}


def params(value: Any, dtype: tf.DType) -> dict:
    """Return starting values as a dict of arrays, which may be nested."""
    named("params", value, "starting values, such as {'beta': np.zeros(3)}")

    def start(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            named(name, value, "starting values")
            return {k: start(f"{name}[{k!r}]", v) for k, v in value.items()}
        return cast(name, array(name, value), dtype.as_numpy_dtype)

    return {k: start(f"params[{k!r}]", v) for k, v in value.items()}


def like_params(name: str, value: Any, params: Any, leading: tuple[int, ...]) -> Any:
    """Return finite arrays with the names of `params`, and its shapes after the leading axes."""
    if not isinstance(params, dict):
        x, wanted = array(name, value), (*leading, *params.shape)
        if x.shape != wanted:
            raise ValueError(f"{name} must have shape {wanted}, not {x.shape}")
        return cast(name, x, params.dtype)
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict in the form of params, not {described(value)}")
    same_names(name, value, params)
    return {k: like_params(f"{name}[{k!r}]", value[k], p, leading) for k, p in params.items()}


def minibatch_size(value: Any, N: int) -> int:
    """Return the number of rows in a minibatch."""
    wanted = f"a whole number of rows from 1 to N = {N}, a proportion below 1, 'all' or 'auto'"
    try:
        size = number("minibatch_size", value, above=0)
    except (TypeError, ValueError) as error:
        raise type(error)(f"minibatch_size must be {wanted}, not {described(value)}") from None
    if size < 1:
        if round(size * N) == 0:
            raise ValueError(
                f"minibatch_size = {value} of N = {N} rows rounds to 0 rows: it must be a larger "
                "proportion, or a whole number of rows"
            )
        return round(size * N)
    if size == 1 and not isinstance(value, numbers.Integral):
        raise ValueError(
            f"minibatch_size = {value} is ambiguous: it must be 1 for one row, or {N} for all"
        )
    if size != int(size) or size > N:
        raise ValueError(f"minibatch_size must be {wanted}, not {value}")
    return int(size)


def minibatches(value: Any, N: int) -> str | Strata:
    """Return a word, or the order of the strata that the rows are in."""
    if isinstance(value, str):
        return one_of("auto", "reshuffled", "independent")("minibatches", value)
    x = array("minibatches", value)
    if x.shape != (N,):
        raise ValueError(
            "minibatches must be 'auto', 'reshuffled' or 'independent', or an array with the "
            f"stratum of each of N = {N} rows, not of shape {x.shape}"
        )
    return Strata(np.argsort(x, kind="stable"))


def keep(value: Any, params: Any) -> list[str]:
    """Return the names of the parameters to keep."""
    if value is None:
        return list(params)
    return names_of_parameters("keep", value, params)


def run_lengths(n_iters: Any, burn_in: Any, thin: Any) -> tuple[int, int, int]:
    """Return the checked `n_iters`, `burn_in` and `thin`."""
    n_iters, burn_in = whole("n_iters", n_iters), whole("burn_in", burn_in, at_least=0)
    if whole("thin", thin) > n_iters:
        raise ValueError(f"thin must be at most n_iters = {n_iters}, not {thin}")
    return n_iters, burn_in, int(thin)


def store(name: str, value: Any) -> Path | None:
    """Check that this is a store of draws, or a folder that is empty or can be made."""
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"{name} must be the path of a folder, not {described(value)}")
    path, wrong = Path(value), ""
    try:
        path.lstat()
        if not path.is_dir():
            wrong = "is a file"
        elif any(path.iterdir()) and not any((path / own).exists() for own in (RECORD, LOCK)):
            wrong = "is not empty, and no store of sgmcmc"
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise ValueError(f"{name} must be a folder that can be made: {error}") from None
    if wrong:
        raise ValueError(f"{name} must be a new or an empty folder, but {str(path)!r} {wrong}")
    path = path.absolute()
    there = next(p for p in (path, *path.parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        wrong = "cannot be written to" if there.is_dir() else "is a file"
        raise ValueError(f"{name} must be a folder that can be made, but {str(there)!r} {wrong}")
    return path
