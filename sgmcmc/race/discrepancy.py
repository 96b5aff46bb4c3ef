"""Score the draws of all arms by a kernel Stein discrepancy, coordinate by coordinate.

In more than a few dimensions, the discrepancy of all coordinates together mostly measures the size
of the scores. The root of the mean, over coordinates, of the squared discrepancies of single ones
does not lose its power. It tends to 0 for exact draws as they become more, and is 1 for a chain
that stays at the mode.

The coordinates are scaled by √(sd(x)/sd(score)). For a Gaussian with independent coordinates this
is the standard deviation, however wide the draws are; else it is between the standard deviation and
that given the other coordinates. The scale is the median over arms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from .. import tree
from ..model import Evaluation, Model
from ..plan import each_start
from ..source import Source
from ..stein import ksd
from ..streams import SUBSET, stream

ROWS = 5000  # by which scores are estimated if there are more
COORDINATES = 100  # that are looked at if there are more
BATCH_BYTES = 16 << 20  # of rows, times the draws that are looked at together


class Discrepancy:
    """Scores draws of a model by the same rows for all arms.

    With more than ROWS rows, the gradient of the log likelihood is relative to that of all rows at
    one point amid the draws, so that it has little noise near there.
    """

    def __init__(self, model: Model, source: Source, seed: int) -> None:
        self.model, self.source, self.rng = model, source, stream(seed, SUBSET, 1)
        self.is_all = source.N <= ROWS
        index = np.arange(source.N)
        if not self.is_all:
            index = np.sort(self.rng.choice(source.N, ROWS, replace=False))
        self.scale = source.N / len(index)
        rows = source.subset(index).rows(0, len(index))
        self.rows = tree.map(lambda x: x[None], rows)
        self.batch = int(np.clip(BATCH_BYTES // (len(index) * max(1, source.row_bytes)), 1, 50))
        self.columns: np.ndarray | None = None

    def scores(self, every: list[Any]) -> list[float]:
        """Return the discrepancy of each arm's draws, nests (draws, ...) of the user's values."""
        xs = [self.free(draws) for draws in every]
        offset = self.offset(xs)
        found = [(flat(x), self.gradients(x, offset)) for x in xs]
        p = found[0][0].shape[1]
        if self.columns is None:
            some = self.rng.choice(p, COORDINATES, replace=False) if p > COORDINATES else range(p)
            self.columns = np.sort(np.asarray(some))
        found = [(x[:, self.columns], s[:, self.columns]) for x, s in found]
        with np.errstate(all="ignore"):
            each = [np.sqrt(x.std(axis=0) / s.std(axis=0)) for x, s in found]
            each = [np.where(np.isfinite(w) & (w > 0), w, np.nan) for w in each]
            known = ~np.isnan(each).all(axis=0)
            scale = np.ones(len(self.columns))
            scale[known] = np.nanmedian(np.array(each)[:, known], axis=0)
            return [by_coordinate(x / scale, s * scale) for x, s in found]

    def free(self, draws: Any) -> Any:
        """The free coordinates of draws."""
        chart = self.model.chart
        return draws if chart.is_identity else each_start(chart.inverse, draws)

    def offset(self, xs: list[Any]) -> Any:
        """What to add to the gradients of some rows at all draws."""
        dtype = tree.leaves(xs[0])[0].dtype
        if self.is_all:
            return tree.map(lambda x: tf.zeros((1, *x.shape[1:]), dtype), xs[0])
        amid = tree.map(lambda *x: np.median([a.mean(axis=0) for a in x], axis=0), *xs)
        amid = tree.map(lambda x: tf.constant(x, dtype), amid)
        full = self.model.on_all(amid, self.source).gradient
        here = self.model.traced_data(amid, tree.map(lambda x: x[0], self.rows)).gradient
        return tree.map(
            lambda f, g: tf.constant((f - self.scale * g.numpy())[None], dtype), full, here
        )

    def gradients(self, x: Any, offset: Any) -> np.ndarray:
        """The gradient of the log posterior at each draw, (draws, p)."""
        model, scale, parts = self.model, self.scale, []

        def evaluate(x: Any, rows: Any, offset: Any) -> Any:
            data = model.each_chain(model.data, x, rows)
            gradient = tree.map(lambda g, o: scale * g + o, data.gradient, offset)
            return model.with_prior(x, Evaluation(data.value, gradient)).gradient

        count = len(tree.leaves(x)[0])
        for start in range(0, count, self.batch):
            index = np.minimum(np.arange(start, start + self.batch), count - 1)
            arguments = tree.map(lambda a: tf.constant(a[index]), x), self.rows, offset  # noqa: B023
            program = model.programs.traced(("scores", scale), evaluate, *arguments)
            parts.append(flat(tree.map(lambda g: g.numpy(), program(*arguments))))
        return np.concatenate(parts)[:count]


def flat(x: Any) -> np.ndarray:
    """Lay the numbers of each draw end to end, in double precision."""
    return np.concatenate([a.reshape(len(a), -1) for a in tree.leaves(x)], axis=1).astype(float)


def by_coordinate(x: np.ndarray, s: np.ndarray) -> float:
    """The root of the mean squared discrepancy of single coordinates; infinite for wild draws."""
    if not (np.isfinite(x).all() and np.isfinite(s).all()):
        return np.inf
    squared = [ksd(a, b) ** 2 for a, b in zip(x.T, s.T)]
    return float(np.sqrt(np.mean(squared)))  # not finite where squares overflow
