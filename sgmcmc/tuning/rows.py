"""Few rows that stand for all: a random sample, and those on which the posterior depends most."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..curvature import Curvature, Parts, times, unflat
from ..model import Model
from ..source import Source
from ..streams import without_replacement

SAMPLE, STRONGEST = 20_000, 1 / 4  # rows at random, and how many of the strongest for each
PER_PARAMETER = 20  # rows at random, if this is more and the whole matrix of curvature is wanted
SAMPLE_BYTES = 256 << 20  # of rows at random
FEWEST = 1000  # rows at random, however large they are
PROBES = 3  # directions in which the log likelihood of all rows is looked at


class Rows(NamedTuple):
    """Rows with weights: each row of a part stands for `weight` of all N.

    `index` has the numbers of the rows of each part.
    """

    parts: Parts
    N: int
    index: list[np.ndarray]  # type: ignore[assignment]  # hides tuple.index, which nobody calls

    def share(self, k: int, of: int) -> Rows:
        """Of the rows that stand for others the k-th share, and all rows that count once."""
        parts, numbers = [], []
        for (part, weight), index in zip(self.parts, self.index):
            if weight > 1 and of <= part.N:
                share = np.arange(part.N * k // of, part.N * (k + 1) // of)
                weight *= part.N / len(share)
                part, index = part.subset(share), index[share]
            parts.append((part, weight))
            numbers.append(index)
        return Rows(parts, self.N, numbers)


def chosen(
    curvature: Curvature, source: Source, theta: np.ndarray, back: np.ndarray, rng: Any
) -> Rows:
    """Choose rows: all of them, or a sample and the rows that matter most, which all count once.

    What matters is by how much the log likelihood of a row changes within one posterior standard
    deviation of the point, to first order for gradients and to second order for curvature. One pass
    over all data finds out, with few directions. A sample alone misses rows without which some
    parameter would not be known at all.
    """
    N, count = source.N, max(SAMPLE, PER_PARAMETER * curvature.p * curvature.is_full)
    count = min(count, max(FEWEST, SAMPLE_BYTES // source.row_bytes))
    some = int(STRONGEST * count)
    if count + some >= N:
        return Rows([(source.subset(np.arange(N)), 1.0)], N, [np.arange(N)])
    z = rng.standard_normal((PROBES, curvature.p))
    best = [Best(some // 2) for _ in range(2)]
    arguments = theta, back, z, some // 2, curvature.like
    for start, found in source.each(curvature.model, strongest_of, *arguments):
        for each, (index, score) in zip(best, found):
            each.join(index + start, score)
    strongest = np.union1d(*(each.index for each in best))
    sample = without_replacement(rng, N, count, 1)[0]
    sample = rng.permutation(sample[~np.isin(sample, strongest)])
    spare = -len(strongest) % curvature.chunk  # whole chunks of rows need one program
    strongest = np.sort(np.concatenate([strongest, sample[:spare]]))
    sample = sample[spare:]
    sample = np.sort(sample[: len(sample) - len(sample) % min(curvature.chunk, len(sample))])
    return Rows(
        [
            (source.subset(sample), (N - len(strongest)) / len(sample)),
            (source.subset(strongest), 1.0),
        ],
        N,
        [sample, strongest],
    )


def strongest_of(
    model: Model,
    source: Source,
    theta: np.ndarray,
    back: np.ndarray,
    z: np.ndarray,
    count: int,
    like: Any,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The numbers and scores of the rows of a part that matter most, to first and second order."""
    curvature = Curvature(model, source, like)
    points = [
        [unflat(theta + s * times(back, each), like, curvature.dtype) for s in (1, -1)]
        for each in z
    ]
    here = unflat(theta, like, curvature.dtype)
    best = [Best(count) for _ in range(2)]
    start = 0
    for rows in source.pieces():
        middle = curvature.values(here, rows)
        first, second = np.zeros(len(middle)), np.zeros(len(middle))
        for ends in points:
            up, down = (curvature.values(point, rows) for point in ends)
            first = first + (up - down) ** 2
            second = second + (up + down - 2 * middle) ** 2
        for each, score in zip(best, (first, second)):
            each.join(np.arange(start, start + len(score)), score)
        start += len(middle)
    return [(each.index, each.score) for each in best]


class Best:
    """The numbers of the rows with the largest scores of those seen."""

    def __init__(self, count: int) -> None:
        self.count, self.index, self.score = count, np.empty(0, int), np.empty(0)

    def join(self, index: np.ndarray, score: np.ndarray) -> None:
        """Look at the scores of rows with these numbers."""
        score = np.nan_to_num(score, nan=0.0, posinf=np.finfo(float).max)
        index = np.concatenate([self.index, index])
        score = np.concatenate([self.score, score])
        if len(score) > self.count:
            kept = np.argpartition(score, -self.count)[-self.count :]
            index, score = index[kept], score[kept]
        self.index, self.score = index, score
