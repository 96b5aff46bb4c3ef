"""The rounds of a race: successive halving of its arms in equal times."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import numpy as np

from .arms import Arm
from .discrepancy import Discrepancy
from .program import LEAST, Program
from .table import Race, shown

DRAWS, MOST, LOSSES = 100, 500, 20  # of an arm in a round: at first, later on, and for a loss
FEWEST = 8  # if these take too long
SCORING = 0.25  # of the time of a round may be for scores


class Rounds:
    """A race in progress."""

    def __init__(
        self,
        programs: list[Program],
        scorer: Discrepancy | None,
        track: Any,
        seconds: float,
        seed: int,
        verbose: bool,
    ) -> None:
        self.programs, self.scorer, self.track = programs, scorer, track
        self.seconds, self.seed, self.verbose = seconds, seed, verbose
        self.every = [arm for program in programs for arm in program.entered]
        self.setting_up = self.spent = 0.0
        self.most = LOSSES if scorer is None else DRAWS
        self.keep = () if scorer is None else tuple(programs[0].plan.params)

    @property
    def alive(self) -> list[Arm]:
        """The arms that are in the race."""
        return [program.arms[c] for program in self.programs for c in program.alive]

    def compiled(self) -> float:
        """The seconds that it took to make and compile programs."""
        return sum(program.made_seconds for program in self.programs)

    def run(self) -> None:
        """Run round after round, until one arm is left or the time is over."""
        self.check_seconds()
        began, compiled, number = time.perf_counter(), self.compiled(), 0
        while self.alive and self.spent < self.seconds:
            number += 1
            count = rounds_of(len(self.alive))
            self.one(number, (self.seconds - self.spent) / count)
            self.spent = time.perf_counter() - began - (self.compiled() - compiled)
            if count == 1:
                break
        self.setting_up += self.compiled() - compiled
        if all(arm.diverged >= 0 for arm in self.every):
            raise ValueError(
                f"all {len(self.every)} arms diverged, in {max(a.diverged for a in self.every):,} "
                "iterations or fewer: give smaller step sizes in grid, and see that log_lik and "
                "log_prior are finite wherever chains may go"
            )

    def check_seconds(self) -> None:
        """Check that the first round has time for some iterations of each arm."""
        count = len(self.alive)
        each = [p.seconds_per_iteration / len(p.alive) for p in self.programs if p.alive]
        needed = 2 * LEAST * count * rounds_of(count) * max(each, default=0)
        needed /= 1 if self.scorer is None else 1 - SCORING
        if self.seconds < needed:
            raise ValueError(
                f"seconds must be at least {needed:.2g} for {count} arms, so that each makes "
                f"{2 * LEAST} iterations in the first of {rounds_of(count)} rounds, not "
                f"{self.seconds:g}: give more, or a smaller grid"
            )

    def one(self, number: int, seconds: float) -> None:
        """Run all arms for a round of some seconds, score them, and leave the better half."""
        entered, scored = self.alive, []
        running = seconds if self.scorer is None else (1 - SCORING) * seconds
        for program in self.programs:
            if number > 1:
                seeds = np.random.SeedSequence([self.seed, number])
                share = running * len(program.alive) / len(entered)
                program.shrink(share, int(seeds.generate_state(1, np.uint64)[0]))
            share = running * len(program.alive) / len(entered)
            if not program.alive:
                continue
            kept = program.round(share, self.most, self.keep, self.track)
            scored += [(program.arms[c], kept.of(c)) for c in program.alive]
        self.score(scored, seconds)
        for arm in self.alive:
            arm.rounds = number
        order = sorted(self.alive, key=lambda arm: arm.score)
        left = order[: (len(order) + 1) // 2]
        if self.verbose:
            began = self.every if number == 1 else entered
            gone = sum(arm.diverged >= 0 for arm in began)
            said = f"tune: round {number}, {len(began)} arms" + f", {gone} diverged" * (gone > 0)
            if order:
                said += f"; best {described(order[0])}: {order[0].score:.4g}"
            print(said, file=sys.stderr)
        if len(order) > 1:
            for program in self.programs:
                program.drop([c for c in program.alive if program.arms[c] not in left])

    def score(self, scored: list[tuple[Arm, Any]], seconds: float) -> None:
        """Score all arms by their draws, and see that this does not take too long."""
        if not scored:
            return
        began = time.perf_counter()
        if self.scorer is None:
            scores = [float(np.mean(draws["track"]["loss"])) for _, draws in scored]
        else:
            scores = self.scorer.scores([draws["params"] for _, draws in scored])
        for (arm, _), value in zip(scored, scores):
            arm.score = value if np.isfinite(value) else np.inf
        took, allowed = time.perf_counter() - began, SCORING * seconds
        if took > allowed:
            self.most = max(FEWEST, int(self.most * allowed / took))
        elif self.scorer is not None:
            self.most = min(MOST, int(self.most * min(2, np.sqrt(allowed / took))))

    def table(self) -> Race:
        """Return the table, the best arm first."""
        order = sorted(self.every, key=lambda arm: (arm.diverged >= 0, -arm.rounds, arm.score))
        names = list(order[0].settings)
        columns = {name: column([arm.settings[name] for arm in order]) for name in names}
        columns |= {
            "rounds": np.array([arm.rounds for arm in order]),
            "score": np.array([arm.score for arm in order]),
            "iterations": np.array([arm.iterations for arm in order]),
            "diverged": np.array([arm.diverged for arm in order]),
        }
        best, remarks = order[0], []
        like = [
            arm.steps[0]
            for arm in self.every
            if all(arm.settings[k] == best.settings[k] for k in names if k != "stepsize")
        ]
        if len(like) > 2 and best.steps[0] in (min(like), max(like)):
            end = "smallest" if best.steps[0] == min(like) else "largest"
            remarks.append(f"[the best step size is the {end} one of its grid: try more beyond it]")
        criterion = "loss" if self.scorer is None else "discrepancy"
        return Race(columns, best.settings, criterion, self.spent, self.setting_up, remarks)


def rounds_of(arms: int) -> int:
    """The number of rounds until one of so many arms is left."""
    return max(1, math.ceil(math.log2(max(1, arms))))


def described(arm: Arm) -> str:
    """The settings of an arm."""
    return ", ".join(f"{k}={shown(k, v)}" for k, v in arm.settings.items())


def column(values: list) -> np.ndarray:
    """A column of numbers, or of other objects."""
    if any(isinstance(v, (dict, str, type(None))) for v in values):
        out = np.empty(len(values), object)
        out[:] = values
        return out
    return np.array(values)
