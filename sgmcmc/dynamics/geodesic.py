"""What samplers that move along the shortest paths of a manifold have in common."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from .. import checks, tree
from ..checks import geodesic as arguments
from ..estimators import Estimate
from ..spaces import labels
from ..spaces.manifolds import Manifold
from . import Dynamics, Noise
from .heat import covariance, damped, heated, projected, share_of
from .thermostats import along

MOMENTUM = 0.1  # where the user gives neither friction nor momentum


def moved(manifolds: Any, x: Any, v: Any, t: Any) -> tuple[Any, Any]:
    """Flow along the shortest paths for a time t, and return points and velocities."""
    each = [
        m.flow(x, v, t) for m, x, v, t in zip(*(tree.leaves(nest) for nest in (manifolds, x, v, t)))
    ]
    there, speed = zip(*each)
    return tree.pack(x, list(there)), tree.pack(x, list(speed))


def tangent(manifolds: Any, x: Any, v: Any) -> Any:
    """The part of v that is tangent at x."""
    return tree.map(lambda m, x, v: m.tangent(x, v), manifolds, x, v)


def before(manifolds: Any, x: Any, v: Any, h: Any) -> Any:
    """Where a chain was half a step ago, when the last step ended: the way back."""
    back = tree.map(tf.negative, v)
    return moved(manifolds, x, back, tree.map(lambda h: h / 2, h))[0]


def energy(manifold: Manifold, v: tf.Tensor) -> tf.Tensor:
    """Return vᵀv/m of each chain, with the dimension m: 1 on average if the heat is right."""
    square = tf.reduce_sum(v**2, axis=list(range(1, v.shape.rank)))
    return square / manifold.dimension(tuple(v.shape[1:]))


@dataclass(frozen=True)
class OnManifold(Dynamics):
    """Base class of all samplers on manifolds."""

    manifold: Manifold | dict = checks.required(
        arguments.manifold,
        "Where the parameters lie: `Sphere()`, `Stiefel()`, `Simplex()`, `Torus()`, `Ball()`, "
        "`Euclidean()`, or a `Manifold` of your own; or a dict of these by parameter, in which "
        "parameters may be left out that are any real numbers, or that `constrain` names.",
        positional=False,
    )

    def spaces(self, params: Any) -> Any:
        """Return the manifolds of the parameters that have one, after a test of each."""
        names = labels("params", params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the check of starting values warns
            for name, manifold, value in zip(names, *map(tree.leaves, (self.manifold, params))):
                manifold.test(name, np.asarray(manifold.inverse(manifold.check(name, value))))
        return {k: m for k, m in self.manifold.items() if not arguments.is_flat(m)}  # type: ignore[union-attr]  # by parameter, once checked


@dataclass(frozen=True)
class Geodesic(OnManifold):
    """Base class of samplers with friction and noise: its `kicked` are the steps B, O and B.

    With share c = Cε of the momentum, friction C and time ε,

        B: v ← e^(−c/2) v
        O: v ← v + Λ(x)[ε ĝ(x) + N(0, 2c − ε²V)]
    """

    friction: float | np.ndarray | dict | None = checks.tunable(
        None,
        arguments.friction,
        "Friction C, in units of 1/time: a number, a symmetric positive definite matrix that acts "
        "along the parameter's last axis, or a dict of these by parameter. None: momentum/ε.",
    )
    L: int = checks.tunable(
        5, checks.whole, "Steps of the dynamics in an iteration, each on its own minibatch."
    )
    gradient_noise: str | float | np.ndarray | dict | None = checks.tunable(
        None,
        arguments.gradient_noise,
        "The covariance V of the noise of ĝ, by which less noise is added. None: it counts as 0. "
        "`'scalar'`, `'diagonal'` or `'full'`: it is estimated in each step from the gradients of "
        "single rows, as one number, one for each coordinate, or a matrix along the last axis. Or "
        "V itself: a number, an array like the parameter, or a matrix. Or a dict of these by "
        "parameter. The temperature must then be 1.",
    )
    learning_rate: float | None = checks.tunable(
        None,
        arguments.optional_positive,
        "Another way to give the step size: ε = √(learning_rate/N), with N rows of data.",
    )
    momentum: float | None = checks.tunable(
        None,
        arguments.optional_positive,
        "Another way to give the friction: C = momentum/ε, so that a step loses the share "
        f"1 − exp(−momentum). None, and no `friction`: {MOMENTUM}.",
    )

    def __post_init__(self) -> None:
        if self.momentum is not None and given(self.friction):
            raise ValueError("momentum must be left out where friction is given: it is friction·ε")

    @property
    def inner_steps(self) -> int:
        return self.L

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]  # read-only, as all fields are
        return any(isinstance(each, str) for each in tree.leaves(self.gradient_noise))

    def time_step(self, stepsize: Any, N: int) -> Any:
        """Return the step size, which may have been given as a learning rate."""
        if self.learning_rate is None:
            return stepsize
        if stepsize is not None:
            raise ValueError("learning_rate must be left out where stepsize is given")
        return (checks.number("learning_rate", self.learning_rate, above=0) / N) ** 0.5

    def kicked(
        self, x: Any, v: Any, estimate: Estimate, noise: Noise, h: Any, lost: Any = None
    ) -> Any:
        """Return velocities after B, O and B. `lost` is the share c of B, if it is not that of O.

        It is a number for each chain, by parameter.
        """
        none = tree.map(lambda _: None, x)
        return tree.map(
            partial(self.kick, N=estimate.N),
            *(self.manifold, x, v, estimate.gradient, noise.normals, h),
            *(self.friction, self.gradient_noise),
            estimate.extra if self.needs_rows else none,
            none if lost is None else lost,
        )

    def kick(
        self,
        m: Any,
        x: Any,
        v: Any,
        g: Any,
        z: Any,
        h: Any,
        C: Any,
        V: Any,
        rows: Any,
        lost: Any,
        N: int,
    ) -> tf.Tensor:
        """The velocity of one parameter."""
        share = tf.ones_like(h) * self.rho if C is None else share_of(C, h)
        if isinstance(V, str):
            V, is_matrix = covariance(m, x, rows, N, V), V == "full"
        else:
            is_matrix = np.ndim(V) == 2 and V.shape != tuple(x.shape[1:])
            V = projected(m, x, V) if is_matrix and not m.matrices else V
        drift = h * g + heated(z, C, share, V, h, is_matrix)
        by_matrix = lost is None and isinstance(C, np.ndarray)
        half = (share if lost is None else along(lost, x)) / 2
        # The velocity was tangent but for rounding errors, which are taken out with the rest
        v = m.tangent(x, damped(m, x, v, half, by_matrix) + drift)
        return damped(m, x, v, half, by_matrix)

    @property
    def rho(self) -> float:
        """The share of the momentum, where no friction is given."""
        return MOMENTUM if self.momentum is None else self.momentum


def given(value: Any) -> bool:
    """Whether a constant was given, for any parameter."""
    leaves = value.values() if isinstance(value, Mapping) else [value]
    return any(given(x) if isinstance(x, Mapping) else x is not None for x in leaves)
