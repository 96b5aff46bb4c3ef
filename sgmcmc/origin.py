"""What draws remember of the sampler that made them, without its threads and buffers."""

from __future__ import annotations

from typing import Any, NamedTuple

from .engine import Chains, Engine
from .minibatches import Strata, Stratified
from .sampler import Sampler
from .source import Source


class Origin(NamedTuple):
    """The model and the state of a sampler at the end of a run."""

    engine: Engine
    source: Source
    schedule: list[Any]
    seed: int
    chains: Chains
    estimator: Any  # the state of the estimator
    mode: Any  # the centre of control variates, in the user's values, or None
    jit: bool
    strata: Strata | None  # of minibatches, if they are stratified

    @classmethod
    def of(cls, sampler: Sampler) -> Origin:
        """Return that of a sampler in its present state."""
        feeder, (chains, estimator, _) = sampler.feeder, sampler.state
        rows = feeder.minibatches
        return cls(
            *(sampler.engine, feeder.source, feeder.schedule, feeder.seed),
            *(chains, estimator, sampler.mode, sampler.jit),
            Strata(rows.order) if isinstance(rows, Stratified) else None,
        )
