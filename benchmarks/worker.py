"""The process of one contestant: `python -m benchmarks.worker NAME`, a line of JSON a question."""

from __future__ import annotations

import contextlib
import importlib
import json
import mmap
import os
import sys
import threading
import time
import traceback
from importlib.metadata import version
from typing import Any

import numpy as np

from .contestants import Task
from .problems import PROBLEMS


def memory() -> int:
    """Anonymous memory now, in bytes; 0 where the system does not tell."""
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def forget_files(maps: dict[str, np.memmap]) -> None:
    """Let the system forget what it has read of memory-mapped files."""
    for array in maps.values():
        base = array.base
        while not isinstance(base, mmap.mmap):
            base = base.base
        base.madvise(mmap.MADV_DONTNEED)
        with open(array.filename, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Peak(threading.Thread):
    """Watches the anonymous memory of this process."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.highest, self.over = 0, threading.Event()

    def run(self) -> None:
        """Look every few milliseconds."""
        while not self.over.wait(0.005):
            self.highest = max(self.highest, memory())

    def __enter__(self) -> Peak:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.join()


class Worker:
    """Answers questions about one contestant."""

    def __init__(self, name: str) -> None:
        began = time.perf_counter()
        self.package = importlib.import_module(f".contestants.{name}", __package__)
        self.imported = time.perf_counter() - began
        self.at_import = memory()
        self.call = self.steps = self.task = None

    def hello(self) -> dict:
        """Versions, and what the import cost."""
        versions = {name: version(name) for name in self.package.PACKAGES}
        return {"versions": versions, "seconds": self.imported}

    def prepare(self, call_steps: int = 0, mode: dict | None = None, **task: Any) -> None:
        """Make the data."""
        if mode:
            task.setdefault("options", {})["mode"] = {
                k: np.asarray(v, np.float32) for k, v in mode.items()
            }
        self.call = self.task = None  # free what came before
        self.task = Task(**task)
        self.steps = call_steps or PROBLEMS[self.task.problem].call_steps

    def build(self, **task: Any) -> dict:
        """Set a sampler up, without its first call."""
        self.prepare(**task)
        self.call = self.package.build(self.task)
        return {}

    def first(self, **task: Any) -> dict:
        """From the arrays to the end of the first call: seconds, and the most memory on the way.

        The memory is anonymous, in bytes above what was in use after the import; so many of them
        are the data, and the draws.
        """
        self.prepare(**task)
        with Peak() as peak:
            began = time.perf_counter()
            self.call = self.package.build(self.task)
            draws = self.call(self.steps)
            seconds = time.perf_counter() - began
        held = [] if self.task.disk else self.task.data.values()
        return {
            "seconds": seconds,
            "memory": peak.highest - self.at_import,
            "data": sum(x.nbytes for x in held),
            "draws": draws.nbytes if self.task.stored else 0,
        }

    def time(self, seconds: float, cold: bool = False) -> dict:
        """Calls for about so long: seconds a step. Before `cold` ones, files leave the memory."""
        spent, calls = 0.0, 0
        while not calls or spent < seconds:
            if cold:
                forget_files(self.task.data)
            began = time.perf_counter()
            self.call(self.steps)
            spent, calls = spent + time.perf_counter() - began, calls + 1
        return {"step": spent / calls / self.steps}

    def draw(self, path: str, steps: int, seconds: float) -> dict:
        """The chain of so many steps, or as many as fit in the time, in a file."""
        began, parts, count = time.perf_counter(), [], 0
        while count < steps and (not parts or time.perf_counter() - began < seconds):
            parts.append(self.call(self.steps))
            count += self.steps
        chain = np.concatenate(parts) if self.task.stored else parts[-1]
        np.save(path, chain)
        return {"steps": count, "resampled": self.package.RESAMPLED}

    def forget(self) -> dict:
        """Free the sampler."""
        self.call = self.task = None
        return {}


def main() -> None:
    """Answer questions until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what packages print is no answer
    worker = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            worker = worker or Worker(sys.argv[1])
            answer = getattr(worker, question.pop("ask"))(**question)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:500]}"}
            if os.environ.get("BENCHMARKS_DEBUG"):
                traceback.print_exc()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
