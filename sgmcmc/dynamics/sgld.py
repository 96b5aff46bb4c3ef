"""Stochastic gradient Langevin dynamics (Welling and Teh, 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from .. import checks, tree
from ..estimators import Estimate
from . import Chain, Noise
from .corrected import NOISE_ESTIMATE, Corrected, lessened


@dataclass(frozen=True)
class SGLD(Corrected):
    """Stochastic gradient Langevin dynamics.

    With step size ε and an unbiased estimate ĝ of the gradient of the log posterior,

        θ ← θ + (ε/2) ĝ(θ) + N(0, ε).

    On a Gaussian of precision λ, with gradient noise of variance σ², the stationary variance is
    (1 + εσ²/4) / (λ(1 − ελ/4)): right for small ε, too large otherwise. That is with independent
    minibatches. By default they are taken in turn from shuffled rows, so that most of the noise is
    taken back within an epoch: for the mean of 10,000 rows with minibatches of 100 and εN = .02,
    the variance is 1.14 times the posterior's, instead of 1.50.

    With `noise_estimate`, the noise that is added is N(0, ε − (ε²/4)V̂) in place of N(0, ε), where V̂
    is the covariance of ĝ that the gradients of the minibatch's rows tell, with N rows of data and
    n in the minibatch: V̂ = N(N − n)/n · Cov ∇ log p(xᵢ | θ). Where that would be negative, none is
    added. On the Gaussian above this takes σ² out of the variance, as long as εσ² is well below 4.
    Minibatches are then drawn independently unless you ask for others. There must be a step size,
    as none is chosen.

    Welling and Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics, ICML;
    Baker (2018), thesis, section 4.3.1. `noise_estimate`: Ding et al. (2014), Bayesian sampling
    using stochastic gradient thermostats, NIPS, appendix D.1; Ahn, Korattikara and Welling (2012),
    Bayesian posterior sampling via stochastic gradient Fisher scoring, ICML.

    Examples
    --------
    >>> import sgmcmc
    >>> block = sgmcmc.SGLD()  # of a sampler that `mixed` makes
    """

    noise_estimate: str | dict | None = checks.tunable(None, checks.noise_estimate, NOISE_ESTIMATE)

    def update(self, chain: Chain, estimate: Estimate, noise: Noise, h: Any) -> Chain:
        def move(x: Any, g: Any, z: Any, h: Any, kind: Any, rows: Any) -> tf.Tensor:
            drift = h / 2 * g
            if kind is None:
                heat = tf.sqrt(h) * z
            else:
                heat = lessened(z, h / 2, h / 2, rows, estimate.N, kind)
            # The brackets matter: a small drift added to a large x alone would be rounded away.
            return x + (drift + heat)

        nests = chain.x, estimate.gradient, noise.normals, h, self.noise_estimate
        return Chain(tree.map(move, *nests, self.rows(estimate)))
