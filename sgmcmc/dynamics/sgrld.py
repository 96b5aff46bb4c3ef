"""Stochastic gradient Riemannian Langevin dynamics (Patterson and Teh, 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from .. import tree
from ..estimators import Estimate
from ..random import normals
from ..spaces.counts import Masses, SharesOfMasses
from . import Chain, Noise
from .probabilities import Probabilities


@dataclass(frozen=True)
class SGRLD(Probabilities):
    """Stochastic gradient Riemannian Langevin dynamics, for probabilities.

    With step size h, and an unbiased estimate ẑ = (N/n) Σ zᵢ of the counts of the categories,

        θ ← |θ + (h/2)(α + ẑ − θ − ω Σẑ) + N(0, hθ)|

    and ω = θ / Σθ along the last axis. This is Euler's approximation of a diffusion on θ > 0. Its
    error grows with the step size, and is large for probabilities near zero, where `scir` has none.
    As Σθ is about Σα, a step closes the share hN/(2Σα) of a distance: h should be .1 Σα/N or less.
    For `positive` parameters the drift is (h/2)(α + ẑ − θ).

    Counts are those of `scir`: from the likelihood by differentiation, or by a function `counts`.

    Patterson and Teh (2013), Stochastic gradient Riemannian Langevin dynamics on the probability
    simplex, NIPS; Baker et al. (2018), section 1.3, of which this is the expanded-mean version.

    Examples
    --------
    >>> import sgmcmc
    >>> block = sgmcmc.SGRLD(alpha=0.1)  # of a sampler that `mixed` makes
    """

    def spaces(self, params: Any) -> Any:
        return {
            k: tree.map(Masses if k in self.positive else SharesOfMasses, self.alpha[k])  # type: ignore[index]  # by parameter, once checked
            for k in params
        }

    def update(self, chain: Chain, estimate: Estimate, noise: Noise, h: Any) -> Chain:
        def move(
            theta: tf.Tensor, a: tf.Tensor, h: tf.Tensor, alpha: Any, is_positive: bool, use: int
        ) -> tf.Tensor:
            drift = a - theta
            if not is_positive:
                drift -= shares(theta) * tf.reduce_sum(a - alpha, axis=-1, keepdims=True)
            z = normals(noise.key, theta.shape, use, theta.dtype)
            return tf.abs(theta + h / 2 * drift + tf.sqrt(h * theta) * z)

        theta = chain.x
        uses = tree.pack(theta, list(range(len(tree.leaves(theta)))))
        positive = {k: tree.map(lambda _, k=k: k in self.positive, theta[k]) for k in theta}
        return Chain(tree.map(move, theta, estimate.gradient, h, self.alpha, positive, uses))

    def draw(self, chain: Chain, h: Any) -> tuple[Any, dict[str, Any]]:
        return chain.x, self.logarithms(chain.x)


def shares(theta: tf.Tensor) -> tf.Tensor:
    """Return θ / Σθ along the last axis."""
    return theta / tf.reduce_sum(theta, axis=-1, keepdims=True)
