"""Cost a step against N, n, d and the number of chains; error against time."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

from .race import ROOT, Contestant, race, say, spread, undisturbed

ROWS = (10**4, 10**5, 10**6, 10**7)
MINIBATCHES = (50, 150, 500, 1500, 5000, 15_000)
WIDTHS = (2, 5, 10, 25, 54, 100, 250, 500)
CHAINS = (1, 2, 4, 8, 16, 32)
GAUSSIAN_ROWS = (10**3, 10**4, 10**5, 10**6)
METHODS = ("sgld", "sgldcv", "nuts")


def run(quick: bool) -> dict:
    """All curves: points are (what varies, seconds a step, ...)."""
    seconds, rounds = (0.02, 1) if quick else (0.5, 5)

    def few(x: tuple) -> tuple:
        return x[:1] if quick else x

    with tempfile.TemporaryDirectory() as folder, Contestant("sgmcmc", "ours") as ours:

        def cost(kind: str = "sgld", cold: bool = False, **settings: Any) -> dict:
            say(f"scaling: {kind} {settings}{' cold' * cold}")
            if settings.pop("disk", False):
                settings["disk"] = folder
            if quick:
                settings["rows"] = ROWS[0]
            cv = kind.endswith("cv")
            asked = {"problem": "P1", "kind": kind.removesuffix("cv"), "cv": cv, **settings}
            ours.ask("build", **{"call_steps": 200 if quick else 10_000, **asked})
            ours.ask("time", seconds=0)
            return race([ours], seconds, rounds, cold=cold and not quick)["sgmcmc"]

        ten = {"width": 10, "minibatch": 500}
        memory, disk = few(ROWS), few(ROWS[2:])
        curves = {
            "rows": {
                "sgld": [(N, cost(rows=N, **ten)) for N in memory],
                "sgldcv": [(N, cost("sgldcv", rows=N, **ten)) for N in memory],
                "sgld, on disk": [(N, cost(rows=N, disk=True, **ten)) for N in disk],
            },
            "ten million rows of 54": {
                "in memory": [(ROWS[-1], cost(rows=ROWS[-1]))],
                "on disk": [(ROWS[-1], cost(rows=ROWS[-1], disk=True))],
                "on disk, not read before": [(ROWS[-1], cost(cold=True, rows=ROWS[-1], disk=True))],
            },
            "minibatch": {
                kind: [(n, cost(kind, minibatch=n)) for n in few(MINIBATCHES)]
                for kind in ("sgld", "sgldcv")
            },
            "width": {
                kind: [(d, cost(kind, rows=100_000, width=d)) for d in few(WIDTHS)]
                for kind in ("sgld", "sgldcv")
            },
            "chains": {
                name: [
                    (c, per_chain(cost(chains=c, call_steps=1000, options=options), c))
                    for c in few(CHAINS)
                ]
                for name, options in (
                    ("minibatches of their own", {}),
                    ("shared minibatches", {"shared_minibatches": True}),
                )
            },
        }
    return {"curves": curves, "error": error_against_time(quick)}


def per_chain(cost: dict, chains: int) -> dict:
    """Seconds for one step of one chain."""
    return {k: v if k == "samples" else v / chains for k, v in cost.items()}


def error_against_time(quick: bool) -> dict:
    """KL to the exact posterior, and run time, of Gaussian data: thesis, Figure 4.2.1."""
    found = {}
    for N in GAUSSIAN_ROWS[:1] if quick else GAUSSIAN_ROWS:
        for method in METHODS:
            say(f"error against time: {method}, N = {N:,}")
            runs = [
                undisturbed(lambda seed=seed, N=N, m=method: gaussian(m, N, seed, quick), [])
                for seed in range(1 if quick else 5)
            ]
            found[f"{method} | {N}"] = {
                key: spread([x[key] for x in runs]) for key in ("seconds", "kl")
            }
    return found


def gaussian(method: str, rows: int, seed: int, quick: bool) -> dict:
    """One fresh process."""
    command = [sys.executable, "-m", "benchmarks.gaussian", method, str(rows), str(seed)]
    command += ["100"] if quick else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def chosen(curve: list) -> tuple[np.ndarray, np.ndarray]:
    """What varies, and the median in microseconds."""
    return np.array([x for x, _ in curve]), np.array([1e6 * y["median"] for _, y in curve])
