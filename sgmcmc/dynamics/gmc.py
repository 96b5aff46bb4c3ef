"""Geodesic Monte Carlo (Byrne and Girolami, 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from .. import checks, tree
from ..estimators import Estimate
from . import Noise
from .geodesic import OnManifold, moved, tangent
from .thermostats import along


class Trajectory(NamedTuple):
    """A chain on its way: where it is, where it came from, and the gradient and energy there.

    `energy` is log posterior − ½ vᵀv at the beginning of the trajectory. `moving` is 0 until the
    gradient at the start is known, and then 1.
    """

    x: Any
    v: Any
    start: Any
    gradient: Any
    value: Any
    energy: Any
    accepted: Any
    step: Any
    moving: Any


@dataclass(frozen=True)
class GMC(OnManifold):
    """Geodesic Monte Carlo: Hamiltonian Monte Carlo on a manifold, with all data.

    An iteration draws a velocity v ~ N(0, I), tangent, and makes `L` steps

        v ← v + (ε/2) Λ(x)∇log p(x);  move along the shortest path for the time ε;
        v ← v + (ε/2) Λ(x)∇log p(x)

    The point where they end is accepted with probability min(1, exp(−ΔH)), where
    H = ½ vᵀv − log p(x). At a temperature T, v ~ N(0, T I), and ΔH/T takes the place of ΔH. So the
    law of the draws is exact, up to rounding: in single precision the log posterior of large data
    is rounded so coarsely that `dtype="float64"` is needed. It takes all rows, and so it is for
    small data, and to compare with. `stats["accepted"]` is 1 where a point was accepted. The first
    iteration stays where the chain starts.

    Byrne and Girolami (2013), Geodesic Monte Carlo on embedded manifolds, Scandinavian Journal of
    Statistics, algorithm 1.

    Examples
    --------
    >>> import sgmcmc
    >>> sgmcmc.GMC(manifold=sgmcmc.Sphere(), L=20)
    GMC(manifold=Sphere(), L=20)
    """

    L: int = checks.tunable(10, checks.whole, "Steps of a trajectory.")

    @property
    def inner_steps(self) -> int:
        return self.L + 1  # the last evaluates the log posterior where the iteration ends

    def noise(self, x: Any) -> Noise:
        return Noise(normals=x, uniforms={"accept": of_chains(x)}, refresh=True)

    def init(self, x: Any, noise: Noise, h: Any) -> Trajectory:
        zeros, none = tree.map(tf.zeros_like, x), tf.zeros_like(of_chains(x))
        return Trajectory(x, zeros, x, zeros, none, none, none, tf.constant(0), none)

    def begin(self, chain: Trajectory, noise: Noise, h: Any) -> Trajectory:
        v = tangent(self.manifold, chain.x, noise.normals)
        energy = chain.value - kinetic(v)
        h = tree.map(lambda h, x: h * along(chain.moving, x), h, chain.x)
        v = self.pushed(chain.x, v, chain.gradient, h, 0.5)
        x, v = moved(self.manifold, chain.x, v, h)
        return chain._replace(x=x, v=v, start=chain.x, energy=energy, step=tf.constant(0))

    def pushed(self, x: Any, v: Any, gradient: Any, h: Any, part: float) -> Any:
        """The velocity after a part of a step's kick."""
        return tree.map(
            lambda m, x, v, g, h: v + m.tangent(x, part * h * g), self.manifold, x, v, gradient, h
        )

    def update(self, chain: Trajectory, estimate: Estimate, noise: Noise, h: Any) -> Trajectory:
        h = tree.map(lambda h, x: h * along(chain.moving, x), h, chain.x)
        x, v, g = chain.x, chain.v, estimate.gradient
        onwards = moved(self.manifold, x, self.pushed(x, v, g, h, 1.0), h)
        energy = estimate.value - kinetic(self.pushed(x, v, g, h, 0.5))
        is_last, is_over = chain.step == self.L - 1, chain.step == self.L
        chance = noise.temperature * tf.math.log(noise.uniforms["accept"])
        accept = chance < energy - chain.energy
        accept |= chain.moving == 0
        ended = tree.map(lambda x, start: tf.where(along(accept, x), x, start), x, chain.start)

        def then(old: Any, on: Any, last: Any) -> Any:
            return tf.where(is_over, old, tf.where(is_last, last, on))

        one = tf.ones_like(chain.moving)
        return chain._replace(
            x=tree.map(then, x, onwards[0], ended),
            v=tree.map(lambda v, on: tf.where(is_over, v, on), v, onwards[1]),
            gradient=tree.map(lambda old, g: tf.where(is_over, g, old), chain.gradient, g),
            value=tf.where(is_over, estimate.value, chain.value),
            accepted=tf.where(is_last, tf.cast(accept, one.dtype), chain.accepted),
            moving=tf.where(is_over, one, chain.moving),
            step=chain.step + 1,
        )

    def draw(self, chain: Trajectory, h: Any) -> tuple[Any, dict[str, Any]]:
        return chain.x, {"accepted": chain.accepted}


def of_chains(x: Any) -> tf.Tensor:
    """One number for each chain."""
    first = tree.leaves(x)[0]
    return tf.zeros(first.shape[:1], first.dtype)


def kinetic(v: Any) -> tf.Tensor:
    """½ vᵀv of each chain."""
    each = [tf.reduce_sum(a**2, axis=list(range(1, a.shape.rank))) for a in tree.leaves(v)]
    return tf.add_n(each) / 2
