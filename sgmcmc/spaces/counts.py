"""Spaces of probabilities and positive numbers. Gradients by their logarithms are counts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from . import Space

NOT_ONE = 1e-4  # by how much the sum of probabilities may differ from 1
ROUNDING = 1e-4  # how far below 0 a count may be, as a share of the sum of all


@dataclass(frozen=True)
class Gamma(Space):
    """Positive numbers with a Gamma(α, 1) prior, for samplers that move by counts; x = log θ.

    The gradient by x is θ ∂/∂θ: an expected count, which is not negative. Added to the prior's α,
    it gives the shape of the posterior. The −θ of the log density has no gradient here: the
    sampler's own steps account for it.
    """

    alpha: Any

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        if (value < 0).any():
            raise ValueError(f"{name} must not be negative, but has {value.min():g}")
        return value

    def log_forward(self, x: Any) -> Any:
        """Return the logarithm of `forward`."""
        return x

    def forward(self, x: Any) -> Any:
        return tf.exp(x)

    def inside(self, x: Any) -> Any:
        """Return values clipped away from 0, whose derivatives by x are these values."""
        value = tf.convert_to_tensor(self.forward(x))
        value = tf.maximum(value, np.finfo(value.dtype.as_numpy_dtype).tiny ** 0.8)
        return with_slope(value, x, value)

    def inverse(self, value: Any) -> Any:
        value = tf.convert_to_tensor(value)
        return tf.math.log(tf.maximum(value, np.finfo(value.dtype.as_numpy_dtype).tiny))

    def log_density(self, x: Any) -> Any:
        return tf.reduce_sum(self.alpha * self.log_forward(x) - tf.stop_gradient(self.forward(x)))

    def log_jacobian(self, x: Any) -> Any:
        """Return 0: the density that is recorded is that of log θ."""
        return 0.0

    def elsewhere(self, x: Any) -> Any:
        """Return a second test point whose components all differ."""
        if x.ndim == 0 or x.shape[-1] == 1:
            return x + np.log(2).astype(x.dtype)
        return x + np.linspace(0.5, 1.5, x.shape[-1], dtype=x.dtype)

    def of_data(self, gradient: tf.Tensor) -> tf.Tensor:
        rounding = ROUNDING * tf.reduce_sum(tf.abs(gradient))
        nan = tf.constant(np.nan, gradient.dtype)
        return tf.where(gradient < -rounding, nan, tf.maximum(gradient, 0))


@dataclass(frozen=True)
class Simplex(Gamma):
    """Probabilities with a Dirichlet(α) prior, as shares of unconstrained positive numbers θ.

    log ω = x − log Σ exp(x). The second term has no gradient, so that the gradient by x is ω ∂/∂ω.
    """

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        super().check(name, value)
        if value.ndim == 0 or value.shape[-1] < 2:
            raise ValueError(
                f"{name} must hold the probabilities of at least 2 categories along its last axis, "
                f"but its shape is {value.shape}"
            )
        total = value.sum(-1, keepdims=True)
        if not (total > 0).all():
            raise ValueError(f"{name} must have probabilities that add up to 1, but some are all 0")
        wrong = np.abs(total - 1).max()
        if wrong > NOT_ONE:
            warnings.warn(
                f"the probabilities of {name} do not add up to 1 along the last axis (off by up to "
                f"{wrong:.3g}): they are divided by their sum",
                stacklevel=2,
            )
        return value / total

    def forward(self, x: Any) -> Any:
        each = tf.exp(x - tf.reduce_max(x, axis=-1, keepdims=True))
        return each / tf.reduce_sum(each, axis=-1, keepdims=True)

    def log_forward(self, x: Any) -> Any:
        most = tf.reduce_max(x, axis=-1, keepdims=True)
        total = tf.reduce_sum(tf.exp(x - most), axis=-1, keepdims=True)
        return x - tf.stop_gradient(most + tf.math.log(total))

    def log_density(self, x: Any) -> Any:
        return tf.reduce_sum(self.alpha * self.log_forward(x))

    def place(self, x: Any, statistic: Any) -> Any:
        """Return log θ, for θ whose sum is about that of the posterior."""
        total = tf.reduce_sum(statistic, axis=-1, keepdims=True)
        return self.log_forward(x) + tf.math.log(tf.cast(total, x.dtype))


@dataclass(frozen=True)
class Masses(Gamma):
    """The same as `Gamma`, but with x = θ. The gradient is still by log θ."""

    def forward(self, x: Any) -> Any:
        return x

    def log_forward(self, x: Any) -> Any:
        return log_above_zero(x, x)

    def inverse(self, value: Any) -> Any:
        return value

    def elsewhere(self, x: Any) -> Any:
        return x + np.exp(Gamma.elsewhere(self, 0 * x)) / (x.shape[-1] if x.ndim else 1)


@dataclass(frozen=True)
class SharesOfMasses(Simplex):
    """The same as `Simplex`, but with x = θ. The gradient is still by log θ."""

    inverse = Masses.inverse
    elsewhere = Masses.elsewhere

    def forward(self, x: Any) -> Any:
        return x / tf.reduce_sum(x, axis=-1, keepdims=True)

    def log_forward(self, x: Any) -> Any:
        return log_above_zero(self.forward(x), x)

    def place(self, x: Any, statistic: Any) -> Any:
        """Return θ whose sum is Σα, the mean of its prior Gamma(Σα, 1), whatever the data."""
        return self.forward(x) * np.sum(self.alpha, axis=-1, keepdims=True)


def log_above_zero(value: Any, x: Any) -> Any:
    """Return log(value), finite at 0, with a derivative by x of 1."""
    value = tf.convert_to_tensor(value)
    tiny = np.finfo(value.dtype.as_numpy_dtype).tiny
    return with_slope(tf.math.log(value + tiny), x, tf.ones_like(value))


def with_slope(value: tf.Tensor, x: Any, slope: tf.Tensor) -> tf.Tensor:
    """Return a value with this derivative by x."""
    value, slope = tf.stop_gradient(value), tf.stop_gradient(slope)

    @tf.custom_gradient
    def of(x: tf.Tensor) -> tuple:
        return tf.identity(value), lambda upstream: upstream * slope

    return of(tf.convert_to_tensor(x))
