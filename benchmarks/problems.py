"""The problems, in NumPy alone: every contestant's environment can import this file.

Step sizes are this package's ε (Langevin: drift ε/2; Hamiltonian: a squared step). In the checks
they are such that gradient noise and discretisation inflate a correct sampler's variance by some
3 %, so that what is far from 1 is wrong and not merely coarse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

KINDS = ("sgld", "sghmc", "sgnht")
OF_P1 = ("psgld", "baoab")  # measured on the first problem alone
ALPHA, L = 0.1, 5
INFLATION = 0.03


@dataclass(frozen=True)
class Problem:
    """Sizes, and how long things take."""

    name: str
    rows: int
    width: int
    minibatch: int
    check_rows: int
    call_steps: int  # of one call, timed or not
    stored: bool = True

    def data(self, rows: int | None = None, width: int | None = None) -> dict[str, np.ndarray]:
        """The data set, always the same."""
        return DATA[self.name](rows or self.rows, width or self.width)

    def start(self, width: int | None = None) -> dict[str, np.ndarray]:
        """Where the chains set out, and the centre of control variates where there is no check."""
        return STARTS[self.name](width or self.width)

    def stepsize(self, kind: str, rows: int) -> float:
        """A step size at which gradient noise adds INFLATION to the variance."""
        if self.name == "P3":
            return 1e-4 if kind == "sgld" else 1e-6
        a_row = {"P1": 0.2, "P2": 0.5}[self.name]  # precision
        share = 4 if kind in ("sgld", "psgld") else 2 * ALPHA
        eps = INFLATION * share * self.minibatch / rows / (rows * a_row)
        # psgld divides it by the root mean square of a minibatch's mean gradient
        return eps * (a_row / self.minibatch) ** 0.5 if kind == "psgld" else eps


def logistic(rows: int, width: int) -> dict[str, np.ndarray]:
    """Logistic regression of independent standard normal features."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, width), np.float32)
    beta = 0.7 * np.random.default_rng(1).standard_normal(width) / np.sqrt(width)
    y = rng.random(rows) < 1 / (1 + np.exp(-X @ beta))
    return {"X": X, "y": y.astype(np.float32)}


def mixture(rows: int, width: int) -> dict[str, np.ndarray]:
    """Half the points about (0, 0), half about (3, 3), with unit variances."""
    rng = np.random.default_rng(0)
    centre = 3 * (rng.random((rows, 1)) < 0.5)
    return {"X": (centre + rng.standard_normal((rows, width))).astype(np.float32)}


def images(rows: int, width: int) -> dict[str, np.ndarray]:
    """Blurred templates of ten classes; as in MNIST, some pixels are always black."""
    rng = np.random.default_rng(0)
    templates = rng.random((10, width), np.float32)
    y = rng.integers(0, 10, rows, dtype=np.int32)
    X = 0.5 * (templates[y] + rng.random((rows, width), np.float32))
    X[:, dead(width)] = 0
    return {"X": X, "y": y}


def dead(width: int) -> np.ndarray:
    """The pixels that are always black: the posterior of their weights is the prior."""
    return np.arange(width) % 12 == 0


def network(width: int) -> dict[str, np.ndarray]:
    """Small weights; those of the dead pixels 0."""
    rng = np.random.default_rng(2)
    w1 = 0.05 * rng.standard_normal((width, 100), np.float32)
    w1[dead(width)] = 0
    return {
        "w1": w1,
        "b1": np.zeros(100, np.float32),
        "w2": 0.1 * rng.standard_normal((100, 10), np.float32),
        "b2": np.zeros(10, np.float32),
    }


DATA = {"P1": logistic, "P2": mixture, "P3": images}
STARTS = {
    "P1": lambda width: {"beta": np.zeros(width, np.float32)},
    "P2": lambda width: {"t1": np.zeros(2, np.float32), "t2": np.full(2, 3, np.float32)},
    "P3": network,
}
PROBLEMS = {
    "P1": Problem("P1", 581_012, 54, 500, 20_000, 20_000),
    "P2": Problem("P2", 1_000, 2, 100, 1_000, 20_000),
    "P3": Problem("P3", 55_000, 784, 500, 55_000, 100, stored=False),
}
