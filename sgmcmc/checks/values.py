"""Check single values, and dicts of values by parameter."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from .. import tree
from .words import described, nearest, summary


def whole(name: str, value: Any, params: Any = None, at_least: int = 1) -> int:
    """Return a whole number of at least `at_least`."""
    wanted = "a positive whole number" if at_least else "a whole number, 0 or more"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be {wanted}, not {described(value)}")
    if value < at_least:
        raise ValueError(f"{name} must be {wanted}, not {value}")
    return int(value)


def boolean(name: str, value: Any, params: Any = None) -> bool:
    """Return True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, not {described(value)}")
    return bool(value)


def verbose(name: str, value: Any, params: Any = None) -> Any:
    """Return True, False, or a function that is told of progress."""
    if callable(value):
        return value
    try:
        return boolean(name, value)
    except TypeError:
        raise TypeError(
            f"{name} must be True, False or a function of a Report, not {described(value)}"
        ) from None


def number(
    name: str,
    value: Any,
    also: str = "",
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
) -> float:
    """Return a finite number within bounds; `also` says what else the argument may be."""
    low = f" above {above:g}" if above > -math.inf else ""
    low += f" of at least {at_least:g}" if at_least > -math.inf else ""
    most = f"at most {at_most:g}" if at_most < math.inf else ""
    most = f"below {below:g}" if below < math.inf else most
    high = f"{' and' if low else ''} {most}" if most else ""
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
    if not (math.isfinite(x) and above < x < below and at_least <= x <= at_most):
        raise ValueError(f"{name} must be {wanted}, not {value}")
    return x


def by_parameter(name: str, value: Any, params: Any, check: Callable) -> Any:
    """Return checked values in the form of `params`, from one value for all or from a dict."""
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


def by_name(check: Callable) -> Callable:
    """Make the check of a constant, given for all parameters, or in a dict by parameter.

    `check(name, value, start)` is called with the starting value of each parameter.
    """

    def checked(name: str, value: Any, params: Any) -> Any:
        if not isinstance(params, dict):
            return check(name, value, params)
        if not isinstance(value, Mapping):
            return {k: checked(name, value, p) for k, p in params.items()}
        same_names(name, value, params)
        return {k: checked(f"{name}[{k!r}]", value[k], p) for k, p in params.items()}

    return checked


def same_names(name: str, value: Mapping, params: Mapping) -> None:
    """Check that a dict has all names of the parameters, and no others."""
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


def names_of_parameters(name: str, value: Any, params: Any) -> list[str]:
    """Return a list of names, in the order of the parameters."""
    if isinstance(value, str) or not isinstance(value, (list, tuple, set)):
        raise TypeError(f"{name} must be a list of names of parameters, not {described(value)}")
    for each in value:
        if each not in list(params):
            raise ValueError(
                f"{name} names {each!r}, which is no parameter{nearest(each, params)}; "
                f"the parameters are {sorted(params)}"
            )
    return [k for k in params if k in value]


def function(name: str, value: Any, call: str) -> Callable:
    """Return a function; `call` says of what arguments."""
    if not callable(value):
        raise TypeError(f"{name} must be a function {call}, not {described(value)}")
    return value


def seed(value: Any) -> int:
    """Return a seed from 0 to 2⁶⁴ − 1; for None, draw one from the system's entropy."""
    if value is None:
        return any_seed()
    if not whole("seed", value, at_least=0) < 2**64:
        raise ValueError(f"seed must be below 2**64, not {value}")
    return int(value)


def any_seed() -> int:
    """Draw a seed from the system's entropy."""
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


def dtype(value: Any) -> tf.DType:
    """Return the type of parameters and floating-point data."""
    try:
        known = tf.as_dtype(value)
    except TypeError:
        known = None
    if known not in (tf.float32, tf.float64):
        raise ValueError(f"dtype must be 'float32' or 'float64', not {value!r}")
    return known


def one_of(*known: str) -> Callable:
    """Make the check of a word."""

    def check(name: str, value: Any, params: Any = None) -> str:
        if not isinstance(value, str) or value not in known:
            guess = nearest(value, known) if isinstance(value, str) else ""
            listed = " or ".join(map(repr, known))
            raise ValueError(f"{name} must be {listed}, not {described(value)}{guess}")
        return value

    return check


def scheduled(
    schedule: Callable[[int], float],
    iteration: int,
    name: str = "stepsize",
    above: float = 0,
    at_least: float = -math.inf,
) -> float:
    """Return the value of a schedule at one iteration."""
    name = f"{name}({iteration})"
    try:
        value = schedule(iteration)
    except Exception as error:
        raise ValueError(f"{name} raised {summary(error)}") from error
    return number(name, value, above=above, at_least=at_least)
