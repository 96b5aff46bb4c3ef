"""Chains on a cluster of processes: the draws of one machine, bit for bit, whatever happens to it.

False alarms and power of the z-tests are those of `ztest`.
"""

import os
import re
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.distributed.visits import widening
from sgmcmc.store.files import RECORD

from .ztest import assert_mean, assert_rejected, assert_squares

distributed = pytest.importorskip("distributed")

from .cluster import DATA, GIVEN, assert_same, cluster_of, logistic, normal  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::sgmcmc.watch.TrustWarning")]


@pytest.fixture(scope="module")
def client():
    with cluster_of(2) as cluster, distributed.Client(cluster) as client:
        yield client


def counts(params, data, key):
    """Which of two halves a row is in, drawn with the probabilities of a mixture."""
    weight = params["omega"] * tf.exp(-((data["y"][:, None] - [0.0, 1.0]) ** 2))
    share = weight[:, 1] / tf.reduce_sum(weight, axis=1)
    u, _ = sgmcmc.random.uniforms(key, data["y"].shape)
    ones = tf.reduce_sum(tf.cast(u < share, tf.float32))
    return {"omega": tf.stack([tf.cast(data["y"].shape[0], tf.float32) - ones, ones])}


class TestChains:
    @pytest.mark.parametrize(
        ("name", "more"),
        [
            ("sgldcv", {"track": {"square": lambda p: tf.reduce_sum(p["beta"] ** 2)}}),
            ("sghmc", {"stepsize": 1e-4, "n_chains": 5}),
            ("sgld", {"stepsize": 1e-4, "gradient": sgmcmc.SVRG(every=500), "n_chains": None}),
            ("sgnht", {"stepsize": 1e-4, "shared_minibatches": True, "keep": ["beta"]}),
            ("sgld", {"stepsize": 1e-4, "gradient": sgmcmc.SVRG(every=500)}),
        ],
    )
    def test_the_draws_are_those_of_one_machine(self, client, name, more):
        given, sampler = {**GIVEN, **more}, getattr(sgmcmc, name)
        assert_same(sampler(**given, client=client), sampler(**given))

    def test_many_parameters_and_chains(self, client):
        """The arithmetic of a group is that of all chains, which are too many for copies."""
        rng = np.random.default_rng(1)
        x = rng.normal(size=(3000, 60))
        data = {"X": x, "y": (rng.random(3000) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)}
        given = {**GIVEN, "dataset": data, "params": {"beta": np.zeros(60)}, "n_chains": 12}
        given |= {"n_iters": 300, "burn_in": 0}
        assert_same(sgmcmc.sgldcv(**given, client=client), sgmcmc.sgldcv(**given))

    def test_counts_that_are_drawn(self, client):
        given = {k: v for k, v in GIVEN.items() if k not in ("log_lik", "log_prior", "params")}
        given |= {"params": {"omega": [0.5, 0.5]}, "log_lik": None, "stepsize": 0.1, "alpha": 1.0}
        given |= {"counts": counts, "refresh_every": 200}
        assert_same(sgmcmc.scircv(**given, client=client), sgmcmc.scircv(**given))

    def test_files_are_opened_by_workers(self, client, tmp_path):
        """Memory maps are not sent; what has an open file cannot be."""
        h5py = pytest.importorskip("h5py")
        np.save(tmp_path / "X.npy", DATA["X"])
        data = {"X": np.load(tmp_path / "X.npy", mmap_mode="r"), "y": DATA["y"]}
        given = {**GIVEN, "dataset": data, "stepsize": 1e-4}
        assert_same(sgmcmc.sgld(**given, client=client), sgmcmc.sgld(**given))
        with h5py.File(tmp_path / "rows.h5", "w") as file:
            file["X"] = DATA["X"]
            given["dataset"] = {"X": file["X"], "y": DATA["y"]}
            with pytest.raises(ValueError, match=r"dataset\['X'\] must be something that can"):
                sgmcmc.sgld(**given, client=client)

    def test_a_worker_is_killed(self, client):
        """In mid-round: another one makes the round again."""
        killed = []

        def kill(report):
            if report.label != "mode" and report.done > 500 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        given = {**GIVEN, "n_iters": 60_000, "stepsize": 1e-4}
        draws = sgmcmc.sgld(**{**given, "verbose": kill}, client=client)
        assert killed
        assert_same(draws, sgmcmc.sgld(**given))

    def test_a_worker_joins_late(self, monkeypatch):
        """It takes half of the chains, which were together before."""
        monkeypatch.setattr(sgmcmc.distributed.rounds, "FASTER", 1)  # more than thirty rounds
        with cluster_of(1) as cluster, distributed.Client(cluster) as client:

            def join(report):
                if report.label != "mode":
                    cluster.scale(2)
                    client.wait_for_workers(2)

            given = {**GIVEN, "stepsize": 1e-4, "n_chains": 5}
            with distributed.get_task_stream(client) as stream:
                draws = sgmcmc.sgld(**{**given, "verbose": join}, client=client)
            made = [t["worker"] for t in stream.data if str(t["key"]).startswith("advance")]
            assert len(set(made)) == 2
            assert min(map(made.count, made)) >= 5
        assert_same(draws, sgmcmc.sgld(**given))

    @pytest.mark.parametrize("where", ["here", "cluster"])
    def test_the_client_is_killed(self, client, tmp_path, where):
        """What the store has is gone on with, on one machine or on many."""
        out, given = tmp_path / "chain", {**GIVEN, "n_iters": 600_000, "stepsize": 1e-4}
        script = (
            "import sgmcmc\n"
            "from tests.cluster import GIVEN\n"
            "if __name__ == '__main__':\n"
            f"    given = {{**GIVEN, 'n_iters': 600_000, 'stepsize': 1e-4, 'out': {str(out)!r}}}\n"
            "    sgmcmc.sgld(**given, flush=0.2, client='local')\n"
        )
        process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
        try:
            limit = time.monotonic() + 120
            while not (out / RECORD).exists() and time.monotonic() < limit:
                time.sleep(0.1)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert len(sgmcmc.load_draws(out)["beta"][0]) < 200_000
        more = {"client": client} if where == "cluster" else {}
        draws = sgmcmc.sgld(**given, out=out, resume=True, **more)
        assert_same(draws, sgmcmc.sgld(**given))

    def test_a_chain_diverges(self, client):
        """The same error as alone, with the same draws before."""

        def breaks(params, data):
            beta = params["beta"]
            return logistic(params, data) + tf.where(beta[0] > 1.25, np.nan, 0.0) * beta[0]

        given = {**GIVEN, "log_lik": breaks, "stepsize": 1e-3, "n_iters": 20_000, "burn_in": 0}
        errors = []
        for more in ({"client": client}, {}):
            with pytest.raises(sgmcmc.ChainDiverged) as caught:
                sgmcmc.sgld(**given, **more)
            errors.append(caught.value)
        assert errors[0].iteration == errors[1].iteration > 0
        assert errors[0].chains == errors[1].chains
        assert_same(errors[0].draws, errors[1].draws)

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"client": 3}, "client must be a dask.distributed.Client"),
            ({"client": "tcp://127.0.0.1:1"}, "no scheduler answers"),
            ({"gradient": sgmcmc.SAGA()}, "too large to travel"),
        ],
    )
    def test_bad_input(self, client, more, message):
        given = {**GIVEN, "stepsize": 1e-4, "client": client, **more}
        with distributed_timeout("2s"), pytest.raises((TypeError, ValueError), match=message):
            sgmcmc.sgld(**given)

    def test_what_cannot_be_sent_is_named(self, client):
        lock = __import__("threading").Lock()

        def log_prior(params):
            return normal(params) if lock else 0.0

        with pytest.raises(ValueError, match="log_prior must be something that can be sent"):
            sgmcmc.sgld(**{**GIVEN, "log_prior": log_prior}, stepsize=1e-4, client=client)


def distributed_timeout(seconds):
    import dask

    return dask.config.set({"distributed.comm.timeouts.connect": seconds})


# Shards

D = 400  # coordinates, which take the place of chains in z-tests


def squares(params, data):
    return -tf.reduce_sum((data["x"] - params["a"]) ** 2) / 2


def rows_of(shard, seed, alike):
    """Rows of unit variance about 0, or about a mean of the shard's own."""
    rng = np.random.default_rng([seed, shard])
    return rng.normal(0 if alike else rng.normal(size=D), 1, (200 + 100 * shard, D))


def shards_of(count, seed, alike, **rounds):
    parts = [lambda i=i: {"x": rows_of(i, seed, alike)} for i in range(count)]
    whole = [rows_of(i, seed, alike) for i in range(count)]
    return sgmcmc.Shards(parts, **rounds), whole


def of_shards(client, shards, name, stepsize, seed, **more):
    return getattr(sgmcmc, name)(
        squares,
        shards,
        {"a": np.zeros(D)},
        stepsize,
        **{"minibatch_size": 20, "n_chains": 4, "seed": seed, "verbose": False, **more},
        client=client,
    )


def of_worker():
    """Which shards a worker has, and how many samplers."""
    from sgmcmc.distributed import loading, worker

    return {number for _, number in loading.loaded}, len(worker.idle)


def added_by_visits(whole, eps, each):
    """The share of the posterior's variance that rounds of a plain chain add, where it is most.

    On Gaussian rows, θ ← aᴿθ + (1 − aᴿ) mean of the shard on average, with a = 1 − εN/2.
    """
    N, sizes = sum(map(len, whole)), np.array([len(x) for x in whole])
    means = np.array([x.mean(axis=0) for x in whole]) - np.concatenate(whole).mean(axis=0)
    kept = (1 - eps * N / 2) ** each
    return N * (1 - kept) / (1 + kept) * np.linalg.norm(np.sqrt(sizes / N)[:, None] * means, 2) ** 2


@pytest.mark.parametrize("alike", [True, False])
def test_what_visits_add_is_bounded(alike, seed):
    """The bound is what is added, where rounds are short, and more than that where they are not."""
    _, whole = shards_of(4, seed, alike)
    N, sizes = sum(map(len, whole)), np.array([len(x) for x in whole])
    gradients = np.array([x.sum(axis=0) for x in whole])
    for share in (0.001, 2.0):  # of its way to the mean of a shard that a chain goes in a round
        eps, each = share / (5 * N), 10
        bound = each * widening(gradients, sizes, np.full(D, eps / 4))
        added = added_by_visits(whole, eps, each)
        assert added == pytest.approx(bound, rel=0.01) if share < 0.01 else added < bound


class TestShards:
    @pytest.mark.parametrize("alike", [True, False])
    @pytest.mark.parametrize("count", [2, 8])
    def test_variance_with_control_variates(self, client, count, alike, seed):
        """θ ← θ − (ε/2)N(θ − mode) + N(0, ε) on any shard: variance 1/(N(1 − εN/4))."""
        shards, whole = shards_of(count, seed, alike, round_iterations=500)
        x = np.concatenate(whole)
        eps = 0.2 / len(x)
        draws = of_shards(client, shards, "sgldcv", eps, seed, n_iters=8000, burn_in=500, thin=40)
        square = (draws["a"] - x.mean(axis=0)) ** 2
        variance = 1 / (len(x) * (1 - 0.2 / 4))
        assert_mean(square.mean(axis=(0, 1)), variance)
        assert_rejected(square.mean(axis=(0, 1)), count * variance)

    @pytest.mark.parametrize("corrected", ["matrix", "diagonal", None])
    def test_shards_of_different_curvature(self, client, corrected, seed, monkeypatch):
        """Rows with weights of 1 or 3, by shard: with the correction, the drift is that of all."""
        if corrected is None:
            monkeypatch.setattr(sgmcmc.distributed.sharded, "tilts", lambda *_: [None, None])
        d, rng = 310 if corrected == "diagonal" else 260, np.random.default_rng(seed)
        whole = [{"x": rng.normal(size=(300, d)), "w": np.full(300, w)} for w in (1.0, 3.0)]
        shards = sgmcmc.Shards(whole, round_iterations=100)

        def log_lik(params, data):
            return -tf.reduce_sum(data["w"][:, None] * (data["x"] - params["a"]) ** 2) / 2

        H = sum(part["w"].sum() for part in whole)
        mode = sum((part["w"][:, None] * part["x"]).sum(axis=0) for part in whole) / H
        draws = sgmcmc.sgldcv(
            log_lik,
            shards,
            {"a": np.zeros(d)},
            0.2 / H,
            **{"minibatch_size": 20, "n_chains": 4, "n_iters": 8000, "burn_in": 500, "thin": 40},
            **{"seed": seed, "verbose": False, "client": client},
        )
        square = ((draws["a"] - mode) ** 2).mean(axis=(0, 1))
        variance = 1 / (H * (1 - 0.2 / 4))
        assert_mean(square, variance, 0.05) if corrected else assert_rejected(square, variance)

    def test_many_parameters_that_depend_on_one_another_otherwise(self, client, seed):
        """Two shards of a regression, in which neighbouring columns are correlated by ±.5."""
        d, rng = 310, np.random.default_rng(seed)
        parts = []
        for sign in (1, -1):
            X = rng.normal(size=(9000, d))
            X[:, 1::2] = 0.5 * sign * X[:, ::2] + 0.75**0.5 * X[:, 1::2]
            parts.append({"X": X, "y": rng.normal(size=9000)})

        def log_lik(params, data):
            return -tf.reduce_sum((data["y"] - tf.linalg.matvec(data["X"], params["b"])) ** 2) / 2

        def prepared(parts):
            return sgmcmc.sgldcv(
                *(log_lik, sgmcmc.Shards(parts, round_iterations=10), {"b": np.zeros(d)}, 1e-6),
                minibatch_size=20, n_iters=10, seed=seed, verbose=False, client=client,
            )  # fmt: skip

        with pytest.warns(sgmcmc.TuningWarning, match="corrected by its diagonal.*draws wider by"):
            prepared(parts)
        mixed = {k: np.concatenate([part[k] for part in parts]) for k in parts[0]}
        order = rng.permutation(18_000)
        with warnings.catch_warnings():
            warnings.simplefilter("error", sgmcmc.TuningWarning)
            prepared([{k: x[rows] for k, x in mixed.items()} for rows in np.split(order, 2)])

    @pytest.mark.parametrize("each", [5, 400])
    def test_plain_chains_are_as_the_visits_say(self, client, each, seed, monkeypatch):
        """Given the visits, E θ ← E θ + (ε/2)N(mean of the shard − E θ), and the variance, too.

        Rounds that are long against 2/(εN) = 40 iterations bring each chain near its shard's mean.
        """
        monkeypatch.setattr(sgmcmc.distributed.sharded, "widening", lambda *_: 0.0)
        shards, whole = shards_of(4, seed, False, round_iterations=each)
        sizes, n, iterations = np.array([len(x) for x in whole]), 20, 1200
        N = sizes.sum()
        eps = 0.05 / N
        draws = of_shards(
            client,
            shards,
            "sgld",
            eps,
            seed,
            n_iters=1,
            burn_in=iterations - 1,
            minibatches="independent",
        )["a"][:, 0]
        means, within = (np.stack([f(x) for x in whole]) for f in (mean_of, variance_of))
        z = []
        for chain in range(4):
            mean, variance = np.zeros(D), np.zeros(D)
            for t in range(iterations):
                rng = sgmcmc.streams.stream(seed, sgmcmc.streams.VISITS, t // each, chain)
                s = np.searchsorted(sizes.cumsum() / N, rng.random(), side="right")
                mean = mean + eps / 2 * N * (means[s] - mean)
                noise = N**2 * within[s] / n * (1 - n / sizes[s])
                variance = (1 - eps * N / 2) ** 2 * variance + eps + eps**2 / 4 * noise
            z.append((draws[chain] - mean) / np.sqrt(variance))
        assert_squares(np.mean(np.square(z), axis=0), 1.0, 4, detect=0.4)
        away = np.mean((draws - np.concatenate(whole).mean(axis=0)) ** 2 / variance, axis=0)
        assert_rejected(away, 1.0)  # as if it were the posterior of all shards

    def test_rounds_of_plain_chains_are_short(self, client, seed):
        """The largest number that is allowed adds 5 % to the variance."""
        whole = [x[:, :3] for x in shards_of(4, seed, True)[1]]
        shards = sgmcmc.Shards([{"x": x} for x in whole], round_iterations=1000)
        eps = 0.003 / sum(map(len, whole))
        start, given = {"a": np.zeros(3)}, {"minibatch_size": 20, "seed": seed, "client": client}
        with pytest.raises(ValueError, match="would make draws wider by up to") as error:
            sgmcmc.sgld(squares, shards, start, eps, verbose=False, **given)
        most = int(re.search("at most ([0-9]+)", str(error.value))[1])
        assert added_by_visits(whole, eps, most) < 0.0501 < added_by_visits(whole, eps, most + 2)

    def test_visits_are_judged_with_the_friction_that_was_chosen(self, client, seed, monkeypatch):
        seen = []
        monkeypatch.setattr(sgmcmc.distributed.sharded, "response", lambda *of: seen.append(of[0]))
        parts = [{"x": np.random.default_rng([seed, i]).normal(size=(200, 3))} for i in range(2)]
        shards = sgmcmc.Shards(parts, round_iterations=1)
        given = {"minibatch_size": 20, "seed": seed, "client": client, "verbose": False}
        with pytest.raises(ValueError, match="not known how much wider"):
            sgmcmc.sghmc(squares, shards, {"a": np.zeros(3)}, **given)
        assert seen[0].alpha["a"] in (0.2, 0.3, 0.4)

    def test_the_draws_do_not_depend_on_the_workers(self, client, seed):
        """Nor on one that is killed."""
        shards, _ = shards_of(4, seed, False, round_iterations=300)
        killed = []

        def kill(report):
            if report.label != "mode" and report.done > 500 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        given = {"n_iters": 6000, "minibatches": "reshuffled"}
        draws = of_shards(client, shards, "sgldcv", 1e-4, seed, **given, **{"verbose": kill})
        assert killed
        with cluster_of(1) as cluster, distributed.Client(cluster) as one:
            assert_same(draws, of_shards(one, shards, "sgldcv", 1e-4, seed, **given))

    def test_files_and_chosen_steps(self, client, tmp_path, seed):
        """Parquet, NumPy's files, HDF5, Zarr, and a URL."""
        parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
        data = np.random.default_rng(seed).normal(size=(5, 500, 2))
        y = data.sum(axis=2)
        parts = [str(tmp_path / "a.parquet")]
        table = arrow.table({"u": data[0, :, 0], "v": data[0, :, 1], "y": y[0]})
        parquet.write_table(table, parts[0])
        np.save(tmp_path / "x.npy", data[1])
        parts.append({"x": tmp_path / "x.npy", "y": y[1]})
        with h5py.File(tmp_path / "rows.h5", "w") as file:
            file["x"], file["y"] = data[2], y[2]
        parts.append({k: f"{tmp_path / 'rows.h5'}/{k}" for k in "xy"})
        zarr.save_array(tmp_path / "x.zarr", data[3])
        parts.append({"x": tmp_path / "x.zarr", "y": y[3]})
        np.save(tmp_path / "far.npy", data[4])
        parts.append({"x": (tmp_path / "far.npy").as_uri(), "y": y[4]})

        def log_lik(params, data):
            return -tf.reduce_sum((data["y"] - tf.linalg.matvec(data["x"], params["b"])) ** 2) / 2

        draws = sgmcmc.sgldcv(
            log_lik,
            sgmcmc.Shards(parts, x=["u", "v"], y="y"),
            {"b": np.zeros(2)},
            minibatch_size=50,
            n_iters=2000,
            seed=seed,
            verbose=False,
            client=client,
        )
        assert draws.settings["N"] == 2500
        assert draws.settings["round_iterations"] <= 100
        np.testing.assert_allclose(draws["b"].mean(axis=0), [1, 1], atol=0.02)

    def test_workers_have_shards_of_their_own_and_forget_them(self, client, seed):
        shards, _ = shards_of(6, seed, True, round_iterations=100)
        held = []

        def look(report):
            if report.label != "mode":
                held.append(list(client.run(of_worker).values()))

        client.wait_for_workers(2)
        given = {"n_iters": 3000, "minibatches": "reshuffled", "verbose": look}
        of_shards(client, shards, "sgldcv", 1e-4, seed, **given)
        for workers in held:
            assert sum(len(shards) for shards, _ in workers) <= 6
        assert any(samplers for workers in held for _, samplers in workers)
        deadline = time.monotonic() + 30  # they are told, and not waited for
        while any(shards or samplers for shards, samplers in client.run(of_worker).values()):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def test_a_worker_that_joins_takes_shards_over(self, seed):
        """Those that had them forget them."""
        shards, _ = shards_of(6, seed, True, round_iterations=100)
        held = []
        with cluster_of(1) as cluster, distributed.Client(cluster) as client:

            def look(report):
                if report.label != "mode":
                    cluster.scale(2)
                    client.wait_for_workers(2)
                    held.append([len(shards) for shards, _ in client.run(of_worker).values()])

            # A shard that no chain visits after that is not loaded: probability 1e-13 in 6000
            given = {"n_iters": 6000, "minibatches": "reshuffled", "verbose": look}
            of_shards(client, shards, "sgldcv", 1e-4, seed, **given)
        assert sorted(held[0]) == [0, 6]
        assert held[-1] == [3, 3]

    def test_partitions_of_dask(self, client):
        """Each is a shard: the draws are those of the same rows as a list of dicts."""
        array, frame = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
        pandas = pytest.importorskip("pandas")
        data = np.random.default_rng(0).normal(size=(600, 3))
        x, y = data[:, :2], data[:, 2]
        table = pandas.DataFrame({"u": x[:, 0], "v": x[:, 1], "y": y})

        def log_lik(params, data):
            return -tf.reduce_sum((data["y"] - tf.linalg.matvec(data["x"], params["b"])) ** 2) / 2

        given = {"minibatch_size": 20, "n_iters": 200, "seed": 1, "verbose": False}
        found = [
            sgmcmc.sgldcv(log_lik, shards, {"b": np.zeros(2)}, 1e-3, **given, client=client)
            for shards in (
                sgmcmc.Shards([{"x": a, "y": b} for a, b in zip(np.split(x, 3), np.split(y, 3))]),
                sgmcmc.Shards({"x": array.from_array(x, (200, 1)), "y": array.from_array(y, 200)}),
                sgmcmc.Shards(frame.from_pandas(table, npartitions=3), x=["u", "v"], y="y"),
            )
        ]
        for each in found[1:]:
            assert_same(each, found[0])

    @pytest.mark.parametrize("kind", [list, sgmcmc.Shards])
    def test_subposteriors(self, client, kind, seed):
        """Of shards on a cluster: the draws of one machine, byte for byte."""
        parts = [{"x": rows_of(s, seed, True)} for s in range(3)]
        given = {"params": {"a": np.zeros(D)}, "stepsize": 1e-4, "minibatch_size": 20, "seed": seed}
        given |= {"n_iters": 200, "n_chains": 2, "verbose": False, "log_prior": None}
        there = sgmcmc.combine.subposteriors(
            sgmcmc.sgldcv, squares, kind(parts), **given, client=client
        )
        here = sgmcmc.combine.subposteriors(sgmcmc.sgldcv, squares, parts, **given)
        for a, b in zip(there, here):
            assert_same(a, b)
            assert a.settings["subposterior"] == b.settings["subposterior"]

    def test_resumed(self, client, tmp_path, seed):
        """A store goes on to the same draws, with rounds that are cut anew by none of this."""
        shards, _ = shards_of(3, seed, False, round_iterations=250)
        given = {"client": client, "shards": shards, "name": "sgldcv", "stepsize": 1e-4}
        given |= {"seed": seed, "out": tmp_path / "chain"}
        of_shards(**given, n_iters=1100)
        draws = of_shards(**given, n_iters=3000, resume=True)
        assert_same(draws, of_shards(**{**given, "out": None}, n_iters=3000))

    def test_a_shard_that_cannot_be_read_is_named(self, client, seed):
        shards, _ = shards_of(2, seed, True)
        shards.parts.append("no-such-file.parquet")
        with pytest.raises(ValueError, match=r"shard 2 \('no-such-file.parquet'\) cannot be read"):
            of_shards(client, shards, "sgldcv", 1e-4, seed)

    @pytest.mark.parametrize(
        ("name", "rounds", "more", "message"),
        [
            ("sgld", {"round_iterations": 1000}, {}, "visits of 1 would make draws wider by up to"),
            ("sgld", {}, {}, "round_iterations must be given"),
            ("sgldcv", {}, {"opt_stepsize": 1e-5}, "opt_stepsize must be None"),
            ("sgldcv", {}, {"minibatch_size": 201}, "at most the rows of the smallest shard, 200"),
            ("sgld", {}, {"gradient": sgmcmc.SVRG(100)}, "move by gradients, 'plain'"),
        ],
    )
    def test_what_is_refused(self, client, name, rounds, more, message, seed):
        shards, _ = shards_of(2, seed, True, **rounds)
        with pytest.raises(ValueError, match=message):
            of_shards(client, shards, name, 1e-4, seed, **more)


def mean_of(x):
    return x.mean(axis=0)


def variance_of(x):
    return x.var(axis=0, ddof=1)


def test_a_result_that_is_lost_before_it_is_fetched(client):
    """Dask would keep its task for the worker that is gone."""
    from sgmcmc.distributed.tasks import LOST, Tasks

    home = next(iter(client.nthreads()))
    future = client.submit(os.getpid, workers=[home], pure=False)
    tasks = Tasks(str, lambda future: home not in client.nthreads())
    tasks.start("round", future)
    pid = future.result()
    distributed.wait(future)
    while not tasks.active.has_ready():
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    while home in client.nthreads():
        time.sleep(0.01)
    assert tasks.next() == ("round", LOST)


def test_a_worker_forgets_samplers_whose_memory_another_one_needs(monkeypatch):
    from sgmcmc.distributed import worker

    class Stand:
        def __init__(self, nbytes):
            self.nbytes, self.sampler, self.feeder = nbytes, self, self

        def close(self):
            closed.append(self.nbytes)

    closed = []
    monkeypatch.setattr(worker, "idle", type(worker.idle)())
    for number, nbytes in enumerate([30 << 20, 20 << 20, 10 << 20]):
        worker.given_back(("run", 1, number, False), Stand(nbytes))
    worker.make_room(Stand(4 << 20))
    assert closed == []
    worker.make_room(Stand(5 << 20))
    assert closed == [30 << 20]
    worker.make_room(Stand(100 << 20))
    assert closed == [30 << 20, 20 << 20, 10 << 20]


@pytest.mark.parametrize(
    ("parts", "message"),
    [([], "parts must be a list"), ("a", "must be a list"), ([3], r"parts\[0")],
)
def test_parts_that_are_none(parts, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sgmcmc.Shards(parts)


def test_shards_step_by_step():
    with pytest.raises(ValueError, match="dataset must not be Shards for sgld_setup"):
        sgmcmc.sgld_setup(squares, sgmcmc.Shards([dict]), {"a": 0.0}, 1e-4)
