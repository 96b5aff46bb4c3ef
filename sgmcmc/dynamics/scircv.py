"""The stochastic Cox-Ingersoll-Ross process with control variates (Barile and Nemeth)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from .. import checks, tree
from ..estimators import Estimate
from . import Noise
from .scir import SCIR, transition

SMALL = 1e-4  # |b̂h| below which (1 − exp(−b̂h)) / b̂ is h(1 − b̂h/2) to rounding


class Controlled(NamedTuple):
    """A chain of θ and log θ, and the share of components whose last step used control variates."""

    theta: Any
    log_theta: Any
    share: Any


@dataclass(frozen=True)
class SCIRCV(SCIR):
    """Stochastic Cox-Ingersoll-Ross process with control variates, for probabilities.

    This is `scir` with another transition, in the same notation. Let a be the parameter of the
    posterior, computed once from all data. If a minibatch's estimate â is larger than a, θ is
    pulled back more strongly, by the factor b̂ = (â − 1)/(a − 1), so that the mode
    (â − 1)/b̂ = a − 1 does not move. The alternative form is, with c = (1 − exp(−b̂h))/b̂,

        K ~ Poisson(θ exp(−b̂h)/c)
        θ ← c Gamma(â + K, 1)

    for any b̂, also a negative one. The main form is, for b̂ > 0,

        K ~ Poisson(θ b̂ e⁻ʰ / (1 − e⁻ʰ))
        θ ← (1 − e⁻ʰ)/b̂ Gamma(â + K, 1)

    where the paper's (7) prints θ̂ for b̂. If b̂ ≤ 0, it takes the step of the alternative form.
    `moments.scircv_moments` has the exact moments of both.

    If counts depend on ω, as in mixtures, a and the â of b̂ are those of an earlier point of the
    chain, on the same rows, and should be renewed now and then (`refresh_every`). A function
    `counts` must then draw each latent variable, once. With draws, b̂ is computed where the chain
    is, at no further cost, and the chain stays about a until a is renewed. This is Gibbs sampling:
    once in `refresh_every` iterations, the latent variables of all rows are drawn given the
    parameters, and then the parameters given these. It is right if a is from all rows. With
    expectations in place of draws, or averages of several, variances would be too small by 1 + γ,
    where γ is the share of the information that is missing, 20 to 35 % in mixtures. Counts that do
    not depend on the key are refused: write `log_lik` instead. `fit_lda`, whose counts are
    averages, evaluates them a second time, at the earlier point.

    Control variates are used for the components that they help: those with a > 1 and
    Var[â]/(a − 1)² ≤ 1, both estimated from groups of rows. This holds if a minibatch has at least
    about one row of the category on average. The others make steps of `scir`. So do those that are
    more than ten standard deviations above a, as happens if a is out of date: negative b̂ would
    drive them away. If a is from only m of the N rows (`refresh_size`), its error adds to the
    variance of the draws. Then all make steps of `scir`, unless this error is smaller than that of
    minibatches: (n/m)(N − m)/(N − n) < tanh(h/2). The share of the components that use control
    variates is in `stats["control_variates"]`, by parameter.

    Barile and Nemeth, Control variate-based stochastic sampling from the probability simplex.
    """

    form: str = checks.tunable(
        "alternative",
        checks.one_of("alternative", "main"),
        'The form of the transition, "alternative" or "main".',
    )

    def init(self, x: Any, noise: Noise, h: Any) -> Controlled:
        zeros = tree.map(lambda x: tf.zeros(x.shape[0], x.dtype), x)
        return Controlled(*super().init(x, noise, h), zeros)

    def update(self, chain: Controlled, estimate: Estimate, noise: Noise, h: Any) -> Controlled:
        b, limit, error = estimate.extra

        def helps(theta: tf.Tensor, limit: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
            return (theta < limit) & (error < tf.tanh(h / 2))

        near = tree.map(helps, chain.theta, limit, h)
        b = tree.map(lambda near, b: tf.where(near, b, tf.ones_like(b)), near, b)

        stay, scale = tree.map(lambda b, h: -b * h, b, h), tree.map(alternative, b, h)
        if self.form == "main":
            stay = tree.map(lambda b, h, x: tf.where(b > 0, -h, x), b, h, stay)
            scale = tree.map(lambda b, h, x: tf.where(b > 0, main(b, h), x), b, h, scale)

        def share(near: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
            return tf.reduce_mean(tf.cast(near, x.dtype), axis=list(range(1, x.shape.rank)))

        moved = transition(chain, estimate.gradient, stay, scale, noise.key)
        return Controlled(*moved, tree.map(share, near, chain.theta))

    def draw(self, chain: Controlled, h: Any) -> tuple[Any, dict[str, Any]]:
        x, stats = super().draw(chain, h)  # type: ignore[arg-type]  # it has log_theta, too
        return x, {**stats, "control_variates": chain.share}


def alternative(b: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
    """Return the scale c = (1 − exp(−b̂h))/b̂ of the alternative form."""
    near = tf.abs(b * h) < SMALL
    away = tf.where(near, tf.ones_like(b), b)
    return tf.where(near, h * (1 - b * h / 2), -tf.math.expm1(-away * h) / away)


def main(b: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
    """Return the scale (1 − e⁻ʰ)/b̂ of the main form."""
    return -tf.math.expm1(-h) / b
