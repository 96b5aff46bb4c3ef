"""Draws on disk: what is committed survives, and a run that goes on is the one never stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import progress, tree
from sgmcmc.describe import SAMPLERS
from sgmcmc.store import layout, record, writing
from sgmcmc.store.files import LOCK, RECORD

from . import slow

N = 400
X = np.random.default_rng(0).normal([1.0, 2.0, 3.0], size=(N, 3))


def log_lik(params, data):
    away = tf.reduce_sum((data["x"] - params["net"]["mean"]) ** 2, axis=1)
    return -tf.reduce_sum(away + params["b"] ** 2) / 2


MODEL = {
    "log_lik": log_lik,
    "dataset": {"x": X},
    "params": {"net": {"mean": np.ones(3)}, "b": 0.0},
    "minibatch_size": 20,
    "seed": 5,
    "verbose": False,
}
ARGUMENTS = {**MODEL, "stepsize": 1e-3}


def squared(params):
    return tf.reduce_sum(params["net"]["mean"] ** 2)


def contents(draws):
    """All numbers of draws, by name."""
    nests = {"values": dict(draws), "stats": draws.stats}
    return dict(zip(tree.names(nests), map(np.asarray, tree.leaves(nests))))


def assert_same(one, other):
    a, b = contents(one), contents(other)
    assert list(a) == list(b)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


class Stopped(Exception):
    pass


def stopped(sampler, at, path, **arguments):
    """Run a sampler, and let it stop with an error at about an iteration."""

    def stop(report):
        if report.done >= at:
            raise Stopped

    arguments = {**arguments, "out": path, "verbose": stop}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "EVERY_SECONDS", 0.0)
        with pytest.raises(Stopped):
            sampler(**arguments)


class TestStore:
    def test_draws_are_those_in_memory(self, tmp_path):
        run = {"n_iters": 300, "burn_in": 20, "thin": 3, "track": {"squared": squared}}
        draws = sgmcmc.sghmc(**ARGUMENTS, **run)
        stored = sgmcmc.sghmc(**ARGUMENTS, **run, out=tmp_path / "chain.zarr")
        assert_same(stored, draws)
        assert repr(stored) == repr(draws)
        assert isinstance(stored["b"], sgmcmc.StoredArray)
        again = sgmcmc.load_draws(tmp_path / "chain.zarr")
        assert_same(again, draws)
        assert again.settings == json.loads(json.dumps(draws.settings))
        assert repr(again.summary()) == repr(draws.summary())

    @pytest.mark.parametrize("n_chains", [None, 3])
    def test_slices_read_what_they_are_of(self, n_chains, tmp_path, monkeypatch):
        monkeypatch.setattr(layout, "CHUNK_BYTES", 1000)
        run = {**ARGUMENTS, "n_iters": 200, "n_chains": n_chains}
        draws, stored = sgmcmc.sgld(**run), sgmcmc.sgld(**run, out=tmp_path / "x")
        x, y = draws["net"]["mean"], stored["net"]["mean"]
        assert (y.shape, y.dtype, y.ndim, y.size, y.nbytes, len(y)) == (
            *(x.shape, x.dtype, x.ndim, x.size, x.nbytes, len(x)),
        )
        first = (slice(None),) if n_chains else ()
        for key in (
            3,
            -1,
            slice(7),
            slice(5, 150, 7),
            slice(150, 5, -7),
            slice(9, 9),
            slice(-9, None),
        ):
            np.testing.assert_array_equal(y[(*first, key)], x[(*first, key)])
            np.testing.assert_array_equal(y[(*first, key, 1)], x[(*first, key, 1)])
        np.testing.assert_array_equal(y[..., 2], x[..., 2])
        np.testing.assert_array_equal(y[0], x[0])
        with pytest.raises(IndexError):
            y[(*first, 200)]
        with pytest.raises(AttributeError, match="no attribute 'foo'"):
            y.foo  # noqa: B018
        assert y.mean() == x.mean()
        np.testing.assert_array_equal(np.exp(y) + y, np.exp(x) + x)

    def test_a_store_without_parameters(self, tmp_path):
        path = tmp_path / "x"
        draws = sgmcmc.sgld(**ARGUMENTS, n_iters=20, keep=[], out=path)
        assert list(draws) == []
        assert len(sgmcmc.load_draws(path).stats["log_posterior"]) == 20

    def test_draws_from_memory(self, tmp_path):
        draws = sgmcmc.sgnht(**ARGUMENTS, n_iters=50, n_chains=2)
        draws.save(tmp_path / "draws.zarr")
        assert_same(sgmcmc.load_draws(tmp_path / "draws.zarr"), draws)
        with pytest.raises(ValueError, match="which has draws"):
            draws.save(tmp_path / "draws.zarr")
        with pytest.raises(ValueError, match="saved from memory, and not where their chains"):
            sgmcmc.sgnht(
                **ARGUMENTS, n_iters=90, n_chains=2, out=tmp_path / "draws.zarr", resume=True
            )

    def test_memory_does_not_grow_with_the_run(self, tmp_path, monkeypatch):
        """Chunks are written when they are full: only one is held."""
        monkeypatch.setattr(layout, "CHUNK_BYTES", 4000)
        sampler = sgmcmc.sgld_setup(**ARGUMENTS)
        draws = sgmcmc.run(sampler, 5000, out=tmp_path / "x")
        assert len(list((tmp_path / "x" / "posterior" / "b").iterdir())) > 20
        np.testing.assert_array_equal(draws["b"][:], sgmcmc.sgld(**ARGUMENTS, n_iters=5000)["b"])


class TestOthersReadIt:
    """xarray and ArviZ, during the run and after it."""

    def test_xarray(self, tmp_path):
        xarray = pytest.importorskip("xarray")
        pytest.importorskip("zarr")
        run = {"n_iters": 100, "n_chains": 2, "track": {"squared": squared}}
        draws = sgmcmc.sghmc(**ARGUMENTS, **run, out=tmp_path / "chain.zarr")
        found = xarray.open_zarr(tmp_path / "chain.zarr", group="posterior")
        assert found["net.mean"].dims == ("chain", "draw", "net.mean_dim_0")
        np.testing.assert_array_equal(found["net.mean"], draws["net"]["mean"])
        np.testing.assert_array_equal(found["squared"], draws["squared"])
        np.testing.assert_array_equal(found["draw"], np.arange(100))
        stats = xarray.open_zarr(tmp_path / "chain.zarr", group="sample_stats")
        assert set(stats) == {"lp", "temperature.b", "temperature.net.mean"}

    def test_arviz(self, tmp_path):
        arviz = pytest.importorskip("arviz")
        xarray = pytest.importorskip("xarray")
        pytest.importorskip("zarr")
        path = tmp_path / "chain.zarr"
        draws = sgmcmc.sghmc(**ARGUMENTS, n_iters=500, n_chains=2, out=path)
        try:
            data = arviz.from_zarr(str(path))
        except (ImportError, TypeError):  # ArviZ up to 0.23 with Zarr 3
            groups = {
                k: xarray.open_zarr(path, group=k, chunks=None)  # in memory, where Dask is there
                for k in ("posterior", "sample_stats")
            }
            data = arviz.InferenceData(**groups)
        table = arviz.summary(data, var_names=["net.mean"])
        own = draws.summary(["net"])
        np.testing.assert_allclose(table["mean"], own["mean"], atol=2e-3)
        np.testing.assert_allclose(table["sd"], own["sd"], atol=2e-3)

    @pytest.mark.slow
    def test_while_the_run_goes_on(self, tmp_path):
        """What is committed is read, and is the same as at the end."""
        seen = []

        def look(report):
            if (tmp_path / "x" / RECORD).exists():
                seen.append(np.array(sgmcmc.load_draws(tmp_path / "x")["b"]))

        draws = sgmcmc.sgld(
            **{**ARGUMENTS, "verbose": look}, n_iters=200_000, flush=0.01, out=tmp_path / "x"
        )
        assert len(seen) > 1
        for part in seen:
            np.testing.assert_array_equal(part, draws["b"][: len(part)])


STEPS = {
    **dict.fromkeys(SAMPLERS, 1e-3),
    "scir": 0.1,
    "scircv": 0.1,
    "sgrld": 1e-4,
    "psgld": 1e-4,
}


def of_kind(name):
    """A call of each sampler, with constraints or probabilities."""
    if name in ("scir", "scircv", "sgrld"):
        z = np.random.default_rng(0).choice(4, N, p=[0.6, 0.3, 0.1, 0.0])

        def of_categories(params, data):
            return tf.reduce_sum(tf.math.log(tf.gather(params["omega"], data["z"])))

        model = {"log_lik": of_categories, "dataset": {"z": z}}
        own = {"params": {"omega": np.full(4, 0.25)}, "alpha": 0.1, "keep_log": True}
        return {**ARGUMENTS, **model, **own, "stepsize": STEPS[name]}
    found = {**ARGUMENTS, "stepsize": STEPS[name]}
    if name in ("sggmc", "gsgnht", "gmc"):
        found["manifold"] = {"b": sgmcmc.Euclidean(lower=-2, upper=2)}
        if name == "gmc":
            del found["minibatch_size"]
        return found
    if name == "mixed":
        blocks = {"net": sgmcmc.SGHMC(alpha=0.1, L=3), "b": sgmcmc.SGNHT()}
        return {**found, "blocks": blocks}
    if name == "sample":
        return {**found, "dynamics": sgmcmc.BAOAB(alpha=0.2)}
    return found


class TestResume:
    @pytest.mark.parametrize("name", ["sgld", *(slow(n) for n in SAMPLERS if n != "sgld")])
    def test_each_sampler_goes_on_as_if_it_had_never_stopped(self, name, tmp_path, monkeypatch):
        monkeypatch.setattr(layout, "CHUNK_BYTES", 2000)
        sampler, call = SAMPLERS[name], of_kind(name)
        run = {"n_iters": 3000, "burn_in": 15, "thin": 4, "n_chains": 2}
        whole = sampler(**call, **run)
        path = tmp_path / "chain.zarr"
        for at in (1, 700, 1800):
            stopped(sampler, at, path, **{**call, **run, "resume": at > 1})
        draws = sampler(**call, **run, out=path, resume=True)
        assert_same(draws, whole)
        assert record.read(path)["complete"]

    def test_a_first_run_is_simply_a_run(self, tmp_path):
        draws = sgmcmc.sgld(**ARGUMENTS, n_iters=30, out=tmp_path / "x", resume=True)
        assert_same(draws, sgmcmc.sgld(**ARGUMENTS, n_iters=30))

    def test_a_run_that_ended_before_its_first_commit(self, tmp_path):
        """As where it is killed within the first half minute: there are files, but no record."""
        path = tmp_path / "x"
        call = {**ARGUMENTS, "n_iters": 300}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(layout, "CHUNK_BYTES", 1000)
            patch.setattr(writing.Store, "commit", lambda *_: None)
            sgmcmc.sgld(**call, out=path)
        assert list((path / "posterior" / "b").iterdir())
        with pytest.raises(ValueError, match="has no record of sgmcmc"):
            sgmcmc.load_draws(path)
        draws = sgmcmc.sgld(**call, out=path, resume=True)
        assert_same(draws, sgmcmc.sgld(**call))

    def test_more_iterations_go_on(self, tmp_path):
        sgmcmc.sgld(**ARGUMENTS, n_iters=30, out=tmp_path / "x")
        draws = sgmcmc.sgld(**ARGUMENTS, n_iters=90, out=tmp_path / "x", resume=True)
        assert_same(draws, sgmcmc.sgld(**ARGUMENTS, n_iters=90))

    @pytest.mark.parametrize(
        "more",
        [
            {"stepsize": sgmcmc.decay(1e-3, 100, 0.5), "n_chains": 2},
            slow({"stepsize": None}),
            slow({"stepsize": None, "gradient": "control_variates", "minibatch_size": "auto"}),
            slow({"stepsize": None, "precondition": "diagonal"}),
            slow({"dtype": "float64"}),
            slow({"jit": False}),
            slow({"temperature": sgmcmc.decay(2.0, 100, 0.5)}),
            slow({"minibatches": "independent", "shared_minibatches": True, "n_chains": 3}),
            slow(
                {"constrain": {"b": "positive"}, "params": {"net": {"mean": np.ones(3)}, "b": 0.1}}
            ),
            slow({"precondition": {"net": {"mean": 0.1}, "b": 0.05}, "stepsize": 0.1}),
        ],
        ids=lambda more: "-".join(more),
    )
    def test_each_option(self, more, tmp_path):
        call = {**ARGUMENTS, **more, "n_iters": 2000, "track": {"squared": squared}}
        path = tmp_path / "x"
        stopped(sgmcmc.sgld, 500, path, **call)
        draws = sgmcmc.sgld(**call, out=path, resume=True)
        if more.get("minibatch_size") == "auto":  # it is measured, and remembered
            call["minibatch_size"] = draws.settings["minibatch_size"]
        assert_same(draws, sgmcmc.sgld(**call))

    def test_the_mode_is_not_searched_for_again(self, tmp_path, monkeypatch):
        path = tmp_path / "x"
        stopped(sgmcmc.sgldcv, 500, path, **{**MODEL, "n_iters": 2000})
        whole = sgmcmc.sgldcv(**MODEL, n_iters=2000)
        for where in ("find_mode", "Tuner"):
            monkeypatch.setattr(sgmcmc.assembly, where, None)
        monkeypatch.setattr(sgmcmc.model.Model, "on_all", None)
        assert_same(sgmcmc.sgldcv(**MODEL, n_iters=2000, out=path, resume=True), whole)

    def test_a_seed_that_was_drawn_is_kept(self, tmp_path):
        call = {**ARGUMENTS, "seed": None, "n_iters": 30}
        first = sgmcmc.sgld(**call, out=tmp_path / "x")
        more = sgmcmc.sgld(**{**call, "n_iters": 60}, out=tmp_path / "x", resume=True)
        assert more.settings["seed"] == first.settings["seed"]
        np.testing.assert_array_equal(more["b"][:30], first["b"][:])

    def test_step_by_step(self, tmp_path):
        whole = sgmcmc.sghmccv(**ARGUMENTS, n_iters=60)
        sampler = sgmcmc.sghmccv_setup(**ARGUMENTS)
        sgmcmc.step(sampler, 20)
        sampler.save(tmp_path / "there")
        sgmcmc.step(sampler, 5)
        sampler.save(tmp_path / "there")
        other = sgmcmc.sghmccv_setup(**ARGUMENTS, resume=tmp_path / "there")
        assert other.state.iteration == 25
        tree.map(
            np.testing.assert_array_equal, sgmcmc.get_params(other), sgmcmc.get_params(sampler)
        )
        draws = sgmcmc.run(other, 35)
        np.testing.assert_array_equal(draws["net"]["mean"], whole["net"]["mean"][25:])

    def test_where_a_chain_stands_is_told_by_its_last_step(self, tmp_path):
        """Draws on manifolds are half a step before the point where the gradient is taken."""
        more = {"manifold": sgmcmc.Euclidean(), "stepsize": sgmcmc.decay(0.02, tau=10, kappa=1)}
        sampler = sgmcmc.sggmc_setup(**{**ARGUMENTS, **more})
        sgmcmc.step(sampler, 200)
        sampler.save(tmp_path / "there")
        other = sgmcmc.sggmc_setup(**{**ARGUMENTS, **more}, resume=tmp_path / "there")
        here, there = sgmcmc.get_params(sampler), sgmcmc.get_params(other)
        np.testing.assert_allclose(there["net"]["mean"], here["net"]["mean"], 1e-6)
        draws, whole = sgmcmc.run(other, 20), sgmcmc.run(sampler, 20)
        np.testing.assert_array_equal(draws["net"]["mean"], whole["net"]["mean"])

    def test_runs_append(self, tmp_path):
        whole = sgmcmc.sgld(**ARGUMENTS, n_iters=60)
        sampler, path = sgmcmc.sgld_setup(**ARGUMENTS), tmp_path / "x"
        for k in range(3):
            draws = sgmcmc.run(sampler, 20, out=path, resume=True)
            assert len(draws["b"]) == 20 * (k + 1)
        assert_same(draws, whole)
        other = sgmcmc.sgld_setup(**ARGUMENTS, resume=path)
        more = sgmcmc.run(other, 20, out=path, resume=True)
        np.testing.assert_array_equal(more["b"], sgmcmc.sgld(**ARGUMENTS, n_iters=80)["b"])
        sgmcmc.step(other)
        with pytest.raises(ValueError, match="ends at iteration 80, and the sampler is at 81"):
            sgmcmc.run(other, 20, out=path, resume=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of 40 iterations, for tests that do not write to it."""
    path = tmp_path_factory.mktemp("store") / "x"
    sgmcmc.sgld(**ARGUMENTS, n_iters=40, out=path)
    return path


class TestRefused:
    """Each with its reason, before anything is run."""

    def setup_method(self):
        self.call = {**ARGUMENTS, "n_iters": 40}

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"seed": 6}, "was made with seed 5, not 6"),
            ({"stepsize": 1e-4}, r"other arguments: stepsize is 0.001 there, and 0.0001 here"),
            ({"minibatch_size": 30}, "minibatch_size is 20 there, and 30 here"),
            ({"dataset": {"x": X[:-1]}}, "other data: N differs"),
            ({"dataset": {"x": X + 1e-3}}, "other data: arrays/x differs"),
            ({"dtype": "float64"}, "other data: arrays/x differs|dtype is"),
            ({"n_chains": 2}, "n_chains is None there, and 2 here"),
            ({"params": {"net": {"mean": np.ones(3)}, "c": 0.0}}, "params have|KeyError"),
            ({"n_iters": 20}, "n_iters must be at least 40, which is how many"),
            ({"thin": 2}, "thin must be 1, as in the run that"),
            ({"burn_in": 2}, "burn_in must be 0"),
            (
                {"keep": ["b"]},
                "keep, track and keep_gradients must be those with which",
            ),
            ({"log_prior": lambda params: -(params["b"] ** 2) - 1.0}, "is another function"),
        ],
    )
    def test_another_run(self, more, message, made):
        before = (made / RECORD).read_bytes()
        more = {"n_iters": 80, **more}
        with pytest.raises((ValueError, KeyError), match=message):
            sgmcmc.sgld(**{**self.call, **more}, out=made, resume=True)
        assert (made / RECORD).read_bytes() == before

    def test_another_sampler(self, made):
        with pytest.raises(ValueError, match="sampler is 'sgld' there, and 'psgld' here"):
            sgmcmc.psgld(**self.call, out=made, resume=True)

    def test_paths(self, tmp_path):
        file, other = tmp_path / "file", tmp_path / "other"
        file.write_text("")
        other.mkdir()
        (other / "notes.txt").write_text("")
        with pytest.raises(ValueError, match="is a file"):
            sgmcmc.sgld(**self.call, out=file)
        with pytest.raises(ValueError, match="is not empty, and no store of sgmcmc"):
            sgmcmc.sgld(**self.call, out=other)
        with pytest.raises(ValueError, match="resume=True needs out"):
            sgmcmc.sgld(**self.call, resume=True)
        with pytest.raises(TypeError, match="out must be the path of a folder"):
            sgmcmc.sgld(**self.call, out=3)
        with pytest.raises(ValueError, match="has no record of sgmcmc"):
            sgmcmc.load_draws(other)
        with pytest.raises(ValueError, match="is not there"):
            sgmcmc.load_draws(tmp_path / "nowhere")
        with pytest.raises(ValueError, match="has no record of sgmcmc"):
            sgmcmc.sgld_setup(**ARGUMENTS, resume=other)
        sgmcmc.sgld(**self.call, out=tmp_path / "x")
        with pytest.raises(ValueError, match=r"has 40 draws of a run already: pass resume=True"):
            sgmcmc.sgld(**self.call, out=tmp_path / "x")

    def test_a_store_of_another_program(self, tmp_path):
        zarr = pytest.importorskip("zarr")
        zarr.save(str(tmp_path / "other.zarr"), np.arange(4))
        with pytest.raises(ValueError, match="no store of sgmcmc"):
            sgmcmc.sgld(**self.call, out=tmp_path / "other.zarr")

    def test_damage(self, tmp_path):
        path = tmp_path / "x"
        sgmcmc.sgld(**self.call, out=path)
        again = {**self.call, "n_iters": 80, "out": path, "resume": True}
        kept = (path / RECORD).read_bytes()
        for damaged in (kept[:-20], kept.replace(b"draws", b"drams"), b""):
            (path / RECORD).write_bytes(damaged)
            with pytest.raises(ValueError, match="is damaged"):
                sgmcmc.sgld(**again)
        (path / RECORD).write_bytes(kept)
        state = next(path.glob("state-*.npz"))
        content = bytearray(state.read_bytes())
        content[len(content) // 2] ^= 1
        state.write_bytes(content)
        with pytest.raises(ValueError, match="is damaged: its checksum"):
            sgmcmc.sgld(**again)

    def test_a_newer_format(self, tmp_path):
        path = tmp_path / "x"
        sgmcmc.sgld(**self.call, out=path)
        found = record.read(path)
        record.write(path, {**found, "format": record.FORMAT + 1})
        with pytest.raises(ValueError, match="written by a newer version of sgmcmc"):
            sgmcmc.load_draws(path)

    def test_what_was_written_after_the_record_is_ignored(self, tmp_path, monkeypatch):
        """As where a process is killed between the files of a commit."""
        monkeypatch.setattr(layout, "CHUNK_BYTES", 1000)
        path = tmp_path / "x"
        sgmcmc.sgld(**self.call, out=path)
        kept, state = (path / RECORD).read_bytes(), next(path.glob("state-*.npz")).read_bytes()
        sgmcmc.sgld(**{**self.call, "n_iters": 90}, out=path, resume=True)
        (path / RECORD).write_bytes(kept)
        (path / json.loads(json.loads(kept)["record"])["state"]["file"]).write_bytes(state)
        assert len(sgmcmc.load_draws(path)["b"]) == 40
        draws = sgmcmc.sgld(**{**self.call, "n_iters": 120}, out=path, resume=True)
        assert_same(draws, sgmcmc.sgld(**{**self.call, "n_iters": 120}))

    def test_nothing_is_unpickled(self, tmp_path):
        path = tmp_path / "x"
        sgmcmc.sgld(**self.call, out=path)
        found = record.read(path)
        form = {"named": ["os", "system", [{"value": "true"}]]}
        record.write(path, {**found, "start": {**found["start"], "form": form}})
        with pytest.raises(ValueError, match="which is not a named tuple here"):
            sgmcmc.sgld(**{**self.call, "n_iters": 80}, out=path, resume=True)


class TestFailures:
    def test_divergence_keeps_what_came_before(self, tmp_path):
        call = {**ARGUMENTS, "stepsize": 0.1, "n_iters": 5000, "out": tmp_path / "x"}
        with pytest.raises(sgmcmc.ChainDiverged) as raised:
            sgmcmc.sgld(**call)
        stored = sgmcmc.load_draws(tmp_path / "x")
        assert len(stored["b"]) == len(raised.value.draws["b"])
        assert np.isfinite(np.asarray(stored["b"])).all()

    def test_two_processes_cannot_write_at_once(self, tmp_path):
        path, messages = tmp_path / "x", []

        def other(report):
            if not messages:
                with pytest.raises(ValueError, match="another process is writing") as raised:
                    sgmcmc.sgld(**ARGUMENTS, n_iters=10, out=path)
                messages.append(str(raised.value))

        sgmcmc.sgld(**{**ARGUMENTS, "verbose": other}, n_iters=2000, out=path)
        assert f"process {os.getpid()} on" in messages[0]
        assert (path / LOCK).exists()  # but nobody holds it
        sgmcmc.sgld(**ARGUMENTS, n_iters=2100, out=path, resume=True)

    @pytest.mark.slow
    def test_a_full_disk(self, tmp_path):
        """A limit on the size of files, in a process of its own: the draws before are there."""
        pytest.importorskip("resource")
        code = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from tests.test_store import *
path = {str(tmp_path / "x")!r}
sgmcmc.sgld(**ARGUMENTS, n_iters=2000, out=path)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    sgmcmc.sgld(**ARGUMENTS, n_iters=50_000, out=path, resume=True)
except OSError as error:
    print(error, len(error.draws["b"]))
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
        )
        assert "out: the draws cannot be written to" in done.stdout, done.stderr
        assert "resume=True goes on after them" in done.stdout
        draws = sgmcmc.sgld(**ARGUMENTS, n_iters=4000, out=tmp_path / "x", resume=True)
        assert_same(draws, sgmcmc.sgld(**ARGUMENTS, n_iters=4000))

    def test_a_store_that_is_deleted_in_mid_run(self, tmp_path):
        import shutil

        def delete(report):
            shutil.rmtree(tmp_path / "x", ignore_errors=True)

        with pytest.raises(OSError, match="cannot be written"):
            sgmcmc.sgld(
                **{**ARGUMENTS, "verbose": delete}, n_iters=100_000, flush=0.01, out=tmp_path / "x"
            )


KILLED = """
import sys
sys.path.insert(0, {root!r})
from tests.test_store import *
sgmcmc.sgld(
    **{{**ARGUMENTS, "stepsize": sgmcmc.decay(1e-3, 1000, 0.3)}}, n_iters=400_000, thin=7,
    n_chains=3, track={{"squared": squared}}, out={path!r}, resume=True, flush=0.02,
)
print("complete")
"""


def iteration(path):
    """Where the record of a store stands."""
    found = record.read(path)
    return 0 if found is None else found["iteration"]


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again(tmp_path, seed):
    """Killed at random moments, 20 times or until it is complete: the same bytes at the end."""
    path, rng = tmp_path / "chain.zarr", np.random.default_rng(seed)
    code = KILLED.format(root=str(Path(__file__).parents[1]), path=str(path))
    kills = 0
    while kills < 20:
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        began = time.monotonic()
        while not (path / RECORD).exists() and child.poll() is None:
            time.sleep(0.02)
            assert time.monotonic() - began < 60
        before = iteration(path)
        while child.poll() is None and iteration(path) == before:
            time.sleep(0.01)
        time.sleep(rng.exponential(0.1))
        os.kill(child.pid, signal.SIGKILL)
        kills += 1
        if "complete" in child.communicate()[0]:
            break
        stored = sgmcmc.load_draws(path)
        assert np.isfinite(np.asarray(stored["b"])).all()
    assert kills > 3
    call = {**ARGUMENTS, "stepsize": sgmcmc.decay(1e-3, 1000, 0.3)}
    run = {"n_iters": 400_000, "thin": 7, "n_chains": 3, "track": {"squared": squared}}
    draws = sgmcmc.sgld(**call, **run, out=path, resume=True)
    assert_same(draws, sgmcmc.sgld(**call, **run))
