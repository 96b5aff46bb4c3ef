"""Imports TensorFlow without the notices that it writes on every start.

`TF_CPP_MIN_LOG_LEVEL=1` silences notices of level INFO, but TensorFlow has already written some
when it reads this variable. Therefore the standard error stream is held back during the import, and
written afterwards without the lines of NOTICES. With `TF_CPP_MIN_LOG_LEVEL=0`, everything is shown
at once.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

LEVEL = "TF_CPP_MIN_LOG_LEVEL"
NOTICES = re.compile(
    r"All log messages before absl::InitializeLog"
    r"|oneDNN custom operations are on"
    r"|Could not find cuda drivers on your machine"
    r"|Unable to register cu(FFT|DNN|BLAS) factory"  # one library is linked in twice
    r"|computation placer already registered"
    r"|failed call to cuInit: .*\(303\)"  # there is no CUDA driver
)


@contextmanager
def held_back() -> Iterator[None]:
    """Hold back the standard error stream, and write it afterwards without the notices.

    If the process crashes in the meantime, what it wrote is lost, but Python reports where it was.
    """
    try:
        stream = os.dup(2)
    except OSError:  # there is no standard error stream
        yield
        return
    watched = faulthandler.is_enabled()
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        if not watched:
            faulthandler.enable(stream)
        try:
            yield
        finally:
            if not watched:
                faulthandler.disable()
            os.dup2(stream, 2)
            os.close(stream)
            kept.seek(0)
            for line in kept.read().decode(errors="replace").splitlines(keepends=True):
                if not NOTICES.search(line):
                    os.write(2, line.encode())


def has_cuda() -> bool:
    """True if there is a CUDA driver on this machine."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


if "tensorflow" not in sys.modules and os.environ.setdefault(LEVEL, "1") != "0":
    with held_back():
        import tensorflow as tf

        if not has_cuda():
            tf.config.list_physical_devices()  # otherwise the first tensor would write a notice
