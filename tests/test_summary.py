"""Summaries: their numbers, their memory, their choice of quantities, and how they are shown."""

import re
import subprocess
import sys

import numpy as np
import pytest
from tensorflow_probability import mcmc

from sgmcmc import Draws


def autoregressive(rng, rho, *shape):
    """Draws x_t = ρ x_t−1 + noise, along the second axis."""
    x = rng.normal(size=shape)
    for t in range(1, shape[1]):
        x[:, t] += rho * x[:, t - 1]
    return x


def chained(**values):
    return Draws(values, {}, {"n_chains": 2})


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("n", [5, 1000, 2501])
@pytest.mark.parametrize("small_blocks", [False, True])
def test_numbers_are_those_of_whole_arrays(chains, n, small_blocks, seed, monkeypatch):
    """Chains that mix at once, slowly and not at all, by blocks of all sizes."""
    if small_blocks:
        for name, size in {"BLOCK": 2 * chains * n, "FIRST_LAGS": 4, "MOST_LAGS": 64}.items():
            monkeypatch.setattr(f"sgmcmc.summary.{name}", size)
        monkeypatch.setattr("sgmcmc.summary.WORK", 100)
    rng = np.random.default_rng(seed)
    x = np.stack([autoregressive(rng, rho, chains, n) for rho in (-0.3, 0, 0.9, 0.99, 1)], axis=2)
    x = x.astype("float32")
    found = Draws({"x": x}, {}, {"n_chains": chains}).summary()

    x = x.astype(float).swapaxes(0, 1)
    size = mcmc.effective_sample_size(
        x if chains > 1 else x[:, 0],
        filter_beyond_positive_pairs=True,
        cross_chain_dims=1 if chains > 1 else None,
    )
    N = chains * n
    expected = {
        "mean": x.mean(axis=(0, 1)),
        "sd": x.std(axis=(0, 1), ddof=1),
        **{f"{q}%": np.percentile(x, q, axis=(0, 1)) for q in (5, 50, 95)},
        "ess": N / np.maximum(N / size, 1 / np.log10(N)),
    }
    expected["mcse"] = expected["sd"] / np.sqrt(np.maximum(expected["ess"], 1))
    if chains > 1:
        expected["r_hat"] = np.sqrt(mcmc.potential_scale_reduction(x, split_chains=True))
    assert list(found) == list(expected)
    for name, column in expected.items():
        np.testing.assert_allclose(found[name], column, rtol=1e-6, atol=1e-9, err_msg=name)


MEMORY = """
import re, resource, sys
import numpy as np
import tensorflow_probability
from sgmcmc import Draws

shape, path = (16_000, 1_000), sys.argv[1]
x = np.random.default_rng(1).normal(size=shape).astype("float32")
x.tofile(path)
Draws({"x": x[:100, :2]}, {}, {}).summary()
with open("/proc/self/status") as status:
    now = int(re.search(r"VmData:\\s+(\\d+)", status.read())[1]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (now + 2 * x.nbytes,) * 2)
on_disk = np.memmap(path, "float32", "r", 0, shape)
summaries = [Draws({"x": y}, {}, {}).summary() for y in (x, on_disk)]
print(*(round(each["sd"].mean(), 2) for each in summaries), len(summaries[0].names))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by RLIMIT_DATA")
def test_a_summary_takes_at_most_twice_the_memory_of_the_draws(tmp_path):
    """64 MB of draws, in memory and in a file, in a process that cannot have more."""
    result = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "x")], capture_output=True, text=True
    )
    assert result.stdout.split() == ["1.0", "1.0", "1000"], result.stderr[-2000:]


def test_effective_sizes_of_antithetic_chains_are_bounded(seed):
    rng = np.random.default_rng(seed)
    x = np.resize([1.0, -1.0], (1, 20_000)) + rng.normal(0, 1e-3, (1, 20_000))
    assert chained(x=x).summary()["ess"][0] == pytest.approx(20_000 * np.log10(20_000))


def test_quantities_that_stand_still_or_are_not_finite():
    x = np.random.default_rng(1).normal(size=(2, 1001, 3)).astype("float32")
    x[..., 1], x[1, 7, 2] = 0.1, np.nan
    found = chained(x=x, still=np.full((2, 100), 7), yes=x[..., 0] > 0).summary()
    assert found.names == ["still", "x[0]", "x[1]", "x[2]", "yes"]
    still, moving = [0, 2], [1, 4]
    for name, of_still in {"mean": [7, 0.1], "sd": 0, "5%": [7, 0.1], "95%": [7, 0.1]}.items():
        np.testing.assert_allclose(found[name][still], of_still, rtol=1e-6)
    for name, column in found.items():
        assert np.isfinite(column[moving]).all()
        assert np.isnan(column[3])
        if name in ("ess", "mcse", "r_hat"):
            assert np.isnan(column[still]).all()
    assert found["50%"][4] == np.median(x[..., 0] > 0)


def some_draws():
    rng = np.random.default_rng(1)
    nest = {"a": rng.normal(size=(2, 50)), "b": rng.normal(size=(2, 50, 2, 3))}
    return chained(net=nest, network=rng.normal(size=(2, 50)), beta=rng.normal(size=(2, 50, 200)))


def test_some_quantities_by_name():
    draws = some_draws()
    whole = draws.summary()
    matrix = [f"net/b[{i}, {j}]" for i in range(2) for j in range(3)]
    for names, rows in {
        ("network",): ["network"],
        ("net",): ["net/a", *matrix],
        ("net/b", "net/a"): [*matrix, "net/a"],
        ("beta[199]", "net/b[1, 2]", "net/b[0,1]"): ["beta[199]", "net/b[1, 2]", "net/b[0, 1]"],
    }.items():
        found = draws.summary(names=list(names))
        assert found.names == rows
        where = [whole.names.index(row) for row in rows]
        for name, column in found.items():
            np.testing.assert_array_equal(column, whole[name][where])


BAD_NAMES = {  # what the error says, … for some words of it: what is passed
    "names has 'bta', which is not among the draws (did you mean 'beta'?)": ["bta"],
    "names has 'net/c'…(did you mean 'net/b'?)": ["net/c"],
    "names has 'beta[200]', but one draw of 'beta' has shape (200,)": ["beta[200]"],
    "names has 'beta[-1]', but one draw": ["beta[-1]"],
    "names has 'net/b[1]', but one draw of 'net/b' has shape (2, 3)": ["net/b[1]"],
    "names has 'beta[x]', but one draw": ["beta[x]"],
    "names must be a list of names of quantities, such as ['beta'], not 'beta'": "beta",
    "names must be a list of names of quantities, such as ['beta'], not []": [],
}


@pytest.mark.parametrize("message", BAD_NAMES)
def test_names_that_are_not_there(message):
    parts = (re.escape(part) for part in message.split("…"))
    with pytest.raises((TypeError, ValueError), match=".*".join(parts)):
        some_draws().summary(BAD_NAMES[message])


def test_long_tables_are_cut_and_say_so():
    lines = repr(some_draws().summary()).splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        *(f"beta[{i}]" for i in range(5)),
        "...",
        *("net/b[0,", "net/b[1,", "net/b[1,", "net/b[1,", "network"),
        "[208",
    ]
    assert lines[-1] == "[208 rows]"
    assert len({len(line) for line in lines[:-1]}) == 1
    short = repr(some_draws().summary(["net"])).splitlines()
    assert len(short) == 8


def test_a_table_in_notebooks():
    x = np.random.default_rng(1).normal(size=(2, 50))
    table = chained(**{"<b>": x}).summary()._repr_html_()
    assert "<b>" not in table
    assert "<th>&lt;b&gt;</th>" in table
    assert "<th>r_hat</th>" in table
    assert table.count("<tr>") == table.count("</tr>") == 2
    long = some_draws().summary()._repr_html_()
    assert long.count("<tr>") == 12
    assert "<p>[208 rows]</p>" in long


def test_a_data_frame(monkeypatch):
    pytest.importorskip("pandas")
    summary = some_draws().summary()
    frame = summary.to_frame()
    assert list(frame.index) == summary.names
    assert list(frame.columns) == list(summary)
    assert frame.loc["beta[7]", "ess"] == summary["ess"][7]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        summary.to_frame()
