"""Gradient estimates relative to a snapshot of the chain, which is renewed now and then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from .. import checks, tree
from ..model import Batch, Evaluation, Model
from . import Data, Estimate, Estimator, Mode
from .control_variate import relative


class Snapshot(NamedTuple):
    """Where each chain was, and the log likelihood of all data there."""

    x: Any
    full: Evaluation


@dataclass(frozen=True)
class SVRG(Estimator):
    """Stochastic variance-reduced gradients: control variates with a moving centre.

    Every so many iterations the centre θ̃ is put where the chain is, and the gradient of the log
    likelihood of all rows is computed there. In between, with ĝ for the estimate from a minibatch,

        ∇log p(θ) + g(θ̃) + ĝ(θ) − ĝ(θ̃).

    It needs no mode. Where there is one, `ControlVariate` has less noise, as the chain's distance
    from the mode is on average √½ of that from an old place of its own, and no passes over the
    data. Each chain has a centre of its own.

    Dubey et al. (2016), Variance reduction in stochastic gradient Langevin dynamics, NIPS;
    Baker et al. (2019), Control variates for stochastic gradient MCMC, Statistics and Computing.

    Examples
    --------
    >>> import sgmcmc
    >>> gradient = sgmcmc.SVRG(every=1000)  # an argument of sgld and others
    """

    every: int = checks.required(
        checks.whole,
        "The number of iterations after which the centre moves. Each time costs a pass over the "
        "data: N/n iterations or more make that at most as much as the steps.",
    )

    def init(self, model: Model, x: Any, data: Data, mode: Mode) -> Snapshot:
        return self.renew(model, x, (), data)

    def renew(self, model: Model, x: Any, state: Any, data: Data) -> Snapshot:
        """Return the chains' present places, and the log likelihood of all data there."""
        full = model.on_all(x, data.source, "of_chains")
        dtype = tree.leaves(x)[0].dtype
        return Snapshot(x, tree.map(lambda a: tf.constant(a, dtype), full))

    def estimate(self, model: Model, x: Any, state: Snapshot, batch: Batch) -> tuple[Estimate, Any]:
        return relative(model, x, state, batch), state
