"""The stochastic Cox-Ingersoll-Ross process with control variates (Barile and Nemeth)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from .. import checks, tree
from .scir import SCIR, transition

SMALL = 1e-4  # |b̂h| below which (1 − exp(−b̂h)) / b̂ is h(1 − b̂h/2) to rounding


class Controlled(NamedTuple):
    """A chain of log θ, and the share of its components whose last step used control variates."""

    log_theta: Any
    share: Any


@dataclass(frozen=True)
class SCIRCV(SCIR):
    """Stochastic Cox-Ingersoll-Ross process with control variates, for probabilities.

    As `scir`, whose notation it has, but where the parameter a of the posterior is known from all
    data, noise in its estimate â is met by b̂ = (â − 1)/(a − 1), which pulls θ back as much harder:
    the mode (â − 1)/b̂ stays in its place. Where counts depend on ω, as in mixtures, a and the â of
    b̂ are those of a former point of the chain, on the same rows; with a function `counts` they are
    too dear for that, and between two estimates of a the draws vary less than the posterior. The
    alternative form is, with c = (1 − exp(−b̂h))/b̂,

        K ~ Poisson(θ exp(−b̂h)/c)
        θ ← c Gamma(â + K, 1)

    for any b̂, negative ones among them, and the main form, for b̂ > 0,

        K ~ Poisson(θ b̂ e⁻ʰ / (1 − e⁻ʰ))
        θ ← (1 − e⁻ʰ)/b̂ Gamma(â + K, 1)

    where the paper's (7) prints θ̂ for b̂; with b̂ ≤ 0 it takes the alternative form's step. Exact
    moments of both are `scircv_moments`.

    Control variates are used for the components where they help: where a > 1 and
    Var[â]/(a − 1)² ≤ 1, both estimated from groups of rows. The others make steps of `scir`, and so
    do those that are more than ten standard deviations above a, as happens where a is out of date:
    negative b̂ would drive them away. The share of the components that use them is in
    `stats["control_variates"]`.

    Barile and Nemeth, Control variate-based stochastic sampling from the probability simplex.
    """

    form: str = checks.tunable(
        "alternative",
        checks.one_of("alternative", "main"),
        'The form of the transition, "alternative" or "main".',
    )

    def start(self, theta: Any, noise: tf.Tensor, h: Any) -> Controlled:
        zeros = tree.map(lambda x: tf.zeros(x.shape[0], x.dtype), theta)
        return Controlled(super().start(theta, noise, h).log_theta, zeros)

    def update(self, chain: Controlled, relative: Any, key: tf.Tensor, h: Any) -> Controlled:
        a, b, limit = relative
        near = tree.map(lambda x, most: x < tf.math.log(most), chain.log_theta, limit)
        b = tree.map(lambda near, b: tf.where(near, b, tf.ones_like(b)), near, b)

        stay, scale = tree.map(lambda b, h: -b * h, b, h), tree.map(alternative, b, h)
        if self.form == "main":
            stay = tree.map(lambda b, h, x: tf.where(b > 0, -h, x), b, h, stay)
            scale = tree.map(lambda b, h, x: tf.where(b > 0, main(b, h), x), b, h, scale)

        def share(near: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
            return tf.reduce_mean(tf.cast(near, x.dtype), axis=list(range(1, x.shape.rank)))

        log_theta = transition(chain.log_theta, a, stay, scale, key)
        return Controlled(log_theta, tree.map(share, near, log_theta))

    def report(self, chain: Controlled, h: Any) -> dict[str, Any]:
        return {**super().report(chain, h), "control_variates": chain.share}


def alternative(b: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
    """The logarithm of the scale c = (1 − exp(−b̂h))/b̂."""
    near = tf.abs(b * h) < SMALL
    away = tf.where(near, tf.ones_like(b), b)
    c = tf.where(near, h * (1 - b * h / 2), -tf.math.expm1(-away * h) / away)
    return tf.math.log(c)


def main(b: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
    """The logarithm of the scale (1 − e⁻ʰ)/b̂."""
    return tf.math.log(-tf.math.expm1(-h)) - tf.math.log(b)
