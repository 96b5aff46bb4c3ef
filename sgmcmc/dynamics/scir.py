"""The stochastic Cox-Ingersoll-Ross process (Baker et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from .. import tree
from ..cir import USES, log_gamma_poisson
from .simplex import Simplex


class Logs(NamedTuple):
    """A chain of log θ: θ itself would underflow."""

    log_theta: Any


def uses(nest: Any) -> Any:
    """Where the random numbers of each parameter begin."""
    return tree.pack(nest, [i * USES for i in range(len(tree.leaves(nest)))])


@dataclass(frozen=True)
class SCIR(Simplex):
    """Stochastic Cox-Ingersoll-Ross process, for probabilities.

    With step size h and an unbiased estimate â of the parameters of a Dirichlet posterior, for
    observed categories z the counts â = α + (N/n) Σ zᵢ, and independently for each component,

        K ~ Poisson(θ e⁻ʰ / (1 − e⁻ʰ))
        θ ← (1 − e⁻ʰ) Gamma(â + K, 1)

    and ω = θ / Σθ along the last axis; other axes are independent vectors of probabilities. This is
    the exact transition of a process with stationary law Gamma(â, 1): the step size makes no error
    of its own, and probabilities may be as close to zero as they like. What noise in â adds to the
    variance of θ is (1 − e⁻ʰ)/(1 + e⁻ʰ) Var â: `scir_moments`.

    The counts are ω ∂log_lik/∂ω (Fisher's identity), for any likelihood that is written in ω as
    free positive numbers: for observed categories Σ log ω_z, for a mixture Σ log Σ ω_k p_k(x),
    where they are the responsibilities. A likelihood that is normalised inside, such as one of
    ω/Σω, has negative counts, and is refused.

    Baker, Fearnhead, Fox and Nemeth (2018), Large-scale stochastic sampling from the probability
    simplex, NeurIPS, (2.3); Baker (2018), thesis, chapter 5.
    """

    def start(self, theta: Any, noise: tf.Tensor, h: Any) -> Logs:
        return Logs(tree.map(tf.math.log, theta))

    def update(self, chain: Logs, shape: Any, key: tf.Tensor, h: Any) -> Logs:
        def move(log_theta: tf.Tensor, a: tf.Tensor, h: tf.Tensor, use: int) -> tf.Tensor:
            log_scale = tf.math.log(-tf.math.expm1(-h))
            return log_scale + log_gamma_poisson(log_theta - h - log_scale, a, key, use)

        return Logs(tree.map(move, chain.log_theta, shape, h, uses(shape)))

    def logs(self, chain: Logs) -> Any:
        """Logarithms of ω, and log θ of what is only positive."""

        def log(x: tf.Tensor, space: str) -> tf.Tensor:
            return x if space == "positive" else tf.nn.log_softmax(x)

        return tree.map(log, chain.log_theta, self.space(chain.log_theta))

    def position(self, chain: Logs) -> Any:
        def shares(x: tf.Tensor, space: str) -> tf.Tensor:
            return tf.exp(x) if space == "positive" else tf.nn.softmax(x)

        return tree.map(shares, chain.log_theta, self.space(chain.log_theta))

    def report(self, chain: Logs, h: Any) -> dict[str, Any]:
        return {"log": self.logs(chain)} if self.keep_log else {}
