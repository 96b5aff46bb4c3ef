"""Contestants as long-lived processes, asked in turn; disturbed samples are taken again."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
VENVS = Path(os.environ.get("SGMCMC_BENCHMARK_VENVS", ROOT / "benchmarks" / ".venvs"))
QUIET = 0.04  # of one core: what others may use during a sample
PATIENCE = 30  # disturbed samples in a row
ALONE = True  # whether measurements are taken again where others used the machine


class Failed(RuntimeError):
    """A contestant could not do what it was asked."""


def environment(requirements: str | None) -> str:
    """The interpreter of a peer's own environment, made on first use; ours for None."""
    if requirements is None:
        return sys.executable
    folder, wanted = VENVS / requirements, ROOT / "benchmarks/requirements" / f"{requirements}.txt"
    python, stamp = folder / "bin" / "python", folder / "made-from.txt"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        say(f"making the environment of {requirements}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        options = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([python, "-m", "pip", "install", *options, "-r", wanted], check=True)
        stamp.write_text(wanted.read_text())
    return str(python)


class Contestant:
    """A process that answers questions (`benchmarks.worker`)."""

    def __init__(
        self,
        name: str,
        package: str,
        requirements: str | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self.name, self.package = name, package
        self.process = subprocess.Popen(
            [environment(requirements), "-m", "benchmarks.worker", package],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("BENCHMARKS_DEBUG") else subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
        )

    def send(self, question: str, **arguments: Any) -> None:
        """Ask, and do not wait."""
        self.process.stdin.write(json.dumps({"ask": question, **arguments}) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict:
        """The answer."""
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the process ended"}
        if "error" in answer:
            raise Failed(f"{self.name}: {answer['error']}")
        return answer

    def ask(self, question: str, **arguments: Any) -> dict:
        """Ask, and wait for the answer."""
        self.send(question, **arguments)
        return self.receive()

    def seconds_used(self) -> float:
        """Processor time of the process so far."""
        return cpu_seconds(Path(f"/proc/{self.process.pid}/stat"))

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def say(message: str) -> None:
    """A line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


def cpu_seconds(stat: Path) -> float:
    """Processor time of a process, its children that ended included."""
    fields = stat.read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def machine_seconds() -> float:
    """Processor time that the whole machine has spent on something, stolen time included."""
    user, nice, system, _, _, irq, soft, steal = map(
        int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    )
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def undisturbed(action: Callable[[], Any], contestants: Sequence[Contestant]) -> Any:
    """The result of the action, repeated until nothing else used the machine during it.

    Without /proc nothing is known of others, and the first result is taken.
    """
    if not (ALONE and Path("/proc/stat").exists()):
        return action()

    def others() -> float:
        ours = sum(c.seconds_used() for c in contestants) + cpu_seconds(Path("/proc/self/stat"))
        return machine_seconds() - ours

    for _ in range(PATIENCE):
        before, clock = others(), time.perf_counter()
        result = action()
        spent = others() - before
        if spent <= QUIET * (time.perf_counter() - clock) + 0.03:  # three ticks of the counters
            return result
        say(f"disturbed: others used {spent:.2f} s; once more")
    raise Failed(f"something else has been using this machine for {PATIENCE} samples")


def spread(samples: Sequence[float]) -> dict[str, Any]:
    """Median, and the lowest and the highest."""
    return {
        "median": float(np.median(samples)),
        "low": float(min(samples)),
        "high": float(max(samples)),
        "samples": len(samples),
    }


def race(
    contestants: Sequence[Contestant], seconds: float, rounds: int, **more: Any
) -> dict[str, dict]:
    """Seconds a step of each, in turn, so many times."""
    samples: dict[str, list[float]] = {c.name: [] for c in contestants}
    for _ in range(rounds):
        for c in contestants:
            answer = undisturbed(lambda c=c: c.ask("time", seconds=seconds, **more), [c])
            samples[c.name].append(answer["step"])
    return {name: spread(found) for name, found in samples.items()}


def machine() -> dict[str, Any]:
    """Where and when this was measured."""
    model, memory = platform.processor() or platform.machine(), 0
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((x.partition(":")[2].strip() for x in lines if "model name" in x), model)
        memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }
