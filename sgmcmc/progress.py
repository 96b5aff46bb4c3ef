"""Show the progress of a run: one line that is rewritten in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

try:
    from tqdm import tqdm
except ImportError:
    tqdm = None

EVERY_SECONDS = 0.1


class Progress:
    """Prints the iteration, the speed, and the estimate of the log posterior.

    `total` is None if the number of iterations is not known.
    """

    def __init__(self, total: int | None, label: str, verbose: bool = True) -> None:
        self.total, self.label, self.verbose = total, label, verbose
        self.terminal = verbose and sys.stderr.isatty()
        self.began = time.perf_counter()
        self.shown, self.tenths, self.done, self.value = 0.0, 0, 0, ""
        self.bar = (
            tqdm(total=total, desc=label, unit="it", mininterval=EVERY_SECONDS)
            if self.terminal and tqdm
            else None
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        early = False
        if self.total is None or self.done < self.total:
            early = f"ended after {self.done:,} iterations"
        if self.bar:
            self.bar.close()
        elif self.terminal:
            self.write(early, start="\r", end="\n")
        elif self.verbose and early:
            self.write(early)

    def update(self, done: int, log_posterior: float | None) -> None:
        """Tell how many iterations are done, and the log posterior."""
        if not self.verbose:
            return
        step, self.done = done - self.done, done
        self.value = "" if log_posterior is None else f"log posterior {log_posterior:.6g}"
        if self.bar:
            self.bar.set_postfix_str(self.value, refresh=False)
            self.bar.update(step)
        elif self.terminal:
            now = time.perf_counter()
            if now - self.shown >= EVERY_SECONDS:
                self.shown = now
                self.write(start="\r", end="")
        elif self.total and 10 * done // self.total > self.tenths:
            self.tenths = 10 * done // self.total
            self.write()

    def write(self, where: str | bool = False, start: str = "", end: str = "\n") -> None:
        """Write one line."""
        speed = self.done / max(time.perf_counter() - self.began, 1e-9)
        if not where and self.total is None:
            where = f"{self.done:,} iterations"
        where = where or f"{self.done:,} of {self.total:,} ({self.done / self.total:.0%})"
        line = f"{self.label}: {where}, {speed:,.0f} it/s{', ' * bool(self.value)}{self.value}"
        sys.stderr.write(f"{start}{line:<79}{end}" if start else line + end)
        sys.stderr.flush()
