"""The connection to a Dask cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from .. import __version__, checks
from ..cores import cores

LOCAL = "local"
WAIT = 60  # seconds for the first worker
QUIET = {  # as Dask sets them, its profiler, clock and monitors take 5 % of the time of the cores
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}
WANTED = (
    "client must be a dask.distributed.Client, the address of a scheduler such as "
    f"'tcp://host:8786', or {LOCAL!r} for workers on this machine"
)


@contextlib.contextmanager
def connected(client: Any) -> Iterator[Any]:
    """Give a client of a cluster with workers that can run samplers; close what was opened."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("client wants Dask: pip install 'sgmcmc[dask]'") from None
    with contextlib.ExitStack() as opened:
        if isinstance(client, Client):
            found = client
            if found.asynchronous:
                raise ValueError("client must not be asynchronous: pass one that waits for results")
        elif client == LOCAL:
            found = opened.enter_context(Client(opened.enter_context(local_cluster(cores()))))
        elif isinstance(client, str):
            try:
                found = opened.enter_context(Client(client))
            except (OSError, ValueError) as error:
                raise ValueError(
                    f"{WANTED}; no scheduler answers at {client!r}: {checks.summary(error)}"
                ) from None
        else:
            raise TypeError(f"{WANTED}, not {checks.described(client)}")
        try:
            found.wait_for_workers(1, timeout=WAIT)
        except TimeoutError:
            raise ValueError(f"client: its cluster has no workers, also after {WAIT} s") from None
        check_versions(found)
        yield found


def local_cluster(workers: int) -> Any:
    """Start workers of one core on this machine, where Dask takes little time from the chains."""
    import dask
    from distributed import LocalCluster

    with dask.config.set(QUIET):
        return LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address=":0",
            env={"SGMCMC_ONE_CORE": "1"},  # each worker has a core, and prepares rows on it
        )


def versions() -> dict[str, str]:
    """The versions on which draws depend."""
    return {"sgmcmc": __version__, "tensorflow": tf.__version__, "numpy": np.__version__}


def check_versions(client: Any) -> None:
    """See that workers have the versions of this process: other ones would draw other numbers."""
    here = versions()
    for address, there in client.run(versions, on_error="return").items():
        if there != here:
            said = f"has {there}" if isinstance(there, dict) else f"says {there}"
            raise ValueError(
                f"client: the worker {address} must have the packages of this process, {here}, "
                f"but {said}"
            )


def tell(client: Any, function: Callable, token: str) -> None:
    """Let all workers call a coroutine function of a token, without waiting for them.

    It does not matter if they cannot be told.
    """
    if client.status == "running":
        with contextlib.suppress(Exception):
            client.run(function, token, wait=False, on_error="ignore")


def threads(client: Any) -> int:
    """The number of tasks that the workers run at once."""
    return max(1, sum(client.nthreads().values()))
