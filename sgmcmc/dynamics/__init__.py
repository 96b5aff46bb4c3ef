"""How a chain moves: one file a sampler. All arrays have a leading axis, the chains.

A sampler is a frozen dataclass: its fields are the sampler's own arguments (`checks.tunable`), and
`update` is its equation. What the data say comes in as `gradient`, an estimate of the gradient of
the log posterior (for probabilities, by their logarithms), and all randomness as `noise`: standard
normals, or a key where the randomness depends on the state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import tensorflow as tf

from .. import tree

LOGARITHMIC = "simplex", "positive"  # spaces whose gradients are by logarithms: counts
START, STEP, DRAW, COUNTS = 1 << 8, 1 << 9, 1 << 10, 1 << 11  # what a key is folded for


class Keyed(NamedTuple):
    """A function of the user's of (params, data, key), and what it is to return."""

    label: str
    call: Callable
    names: tuple[str, ...] | None = None  # the parameters it is about; None: all
    counts: bool = True  # a dict of counts by name, or else a value of its parameter


class Chain(NamedTuple):
    """The state of a chain that has parameters and nothing else."""

    theta: Any


class Dynamics:
    """What a sampler may say of itself; `update` it must."""

    inner_steps = 1
    keyed = False  # whether its noise is a key
    without: tuple[str, ...] = ()  # arguments of all samplers that this one has no use for
    example = "stepsize=1e-5"  # a step size for the example in the docstring, and own arguments
    example_model = "normal"

    def space(self, params: Any) -> Any:
        """Where each parameter lives: "real", on the "simplex", "positive", or "any"."""
        return tree.map(lambda _: "real", params)

    def prior(self, params: Any) -> tuple[Any, Any] | None:
        """The part of the log prior that is the sampler's own argument, and its gradient."""
        return None

    def free(self, params: Any) -> Collection[str]:
        """Names of parameters on which the model need not depend."""
        return ()

    def functions(self) -> list[Keyed]:
        """The user's functions of (params, data, key)."""
        return []

    def advice(self, name: str) -> str:
        """What is most often at fault where this parameter diverges; "" is the log posterior."""
        return "Most often the step is too large: try a tenth of it"

    def steps(self, stepsize: Any) -> Any:
        """The step sizes that the user gave, and those that need not be given."""
        return stepsize

    def placed(self, starts: Any, statistic: Any) -> Any:
        """Where chains set out, given what the data say there."""
        return starts

    @property
    def noises(self) -> int:
        """How many standard normals an iteration wants for each parameter, or how many keys."""
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

    def finish(self, chain: Any, rows: Any, noise: tf.Tensor) -> Any:
        """What happens after an inner step."""
        return chain

    def position(self, chain: Any) -> Any:
        """The parameters, as users see them."""
        return chain.theta

    def report(self, chain: Any, h: Any) -> dict[str, Any]:
        """What to record beside the parameters."""
        return {}
