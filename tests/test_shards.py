"""Shards of data: what is refused, what a worker loads and keeps, and what it forgets.

The cluster of `here` is in this process, so that tests see what its worker has.
"""

import asyncio
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import cloudpickle
import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.describe import bound
from sgmcmc.distributed import homes, loading, tasks
from sgmcmc.distributed.loading import Where, look, on_shard, shard, unload
from sgmcmc.distributed.sharded import in_rows
from sgmcmc.distributed.shards import Sharded, Shards
from sgmcmc.distributed.visits import response
from sgmcmc.distributed.worker import Recipe
from sgmcmc.tuning.laws import hamiltonian, langevin, second_order

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("ignore::sgmcmc.watch.TrustWarning")


@pytest.fixture(autouse=True)
def nothing_is_left():
    """What tests leave would be seen by others."""
    yield
    deadline = time.monotonic() + 10  # workers are told, and not waited for
    while loading.loaded and time.monotonic() < deadline:
        time.sleep(0.01)
    left = list(loading.loaded)
    loading.loaded.clear()
    assert not left


def cluster_of_threads():
    """A cluster whose only worker is a thread of this process."""
    given = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "protocol": "tcp"}
    return distributed.LocalCluster(**given, dashboard_address=":0")


@pytest.fixture(scope="module")
def here():
    """A client of such a cluster."""
    with cluster_of_threads() as cluster, distributed.Client(cluster) as client:
        yield client


def squares(params, data):
    return -tf.reduce_sum((data["x"] - params["a"]) ** 2) / 2


def drawn(client, parts, **more):
    shards = parts if isinstance(parts, Shards) else Shards(parts, round_iterations=50)
    given = {"minibatch_size": 5, "n_iters": 100, "seed": 1, "verbose": False, "stepsize": 1e-3}
    given |= {"params": {"a": np.zeros(2)}, "client": client, **more}
    return sgmcmc.sgldcv(squares, shards, **given)


def parts_of(*counts):
    return [{"x": np.random.default_rng(i).normal(size=(n, 2))} for i, n in enumerate(counts)]


class Loader:
    """Loads a shard, and counts how often."""

    calls: ClassVar[list] = []

    def __init__(self, name, count=20):
        self.name, self.count = name, count

    def __call__(self):
        Loader.calls.append(self.name)
        return {"x": np.ones((self.count, 2))}


@pytest.fixture
def calls(monkeypatch):
    monkeypatch.setattr(Loader, "calls", [])
    return lambda: Loader.calls


def where(number, token="one", beside=()):
    return Where(token, number, beside, {}, "float32", None)


def forget(*tokens):
    for token in tokens:
        asyncio.run(unload(token))
        loading.unloaded.discard(token)


class TestArguments:
    @pytest.mark.parametrize(
        ("parts", "columns", "message"),
        [
            ([{"x": 1}], {"X": ["nonsense"], "typo": 3}, "typo must be the name of a column or a"),
            (["a", "b"], {"round_iteration": 100}, r"not 100 \(did you mean 'round_iterations'"),
            (["a"], {"x": []}, "x must be the name of a column"),
            ([{"x": 1}, dict], {"round_second": "1"}, "no argument 'round_second'.*did you mean"),
        ],
    )
    def test_misspelled(self, parts, columns, message):
        with pytest.raises(TypeError, match=message):
            Shards(parts, **columns)

    def test_columns_of_some_parts(self):
        assert Shards(["a.parquet", {"x": np.ones(3)}], x=["u", "v"]).columns == {"x": ["u", "v"]}

    def test_default_minibatches_fit_the_smallest_shard(self):
        assert in_rows(0.01, np.array([100] * 120)) == 100
        assert in_rows(0.01, np.array([3000, 500])) == 35
        assert in_rows(0.02, np.array([100] * 120)) == 240  # which is refused, as it was asked for
        for other in (20, "auto", "all", 1.0, 0.0001):
            assert in_rows(other, np.array([100] * 12)) == other


class TestPartitionsOfDask:
    @pytest.fixture
    def frame(self):
        pandas, frame = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
        data = np.random.default_rng(0).normal(size=(60, 3))
        return frame.from_pandas(pandas.DataFrame(data, columns=["u", "v", "y"]), npartitions=3)

    def test_each_has_its_own_graph_alone(self):
        array, frame = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
        pandas, x = pytest.importorskip("pandas"), np.random.default_rng(0).normal(size=(20_000, 5))
        arrays = {"x": array.from_array(x, (1000, 5)), "y": array.from_array(x, (1000, 5))}
        table = frame.from_pandas(pandas.DataFrame(x, columns=list("abcde")), npartitions=20)
        for given, share in ((arrays, 2 / 20), (table[table.a < 9], 1 / 20)):
            parts = Shards(given).parts
            assert len(parts) == 20
            assert len(cloudpickle.dumps(parts[3])) < 1.5 * share * x.nbytes
        np.testing.assert_array_equal(Shards(arrays).parts[3]()["y"], x[3000:4000])

    def test_columns_that_are_not_there(self, frame):
        message = r"x: there is no column 'w'.*; there are 'u', 'v', 'y'"
        with pytest.raises(ValueError, match=message):
            Shards(frame, x=["u", "w"])
        [part, *_] = Shards(frame.to_delayed(), x=["u", "w"]).parts
        with pytest.raises(ValueError, match=message):
            part()

    def test_what_is_no_collection(self, frame):
        array, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")
        with pytest.raises(ValueError, match=r"parts must be a list .* not one Delayed"):
            Shards(dask.delayed(dict)())
        with pytest.raises(TypeError, match=r"parts\['x'\] must be an array of Dask, not a Del"):
            Shards({"x": dask.delayed(np.ones)(3)})
        with pytest.raises(TypeError, match=r"a dict of its arrays such as .* not Array of shape"):
            Shards(array.ones(9))
        with pytest.raises(TypeError, match="no argument 'x'"):
            Shards({"x": array.ones(9)}, x="u")
        part = Shards([dask.delayed(3)]).parts[0]
        with pytest.raises(TypeError, match="must be a data frame or a dict of arrays, not 3"):
            part()

    @pytest.mark.slow
    def test_in_the_memory_of_workers(self, here, frame):
        """Frames and arrays that were persisted, what is computed from them, and Delayed."""
        array = pytest.importorskip("dask.array")
        x = frame.compute()[["u", "v"]].to_numpy()
        expected = drawn(here, [{"x": part} for part in np.split(x, 3)])
        blocks = array.from_array(x, (20, 1))
        for made, columns in (
            (lambda: frame.persist(), {"x": ["u", "v"]}),
            (lambda: frame.persist()[["u", "v"]] * 1, {"x": ["u", "v"]}),
            (lambda: {"x": blocks.persist()}, {}),
            (lambda: {"x": blocks.persist() * 1}, {}),
            (lambda: frame.to_delayed(), {"x": ["u", "v"]}),
            (lambda: frame.persist().to_delayed(), {"x": ["u", "v"]}),
        ):
            shards = Shards(made(), round_iterations=50, **columns)  # which alone has the futures
            np.testing.assert_array_equal(drawn(here, shards)["a"], expected["a"])

    def test_empty_ones(self, here, frame):
        parts = [part for i, part in enumerate(frame.to_delayed()) if i != 1]
        frame = frame.map_partitions(emptied, meta=frame._meta)
        draws = drawn(here, Shards(frame, x=["u", "v"], round_iterations=50))
        expected = drawn(here, Shards(parts, x=["u", "v"], round_iterations=50))
        np.testing.assert_array_equal(draws["a"], expected["a"])


def emptied(frame, partition_info=None):
    """All partitions but the second."""
    is_second = partition_info is not None and partition_info["number"] == 1
    return frame.iloc[:0] if is_second else frame


class TestInAWorker:
    def test_shards_of_another_run_stay(self, calls):
        """Those of the same run that are at home elsewhere do not."""
        for _ in range(3):
            for token in ("one", "two"):
                for i in (0, 1):
                    shard(where(i, token, beside=(0, 1)), Loader((token, i)))
        assert len(calls()) == 4
        shard(where(2, "two", beside=(1, 2)), Loader(2))
        assert set(loading.loaded) == {("one", 0), ("one", 1), ("two", 1), ("two", 2)}
        forget("one", "two")

    def test_shards_of_a_run_that_was_killed_go_in_time(self, calls, monkeypatch):
        shard(where(0, "one"), Loader(0))
        monkeypatch.setattr(loading, "STALE", -1.0)
        shard(where(0, "two"), Loader(0))
        assert set(loading.loaded) == {("two", 0)}
        forget("two")

    def test_a_shard_that_is_being_loaded_keeps_nobody_waiting(self, calls):
        """Not the event loop of the worker, nor other shards."""
        begun, ended, waited = threading.Event(), threading.Event(), []

        def slowly():
            begun.set()
            waited.append(ended.wait(20))
            return {"x": np.ones(5)}

        thread = threading.Thread(target=shard, args=(where(0, beside=(0, 1)), slowly))
        thread.start()
        assert begun.wait(20)
        shard(where(1, beside=(0, 1)), Loader(1))
        forget("one")
        ended.set()
        thread.join()
        assert waited == [True]
        assert not loading.loaded

    def test_it_is_loaded_once(self, calls):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: shard(where(0), Loader(0)), range(4)))
        assert calls() == [0]
        forget("one")

    def test_a_task_that_comes_late_leaves_nothing(self, calls):
        asyncio.run(unload("gone"))
        assert on_shard(where(0, "gone"), Loader(0), look, ())["rows"] == 20
        assert not loading.loaded

    def test_models_go_with_their_shards(self):
        given = squares, None, {"a": np.zeros(2)}
        arguments = bound(sgmcmc.sgldcv_setup, given, {"minibatch_size": 5})
        recipe = Recipe("run", "sgldcv", {k: v for k, v in arguments.items() if k != "dataset"})
        source = shard(where(0), Loader(0))
        loading.of_model(source, recipe, lambda model, source: None, ())
        assert len(loading.models) == 1
        gone = weakref.ref(source)
        del source
        forget("one")
        assert gone() is None
        assert not loading.models

    def test_shards_without_rows(self, tmp_path, calls):
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"x": np.ones(0)}), tmp_path / "a.parquet")
        np.save(tmp_path / "x.npy", np.ones((0, 2)))
        parts = tmp_path / "a.parquet", {"x": tmp_path / "x.npy"}, Loader(0, count=0)
        for i, part in enumerate(parts):
            assert on_shard(where(i), part, look, ()) is None
        with pytest.raises(ValueError, match=r"shard 3: dataset\['y'\] must not be empty"):
            shard(where(3), {"x": np.ones(3), "y": np.ones(0)})
        forget("one")


class Workers:
    """Stands for a client: its workers, by how often one has asked for them."""

    def __init__(self, *counts):
        self.counts, self.waited = list(counts), 0

    def nthreads(self):
        count = self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]
        return dict.fromkeys([f"tcp://{i}" for i in range(count)], 1)

    def wait_for_workers(self, count, timeout):
        self.waited += 1
        if self.counts == [0]:
            raise distributed.TimeoutError


class TestHomes:
    def test_a_worker_that_is_restarted_is_waited_for(self):
        workers = Workers(0, 1)
        assert homes.Homes(workers, range(3)).of(2) == "tcp://0"
        assert workers.waited == 1

    def test_all_workers_are_lost(self):
        with pytest.raises(RuntimeError, match="all workers of its cluster were lost, and none"):
            homes.Homes(Workers(0), range(3)).of(2)

    def test_shards_that_are_left_out_have_none(self):
        found = homes.Homes(Workers(2), range(4))
        found.of(0)
        found.keep([1, 3])
        assert {found.of(1), found.of(3)} == {"tcp://0", "tcp://1"}
        assert set(found.home) == {1, 3}


class TestOnACluster:
    def test_nothing_is_left_if_a_shard_cannot_be_read(self, here, calls):
        parts = [Loader(0), Loader(1), {"x": "no-such-file.npy"}]
        with pytest.raises(ValueError, match=r"shard 2 \(a dict\) cannot be read"):
            drawn(here, parts)
        # `nothing_is_left` sees the rest

    def test_nothing_is_left_if_loading_is_interrupted(self, here, calls, monkeypatch):
        def interrupted(running):
            following(running)
            raise KeyboardInterrupt

        following = tasks.Tasks.next
        monkeypatch.setattr(tasks.Tasks, "next", interrupted)
        with pytest.raises(KeyboardInterrupt):
            drawn(here, [Loader(0), Loader(1)])
        assert calls()

    def test_a_loader_that_cannot_be_sent(self, here):
        lock = threading.Lock()
        with pytest.raises(ValueError, match=r"parts\[1\] of Shards must be something that can"):
            drawn(here, [*parts_of(9), lambda: {"x": lock}])

    def test_all_are_empty(self, here):
        """Or one of those of subposteriors."""
        with pytest.raises(ValueError, match="dataset: none of the shards has rows"):
            drawn(here, parts_of(0, 0))
        with pytest.raises(ValueError, match="dataset: shard 1 has no rows"):
            Sharded(Shards(parts_of(30, 0)), here, tf.float32)

    def test_empty_shards_do_not_change_the_draws(self, here):
        full = parts_of(30, 20)
        empty = {"x": np.empty((0, 2))}
        draws = drawn(here, [empty, full[0], empty, full[1]])
        np.testing.assert_array_equal(draws["a"], drawn(here, full)["a"])

    def test_many_small_shards_have_small_minibatches(self, here):
        draws = drawn(here, parts_of(110, 10), minibatch_size=0.01)
        assert draws.settings["minibatch_size"] == 1
        draws = drawn(here, parts_of(300, 2), minibatch_size=0.01)
        assert draws.settings["minibatch_size"] == 2
        with pytest.raises(ValueError, match="at most the rows of the smallest shard, 2, not auto"):
            drawn(here, parts_of(2, 10), minibatch_size="auto", stepsize=None)

    def test_resumed_with_other_shards(self, here, tmp_path):
        x = np.random.default_rng(0).normal(size=(60, 2))
        out = {"out": tmp_path / "chain"}
        drawn(here, [{"x": part} for part in np.split(x, 3)], **out)
        more = {**out, "n_iters": 200, "resume": True}
        with pytest.raises(ValueError, match=r"made from other data: shards differs \(\[20, 20"):
            drawn(here, [{"x": part} for part in np.split(x, 5)], **more)
        given = {"minibatch_size": 5, "seed": 1, "verbose": False, "stepsize": 1e-3}
        with pytest.raises(ValueError, match=r"other data: shards differs .* None now"):
            sgmcmc.sgldcv(squares, {"x": x}, {"a": np.zeros(2)}, **given, **more)
        same = [{"x": part} for part in np.split(x, 3)]
        with pytest.raises(ValueError, match=r"round_iterations must be 50, as in .*, not 20"):
            drawn(here, Shards(same, round_iterations=20), **more)
        assert drawn(here, Shards(same), **more).settings["round_iterations"] == 50

    def test_diagnosed(self, here, calls):
        """The shards are loaded again, and given back."""
        draws = drawn(here, [Loader(0), Loader(1)], n_iters=1000)
        Loader.calls.clear()
        sgmcmc.diagnose(draws)
        assert sorted(calls()) == [0, 1]

    def test_diagnosed_without_its_client(self, here, calls):
        with distributed.Client(here.cluster) as client:
            draws = drawn(client, [Loader(0)], n_iters=1000)
        left_out = " ".join(sgmcmc.diagnose(draws).left_out)
        assert "the client of these is closed. Pass a distributed.Client" in left_out

    def test_a_loader_is_sent_once(self, here, calls, monkeypatch):
        """And not with each of its visits."""
        sent = []
        monkeypatch.setattr(Loader, "__reduce__", lambda self: (sent.append(1), Loader, (0,))[1:])
        drawn(here, [Loader(0)], n_iters=1000)
        assert len(sent) <= 4  # and once each where it is seen whether it can be pickled


@pytest.mark.slow
def test_the_last_worker_is_lost(here):
    """Another one that joins a second later goes on."""
    lost = []

    def lose(report):
        if report.label != "mode" and not lost:
            lost.append(threading.Timer(1, cluster.scale, [1]))
            cluster.scale(0)
            while client.nthreads():
                time.sleep(0.01)
            lost[0].start()

    given = {"n_iters": 4000, "thin": 20}
    with cluster_of_threads() as cluster, distributed.Client(cluster) as client:
        draws = drawn(client, parts_of(30, 20), verbose=lose, **given)
        assert lost
    np.testing.assert_array_equal(draws["a"], drawn(here, parts_of(30, 20), **given)["a"])


@pytest.mark.parametrize(
    ("dynamics", "law"),
    [
        (sgmcmc.SGLD(), lambda eps, v: langevin(eps, v)),
        (sgmcmc.SGHMC(alpha={"a": 0.2}, L=1), lambda eps, v: hamiltonian(eps, v, 0.2, 0.2, 1)),
        (sgmcmc.BAOAB(alpha={"a": 0.2}), lambda eps, v: second_order(eps, v, np.array([0.2]))),
    ],
)
def test_how_noise_makes_draws_wider(dynamics, law):
    """The exact stationary variances on a Gaussian, with noise and without."""
    eps, v = np.array([1e-4]), np.array([2.0])
    added = law(eps, v).inflation - law(eps, 0 * v).inflation
    assert added == pytest.approx(v * response(dynamics, None, {"a": eps[0]})["a"], rel=1e-3)
