"""Show the progress of a run: a bar, one line that is rewritten in a terminal, or plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

try:
    from tqdm.auto import tqdm
except ImportError:
    tqdm = None

EVERY_SECONDS = 0.1


class Report(NamedTuple):
    """How far a run has come: what a function that is given as `verbose` gets.

    `total` is None if the number of iterations is not known, and `log_posterior` if it is not
    estimated. `rate` is iterations a second since the last report, and `left` the seconds that are
    left at this rate.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> reports = []
    >>> draws = sgmcmc.sgld(
    ...     log_lik, {"x": np.linspace(-1, 3, 1000)}, {"mean": 1.0}, 1e-4, n_iters=500, seed=1,
    ...     verbose=reports.append,
    ... )
    >>> reports[-1].done, reports[-1].total
    (500, 500)
    """

    label: str
    done: int
    total: int | None
    rate: float
    left: float | None
    log_posterior: float | None

    def line(self, early: bool = False) -> str:
        """Return the report in words; `early` if not all iterations were done."""
        where = f"{'ended after ' * early}{self.done:,} iterations"
        if self.total and not early:
            where = f"{self.done:,} of {self.total:,} ({self.done / self.total:.0%})"
        said = f"{self.label}: {where}, {self.rate:,.0f} it/s"
        if not early and self.left and self.left >= 1:
            said += f", {duration(self.left)} left"
        if self.log_posterior is not None:
            said += f", log posterior {self.log_posterior:.6g}"
        return said


class Progress:
    """Prints the iteration, the speed, the time left, and the estimate of the log posterior.

    `total` is None if the number of iterations is not known. `verbose` may be a function of a
    `Report`, which is called instead.
    """

    def __init__(
        self,
        total: int | None,
        label: str,
        verbose: bool | Callable[[Report], None] = True,
        done: int = 0,
    ) -> None:
        self.total, self.label, self.tell = total, label, verbose if callable(verbose) else None
        self.verbose = bool(verbose)
        self.last = time.perf_counter()
        self.done, self.reported, self.tenths = done, done, 10 * done // total if total else 0
        self.value: float | None = None
        wanted = self.verbose and self.tell is None
        self.terminal = wanted and sys.stderr.isatty()
        self.bar = None
        if wanted and tqdm and (self.terminal or in_notebook()):
            options = {"total": total, "initial": done, "desc": label, "unit": "it"}
            self.bar = tqdm(**options, mininterval=EVERY_SECONDS)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        early = self.total is None or self.done < self.total
        if self.bar is not None:
            self.bar.close()
        elif self.terminal:
            self.write("\r", "\n", early)
        elif self.verbose and early and self.tell is None:
            self.write(early=True)

    def update(self, done: int, log_posterior: float | None) -> None:
        """Tell how many iterations are done, and the log posterior."""
        if not self.verbose:
            return
        step, self.done, self.value = done - self.done, done, log_posterior
        now = time.perf_counter()
        if self.bar is not None:
            if log_posterior is not None:
                self.bar.set_postfix_str(f"log posterior {log_posterior:.6g}", refresh=False)
            self.bar.update(step)
        elif self.tell is not None:
            if now - self.last >= EVERY_SECONDS or done == self.total:
                self.tell(self.report())
        elif self.terminal:
            if now - self.last >= EVERY_SECONDS:
                self.write("\r", "")
        elif self.total and 10 * done // self.total > self.tenths:
            self.tenths = 10 * done // self.total
            self.write()

    def report(self) -> Report:
        """How far it has come, with the rate since the last report."""
        now = time.perf_counter()
        rate = (self.done - self.reported) / max(now - self.last, 1e-9)
        left = (self.total - self.done) / rate if self.total and rate else None
        self.last, self.reported = now, self.done
        return Report(self.label, self.done, self.total, rate, left, self.value)

    def write(self, start: str = "", end: str = "\n", early: bool = False) -> None:
        """Write one line."""
        line = self.report().line(early)
        sys.stderr.write(f"{start}{line:<79}{end}" if start else line + end)
        sys.stderr.flush()


def in_notebook() -> bool:
    """Whether this runs in a notebook's kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def duration(seconds: float) -> str:
    """A time in words."""
    units = {"h": 3600, "min": 60, "s": 1, "ms": 1e-3, "µs": 1e-6}
    unit = next((unit for unit, size in units.items() if seconds >= size), "µs")
    value = seconds / units[unit]
    return f"{value:.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"
