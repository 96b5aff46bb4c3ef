"""A second chain with half the step size, in the same coordinates: the test that sees bias."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from .. import tree
from ..running import collect, wish
from ..sampler import assemble
from .evidence import Evidence, evidence_of
from .scores import why_no_data
from .width import estimated


class Halved(NamedTuple):
    """By coordinate, the log of the variance over that at half the step, and the shift of the mean.

    Each has its Monte Carlo error. The shift is in standard deviations.
    """

    log_ratio: np.ndarray
    error: np.ndarray
    ess: np.ndarray
    shift: np.ndarray
    shift_error: np.ndarray


def why_not_halved(evidence: Evidence) -> str | None:
    """Return why there can be no chain with half the step; None if there can."""
    if any(callable(h) for h in evidence.origin.schedule):
        return "the step size is a schedule"
    return why_no_data(evidence.origin)


def halved(evidence: Evidence) -> Halved:
    """Run the sampler at half its step, from where it is, and compare variances and means.

    The second chain has twice as many iterations, as it moves more slowly.
    """
    origin, draws = evidence.origin, evidence.draws
    engine, settings = origin.engine, draws.settings
    schedule, temperature = list(origin.schedule), 1.0
    if engine.tempered:
        temperature = schedule.pop()
    x = engine.position(origin.chains)
    sampler = assemble(
        *(engine.model, engine.estimator, engine.dynamics, x, origin.source, engine.n),
        *([h / 2 for h in schedule], (origin.seed + 1) % 2**64),
        estimator_state=origin.estimator,
        gibbs=engine.gibbs,
        temperature=temperature,
        n_chains=evidence.x.shape[0] if engine.many else None,
        minibatches=origin.strata or settings["minibatches"],
        shared_minibatches=settings["shared_minibatches"],
        settings=settings,
        jit=origin.jit,
        verbose=False,
    )
    n = 2 * evidence.x.shape[1]
    values = engine.traced_like(origin.chains, tf.ones(len(origin.schedule), engine.dtype))
    here = tree.map(lambda a: a[0], values["params"])
    lengths = n * evidence.thin, n * evidence.thin // 4, evidence.thin
    try:
        wished = wish(here, *lengths, None, None, False, None, False, 30.0, False)
        found = collect(sampler, wished, watched=False)
    finally:
        sampler.feeder.close()
    other = evidence_of(found).x
    squares = [estimated((x - x.mean(axis=(0, 1))) ** 2) for x in (evidence.x, other)]
    means = [estimated(x) for x in (evidence.x, other)]
    # The mean of squares around the mean of so many effective draws is too small.
    variance = [s.mean / (1 - 1 / np.maximum(m.ess, 2)) for s, m in zip(squares, means)]
    error = np.sqrt(sum((s.error / s.mean) ** 2 for s in squares))
    sd = np.sqrt(variance[1])
    return Halved(
        np.log(variance[0] / variance[1]),
        error,
        np.minimum(*(s.ess for s in squares)),
        (means[0].mean - means[1].mean) / sd,
        np.hypot(means[0].error, means[1].error) / sd,
    )
