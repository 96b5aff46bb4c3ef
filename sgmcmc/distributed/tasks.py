"""Tasks on the workers of a cluster, which are done again if a worker is lost."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

TRIALS = 3  # of a task whose worker or data were lost
LOOK = 2.0  # seconds without a result, after which lost workers are looked for
LOST = object()  # what a lost task returns


class Tasks:
    """Tasks that run at the same time, each with a key of its own.

    Parameters
    ----------
    named : function of a key
        What a task does, for an error message.
    waits : function of a future
        Whether Dask keeps a task for a worker that is gone.
    """

    def __init__(
        self, named: Callable[[Any], str], waits: Callable[[Any], bool] = lambda future: False
    ) -> None:
        self.named, self.waits = named, waits
        self.active: Any = None  # those that run, in the order in which they end
        self.has_warned = False  # of workers that pause
        self.running: dict[Any, Any] = {}
        self.trials: Counter = Counter()  # that were lost

    def start(self, key: Any, future: Any) -> None:
        """Add a task that was submitted."""
        from distributed import as_completed

        if self.active is None:  # of this client, which need not be the default one
            self.active = as_completed(loop=future.client.loop)
        self.running[future] = key
        self.active.add(future)

    def next(self) -> tuple[Any, Any]:
        """Wait for a task, and return its key and its result: LOST if it is to be done again."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        ready = self.active.thread_condition
        while not self.active.has_ready():
            with ready:
                in_time = self.active.has_ready() or ready.wait(LOOK)
            if not in_time:
                self.look()
        future = next(self.active)
        key = self.running.pop(future)
        try:
            found = self.result(future)
        except (KilledWorker, FutureCancelledError) as error:
            self.trials[key] += 1
            if self.trials[key] == TRIALS:
                raise RuntimeError(
                    f"client: the workers that {self.named(key)} were lost {TRIALS} times "
                    f"({type(error).__name__}). Most often they had too little memory: see their "
                    "logs"
                ) from error
            return key, LOST
        self.trials.pop(key, None)
        return key, found

    def look(self) -> None:
        """Look for workers that are lost, whose tasks are cancelled, and for those that pause."""
        for future in [future for future in self.running if self.waits(future)]:
            future.cancel()
        if not self.has_warned:
            found = pausing(next(iter(self.running)).client)
            self.has_warned = len(found) > 0
            if found:
                warnings.warn(
                    f"client: workers pause, as Dask lets them when their memory is nearly full: "
                    f"{', '.join(found)}. Their chains wait until they go on. Start workers with "
                    "more memory, or with --memory-limit 0, with which they never pause",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def result(self, future: Any) -> Any:
        """Fetch a result. If it was lost with its worker, Dask keeps the task for that again."""
        from distributed import TimeoutError

        seconds = LOOK
        while True:
            try:
                return future.result(timeout=seconds)
            except TimeoutError:
                if self.waits(future):
                    future.cancel()
                seconds *= 2  # it may be large

    def cancel(self) -> None:
        """Cancel all that run."""
        for future in self.running:
            future.cancel()


def pausing(client: Any) -> list[str]:
    """Return the addresses of workers that pause."""
    workers = client.scheduler_info(n_workers=-1)["workers"]
    return [address for address, known in workers.items() if known["status"] == "paused"]
