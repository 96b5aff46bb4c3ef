"""Where a parameter lives, and the coordinates in which it is sampled.

A space maps chart coordinates x, in which the chain moves, to the value θ that the user's functions
see. Gradients are always by x, and nothing else asks which space it is. All methods see one value,
without the axis of chains.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from . import checks, tree

NOT_ONE = 1e-4  # by how much probabilities may miss 1
ROUNDING = 1e-4  # how far below 0 a count may be, as a part of the sum of all
THERE_AND_BACK = 1e-3  # relative error that `forward` of `inverse` may have


class Space:
    """A parameter that may be any real number; the base class of all spaces.

    To constrain a parameter in a new way, override `check`, `forward`, `inverse` and `log_density`,
    and pass an object of the class in `constrain`.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> class AboveOne(sgmcmc.Space):
    ...     def check(self, name, value):
    ...         if not (value > 1).all():
    ...             raise ValueError(f"{name} must be above 1")
    ...         return value
    ...     def forward(self, x):
    ...         return 1 + tf.exp(x)
    ...     def inverse(self, value):
    ...         return tf.math.log(value - 1)
    ...     def log_density(self, x):
    ...         return tf.reduce_sum(x)
    >>> def log_lik(params, data):
    ...     return tf.reduce_sum(2 * tf.math.log(params["odds"]) - params["odds"] * data["x"])
    >>> draws = sgmcmc.sgldcv(
    ...     log_lik, {"x": np.full(100, 0.5)}, {"odds": 3.0}, 1e-3, constrain={"odds": AboveOne()},
    ...     n_iters=500, seed=1, verbose=False,
    ... )
    >>> bool((draws["odds"] > 1).all())
    True
    """

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        """The starting value, normalised where that is wanted; an error if it is not inside."""
        return value

    def forward(self, x: Any) -> Any:
        """The value at chart coordinates x."""
        return x

    def inside(self, x: Any) -> Any:
        """The value at which the model is evaluated: `forward`, kept away from the boundary."""
        return self.forward(x)

    def inverse(self, value: Any) -> Any:
        """The chart coordinates of a value."""
        return value

    def log_density(self, x: Any) -> Any:
        """What is added to the log prior: the log of |det| of the derivative of `forward`."""
        return 0.0

    def log_jacobian(self, x: Any) -> Any:
        """The part of `log_density` that the log posterior in the user's values does not have."""
        return self.log_density(x)

    def of_data(self, gradient: tf.Tensor) -> tf.Tensor:
        """A gradient of the user's functions: NaN where it is not possible in this space."""
        return gradient

    def elsewhere(self, x: Any) -> Any:
        """Another point at which counts are tried; the same where there are none."""
        return x

    def place(self, x: Any, statistic: Any) -> Any:
        """Where a chain sets out, given the gradient of the log posterior at the start."""
        return x


class Real(Space):
    """Any real number."""


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


@dataclass(frozen=True)
class Gamma(Space):
    """Positive numbers with a Gamma(α, 1) prior, for samplers that move by counts; x = log θ.

    The gradient by x is θ ∂/∂θ: an expected count, which is not negative. With the prior's α it is
    the shape of the posterior. The −θ of the density is the sampler's own, and has no gradient.
    """

    alpha: Any

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        if (value < 0).any():
            raise ValueError(f"{name} must not be negative, but has {value.min():g}")
        return value

    def log_forward(self, x: Any) -> Any:
        """The logarithm of `forward`."""
        return x

    def forward(self, x: Any) -> Any:
        return tf.exp(self.log_forward(x))

    def inside(self, x: Any) -> Any:
        """Values that 1 can be divided by; gradients are as if they were not clipped."""
        log_value = tf.convert_to_tensor(self.log_forward(x))
        lowest = 0.8 * np.log(np.finfo(log_value.dtype.as_numpy_dtype).tiny)
        return tf.exp(log_value + tf.stop_gradient(tf.maximum(log_value, lowest) - log_value))

    def inverse(self, value: Any) -> Any:
        value = tf.convert_to_tensor(value)
        return tf.math.log(tf.maximum(value, np.finfo(value.dtype.as_numpy_dtype).tiny))

    def log_density(self, x: Any) -> Any:
        return tf.reduce_sum(self.alpha * x - tf.stop_gradient(tf.exp(x)))

    def log_jacobian(self, x: Any) -> Any:
        """None: it is the density of log θ that is recorded."""
        return 0.0

    def elsewhere(self, x: Any) -> Any:
        """Another point, all of whose components differ."""
        if x.ndim == 0 or x.shape[-1] == 1:
            return x + np.log(2).astype(x.dtype)
        return x + np.linspace(0.5, 1.5, x.shape[-1], dtype=x.dtype)

    def of_data(self, gradient: tf.Tensor) -> tf.Tensor:
        rounding = ROUNDING * tf.reduce_sum(tf.abs(gradient))
        nan = tf.constant(np.nan, gradient.dtype)
        return tf.where(gradient < -rounding, nan, tf.maximum(gradient, 0))


@dataclass(frozen=True)
class Simplex(Gamma):
    """Probabilities with a Dirichlet(α) prior, as shares of positive numbers θ that are free.

    log ω = x − log Σ exp(x), and the second term has no gradient: so the gradient by x is ω ∂/∂ω.
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

    def log_forward(self, x: Any) -> Any:
        return x - tf.stop_gradient(tf.reduce_logsumexp(x, axis=-1, keepdims=True))

    def log_density(self, x: Any) -> Any:
        return tf.reduce_sum(self.alpha * self.log_forward(x))

    def place(self, x: Any, statistic: Any) -> Any:
        """θ whose sum is about that of the posterior."""
        total = tf.reduce_sum(statistic, axis=-1, keepdims=True)
        return self.log_forward(x) + tf.math.log(tf.cast(total, x.dtype))


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


@dataclass(frozen=True)
class Chart:
    """The spaces of all parameters together."""

    spaces: Any

    @property
    def is_identity(self) -> bool:
        """Whether values are chart coordinates."""
        return self.same("forward")

    @property
    def has_density(self) -> bool:
        """Whether something is added to the log prior."""
        return not self.same("log_density")

    @property
    def has_jacobian(self) -> bool:
        """Whether the densities of values and of chart coordinates differ."""
        return any(
            overrides(s, "log_density") and not overrides(s, "log_jacobian")
            for s in tree.leaves(self.spaces)
        )

    @property
    def has_counts(self) -> Any:
        """Which of the gradients are counts."""
        return tree.map(lambda s: overrides(s, "of_data"), self.spaces)

    def same(self, method: str) -> bool:
        """Whether a method is the base class's for all parameters."""
        return not any(overrides(s, method) for s in tree.leaves(self.spaces))

    def check(self, name: str, params: Any) -> Any:
        """Starting values, each checked by its space."""
        checked = [
            space.check(label, value)
            for label, space, value in zip(
                labels(name, params), tree.leaves(self.spaces), tree.leaves(params)
            )
        ]
        return tree.pack(params, checked)

    def check_each(self, name: str, starts: Any, n_chains: int) -> Any:
        """Starting values of each chain, (chains, ...), checked."""
        each = [self.check(name, tree.map(lambda x: x[c], starts)) for c in range(n_chains)]  # noqa: B023
        return tree.map(lambda *x: np.stack(x), *each)

    def forward(self, x: Any) -> Any:
        """What users see at chart coordinates x."""
        if self.is_identity:
            return x
        return tree.map(lambda s, a: s.forward(a), self.spaces, x)

    def inside(self, x: Any) -> Any:
        """The values at which the model is evaluated."""
        if self.is_identity and self.same("inside"):
            return x
        return tree.map(lambda s, a: s.inside(a), self.spaces, x)

    def inverse(self, params: Any) -> Any:
        """The chart coordinates of values, as NumPy arrays."""
        if self.is_identity:
            return params
        return tree.map(lambda s, a: np.asarray(s.inverse(a)), self.spaces, params)

    def log_density(self, x: Any) -> Any:
        """What the spaces add to the log prior."""
        each = tree.map(lambda s, a: tf.zeros((), a.dtype) + s.log_density(a), self.spaces, x)
        return tf.add_n(tree.leaves(each))

    def log_jacobian(self, x: Any) -> Any:
        """By how much the log densities of chart coordinates and of values differ."""
        each = tree.map(lambda s, a: tf.zeros((), a.dtype) + s.log_jacobian(a), self.spaces, x)
        return tf.add_n(tree.leaves(each))

    def elsewhere(self, x: Any) -> Any:
        """Another point at which counts are tried."""
        return tree.map(lambda s, a: s.elsewhere(a), self.spaces, x)

    def of_data(self, gradient: Any) -> Any:
        """Gradients of the user's functions, checked by each space."""
        if self.same("of_data"):
            return gradient
        return tree.map(lambda s, g: s.of_data(g), self.spaces, gradient)

    def place(self, x: Any, statistic: Any) -> Any:
        """Where a chain sets out."""
        placed = tree.map(lambda s, a, b: s.place(a, b), self.spaces, x, statistic)
        return tree.map(np.asarray, placed)


def overrides(space: Space, method: str) -> bool:
    """Whether a space has a method of its own."""
    return getattr(type(space), method) is not getattr(Space, method)


def labels(name: str, params: Any) -> list[str]:
    """The expression for each leaf, such as params['layer']['weights']."""
    return [name + "".join(f"[{k!r}]" for k in p.split("/")) for p in tree.names(params)]
