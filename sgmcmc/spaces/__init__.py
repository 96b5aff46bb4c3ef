"""The spaces of parameters, and the coordinates in which they are sampled.

A space maps chart coordinates x, in which the chain moves, to the value θ that the user's functions
get. Gradients are always with respect to x, and no other code depends on which space it is. All
methods take one value, without the axis of chains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from .. import tree
from .affine import Affine


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

    needs_geodesics: bool = False  # whether only samplers on manifolds can move in it

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def check(self, name: str, value: np.ndarray) -> np.ndarray:
        """Return the starting value, normalised if necessary; an error if it is not inside."""
        return value

    def forward(self, x: Any) -> Any:
        """Return the value at chart coordinates x."""
        return x

    def inside(self, x: Any) -> Any:
        """Return the value for the model: that of `forward`, kept away from the boundary."""
        return self.forward(x)

    def inverse(self, value: Any) -> Any:
        """Return the chart coordinates of a value."""
        return value

    def log_density(self, x: Any) -> Any:
        """Return what is added to the log prior: log |det| of the derivative of `forward`."""
        return 0.0

    def log_jacobian(self, x: Any) -> Any:
        """Return the part of `log_density` that a density of the user's values does not have."""
        return self.log_density(x)

    def of_data(self, gradient: tf.Tensor) -> tf.Tensor:
        """Return a gradient of the user's functions, with NaN where it is impossible here."""
        return gradient

    def elsewhere(self, x: Any) -> Any:
        """Return a second point at which counts are checked; the same if there are none."""
        return x

    def around(self) -> Space:
        """Return the space in which a mode is searched for: it has no bounds and no curvature."""
        return self

    def place(self, x: Any, statistic: Any) -> Any:
        """Map starting values x to those of the chain, given the log posterior's gradient there."""
        return x


class Real(Space):
    """Any real number."""


@dataclass(frozen=True)
class Chart:
    """The spaces of all parameters together, and white coordinates in front of them."""

    spaces: Any
    affine: Affine | None = None

    def free(self, x: Any) -> Any:
        """The coordinates of the spaces, from those in which the chain moves."""
        return x if self.affine is None else self.affine.forward(x)

    def with_matrix(self, matrix: tf.Tensor) -> Chart:
        """The same chart with another matrix of the white coordinates."""
        return replace(self, affine=replace(self.affine, matrix=matrix))

    @property
    def is_shrunk(self) -> bool:
        """Whether draws are not recorded where the chain is."""
        return self.affine is not None and not isinstance(self.affine.shrink, tuple)

    def recorded(self, x: Any) -> Any:
        """The coordinates that are recorded, from those in which the chain moves."""
        return self.affine.recorded(x) if self.is_shrunk else x

    @property
    def is_identity(self) -> bool:
        """True if values are chart coordinates."""
        return self.affine is None and self.same("forward")

    @property
    def has_density(self) -> bool:
        """True if something is added to the log prior."""
        return not self.same("log_density")

    @property
    def has_jacobian(self) -> bool:
        """True if the densities of values and of chart coordinates differ."""
        return any(
            overrides(s, "log_density") and not overrides(s, "log_jacobian")
            for s in tree.leaves(self.spaces)
        )

    @property
    def has_counts(self) -> Any:
        """True for each parameter whose gradient is counts."""
        return tree.map(lambda s: overrides(s, "of_data"), self.spaces)

    @property
    def has_manifold(self) -> bool:
        """True if a parameter lies on a manifold."""
        return any(s.needs_geodesics for s in tree.leaves(self.spaces))

    def around(self) -> Chart:
        """The coordinates in which a mode is searched for: around manifolds, not on them."""
        return Chart(tree.map(lambda s: s.around(), self.spaces), self.affine)

    def same(self, method: str) -> bool:
        """True if no parameter's space overrides this method."""
        return not any(overrides(s, method) for s in tree.leaves(self.spaces))

    def check(self, name: str, params: Any) -> Any:
        """Check starting values, each by its space, and return them normalised."""
        checked = [
            space.check(label, value)
            for label, space, value in zip(
                labels(name, params), tree.leaves(self.spaces), tree.leaves(params)
            )
        ]
        return tree.pack(params, checked)

    def check_each(self, name: str, starts: Any, n_chains: int) -> Any:
        """Check the starting values of each chain, (chains, ...)."""
        each = [self.check(name, tree.map(lambda x: x[c], starts)) for c in range(n_chains)]  # noqa: B023
        return tree.map(lambda *x: np.stack(x), *each)

    def forward(self, x: Any) -> Any:
        """Return the user's values at chart coordinates x."""
        if self.is_identity:
            return x
        return tree.map(lambda s, a: s.forward(a), self.spaces, self.free(x))

    def inside(self, x: Any) -> Any:
        """Return the values at which the model is evaluated."""
        if self.is_identity and self.same("inside"):
            return x
        return tree.map(lambda s, a: s.inside(a), self.spaces, self.free(x))

    def inverse(self, params: Any) -> Any:
        """Return the chart coordinates of values, as NumPy arrays."""
        if self.is_identity:
            return params
        x = tree.map(lambda s, a: np.asarray(s.inverse(a)), self.spaces, params)
        return x if self.affine is None else self.affine.inverse(x)

    def log_density(self, x: Any) -> Any:
        """Return what the spaces add to the log prior."""
        return self.sum_of("log_density", x)

    def log_jacobian(self, x: Any) -> Any:
        """Return the difference of the log densities of chart coordinates and of values.

        The part of the affine map is a constant, and left out.
        """
        return self.sum_of("log_jacobian", x)

    def sum_of(self, method: str, x: Any) -> Any:
        """The sum over all spaces of what a method returns."""
        each = tree.map(
            lambda s, a: tf.zeros((), a.dtype) + getattr(s, method)(a), self.spaces, self.free(x)
        )
        return tf.add_n(tree.leaves(each))

    def elsewhere(self, x: Any) -> Any:
        """Return a second point at which counts are checked."""
        return tree.map(lambda s, a: s.elsewhere(a), self.spaces, x)

    def of_data(self, gradient: Any) -> Any:
        """Return gradients of the user's functions, checked by each space."""
        if self.same("of_data"):
            return gradient
        return tree.map(lambda s, g: s.of_data(g), self.spaces, gradient)

    def place(self, x: Any, statistic: Any) -> Any:
        """Map starting values to those of the chain."""
        placed = tree.map(lambda s, a, b: s.place(a, b), self.spaces, x, statistic)
        return tree.map(np.asarray, placed)


def overrides(space: Space, method: str) -> bool:
    """True if a space overrides this method of the base class."""
    return getattr(type(space), method) is not getattr(Space, method)


def labels(name: str, params: Any) -> list[str]:
    """Return the expression for each leaf, such as params['layer']['weights']."""
    return [name + "".join(f"[{k!r}]" for k in p.split("/")) for p in tree.names(params)]
