"""Storing draws: memory does not grow; summaries and progress are right."""

import gc
import io
import os
import re

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import progress, running

ARGUMENTS = {
    "log_lik": lambda params, data: -tf.reduce_sum((data["x"] - params["net"]["mu"]) ** 2) / 2,
    "dataset": {"x": np.random.default_rng(0).normal(size=(200, 2))},
    "params": {"net": {"mu": np.zeros(2)}},
    "stepsize": 1e-3,
    "seed": 1,
}


def own_memory():
    """Anonymous memory of the process, in bytes."""
    gc.collect()
    with open("/proc/self/status") as f:
        return int(re.search(r"RssAnon:\s+(\d+)", f.read())[1]) * 1024


@pytest.mark.slow
def test_a_network_that_is_not_stored_takes_no_memory():
    rng = np.random.default_rng(0)
    dataset = {"X": rng.random((2000, 784)), "y": rng.integers(0, 10, 2000)}
    shapes = {"A": (784, 100), "a": (100,), "B": (100, 10), "b": (10,)}
    params = {k: rng.normal(size=s) / 10 for k, s in shapes.items()}

    def log_lik(params, data):
        hidden = tf.nn.softmax(data["X"] @ params["A"] + params["a"])
        return -tf.reduce_sum(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                data["y"], hidden @ params["B"] + params["b"]
            )
        )

    test = {"X": tf.constant(dataset["X"][:50], tf.float32), "y": tf.constant(dataset["y"][:50])}
    sampler = sgmcmc.sgld_setup(
        log_lik, dataset, params, 1e-5, minibatch_size=20, seed=1, verbose=False
    )
    loss = {"loss": lambda params: -log_lik(params, test) / 50}
    sgmcmc.run(sampler, 500, keep=[], track=loss, verbose=False)
    before = own_memory()
    draws = sgmcmc.run(sampler, 10_000, keep=[], track=loss, verbose=False)
    assert own_memory() - before < 20e6
    assert list(draws) == ["loss"]
    assert draws["loss"].shape == (10_000,)


@pytest.mark.slow
def test_stored_draws_cost_their_own_size():
    sampler = sgmcmc.sgld_setup(**ARGUMENTS, verbose=False)
    sgmcmc.run(sampler, 5000, verbose=False)
    before = own_memory()
    draws = sgmcmc.run(sampler, 2_000_000, verbose=False)
    size = draws["net"]["mu"].nbytes + draws.stats["log_posterior"].nbytes
    assert own_memory() - before < 1.2 * size


@pytest.mark.parametrize("exists", [True, False])
def test_of_two_runs_with_one_folder_one_is_refused(tmp_path, exists, monkeypatch):
    """The second run begins and ends after the first has found that the folder is empty."""
    path, stored = tmp_path / "draws", running.stored
    if exists:
        path.mkdir()
    first, second = (sgmcmc.sgld_setup(**{**ARGUMENTS, "seed": seed}) for seed in (1, 2))
    drawn = []

    def interrupted(wish):
        monkeypatch.setattr(running, "stored", stored)
        found = stored(wish)
        drawn.append(sgmcmc.run(second, 500, out=path, verbose=False))
        return found

    monkeypatch.setattr(running, "stored", interrupted)
    with pytest.raises(ValueError, match=r"^out: another run has written to .*: give another path"):
        sgmcmc.run(first, 500, out=path, verbose=False)
    memory = sgmcmc.sgld(**{**ARGUMENTS, "seed": 2}, n_iters=500, verbose=False)
    np.testing.assert_array_equal(sgmcmc.load_draws(path)["net"]["mu"], memory["net"]["mu"])
    np.testing.assert_array_equal(drawn[0]["net"]["mu"], memory["net"]["mu"])


def test_no_folder_is_made_for_a_model_that_fails(tmp_path):
    def log_lik(params, data):
        raise RuntimeError("no model")

    with pytest.raises(ValueError, match="no model"):
        sgmcmc.sgld(**{**ARGUMENTS, "log_lik": log_lik}, out=tmp_path / "draws", verbose=False)
    with pytest.raises(ValueError, match="minibatch_size"):
        sgmcmc.sgld(**ARGUMENTS, minibatch_size=-1, out=tmp_path / "draws", verbose=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path):
    def log_lik(params, data):
        pytest.fail("the model was looked at first")

    tmp_path.chmod(0o500)
    for path in (tmp_path, tmp_path / "new" / "draws"):
        with pytest.raises(ValueError, match=r"^out must be a folder that can be made, but"):
            sgmcmc.sgld(**{**ARGUMENTS, "log_lik": log_lik}, out=path, verbose=False)


def test_the_log_posterior_is_estimated_from_where_the_step_began():
    draws = sgmcmc.sgld(**ARGUMENTS, minibatch_size=200, n_iters=50, verbose=False)
    mu, x = draws["net"]["mu"].astype(float), ARGUMENTS["dataset"]["x"]
    exact = [-((x - m) ** 2).sum() / 2 for m in [np.zeros(2), *mu[:-1]]]
    np.testing.assert_allclose(draws.stats["log_posterior"], exact, rtol=1e-5)


@pytest.mark.parametrize("n_chains", [None, 4])
def test_summary(n_chains):
    draws = sgmcmc.sgld(
        **ARGUMENTS, minibatches="independent", n_chains=n_chains, burn_in=500, n_iters=20_000,
        verbose=False,
    )  # fmt: skip
    table = draws.summary()
    assert table.names == ["net/mu[0]", "net/mu[1]"]
    flat = draws["net"]["mu"].reshape(-1, 2)
    np.testing.assert_allclose(table["mean"], flat.mean(0), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(table["sd"], flat.std(0), rtol=1e-2)
    correlation = 1 - 0.1  # ε λ / 2 with λ = 200
    exact = flat.shape[0] * (1 - correlation) / (1 + correlation)
    np.testing.assert_allclose(table["ess"], exact, rtol=0.5)
    assert ("r_hat" in table) == (n_chains is not None)
    lines = repr(table).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split()[:2] == ["mean", "sd"]
    assert lines[1].startswith("net/mu[0]")


def test_a_summary_of_too_few_draws_says_so():
    with pytest.raises(ValueError, match="at least 4 draws"):
        sgmcmc.sgld(**ARGUMENTS, n_iters=3, verbose=False).summary()


def test_no_progress_where_none_is_wanted(capfd):
    sgmcmc.sgldcv(**ARGUMENTS, n_iters=300, verbose=False)
    assert capfd.readouterr() == ("", "")


def test_plain_lines_every_tenth_without_a_terminal(capfd):
    sgmcmc.sgld(**ARGUMENTS, n_iters=9000, burn_in=1000)
    out, lines = capfd.readouterr()
    assert out == ""
    lines = [line for line in lines.splitlines() if line.startswith("sgld: ")]
    assert 9 <= len(lines) <= 11
    assert re.fullmatch(
        r"sgld: 10,000 of 10,000 \(100%\), [\d,]+ it/s, log posterior -[\d.]+", lines[-1]
    )


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("with_tqdm", [True, False])
def test_one_line_that_is_rewritten_in_a_terminal(monkeypatch, with_tqdm):
    if with_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setattr(progress, "tqdm", None)
    monkeypatch.setattr("sys.stderr", Terminal())
    sgmcmc.sgld(**ARGUMENTS, n_iters=20_000)
    import sys

    text = sys.stderr.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    last = text.rsplit("\r", 1)[-1]
    assert "100%" in last
    assert "log posterior -" in last
