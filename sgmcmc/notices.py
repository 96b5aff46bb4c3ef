"""Imports TensorFlow without the notices that it writes on every start.

`TF_CPP_MIN_LOG_LEVEL=1` silences those of level INFO, but TensorFlow reads it after it has written
some. The standard error stream is therefore held back during the import, and what is then written
to it leaves out the lines of NOTICES. With `TF_CPP_MIN_LOG_LEVEL=0`, all is shown as it comes.
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
    """Hold back what is written to the standard error stream, and then write all but notices.

    If the process crashes meanwhile, what it wrote is lost, but Python tells where it was.
    """
    try:
        stream = os.dup(2)
    except OSError:  # there is none
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
    """Whether there is a CUDA driver on this machine."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


if "tensorflow" not in sys.modules and os.environ.setdefault(LEVEL, "1") != "0":
    with held_back():
        import tensorflow as tf

        if not has_cuda():
            tf.config.list_physical_devices()  # else the first tensor would complain of that
