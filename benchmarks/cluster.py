"""Chains on two workers beside one process of one core; rounds; memory; and 100 workers, simulated.

`python -m benchmarks.cluster speed|memory ...` is one process of these measurements.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import numpy as np

import sgmcmc
from sgmcmc.distributed import rounds
from sgmcmc.distributed.cluster import local_cluster

from . import simulated
from .contestants.tensorflow_models import MODELS, PRIORS
from .problems import PROBLEMS
from .race import ROOT, say, spread
from .worker import Peak, memory

P1 = PROBLEMS["P1"]
CHAINS = 8
LENGTHS = {"short": 20_000, "long": 200_000}  # iterations; their difference has no start in it
ROUND = 1.0  # seconds
SHARDS = 8
ONE_CORE = {"SGMCMC_ONE_CORE": "1"}


def given(data: Any, n_iters: int) -> dict[str, Any]:
    """The arguments of a run of P1; an effective draw takes some 20 iterations."""
    return {
        "log_lik": MODELS["P1"],
        "dataset": data,
        "params": P1.start(),
        "log_prior": PRIORS["P1"],
        "minibatch_size": P1.minibatch,
        "n_iters": n_iters,
        "thin": 10,
        "n_chains": CHAINS,
        "seed": 1,
        "verbose": False,
    }


def speed(where: str, quick: bool) -> dict:
    """Seconds of a short and of a long run, effective draws of the latter, and rounds."""
    from distributed import Client

    data = P1.data(P1.check_rows if quick else None)
    lengths = {k: n // (50 if quick else 1) for k, n in LENGTHS.items()}
    if where == "alone":
        return timed(data, lengths, None)
    with local_cluster(2) as cluster, Client(cluster) as client:
        found = timed(data, lengths, client)
        return {**found, "overheads": overheads(data, lengths["long"], client, quick)}


def overheads(data: Any, n_iters: int, client: Any, quick: bool) -> list[float]:
    """The shares of time that are not spent on chains, of rounds of one second."""
    rounds.ROUND_SECONDS = ROUND
    returned = watched()
    sgmcmc.sgldcv(**given(data, n_iters), client=client)
    return [
        1 - seconds / (now - before)
        for each in returned.values()
        for (before, _), (now, seconds) in pairwise(each)
        if seconds > (0 if quick else ROUND / 2)
    ]


def timed(data: Any, lengths: dict[str, int], client: Any) -> dict:
    """Run once to compile all, then a short and a long run."""
    sgmcmc.sgldcv(**given(data, 1000), client=client)
    found: dict[str, Any] = {}
    for name, n_iters in lengths.items():
        began = time.perf_counter()
        draws = sgmcmc.sgldcv(**given(data, n_iters), client=client)
        found[name] = time.perf_counter() - began
    found["ess"] = float(min(draws.summary()["ess"]))
    found["iterations"] = lengths
    return found


def watched() -> dict[tuple[Any, int], list]:
    """When rounds return, and how long workers sampled in them, by run and group of chains."""
    found: dict[tuple[Any, int], list] = {}
    goes_on = rounds.Rounds.goes_on

    def watching(self: Any, g: int, made: Any) -> bool:
        found.setdefault((self, g), []).append((time.perf_counter(), made.seconds))
        return goes_on(self, g, made)

    rounds.Rounds.goes_on = watching  # type: ignore[method-assign]
    return found


def shard(number: int, rows: int) -> Any:
    """A function that makes a shard."""

    def load() -> dict[str, np.ndarray]:
        rng = np.random.default_rng([2, number])
        X = rng.standard_normal((rows, P1.width), np.float32)
        return {"X": X, "y": (rng.random(rows) < 0.5).astype(np.float32)}

    return load


def begin(dask_worker: Any) -> int:
    """Watch the memory of a worker; return what it has after the imports."""
    dask_worker.peak = Peak()
    dask_worker.peak.__enter__()
    return memory()


def end(dask_worker: Any) -> int:
    """The most memory."""
    dask_worker.peak.__exit__()
    return dask_worker.peak.highest


def of_memory(quick: bool) -> dict:
    """Bytes of each worker above the imports, its chains on shards of P1."""
    from distributed import Client

    rows = 2 * P1.minibatch if quick else P1.rows // SHARDS
    shards = sgmcmc.Shards([shard(i, rows) for i in range(SHARDS)])
    own = SHARDS // 2 * rows * 4 * (P1.width + 1)
    with local_cluster(2) as cluster, Client(cluster) as client:
        at_import = client.run(begin)
        sgmcmc.sgldcv(**given(shards, 1000 if quick else LENGTHS["short"]), client=client)
        found = client.run(end)
    return {
        "workers": [
            {"highest": x, "above": x - at_import[who], "own": own} for who, x in found.items()
        ]
    }


def process(*arguments: str, quick: bool) -> dict:
    """One fresh process."""
    command = [sys.executable, "-m", "benchmarks.cluster", *arguments, *["--quick"] * quick]
    env = {**os.environ, **ONE_CORE}
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def run(quick: bool) -> dict:
    """Fresh processes, in turn."""
    found: dict[str, list] = {"alone": [], "two workers": []}
    overheads: list[float] = []
    for _ in range(1 if quick else 5):
        for where in found:
            say(f"cluster: {where}")
            made = process("speed", where, quick=quick)
            overheads += made.pop("overheads", [])
            found[where].append(made)
    say("cluster: memory")
    return {
        "speed": {name: summarised(made) for name, made in found.items()},
        "overhead": spread(overheads),
        "memory": process("memory", quick=quick)["workers"],
        "simulated": simulated.run(quick),
    }


def summarised(made: list[dict]) -> dict:
    """Effective draws a second while chains run, and of a whole call."""
    steady, whole = [], []
    for x in made:
        share = 1 - x["iterations"]["short"] / x["iterations"]["long"]
        steady.append(share * x["ess"] / (x["long"] - x["short"]))
        whole.append(x["ess"] / x["long"])
    return {"while chains run": spread(steady), "whole call": spread(whole)}


if __name__ == "__main__":
    asked = sys.argv[1:]
    small = "--quick" in asked
    print(json.dumps(speed(asked[1], small) if asked[0] == "speed" else of_memory(small)))
