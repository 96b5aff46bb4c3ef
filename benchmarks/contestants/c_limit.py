"""The bare arithmetic in C, compiled here and called through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from . import Task

PACKAGES = ("numpy",)
RESAMPLED = False


def build(task: Task) -> Callable[[int], np.ndarray]:
    """SGLD on the first problem."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "limit.so")
        flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
        source = Path(__file__).with_name("limit.c")
        subprocess.run(["cc", *flags, source, "-o", library, "-lm"], check=True)
        sgld = ctypes.CDLL(str(library)).sgld
    data, beta = task.data, np.array(task.options.get("mode", task.start)["beta"])

    def pointer(x: np.ndarray) -> ctypes.c_void_p:
        return ctypes.c_void_p(x.ctypes.data)

    def call(steps: int) -> np.ndarray:
        chain = np.empty((steps, task.width), np.float32)
        sgld(
            *map(pointer, (data["X"], data["y"], beta, chain)),
            ctypes.c_int64(task.rows),
            task.width,
            task.minibatch,
            ctypes.c_float(task.stepsize),
            ctypes.c_int64(steps),
        )
        return chain

    return call
