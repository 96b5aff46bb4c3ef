"""Join the draws of several runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import tree
from .draws import Draws


def concatenated(parts: Sequence[Draws], axis: str) -> Draws:
    """Join draws, after a check that they are of one model."""
    if axis not in ("draws", "chains"):
        raise ValueError(f"axis must be 'draws' or 'chains', not {axis!r}")
    parts = list(parts)
    if not parts or not all(isinstance(part, Draws) for part in parts):
        raise TypeError("parts must be a list of Draws, and have at least one")
    first, chained = parts[0], [part.settings.get("n_chains") is not None for part in parts]
    if len(set(chained)) > 1:
        raise ValueError("parts must all have an axis of chains (n_chains), or none of them")
    place = 0 if axis == "chains" else 1
    found = []
    for i, part in enumerate(parts):
        nests = dict(part), part.stats
        found.append(
            tree.map(lambda x: np.asarray(x) if chained[0] else np.asarray(x)[None], nests)
        )
        for first_nest, nest in zip(found[0], found[-1]):
            check_alike(f"parts[{i}]", first_nest, nest, 1 - place)
    values, stats = tree.map(lambda *x: np.concatenate(x, axis=place), *found)
    settings = {**first.settings, "seed": [part.settings.get("seed") for part in parts]}
    if axis == "chains":
        settings["n_chains"] = len(tree.leaves(values)[0])
    elif not chained[0]:
        values, stats = tree.map(lambda x: x[0], (values, stats))
    return Draws(values, stats, settings)


def check_alike(label: str, first: Any, other: Any, axis: int) -> None:
    """Check that two nests (chains, draws, ...) can be joined, and are equally long in an axis."""
    if tree.names(first) != tree.names(other):
        raise ValueError(
            f"{label} must have the draws and statistics of parts[0], {tree.names(first)}, not "
            f"{tree.names(other)}"
        )
    for name, x, y in zip(tree.names(first), tree.leaves(first), tree.leaves(other)):
        if x.shape[2:] != y.shape[2:] or x.dtype != y.dtype:
            raise ValueError(
                f"{label} has draws of {name!r} of shape {y.shape[2:]} and type {y.dtype}, and "
                f"parts[0] of shape {x.shape[2:]} and type {x.dtype}"
            )
        if x.shape[axis] != y.shape[axis]:
            kind = ("chains", "draws")[axis]
            raise ValueError(
                f"{label} has {y.shape[axis]:,} {kind}, and parts[0] has {x.shape[axis]:,}"
            )
