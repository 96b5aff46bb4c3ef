"""Geodesic stochastic gradient Nosé-Hoover thermostat (Liu, Zhu and Song, 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from .. import checks, tree
from ..checks import geodesic as arguments
from ..estimators import Estimate
from . import Noise
from .geodesic import Geodesic, before, energy, moved, tangent
from .sghmc import by_chain


class Thermostatted(NamedTuple):
    """A chain in the middle of a step, with a friction for each parameter."""

    x: Any
    v: Any
    xi: Any


@dataclass(frozen=True)
class GSGNHT(Geodesic):
    """Geodesic stochastic gradient Nosé-Hoover thermostat, on a manifold.

    With a step ε of time, diffusion C, the projection Λ(x) on the directions that are tangent at x,
    and an unbiased estimate ĝ of the gradient of the log posterior, a step is

        A: move along the shortest path for the time ε/2;  ξ ← ξ + (ρ/ε)(vᵀv/m − 1)/2
        B: v ← exp(−ξ ε/2) v
        O: v ← v + Λ(x)[ε ĝ(x) + N(0, 2Cε − ε²V)]
        B, A: again

    starting from v ~ N(0, I), tangent, and ξ = C, where m is the dimension of the manifold.
    `stepsize` is ε, a time. Each parameter has one friction ξ, which grows until it removes the
    heat that gradient noise of unknown size adds: by about εσ²/2, for noise of variance σ².

    ρ is the thermostat's rate. It has no units, and the law of the draws does not depend on it, as
    long as ξ changes slowly. The paper has ρ = ε². As for `sgnht`, ξε stays at most 1, and
    minibatches are drawn independently unless you ask for others.

    `friction` is C. It is a number for each parameter. An iteration is `L` such steps, each on its
    own minibatch. Densities are with respect to the area of the manifold, and step sizes are chosen
    if none are given, as for `sggmc`.

    Liu, Zhu and Song (2016), Stochastic gradient geodesic MCMC methods, NIPS, algorithm 2.

    Examples
    --------
    >>> import sgmcmc
    >>> block = sgmcmc.GSGNHT(manifold=sgmcmc.Sphere(), friction=1.0)  # of `mixed`
    """

    friction: float | dict | None = checks.tunable(
        None,
        arguments.single_friction,
        "Diffusion C, the size of the noise that is added, and the friction ξ at the start, in "
        "units of 1/time: a number, or a dict of them by parameter. None: momentum/ε.",
    )
    thermostat_rate: float | str | dict = checks.tunable(
        1e-3,
        checks.rate,
        "Rate ρ at which the friction follows the temperature: a number, `'stepsize'` for the "
        "paper's ρ = ε², or a dict of these by parameter. The friction adapts in about 1/ρ steps.",
    )

    white_noise = True

    def init(self, x: Any, noise: Noise, h: Any) -> Thermostatted:
        def start(x: Any, C: Any, h: Any) -> tf.Tensor:
            C = self.rho / by_chain(h) if C is None else C
            return tf.ones(x.shape[:1], x.dtype) * C

        v, xi = tangent(self.manifold, x, noise.normals), tree.map(start, x, self.friction, h)
        x, v = moved(self.manifold, x, v, tree.map(lambda h: h / 2, h))
        return Thermostatted(x, v, self.followed(xi, v, noise, h, 0.5))

    def followed(self, xi: Any, v: Any, noise: Noise, h: Any, part: float) -> Any:
        """The frictions after A for a part of a step."""

        def follow(m: Any, v: Any, xi: Any, h: Any, rate: Any) -> tf.Tensor:
            h = by_chain(h)
            rate = h if rate == "stepsize" else rate / h  # ρ/ε
            return tf.minimum(xi + part * rate * (energy(m, v) - noise.temperature), 1 / h)

        return tree.map(follow, self.manifold, v, xi, h, self.thermostat_rate)

    def update(
        self, chain: Thermostatted, estimate: Estimate, noise: Noise, h: Any
    ) -> Thermostatted:
        lost = tree.map(lambda xi, h: xi * by_chain(h), chain.xi, h)
        v = self.kicked(chain.x, chain.v, estimate, noise, h, lost)
        x, v = moved(self.manifold, chain.x, v, h)  # A, and A of the next step
        return Thermostatted(x, v, self.followed(chain.xi, v, noise, h, 1.0))

    def draw(self, chain: Thermostatted, h: Any) -> tuple[Any, dict[str, Any]]:
        stats = {
            "temperature": tree.map(energy, self.manifold, chain.v),
            "thermostat": chain.xi,
        }
        return before(self.manifold, chain.x, chain.v, h), stats
