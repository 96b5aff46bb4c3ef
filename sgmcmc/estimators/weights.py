"""How probable each row is in minibatches that are drawn with unequal probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks, tree
from ..curvature import (
    NOT_DIFFERENTIABLE,
    PIECE_BYTES,
    Curvature,
    flat,
    in_pieces,
    times,
    unflat,
)
from ..model import Model
from ..source import Source
from ..streams import LEVERAGE, stream
from . import Mode

WORDS = "lipschitz", "leverage"
UNIFORM = 0.1  # the share of uniform probabilities in those that are computed: bounds all weights
POINTS = 8  # around the mode, in opposite pairs, at which the change of gradients is looked at


def row_probabilities(name: str, value: Any, params: Any) -> Any:
    """Return None, a word, or probabilities with the sum 1."""
    if value is None:
        return None
    wanted = f"{', '.join(map(repr, WORDS))}, or an array with a number for each row"
    if isinstance(value, str):
        if value not in WORDS:
            raise ValueError(
                f"{name} must be {wanted}, not {value!r}{checks.nearest(value, WORDS)}"
            )
        return value
    p = checks.cast(name, checks.array(name, value), np.float64)
    if p.ndim != 1:
        raise ValueError(f"{name} must be {wanted}, not of shape {p.shape}")
    if (p < 0).any():
        row = int(np.argmax(p < 0))
        raise ValueError(f"{name} must not be negative, but that of row {row:,} is {p[row]:g}")
    if not p.sum() > 0:
        raise ValueError(f"{name} must have a positive sum, but all are 0")
    return p / p.sum()


def given(wanted: Any, model: Model, source: Source, x: Any) -> np.ndarray | None:
    """Return the probabilities that are known without a mode, or None. Bad ones are refused."""
    if isinstance(wanted, str):
        return None if wanted == "leverage" else mixed(bounds(source, x))
    curvature, unseen = Curvature(model, source, x), np.flatnonzero(wanted == 0)
    count, point = max(1, PIECE_BYTES // (4 * curvature.p)), unflat(flat(x), x, curvature.dtype)
    for start in range(0, len(unseen), count):
        index = unseen[start : start + count]
        part = source.subset(index)
        matters = gradients(curvature, point, part.rows(0, part.N)).any(axis=1)
        if matters.any():
            raise ValueError(
                f"row_probabilities is 0 for row {index[np.argmax(matters)]:,}, on which the "
                "gradient depends: a row that is never drawn must not matter"
            )
    return wanted


def bounds(source: Source, x: Any) -> np.ndarray:
    """Bounds of how fast the gradient of each row of a linear predictor changes, up to a factor.

    If ∇log p(xᵢ|θ) depends on θ by xᵢᵀθ alone, its Lipschitz constant is a multiple of |xᵢ|².
    """
    leaves = tree.leaves(x)
    width = {a.shape[0] for a in leaves if a.ndim}
    found = [k for k, a in source.arrays.items() if a.ndim == 2 and a.shape[1] in width]
    if not found:
        raise ValueError(
            "row_probabilities='lipschitz' is for linear predictors: an array of dataset (N, d) "
            f"must have as many columns as a parameter has rows, but there are "
            f"{ {k: a.shape for k, a in source.arrays.items()} }. Take 'leverage' for other models"
        )
    parts = []
    for rows in source.pieces():
        squares = sum(np.square(rows[k].numpy().astype(np.float64)).sum(axis=1) for k in found)
        parts.append(squares + any(a.ndim == 0 for a in leaves))
    return np.concatenate(parts)


def by_leverage(model: Model, source: Source, mode: Mode, seed: int) -> np.ndarray:
    """Return probabilities by how much the gradient of a row changes around the mode.

    That is the root mean square of its change over draws of the Gaussian that fits the posterior
    at the mode, in coordinates in which this Gaussian has variance 1 in all directions. For linear
    predictors it is near the row's leverage. The total variance of control variates is smallest for
    probabilities in proportion to it. Here it comes from a few draws, and a share is uniform.
    """
    rng, theta = stream(seed, LEVERAGE), flat(mode.x)
    curvature = Curvature(model, source, mode.x)
    found = mode.coordinates
    back = (curvature.by_sample(theta, source, rng) if found is None else found).back
    z = rng.standard_normal((POINTS // 2, len(theta)))
    points = [unflat(theta + times(back, z), mode.x, curvature.dtype) for z in (*z, *-z)]
    here, parts = unflat(theta, mode.x, curvature.dtype), []
    for rows, _ in in_pieces(curvature.for_all(source), len(theta)):
        before, square = gradients(curvature, here, rows), 0.0
        for point in points:
            change = curvature.gradients(point, rows) - before
            white = change * back if back.ndim == 1 else change @ back
            square = square + np.einsum("ij,ij->i", white, white)
        parts.append(np.sqrt(square))
    return mixed(np.concatenate(parts))


def gradients(curvature: Curvature, point: Any, rows: Any) -> np.ndarray:
    """Return the gradient of each row, or an error that says who asked for it."""
    try:
        return curvature.gradients(point, rows)
    except NOT_DIFFERENTIABLE as error:
        raise ValueError(
            "row_probabilities needs the log likelihood of single rows, but log_lik cannot be "
            f"evaluated so: {checks.summary(error)}"
        ) from error


def mixed(size: np.ndarray) -> np.ndarray:
    """Return probabilities that are mostly proportional to these sizes, and partly uniform."""
    uniform = np.full(len(size), 1 / len(size))
    if not size.any():
        return uniform
    return UNIFORM * uniform + (1 - UNIFORM) * size / size.sum()
