"""The argument `precondition`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import tree
from .arrays import array, cast
from .values import same_names
from .words import described, nearest

AT_MODE = "hessian", "fisher", "diagonal"
DENSE = 2000  # the most coordinates whose matrix of second derivatives is computed at the mode
LARGE = 4096  # a covariance matrix of more coordinates would take longer than the gradient


def precondition(value: Any, has_stepsize: bool, p: int) -> Any:
    """A word, None, or what is checked by `coordinates`, for p free coordinates."""
    if value is None or isinstance(value, (Mapping, np.ndarray, list, tuple)):
        return value
    wanted = (
        f"{', '.join(map(repr, AT_MODE))}, None, a covariance matrix, or a dict of scales by "
        "parameter"
    )
    if not isinstance(value, str):
        raise TypeError(f"precondition must be {wanted}, not {described(value)}")
    if value == "auto":
        return None if has_stepsize else "hessian" if p <= DENSE else "diagonal"
    if value not in AT_MODE:
        raise ValueError(f"precondition must be {wanted}, not {value!r}{nearest(value, AT_MODE)}")
    if value != "diagonal" and p > DENSE:
        raise ValueError(
            f"precondition={value!r} needs a matrix that is too large for {p:,} coordinates (at "
            f"most {DENSE:,}): take 'diagonal'"
        )
    return value


def coordinates(value: Any, x: Any) -> np.ndarray:
    """The matrix L, or its diagonal, of x = c + Lw, for free coordinates in the form of x.

    A covariance matrix is LLᵀ, and scales are a diagonal L.
    """
    if isinstance(value, Mapping):
        return np.concatenate([np.ravel(s) for s in tree.leaves(scales(value, x))]).astype(float)
    found, p = array("precondition", value).astype(float), tree.size(x)
    if found.shape != (p, p):
        raise ValueError(
            f"precondition must have shape {(p, p)}, a covariance of all free coordinates laid end "
            f"to end in alphabetical order of their parameters, not {found.shape}"
        )
    if p > LARGE:
        raise ValueError(f"precondition must be a dict of scales for {p:,} coordinates")
    if not np.isfinite(found).all() or not np.allclose(found, found.T, rtol=1e-4):
        raise ValueError("precondition must be a covariance: a finite and symmetric matrix")
    sd = np.sqrt(np.maximum(np.diag(found), 1e-300))
    try:
        return sd[:, None] * np.linalg.cholesky((found + found.T) / 2 / np.outer(sd, sd))
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(found)[0]
        raise ValueError(
            "precondition must be a covariance: a positive definite matrix, but its smallest "
            f"eigenvalue is {least:.3g}"
        ) from None


def scales(value: Any, x: Any, name: str = "precondition") -> Any:
    """Positive numbers for each coordinate, by parameter."""
    if not isinstance(x, dict):
        found = cast(name, array(name, value), np.float64)
        if not (found > 0).all():
            raise ValueError(f"{name} must be above 0, but has {found.min():g}")
        try:
            return np.broadcast_to(found, x.shape)
        except ValueError:
            raise ValueError(
                f"{name} must be a number, or of shape {x.shape}, not {found.shape}"
            ) from None
    if not isinstance(value, Mapping):
        return {k: scales(value, part, f"{name}[{k!r}]") for k, part in x.items()}
    same_names(name, value, x)
    return {k: scales(value[k], part, f"{name}[{k!r}]") for k, part in x.items()}
