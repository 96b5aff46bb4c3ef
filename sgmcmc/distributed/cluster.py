"""The connection to a Dask cluster."""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Mapping
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
CLOSED = "closing", "closed"
NOT_STARTED = (
    f"client={LOCAL!r}: the workers did not start. In a script, the call of the sampler must stand "
    'under the line  if __name__ == "__main__":  as each worker imports the script'
)
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
            found = checked(client)
        elif client == LOCAL:
            found = opened.enter_context(Client(opened.enter_context(local_cluster(cores()))))
        elif isinstance(client, str) and client:
            try:
                found = opened.enter_context(Client(client))
            except (OSError, ValueError) as error:
                raise ValueError(
                    f"{WANTED}; no scheduler answers at {client!r}: {checks.summary(error)}"
                ) from None
        else:
            raise TypeError(f"{WANTED}, not {checks.described(client)}")
        see_workers(found)
        check_versions(found)
        yield found


def checked(client: Any) -> Any:
    """Return a user's client, if it can be used."""
    if client.asynchronous:
        raise ValueError("client must not be asynchronous: pass one that waits for results")
    if client.status in CLOSED:
        raise ValueError("client must be open, and this one is closed: make another one")
    return client


def see_workers(client: Any) -> None:
    """Wait for the first worker. Some clusters start one only when there is something to do."""
    if client.nthreads():
        return
    something = client.submit(int, pure=False)
    try:
        client.wait_for_workers(1, timeout=WAIT)
    except TimeoutError:
        raise ValueError(
            f"client: its cluster has no workers, also after {WAIT} s. If they wait in the queue "
            "of a batch system, call client.wait_for_workers(n) first, which waits for n of them"
        ) from None
    finally:
        something.release()


def local_cluster(workers: int) -> Any:
    """Start workers of one core on this machine, where Dask takes little time from the chains."""
    import dask
    from distributed import LocalCluster

    if getattr(multiprocessing.current_process(), "_inheriting", False):
        sys.exit(1)  # a worker that imports the script of the process that starts it, which says so
    with dask.config.set(QUIET):
        try:
            return LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                memory_limit=0,  # none, or workers pause and wait for memory that others have
                dashboard_address=":0",
                env={"SGMCMC_ONE_CORE": "1"},  # each worker has a core, and prepares rows on it
            )
        except RuntimeError as error:
            raise RuntimeError(f"{NOT_STARTED} ({checks.summary(error)})") from None


def versions() -> dict[str, str]:
    """The versions on which draws depend."""
    return {"sgmcmc": __version__, "tensorflow": tf.__version__, "numpy": np.__version__}


def check_versions(client: Any) -> None:
    """See that workers have the versions of this process: other ones would draw other numbers."""
    here = versions()
    for address, there in client.run(versions, on_error="return").items():
        if there != here:
            said = f"has {there}" if isinstance(there, dict) else f"says {there}"
            raise ValueError(other_versions(address, here, said))


def other_versions(address: str, here: Mapping[str, str], said: str) -> str:
    """Return the message for a worker whose versions are not those of the client."""
    return (
        f"client: the worker {address} must have the packages of the process that calls the "
        f"sampler, {here}, but {said}"
    )


def tell(client: Any, function: Callable, token: str) -> None:
    """Let all workers call a coroutine function of a token.

    This waits until they have been told, and not until they have done it. It does not matter if
    they cannot be told.
    """
    if client.status == "running":
        with contextlib.suppress(Exception):
            client.run(function, token, wait=False, on_error="ignore")


def threads(client: Any) -> int:
    """The number of tasks that the workers run at once."""
    return max(1, sum(client.nthreads().values()))
