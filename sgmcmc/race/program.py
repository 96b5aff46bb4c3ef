"""Arms that differ in step size alone, as chains of one compiled program."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import tree
from ..assembly import set_up
from ..checks import Tracked
from ..divergence import ChainDiverged
from ..plan import Plan
from ..sampler import Sampler, assemble, some_chains
from .arms import Arm

LEAST = 10  # draws in a round's later half, and iterations before them
PILOT, PILOT_SECONDS = 32, 0.05  # iterations and time by which the program's speed is measured


class Kept:
    """Collects draws by the iteration from which they are."""

    def __init__(self) -> None:
        self.base, self.thin = 0, 1
        self.rows: dict[int, Any] = {}

    def add(self, at: int, draws: Mapping[str, Any]) -> None:
        """Store draws with the parameters and what is tracked."""
        some = {k: draws[k] for k in ("params", "track") if k in draws}
        count = len(tree.leaves(draws)[0])
        for i in range(count):
            iteration = self.base + (at + i + 1) * self.thin
            self.rows[iteration] = tree.map(lambda x, i=i: x[i].copy(), some)

    def done(self, sampler: Sampler) -> None:
        """There is nothing to do."""

    def back_to(self, iteration: int) -> None:
        """Forget draws from after an iteration."""
        self.rows = {t: row for t, row in self.rows.items() if t <= iteration}

    def of(self, chain: int) -> Any:
        """The draws of one chain, (draws, ...)."""
        return tree.map(lambda *x: np.stack([a[chain] for a in x]), *self.rows.values())


class Program:
    """Arms that differ in step size alone, as chains of one compiled program.

    `arms` has the arm of each chain, None if it is out of the race. Such a chain goes on with the
    state and the step size of the arm with the smallest, so that the program stays as it is.
    """

    def __init__(self, plan: Plan, arms: list[Arm]) -> None:
        self.plan, self.entered = plan, list(arms)
        self.arms: list[Any] = list(arms)
        self.seconds_per_iteration = np.inf
        self.compile_seconds = self.made_seconds = 0.0
        self.seconds_per_draw: float | None = None  # besides those of its iterations
        began = time.perf_counter()
        plan = plan._replace(n_chains=len(arms), schedule=self.columns(arms))
        self.start(set_up(plan), began)

    @property
    def alive(self) -> list[int]:
        """The chains whose arms are in the race."""
        return [c for c, arm in enumerate(self.arms) if arm is not None]

    @staticmethod
    def columns(arms: list[Arm]) -> list[np.ndarray]:
        """The step sizes of all chains, by parameter."""
        return list(np.array([arm.steps for arm in arms], float).T)

    def start(self, sampler: Sampler, began: float) -> None:
        """Compile the program, and measure its speed."""
        self.sampler, self.seconds_per_draw = sampler, None
        self.forward(1)
        self.compile_seconds = time.perf_counter() - began
        self.made_seconds += self.compile_seconds
        count, seconds = 1, 0.0
        while self.alive and seconds < (PILOT_SECONDS if count >= PILOT else 10 * PILOT_SECONDS):
            count *= 2
            seconds = self.forward(count)
        self.seconds_per_iteration = seconds / count

    def forward(
        self,
        n_iters: int,
        kept: Kept | None = None,
        keep: tuple[str, ...] = (),
        thin: int = 1,
        track: Mapping[str, Tracked] | None = None,
    ) -> float:
        """Advance all chains, and return the seconds. Arms that diverge leave the race."""
        began, sampler = time.perf_counter(), self.sampler
        first = sampler.state.iteration
        while self.alive and sampler.state.iteration < first + n_iters:
            left = first + n_iters - sampler.state.iteration
            if kept is not None:
                kept.base, kept.thin = sampler.state.iteration, thin
            try:
                sampler.run(left, [kept] if kept else (), keep, 0, thin, track if kept else None)
            except ChainDiverged as error:
                self.diverged(error)
                if kept is not None:
                    kept.back_to(sampler.state.iteration)
        for c in self.alive:
            self.arms[c].iterations = sampler.state.iteration
        return time.perf_counter() - began

    def diverged(self, error: ChainDiverged) -> None:
        """Take the arms that diverged out of the race."""
        for c in error.chains:
            if self.arms[c] is not None:
                self.arms[c].diverged = self.arms[c].iterations = error.iteration
        self.drop(error.chains)

    def drop(self, chains: Any) -> None:
        """Take the arms of some chains out of the race. The chains go on as copies of another."""
        for c in chains:
            self.arms[c] = None
        if not self.alive:
            return
        like = min(self.alive, key=lambda c: sum(self.arms[c].steps))
        source = [like if arm is None else c for c, arm in enumerate(self.arms)]
        self.sampler.state = some_chains(self.sampler.state, source)
        schedule = self.columns([self.arms[c] for c in source])
        feeder = self.sampler.feeder
        feeder.reschedule([*schedule, *feeder.schedule[len(schedule) :]])

    def shrink(self, seconds: float, seed: int) -> None:
        """Make a program of the arms in the race alone, if that saves more than it takes.

        `seconds` is for how long they are to run next. The random numbers are others from here on.
        """
        alive, old = self.alive, self.sampler
        if not alive or seconds * (1 - len(alive) / len(self.arms)) <= self.compile_seconds:
            return
        began, plan, engine = time.perf_counter(), self.plan, old.engine
        state = some_chains(old.state, alive)
        self.arms = [self.arms[c] for c in alive]
        sampler = assemble(
            *(engine.model, engine.estimator, engine.dynamics, engine.position(state.chain)),
            *(plan.source, plan.n, self.columns(self.arms), seed),
            estimator_state=state.estimator,
            gibbs=plan.gibbs,
            temperature=plan.temperature,
            n_chains=len(alive),
            minibatches=plan.minibatches,
            shared_minibatches=plan.shared_minibatches,
            settings=old.settings,
            jit=plan.jit,
            verbose=False,
        )
        sampler.state = state
        old.feeder.close()
        self.start(sampler, began)

    def round(self, seconds: float, most: int, keep: tuple, track: Any) -> Kept:
        """Run for some seconds, and return at most about so many draws from the later half."""
        if self.seconds_per_draw is None:  # compile what follows the draws, too
            self.made_seconds += self.forward(1, Kept(), keep, 1, track)
            self.seconds_per_draw = max(
                0.0, self.forward(1, Kept(), keep, 1, track) - self.seconds_per_iteration
            )
        n = max(LEAST, int(seconds / 2 / self.seconds_per_iteration))
        took = self.forward(n)
        self.seconds_per_iteration, left = took / n, seconds - took
        if self.seconds_per_draw > 0:
            most = min(most, max(LEAST, int(left / 2 / self.seconds_per_draw)))
        n = max(LEAST, int((left - most * self.seconds_per_draw) / self.seconds_per_iteration))
        thin, kept = max(1, n // most), Kept()
        n = n // thin * thin
        took = self.forward(n, kept, keep, thin, track)
        if kept.rows:
            over = took - n * self.seconds_per_iteration
            self.seconds_per_draw = max(0.0, over / len(kept.rows))
        return kept
