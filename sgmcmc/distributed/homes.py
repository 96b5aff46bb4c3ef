"""Which worker of a cluster has which shard."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

WAIT = 60  # seconds for a worker, where all are lost: a nanny starts another one in a few


class Homes:
    """Which worker has which shard. Shards stay where they are as long as that is possible."""

    def __init__(self, client: Any, numbers: Sequence[int]) -> None:
        self.client, self.numbers = client, list(numbers)
        self.home: dict[int, str] = {}

    def keep(self, numbers: Sequence[int]) -> None:
        """Forget all shards but these."""
        self.numbers = list(numbers)
        self.home = {i: home for i, home in self.home.items() if i in self.numbers}

    def of(self, number: int) -> str:
        """Return the address of the worker that has a shard, or is to load it."""
        workers = self.workers()
        has = {w: [i for i, home in self.home.items() if home == w] for w in workers}
        for i in self.numbers:
            if self.home.get(i) not in has:
                self.home[i] = min(workers, key=lambda w: len(has[w]))
                has[self.home[i]].append(i)
        while True:  # those who have joined get shards of those who have most
            most, least = (f(workers, key=lambda w: len(has[w])) for f in (max, min))
            if len(has[most]) < len(has[least]) + 2:
                return self.home[number]
            moved = has[most].pop()
            self.home[moved] = least
            has[least].append(moved)

    def workers(self) -> list[str]:
        """Return the addresses of all workers. If there is none, one may be about to come back."""
        from distributed import TimeoutError

        if not self.client.nthreads():
            with contextlib.suppress(TimeoutError):
                self.client.wait_for_workers(1, timeout=WAIT)
        workers = list(self.client.nthreads())
        if not workers:
            raise RuntimeError(
                f"client: all workers of its cluster were lost, and none has joined in {WAIT} s. "
                "Most often they had too little memory: see their logs"
            )
        return workers
