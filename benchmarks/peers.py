"""Microseconds a step beside the peers and the bare limit, and whether the draws are right."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import reference
from .problems import KINDS, OF_P1, PROBLEMS
from .race import Contestant, Failed, race, say, spread, undisturbed

IN_ALL = tuple(f"{kind}{cv}" for cv in ("", "cv") for kind in KINDS)
ALL = (*IN_ALL, *OF_P1)
OF_SGMCMCJAX = (*IN_ALL, "psgld")  # its BAOAB (0.2.13) leaves the parameters where they start


class Entry(NamedTuple):
    """A contestant: its file in `contestants`, its environment, and what it can do."""

    package: str
    requirements: str | None = None
    kinds: tuple[str, ...] = ALL
    problems: tuple[str, ...] = ("P1", "P2", "P3")
    options: dict[str, Any] = {}  # noqa: RUF012
    env: dict[str, str] = {}  # noqa: RUF012
    call_steps: int = 0  # where those of the problem would take long, and a call costs nothing


FIRST = {"kinds": ("sgld",), "problems": ("P1",)}
ENTRIES = {
    "sgmcmc": Entry("ours"),
    "SGMCMCJax, JAX 0.4.13": Entry("sgmcmcjax", "sgmcmcjax", OF_SGMCMCJAX),
    "SGMCMCJax, JAX 0.10.2": Entry("sgmcmcjax", "jax", OF_SGMCMCJAX),
    "BlackJAX": Entry("blackjax", "jax", IN_ALL),
    "posteriors": Entry("posteriors", "posteriors", KINDS, call_steps=500),
    "C loop": Entry("c_limit", **FIRST),
    "sgmcmc without XLA": Entry("ours", **FIRST, options={"jit": False}),
    "sgmcmc, independent minibatches": Entry(
        "ours", **FIRST, options={"minibatches": "independent"}
    ),
    "sgmcmc on one core": Entry("ours", **FIRST, env={"SGMCMC_ONE_CORE": "1"}),
    "TensorFlow, a tf.function a step": Entry("naive", **FIRST, call_steps=2000),
}
SIDE_BY_SIDE = ("sgmcmc", "sgmcmc on one core", "SGMCMCJax, JAX 0.4.13")
QUICK_KINDS = ("sgld", "sgnhtcv")
CHECK_STEPS = {"P1": 60_000, "P2": 300_000, "P3": 100}


def enter(name: str) -> Contestant:
    """A new process of a contestant."""
    entry = ENTRIES[name]
    return Contestant(name, entry.package, entry.requirements, entry.env)


def task(entry: Entry, problem: str, kind: str, **more: Any) -> dict[str, Any]:
    """What to build."""
    plain = kind.removesuffix("cv")
    options = {**entry.options, **more.pop("options", {})}
    asked = {"problem": problem, "kind": plain, "cv": plain != kind, "options": options}
    if entry.call_steps and problem != "P3":
        asked["call_steps"] = entry.call_steps
    return {**asked, **more}


def check(contestant: Contestant, entry: Entry, problem: str, kind: str, quick: bool) -> dict:
    """Compare draws with the posterior."""
    known = PROBLEMS[problem]
    mode = None
    if problem != "P3":
        mean, cov = reference.posterior(problem, known.check_rows)
        names = {"P1": ["beta"], "P2": ["t1", "t2"]}[problem]
        mode = {k: part.tolist() for k, part in zip(names, np.split(mean, len(names)))}
    few = {"call_steps": 20} if quick else {}
    contestant.ask("build", mode=mode, **task(entry, problem, kind, checking=True, **few))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "draws.npy")
        steps, seconds = (0, 0) if quick else (CHECK_STEPS[problem], 20)
        answer = contestant.ask("draw", path=str(path), steps=max(steps, 1), seconds=seconds)
        draws = np.load(path)
    if problem == "P3":
        plain, h = kind.removesuffix("cv"), known.stepsize(kind.removesuffix("cv"), known.rows)
        verdict = reference.untouched(draws, answer["steps"], plain, h, answer["resampled"])
    else:
        verdict = reference.compare(draws[len(draws) // 10 :], mean, cov)
    return {**verdict._asdict(), "wrong": bool(verdict.wrong), "steps": answer["steps"]}


def run(quick: bool, problems: Sequence[str] = tuple(PROBLEMS)) -> dict:
    """All of it, or some of the problems."""
    seconds, rounds = (0.05, 2) if quick else (1.0, 5)
    result: dict[str, Any] = {"step": {}, "check": {}, "versions": {}}
    people: dict[str, Contestant] = {}
    try:
        for name, entry in ENTRIES.items():
            if quick and entry.requirements:
                continue
            people[name] = enter(name)
            result["versions"][name] = people[name].ask("hello")["versions"]
        for problem in problems:
            kinds = ALL if problem == "P1" else IN_ALL
            for kind in QUICK_KINDS if quick else kinds:
                one(problem, kind, people, result, seconds, rounds, quick)
        if not quick and "P1" in problems:
            for name in SIDE_BY_SIDE:
                people[name].ask("build", **task(ENTRIES[name], "P1", "sgld"))
            result["side by side"] = side_by_side(people, seconds, rounds)
    finally:
        for contestant in people.values():
            contestant.close()
    return result


def one(
    problem: str,
    kind: str,
    people: dict[str, Contestant],
    result: dict,
    seconds: float,
    rounds: int,
    quick: bool,
) -> None:
    """One problem, one sampler, all contestants."""
    say(f"{problem} {kind}")
    key, ready = f"{problem} {kind}", []
    checks = result["check"].setdefault(key, {})
    for name, contestant in people.items():
        entry = ENTRIES[name]
        if problem in entry.problems and kind in entry.kinds:
            try:
                checks[name] = check(contestant, entry, problem, kind, quick)
                few = {"rows": 1000, "call_steps": 20} if quick else {}
                contestant.ask("build", **task(entry, problem, kind, **few))
                contestant.ask("time", seconds=0)  # compiles, and fills caches
                ready.append(contestant)
            except Failed as error:
                say(str(error))
                checks[name] = {"failed": str(error)}
    result["step"][key] = race(ready, seconds, rounds)
    for contestant in ready:
        contestant.ask("forget")


def side_by_side(people: dict[str, Contestant], seconds: float, rounds: int) -> dict:
    """Two processes of the same contestant at once: seconds a step of the slower."""
    found = {}
    for name in SIDE_BY_SIDE:
        with enter(name) as second:
            both = people[name], second
            second.ask("build", **task(ENTRIES[name], "P1", "sgld"))

            def sample(both: tuple = both) -> float:
                for c in both:
                    c.send("time", seconds=seconds)
                return max([c.receive()["step"] for c in both])

            sample()
            found[name] = spread([undisturbed(sample, both) for _ in range(rounds)])
    return found
