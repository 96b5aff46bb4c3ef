"""Every check of what users pass in: each error names the argument, what came and what would do."""

from __future__ import annotations

import difflib
import math
import numbers
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from . import tree

SLICE_BYTES = 16 << 20


# Arguments of one sampler, declared as fields of its dataclass


def tunable(default: Any, check: Callable, doc: str, positional: bool = False) -> Any:
    """A sampler's own argument: `check(name, value, params)` returns the value to use."""
    return field(default=default, metadata={"check": check, "doc": doc, "positional": positional})


def whole(name: str, value: Any, params: Any = None, at_least: int = 1) -> int:
    """A whole number."""
    wanted = "a positive whole number" if at_least else "a whole number, 0 or more"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be {wanted}, not {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be {wanted}, not {value}")
    return int(value)


def boolean(name: str, value: Any, params: Any = None) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def number(
    name: str,
    value: Any,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> float:
    """A finite number within bounds."""
    low = f" above {above:g}" if above > -math.inf else ""
    low += f" of at least {at_least:g}" if at_least > -math.inf else ""
    high = f"{' and' if low else ''} at most {at_most:g}" if at_most < math.inf else ""
    wanted = f"one finite number{low}{high}"
    if not isinstance(value, (bool, str)) and np.ndim(value) == 0:
        try:
            value = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be {wanted}, not {value!r}") from None
    else:
        shape = f"an array of shape {np.shape(value)}" if np.ndim(value) else repr(value)
        raise (ValueError if np.ndim(value) else TypeError)(f"{name} must be {wanted}, not {shape}")
    if not (math.isfinite(value) and above < value and at_least <= value <= at_most):
        raise ValueError(f"{name} must be {wanted}, not {value:g}")
    return value


def by_parameter(name: str, value: Any, params: Any, check: Callable[[str, Any], Any]) -> Any:
    """A nest like `params` of checked values: one value serves all, a dict names each parameter."""
    if not isinstance(value, Mapping):
        value = check(name, value)
        return tree.map(lambda _: value, params)
    same_names(name, value, params)
    return {
        key: by_parameter(f"{name}[{key!r}]", value[key], below, check)
        if isinstance(below, dict)
        else check(f"{name}[{key!r}]", value[key])
        for key, below in params.items()
    }


def same_names(name: str, value: Mapping, params: Mapping) -> None:
    """The names of the parameters, each once."""
    unknown, missing = [k for k in value if k not in params], [k for k in params if k not in value]
    if unknown:
        raise ValueError(
            f"{name} names {unknown[0]!r}, which is no parameter{nearest(unknown[0], params)}; "
            f"the parameters are {sorted(params)}"
        )
    if missing:
        raise ValueError(f"{name} lacks an entry for the parameter {missing[0]!r}")


def nearest(name: Any, known: Any) -> str:
    """A guess at what was meant."""
    close = difflib.get_close_matches(str(name), [str(k) for k in known], 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def per_parameter(**bounds: float) -> Callable:
    """The check of a constant: a number, or a dict of numbers by parameter."""

    def check(name: str, value: Any, params: Any) -> Any:
        return by_parameter(name, value, params, lambda n, v: number(n, v, **bounds))

    return check


def optional_positive(name: str, value: Any, params: Any) -> Any:
    """None, or a positive number for each parameter."""
    return None if value is None else per_parameter(above=0)(name, value, params)


def optional_like_params(name: str, value: Any, params: Any) -> Any:
    """None, or finite arrays in the form of the parameters."""
    return None if value is None else like_params(name, value, params, ())


# Arguments of every sampler


def stepsize(value: Any, params: Any) -> Any:
    """A positive number or a schedule for each parameter."""

    def check(name: str, value: Any) -> Any:
        if not callable(value):
            return number(name, value, above=0)
        scheduled(value, 0, name)
        return value

    return by_parameter("stepsize", value, params, check)


def scheduled(schedule: Callable[[int], float], iteration: int, name: str = "stepsize") -> float:
    """The step size of a schedule at one iteration."""
    return number(f"{name}({iteration})", schedule(iteration), above=0)


def seed(value: Any) -> int:
    """A seed from 0 to 2⁶⁴ − 1, drawn from the system's entropy for None."""
    if value is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    if not whole("seed", value, at_least=0) < 2**64:
        raise ValueError(f"seed must be below 2**64, not {value}")
    return int(value)


def dtype(value: Any) -> tf.DType:
    """The type of parameters and floating-point data."""
    try:
        known = tf.as_dtype(value)
    except TypeError:
        known = None
    if known not in (tf.float32, tf.float64):
        raise ValueError(f"dtype must be 'float32' or 'float64', not {value!r}")
    return known


def function(name: str, value: Any, call: str) -> Callable:
    """Something to call."""
    if not callable(value):
        raise TypeError(f"{name} must be a function {call}, not {described(value)}")
    return value


def dataset(value: Any, dtype: tf.DType) -> dict[str, np.ndarray]:
    """Arrays that share their first axis; those in memory are made contiguous and of one dtype."""
    named("dataset", value, "arrays of data, such as {'X': X, 'y': y}")
    arrays = {k: array(f"dataset[{k!r}]", v) for k, v in value.items()}
    for name, x in arrays.items():
        if x.ndim == 0:
            raise ValueError(f"dataset[{name!r}] must have the rows as its first axis; it is {x!r}")
    lengths = {k: len(x) for k, x in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the arrays of dataset must have equally many rows, not {lengths}")
    if 0 in lengths.values():
        raise ValueError(f"dataset is empty: {next(iter(lengths))!r} has no rows")
    for name, x in arrays.items():
        if isinstance(x, np.memmap):
            continue
        wanted = dtype.as_numpy_dtype if x.dtype.kind == "f" else x.dtype.newbyteorder("=")
        arrays[name] = np.ascontiguousarray(x, wanted)
        if x.dtype.kind == "f":
            finite(f"dataset[{name!r}]", arrays[name])
    return arrays


def params(value: Any, dtype: tf.DType) -> dict:
    """Starting values as a dict of arrays, which may be nested."""
    named("params", value, "starting values, such as {'beta': np.zeros(3)}")

    def start(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            named(name, value, "starting values")
            return {k: start(f"{name}[{k!r}]", v) for k, v in value.items()}
        x = array(name, value)
        if x.size == 0:
            raise ValueError(f"{name} is empty: its shape is {x.shape}")
        finite(name, x.astype(dtype.as_numpy_dtype))
        return x.astype(dtype.as_numpy_dtype)

    return {k: start(f"params[{k!r}]", v) for k, v in value.items()}


def like_params(name: str, value: Any, params: Any, leading: tuple[int, ...]) -> Any:
    """Finite arrays of the names and shapes of `params`, behind these leading axes."""
    if not isinstance(params, dict):
        x, wanted = array(name, value), (*leading, *params.shape)
        if x.shape != wanted:
            raise ValueError(f"{name} must have shape {wanted}, not {x.shape}")
        finite(name, x)
        return x.astype(params.dtype)
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict in the form of params, not {described(value)}")
    same_names(name, value, params)
    return {k: like_params(f"{name}[{k!r}]", value[k], p, leading) for k, p in params.items()}


def minibatch_size(value: Any, N: int) -> int:
    """How many rows a minibatch has."""
    size = number("minibatch_size", value, above=0)
    wanted = f"a whole number of rows from 1 to N = {N}, or a proportion below 1"
    if size < 1:
        if round(size * N) == 0:
            raise ValueError(
                f"minibatch_size={value} of N = {N} rows rounds to 0 rows: give {wanted}"
            )
        return round(size * N)
    if size == 1 and not isinstance(value, numbers.Integral):
        raise ValueError(f"minibatch_size=1.0 is ambiguous: give 1 for one row, or {N} for all")
    if size != int(size) or size > N:
        raise ValueError(f"minibatch_size must be {wanted}, not {value}")
    return int(size)


def keep(value: Any, params: Any) -> list[str]:
    """Names of parameters."""
    if value is None:
        return list(params)
    if isinstance(value, str) or not isinstance(value, (list, tuple, set)):
        raise TypeError(f"keep must be a list of names of parameters, not {value!r}")
    for name in value:
        if name not in params:
            raise ValueError(
                f"keep names {name!r}, which is no parameter{nearest(name, params)}; "
                f"the parameters are {sorted(params)}"
            )
    return [k for k in params if k in value]


def track(value: Any, params: Any) -> dict[str, Callable]:
    """Test functions of the parameters, each tried once."""
    if value is None:
        return {}
    named(
        "track", value, "test functions, such as {'norm': lambda params: tf.norm(params['beta'])}"
    )
    for name, fn in value.items():
        if name in params:
            raise ValueError(f"track names {name!r}, which is a parameter: choose another name")
        function(f"track[{name!r}]", fn, "of params")
        result = called(f"track[{name!r}]", fn, tensors(params))
        try:
            tf.convert_to_tensor(result)
        except (TypeError, ValueError):
            raise TypeError(
                f"track[{name!r}] must return a number or an array, not {described(result)}"
            ) from None
    return dict(value)


def run_lengths(n_iters: Any, burn_in: Any, thin: Any) -> None:
    """How long to run, and which draws to keep."""
    whole("n_iters", n_iters)
    whole("burn_in", burn_in, at_least=0)
    if whole("thin", thin) > n_iters:
        raise ValueError(f"thin={thin} keeps no draw of n_iters={n_iters}: it must be at most that")


def folder(value: Any) -> Path | None:
    """A folder that holds nothing yet."""
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"out must be the path of a folder, not {described(value)}")
    path = Path(value)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ValueError(f"out must be a new or an empty folder; {str(path)!r} is not empty")
    return path


# The model


def model(
    log_lik: Callable, log_prior: Callable | None, params: Any, rows: dict[str, np.ndarray]
) -> None:
    """Try the model on a few rows, so that users meet their own mistakes in their own words."""
    function("log_lik", log_lik, "of (params, data)")
    parts = {"log_lik": (log_lik, (rows,))}
    if log_prior is not None:
        parts["log_prior"] = function("log_prior", log_prior, "of params"), ()
    connected = set()
    for name, (fn, data) in parts.items():
        arguments = tensors((params, *data))
        with tf.GradientTape() as tape:
            tape.watch(arguments[0])
            value = called(name, fn, *arguments)
        one_number(name, value)
        gradient = tree.leaves(tape.gradient(value, arguments[0])) if tf.is_tensor(value) else []
        connected |= {path for path, g in zip(tree.names(params), gradient) if g is not None}
        traced(name, fn, *arguments)
    for path in tree.names(params):
        if path not in connected:
            both = " and ".join(parts)
            raise ValueError(
                f"params: {both} {'do' if log_prior else 'does'} not depend on {path!r} (or not "
                "differentiably), so it would walk at random: use it, or leave it out"
            )


def one_number(name: str, value: Any) -> None:
    """The value of a log density."""
    if value is None:
        raise ValueError(
            f"{name} returned None: it must return its log density (is a return lost?)"
        )
    try:
        value = tf.convert_to_tensor(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must return one number, not {described(value)}") from None
    if not value.dtype.is_floating:
        raise TypeError(f"{name} must return a floating-point number, not {value.dtype.name}")
    if value.shape.rank:
        raise ValueError(
            f"{name} must return one number, but its shape is {tuple(value.shape)}: sum it, as in "
            "tf.reduce_sum(...)"
        )
    if not np.isfinite(value.numpy()):
        raise ValueError(
            f"{name} is {value.numpy()} at the start: choose params where it is finite"
        )


def called(name: str, fn: Callable, *arguments: Any) -> Any:
    """fn(*arguments), with the user's own error in front if it raises."""
    try:
        return fn(*tree.map(lambda x: x, arguments))
    except Exception as error:
        raise ValueError(f"{name} raised {summary(error)}{dtype_hint(fn, arguments)}") from error


def traced(name: str, fn: Callable, *arguments: Any) -> None:
    """What works on values must work in compiled code as well."""
    try:
        tf.function(fn, autograph=False).get_concrete_function(*arguments)
    except Exception as error:
        raise ValueError(
            f"{name} cannot be compiled: {summary(error)}. It must be made of TensorFlow "
            "operations (tf.where and tf.cond instead of if, no .numpy(), no NumPy functions of "
            "parameters)"
        ) from error


def dtype_hint(fn: Callable, arguments: Any) -> str:
    """What to do where the function runs in double precision only."""
    is_single = any(x.dtype == tf.float32 for x in tree.leaves(arguments))
    double = tree.map(lambda x: tf.cast(x, tf.float64) if x.dtype == tf.float32 else x, arguments)
    try:
        fn(*double)
    except Exception:
        return ""
    return is_single * (
        ". It mixes float64 constants with float32 parameters and data: make them float32 "
        "(np.float32(c), tf.constant(c, tf.float32)), or pass dtype='float64'"
    )


# Words


def summary(error: Exception) -> str:
    """An error in one line, without TensorFlow's decorations."""
    text = str(error).strip().split("\n")[0].split("}} ")[-1].split(" [Op:")[0]
    return f"{type(error).__name__}: {text}"


def described(value: Any) -> str:
    """What came instead of what was wanted."""
    return "None" if value is None else f"{type(value).__name__} {str(value)[:60]!r}"


# Arrays


def named(name: str, value: Any, wanted: str) -> None:
    """A dict that is not empty and has strings for names."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict of {wanted}, not {described(value)}")
    if not value:
        raise ValueError(f"{name} is an empty dict: it must hold {wanted}")
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{name} must have strings as names, not {key!r}")


def array(name: str, value: Any) -> np.ndarray:
    """An array of numbers or booleans."""
    if isinstance(value, np.memmap):
        x = value
    else:
        try:
            x = np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{name} cannot be made an array: {error}") from None
    if x.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must hold numbers or booleans, not {x.dtype}: code text as integers first"
        )
    return x


def tensors(nest: Any) -> Any:
    """The arrays of a nest as tensors."""
    return tree.map(tf.convert_to_tensor, nest)


def finite(name: str, x: np.ndarray, rows: np.ndarray | None = None) -> None:
    """No NaN, no infinite value; `rows` are the numbers of the rows, where not 0, 1, ..."""
    if x.ndim == 0:
        if not np.isfinite(x):
            raise ValueError(f"{name} is {x}: it must be finite")
        return
    count = max(1, SLICE_BYTES // max(1, x[:1].nbytes))
    for start in range(0, len(x), count):
        good = np.isfinite(x[start : start + count])
        if not good.all():
            bad = np.argwhere(~good)[0]
            bad[0] += start
            value = x[tuple(bad)]
            row = bad[0] if rows is None else rows.reshape(-1)[bad[0]]
            raise ValueError(f"{name} has {value} in row {row}: remove or replace such rows")
