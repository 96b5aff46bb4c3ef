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

    Like `scir`, and in its notation. Let a be the parameter of the posterior, computed once from
    all data. Where a minibatch's estimate â is larger than a, θ is pulled back more strongly, by
    the factor b̂ = (â − 1)/(a − 1), so that the mode (â − 1)/b̂ = a − 1 does not move. The
    alternative form is, with c = (1 − exp(−b̂h))/b̂,

        K ~ Poisson(θ exp(−b̂h)/c)
        θ ← c Gamma(â + K, 1)

    for any b̂, negative ones among them, and the main form, for b̂ > 0,

        K ~ Poisson(θ b̂ e⁻ʰ / (1 − e⁻ʰ))
        θ ← (1 − e⁻ʰ)/b̂ Gamma(â + K, 1)

    where the paper's (7) prints θ̂ for b̂; with b̂ ≤ 0 it takes the alternative form's step. Exact
    moments of both are `scircv_moments`.

    Where counts depend on ω, as in mixtures, a and the â of b̂ are those of a former point of the
    chain, on the same rows, and should be renewed now and then (`refresh_every`). A function
    `counts` must then draw each latent variable, once. With draws b̂ is computed where the chain is,
    at no further cost, and the chain stays about a until that is renewed: parameters are drawn
    given latent variables of all rows, and these given the parameters, as in Gibbs sampling, once
    in `refresh_every` iterations. That is right if a is from all rows. With expectations in place
    of draws, or averages of several, variances would be too small, by 1 + γ where the share γ of
    the information is missing, 20 to 35 % in mixtures; those that do not depend on the key are
    refused. For these write `log_lik` instead. `fit_lda`, whose counts are averages, evaluates them
    a second time, at the former point.

    Control variates are used for the components where they help: where a > 1 and
    Var[â]/(a − 1)² ≤ 1, both estimated from groups of rows, which holds where a minibatch has at
    least about one row of the category on average. The others make steps of `scir`, and so do those
    that are more than ten standard deviations above a, as happens where a is out of date: negative
    b̂ would drive them away. With a from only m of the N rows (`refresh_size`), the draws vary with
    its error, too, and all make steps of `scir` unless that is the smaller of the two errors,
    (n/m)(N − m)/(N − n) < tanh(h/2). The share of the components that use control variates is in
    `stats["control_variates"]`, by parameter.

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
    """The scale c = (1 − exp(−b̂h))/b̂."""
    near = tf.abs(b * h) < SMALL
    away = tf.where(near, tf.ones_like(b), b)
    return tf.where(near, h * (1 - b * h / 2), -tf.math.expm1(-away * h) / away)


def main(b: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
    """The scale (1 − e⁻ʰ)/b̂."""
    return -tf.math.expm1(-h) / b
