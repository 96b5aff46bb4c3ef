"""Seconds from arrays in memory to the end of the first 10,000 steps, compilation included."""

from __future__ import annotations

from .peers import ENTRIES, enter, task
from .race import Failed, say, spread, undisturbed

STEPS = 10_000
PEERS = ("sgmcmc", "SGMCMCJax, JAX 0.4.13", "SGMCMCJax, JAX 0.10.2", "BlackJAX", "posteriors")


def run(quick: bool) -> dict:
    """Fresh processes in turn."""
    people = PEERS[:1] if quick else PEERS
    kinds = ("sgld",) if quick else ("sgld", "sgldcv")
    samples: dict[str, list[float]] = {}
    imports: dict[str, list[float]] = {}
    for k in range(1 if quick else 5):
        for kind in kinds:
            for name in people:
                if kind not in ENTRIES[name].kinds:
                    continue
                say(f"first call {k + 1}: {kind}, {name}")
                try:
                    seconds, imported = undisturbed(
                        lambda name=name, kind=kind: one(name, kind, quick), []
                    )
                except Failed as error:
                    say(str(error))
                    continue
                samples.setdefault(f"{kind} | {name}", []).append(seconds)
                imports.setdefault(name, []).append(imported)
    return {
        "first call": {key: spread(x) for key, x in samples.items()},
        "import": {key: spread(x) for key, x in imports.items()},
    }


def one(name: str, kind: str, quick: bool) -> tuple[float, float]:
    """One process."""
    size = {"call_steps": 100, "rows": 5000} if quick else {"call_steps": STEPS}
    with enter(name) as contestant:
        imported = contestant.ask("hello")["seconds"]
        answer = contestant.ask("first", **task(ENTRIES[name], "P1", kind, **size))
        return answer["seconds"], imported
