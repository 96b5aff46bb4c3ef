"""What becomes of the draws of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import tree


class Memory:
    """All draws, in arrays allocated once: in memory, or in the .npy files of a folder.

    Arrays are (n, ...), or (n_chains, n, ...) with `n_chains`.
    """

    def __init__(self, n: int, n_chains: int | None, folder: Path | None = None) -> None:
        self.n, self.n_chains, self.folder = n, n_chains, folder
        self.filled, self.arrays = 0, None

    def add(self, at: int, draws: Mapping[str, Any]) -> None:
        """Draws at, at + 1, ... of the run, each (draws, chains, ...)."""
        if self.arrays is None:
            self.arrays = tree.pack(
                draws, [self.allocate(*each) for each in zip(tree.names(draws), tree.leaves(draws))]
            )
        for array, x in zip(tree.leaves(self.arrays), tree.leaves(draws)):
            by_draw, x = (array.swapaxes(0, 1), x) if self.n_chains else (array, x[:, 0])
            by_draw[at : at + len(x)] = x
        self.filled = at + len(x)

    def allocate(self, name: str, x: np.ndarray) -> np.ndarray:
        """The array of all draws like x."""
        shape = (self.n, *x.shape[2:])
        if self.n_chains:
            shape = (self.n_chains, *shape)
        if self.folder is None:
            return np.empty(shape, x.dtype)
        path = self.folder / f"{name}.npy"
        path.parent.mkdir(exist_ok=True, parents=True)
        return np.lib.format.open_memmap(path, "w+", x.dtype, shape)

    def result(self) -> dict[str, Any]:
        """The draws so far."""
        axis = (slice(None),) if self.n_chains else ()
        return tree.map(lambda x: x[(*axis, slice(self.filled))], self.arrays or {"params": {}})
