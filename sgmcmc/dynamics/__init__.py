"""How a chain moves: one file a sampler. All arrays have a leading axis, the chains.

A sampler is a frozen dataclass: its fields are the sampler's own arguments (`checks.tunable`), and
`update` is its equation. What the data say comes in as `gradient`, an estimate of the gradient of
the log posterior, and all randomness as `noise`, standard normals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf


class Chain(NamedTuple):
    """The state of a chain that has parameters and nothing else."""

    theta: Any


class Dynamics:
    """What a sampler may say of itself; `update` it must."""

    inner_steps = 1
    example = "stepsize=1e-5"  # a step size for the example in the docstring, and own arguments

    @property
    def noises(self) -> int:
        """How many standard normals an iteration wants for each parameter."""
        return self.inner_steps

    def start(self, theta: Any, noise: tf.Tensor, h: Any) -> Any:
        """The state from which the chain sets out."""
        return Chain(theta)

    def begin(self, chain: Any, noise: tf.Tensor, h: Any) -> Any:
        """What happens once an iteration, before its inner steps."""
        return chain

    def update(self, chain: Any, gradient: Any, noise: tf.Tensor, h: Any) -> Any:
        """One inner step."""
        raise TypeError(f"{type(self).__name__} does not define update")

    def position(self, chain: Any) -> Any:
        """The parameters, as users see them."""
        return chain.theta

    def report(self, chain: Any, h: Any) -> dict[str, Any]:
        """What to record beside the parameters."""
        return {}
