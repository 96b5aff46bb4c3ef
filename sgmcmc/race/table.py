"""What a race found: a table of its arms, and the arguments of the best one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..summary import Summary


class Race(Summary):
    """A dict of the columns of a table whose rows are the arms of a race, the best first.

    It prints as a table. There is a column for each argument of the grid; `rounds` is how many an
    arm survived, `score` what it had in its last one (smaller is better; NaN if it diverged in the
    first), `iterations` how many it made, and `diverged` at which it diverged, -1 if it did not.

    Attributes
    ----------
    best : dict
        The arguments of the best arm, to pass on to the sampler.
    criterion : str
        What scores are: "loss" or "discrepancy".
    seconds : float
        The time that the race took, without `compile_seconds`, the time to compile programs.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> table = sgmcmc.tune(
    ...     sgmcmc.sgld, log_lik, {"x": np.linspace(-1, 3, 1000)}, {"mean": 1.0},
    ...     grid={"stepsize": [1e-5, 1e-4]}, seconds=0.5, verbose=False,
    ... )
    >>> list(table)
    ['stepsize', 'rounds', 'score', 'iterations', 'diverged']
    """

    def __init__(
        self,
        columns: dict[str, np.ndarray],
        best: dict[str, Any],
        criterion: str,
        seconds: float,
        compile_seconds: float,
        remarks: list[str],
    ) -> None:
        super().__init__([str(i + 1) for i in range(len(columns["score"]))], columns)
        self.best, self.criterion, self.remarks = best, criterion, remarks
        self.seconds, self.compile_seconds = seconds, compile_seconds

    def rows(self) -> list[list[str]]:
        titles = ["", *(self.criterion if k == "score" else k for k in self)]
        body = [
            [name, *(shown(k, x[i]) for k, x in self.items())] for i, name in enumerate(self.names)
        ]
        return [titles, *body]

    def note(self) -> list[str]:
        """Return what is to be said below the table."""
        took = f"{self.seconds:.1f} s, and {self.compile_seconds:.1f} s to set up and compile"
        return [f"[{took}]", *self.remarks]


def shown(column: str, value: Any) -> str:
    """One cell of the table."""
    if column == "diverged":
        return "" if value < 0 else f"at {value}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {shown('', x)}" for k, x in value.items())
    is_float = isinstance(value, (float, np.floating))
    return f"{value:.4g}" if is_float else str(value)
