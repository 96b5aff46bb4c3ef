"""The most anonymous memory (RssAnon) of a first run, above import, data and draws."""

from __future__ import annotations

import tempfile
from typing import Any

from .peers import ENTRIES, enter, task
from .race import Failed, say, spread

STEPS = 10_000
CASES: dict[str, dict[str, Any]] = {
    "P1": {},
    "P1, control variates": {"kind": "sgldcv"},
    "P1, 16 chains": {"chains": 16},
    "P1, 2,000 chains of 100 rows": {"chains": 2000, "minibatch": 100, "steps": 200},
    "10 million rows of 54 on disk": {"rows": 10_000_000, "disk": True},
    "10 million rows of 54 on disk, control variates": {
        "rows": 10_000_000,
        "disk": True,
        "kind": "sgldcv",
    },
}
PEERS = ("SGMCMCJax, JAX 0.4.13", "SGMCMCJax, JAX 0.10.2", "BlackJAX", "posteriors")


def run(quick: bool) -> dict:
    """Fresh processes, one after the other."""
    cases = {"quick": {"rows": 5000}} if quick else CASES
    found: dict[str, dict] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case, settings in cases.items():
            peers = PEERS if case == "P1" else PEERS[:1] if case == "P1, control variates" else ()
            for name in ("sgmcmc", *peers):
                say(f"memory: {case}, {name}")
                found[f"{case} | {name}"] = one(name, dict(settings), folder, quick)
    return {"memory": found}


def one(name: str, settings: dict, folder: str, quick: bool) -> dict:
    """Median of three processes, in bytes."""
    entry, samples, answer = ENTRIES[name], [], {}
    steps = settings.pop("steps", 100 if quick else STEPS)
    kind = settings.pop("kind", "sgld")
    if settings.get("disk"):
        settings["disk"] = folder
    for _ in range(1 if quick else 3):
        with enter(name) as contestant:
            try:
                asked = task(entry, "P1", kind, call_steps=steps, **settings)
                answer = contestant.ask("first", **asked)
            except Failed as error:
                return {"failed": str(error)}
        samples.append(answer["memory"] - answer["data"] - answer["draws"])
    return {**spread(samples), "data": answer["data"], "draws": answer["draws"]}
