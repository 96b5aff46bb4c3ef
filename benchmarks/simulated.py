"""Rounds of chains on a large cluster, simulated event by event with stated times.

It follows `sgmcmc.distributed`: a chain visits a random shard, whose worker makes its round when it
has made those that came before. A chain may be `AHEAD` rounds ahead of the slowest. A round passes
through the scheduler and the client, which see to one at a time, and over the network. If a worker
is lost, its rounds wait until another one has loaded its shards, and begin anew.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import asdict, dataclass, replace

import numpy as np

from sgmcmc.distributed.rounds import AHEAD

from .race import say


@dataclass(frozen=True)
class Assumed:
    """Times in seconds."""

    workers: int = 100
    rows: int = 10**9
    width: int = 54
    step: float = 20e-6  # of one chain, minibatches of 500 rows
    kept: int = 20  # steps for each draw that is kept
    latency: float = 1e-3  # of a message
    bandwidth: float = 1e9  # bytes a second, of the client
    task: float = 1e-3  # of the scheduler, for each task
    answer: float = 1e-3  # of the client, for each round
    straggling: float = 0.2  # sd of the logarithm of how long a round takes
    lost: float = 7200.0  # mean time until a worker is lost
    load: float = 60.0  # until its shards are loaded elsewhere
    read: float = 1e9  # bytes a second in a pass of a worker over its shards
    passes: int = 20  # of the search for the mode and the step size

    @property
    def bytes_a_second(self) -> float:
        """Draws of one chain, by second of its steps."""
        return 4 * self.width / (self.step * self.kept)


LENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # seconds of a round
CHAINS = (100, 200, 400, 800)
SPAN = 3600.0  # seconds that are simulated, at least


class Simulation:
    """A cluster whose chains make so many rounds of so many seconds."""

    def __init__(self, given: Assumed, chains: int, length: float, rounds: int) -> None:
        self.given, self.length, self.rounds = given, length, rounds
        self.rng = np.random.default_rng([1, chains, int(1000 * length)])
        self.made = [0] * chains
        self.behind = {0: chains}  # how many chains have made so many rounds
        self.slowest = 0
        self.held: list[int] = []  # chains that are too far ahead
        self.queues: list[deque[int]] = [deque() for _ in range(given.workers)]
        self.running: list[tuple[int, int] | None] = [None] * given.workers  # chain, its trial
        self.ready = [0.0] * given.workers  # when shards are loaded
        self.free = {"scheduler": 0.0, "client": 0.0}
        self.trials = 0
        self.events: list[tuple[float, int, str, int, int]] = []
        self.count = 0

    def at(self, time: float, what: str, who: int, trial: int = 0) -> None:
        """Let something happen later."""
        self.count += 1
        heapq.heappush(self.events, (time, self.count, what, who, trial))

    def served(self, by: str, now: float, seconds: float) -> float:
        """When somebody who sees to one thing at a time is done with this one."""
        self.free[by] = max(now, self.free[by]) + seconds
        return self.free[by]

    def submit(self, now: float, chain: int) -> None:
        """Send a chain to the worker of a random shard, if it may go on."""
        if self.made[chain] == self.rounds:
            return
        if self.made[chain] >= self.slowest + AHEAD:
            self.held.append(chain)
            return
        arrives = self.served("scheduler", now, self.given.task) + 2 * self.given.latency
        self.at(arrives, "arrives", chain, int(self.rng.integers(self.given.workers)))

    def start(self, now: float, worker: int) -> None:
        """Let a worker begin its next round, if it has nothing to do."""
        if self.running[worker] is None and self.queues[worker]:
            chain = self.queues[worker].popleft()
            self.trials += 1
            self.running[worker] = chain, self.trials
            seconds = self.length * self.rng.lognormal(0, self.given.straggling)
            self.at(max(now, self.ready[worker]) + seconds, "ends", worker, self.trials)

    def run(self) -> float:
        """Return the share of the steps that workers would make without waiting."""
        given = self.given
        for chain in range(len(self.made)):
            self.submit(0.0, chain)
        for worker in range(given.workers):
            self.at(self.rng.exponential(given.lost), "is lost", worker)
        now = 0.0
        while self.slowest < self.rounds:
            now, _, what, who, more = heapq.heappop(self.events)
            if what == "arrives":
                self.queues[more].append(who)
                self.start(now, more)
            elif what == "ends" and self.running[who] and self.running[who][1] == more:
                chain, _ = self.running[who]
                self.running[who] = None
                self.start(now, who)
                seconds = given.answer + self.length * given.bytes_a_second / given.bandwidth
                self.at(self.served("client", now + 2 * given.latency, seconds), "is back", chain)
            elif what == "is back":
                self.is_back(now, who)
            elif what == "is lost":
                if self.running[who]:
                    self.queues[who].appendleft(self.running[who][0])
                    self.running[who] = None
                self.ready[who] = now + given.load
                self.start(now, who)
                self.at(now + self.rng.exponential(given.lost), "is lost", who)
        return len(self.made) * self.rounds * self.length / (now * given.workers)

    def is_back(self, now: float, chain: int) -> None:
        """Send a chain on, and those that waited for it."""
        made = self.made[chain]
        self.behind[made] -= 1
        self.made[chain] += 1
        self.behind[made + 1] = self.behind.get(made + 1, 0) + 1
        if self.behind[self.slowest] == 0:
            self.slowest += 1
            held, self.held = self.held, []
            for other in held:
                self.submit(now, other)
        self.submit(now, chain)


def utilisation(given: Assumed, chains: int, length: float, span: float = SPAN) -> float:
    """The share of the steps that workers would make if they never waited."""
    rounds = max(100, int(span / (length * max(1, chains / given.workers))))
    return Simulation(given, chains, length, rounds).run()


def search(given: Assumed) -> float:
    """Seconds for the mode and the step size: in each pass, all wait for the slowest worker."""
    rng = np.random.default_rng(1)
    shard = 4 * given.width * given.rows / given.workers / given.read
    slowest = rng.lognormal(0, given.straggling, (1000, given.workers)).max(1).mean()
    messages = 4 * given.latency + given.workers * (given.task + given.answer)
    return float(given.passes * (shard * slowest + messages))


def run(quick: bool) -> dict:
    """Utilisation by round length, with and without losses, and the time of the search."""
    given = Assumed()
    lengths, chains = (LENGTHS[2:4], CHAINS[:1]) if quick else (LENGTHS, CHAINS)
    span = 30.0 if quick else SPAN
    curves: dict[str, list] = {}
    for count in chains:
        say(f"simulated: {count} chains")
        curves[f"{count} chains"] = [(s, utilisation(given, count, s, span)) for s in lengths]
    safe = replace(given, lost=1e12)
    name = f"{chains[-1]} chains, no worker lost"
    curves[name] = [(s, utilisation(safe, chains[-1], s, span)) for s in lengths]
    return {"assumed": asdict(given), "curves": curves, "search": search(given)}
