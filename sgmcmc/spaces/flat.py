"""Flat spaces with walls, at which paths are reflected: boxes, half-lines and balls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ..checks import number
from .manifolds import Manifold


@dataclass(frozen=True)
class Euclidean(Manifold):
    """Real numbers, between bounds if there are any.

    A path is reflected at a bound, so that densities that are cut off there need no other
    coordinates, as `constrain` has.

    Parameters
    ----------
    lower, upper : float, optional
        Bounds of each coordinate.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):  # its mode is outside
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> draws = sgmcmc.sggmc(
    ...     log_lik, {"x": np.linspace(-1.2, 1, 100)}, {"mean": 0.1}, 0.02,
    ...     manifold=sgmcmc.Euclidean(lower=0), n_iters=1000, seed=1, verbose=False,
    ... )
    >>> bool(draws["mean"].min() >= 0)
    True
    """

    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, number(name, getattr(self, name)))
        if self.has_both and self.lower >= self.upper:
            raise ValueError(f"lower must be below upper = {self.upper}, not {self.lower}")

    @property
    def has_both(self) -> bool:
        """Whether it is a box."""
        return self.lower is not None and self.upper is not None

    @property
    def has_bounds(self) -> bool:
        """Whether it has any bound."""
        return self.lower is not None or self.upper is not None

    def __repr__(self) -> str:
        bounds = [f"{k}={v}" for k, v in vars(self).items() if v is not None]
        return f"Euclidean({', '.join(bounds)})"

    def flow(self, x: Any, v: Any, t: Any) -> tuple[Any, Any]:
        """Go on behind the bound, where the values of `forward` are those in a mirror.

        Behind a second mirror they repeat themselves.
        """
        x = x + t * v
        if self.has_both:
            period = 2 * (self.upper - self.lower)
            x = self.lower + tf.math.floormod(x - self.lower, period)
        return x, v

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        low, high = (a is not None for a in (self.lower, self.upper))
        if (low and (value < self.lower).any()) or (high and (value > self.upper).any()):
            raise ValueError(f"{name} must be inside the bounds of {self!r}")
        return value

    def forward(self, x: Any) -> Any:
        if not self.has_bounds:
            return x
        if self.has_both:
            width = self.upper - self.lower
            return self.upper - tf.abs(tf.math.floormod(x - self.lower, 2 * width) - width)
        if self.upper is None:
            return self.lower + tf.abs(x - self.lower)
        return self.upper - tf.abs(x - self.upper)


@dataclass(frozen=True)
class Ball(Manifold):
    """Vectors along the last axis that are no longer than `radius`. Paths are reflected there.

    Parameters
    ----------
    radius : float
        The greatest length.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):  # its mode is outside
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> x = np.random.default_rng(1).normal([1, 1], 1, (100, 2))
    >>> draws = sgmcmc.sggmc(
    ...     log_lik, {"x": x}, {"mean": [0.5, 0.5]}, 0.02, manifold=sgmcmc.Ball(radius=1),
    ...     n_iters=1000, seed=1, verbose=False,
    ... )
    >>> bool(np.linalg.norm(draws["mean"], axis=1).max() <= 1 + 1e-5)
    True
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", number("radius", self.radius, above=0))

    def flow(self, x: Any, v: Any, t: Any) -> tuple[Any, Any]:
        """Go along a line, and along chords of the ball from the first reflection on.

        All chords after it have one length and one angle β with the radius: each turns the point
        where it begins by π − 2β, in the plane of radius and velocity.
        """
        r = tf.constant(self.radius, x.dtype)
        inner = tf.reduce_sum(x * v, axis=-1, keepdims=True)
        square = tf.reduce_sum(v * v, axis=-1, keepdims=True)
        room = tf.maximum(r**2 - tf.reduce_sum(x * x, axis=-1, keepdims=True), 0)
        root = tf.sqrt(inner**2 + square * room)
        # The greater root of |x + tv|² = r², without a difference of equals
        hit = tf.where(
            inner > 0,
            tf.math.divide_no_nan(room, root + inner),
            tf.math.divide_no_nan(root - inner, square),
        )
        speed = tf.sqrt(square)
        normal = (x + hit * v) / r
        outwards = tf.reduce_sum(normal * v, axis=-1, keepdims=True)
        along = v - outwards * normal
        sideways = tf.norm(along, axis=-1, keepdims=True)
        tangent = tf.math.divide_no_nan(along, sideways)
        outwards = tf.maximum(outwards, 0)
        chord = 2 * r * tf.math.divide_no_nan(outwards, square)  # its time
        left = tf.maximum(t - hit, 0)
        whole = tf.floor(tf.math.divide_no_nan(left, chord))
        turned = whole * (np.pi - 2 * tf.atan2(sideways, outwards))
        cos, sin = tf.cos(turned), tf.sin(turned)
        n, w = normal * cos + tangent * sin, tangent * cos - normal * sin
        new = sideways * w - outwards * n
        is_free = (t < hit) | (speed == 0)
        there = tf.where(is_free, x + t * v, r * n + (left - whole * chord) * new)
        return self.retract(there), tf.where(is_free, v, new)

    def retract(self, x: Any) -> Any:
        length = tf.norm(x, axis=-1, keepdims=True)
        return tf.where(length > self.radius, x * (self.radius / length), x)

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        if value.ndim == 0:
            raise ValueError(
                f"{name} must be a vector, or vectors along its last axis, in {self!r}"
            )
        if np.linalg.norm(value, axis=-1).max(initial=0) > self.radius * (1 + 1e-6):
            raise ValueError(f"{name} must be no longer than radius = {self.radius:g}")
        return value
