"""Stochastic gradient Langevin dynamics (Welling and Teh, 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from .. import tree
from ..estimators import Estimate
from . import Chain, Dynamics, Noise


@dataclass(frozen=True)
class SGLD(Dynamics):
    """Stochastic gradient Langevin dynamics.

    With step size ε and an unbiased estimate ĝ of the gradient of the log posterior,

        θ ← θ + (ε/2) ĝ(θ) + N(0, ε).

    On a Gaussian of precision λ, with gradient noise of variance σ², the stationary variance is
    (1 + εσ²/4) / (λ(1 − ελ/4)): right for small ε, too large otherwise. That is with independent
    minibatches. By default they are taken in turn from shuffled rows, so that most of the noise is
    taken back within an epoch: for the mean of 10,000 rows with minibatches of 100 and εN = .02,
    the variance is 1.14 times the posterior's, instead of 1.50.

    Welling and Teh (2011), Bayesian learning via stochastic gradient Langevin dynamics, ICML;
    Baker (2018), thesis, section 4.3.1.

    Examples
    --------
    >>> import sgmcmc
    >>> block = sgmcmc.SGLD()  # of a sampler that `mixed` makes
    """

    def update(self, chain: Chain, estimate: Estimate, noise: Noise, h: Any) -> Chain:
        # The brackets matter: a small drift added to a large x alone would be rounded away.
        return Chain(
            tree.map(
                lambda x, g, z, h: x + (h / 2 * g + tf.sqrt(h) * z),
                *(chain.x, estimate.gradient, noise.normals, h),
            )
        )
