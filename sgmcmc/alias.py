"""Draw from a discrete distribution in time O(1), by the alias method."""

from __future__ import annotations

import numpy as np


class AliasTable:
    """Numbers 0 ... N − 1 with given probabilities.

    Each number has a place of width 1/N. A place is shared by its number, with the share `own`, and
    one other number, its `alias`. A draw takes a place uniformly, and then one of the two.

    Walker (1977), An efficient method for generating discrete random variables with general
    distributions. The table is filled in one sweep: numbers that are less probable than 1/N leave
    room, which those that are more probable fill in turn. Sums over both say who fills which room.
    """

    def __init__(self, probabilities: np.ndarray) -> None:
        p = np.asarray(probabilities, np.float64)
        share = p * (len(p) / p.sum())
        self.own, self.alias = np.minimum(share, 1), np.arange(len(p))
        small, large = np.flatnonzero(share < 1), np.flatnonzero(share > 1)
        if not (len(small) and len(large)):
            return
        room, excess = np.cumsum(1 - share[small]), np.cumsum(share[large] - 1)
        room *= excess[-1] / room[-1]  # equal but for rounding
        before = np.concatenate([[0.0], room[:-1]])
        filler = np.searchsorted(excess, before, side="right")
        self.alias[small] = large[np.minimum(filler, len(large) - 1)]
        # The room that exhausts a large one exceeds what it has left; the next one fills its place
        last = np.minimum(np.searchsorted(room, excess), len(room) - 1)
        taken = np.clip(room[last] - excess, 0, 1)
        taken[-1] = 0
        self.own[large] = 1 - taken
        self.alias[large[:-1]] = large[1:]

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draw numbers, from one uniform random number each."""
        place = rng.random(shape) * len(self.own)
        number = place.astype(np.int64)
        place -= number
        return np.where(place < self.own[number], number, self.alias[number])
