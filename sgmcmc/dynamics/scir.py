"""The stochastic Cox-Ingersoll-Ross process (Baker et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from .. import tree
from ..cir import gamma_poisson
from ..estimators import Estimate
from . import Noise
from .probabilities import Probabilities


class LogChain(NamedTuple):
    """A chain of θ, and of log θ, which is right even if θ underflows."""

    theta: Any
    log_theta: Any


def transition(chain: Any, a: Any, stay: Any, scale: Any, key: tf.Tensor) -> LogChain:
    """Draw K ~ Poisson(θe^stay / scale) and θ ← scale · Gamma(a + K).

    The change made by a small step is computed first, and then added to θ: rounding errors in
    proportion to θ itself would add up over the steps. All parameters are drawn in one call, as
    that takes long to compile.
    """
    rate = tree.map(lambda x, stay, scale: x * tf.exp(stay) / scale, chain.theta, stay, scale)
    drawn, is_excess = (
        tree.split(x, chain.theta) for x in gamma_poisson(tree.flat(rate), tree.flat(a), key)
    )
    log_few = tree.map(lambda log_g, scale: log_g + tf.math.log(scale), drawn, scale)
    moved = tree.map(
        lambda x, excess, stay, scale: x + (x * tf.math.expm1(stay) + scale * excess),
        *(chain.theta, drawn, stay, scale),
    )
    return LogChain(
        tree.map(tf.where, is_excess, moved, tree.map(tf.exp, log_few)),
        tree.map(tf.where, is_excess, tree.map(tf.math.log, moved), log_few),
    )


@dataclass(frozen=True)
class SCIR(Probabilities):
    """Stochastic Cox-Ingersoll-Ross process, for probabilities.

    With step size h and an unbiased estimate â of the parameters of a Dirichlet posterior (for
    observed categories z, the counts â = α + (N/n) Σ zᵢ), independently for each component,

        K ~ Poisson(θ e⁻ʰ / (1 − e⁻ʰ))
        θ ← (1 − e⁻ʰ) Gamma(â + K, 1)

    and ω = θ / Σθ along the last axis; other axes are independent vectors of probabilities. This is
    the exact transition of a process with stationary law Gamma(â, 1): for observed categories there
    is no discretisation error, however close to zero probabilities are. Noise in â adds
    (1 − e⁻ʰ)/(1 + e⁻ʰ) Var â to the variance of θ: see `moments.scir_moments`. This is for
    independent minibatches. If they are taken in turn from shuffled rows, as by default, it adds
    less, most of all for small steps: of 1,000 rows in four categories, with minibatches of 20 and
    h = .05, the variance of ω is 1.6 times the posterior's, instead of 2.2.

    The counts are ω ∂log_lik/∂ω (Fisher's identity), for any likelihood that is written in ω as
    unconstrained positive numbers: Σ log ω_z for observed categories, Σ log Σ ω_k p_k(x) for a
    mixture, whose counts are the responsibilities. A likelihood that normalises ω itself, such as
    one of ω/Σω, has negative counts, and is refused. As responsibilities are fixed during a step,
    large steps make the variance too small: by (1 + e⁻ʰ)/(1 + e⁻ʰ + (1 − e⁻ʰ)γ), where γ is the
    share of the information that is missing. If a function `counts` draws the categories, there is
    no such error.

    Baker, Fearnhead, Fox and Nemeth (2018), Large-scale stochastic sampling from the probability
    simplex, NeurIPS, (2.3); Baker (2018), thesis, chapter 5.

    Examples
    --------
    >>> import sgmcmc, tensorflow as tf
    >>> block = sgmcmc.SCIR(alpha=0.1)  # of a sampler that `mixed` makes
    >>> def counts(params, data, key):  # of a mixture, its components drawn
    ...     log_p = tf.math.log(params["omega"]) + data["log_density"]  # (rows, components)
    ...     u, _ = sgmcmc.random.uniforms(key, log_p.shape)
    ...     component = tf.argmax(log_p - tf.math.log(-tf.math.log(u)), axis=1)
    ...     return {"omega": tf.reduce_sum(tf.one_hot(component, log_p.shape[1]), axis=0)}
    >>> block = sgmcmc.SCIR(alpha=0.1, counts=counts)
    """

    def init(self, x: Any, noise: Noise, h: Any) -> LogChain:
        return LogChain(tree.map(tf.exp, x), x)

    def update(self, chain: LogChain, estimate: Estimate, noise: Noise, h: Any) -> LogChain:
        stay = tree.map(tf.negative, h)
        scale = tree.map(lambda stay: -tf.math.expm1(stay), stay)
        return transition(chain, estimate.gradient, stay, scale, noise.key)

    def position(self, chain: LogChain) -> Any:
        return chain.log_theta

    def draw(self, chain: LogChain, h: Any) -> tuple[Any, dict[str, Any]]:
        return chain.log_theta, self.logarithms(chain.log_theta)
