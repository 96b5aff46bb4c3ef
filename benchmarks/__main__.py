"""`python -m benchmarks peers [--quick]`, or another of `NAMES`."""

from __future__ import annotations

import argparse
import importlib
import json
import os
from pathlib import Path

from . import cluster_report, race, report
from .problems import PROBLEMS
from .race import ROOT, machine, say

RESULTS = ROOT / "benchmarks" / "results"
NAMES = (
    *("peers", "scaling", "memory", "first-call", "simplex", "bias", "manifold", "variance"),
    "cluster",
)


def main() -> None:
    """Measure, and write JSON, tables and plots; a quick run only shows that all of it works."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", choices=[*NAMES, "report"], help="report: tables and plots anew")
    parser.add_argument("--quick", action="store_true", help="seconds, and no results are kept")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, help="peers: only these again")
    arguments = parser.parse_args()
    race.ALONE = not arguments.quick
    if arguments.what != "report":
        module = importlib.import_module(f".{arguments.what.replace('-', '_')}", __package__)
        some = {"problems": arguments.problems} if arguments.problems else {}
        result = {"machine": machine(), **module.run(arguments.quick, **some)}
        if some and not arguments.quick:
            result = merged(json.loads((RESULTS / "peers.json").read_text()), result)
        if arguments.quick:
            print(report.TABLES[arguments.what](result))
            return
        write(RESULTS / f"{arguments.what}.json", json.dumps(result, indent=1) + "\n")
    results = {
        name: json.loads((RESULTS / f"{name}.json").read_text())
        for name in NAMES
        if (RESULTS / f"{name}.json").exists()
    }
    for page in sorted((ROOT / "benchmarks").glob("*.md")):
        write(page, report.filled(page.read_text(), results))
    if "scaling" in results:
        report.plots(results["scaling"], RESULTS)
    if "cluster" in results:
        cluster_report.plot(results["cluster"]["simulated"], RESULTS)


def merged(old: dict, new: dict) -> dict:
    """What was measured before, with what was measured again in its place."""
    return {
        key: {**value, **new.get(key, {})} if isinstance(value, dict) else value
        for key, value in old.items()
    }


def write(path: Path, text: str) -> None:
    """Write a file, and say so."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    say(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
