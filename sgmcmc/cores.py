"""Cores, threads and processes: how many cores a sampler uses, and where it cannot run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import tensorflow as tf

Method = TypeVar("Method", bound=Callable)

forked_after_use = False  # True if this process was forked after TensorFlow had been used


def one_core() -> bool:
    """Return True if SGMCMC_ONE_CORE asks for one core, and limit TensorFlow to one as well.

    A sampler then fills a block, uses it, and fills the next one. With more cores, the next block
    is filled while the present one is used. If the variable is not set, the cores that the process
    may use decide.
    """
    asked = os.environ.get("SGMCMC_ONE_CORE", "1" if cores() == 1 else "0")
    if asked not in ("0", "1"):
        raise ValueError(f"the environment variable SGMCMC_ONE_CORE must be 0 or 1, not {asked!r}")
    if asked == "1":
        try:
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        except RuntimeError:
            warnings.warn(
                "SGMCMC_ONE_CORE=1 cannot limit TensorFlow, which was in use before: import sgmcmc "
                "before the first tensor is made",
                stacklevel=2,
            )
    return asked == "1"


def cores() -> int | None:
    """Return the number of cores that this process may use, if that is known."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def in_use() -> bool:
    """True if TensorFlow has started its threads, so that their number can no longer be set."""
    threading = tf.config.threading
    count = threading.get_inter_op_parallelism_threads()
    try:
        threading.set_inter_op_parallelism_threads(count + 1)
    except RuntimeError:
        return True
    threading.set_inter_op_parallelism_threads(count)
    return False


def after_fork() -> None:
    """Remember, in a forked process, whether TensorFlow has lost its threads by the fork."""
    global forked_after_use
    forked_after_use = forked_after_use or in_use()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=after_fork)


def check_fork() -> None:
    """Raise an error if a sampler would wait for ever for threads that a fork has left behind."""
    if forked_after_use:
        raise RuntimeError(
            "samplers cannot be made or run here: this process was forked from one in which "
            "TensorFlow was in use, whose threads a fork leaves behind. Start processes by the "
            "method 'spawn' or 'forkserver' of multiprocessing, and make the sampler in them"
        )


def one_at_a_time(method: Method) -> Method:
    """Make a method raise an error if it is called while it runs.

    Its object has a lock called `running`.
    """

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.running.acquire(blocking=False):
            raise RuntimeError(
                "this sampler is running already, in another thread or in a function that its run "
                "calls: wait until that run is over, or make another sampler by the *_setup"
            )
        try:
            return method(self, *args, **kwargs)
        finally:
            self.running.release()

    return call  # type: ignore[return-value]  # `wraps` keeps the signature


ONE_CORE = one_core()
