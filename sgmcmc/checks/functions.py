"""Try the user's functions on a few rows, so that errors name the user's functions and arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import chain, combinations, islice
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import operations, tree
from .arrays import named, tensors
from .values import function, same_names
from .words import described, summary

TRIES = 100  # the most sets of columns that are cast to see whether the model then runs


def model(
    log_lik: Callable | None,
    log_prior: Callable | None,
    params: Any,
    rows: dict[str, np.ndarray],
    free: Collection[str] = (),
    jit: bool = False,
) -> set[str]:
    """Try the model on a few rows, and return the types of the operations that it is made of.

    It need not depend on the parameters that are `free`, which are not moved by its gradient.
    """
    parts: dict[str, tuple[Callable, tuple]] = {}
    types: set[str] = set()
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


def counter(
    label: str, call: Callable, names: Collection[str] | None, params: Any, rows: Any, jit: bool
) -> None:
    """Check that a function that draws counts returns them by parameter.

    It is traced and not run, as `counts` checks the values.
    """
    found, types = drawing(label, call, params, rows)
    operations.consider(label, types, jit)
    if not isinstance(found, Mapping):
        raise TypeError(f"{label} must return a dict of counts, not {described(found)}")
    like = params if names is None else {k: params[k] for k in names}
    same_names(label, found, like)
    in_form(label, found, like)


def gibbs_step(label: str, draw: Callable, like: Any, params: Any, rows: Any, jit: bool) -> None:
    """Check what a function that draws a parameter returns, by running it once."""
    found, types = drawing(label, draw, params, rows)
    operations.consider(label, types, jit)
    in_form(label, found, like)
    given = *tensors((params, rows)), tf.constant([0, 0])
    try:
        traced = tf.function(lambda *x: draw(*tree.copies(*x)), autograph=False)
        value = traced.get_concrete_function(*given)(*given)
    except tf.errors.OpError as error:
        raise ValueError(f"{label} raised {summary(error)}") from error
    if not all(np.isfinite(x).all() for x in tree.leaves(value)):
        raise ValueError(f"{label} must return finite numbers, but does not at the start")


def drawing(label: str, call: Callable, params: Any, rows: Any) -> tuple[Any, set[str]]:
    """Trace a function of (params, data, key), and return its outline and operations."""
    found, error, types = outline(call, *tensors((params, rows)), tf.constant([0, 0]))
    if error:
        raise ValueError(f"{label} raised {summary(error)}") from error
    return found, types


def in_form(label: str, found: Any, like: Any) -> None:
    """Check that arrays have the form and the shapes of the parameters."""
    try:
        tree.map(partial(matching, label), found, like)
    except (TypeError, ValueError) as error:
        if str(error).startswith(label):
            raise
        raise ValueError(f"{label} must return what has the form of params") from None


def matching(label: str, x: Any, like: np.ndarray) -> None:
    """Check that a result has the shape of the parameter."""
    shape = tuple(x.shape if tf.is_tensor(x) else np.shape(x))
    if shape != like.shape:
        raise ValueError(f"{label} must return an array of shape {like.shape}, not {shape}")


def counts(evaluate: Callable, params: Any, rows: Any, is_count: Any, drawn: bool) -> Any:
    """Return the gradients of some rows, after checking that those that are counts are finite.

    If `drawn`, a user's function draws the counts.
    """
    try:
        arguments = tensors((params, rows))
        evaluate = tf.function(evaluate, autograph=False).get_concrete_function(*arguments)
        found = tree.map(lambda x: x.numpy(), evaluate(*arguments).gradient)
    except tf.errors.OpError as error:
        raise ValueError(f"log_lik raised {summary(error)}") from error
    for path, x, counted in zip(tree.names(params), tree.leaves(found), tree.leaves(is_count)):
        if not counted or np.isfinite(x).all():
            continue
        if drawn:
            raise ValueError(f"counts of {path!r} must be finite and not negative")
        raise ValueError(
            f"the counts of {path!r} (params × the gradient of log_lik by them) are negative or "
            "not finite: log_lik must be written in the probabilities as they are, such as "
            "sum(log(omega[z])), or sum(log(sum(omega * p(x)))) for a mixture. Do not divide them "
            "by their sum or take a softmax of them, as TensorFlow Probability's Categorical and "
            "MixtureSameFamily do inside, and leave out factors that fall as they grow"
        )
    return found


def one_number(name: str, value: Any) -> None:
    """Check that the value of a log density is one finite number."""
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
    """Return fn(*arguments). If it raises, the message has the function's name and a hint."""
    try:
        return fn(*tree.copies(*arguments))
    except Exception as error:
        hint = dtype_hint(fn, arguments) or cast_hint(fn, arguments, error)
        raise ValueError(f"{name} raised {summary(error)}{hint}") from error


def traced(name: str, fn: Callable, *arguments: Any, jit: bool = False) -> set[str]:
    """Check that a function can be traced, and return the types of its operations.

    If `jit`, it is to be compiled by XLA.
    """
    _, error, types = outline(fn, *arguments)
    if error:
        raise not_compiled(name, error) from error
    operations.consider(name, types, jit)
    return types


def not_compiled(name: str, error: Exception) -> ValueError:
    """Return the error for a function that works on values but cannot be traced."""
    return ValueError(
        f"{name} works on values but not in compiled code: {summary(error).split('. ')[0]}."
        " It must be made of TensorFlow operations (tf.where or tf.cond instead of if, no "
        ".numpy(), no NumPy functions of parameters)"
    )


def outline(fn: Callable, *arguments: Any) -> tuple[Any, Exception | None, set[str]]:
    """Trace fn, and return its result without values, or its error, and its operations."""
    outcome: list[Any] = []

    def attempt(*arguments: Any) -> None:
        try:
            outcome[:] = fn(*tree.copies(*arguments)), None
        except Exception as error:  # kept from TensorFlow, which would put its own frames on top
            outcome[:] = None, error

    program = tf.function(attempt, autograph=False).get_concrete_function(*arguments)
    return *outcome, operations.types_of(program.graph)


def dtype_hint(fn: Callable, arguments: Any) -> str:
    """Return a hint if the function runs in the other precision only."""
    mine = tree.leaves(arguments)[0].dtype
    other = tf.float64 if mine == tf.float32 else tf.float32
    if not works(fn, *tree.map(lambda x: tf.cast(x, other) if x.dtype == mine else x, arguments)):
        return ""
    return (
        f". It mixes {other.name} constants with {mine.name} parameters and data: make them "
        f"{mine.name}, as in tf.constant(c, tf.{mine.name}), or pass dtype={other.name!r}"
    )


def cast_hint(fn: Callable, arguments: Any, error: Exception) -> str:
    """Return a hint if the function runs after some integers or booleans of the data are cast.

    Others may be indices, which must stay integers. First all are cast, then few or nearly all.
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
    """True if a function runs on these arguments."""
    try:
        fn(*tree.copies(*arguments))
    except Exception:
        return False
    return True


class Tracked(NamedTuple):
    """A user's test function, and its graph for the values of one chain."""

    call: Callable
    program: Callable
    makes_choices: bool  # it has tf.cond, so that chains are evaluated one by one


def track(value: Any, params: Any) -> dict[str, Tracked]:
    """Trace each test function of the parameters, and run it once."""
    if value is None:
        return {}
    named(
        "track", value, "test functions, such as {'norm': lambda params: tf.norm(params['beta'])}"
    )
    for name, fn in value.items():
        if name in params:
            raise ValueError(f"track names {name!r}, which is a parameter: choose another name")
        function(f"track[{name!r}]", fn, "of params")
    return {name: tracked(f"track[{name!r}]", fn, params) for name, fn in value.items()}


def tracked(name: str, fn: Callable, params: Any) -> Tracked:
    """Trace one test function, and try it."""
    errors, (arguments,) = [], tensors((params,))

    def attempt(params: Any) -> tf.Tensor:
        try:
            return tf.convert_to_tensor(fn(*tree.copies(params)))
        except Exception as error:  # kept from TensorFlow, which would put its own frames on top
            errors.append(error)
            return tf.zeros(())

    program = tf.function(attempt, autograph=False).get_concrete_function(arguments)
    if errors or program.output_dtypes == tf.string:
        result = called(name, fn, arguments)
        try:
            known = tf.convert_to_tensor(result).dtype != tf.string
        except (TypeError, ValueError):
            known = False
        if not known:
            raise TypeError(f"{name} must return a number or an array, not {described(result)}")
        raise not_compiled(name, errors[0]) from errors[0]
    types = operations.types_of(program.graph)
    operations.consider(name, types, jit=False)
    try:
        program(arguments)
    except tf.errors.OpError as error:
        raise ValueError(f"{name} raised {summary(error)}") from error
    return Tracked(fn, program, operations.in_turn(types))
