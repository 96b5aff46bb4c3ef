"""Every check of what users pass in: each error names the argument, what came and what would do."""

from __future__ import annotations

import difflib
import math
import numbers
import os
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from . import operations, tree
from .dynamics import LOGARITHMIC, Dynamics
from .outside import Outside, is_outside, read_by_slices

SLICE_BYTES = 16 << 20
NOT_ONE = 1e-4  # by how much probabilities may miss 1
TRIES = 100  # sets of columns that are cast to see whether the model then runs
DECORATIONS = re.compile(r"\{\{function_node .*?\}\} | for '\{\{node .*|\s*\[\[\{\{.*|\s*\[Op:.*")


# Arguments of one sampler, declared as fields of its dataclass


def tunable(default: Any, check: Callable, doc: str, positional: bool = False) -> Any:
    """A sampler's own argument: `check(name, value, params)` returns the value to use."""
    return field(default=default, metadata={"check": check, "doc": doc, "positional": positional})


def required(check: Callable, doc: str) -> Any:
    """A sampler's own argument without a default: it stands behind the step size."""
    return field(metadata={"check": check, "doc": doc, "positional": True})


def own(tuning: Any, params: Any) -> Any:
    """A sampler's own arguments, checked and in the form in which it uses them."""
    return replace(
        tuning,
        **{
            f.name: f.metadata["check"](f.name, getattr(tuning, f.name), params)
            for f in fields(tuning)
        },
    )


def blocks(name: str, value: Any, params: Any) -> dict[str, Dynamics]:
    """A sampler for each parameter."""
    wanted = "the samplers of the parameters, such as {'omega': SCIR(alpha=0.1), 'mu': SGLD()}"
    named(name, value, wanted)
    same_names(name, value, params)
    found, lengths = {}, {}
    for key in params:
        block = value[key]
        if isinstance(block, type) or not isinstance(block, Dynamics) or hasattr(block, name):
            raise TypeError(
                f"{name}[{key!r}] must be SCIR(...), SGRLD(...), SGLD(), SGHMC(...), SGNHT(...) or "
                f"Gibbs(...), not {described(block)}"
            )
        try:
            found[key] = own(block, {key: params[key]})
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}[{key!r}]: {error}") from None
        if found[key].inner_steps > 1:
            lengths[key] = found[key].inner_steps
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{name} must have equal L, not {lengths}")
    return found


def keyed_function(name: str, value: Any, params: Any) -> Callable:
    """Something that draws random numbers, from a key."""
    return function(name, value, "of (params, data, key)")


def whole(name: str, value: Any, params: Any = None, at_least: int = 1) -> int:
    """A whole number."""
    wanted = "a positive whole number" if at_least else "a whole number, 0 or more"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be {wanted}, not {described(value)}")
    if value < at_least:
        raise ValueError(f"{name} must be {wanted}, not {value}")
    return int(value)


def boolean(name: str, value: Any, params: Any = None) -> bool:
    """True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, not {described(value)}")
    return bool(value)


def number(
    name: str,
    value: Any,
    also: str = "",
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> float:
    """A finite number within bounds; `also` tells what else the argument may be."""
    low = f" above {above:g}" if above > -math.inf else ""
    low += f" of at least {at_least:g}" if at_least > -math.inf else ""
    high = f"{' and' if low else ''} at most {at_most:g}" if at_most < math.inf else ""
    wanted = f"a finite number{low}{high}"
    is_array = isinstance(value, (list, tuple)) or np.ndim(value) > 0
    if is_array or np.asarray(value).dtype.kind not in "iufO":
        raise (ValueError if is_array else TypeError)(
            f"{name} must be {wanted}{also}, not {described(value)}"
        )
    try:
        x = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be {wanted}{also}, not {described(value)}") from None
    if not (math.isfinite(x) and above < x and at_least <= x <= at_most):
        raise ValueError(f"{name} must be {wanted}, not {value}")
    return x


def by_parameter(name: str, value: Any, params: Any, check: Callable) -> Any:
    """A nest like `params` of checked values: one value serves all, a dict names each parameter."""
    if not isinstance(value, Mapping):
        value = check(name, value, " or a dict of them by parameter")
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
        raise ValueError(
            f"{name} lacks the parameter {missing[0]!r}: it must have all of {sorted(params)}"
        )


def nearest(name: Any, known: Any) -> str:
    """A guess at what was meant."""
    close = difflib.get_close_matches(str(name), [str(k) for k in known], 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def per_parameter(**bounds: float) -> Callable:
    """The check of a constant: a number, or a dict of numbers by parameter."""

    def check(name: str, value: Any, params: Any) -> Any:
        return by_parameter(name, value, params, partial(number, **bounds))

    return check


def rate(name: str, value: Any, params: Any) -> Any:
    """A positive number up to 1 or the word "stepsize", for each parameter."""

    def check(name: str, value: Any, also: str = "") -> Any:
        if isinstance(value, str) and value == "stepsize":
            return value
        return number(name, value, f" or 'stepsize'{also}", above=0, at_most=1)

    return by_parameter(name, value, params, check)


def keep_log(name: str, value: Any, params: Any) -> bool:
    """True or False, where the names of logarithms are free."""
    if boolean(name, value) and "posterior" in params:
        raise ValueError(
            f"{name} must be False with a parameter 'posterior': its logarithms would have the "
            "name of the log posterior's trace. Rename it"
        )
    return bool(value)


def optional_positive(name: str, value: Any, params: Any) -> Any:
    """None, or a positive number for each parameter."""
    return None if value is None else per_parameter(above=0)(name, value, params)


def optional_whole(name: str, value: Any, params: Any) -> int | None:
    """None, or a positive whole number."""
    return None if value is None else whole(name, value)


def optional_function(name: str, value: Any, params: Any) -> Callable | None:
    """None, or something to call."""
    return None if value is None else keyed_function(name, value, params)


def one_of(*known: str) -> Callable:
    """The check of a word."""

    def check(name: str, value: Any, params: Any) -> str:
        if value not in known:
            raise ValueError(f"{name} must be {' or '.join(map(repr, known))}, not {value!r}")
        return value

    return check


def some_names(name: str, value: Any, params: Any) -> tuple[str, ...]:
    """Names of parameters, each of which may be a nest."""
    return tuple(names_of_parameters(name, value, params))


def concentration(name: str, value: Any, params: Any) -> Any:
    """Positive numbers for each component, given for all, along the last axis, or one by one."""

    def shaped(name: str, value: Any, like: np.ndarray) -> np.ndarray:
        x = cast(name, array(name, value), like.dtype)
        if not (x > 0).all():
            raise ValueError(f"{name} must be above 0, but has {x.min():g}")
        try:
            return np.broadcast_to(x, like.shape).copy()
        except ValueError:
            last = f" or {like.shape[-1:]}" if like.ndim > 1 else ""
            raise ValueError(
                f"{name} must be a number, or of shape {like.shape}{last}, not {x.shape}"
            ) from None

    def by_name(name: str, value: Any, params: Any) -> Any:
        if not isinstance(params, dict):
            return shaped(name, value, params)
        if not isinstance(value, Mapping):
            return {k: by_name(name, value, p) for k, p in params.items()}
        same_names(name, value, params)
        return {k: by_name(f"{name}[{k!r}]", value[k], p) for k, p in params.items()}

    return by_name(name, value, params)


def optional_like_params(name: str, value: Any, params: Any) -> Any:
    """None, or finite arrays in the form of the parameters."""
    return None if value is None else like_params(name, value, params, ())


# Arguments of every sampler


def stepsize(value: Any, params: Any) -> Any:
    """A positive number or a schedule for each parameter."""
    dtype = tree.leaves(params)[0].dtype

    def check(name: str, value: Any, also: str = "") -> Any:
        if not callable(value):
            value = number(name, value, f" or a schedule{also}", above=0)
            if not np.finfo(dtype).tiny <= value <= np.finfo(dtype).max:
                raise ValueError(f"{name} must be a number that {dtype} can hold, not {value}")
            return value
        scheduled(value, 0, name)
        return value

    return by_parameter("stepsize", value, params, check)


def scheduled(schedule: Callable[[int], float], iteration: int, name: str = "stepsize") -> float:
    """The step size of a schedule at one iteration."""
    name = f"{name}({iteration})"
    try:
        value = schedule(iteration)
    except Exception as error:
        raise ValueError(f"{name} raised {summary(error)}") from error
    return number(name, value, above=0)


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


def dataset(value: Any, dtype: tf.DType) -> dict[str, Any]:
    """Arrays that share their first axis; those in memory are made contiguous and of one dtype."""
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
    """The columns of a DataFrame of pandas, or polars, by name."""
    names = list(frame.columns)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"dataset has several columns {twice!r}: give each a name of its own")
    return {name: frame[name] for name in names}


def params(value: Any, dtype: tf.DType) -> dict:
    """Starting values as a dict of arrays, which may be nested."""
    named("params", value, "starting values, such as {'beta': np.zeros(3)}")

    def start(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            named(name, value, "starting values")
            return {k: start(f"{name}[{k!r}]", v) for k, v in value.items()}
        return cast(name, array(name, value), dtype.as_numpy_dtype)

    return {k: start(f"params[{k!r}]", v) for k, v in value.items()}


def like_params(name: str, value: Any, params: Any, leading: tuple[int, ...]) -> Any:
    """Finite arrays of the names and shapes of `params`, behind these leading axes."""
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
    """How many rows a minibatch has."""
    wanted = f"a whole number of rows from 1 to N = {N}, or a proportion below 1"
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


def keep(value: Any, params: Any) -> list[str]:
    """Names of parameters."""
    if value is None:
        return list(params)
    return names_of_parameters("keep", value, params)


def names_of_parameters(name: str, value: Any, params: Any) -> list[str]:
    """A list of names, in the order of the parameters."""
    if isinstance(value, str) or not isinstance(value, (list, tuple, set)):
        raise TypeError(f"{name} must be a list of names of parameters, not {described(value)}")
    for each in value:
        if each not in list(params):
            raise ValueError(
                f"{name} names {each!r}, which is no parameter{nearest(each, params)}; "
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
        arguments = tensors((params,))
        result = called(f"track[{name!r}]", fn, *arguments)
        try:
            known = tf.convert_to_tensor(result).dtype != tf.string
        except (TypeError, ValueError):
            known = False
        if not known:
            raise TypeError(
                f"track[{name!r}] must return a number or an array, not {described(result)}"
            )
        traced(f"track[{name!r}]", fn, *arguments)
    return dict(value)


def run_lengths(n_iters: Any, burn_in: Any, thin: Any) -> tuple[int, int, int]:
    """How long to run, and which draws to keep."""
    n_iters, burn_in = whole("n_iters", n_iters), whole("burn_in", burn_in, at_least=0)
    if whole("thin", thin) > n_iters:
        raise ValueError(f"thin must be at most n_iters = {n_iters}, not {thin}")
    return n_iters, burn_in, int(thin)


def folder(value: Any) -> Path | None:
    """A folder that is empty, or can be made: that is left to the run."""
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"out must be the path of a folder, not {described(value)}")
    path, wrong = Path(value), ""
    try:
        path.lstat()
        wrong = "is a file" if not path.is_dir() else "is not empty" if any(path.iterdir()) else ""
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise ValueError(f"out must be a folder that can be made: {error}") from None
    if wrong:
        raise ValueError(f"out must be a new or an empty folder, but {str(path)!r} {wrong}")
    path = path.absolute()
    there = next(p for p in (path, *path.parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        wrong = "cannot be written to" if there.is_dir() else "is a file"
        raise ValueError(f"out must be a folder that can be made, but {str(there)!r} {wrong}")
    return path


# The model


def model(
    log_lik: Callable | None,
    log_prior: Callable | None,
    params: Any,
    rows: dict[str, np.ndarray],
    free: Collection[str] = (),
    jit: bool = False,
) -> set[str]:
    """Try the model on a few rows, so that users meet their own mistakes in their own words.

    It need not depend on the parameters that are `free`, as what moves them is not its gradient.
    Returns the types of the operations that it is made of.
    """
    parts, types = {}, set()
    if log_lik is not None or not all(path.split("/")[0] in free for path in tree.names(params)):
        parts["log_lik"] = function("log_lik", log_lik, "of (params, data)"), (rows,)
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
        for path, g in zip(tree.names(params), gradient):
            if g is not None:
                connected.add(path)
                if not np.isfinite(tf.convert_to_tensor(g)).all():
                    raise ValueError(
                        f"the gradient of {name} by {path!r} is not finite at the start: choose "
                        "params where it is"
                    )
        types |= traced(name, fn, *arguments, jit=jit)
    for path in tree.names(params):
        if path not in connected and path.split("/")[0] not in free:
            neither = (
                "neither log_lik nor log_prior depends"
                if len(parts) == 2
                else "log_lik does not depend"
            )
            raise ValueError(
                f"{neither} on the parameter {path!r} (or not differentiably), so it would walk at "
                "random: use it, or leave it out of params"
            )
    return types


def on_space(name: str, value: Any, space: Any) -> Any:
    """Starting values where they may be: probabilities add up to 1, others are not below 0."""
    if isinstance(value, dict):
        return {k: on_space(f"{name}[{k!r}]", v, space[k]) for k, v in value.items()}
    if space not in LOGARITHMIC:
        return value
    if (value < 0).any():
        raise ValueError(f"{name} must not be negative, but has {value.min():g}")
    if space == "positive":
        return value
    if value.ndim == 0 or value.shape[-1] < 2:
        raise ValueError(
            f"{name} must hold the probabilities of at least 2 categories along its last axis, but "
            f"its shape is {value.shape}"
        )
    total = value.sum(-1, keepdims=True)
    if not (total > 0).all():
        raise ValueError(f"{name} must have probabilities that add up to 1, but some are all 0")
    wrong = np.abs(total - 1).max()
    if wrong > NOT_ONE:
        warnings.warn(
            f"the probabilities of {name} do not add up to 1 along the last axis (off by up to "
            f"{wrong:.3g}): they are divided by their sum",
            stacklevel=2,
        )
    return value / total


def keyed_functions(functions: Sequence[Any], params: Any, rows: Any, jit: bool) -> None:
    """See that functions that draw random numbers return what they should.

    Those that give counts are not run, as the counts are looked at elsewhere.
    """
    for label, call, names, gives_counts in functions:
        given = *tensors((params, rows)), tf.constant([0, 0])
        found, error, types = outline(call, *given)
        if error:
            raise ValueError(f"{label} raised {summary(error)}") from error
        operations.consider(label, types, jit)
        like = params if names is None else {k: params[k] for k in names}
        if not gives_counts:
            found = dict.fromkeys(like, found)
        elif not isinstance(found, Mapping):
            raise TypeError(f"{label} must return a dict of counts, not {described(found)}")
        else:
            same_names(label, found, like)
        try:
            tree.map(partial(matching, label), found, like)
        except (TypeError, ValueError) as error:
            if str(error).startswith(label):
                raise
            raise ValueError(f"{label} must return what has the form of params") from None
        if not gives_counts:
            try:
                value = tf.function(lambda *x, f=call: f(*tree.copies(*x)), autograph=False)(*given)
            except tf.errors.OpError as error:
                raise ValueError(f"{label} raised {summary(error)}") from error
            if not all(np.isfinite(x).all() for x in tree.leaves(value)):
                raise ValueError(f"{label} must return finite numbers, but does not at the start")


def matching(label: str, x: Any, like: np.ndarray) -> None:
    """A result of the shape of the parameter."""
    shape = tuple(x.shape if tf.is_tensor(x) else np.shape(x))
    if shape != like.shape:
        raise ValueError(f"{label} must return an array of shape {like.shape}, not {shape}")


def counts(data: Callable, params: Any, rows: Any, space: Any, drawn: bool = False) -> Any:
    """The statistic at `params` of some rows, once its counts are seen to be ones.

    They may be `drawn` by a function of the user's.
    """

    def check(path: str, x: np.ndarray, space: str) -> None:
        if space not in LOGARITHMIC or np.isfinite(x).all():
            return
        if drawn:
            raise ValueError(f"counts of {path!r} must be finite and not negative")
        raise ValueError(
            f"the counts of {path!r} (params × the gradient of log_lik by them) are negative or "
            "not finite: log_lik must be written in the probabilities as they are, such as "
            "sum(log(omega[z])), or sum(log(sum(omega * p(x)))) for a mixture. Do not divide them "
            "by their sum or take a softmax of them, as TensorFlow Probability's Categorical and "
            "MixtureSameFamily do inside, and leave out factors that fall as they grow"
        )

    try:
        arguments = tensors((params, rows))
        evaluate = tf.function(data, autograph=False).get_concrete_function(*arguments)
        found = tree.map(lambda x: x.numpy(), evaluate(*arguments).gradient)
    except tf.errors.OpError as error:
        raise ValueError(f"log_lik raised {summary(error)}") from error
    for each in zip(tree.names(params), tree.leaves(found), tree.leaves(space)):
        check(*each)
    return found


def one_number(name: str, value: Any) -> None:
    """The value of a log density."""
    if value is None:
        raise ValueError(f"{name} must return one number, not None: is a `return` missing?")
    try:
        value = tf.convert_to_tensor(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must return one number, not {described(value)}") from None
    if not value.dtype.is_floating:
        raise TypeError(f"{name} must return a floating-point number, not {value.dtype.name}")
    if value.shape.rank:
        raise ValueError(
            f"{name} must return one number, not an array of shape {tuple(value.shape)}: sum it, "
            "as in tf.reduce_sum(...)"
        )
    if not np.isfinite(value.numpy()):
        raise ValueError(
            f"{name} is {value.numpy()} at the start: choose params where it is finite"
        )


def called(name: str, fn: Callable, *arguments: Any) -> Any:
    """fn(*arguments), with the user's own error in front if it raises."""
    try:
        return fn(*tree.copies(*arguments))
    except Exception as error:
        hint = dtype_hint(fn, arguments) or cast_hint(fn, arguments, error)
        raise ValueError(f"{name} raised {summary(error)}{hint}") from error


def traced(name: str, fn: Callable, *arguments: Any, jit: bool = False) -> set[str]:
    """What works on values must work in compiled code as well; the operations that it is made of.

    With `jit`, that code is compiled by XLA.
    """
    _, error, types = outline(fn, *arguments)
    if error:
        raise ValueError(
            f"{name} works on values but not in compiled code: {summary(error).split('. ')[0]}."
            " It must be made of TensorFlow operations (tf.where or tf.cond instead of if, no "
            ".numpy(), no NumPy functions of parameters)"
        ) from error
    operations.consider(name, types, jit)
    return types


def outline(fn: Callable, *arguments: Any) -> tuple[Any, Exception | None, set[str]]:
    """The result of fn, without values, or its error in compiled code, and its operations."""
    outcome = []

    def attempt(*arguments: Any) -> None:
        try:
            outcome[:] = fn(*tree.copies(*arguments)), None
        except Exception as error:  # kept from TensorFlow, which would put its own frames on top
            outcome[:] = None, error

    program = tf.function(attempt, autograph=False).get_concrete_function(*arguments)
    return *outcome, operations.types_of(program.graph)


def dtype_hint(fn: Callable, arguments: Any) -> str:
    """What to do where the function runs in the other precision only."""
    mine = tree.leaves(arguments)[0].dtype
    other = tf.float64 if mine == tf.float32 else tf.float32
    if not works(fn, *tree.map(lambda x: tf.cast(x, other) if x.dtype == mine else x, arguments)):
        return ""
    return (
        f". It mixes {other.name} constants with {mine.name} parameters and data: make them "
        f"{mine.name}, as in tf.constant(c, tf.{mine.name}), or pass dtype={other.name!r}"
    )


def cast_hint(fn: Callable, arguments: Any, error: Exception) -> str:
    """What to do where the function runs once some integers or booleans of the data are cast.

    Others may be indices, which must stay integers. Sets of all, few and nearly all are tried.
    """
    params, *data = arguments
    mine, rows = tree.leaves(params)[0].dtype, data[0] if data else {}
    whole = [k for k, x in rows.items() if not x.dtype.is_floating]
    if not any(rows[k].dtype.name in str(error) for k in whole):
        return ""

    def enough(names: Collection[str]) -> bool:
        return works(fn, params, rows | {k: tf.cast(rows[k], mine) for k in names})

    sizes = sorted(range(1, len(whole) + 1), key=lambda k: min(k, len(whole) - k + 0.5))
    sets = chain.from_iterable(combinations(whole, k) for k in sizes)
    needed = next(filter(enough, islice(sets, TRIES)), ())
    for name in needed:
        if len(needed) > 1 and enough(fewer := [k for k in needed if k != name]):
            needed = fewer
    if not needed:
        return ""
    listed = ", ".join(f"dataset[{k!r}] is {rows[k].dtype.name}" for k in needed)
    cast, them = f"tf.cast(data[{needed[0]!r}], tf.{mine.name})", "it"
    if len(needed) > 1:
        cast, them = f"{cast} and so on", "them"
    return f". {listed}: use {cast} in log_lik, or pass {them} as floating point"


def works(fn: Callable, *arguments: Any) -> bool:
    """Whether a function runs on these arguments."""
    try:
        fn(*tree.copies(*arguments))
    except Exception:
        return False
    return True


# Words


def summary(error: Exception) -> str:
    """An error in one line, without TensorFlow's decorations."""
    lines = DECORATIONS.sub("", str(error)).strip().split("\n")
    text = lines[-1 if lines[0] in ("in user code:", "Graph execution error:") else 0].strip()
    kind = type(error).__name__
    return f"{kind}: {text.removeprefix(f'{kind}: ')}".removesuffix(": ")


def described(value: Any) -> str:
    """What came instead of what was wanted."""
    if getattr(value, "shape", ()):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"


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
        if "/" in key:
            raise ValueError(
                f"{name} must not have '/' in its names, which parts those of nests: {key!r}"
            )


def array(name: str, value: Any, outside: bool = False) -> Any:
    """An array of numbers or booleans, in memory unless it may be `outside`."""
    if isinstance(value, np.memmap):
        x = value
    elif outside and read_by_slices(value):
        x = Outside(value)
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


def not_numbers(dtype: Any, x: np.ndarray) -> str:
    """What values of a type of NumPy or pandas are, and how to make numbers of them."""
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
    """The arrays of a nest as tensors."""
    return tree.map(tf.convert_to_tensor, nest)


def cast(name: str, x: np.ndarray, dtype: Any, copy: bool = True) -> np.ndarray:
    """Finite numbers of this type, in one piece of memory."""
    with np.errstate(over="ignore"):
        result = x.astype(dtype, order="C", copy=copy)
    finite(name, result, given=x)
    return result


def finite(name: str, x: np.ndarray, rows: np.ndarray | None = None, given: Any = None) -> None:
    """No NaN, no infinite value.

    `given` are the numbers before they were converted, where they may have been too large for it;
    `rows` the numbers of its rows that are in x, where those are not all.
    """
    is_scalar, x = x.ndim == 0, np.atleast_1d(x)
    given = x if given is None else np.atleast_1d(given) if is_scalar else given
    count = max(1, SLICE_BYTES // max(1, x[:1].nbytes))
    for start in range(0, len(x), count):
        good = np.isfinite(x[start : start + count])
        if not good.all():
            bad = np.argwhere(~good)[0]
            bad[0] += start
            row = bad[0] = bad[0] if rows is None else rows[bad[0]]
            value = given[row : row + 1][(0, *bad[1:])]
            found = f"{name} is {value}" if is_scalar else f"{name} has {value} in row {row}"
            if np.isfinite(value):
                raise ValueError(
                    f"{found}, too large for {x.dtype}: rescale it, or pass dtype='float64'"
                )
            raise ValueError(f"{found}: every value must be finite")
