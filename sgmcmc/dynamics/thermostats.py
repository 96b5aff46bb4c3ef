"""The friction ξ of a thermostat: one number, one for each coordinate, or a matrix.

Each kind keeps ξ as a nest by parameter. It follows the kinetic temperature at the rate ρ, without
units, so that it takes out the heat of gradient noise of unknown size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import tensorflow as tf

from .. import tree
from .sghmc import by_chain, mean_square


def along(xi: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """Reshape one number for each chain, so that it broadcasts over a parameter."""
    return tf.reshape(xi, (-1,) + (1,) * (x.shape.rank - 1))


def laid(x: tf.Tensor) -> tf.Tensor:
    """Lay the numbers of a parameter end to end, as (chains, size)."""
    return tf.reshape(x, (x.shape[0], -1))


class Thermostat(ABC):
    """One kind of friction."""

    def start(self, x: Any, a: Any) -> Any:
        """Return ξ = a."""
        return tree.map(lambda x, a: tf.fill(x.shape[:1], tf.constant(a, x.dtype)), x, a)

    def damped(self, v: tf.Tensor, xi: tf.Tensor) -> tf.Tensor:
        """Return the momentum of a parameter after friction, (1 − ξ)ν."""
        return (1 - along(xi, v)) * v

    def follow(self, xi: Any, nu: Any, h: Any, rate: Any, T: Any) -> Any:
        """Return ξ after a step, by the temperature ν²/ε. T is what that must be."""
        each = tree.map(by_chain, h)
        rate = tree.map(lambda r, h: h if r == "stepsize" else r, rate, each)
        return self.followed(xi, nu, each, rate, T)

    @abstractmethod
    def followed(self, xi: Any, nu: Any, h: Any, rate: Any, T: Any) -> Any:
        """The same with step sizes and rates that are one number, or one for each chain."""

    def shown(self, xi: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        """Return what is recorded of the friction of a parameter."""
        return xi


class OfParameter(Thermostat):
    """One friction for each parameter: ξ ← min(ξ + ρ(νᵀν/(pε) − 1), 1)."""

    def followed(self, xi: Any, nu: Any, h: Any, rate: Any, T: Any) -> Any:
        return tree.map(
            lambda xi, v, h, rate: tf.minimum(xi + rate * (mean_square(v) / h - T), 1),
            *(xi, nu, h, rate),
        )


class OfAll(Thermostat):
    """One friction for all parameters, which starts and changes as the mean over coordinates."""

    def start(self, x: Any, a: Any) -> Any:
        sizes = [leaf.shape[1:].num_elements() for leaf in tree.leaves(x)]
        mean = sum(a * size for a, size in zip(tree.leaves(a), sizes)) / sum(sizes)
        return super().start(x, tree.map(lambda _: mean, a))

    def followed(self, xi: Any, nu: Any, h: Any, rate: Any, T: Any) -> Any:
        sizes = [v.shape[1:].num_elements() for v in tree.leaves(nu)]
        change = sum(
            size * rate * (mean_square(v) / h - T)
            for size, v, h, rate in zip(sizes, *map(tree.leaves, (nu, h, rate)))
        )
        return tree.map(lambda xi: tf.minimum(xi + change / sum(sizes), 1), xi)


class OfCoordinate(Thermostat):
    """One friction for each coordinate: ξ ← min(ξ + ρ(ν²/ε − 1), 1)."""

    def start(self, x: Any, a: Any) -> Any:
        return tree.map(lambda x, a: tf.fill(x.shape, tf.constant(a, x.dtype)), x, a)

    def damped(self, v: tf.Tensor, xi: tf.Tensor) -> tf.Tensor:
        return (1 - xi) * v

    def followed(self, xi: Any, nu: Any, h: Any, rate: Any, T: Any) -> Any:
        def follow(xi: tf.Tensor, v: tf.Tensor, h: Any, rate: Any) -> tf.Tensor:
            h, rate = (along(a, v) if tf.is_tensor(a) and a.shape.rank else a for a in (h, rate))
            return tf.minimum(xi + rate * (v**2 / h - T), 1)

        return tree.map(follow, xi, nu, h, rate)


class OfMatrix(Thermostat):
    """A symmetric matrix of friction for each parameter, laid end to end.

    With u = ν/|ν|, Ξ ← Ξ − ρI + min(ρ νᵀν/ε, 1 + ρ − uᵀΞu) uuᵀ. The bound is that of a number: in
    the direction of the momentum, the friction is at most 1 after the step.
    """

    def start(self, x: Any, a: Any) -> Any:
        def start(x: tf.Tensor, a: float) -> tf.Tensor:
            return a * tf.eye(laid(x).shape[1], batch_shape=x.shape[:1], dtype=x.dtype)

        return tree.map(start, x, a)

    def damped(self, v: tf.Tensor, xi: tf.Tensor) -> tf.Tensor:
        return v - tf.reshape(tf.linalg.matvec(xi, laid(v)), v.shape)

    def followed(self, xi: Any, nu: Any, h: Any, rate: Any, T: Any) -> Any:
        def follow(xi: tf.Tensor, v: tf.Tensor, h: Any, rate: Any) -> tf.Tensor:
            v = laid(v)
            down = tf.reshape(tf.convert_to_tensor(rate * T, v.dtype), (-1, 1))
            square = tf.reduce_sum(v**2, axis=1)
            u = tf.math.divide_no_nan(v, tf.sqrt(square)[:, None])
            now = tf.reduce_sum(u * tf.linalg.matvec(xi, u), axis=1)
            up = tf.minimum(rate * square / h, 1 + down[:, 0] - now)
            grown = xi + (up[:, None] * u)[..., None] * u[:, None]
            return grown - tf.linalg.diag(tf.broadcast_to(down, v.shape))

        return tree.map(follow, xi, nu, h, rate)

    def shown(self, xi: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.linalg.diag_part(xi), x.shape)


THERMOSTATS: dict[str, Thermostat] = {
    "parameter": OfParameter(),
    "all": OfAll(),
    "coordinate": OfCoordinate(),
    "matrix": OfMatrix(),
}
