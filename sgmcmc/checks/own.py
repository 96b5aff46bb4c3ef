"""Declare and check a sampler's own arguments, which are fields of its dataclasses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from .. import tree
from .arguments import like_params, stepsize
from .arrays import array, cast
from .values import (
    boolean,
    by_name,
    by_parameter,
    function,
    names_of_parameters,
    number,
    one_of,
    whole,
)
from .words import described, nearest

NOISE_ESTIMATES = "fisher", "fisher_matrix"
THERMOSTATS = "parameter", "all", "coordinate", "matrix"
MATRIX = 100  # the most numbers of a parameter whose friction is a matrix


def tunable(
    default: Any, check: Callable, doc: str, positional: bool = False, at_start: bool = False
) -> Any:
    """Declare a sampler's own argument; `check(name, value, params)` returns the value to use.

    An argument that only matters `at_start` is not part of the compiled program.
    """
    metadata = {"check": check, "doc": doc, "positional": positional, "at_start": at_start}
    return field(default=default, metadata=metadata)


def required(check: Callable, doc: str, positional: bool = True) -> Any:
    """Declare a sampler's own argument without a default.

    If it is `positional`, it comes after the step size, which then has no default either.
    """
    return field(metadata={"check": check, "doc": doc, "positional": positional})


def own(tuning: Any, params: Any) -> Any:
    """Validate and normalise the fields of a dynamics or estimator.

    Fields that are not declared with a check, as in users' own classes, stay as they are.
    """
    if not is_dataclass(tuning):
        return tuning
    checked = {
        f.name: f.metadata["check"](f.name, getattr(tuning, f.name), params)
        for f in fields(tuning)
        if "check" in f.metadata
    }
    return replace(tuning, **checked)  # type: ignore[type-var]  # an object, not a class


def without_start(tuning: Any) -> Any:
    """Reset the fields that only matter at the start, on which no compiled program depends."""
    if not is_dataclass(tuning):
        return tuning
    at_start = {f.name: f.default for f in fields(tuning) if f.metadata.get("at_start")}
    return replace(tuning, **at_start)  # type: ignore[type-var]  # an object, not a class


def per_parameter(**bounds: Any) -> Callable:
    """Make the check of a constant: a number, or a dict of numbers by parameter."""

    def check(name: str, value: Any, params: Any) -> Any:
        return by_parameter(name, value, params, partial(number, **bounds))

    return check


FRICTION = (
    "Friction α, the share of the momentum that a step loses: a number in (0, 1], or a dict of "
    "them by parameter. Gradient noise acts as extra heat, which a larger `alpha` damps. None: "
    "chosen with the step size, or 0.01 where that is given."
)


def friction(name: str, value: Any, params: Any) -> Any:
    """A number in (0, 1] or None, for each parameter."""
    if value is None:
        return tree.map(lambda _: None, params)
    return per_parameter(above=0, at_most=1)(name, value, params)


def within(**bounds: Any) -> Callable:
    """Make the check of a number within bounds."""

    def check(name: str, value: Any, params: Any) -> float:
        return number(name, value, **bounds)

    return check


def rate(name: str, value: Any, params: Any) -> Any:
    """Return, for each parameter, a positive number up to 1 or the word "stepsize"."""

    def check(name: str, value: Any, also: str = "") -> Any:
        if isinstance(value, str) and value == "stepsize":
            return value
        return number(name, value, f" or 'stepsize'{also}", above=0, at_most=1)

    return by_parameter(name, value, params, check)


def keep_log(name: str, value: Any, params: Any) -> bool:
    """Return True or False. If True, no parameter may be called 'posterior'."""
    if boolean(name, value) and "posterior" in params:
        raise ValueError(
            f"{name} must be False with a parameter 'posterior': its logarithms would have the "
            "name of the log posterior's trace. Rename it"
        )
    return bool(value)


def optional_stepsize(name: str, value: Any, params: Any) -> Any:
    """Return None, or a positive number or a schedule for each parameter."""
    return None if value is None else stepsize(value, params, name)


def optional_whole(name: str, value: Any, params: Any) -> int | None:
    """Return None, or a positive whole number."""
    return None if value is None else whole(name, value)


def optional_text(name: str, value: Any, params: Any) -> str | None:
    """Return None, or a name."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be the name of an array, not {described(value)}")
    return value


def optional_function(name: str, value: Any, params: Any) -> Callable | None:
    """Return None, or a function that draws random numbers from a key."""
    return None if value is None else keyed_function(name, value, params)


def keyed_function(name: str, value: Any, params: Any) -> Callable:
    """Return a function that draws random numbers from a key."""
    return function(name, value, "of (params, data, key)")


def some_names(name: str, value: Any, params: Any) -> tuple[str, ...]:
    """Return names of parameters, each of which may be a nest."""
    return tuple(names_of_parameters(name, value, params))


def concentration_of_one(name: str, value: Any, like: np.ndarray) -> np.ndarray:
    """A positive number for each component, given for all, by last axis, or one by one."""
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


def noise_estimate_of_one(name: str, value: Any, start: np.ndarray) -> str | None:
    """None, or a word of NOISE_ESTIMATES."""
    if value is None:
        return value
    if not isinstance(value, str) or value not in NOISE_ESTIMATES:
        guess = nearest(value, NOISE_ESTIMATES) if isinstance(value, str) else ""
        listed = ", ".join(map(repr, NOISE_ESTIMATES))
        raise ValueError(
            f"{name} must be None, {listed} or a dict of these by parameter, not "
            f"{described(value)}{guess}"
        )
    return value


def thermostat(name: str, value: Any, params: Any) -> str:
    """Return a word of THERMOSTATS, if no parameter is too large for a matrix."""
    word = one_of(*THERMOSTATS)(name, value)
    size, largest = max(zip(map(np.size, tree.leaves(params)), tree.names(params)))
    if word == "matrix" and size > MATRIX:
        raise ValueError(
            f"{name} cannot be 'matrix', as {largest!r} has {size:,} numbers: it is for parameters "
            f"of at most {MATRIX}. Take 'coordinate', or matrices for other parameters by mixed"
        )
    return word


concentration, noise_estimate = by_name(concentration_of_one), by_name(noise_estimate_of_one)


def optional_like_params(name: str, value: Any, params: Any) -> Any:
    """Return None, or finite arrays in the form of the parameters."""
    return None if value is None else like_params(name, value, params, ())
