"""Draws of subposteriors as matrices of free coordinates, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from .. import checks, tree
from ..draws import Draws
from ..spaces import Real
from ..spaces.constrained import spaces

SINGULAR = 1e-10  # the least eigenvalue of a correlation matrix that can be inverted
ROUNDING = 1e-4  # relative difference between values of one map, on machines of several kinds


class Parts:
    """The draws of all shards in free coordinates, with a mean of about 0 and a scale of about 1.

    `matrices` has an array (chains, draws, p) for each shard.
    """

    def __init__(self, parts: Any, constrain: Any) -> None:
        self.parts = parts_of(parts)
        first = self.parts[0]
        self.is_draws, self.chained = isinstance(first, Draws), has_chains(first)
        check_shards(self.parts)
        check_manifolds(self.parts)
        labels = [f"parts[{i}]" for i in range(len(self.parts))]
        nests = [by_chain(label, part) for label, part in zip(labels, self.parts)]
        for label, nest in zip(labels, nests):
            check_alike(label, nests[0], nest)
        self.dtypes = [x.dtype for x in tree.leaves(nests[0])]
        self.like = tree.map(lambda x: x[0, 0], nests[0])
        self.spaces = spaces(constrain, self.like)
        check_constrain(self.parts, self.spaces, self.like)
        self.free = [free_of(label, nest, self.spaces) for label, nest in zip(labels, nests)]
        self.shapes = [x.shape[2:] for x in tree.leaves(self.free[0])]
        found = [matrix(nest) for nest in self.free]
        for label, x in zip(labels, found):
            check_spread(label, x, tree.names(self.like), self.shapes)
        self.centre = np.mean([x.mean(axis=(0, 1)) for x in found], axis=0)
        self.scale = np.sqrt(np.mean([x.var(axis=(0, 1)) for x in found], axis=0))
        self.matrices = [(x - self.centre) / self.scale for x in found]

    @property
    def pooled(self) -> list[np.ndarray]:
        """The draws of each shard, with its chains one after the other: (draws, p)."""
        return [x.reshape(-1, x.shape[2]) for x in self.matrices]

    def count(self, n_draws: Any) -> int:
        """How many draws to return: by default as many as the shard with the fewest has."""
        if n_draws is None:
            return min(map(len, self.pooled))
        return checks.whole("n_draws", n_draws)

    def returned(self, x: np.ndarray, method: str, seed: int | None) -> Any:
        """Return draws (draws, p), or (chains, draws, p), in the form of the parts."""
        x = x * self.scale + self.centre
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        free = np.split(x, np.cumsum(sizes)[:-1], axis=-1)
        values = [
            over_draws(space.forward, y.reshape(*x.shape[:-1], *shape).astype(dtype), x.ndim - 1)
            if not isinstance(space, Real)
            else y.reshape(*x.shape[:-1], *shape).astype(dtype)
            for y, shape, dtype, space in zip(
                free, self.shapes, self.dtypes, tree.leaves(self.spaces)
            )
        ]
        nest = tree.pack(self.like, values)
        if not self.is_draws:
            return nest
        chains = len(x) if x.ndim == 3 else None
        return Draws(
            nest,
            {},
            {"sampler": method, "shards": len(self.parts), "n_chains": chains, "seed": seed},
        )


def parts_of(value: Any) -> list[Any]:
    """Check that this is a list of draws, all with chains or all without."""
    if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
        raise TypeError(
            "parts must be a list with the draws of each shard, Draws or dicts of arrays, not "
            f"{checks.described(value)}"
        )
    if len(value) < 2:
        raise ValueError(f"parts must have the draws of at least two shards, not of {len(value)}")
    for i, part in enumerate(value):
        if isinstance(part, Draws) != isinstance(value[0], Draws):
            raise TypeError("parts must all be Draws, or all be dicts of arrays")
        if has_chains(part) != has_chains(value[0]):
            raise ValueError(
                f"parts must all have an axis of chains (n_chains), or none of them, but parts[{i}]"
                " and parts[0] differ"
            )
    return list(value)


def has_chains(draws: Any) -> bool:
    """Whether arrays have an axis of chains in front of that of draws."""
    return isinstance(draws, Draws) and draws.settings.get("n_chains") is not None


def check_shards(parts: list[Any]) -> None:
    """Check that subposteriors are those of all shards, each once."""
    seen: dict[int, int] = {}
    for i, made in marks_of(parts):
        if made["of"] != len(parts):
            raise ValueError(
                f"parts must be all subposteriors, but parts[{i}] is one of {made['of']}, and "
                f"there are {len(parts)}"
            )
        first = seen.setdefault(made["shard"], i)
        if first < i:
            raise ValueError(
                f"parts must have the subposterior of each shard once, but parts[{i}] and "
                f"parts[{first}] are both of shard {made['shard']}"
            )


def check_constrain(parts: list[Any], found: Any, like: Any) -> None:
    """Check that subposteriors are combined in the coordinates they are made for."""
    maps = maps_of(found, like)
    for _, made in marks_of(parts):
        if not are_same(made["constrain"], maps):
            raise ValueError(
                "constrain must be that of subposteriors, as their product is the posterior in "
                f"free coordinates: {named_in(made['constrain'])}, not {named_in(maps)}"
            )


def marks_of(parts: list[Any]) -> list[tuple[int, dict[str, Any]]]:
    """Return what `subposteriors` has noted in the settings of draws, with their numbers."""
    made = [p.settings.get("subposterior") if isinstance(p, Draws) else None for p in parts]
    return [(i, mark) for i, mark in enumerate(made) if mark is not None]


def maps_of(found: Any, like: Any) -> dict[str, dict[str, Any]]:
    """Describe the spaces of constrained parameters: name, and size of the values at some points.

    Spaces of one name may differ, such as bijectors with other settings.
    """
    maps = {}
    for path, space, value in zip(tree.names(like), tree.leaves(found), tree.leaves(like)):
        if isinstance(space, Real):
            continue
        free = np.asarray(space.inverse(value))
        each = np.sin(np.outer([1, 2, 3], 1 + np.arange(free.size))).astype(free.dtype)
        at = [np.asarray(space.forward(tf.constant(x.reshape(free.shape)))) for x in each]
        size = [float(np.sqrt(np.mean(np.square(x, dtype=float)))) for x in at]
        maps[path] = {"space": repr(space), "size": size}
    return maps


def are_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether spaces have the same names of parameters, and the same maps up to rounding."""
    return sorted(one) == sorted(other) and all(
        np.allclose(one[k]["size"], other[k]["size"], ROUNDING, 0) for k in one
    )


def named_in(maps: Mapping[str, Any]) -> str:
    """Name the constrained parameters and their spaces in a message."""
    return ", ".join(f"{k!r} in {v['space']}" for k, v in maps.items()) or "no constraints"


def check_manifolds(parts: list[Any]) -> None:
    """Check that no draws are on a manifold, where their averages are not."""
    for i, part in enumerate(parts):
        for name, given in (manifolds_of(part) if isinstance(part, Draws) else {}).items():
            if name in part and any(each != "Euclidean()" for each in tree.leaves(given)):
                raise ValueError(
                    f"parts[{i}]: draws of {name!r} are on a manifold, and cannot be combined, as "
                    "their averages are not on it: leave them out"
                )


def manifolds_of(draws: Draws) -> dict[str, Any]:
    """Return the manifolds that the settings of draws name, by parameter."""
    blocks, manifold = draws.settings.get("blocks"), draws.settings.get("manifold")
    if blocks is not None:  # of `mixed`, as text
        cut = {k: str(block).partition("manifold=")[2] for k, block in blocks.items()}
        return {k: text.partition(", ")[0] for k, text in cut.items() if text}
    return (
        manifold if isinstance(manifold, dict) else dict.fromkeys(draws, manifold or "Euclidean()")
    )


def by_chain(name: str, draws: Any) -> Any:
    """Return finite arrays (chains, draws, ...) in the form of the parameters."""
    checks.named(name, draws, "draws, such as {'beta': array of shape (draws, 3)}")
    chained = has_chains(draws)

    def one(label: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            checks.named(label, value, "draws")
            return {k: one(f"{label}[{k!r}]", v) for k, v in value.items()}
        x = checks.array(label, value)
        if x.ndim < 1 + chained:
            axes = "(chains, draws, ...)" if chained else "(draws, ...)"
            raise ValueError(f"{label} must have shape {axes}, not {x.shape}")
        if x.dtype.kind != "f":
            x = x.astype(float)
        if not np.isfinite(x).all():
            raise ValueError(f"{label} must be finite, but has NaN or infinite values")
        return x if chained else x[None]

    nest = {k: one(f"{name}[{k!r}]", v) for k, v in draws.items()}
    leads = {path: x.shape[:2] for path, x in zip(tree.names(nest), tree.leaves(nest))}
    if len(set(leads.values())) > 1:
        counts = {k: chains * draws for k, (chains, draws) in leads.items()}
        raise ValueError(f"{name} must have equally many draws of each quantity, not {counts}")
    return nest


def check_alike(name: str, first: Any, other: Any, first_name: str = "parts[0]") -> None:
    """Check that draws are of the same parameters as the first ones."""
    if tree.names(first) != tree.names(other):
        raise ValueError(
            f"{name} must have the parameters of {first_name}, {tree.names(first)}, not "
            f"{tree.names(other)}"
        )
    for path, x, y in zip(tree.names(first), tree.leaves(first), tree.leaves(other)):
        if x.shape[2:] != y.shape[2:]:
            raise ValueError(
                f"{name} has draws of {path!r} of shape {y.shape[2:]}, and {first_name} of shape "
                f"{x.shape[2:]}"
            )


def free_of(name: str, nest: Any, spaces: Any) -> Any:
    """Map draws (chains, draws, ...) to free coordinates."""
    values = []
    for path, x, space in zip(tree.names(nest), tree.leaves(nest), tree.leaves(spaces)):
        y = x if isinstance(space, Real) else over_draws(space.inverse, x, 2)
        if not np.isfinite(y).all():
            raise ValueError(
                f"{name}: draws of {path!r} must be inside {space!r}, as constrain says, but some "
                "are on its boundary or outside"
            )
        values.append(y)
    return tree.pack(nest, values)


def over_draws(function: Any, x: np.ndarray, axes: int) -> np.ndarray:
    """Evaluate a function of one value for all values along the leading axes."""
    lead = x.shape[:axes]
    found = tf.vectorized_map(function, tf.constant(x.reshape(-1, *x.shape[axes:])), warn=False)
    return found.numpy().reshape(*lead, *found.shape[1:])


def matrix(nest: Any) -> np.ndarray:
    """Lay the numbers of each draw end to end: (chains, draws, p) in double precision."""
    return np.concatenate(
        [x.reshape(*x.shape[:2], -1).astype(float) for x in tree.leaves(nest)], axis=2
    )


def check_spread(name: str, x: np.ndarray, paths: list[str], shapes: list[Any]) -> None:
    """Check that the covariance of draws (chains, draws, p) can be inverted."""
    pooled = x.reshape(-1, x.shape[2])
    m, p = pooled.shape
    if m < p + 2:
        raise ValueError(
            f"{name} must have at least {p + 2:,} draws, to estimate the covariance of {p:,} "
            f"numbers, not {m:,}"
        )
    constant = (pooled == pooled[0]).all(axis=0)
    if constant.any():
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        path = paths[int(np.searchsorted(ends, np.argmax(constant), side="right"))]
        raise ValueError(f"{name}: {path!r} must vary from draw to draw, but is constant in part")
    if p > 1 and np.linalg.eigvalsh(np.corrcoef(pooled.T))[0] < SINGULAR:
        raise ValueError(
            f"{name} must have a covariance that can be inverted: leave out quantities that are "
            "functions of others, such as test functions and probabilities, which sum to 1"
        )


def covariance(x: np.ndarray) -> np.ndarray:
    """Return the covariance of draws (draws, p)."""
    return np.cov(x.T).reshape(x.shape[1], x.shape[1])
