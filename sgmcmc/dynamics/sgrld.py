"""Stochastic gradient Riemannian Langevin dynamics (Patterson and Teh, 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import tree
from ..estimators import Estimate
from ..random import normals
from . import Noise
from .probabilities import Probabilities


class Moving(NamedTuple):
    """A chain of θ."""

    theta: Any


@dataclass(frozen=True)
class SGRLD(Probabilities):
    """Stochastic gradient Riemannian Langevin dynamics, for probabilities.

    With step size h, and an unbiased estimate ẑ = (N/n) Σ zᵢ of the counts of the categories,

        θ ← |θ + (h/2)(α + ẑ − θ − ω Σẑ) + N(0, hθ)|

    and ω = θ / Σθ along the last axis: Euler's approximation of a diffusion on θ > 0. Its error
    grows with the step size, and is large where probabilities are near zero; `scir` makes none
    there. As Σθ is about Σα, a step makes up the part hN/(2Σα) of a distance: h should be .1 Σα/N
    or less. For `positive` parameters the drift is (h/2)(α + ẑ − θ).

    Counts are those of `scir`: from the likelihood by differentiation, or by a function `counts`.

    Patterson and Teh (2013), Stochastic gradient Riemannian Langevin dynamics on the probability
    simplex, NIPS; Baker et al. (2018), section 1.3, of which this is the expanded-mean version.

    Examples
    --------
    >>> import sgmcmc
    >>> block = sgmcmc.SGRLD(alpha=0.1)  # of a sampler that `mixed` makes
    """

    def init(self, x: Any, noise: Noise, h: Any) -> Moving:
        """θ whose shares are ω; the sum of all is Gamma(Σα, 1), whatever the data."""

        def place(x: tf.Tensor, alpha: Any, is_shared: bool) -> tf.Tensor:
            if not is_shared:
                return tf.exp(x)
            return tf.nn.softmax(x) * tf.reduce_sum(alpha, axis=-1, keepdims=True)

        return Moving(tree.map(place, x, self.alpha, self.are_shares(x)))

    def are_shares(self, params: Any) -> Any:
        """Which of the parameters are probabilities."""
        return {k: tree.map(lambda _, k=k: k not in self.positive, params[k]) for k in params}

    def update(self, chain: Moving, estimate: Estimate, noise: Noise, h: Any) -> Moving:
        def move(
            theta: tf.Tensor, a: tf.Tensor, h: tf.Tensor, alpha: Any, is_shared: bool, use: int
        ) -> tf.Tensor:
            drift = a - theta
            if is_shared:
                drift -= shares(theta) * tf.reduce_sum(a - alpha, axis=-1, keepdims=True)
            z = normals(noise.key, theta.shape, use, theta.dtype)
            return tf.abs(theta + h / 2 * drift + tf.sqrt(h * theta) * z)

        theta = chain.theta
        uses = tree.pack(theta, list(range(len(tree.leaves(theta)))))
        are_shares = self.are_shares(theta)
        return Moving(tree.map(move, theta, estimate.gradient, h, self.alpha, are_shares, uses))

    def position(self, chain: Moving) -> Any:
        tiny = np.finfo(tree.leaves(chain.theta)[0].dtype.as_numpy_dtype).tiny
        return tree.map(lambda theta: tf.math.log(theta + tiny), chain.theta)

    def draw(self, chain: Moving, h: Any) -> tuple[Any, dict[str, Any]]:
        x = self.position(chain)
        return x, self.logarithms(x)


def shares(theta: tf.Tensor) -> tf.Tensor:
    """θ / Σθ along the last axis."""
    return theta / tf.reduce_sum(theta, axis=-1, keepdims=True)
