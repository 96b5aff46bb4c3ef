"""What the argument `constrain` names: real coordinates of parameters that are bounded."""

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
        if not (value > 0).all():
            raise ValueError(f"{name} must be above 0, where constrain has it, not {value.min():g}")
        return value

    def forward(self, x: Any) -> Any:
        return tf.exp(x)

    def inverse(self, value: Any) -> Any:
        return tf.math.log(value)

    def log_density(self, x: Any) -> Any:
        return tf.reduce_sum(x)


class Unit(Space):
    """A number between 0 and 1, as the logistic function of a real one."""

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        wrong = value[(value <= 0) | (value >= 1)]
        if wrong.size:
            raise ValueError(
                f"{name} must be between 0 and 1, where constrain has it, not {wrong.flat[0]:g}"
            )
        return value

    def forward(self, x: Any) -> Any:
        return tf.sigmoid(x)

    def inverse(self, value: Any) -> Any:
        return tf.math.log(value) - tf.math.log1p(-value)

    def log_density(self, x: Any) -> Any:
        return tf.reduce_sum(tf.math.log_sigmoid(x) + tf.math.log_sigmoid(-x))


@dataclass(frozen=True)
class Bijected(Space):
    """The image of a bijector of TensorFlow Probability."""

    bijector: Any

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        label = self.bijector.name
        try:
            x = tf.constant(np.array(self.inverse(value)))  # anew: bijectors remember pairs
            back, density = self.forward(x).numpy(), self.log_density(x).numpy()
        except NotImplementedError as error:
            raise ValueError(
                f"constrain: the bijector {label!r} of {name} cannot be used, as it lacks an "
                f"inverse or the log of its Jacobian: {checks.summary(error)}"
            ) from None
        except Exception as error:
            raise ValueError(
                f"constrain: the bijector {label!r} cannot take {name}, of shape {value.shape} and "
                f"type {value.dtype}: {checks.summary(error)}"
            ) from None
        if np.shape(density) != ():
            raise ValueError(
                f"constrain: the bijector {label!r} does not act on {name} as one value: the log "
                f"of its Jacobian has shape {np.shape(density)}"
            )
        close = back.shape == value.shape and np.allclose(back, value, THERE_AND_BACK)
        if not (np.isfinite(x).all() and np.isfinite(density) and close):
            raise ValueError(
                f"{name} must be inside the set that the bijector {label!r} maps to, not on its "
                f"boundary or outside, as {checks.described(value)} is"
            )
        return value

    def forward(self, x: Any) -> Any:
        return self.bijector.forward(x)

    def inverse(self, value: Any) -> Any:
        return self.bijector.inverse(value)

    def log_density(self, x: Any) -> Any:
        x = tf.convert_to_tensor(x)
        return self.bijector.forward_log_det_jacobian(x, event_ndims=x.shape.rank)


NAMED = {"positive": Positive(), "unit": Unit()}


def spaces(constrain: Any, params: Any, name: str = "constrain") -> Any:
    """The space of each parameter, in the form of `params`."""
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
    """The space that a name, a bijector or a space stands for."""
    if isinstance(value, Space):
        return value
    if isinstance(value, str) and value in NAMED:
        return NAMED[value]
    if isinstance(value, str):
        raise ValueError(
            f"{name} must be one of {sorted(NAMED)}, or a bijector, not {value!r}"
            f"{checks.nearest(value, NAMED)}"
        )
    if not hasattr(value, "forward_log_det_jacobian"):
        raise TypeError(
            f"{name} must be one of {sorted(NAMED)}, a bijector of TensorFlow Probability or a "
            f"sgmcmc.Space, not {checks.described(value)}"
        )
    return Bijected(value)
