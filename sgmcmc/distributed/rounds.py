"""The rounds of chains on a cluster: who goes on when, and when draws are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..progress import Progress
from ..sampler import Collector, Sampler, State, is_by_chain, of_all_chains, some_chains
from .tasks import LOST, Tasks
from .worker import Round, as_array, as_tensor

ROUND_SECONDS = 2.0  # of a round, once it is known how many iterations that is
FIRST, FASTER = 100, 4  # iterations of the first round, and by what factor rounds grow at most
AHEAD = 16  # rounds by which chains may be ahead of the slowest


class Ends:
    """The iterations at which rounds end: every ROUND_SECONDS, by how fast rounds have been."""

    def __init__(self, began: int, end: int) -> None:
        self.known, self.end, self.count = [began], end, FIRST

    def of(self, number: int) -> int:
        """Return the iteration at which a round ends."""
        while len(self.known) <= number + 1:
            self.known.append(min(self.end, self.known[-1] + self.count))
        return self.known[number + 1]

    def learn(self, number: int, seconds: float) -> None:
        """Take notice of how long a round took."""
        count = self.of(number) - self.known[number]
        self.count = max(1, int(min(ROUND_SECONDS / seconds, FASTER) * count))


class Rounds:
    """Advances the chains of a sampler on the workers of a cluster, in place of `Sampler.run`.

    Chains are in groups, each of which makes its rounds without waiting for the others. The rounds
    of all groups end at the same iterations: there draws are put together, and can be committed.

    Parameters
    ----------
    groups : sequence of sequences of int
        The numbers of the chains of each group.
    submit : function of (round, chains, state, until, trial)
        Lets a worker make a round, and returns a future of a `Round`. If it is not the first trial,
        data that were sent to workers may be lost.
    ends : Ends
        The iterations at which rounds end.
    waits : function of a future
        Whether Dask keeps a round for a worker that is gone.
    """

    def __init__(
        self,
        sampler: Sampler,
        groups: Sequence[Sequence[int]],
        submit: Callable[[int, Sequence[int], State, int, int], Any],
        ends: Ends,
        waits: Callable[[Any], bool] = lambda future: False,
    ) -> None:
        self.sampler, self.groups, self.submit, self.ends = sampler, groups, submit, ends
        self.by_chain = is_by_chain(sampler.state)
        self.states = [tree.map(as_array, some_chains(sampler.state, g)) for g in groups]
        self.number = [0] * len(groups)  # of the round that a group makes
        self.tasks = Tasks(lambda g: f"made a round of the chains {list(groups[g])}", waits)
        self.together = 0  # rounds whose draws are put together
        self.ready: dict[tuple[int, int], Round] = {}

    def run(
        self,
        collectors: Iterable[Collector],
        progress: Progress | None,
        origin: int,
    ) -> None:
        """Make all rounds, and hand their draws to the collectors."""
        idle = list(range(len(self.groups)))
        try:
            while True:
                for g in [g for g in idle if self.may_go_on(g)]:
                    idle.remove(g)
                    self.begin(g)
                while self.put_together(collectors, progress, origin):
                    pass  # while workers are busy
                if self.tasks.running:
                    g, found = self.tasks.next()
                    if self.goes_on(g, found):
                        idle.append(g)
                elif not idle:
                    break
        finally:
            self.tasks.cancel()

    def begin(self, g: int) -> None:
        """Let a worker make the next round of a group."""
        r, trial = self.number[g], self.tasks.trials[g]
        future = self.submit(r, self.groups[g], self.states[g], self.ends.of(r), trial)
        self.tasks.start(g, future)

    def goes_on(self, g: int, found: Any) -> bool:
        """Take what a round of a group made, and return whether there is another one to make."""
        if found is LOST:
            return True
        self.ready[self.number[g], g] = found
        self.ends.learn(self.number[g], found.seconds)
        self.states[g] = found.state
        self.number[g] += 1
        return found.error is None and not self.is_done(g)

    def is_done(self, g: int) -> bool:
        """Whether a group has made all its rounds."""
        return self.number[g] > 0 and self.ends.of(self.number[g] - 1) == self.ends.end

    def may_go_on(self, g: int) -> bool:
        """Whether a group is not too far ahead of the slowest."""
        return self.number[g] < self.together + AHEAD

    def put_together(
        self, collectors: Iterable[Collector], progress: Progress | None, origin: int
    ) -> bool:
        """Hand out the draws of the next round, if all groups have made it."""
        r, count = self.together, len(self.groups)
        if not all((r, g) in self.ready for g in range(count)):
            return False
        parts = [self.ready.pop((r, g)) for g in range(count)]
        least = min(len(tree.leaves(part.draws)[0]) for part in parts)
        draws = tree.map(
            lambda *x: np.concatenate([a[:least] for a in x], axis=1), *[p.draws for p in parts]
        )
        for collector in collectors:
            collector.add(parts[0].at, draws)
        errors = [part.error for part in parts if part.error is not None]
        if errors:
            raise min(errors, key=lambda error: error.iteration)
        states = [tree.map(as_tensor, part.state) for part in parts]
        self.sampler.place(of_all_chains(states, self.by_chain))
        for collector in collectors:
            collector.done(self.sampler)
        if progress and progress.verbose:
            trace = draws.get("log_posterior")
            value = float(np.mean(trace[-1])) if trace is not None and len(trace) else None
            progress.update(self.sampler.state.iteration - origin, value)
        self.together += 1
        return True
