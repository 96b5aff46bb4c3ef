"""Stochastic gradient Riemannian Langevin dynamics (Patterson and Teh, 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from .. import tree
from ..random import normals
from . import Chain
from .simplex import Simplex


@dataclass(frozen=True)
class SGRLD(Simplex):
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

    example = "stepsize=1e-4, alpha=0.1"

    def placed(self, starts: Any, statistic: Any) -> Any:
        """θ whose shares are ω; the sum is Gamma(Σα, 1), whatever the data."""
        return super().placed(starts, tree.map(lambda x, a: a + 0 * x, starts, self.alpha))

    def update(self, chain: Chain, shape: Any, key: tf.Tensor, h: Any) -> Chain:
        def move(
            theta: tf.Tensor, a: tf.Tensor, h: tf.Tensor, alpha: Any, space: str, use: int
        ) -> tf.Tensor:
            drift = a - theta
            if space == "simplex":
                drift -= shares(theta) * tf.reduce_sum(a - alpha, axis=-1, keepdims=True)
            z = normals(key, theta.shape, use, theta.dtype)
            return tf.abs(theta + h / 2 * drift + tf.sqrt(h * theta) * z)

        space, use = self.space(chain.theta), range(len(tree.leaves(shape)))
        return Chain(
            tree.map(move, chain.theta, shape, h, self.alpha, space, tree.pack(shape, list(use)))
        )

    def position(self, chain: Chain) -> Any:
        def show(theta: tf.Tensor, space: str) -> tf.Tensor:
            return theta if space == "positive" else shares(theta)

        return tree.map(show, chain.theta, self.space(chain.theta))

    def report(self, chain: Chain, h: Any) -> dict[str, Any]:
        if not self.keep_log:
            return {}
        tiny = np.finfo(tree.leaves(chain.theta)[0].dtype.as_numpy_dtype).tiny
        return {"log": tree.map(lambda x: tf.math.log(x + tiny), self.position(chain))}


def shares(theta: tf.Tensor) -> tf.Tensor:
    """θ / Σθ along the last axis."""
    return theta / tf.reduce_sum(theta, axis=-1, keepdims=True)
