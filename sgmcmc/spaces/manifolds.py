"""Manifolds: curved spaces, on which the geodesic samplers move along shortest paths.

A point and its velocity are arrays of a Euclidean space around the manifold. All functions but
`check` and `dimension` take any number of leading axes. Densities are with respect to the area of
the manifold (its Hausdorff measure): a density that is constant is uniform on it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from . import Space
from .counts import Simplex as Probabilities

NEAR = 1e-4  # a starting value may be this far from its manifold without a warning
OFF = 1e-3  # a manifold of a user's own may lose this share of the speed


class Manifold(Space):
    """A flat space: the base class of all manifolds.

    For a manifold of your own, override `flow`, `tangent`, `dimension` and `retract`, and pass an
    object of the class as `manifold`.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> class Cylinder(sgmcmc.Manifold):  # a circle of radius 1, and a height
    ...     def flow(self, x, v, t):
    ...         around, v_around = sgmcmc.Sphere().flow(x[..., :2], v[..., :2], t)
    ...         x = tf.concat([around, x[..., 2:] + t * v[..., 2:]], axis=-1)
    ...         return x, tf.concat([v_around, v[..., 2:]], axis=-1)
    ...     def tangent(self, x, v):
    ...         around = sgmcmc.Sphere().tangent(x[..., :2], v[..., :2])
    ...         return tf.concat([around, v[..., 2:]], axis=-1)
    ...     def dimension(self, shape):
    ...         return 2
    ...     def retract(self, x):
    ...         return tf.concat([sgmcmc.Sphere().retract(x[..., :2]), x[..., 2:]], axis=-1)
    >>> def log_lik(params, data):
    ...     height = params["place"][2]
    ...     return tf.reduce_sum(2 * params["place"][0] - (data["x"] - height) ** 2 / 2)
    >>> draws = sgmcmc.sggmc(
    ...     log_lik, {"x": np.linspace(-1, 3, 100)}, {"place": [1.0, 0.0, 0.0]}, 0.02,
    ...     manifold=Cylinder(), n_iters=500, seed=1, verbose=False,
    ... )
    >>> bool(np.abs(np.linalg.norm(draws["place"][:, :2], axis=1) - 1).max() < 1e-5)
    True
    """

    needs_geodesics = True
    matrices = False  # whether a point is a matrix along the last two axes

    def flow(self, x: Any, v: Any, t: Any) -> tuple[Any, Any]:
        """Return point and velocity after a time t along the shortest path from x.

        `t` is a number, or an array that broadcasts over x. The speed stays as it is. Rounding
        errors that would leave the manifold should be taken out.
        """
        return x + t * v, v

    def tangent(self, x: Any, v: Any) -> Any:
        """Return the part of v that is tangent to the manifold at x."""
        return v

    def dimension(self, shape: tuple[int, ...]) -> int:
        """Return the number of directions in which a parameter of this shape can move."""
        return int(np.prod(shape))

    def retract(self, x: Any) -> Any:
        """Return a point of the manifold for a point around it: itself, if it is on it."""
        return x

    def around(self) -> Space:
        return Around(self)

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        """Return the nearest point of the manifold, with a warning if it was not on it."""
        near = np.asarray(self.retract(tf.constant(value)))
        if not np.isfinite(near).all():
            raise ValueError(f"{name} has no nearest point on {self!r}: it must not be 0 there")
        off = np.abs(near - value).max(initial=0)
        if off > NEAR:
            warnings.warn(
                f"{name} is not on {self!r}, by up to {off:.3g}: the chain starts from the nearest "
                "point on it",
                stacklevel=2,
            )
        return near

    def test(self, name: str, value: np.ndarray) -> None:
        """See that the four functions agree with one another near a point."""
        x = self.retract(tf.constant(value))
        direction = np.random.default_rng(0).normal(size=value.shape)
        v = self.tangent(x, tf.constant(direction, x.dtype))
        # Two leading axes: those of chains, and of whatever the caller has
        many = [tf.stack([tf.stack([a, a])]) for a in (x, v)]
        there, speed = self.flow(many[0], many[1], tf.constant(0.1, x.dtype))
        shapes = {"tangent": v.shape, "flow": there.shape[2:], "retract": x.shape}
        for function, shape in shapes.items():
            if tuple(shape) != value.shape:
                raise ValueError(
                    f"manifold: {function} of {self!r} returns the shape {tuple(shape)} for {name} "
                    f"of shape {value.shape}: it must keep the shape, with any leading axes"
                )
        faults = {
            "tangent is no projection: it changes what it has returned": self.tangent(x, v) - v,
            "flow leaves the manifold, by its retract": self.retract(there) - there,
            "flow returns a velocity that is not tangent": self.tangent(there, speed) - speed,
            "flow changes the speed": tf.norm(speed[0, 0]) - tf.norm(v),
        }
        for fault, error in faults.items():
            size = float(tf.reduce_max(tf.abs(error)))
            if not size <= OFF * (1 + float(tf.reduce_max(tf.abs(v)))):
                raise ValueError(f"manifold: {self!r} of {name}: {fault} (off by {size:.3g})")
        most = self.dimension(value.shape)
        if not 0 < most <= value.size:
            raise ValueError(
                f"manifold: the dimension of {self!r} for {name} of shape {value.shape} must be "
                f"between 1 and {value.size}, not {most}"
            )


@dataclass(frozen=True)
class Around(Space):
    """The space around a manifold, where a point stands for the nearest one on the manifold.

    The search for a mode moves in it. All functions of the model are constant in directions that
    lead away from the manifold. So that there is a mode all the same, −p/2 times the square of the
    distance is added to the log density, for p coordinates.
    """

    manifold: Manifold

    def forward(self, x: Any) -> Any:
        return self.manifold.forward(self.manifold.retract(x))

    def inside(self, x: Any) -> Any:
        return self.manifold.inside(self.manifold.retract(x))

    def inverse(self, value: Any) -> Any:
        return self.manifold.inverse(value)

    def log_density(self, x: Any) -> Any:
        near, p = self.manifold.retract(x), int(np.prod(x.shape))
        density = self.manifold.log_density(near)
        if self.manifold.dimension(tuple(x.shape)) == p:
            return density
        return density - p / 2 * tf.reduce_sum((x - near) ** 2)


@dataclass(frozen=True)
class Sphere(Manifold):
    """Vectors of length 1 along the last axis. Leading axes are independent spheres.

    Parameters
    ----------
    positive : bool or sequence of bool
        Coordinates that cannot be negative: all of them (the positive orthant), none, or some. With
        `[False, False, True]` the sphere is the upper half of a globe. Paths are reflected at the
        boundary.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return 2 * tf.reduce_sum(tf.linalg.matvec(data["x"], params["mu"]))
    >>> x = np.random.default_rng(1).normal([1, 1, 0], 1, (1000, 3))
    >>> draws = sgmcmc.sggmc(
    ...     log_lik, {"x": x}, {"mu": [1.0, 0.0, 0.0]}, 0.005, manifold=sgmcmc.Sphere(),
    ...     n_iters=1000, seed=1, verbose=False,
    ... )
    >>> bool(np.abs(draws["mu"][500:].mean(axis=0) - [0.7, 0.7, 0]).max() < 0.1)
    True
    """

    positive: bool | tuple[bool, ...] = False

    def __post_init__(self) -> None:
        if not isinstance(self.positive, bool):
            object.__setattr__(self, "positive", tuple(bool(a) for a in self.positive))

    def __repr__(self) -> str:
        return f"Sphere(positive={self.positive})" if self.positive else "Sphere()"

    def flow(self, x: Any, v: Any, t: Any) -> tuple[Any, Any]:
        speed = tf.norm(v, axis=-1, keepdims=True)
        per_speed = tf.math.divide_no_nan(tf.ones_like(speed), speed)
        cos, sin = tf.cos(speed * t), tf.sin(speed * t)
        x, v = x * cos + v * (per_speed * sin), v * cos - x * (speed * sin)
        return self.retract(x), v

    def tangent(self, x: Any, v: Any) -> Any:
        return v - x * tf.reduce_sum(x * v, axis=-1, keepdims=True)

    def dimension(self, shape: tuple[int, ...]) -> int:
        return int(np.prod(shape[:-1])) * (shape[-1] - 1)

    def retract(self, x: Any) -> Any:
        return x / tf.norm(x, axis=-1, keepdims=True)

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        if value.ndim == 0 or value.shape[-1] < 2:
            raise ValueError(
                f"{name} must have 2 coordinates or more along its last axis to lie on a sphere, "
                f"but its shape is {value.shape}: vectors of length 1 are then only 1 and −1"
            )
        if not isinstance(self.positive, bool) and len(self.positive) != value.shape[-1]:
            raise ValueError(
                f"manifold: positive of {self!r} must have one entry for each of the "
                f"{value.shape[-1]} coordinates of {name}"
            )
        if (np.broadcast_to(self.positive, value.shape) & (value < 0)).any():
            raise ValueError(f"{name} must not be negative where {self!r} says so")
        return super().check(name, value)

    def forward(self, x: Any) -> Any:
        """Return x, with positive coordinates folded.

        A path on the whole sphere whose density is the same on both sides of the boundary is, once
        folded, a path that is reflected there.
        """
        return tf.where(self.positive, tf.abs(x), x) if self.positive else x


@dataclass(frozen=True)
class Simplex(Sphere):
    """Probabilities along the last axis, as the squares of a vector of length 1.

    Probabilities ω = x² are a map from the sphere to the simplex. Densities are those of ω; the
    factor ∏ |xⱼ| of the map is added to the log prior. Paths are reflected where a probability
    is 0. For Dirichlet densities with parameters below ½ that of x rises without bound there, and
    `scir` is the better sampler.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return tf.reduce_sum(data["counts"] * tf.math.log(params["omega"]))
    >>> counts = np.random.default_rng(1).multinomial(10, [0.5, 0.3, 0.2], 100).astype(float)
    >>> draws = sgmcmc.sggmc(
    ...     log_lik, {"counts": counts}, {"omega": np.full(3, 1 / 3)}, 0.005,
    ...     manifold=sgmcmc.Simplex(), n_iters=1000, seed=1, verbose=False,
    ... )
    >>> bool(np.abs(draws["omega"][500:].mean(axis=0) - [0.5, 0.3, 0.2]).max() < 0.05)
    True
    """

    positive: bool = field(default=True, init=False)  # no argument, as it is of `Sphere`

    def __repr__(self) -> str:
        return "Simplex()"

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        return Probabilities(1.0).check(name, value)

    def forward(self, x: Any) -> Any:
        return x**2

    def inside(self, x: Any) -> Any:
        """Return probabilities of coordinates that are kept away from 0, so that 1/ω is finite."""
        return away_from_zero(x) ** 2

    def inverse(self, value: Any) -> Any:
        return tf.sqrt(value)

    def log_density(self, x: Any) -> Any:
        return tf.reduce_sum(tf.math.log(tf.abs(away_from_zero(x))))


def away_from_zero(x: Any) -> Any:
    """Return x with a size of at least a tiny number, and a derivative of 1."""
    least = tf.constant(np.finfo(tf.as_dtype(x.dtype).as_numpy_dtype).tiny ** 0.4, x.dtype)
    moved = tf.where(x < 0, tf.minimum(x, -least), tf.maximum(x, least))
    return x + tf.stop_gradient(moved - x)


@dataclass(frozen=True)
class Torus(Manifold):
    """Angles between −π and π. Each of them lives on a circle, which has no end.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return 2 * tf.reduce_sum(tf.cos(data["angle"] - params["mean"]))
    >>> angle = np.random.default_rng(1).vonmises(3.1, 2, 1000)
    >>> draws = sgmcmc.sggmc(
    ...     log_lik, {"angle": angle}, {"mean": 0.5}, 0.01, manifold=sgmcmc.Torus(), n_iters=500,
    ...     seed=1, verbose=False,
    ... )
    >>> bool(np.abs(draws["mean"]).max() <= 3.1416)
    True
    """

    def flow(self, x: Any, v: Any, t: Any) -> tuple[Any, Any]:
        return self.retract(x + t * v), v

    def retract(self, x: Any) -> Any:
        return x - 2 * np.pi * tf.round(x / (2 * np.pi))

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        return np.asarray(self.retract(tf.constant(value)))
