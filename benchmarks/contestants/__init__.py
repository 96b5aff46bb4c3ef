"""One file a package: `build(task)` returns `call(steps)`, whose result is the chain, or its end.

Each runs in a process of its own, with its package's own interpreter (`benchmarks.worker`), in the
way in which the package's documentation shows fast sampling.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..problems import PROBLEMS, logistic


@dataclass
class Task:
    """What a contestant is asked to sample."""

    problem: str
    kind: str  # one of KINDS or OF_P1
    cv: bool = False
    rows: int = 0  # 0: all of the problem's
    width: int = 0
    minibatch: int = 0
    chains: int = 0
    checking: bool = False  # on the rows of the check
    disk: str = ""  # a folder for memory-mapped arrays
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problem = PROBLEMS[self.problem]
        self.rows = self.rows or (problem.check_rows if self.checking else problem.rows)
        self.width = self.width or problem.width
        self.minibatch = self.minibatch or problem.minibatch
        self.stored = problem.stored
        self.stepsize = problem.stepsize(self.kind, self.rows)
        self.start = problem.start(self.width)
        self.data = (
            on_disk(self.disk, self.rows, self.width)
            if self.disk
            else problem.data(self.rows, self.width)
        )


def on_disk(folder: str, rows: int, width: int, piece: int = 100_000) -> dict[str, np.ndarray]:
    """The first problem's data, the same piece again and again, as memory maps."""
    shapes = {"X": (rows, width), "y": (rows,)}
    paths = {k: Path(folder, f"{k}-{rows}-{width}.npy") for k in shapes}
    if not all(path.exists() for path in paths.values()):
        maps = {
            k: np.lib.format.open_memmap(paths[k], "w+", np.float32, shape)
            for k, shape in shapes.items()
        }
        for start in range(0, rows, piece):
            for k, x in logistic(min(piece, rows - start), width).items():
                maps[k][start : start + len(x)] = x
    return {k: np.load(path, mmap_mode="r") for k, path in paths.items()}


def flat(params: Any) -> np.ndarray:
    """Draws (draw, parameter) of a dict of arrays (draw, ...)."""
    return np.concatenate([np.asarray(x).reshape(len(x), -1) for x in params.values()], axis=1)
