"""Which rows make a minibatch: drawn independently each time, or in turn from a shuffled order.

Minibatches are numbered 0, 1, ... through all iterations and their inner steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .alias import AliasTable
from .streams import ORDER, ROWS, TURNS, row_type, stream, without_replacement

if TYPE_CHECKING:
    from .source import Source

EPOCHS = 100  # for which an order is kept: to make one takes about as long as an epoch
LEFT_OVER = 0.005  # the share of rows that may be left out for so long, and not for an epoch alone
WINDOW_BYTES = 32 << 20  # of a file, parts that are shuffled together
PIECE_BYTES = 1 << 20  # of contiguous rows in such a part
FEWEST = 16  # pieces of a file
PARTS = 16  # whose rows are shuffled in one way: to find it takes as long as to read a part
LAP = 4096  # minibatches whose turns are drawn together, if an epoch has fewer


@dataclass(frozen=True)
class Independent:
    """Each minibatch is a simple random sample of n of the N rows, independent of all others."""

    N: int
    n: int
    seed: int

    def rows(self, number: int, count: int, chain: int) -> np.ndarray:
        """The numbers of the rows of the minibatches of a group: (count, n).

        All groups have `count` minibatches, and `number` of them are before this one.
        """
        rng = stream(self.seed, ROWS, number, chain)
        return without_replacement(rng, self.N, self.n, count)


class Weighted:
    """Each minibatch has n rows that are drawn with given probabilities, with replacement."""

    def __init__(self, probabilities: np.ndarray, n: int, seed: int) -> None:
        self.table, self.n, self.seed = AliasTable(probabilities), n, seed

    def rows(self, number: int, count: int, chain: int) -> np.ndarray:
        """The numbers of the rows of the minibatches of a group: (count, n)."""
        return self.table.draw(stream(self.seed, ROWS, number, chain), (count, self.n))


class Strata(NamedTuple):
    """The numbers of all rows, in the order of the strata."""

    order: np.ndarray


@dataclass(frozen=True)
class Stratified:
    """Each minibatch has one row of each of n equally large strata, parts of an order of the rows.

    Stratum k has the places kN/n ... (k + 1)N/n of the order, where a place may belong in part to
    one and in part to the next: so each row is in n/N minibatches on average.
    """

    order: np.ndarray
    n: int
    seed: int

    def rows(self, number: int, count: int, chain: int) -> np.ndarray:
        """The numbers of the rows of the minibatches of a group: (count, n)."""
        rng, N = stream(self.seed, ROWS, number, chain), len(self.order)
        place = (np.arange(self.n) + rng.random((count, self.n))) * (N / self.n)
        return self.order[np.minimum(place.astype(np.int64), N - 1)]


class Reshuffled:
    """Minibatches are taken in turn, so that each row is looked at once in an epoch.

    The rows are put into random order and cut into minibatches, of which each epoch takes all, in a
    random order of its own. After EPOCHS epochs there is another random order of the rows. Chains
    have orders of their own of the same minibatches.

    If n does not divide N, some rows are left over. As long as they are the same, a fast chain
    samples the posterior without them, whose mean is off by up to √s standard deviations if their
    share is s. So where that share is above LEFT_OVER, they are exchanged for others after each
    epoch, and the other rows stay where they are.

    `batches` is the number of minibatches in an epoch. `span` is the number of those for which one
    order of the rows is kept, a multiple of the `inner` steps of an iteration. `alike` is the
    number of orders, one after the other, that only differ by the rows left over.
    """

    def __init__(self, N: int, n: int, seed: int, inner: int) -> None:
        self.N, self.n, self.seed = N, n, seed
        self.batches, self.left_over = divmod(N, n)
        epochs, self.alike = EPOCHS, 1
        if self.left_over > LEFT_OVER * N:
            epochs, self.alike = 1, epochs
        self.span = self.batches * epochs * (inner // math.gcd(inner, self.batches * epochs))
        self.lap = self.batches * max(1, LAP // self.batches)
        self.known: tuple[int, np.ndarray] = -1, np.empty(0)
        self.exchanged: tuple[int, np.ndarray] = -1, np.empty(0)
        self.laps: dict[int, dict[int, np.ndarray]] = {}

    def order(self, number: int) -> np.ndarray:
        """The numbers of the rows of all minibatches, (batches, n), in one order of the rows."""
        first, (known, rows) = number - number % self.alike, self.known
        if not first <= known <= number:
            known, rng = first, stream(self.seed, ORDER, first)
            rows = rng.permutation(np.arange(self.N, dtype=row_type(self.N)))
        for k in range(known + 1, number + 1):
            places, rows = self.changed(k), rows.copy()
            out = rows[places]
            rows[places] = rows[-self.left_over :]
            rows[-self.left_over :] = out
        self.known = number, rows
        return rows[: self.batches * self.n].reshape(self.batches, self.n)

    def changed(self, number: int) -> np.ndarray | None:
        """The places in an order where there were other rows in the order before; None for all."""
        epoch = number % self.alike
        if epoch == 0:
            return None
        first, (known, places) = number - epoch, self.exchanged
        if known != first:
            rng, size = stream(self.seed, ORDER, first, 1), self.batches * self.n
            places = without_replacement(rng, size, self.left_over, self.alike - 1)
            self.exchanged = first, places
        return places[epoch - 1]

    def turns(self, number: int, chain: int) -> np.ndarray:
        """The places of minibatches in the order, as a chain takes them in some whole epochs."""
        for old in [k for k in self.laps if k < number - 1]:
            del self.laps[old]
        found = self.laps.setdefault(number, {})
        if chain not in found:
            each = np.arange(self.batches, dtype=np.int32)
            epochs = np.tile(each, (self.lap // self.batches, 1))
            rng = stream(self.seed, TURNS, number, chain)
            found[chain] = rng.permuted(epochs, axis=1).reshape(-1)
        return found[chain]

    def places(self, number: int, count: int, chain: int) -> np.ndarray:
        """The places in the order of the minibatches of a group: (count,)."""
        first, parts = number * count, []
        while count:
            lap, skip = divmod(first, self.lap)
            parts.append(self.turns(lap, chain)[skip : skip + count])
            first, count = first + len(parts[-1]), count - len(parts[-1])
        return np.concatenate(parts)

    def rows(self, number: int, count: int, chain: int) -> np.ndarray:
        """The numbers of the rows of the minibatches of a group: (count, n)."""
        first, parts, places = number * count, [], self.places(number, count, chain)
        while len(places):
            order, skip = divmod(first, self.span)
            here = places[: self.span - skip]
            parts.append(self.order(order)[here])
            first, places = first + len(here), places[len(here) :]
        return np.concatenate(parts)


class InWindows(Reshuffled):
    """Minibatches of data outside memory, taken in turn from parts of them that fit into memory.

    A part is made of pieces of PIECE_BYTES from all over the data, whose rows are shuffled
    together. After one pass over a part comes the next. An epoch has all pieces once, in random
    order, and each epoch cuts the data into pieces at other rows. So a row is as likely to be in
    one minibatch as in another; but if rows are in some order, minibatches are not quite as varied
    as those of shuffled rows. Data of less than two parts are one (`is_whole`).
    """

    def __init__(self, N: int, n: int, seed: int, inner: int, row_bytes: int) -> None:
        self.count = min(N, max(FEWEST, -(-N * row_bytes // PIECE_BYTES)))  # pieces of an epoch
        self.piece = N // self.count
        needed = -(-n * inner // self.piece)
        wanted = max(1, needed, WINDOW_BYTES // (self.piece * row_bytes))
        self.is_whole = self.count <= 2 * wanted
        parts = 1 if self.is_whole else min(-(-self.count // wanted), self.count // needed)
        self.together = self.count // parts  # pieces of a part
        super().__init__(N, n, seed, inner)
        self.batches = max(1, self.together * self.piece // n // inner) * inner
        is_kept = self.batches * n >= (1 - LEFT_OVER) * N
        self.span = self.batches * (EPOCHS if is_kept else 1)
        self.lap = self.batches
        self.kept: tuple[int, np.ndarray, np.ndarray] | None = None

    def starts(self, number: int) -> np.ndarray:
        """The first rows of the pieces of a part, in random order. Row 0 follows the last row."""
        epoch, part = divmod(number, self.count // self.together)
        rng = stream(self.seed, ORDER, epoch)
        shift = rng.integers(self.N)
        pieces = rng.permutation(self.count)[part * self.together : (part + 1) * self.together]
        return (shift + pieces * self.piece) % self.N

    def places_in_part(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """In which piece of a part the rows of all minibatches are, and where in that piece.

        Some parts share this order.
        """
        group = number // PARTS
        if self.kept is None or self.kept[0] != group:
            rng = stream(self.seed, ORDER, group, 1)
            rows = np.arange(self.together * self.piece, dtype=np.int32)
            places = rng.permutation(rows)[: self.batches * self.n]
            self.kept = group, *np.divmod(places, self.piece)
        return self.kept[1:]

    def order(self, number: int) -> np.ndarray:
        """The numbers of the rows of all minibatches, (batches, n), in one part."""
        known, rows = self.known
        if known != number:
            piece, inside = self.places_in_part(number)
            rows = self.starts(number)[piece] + inside
            rows = np.where(rows < self.N, rows, rows - self.N).astype(row_type(self.N))
            self.known = number, rows
        return rows.reshape(self.batches, self.n)

    def changed(self, number: int) -> None:
        """Each part has rows of its own."""


class InOrder(Reshuffled):
    """Minibatches of rows that come in an order of their own, in parts that are shuffled.

    A part has the next rows of the stream, which goes through all epochs: after the last row of one
    comes the first row of the next. So each row is used once an epoch, and none is left over.
    """

    def __init__(self, N: int, n: int, seed: int, inner: int, buffer_rows: int) -> None:
        super().__init__(N, n, seed, inner)
        self.batches = max(1, min(N, buffer_rows) // n // inner) * inner
        self.span = self.lap = self.batches

    def shuffled(self, number: int) -> np.ndarray:
        """The places in a part from which the rows of all minibatches are, one after the other."""
        rng = stream(self.seed, ORDER, number)
        return rng.permutation(np.arange(self.batches * self.n, dtype=row_type(self.N)))

    def order(self, number: int) -> np.ndarray:
        """The numbers of the rows of all minibatches, (batches, n), in one part."""
        size = self.batches * self.n
        places = self.shuffled(number).astype(np.int64)  # the count of rows grows without bound
        return ((number * size + places) % self.N).reshape(self.batches, self.n)

    def changed(self, number: int) -> None:
        """Each part has rows of its own."""


def in_turn(kind: str | Strata, N: int, n: int, inner: int) -> bool:
    """Whether minibatches are taken in turn: not if there are less than two for each inner step."""
    return kind == "reshuffled" and N // n >= 2 * inner


def minibatches_of(
    kind: str | Strata,
    source: Source,
    n: int,
    seed: int,
    inner: int,
    probabilities: np.ndarray | None = None,
) -> Independent | Weighted | Stratified | Reshuffled:
    """Minibatches of n rows of this kind, or of rows with these probabilities."""
    N = source.N
    if probabilities is not None:
        return Weighted(probabilities, n, seed)
    if isinstance(kind, Strata):
        return Stratified(kind.order, n, seed)
    if source.buffer_rows is not None:
        return InOrder(N, n, seed, inner, source.buffer_rows)
    if not in_turn(kind, N, n, inner):
        return Independent(N, n, seed)
    is_large_shard = source.stands_for is not None and N * source.row_bytes > 2 * WINDOW_BYTES
    if source.is_outside or is_large_shard:  # no copy of all rows is made
        return InWindows(N, n, seed, inner, source.row_bytes)
    return Reshuffled(N, n, seed, inner)
