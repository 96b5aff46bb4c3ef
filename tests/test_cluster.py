"""Runs on a cluster: what is said where something is wrong, and what travels."""

import importlib
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import tree
from sgmcmc.distributed import sending, worker
from sgmcmc.distributed.chains import Everywhere, cut
from sgmcmc.distributed.cluster import local_cluster
from sgmcmc.distributed.tasks import Tasks

distributed = pytest.importorskip("distributed")
cloudpickle = pytest.importorskip("cloudpickle")

from .cluster import DATA, GIVEN, assert_same, cluster_of, logistic, normal  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::sgmcmc.watch.TrustWarning")
SHORT = {**GIVEN, "n_iters": 100, "burn_in": 0, "stepsize": 1e-4, "jit": False}


@pytest.mark.parametrize(
    ("chains", "share", "lengths"),
    [(8, 8, [8]), (8, 4, [4, 4]), (8, 3, [3, 3, 2]), (5, 3, [3, 2]), (3, 2, [3]), (2, 1, [2])],
)
def test_a_group_is_cut_by_its_share(chains, share, lengths):
    parts = cut(range(7, 7 + chains), share)
    assert [len(part) for part in parts] == lengths
    assert [c for part in parts for c in part] == list(range(7, 7 + chains))


@pytest.fixture(scope="module")
def client():
    """Of one worker, and not the default one of this process."""
    with cluster_of(1, memory_limit=0) as cluster:
        client = distributed.Client(cluster, set_as_default=False)
        yield client
        client.close()


def closed():
    """A client that was closed."""
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster:
        client = distributed.Client(cluster, set_as_default=False)
        client.close()
        return client


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: False, "client must be a dask.distributed.Client, .* not False"),
        (lambda: "", "client must be a dask.distributed.Client"),
        (closed, "client must be open"),
    ],
)
def test_clients_that_are_refused(value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sgmcmc.sgld(**GIVEN, stepsize=1e-4, client=value())


@pytest.mark.slow
def test_a_client_that_is_not_the_default(client):
    assert_same(sgmcmc.sgld(**SHORT, client=client), sgmcmc.sgld(**SHORT))


@pytest.mark.slow
def test_workers_that_pause_are_named(client):
    def pause(status, dask_worker):
        dask_worker.status = getattr(distributed.core.Status, status)

    [address] = client.nthreads()
    client.run(pause, "paused")
    tasks = Tasks(str)
    tasks.start("round", client.submit(int, pure=False))
    threading.Timer(3, lambda: client.run(pause, "running")).start()
    with pytest.warns(RuntimeWarning, match=f"workers pause.*{address}.*--memory-limit 0"):
        assert tasks.next() == ("round", 0)


class TestNoWorkers:
    """Clusters that have no worker when a run begins."""

    @pytest.fixture
    def cluster(self):
        with distributed.LocalCluster(
            n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster:
            yield cluster

    def test_none_comes(self, cluster, monkeypatch):
        monkeypatch.setattr(sgmcmc.distributed.cluster, "WAIT", 0.5)
        with pytest.raises(ValueError, match=r"no workers.*client\.wait_for_workers\(n\)"):
            sgmcmc.sgld(**SHORT, client=cluster.scheduler_address)

    @pytest.mark.slow
    def test_workers_that_start_when_there_is_something_to_do(self, cluster):
        cluster.adapt(minimum=0, maximum=1, interval="100ms", wait_count=2)
        draws = sgmcmc.sgldcv(**SHORT, client=cluster.scheduler_address)
        assert_same(draws, sgmcmc.sgldcv(**SHORT))

    def test_a_worker_leaves_before_anything_is_sent(self, monkeypatch):
        class Client:
            left = 1

            def nthreads(self):
                return {"worker": 1}

            def scatter(self, value, **_):
                Client.left -= 1
                if Client.left >= 0:
                    raise distributed.TimeoutError("No valid workers found")
                return value

        assert Everywhere(Client(), 3).sent == 3
        Client.left = 100
        with pytest.raises(RuntimeError, match="give it a minimum of workers"):
            Everywhere(Client(), 3)


@pytest.mark.slow
def test_a_script_that_workers_import(tmp_path):
    """They find out at once, and the error tells what to write."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sgmcmc\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"  # one worker will do
        "sgmcmc.sgld(lambda p, d: 0.0, {'x': [0.0]}, {'a': 0.0}, 1e-4, client='local')\n"
    )
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert 'under the line  if __name__ == "__main__":' in run.stderr.splitlines()[-1]
    assert "bootstrapping" not in run.stderr
    assert run.stderr.count("Traceback") == 1


@pytest.mark.slow
def test_local_workers_do_not_pause():
    with local_cluster(1) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        assert client.run(lambda dask_worker: dask_worker.memory_manager.memory_limit or 0) == (
            dict.fromkeys(client.nthreads(), 0)
        )


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that workers do not have."""
    (tmp_path / "mymodel.py").write_text(
        "import tensorflow as tf\n\n\n"
        "def log_lik(params, data):\n"
        "    eta = tf.linalg.matvec(data['X'], params['beta'])\n"
        "    return tf.reduce_sum(data['y'] * eta - tf.nn.softplus(eta))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("mymodel")
    del sys.modules["mymodel"]


@pytest.mark.slow
def test_a_module_that_workers_lack(client, module):
    """It is named, and what the message says helps."""
    given = {**SHORT, "log_lik": module.log_lik}
    wanted = r"log_lik cannot be unpickled.*No module named 'mymodel'.*upload_file\('mymodel.py'\)"
    for more in ({}, {"dataset": sgmcmc.Shards([DATA], round_iterations=10), "n_chains": None}):
        with pytest.raises(ValueError, match=wanted):
            sgmcmc.sgldcv(**{**given, **more}, client=client)
    cloudpickle.register_pickle_by_value(module)
    try:
        assert_same(sgmcmc.sgld(**given, client=client), sgmcmc.sgld(**given))
    finally:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.slow
def test_compiled_functions(client):
    """A `tf.function` is sent without its graphs, also one that another function calls."""
    inner = tf.function(logistic, reduce_retracing=True)
    given = {
        **SHORT,
        "log_lik": lambda params, data: inner(params, data),
        "log_prior": tf.function(normal),
        "track": {"first": tf.function(lambda params: params["beta"][0])},
    }
    assert_same(sgmcmc.sgld(**given, client=client), sgmcmc.sgld(**given))


def test_a_compiled_function_keeps_its_options():
    spec = [tf.TensorSpec((), tf.float32)]
    function = tf.function(lambda x: 2 * x, spec, autograph=False, jit_compile=True)
    function(1.0)
    again = pickle.loads(sending.pickled(function))
    assert float(again(3.0)) == 6
    assert again.input_signature == function.input_signature == tuple(spec)
    assert sending.options(again) == sending.options(function)
    assert not sending.options(again)["autograph"]


@pytest.mark.slow
def test_a_file_that_workers_do_not_have(client, tmp_path):
    np.save(tmp_path / "X.npy", DATA["X"])
    data = {"X": np.load(tmp_path / "X.npy", mmap_mode="r"), "y": DATA["y"]}
    (tmp_path / "X.npy").unlink()
    [address] = client.nthreads()
    wanted = rf"dataset\['X'\] is in a file that the worker {address} cannot open.*No such file"
    with pytest.raises(ValueError, match=wanted):
        sgmcmc.sgld(**{**SHORT, "dataset": data}, client=client)


@pytest.mark.slow
def test_a_worker_of_another_version_that_joins_late(client):
    """It is found out when the worker makes its first round."""

    def change(version):
        sgmcmc.plan.__version__ = version

    client.run(change, "0.0")
    try:
        with pytest.raises(RuntimeError, match="must have the packages"):
            sgmcmc.sgld(**SHORT, client=client)
    finally:
        client.run(change, sgmcmc.__version__)


@pytest.mark.slow
@pytest.mark.parametrize("gradient", [None, sgmcmc.SVRG(every=50)])
def test_what_does_not_change_does_not_travel(client, gradient, monkeypatch):
    """The weights of rows are in the recipe, but not in the state; snapshots are."""
    N, rounds, submit = len(DATA["y"]), [], client.submit

    def spied(function, *arguments, **more):
        future = submit(function, *arguments, **more)
        if function is worker.advance:
            rounds.append((arguments[2], future))
        return future

    given, sampler = {**SHORT, "n_iters": 300}, sgmcmc.sgld
    if gradient is None:
        sampler, given = sgmcmc.sgldcv, {**given, "row_probabilities": np.linspace(1, 2, N)}
    else:
        given["gradient"] = gradient
    monkeypatch.setattr(client, "submit", spied)
    assert_same(sampler(**given, client=client), sampler(**given))
    assert len(rounds) > 1
    for state, future in rounds:
        for each in (state, future.result().state):
            assert (tree.leaves(each.estimator) == []) == (gradient is None)
