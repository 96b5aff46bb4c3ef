"""Stochastic gradient Nosé-Hoover thermostat (Ding et al., 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from .. import checks, tree
from ..estimators import Estimate
from . import Dynamics, Noise
from .sghmc import momentum, temperature
from .thermostats import THERMOSTATS, Thermostat


class Thermostatted(NamedTuple):
    """A chain with momentum, and the friction of each parameter."""

    x: Any
    nu: Any
    xi: Any


@dataclass(frozen=True)
class SGNHT(Dynamics):
    """Stochastic gradient Nosé-Hoover thermostat.

    With step size ε, diffusion a and an unbiased estimate ĝ of the gradient of the log posterior,

        ν ← (1 − ξ)ν + ε ĝ(θ) + N(0, 2aε)
        θ ← θ + ν
        ξ ← min(ξ + ρ (νᵀν/(pε) − 1), 1)

    starting from ν ~ N(0, ε), ξ = a. ε is a squared step. Each parameter, of size p, has one
    friction ξ. It grows until it removes the heat that gradient noise of unknown size adds, so that
    E ν² = ε exactly. As there is one friction for all of a parameter, its gradient noise must be
    equal in all directions: otherwise draws are too wide in some and too narrow in others, though
    the temperature is right. Their variance is 1 − ξ/2 times what it should be.

    Where gradient noise is not equal in all directions, take another `thermostat`. With one for
    each coordinate, ξ ← min(ξ + ρ(ν²/ε − 1), 1), noise may differ from coordinate to coordinate.
    With a matrix Ξ for each parameter, whose p numbers are laid end to end,

        ν ← (I − Ξ)ν + ε ĝ(θ) + N(0, 2aε)
        Ξ ← Ξ + ρ(ννᵀ/ε − I)

    so that noise may also be correlated. In the direction of ν, the friction is at most 1 after
    each step. In the paper's example of a normal distribution with unknown mean and precision, the
    posterior's standard deviation of the precision is .231. Draws have .147 with one thermostat for
    both, and .230 with one for each or a matrix. The cost is that these frictions fluctuate by √ρ,
    where one for a whole parameter does by √(ρ/p): with p = 100 and a = .01, a matrix makes the
    variance wrong by 1 %, and a step takes time and memory for p² numbers.

    ρ is the thermostat's rate. It has no units, and the law of the draws does not depend on it, as
    long as ξ changes slowly. The paper and the R package have ρ = ε, which has the units of the
    posterior's variance: if that is small the friction never adapts, and if it is about 1 the chain
    is too wide or diverges, at a temperature of 1.

    At ξ = 1 a step forgets all momentum. The friction stays there while the chain comes from far
    away, or if there is more gradient noise than friction can remove: it can remove noise of
    variance σ² as long as 2a + εσ² < 1. With more, the temperature is above 1, and ε is too large.
    (The paper has no such bound, so that the chain diverges.)

    A thermostat takes gradient noise to be independent from step to step. Therefore minibatches are
    drawn independently, unless you ask for others. Taken in turn from shuffled rows, their noise is
    taken back within an epoch, but the friction removes its heat as well, and draws are too narrow:
    for the mean of 10,000 rows with minibatches of 100, εN = .001 and a = .02, the variance is .52
    times the posterior's, instead of .96.

    Ding et al. (2014), Bayesian sampling using stochastic gradient thermostats, NIPS, algorithm 2
    and section 4.2; Baker (2018), thesis, section 4.3.3.

    Examples
    --------
    >>> import sgmcmc
    >>> block = sgmcmc.SGNHT(a=0.1)  # of a sampler that `mixed` makes
    """

    a: float | dict = checks.tunable(
        0.01,
        checks.per_parameter(at_least=0),
        "Diffusion a, the size of the noise that is added, and the friction ξ at the start: a "
        "number, or a dict of them by parameter.",
    )
    thermostat_rate: float | str | dict = checks.tunable(
        1e-3,
        checks.rate,
        "Rate ρ at which the friction follows the temperature: a number, `'stepsize'` for the "
        "paper's and the R package's ρ = ε, or a dict of these by parameter. The friction adapts "
        "in about 1/ρ iterations.",
    )

    thermostat: str = checks.tunable(
        "parameter",
        checks.thermostat,
        "What has a friction of its own. `'parameter'`: each parameter. `'all'`: all of them have "
        "one in common, as in the paper. `'coordinate'`: each coordinate. `'matrix'`: each "
        f"parameter, but it is a matrix; no parameter may have more than {checks.MATRIX} numbers.",
    )

    white_noise = True

    @property
    def kind(self) -> Thermostat:
        """The thermostat itself."""
        return THERMOSTATS[self.thermostat]

    def init(self, x: Any, noise: Noise, h: Any) -> Thermostatted:
        xi = self.kind.start(x, self.a)
        return Thermostatted(x, momentum(noise, h), xi)

    def update(
        self, chain: Thermostatted, estimate: Estimate, noise: Noise, h: Any
    ) -> Thermostatted:
        nu = tree.map(
            lambda v, xi, g, z, h, a: self.kind.damped(v, xi) + h * g + tf.sqrt(2 * a * h) * z,
            *(chain.nu, chain.xi, estimate.gradient, noise.normals, h, self.a),
        )
        xi = self.kind.follow(chain.xi, nu, h, self.thermostat_rate, noise.temperature)
        return Thermostatted(tree.map(tf.add, chain.x, nu), nu, xi)

    def draw(self, chain: Thermostatted, h: Any) -> tuple[Any, dict[str, Any]]:
        friction = tree.map(self.kind.shown, chain.xi, chain.x)
        return chain.x, {"temperature": temperature(chain.nu, h), "thermostat": friction}
