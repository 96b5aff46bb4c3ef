"""Checks of the arguments of samplers that move on manifolds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import tree
from ..spaces.flat import Euclidean
from ..spaces.manifolds import Manifold
from . import array, by_name, cast, described, nearest, number

ESTIMATED = "scalar", "diagonal", "full"
FLAT = Euclidean()


def manifold(name: str, value: Any, params: Any) -> Any:
    """Return the manifold of each parameter. One that a dict leaves out is flat."""
    if isinstance(params, dict):
        if isinstance(value, Mapping):
            for key in value:
                if key not in params:
                    raise ValueError(
                        f"{name} names {key!r}, which is no parameter{nearest(key, params)}; the "
                        f"parameters are {sorted(params)}"
                    )
            each = {k: value.get(k, FLAT) for k in params}
            return {k: manifold(f"{name}[{k!r}]", each[k], p) for k, p in params.items()}
        return {k: manifold(name, value, p) for k, p in params.items()}
    if isinstance(value, type) and issubclass(value, Manifold):
        raise TypeError(
            f"{name} must be a manifold, not the class {value.__name__}: make an object of it, as "
            f"in {value.__name__}()"
        )
    if not isinstance(value, Manifold):
        raise TypeError(
            f"{name} must be a manifold such as Sphere() or Stiefel(), or a dict of them by "
            f"parameter, not {described(value)}"
        )
    return value


def friction_of_one(name: str, value: Any, start: np.ndarray) -> Any:
    """Return None, a positive number, or a positive definite matrix."""
    if value is None or np.ndim(value) == 0:
        return value if value is None else number(name, value, " or a matrix", above=0)
    matrix = cast(name, array(name, value), start.dtype)
    square(name, matrix, start)
    if not np.linalg.eigvalsh(matrix.astype(float))[0] > 0:
        raise ValueError(f"{name} must be positive definite, but an eigenvalue is not above 0")
    return matrix


def square(name: str, matrix: np.ndarray, start: np.ndarray) -> None:
    """Check that a matrix is symmetric and acts along the last axis of a parameter."""
    size = start.shape[-1] if start.ndim else 1
    if matrix.shape != (size, size):
        raise ValueError(
            f"{name} must be a number, or a matrix of shape {(size, size)}, which acts along the "
            f"last axis of a parameter of shape {start.shape}, not of shape {matrix.shape}"
        )
    if not np.allclose(matrix, matrix.T, rtol=1e-4, atol=1e-6 * np.abs(matrix).max()):
        raise ValueError(f"{name} must be symmetric")


def noise_of_one(name: str, value: Any, start: np.ndarray) -> Any:
    """Return None, a word of ESTIMATED, or a variance: a number, an array or a matrix."""
    if value is None:
        return value
    if isinstance(value, str):
        if value not in ESTIMATED:
            listed = ", ".join(map(repr, ESTIMATED))
            raise ValueError(
                f"{name} must be {listed}, or the variance itself, not "
                f"{value!r}{nearest(value, ESTIMATED)}"
            )
        return value
    if np.ndim(value) == 0:
        return number(name, value, f" or one of {ESTIMATED}", at_least=0)
    variance = cast(name, array(name, value), start.dtype)
    if variance.shape == start.shape:
        if (variance < 0).any():
            raise ValueError(f"{name} must not be negative, but has {variance.min():g}")
        return variance
    square(name, variance, start)
    lowest = np.linalg.eigvalsh(variance.astype(float))[0]
    if lowest < -1e-4 * np.abs(variance).max():
        raise ValueError(f"{name} must be a covariance, but has the eigenvalue {lowest:.3g}")
    return variance


friction, gradient_noise = by_name(friction_of_one), by_name(noise_of_one)
single_friction = by_name(
    lambda name, value, start: value if value is None else number(name, value, above=0)
)


def optional_positive(name: str, value: Any, params: Any) -> float | None:
    """Return None, or a positive number."""
    return value if value is None else number(name, value, above=0)


def is_flat(manifolds: Any) -> bool:
    """Whether a manifold, or each of a nest, is all real numbers."""
    return all(each == FLAT for each in tree.leaves(manifolds))
