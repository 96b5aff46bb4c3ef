"""Stochastic gradient geodesic Monte Carlo (Liu, Zhu and Song, 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from .. import tree
from ..estimators import Estimate
from . import Noise
from .geodesic import Geodesic, before, energy, moved, tangent


class Turning(NamedTuple):
    """A chain in the middle of a step, where the gradient is taken, and its velocity."""

    x: Any
    v: Any


@dataclass(frozen=True)
class SGGMC(Geodesic):
    """Stochastic gradient geodesic Monte Carlo, on a manifold.

    With a step ε of time, friction C, the projection Λ(x) on the directions that are tangent at x,
    and an unbiased estimate ĝ of the gradient of the log posterior, a step is

        A: move along the shortest path for the time ε/2
        B: v ← exp(−Λ(x)C ε/2) v
        O: v ← v + Λ(x)[ε ĝ(x) + N(0, 2Cε − ε²V)]
        B, A: again

    starting from v ~ N(0, I), tangent. `stepsize` is ε, a time: its square is what `stepsize` is
    for `sghmc`. An iteration is `L` such steps, each on its own minibatch. (The paper's algorithm 1
    has one minibatch for all L, whose noise is then no longer what V says.) The error of the
    integrator is of the order of ε² where the friction is given. Where c = Cε is, as by `momentum`,
    it does not go below c²/24 of the variance, which is 0.04 % at c = .1.

    Without `stepsize`, each parameter gets one, by the curvature and the gradient noise along the
    directions that are tangent at the mode: see `settings["tuning"]["time steps"]`. Parameters may
    then be up to 2,000 numbers, and the mode must not be at a wall.

    V is the covariance of the noise of ĝ. Where it is known or estimated (`gradient_noise`), as
    much less noise is added, so that the heat is right if 2C ≥ εV. That is for noise that is
    independent from step to step: with `gradient_noise`, minibatches are drawn independently unless
    you ask for others.

    Densities are with respect to the area of the manifold: on a sphere, a flat prior is uniform on
    it. A density of other coordinates, such as angles of latitude, has to be multiplied by their
    Jacobian. Only the values of `log_lik` and `log_prior` on the manifold matter, not how they go
    on around it.

    Liu, Zhu and Song (2016), Stochastic gradient geodesic MCMC methods, NIPS, algorithm 1.

    Examples
    --------
    >>> import sgmcmc
    >>> block = sgmcmc.SGGMC(manifold=sgmcmc.Sphere(), friction=1.0)  # of `mixed`
    """

    @property
    def white_noise(self) -> bool:  # type: ignore[override]  # read-only, as all fields are
        return any(x is not None for x in tree.leaves(self.gradient_noise))

    def init(self, x: Any, noise: Noise, h: Any) -> Turning:
        v = tangent(self.manifold, x, noise.normals)
        return Turning(*moved(self.manifold, x, v, tree.map(lambda h: h / 2, h)))

    def update(self, chain: Turning, estimate: Estimate, noise: Noise, h: Any) -> Turning:
        v = self.kicked(chain.x, chain.v, estimate, noise, h)
        return Turning(*moved(self.manifold, chain.x, v, h))  # A, and A of the next step

    def draw(self, chain: Turning, h: Any) -> tuple[Any, dict[str, Any]]:
        temperature = tree.map(energy, self.manifold, chain.v)
        return before(self.manifold, *chain, h), {"temperature": temperature}
