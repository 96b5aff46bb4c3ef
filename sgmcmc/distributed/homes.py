"""Which worker of a cluster has which shard."""

from __future__ import annotations

from typing import Any


class Homes:
    """Which worker has which shard. Shards stay where they are as long as that is possible."""

    def __init__(self, client: Any, count: int) -> None:
        self.client, self.count, self.home = client, count, {}  # type: ignore[var-annotated]

    def of(self, number: int) -> str:
        """Return the address of the worker that has a shard, or is to load it."""
        workers = list(self.client.nthreads())
        has = {w: [i for i, home in self.home.items() if home == w] for w in workers}
        for i in range(self.count):
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
