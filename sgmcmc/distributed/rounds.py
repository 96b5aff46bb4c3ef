"""The rounds of chains on a cluster: who goes on when, and when draws are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from ..progress import Progress
from ..sampler import Collector, Sampler, State, is_by_chain, of_all_chains
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


@dataclass(eq=False)
class Group:
    """Chains that make their rounds together: their numbers, their state, and the next round."""

    chains: Sequence[int]
    state: State
    number: int = 0


class Rounds:
    """Advances the chains of a sampler on the workers of a cluster, in place of `Sampler.run`.

    Chains are in groups, each of which makes its rounds without waiting for the others. The rounds
    of all groups end at the same iterations: there draws are put together, and can be committed.

    Parameters
    ----------
    groups : sequence of sequences of int
        The numbers of the chains of each group, which follow one another.
    submit : function of (round, chains, state, until, trial)
        Lets a worker make a round, and returns a future of a `Round`. If it is not the first trial,
        data that were sent to workers may be lost.
    ends : Ends
        The iterations at which rounds end.
    waits : function of a future
        Whether Dask keeps a round for a worker that is gone.
    cut : function of the chains of a group
        The groups into which this one is cut before its next round, if there are more workers now.
    is_fixed : bool
        Whether no iteration changes the state of the estimator, which then does not travel.
    """

    def __init__(
        self,
        sampler: Sampler,
        groups: Sequence[Sequence[int]],
        submit: Callable[[int, Sequence[int], State, int, int], Any],
        ends: Ends,
        waits: Callable[[Any], bool] = lambda future: False,
        cut: Callable[[Sequence[int]], Sequence[Sequence[int]]] = lambda chains: [chains],
        is_fixed: bool = False,
    ) -> None:
        self.sampler, self.submit, self.ends, self.cut = sampler, submit, ends, cut
        self.count = sum(map(len, groups))  # chains
        self.fixed: dict[str, Any] = {"estimator": ()} if is_fixed else {}
        self.by_chain = is_by_chain(sampler.state)._replace(**self.fixed)
        state = sampler.state._replace(**self.fixed)
        whole = Group(range(self.count), tree.map(as_array, state))
        self.groups = self.parts(whole, groups)
        self.tasks = Tasks(lambda g: f"made a round of the chains {list(g.chains)}", waits)
        self.together = 0  # rounds whose draws are put together
        self.ready: dict[int, list[tuple[Sequence[int], Round]]] = {}  # by number

    def run(
        self,
        collectors: Iterable[Collector],
        progress: Progress | None,
        origin: int,
    ) -> None:
        """Make all rounds, and hand their draws to the collectors."""
        idle = list(self.groups)
        try:
            while True:
                for group in [g for g in idle if self.may_go_on(g)]:
                    idle.remove(group)
                    self.begin(group)
                while self.put_together(collectors, progress, origin):
                    pass  # while workers are busy
                if self.tasks.running:
                    group, found = self.tasks.next()
                    if self.goes_on(group, found):
                        idle.append(group)
                elif not idle:
                    break
        finally:
            self.tasks.cancel()

    def begin(self, group: Group) -> None:
        """Let workers make the next round of a group, which may be cut first."""
        trial = self.tasks.trials[group]
        for g in [group] if trial else self.parts(group, self.cut(group.chains)):
            until = self.ends.of(g.number)
            self.tasks.start(g, self.submit(g.number, g.chains, g.state, until, trial))

    def parts(self, group: Group, cut: Sequence[Sequence[int]]) -> list[Group]:
        """Return the groups into which a group is cut."""
        if len(cut) == 1:
            return [group]

        def part(chains: Sequence[int]) -> State:
            here = [c - group.chains[0] for c in chains]
            return tree.map(lambda x, has: x[here] if has else x, group.state, self.by_chain)

        return [Group(chains, part(chains), group.number) for chains in cut]

    def goes_on(self, group: Group, found: Any) -> bool:
        """Take what a round of a group made, and return whether there is another one to make."""
        if found is LOST:
            return True
        self.ready.setdefault(group.number, []).append((group.chains, found))
        self.ends.learn(group.number, found.seconds)
        group.state = found.state
        group.number += 1
        return found.error is None and not self.is_done(group)

    def is_done(self, group: Group) -> bool:
        """Whether a group has made all its rounds."""
        return group.number > 0 and self.ends.of(group.number - 1) == self.ends.end

    def may_go_on(self, group: Group) -> bool:
        """Whether a group is not too far ahead of the slowest."""
        return group.number < self.together + AHEAD

    def put_together(
        self, collectors: Iterable[Collector], progress: Progress | None, origin: int
    ) -> bool:
        """Hand out the draws of the next round, if all groups have made it."""
        ready = sorted(self.ready.get(self.together, []), key=lambda part: part[0][0])
        if sum(len(chains) for chains, _ in ready) < self.count:
            return False
        del self.ready[self.together]
        parts = [part for _, part in ready]
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
        known = {name: getattr(self.sampler.state, name) for name in self.fixed}
        self.sampler.place(of_all_chains(states, self.by_chain)._replace(**known))
        for collector in collectors:
            collector.done(self.sampler)
        if progress and progress.verbose:
            trace = draws.get("log_posterior")
            value = float(np.mean(trace[-1])) if trace is not None and len(trace) else None
            progress.update(self.sampler.state.iteration - origin, value)
        self.together += 1
        return True
