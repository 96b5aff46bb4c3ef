"""Underdamped Langevin dynamics by the splitting BAOAB (Leimkuhler and Matthews, 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from .. import checks, tree
from ..estimators import Estimate
from . import Dynamics, Noise
from .sghmc import Moving, friction, momentum, temperature


@dataclass(frozen=True)
class BAOAB(Dynamics):
    """Underdamped Langevin dynamics by the splitting BAOAB.

    With step size ε, friction α and an unbiased estimate ĝ of the gradient of the log posterior,

        ν ← ν + ε ĝ(θ)
        θ ← θ + ν/2
        ν ← (1 − α)ν + N(0, α(2 − α)ε)
        θ ← θ + ν/2

    starting from ν ~ N(0, ε). As in `sghmc`, ε is a squared step, α is the share of the momentum
    that a step loses, and a step takes one gradient. The order of the parts is different, and makes
    the error small: of second order in the step √ε. On a Gaussian of precision λ, with gradient
    noise of variance σ², the stationary variance is

        1/λ + (2 − α)εσ² / [αλ(4 − ελ)]

    so that without gradient noise (as near a Gaussian mode with control variates) it is right for
    every stable step, ελ < 4. The share of the noise is smaller if minibatches are taken in turn
    from shuffled rows, as by default: for the mean of 10,000 rows with minibatches of 100,
    εN = .001 and α = .2, the variance is 1.02 times the posterior's, instead of 1.21.

    Leimkuhler and Matthews (2013), Rational construction of stochastic numerical methods for
    molecular sampling, Applied Mathematics Research eXpress.

    Examples
    --------
    >>> import sgmcmc
    >>> block = sgmcmc.BAOAB(alpha=0.1)  # of a sampler that `mixed` makes
    """

    alpha: float | dict | None = checks.tunable(None, checks.friction, checks.FRICTION)

    def init(self, x: Any, noise: Noise, h: Any) -> Moving:
        return Moving(x, momentum(noise, h))

    def update(self, chain: Moving, estimate: Estimate, noise: Noise, h: Any) -> Moving:
        kicked = tree.map(lambda v, g, h: v + h * g, chain.nu, estimate.gradient, h)
        nu = tree.map(
            lambda v, z, h, alpha: (1 - alpha) * v + tf.sqrt(alpha * (2 - alpha) * h) * z,
            *(kicked, noise.normals, h, friction(self.alpha)),
        )
        return Moving(tree.map(lambda x, v, w: x + (v + w) / 2, chain.x, kicked, nu), nu)

    def draw(self, chain: Moving, h: Any) -> tuple[Any, dict[str, Any]]:
        return chain.x, {"temperature": temperature(chain.nu, h)}
