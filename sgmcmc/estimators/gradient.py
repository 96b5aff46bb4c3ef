"""The plain gradient estimate from a minibatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import tree
from ..model import Batch, Model
from . import Estimate, Estimator, posterior


@dataclass(frozen=True)
class Gradient(Estimator):
    """The gradient on the minibatch: ĝ(θ) = ∇log p(θ) + (N/n) Σ ∇log p(xᵢ|θ)."""

    def estimate(self, model: Model, x: Any, state: Any, batch: Batch) -> tuple[Estimate, Any]:
        data = tree.map(lambda a: batch.scale * a, model.on_rows(x, batch))
        return posterior(model, x, data, batch), state
