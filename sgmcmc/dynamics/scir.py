"""The stochastic Cox-Ingersoll-Ross process (Baker et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from .. import tree
from ..cir import log_gamma_poisson
from .simplex import Simplex


class Logs(NamedTuple):
    """A chain of log θ: θ itself would underflow."""

    log_theta: Any


def transition(log_theta: Any, shape: Any, stay: Any, scale: Any, key: tf.Tensor) -> Any:
    """K ~ Poisson(θ · stay / scale), θ ← scale · Gamma(shape + K); all but shape by logarithms.

    All parameters at once, as this is much to compile.
    """
    log_rate = tree.map(lambda x, stay, scale: x + stay - scale, log_theta, stay, scale)
    drawn = log_gamma_poisson(tree.flat(log_rate), tree.flat(shape), key)
    return tree.map(tf.add, tree.split(drawn, log_theta), scale)


@dataclass(frozen=True)
class SCIR(Simplex):
    """Stochastic Cox-Ingersoll-Ross process, for probabilities.

    With step size h and an unbiased estimate â of the parameters of a Dirichlet posterior, for
    observed categories z the counts â = α + (N/n) Σ zᵢ, and independently for each component,

        K ~ Poisson(θ e⁻ʰ / (1 − e⁻ʰ))
        θ ← (1 − e⁻ʰ) Gamma(â + K, 1)

    and ω = θ / Σθ along the last axis; other axes are independent vectors of probabilities. This is
    the exact transition of a process with stationary law Gamma(â, 1): for observed categories the
    step size makes no error of its own, and probabilities may be as close to zero as they like.
    Noise in â adds (1 − e⁻ʰ)/(1 + e⁻ʰ) Var â to the variance of θ: `moments.scir_moments`.

    The counts are ω ∂log_lik/∂ω (Fisher's identity), for any likelihood that is written in ω as
    free positive numbers: for observed categories Σ log ω_z, for a mixture Σ log Σ ω_k p_k(x),
    where they are the responsibilities. A likelihood that is normalised inside, such as one of
    ω/Σω, has negative counts, and is refused. As responsibilities stand still during a step, large
    steps make the variance too small: where the share γ of the information is missing by
    (1 + e⁻ʰ)/(1 + e⁻ʰ + (1 − e⁻ʰ)γ). Categories that a function `counts` draws make no such error.

    Baker, Fearnhead, Fox and Nemeth (2018), Large-scale stochastic sampling from the probability
    simplex, NeurIPS, (2.3); Baker (2018), thesis, chapter 5.

    Examples
    --------
    >>> import sgmcmc
    >>> block = sgmcmc.SCIR(alpha=0.1)  # of a sampler that `mixed` makes
    """

    def start(self, theta: Any, noise: tf.Tensor, h: Any) -> Logs:
        return Logs(tree.map(tf.math.log, theta))

    def update(self, chain: Logs, shape: Any, key: tf.Tensor, h: Any) -> Logs:
        stay = tree.map(tf.negative, h)
        scale = tree.map(lambda h: tf.math.log(-tf.math.expm1(-h)), h)
        return Logs(transition(chain.log_theta, shape, stay, scale, key))

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
