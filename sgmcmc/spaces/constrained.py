"""The spaces that the argument `constrain` names: real coordinates of bounded parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from .. import checks
from . import Real, Space

THERE_AND_BACK = 1e-3  # relative error that `forward` of `inverse` may have


class Positive(Space):
    """A number above 0, as the exponential of a real one."""

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        tiny = np.finfo(value.dtype).tiny
        if not (value >= tiny).all():
            raise ValueError(
                f"{name} must be above 0 (in {value.dtype}, at least {tiny:.3g}), as constrain "
                f"says 'positive', not {value.min():g}"
            )
        return value

    def forward(self, x: Any) -> Any:
        return tf.exp(x)

    def inside(self, x: Any) -> Any:
        """Return values clipped away from 0, so that 1/θ is finite."""
        return self.forward(between(x, log_tiny(x), np.inf))

    def inverse(self, value: Any) -> Any:
        return tf.math.log(value)

    def log_density(self, x: Any) -> Any:
        return tf.reduce_sum(x)


class Unit(Space):
    """A number between 0 and 1, as the logistic function of a real one."""

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        wrong = value[(value < np.finfo(value.dtype).tiny) | (value >= 1)]
        if wrong.size:
            raise ValueError(
                f"{name} must be strictly between 0 and 1, as constrain says 'unit', not "
                f"{wrong[0]:g}"
            )
        return value

    def forward(self, x: Any) -> Any:
        return tf.sigmoid(x)

    def inside(self, x: Any) -> Any:
        """Return values p clipped away from 0 and 1, so that 1/p and 1/(1 − p) are finite."""
        most = -np.log(np.finfo(tf.as_dtype(x.dtype).as_numpy_dtype).eps)
        return self.forward(between(x, log_tiny(x), most))

    def inverse(self, value: Any) -> Any:
        return tf.math.log(value) - tf.math.log1p(-value)

    def log_density(self, x: Any) -> Any:
        return tf.reduce_sum(tf.math.log_sigmoid(x) + tf.math.log_sigmoid(-x))


def log_tiny(x: Any) -> float:
    """Return the logarithm of a small positive number whose reciprocal is finite."""
    return 0.8 * np.log(np.finfo(tf.as_dtype(x.dtype).as_numpy_dtype).tiny)


def between(x: Any, low: float, high: float) -> Any:
    """Clip numbers to bounds, with a derivative of 1 everywhere, so that chains come back."""
    bounded = tf.clip_by_value(x, tf.cast(low, x.dtype), tf.cast(high, x.dtype))
    return x + tf.stop_gradient(bounded - x)


@dataclass(frozen=True)
class Bijected(Space):
    """The image of a bijector of TensorFlow Probability.

    A bijector caches its result for each tensor. It gets a copy each time, as a cached result may
    come from outside the gradient tape that is now recording, and would have no gradient here.
    """

    bijector: Any

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        bijector = f"the bijector {self.bijector.name!r}"
        try:
            x = tf.convert_to_tensor(self.inverse(value))
            back, density = self.forward(x).numpy(), self.log_density(x).numpy()
        except NotImplementedError as error:
            raise ValueError(
                f"constrain: {bijector} of {name} cannot be used, as it lacks an inverse or the "
                f"log of its Jacobian: {first_sentence(error)}"
            ) from None
        except Exception as error:
            raise ValueError(
                f"constrain: {bijector} cannot take {name}, of shape {value.shape} and type "
                f"{value.dtype}: {first_sentence(error)}"
            ) from None
        if back.dtype != value.dtype:
            raise ValueError(
                f"constrain: {bijector} makes {back.dtype} of {name}, which is {value.dtype}: make "
                f"it of {value.dtype} constants, or pass dtype={back.dtype.name!r}"
            )
        if back.shape != value.shape or np.shape(density) != ():
            raise ValueError(
                f"constrain: {bijector} does not act on {name} as one value of shape "
                f"{value.shape}: it returns shape {back.shape}, and shape {np.shape(density)} for "
                "the log of its Jacobian"
            )
        if not (np.isfinite(x).all() and np.isfinite(density)):
            raise ValueError(
                f"{name} must be inside the range of {bijector}, not on its boundary or outside: "
                f"there is no finite inverse of {checks.described(value)}"
            )
        if not np.allclose(back, value, THERE_AND_BACK):
            raise ValueError(
                f"{name} must be inside the range of {bijector}: forward(inverse({name})) differs "
                f"from it by up to {np.abs(back - value).max():.3g}"
            )
        return value

    def forward(self, x: Any) -> Any:
        return self.bijector.forward(tf.identity(x))

    def inverse(self, value: Any) -> Any:
        return self.bijector.inverse(value)

    def log_density(self, x: Any) -> Any:
        x = tf.identity(x)
        return self.bijector.forward_log_det_jacobian(x, event_ndims=x.shape.rank)


def first_sentence(error: Exception) -> str:
    """Return the first sentence of an error."""
    return checks.summary(error).split(". ")[0].rstrip(".")


NAMED = {"positive": Positive(), "unit": Unit()}


def spaces(constrain: Any, params: Any, name: str = "constrain") -> Any:
    """Return the space of each parameter, in the form of `params`."""
    if isinstance(params, dict) and (constrain is None or isinstance(constrain, Mapping)):
        for key in constrain or {}:
            if key not in params:
                raise ValueError(
                    f"{name} names {key!r}, which is no parameter{checks.nearest(key, params)}; "
                    f"the parameters are {sorted(params)}"
                )
        given = constrain or {}
        return {k: spaces(given.get(k), p, f"{name}[{k!r}]") for k, p in params.items()}
    if name == "constrain":
        raise TypeError(
            "constrain must be a dict by parameter, such as {'sigma': 'positive'}, not "
            f"{checks.described(constrain)}"
        )
    if isinstance(params, dict):
        return {k: spaces(constrain, p, f"{name}[{k!r}]") for k, p in params.items()}
    return Real() if constrain is None else space_of(name, constrain)


def space_of(name: str, value: Any) -> Space:
    """Return the space for a name, a bijector or a space."""
    if isinstance(value, Space) and not value.needs_geodesics:
        return value
    if isinstance(value, Space):
        raise ValueError(
            f"{name} cannot be {value!r}, on which this sampler cannot move: pass it to sggmc or "
            "gsgnht, as manifold="
        )
    if isinstance(value, str) and value in NAMED:
        return NAMED[value]
    names = " or ".join(map(repr, NAMED))
    wanted = f"{names}, a bijector of TensorFlow Probability or a sgmcmc.Space"
    if isinstance(value, str):
        guess = checks.nearest(value, NAMED)
        raise ValueError(f"{name} must be {wanted}, not {value!r}{guess}")
    if isinstance(value, type):
        raise TypeError(
            f"{name} must be {wanted}, not the class {value.__name__}: make an object of it, as in "
            f"{value.__name__}()"
        )
    if not hasattr(value, "forward_log_det_jacobian"):
        raise TypeError(f"{name} must be {wanted}, not {checks.described(value)}")
    return Bijected(value)
