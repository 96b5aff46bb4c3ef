"""How a chain moves: one file for each dynamics. All arrays have a leading axis of chains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ..estimators import Estimate


class Noise(NamedTuple):
    """The random numbers of an inner step.

    `Dynamics.noise` returns nests in the shapes that it needs, and `key=True` for a key for each
    chain. The other methods get them filled with standard normals, uniforms in [0, 1), and a key
    for the functions of `sgmcmc.random`. Normals are multiplied by the square root of the
    `temperature`.

    Examples
    --------
    >>> import sgmcmc
    >>> class Jumping(sgmcmc.Dynamics):
    ...     def noise(self, x):
    ...         return sgmcmc.Noise(normals=x, uniforms=x)  # one of each for each coordinate
    ...     def update(self, chain, estimate, noise, h):
    ...         return chain
    """

    normals: Any = ()
    uniforms: Any = ()
    key: Any = ()
    refresh: bool = False  # True: `begin` gets noise of its own
    temperature: Any = 1.0


class Chain(NamedTuple):
    """The state of a chain that has parameters and nothing else: chart coordinates x."""

    x: Any


class Dynamics(ABC):
    """Base class of all dynamics. Only `update` is required.

    A subclass is a frozen dataclass, whose fields are its arguments. x are chart coordinates: the
    parameters themselves, or the unconstrained coordinates of constrained ones. x, the estimate's
    gradient, noise and step sizes h are nests by parameter.

    Attributes
    ----------
    white_noise : bool
        True if the noise of gradients must be independent from step to step. Minibatches are then
        drawn independently unless the user asks for others.
    needs_rows : bool
        True if `estimate.extra` must have the estimates of the gradient from single rows, which the
        estimate from the minibatch is the mean of: a nest by parameter, with a second axis of rows.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> class Langevin(sgmcmc.Dynamics):
    ...     def update(self, chain, estimate, noise, h):
    ...         move = lambda x, g, z, h: x + (h / 2 * g + tf.sqrt(h) * z)
    ...         x = tf.nest.map_structure(move, chain.x, estimate.gradient, noise.normals, h)
    ...         return chain._replace(x=x)
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> dataset = {"x": np.random.default_rng(1).normal(5, 1, 10_000)}
    >>> draws = sgmcmc.sample(
    ...     Langevin(), log_lik, dataset, {"mean": 4.9}, 1e-5, n_iters=1000, seed=1, verbose=False
    ... )
    >>> abs(float(draws["mean"].mean()) - 5) < 0.05
    True
    """

    white_noise: bool = False
    needs_rows: bool = False

    @property
    def inner_steps(self) -> int:
        """The number of updates in an iteration, each with its own minibatch and noise."""
        return 1

    def noise(self, x: Any) -> Noise:
        """Declare the random numbers that each inner step needs."""
        return Noise(normals=x)

    def init(self, x: Any, noise: Noise, h: Any) -> Any:
        """Return the initial state of the chains."""
        return Chain(x)

    def begin(self, chain: Any, noise: Noise, h: Any) -> Any:
        """Return the state before an iteration's first inner step, if `noise` has a refresh."""
        return chain

    @abstractmethod
    def update(self, chain: Any, estimate: Estimate, noise: Noise, h: Any) -> Any:
        """Return the state after one inner step."""

    def position(self, chain: Any) -> Any:
        """Return the point where the next gradient is taken, in chart coordinates."""
        return chain.x

    def draw(self, chain: Any, h: Any) -> tuple[Any, dict[str, Any]]:
        """Return what is recorded: chart coordinates, and statistics by name, each by parameter."""
        return self.position(chain), {}


@runtime_checkable
class HasSpaces(Protocol):
    """A dynamics that moves some parameters in spaces of its own."""

    def spaces(self, params: Any) -> dict[str, Any]:
        """Return the space of each of these parameters, by name."""
