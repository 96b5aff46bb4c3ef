"""Store the draws of a run in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import tree
from .draws import Draws
from .origin import Origin
from .sampler import Sampler


class Memory:
    """All draws of a run.

    The arrays are allocated once. Their shape is (n, ...), or (n_chains, n, ...) if `n_chains` is
    given.
    """

    def __init__(self, n: int, n_chains: int | None) -> None:
        self.n, self.n_chains, self.filled, self.arrays = n, n_chains, 0, None

    def add(self, at: int, draws: Mapping[str, Any]) -> None:
        """Store the draws with numbers at, at + 1, ...; arrays have shape (draws, chains, ...)."""
        if self.arrays is None:
            leading = (self.n_chains, self.n) if self.n_chains else (self.n,)
            self.arrays = tree.map(lambda x: np.empty((*leading, *x.shape[2:]), x.dtype), draws)
        for to, x in zip(tree.leaves(self.arrays), tree.leaves(draws)):
            by_draw, x = (to.swapaxes(0, 1), x) if self.n_chains else (to, x[:, 0])
            by_draw[at : at + len(x)] = x
        self.filled = at + len(x)

    def done(self, sampler: Sampler) -> None:
        """There is nothing to do."""

    def end(self, sampler: Sampler, complete: bool = True) -> None:
        """There is nothing to do."""

    def close(self) -> None:
        """There is nothing to do."""

    @property
    def is_empty(self) -> bool:
        """Whether not even the names of what is collected are known."""
        return self.arrays is None

    def forget_after(self, count: int) -> None:
        """Keep no more than so many draws."""
        self.filled = min(self.filled, count)

    def draws(self, sampler: Sampler, settings: dict[str, Any]) -> Draws:
        """Return the draws that are stored so far."""
        axis = (slice(None),) if self.n_chains else ()
        stats = tree.map(lambda x: x[(*axis, slice(self.filled))], self.arrays)
        values = {**stats.pop("params"), **stats.pop("track", {})}
        stats |= {f"log_{name}": x for name, x in stats.pop("log", {}).items()}
        found = Draws(values, stats, settings)
        found._origin = Origin.of(sampler)
        return found
