"""Draws as ArviZ's data: InferenceData up to 0.23, DataTree from 1.0 on."""

import json
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import Draws

az = pytest.importorskip("arviz")

X = np.random.default_rng(1).normal(size=(1000, 2))


def sampled(n_chains):
    def log_lik(params, data):
        return -tf.reduce_sum((data["x"] - params["group"]["mean"]) ** 2) / 2 - params["c"] ** 2

    params = {"group": {"mean": np.zeros(2)}, "c": 0.0}
    return sgmcmc.sgnht(
        *(log_lik, {"x": X}, params, 1e-5, None, 100, 200),
        track={"total": lambda params: tf.reduce_sum(params["group"]["mean"])},
        n_chains=n_chains,
        seed=1,
        verbose=False,
    )


@pytest.mark.parametrize("n_chains", [None, 3])
def test_everything_arrives_under_its_name(n_chains):
    draws = sampled(n_chains)
    data = draws.to_arviz()
    chained = np.asarray if n_chains else lambda x: np.asarray(x)[None]
    for arrived, sent in {
        "group.mean": draws["group"]["mean"],
        "c": draws["c"],
        "total": draws["total"],
    }.items():
        np.testing.assert_array_equal(data.posterior[arrived], chained(sent))
    for arrived, sent in {
        "lp": draws.stats["log_posterior"],
        "thermostat.c": draws.stats["thermostat"]["c"],
        "temperature.group.mean": draws.stats["temperature"]["group"]["mean"],
    }.items():
        np.testing.assert_array_equal(data.sample_stats[arrived], chained(sent))
    assert data.posterior.sizes["chain"] == (n_chains or 1)
    assert data.attrs["inference_library"] == "sgmcmc"
    assert json.loads(data.attrs["settings"])["sampler"] == "sgnht"


def test_arviz_sums_up_as_we_do():
    draws = sampled(3)
    theirs, ours = az.summary(draws.to_arviz(), var_names=["c"], round_to=8), draws.summary()
    assert float(theirs["mean"].iloc[0]) == pytest.approx(ours["mean"][ours.names.index("c")])
    assert float(theirs["sd"].iloc[0]) == pytest.approx(ours["sd"][ours.names.index("c")], rel=1e-3)


def test_effective_sizes_are_bounded_as_theirs():
    rng = np.random.default_rng(1)
    x = np.resize([1.0, -1.0], (1, 20_000)) + rng.normal(0, 1e-3, (1, 20_000))
    draws = Draws({"x": x}, {}, {"n_chains": 1})
    theirs = float(az.ess(draws.to_arviz(), method="mean")["x"])
    assert float(draws.summary()["ess"][0]) == pytest.approx(theirs)


def test_r_hat_is_theirs():
    """Chains about 0, .1, .2 and .3 standard deviations."""
    x = np.random.default_rng(1).normal(size=(4, 5000)) + 0.1 * np.arange(4)[:, None]
    draws = Draws({"x": x}, {}, {"n_chains": 4})
    ours = float(draws.summary()["r_hat"][0])
    theirs = float(az.rhat(draws.to_arviz(), method="split")["x"])
    assert theirs > 1.004
    assert ours == pytest.approx(theirs, abs=2e-3)


def test_it_can_be_saved(tmp_path):
    draws = sampled(None)
    draws.to_arviz().to_netcdf(str(tmp_path / "draws.nc"))
    np.testing.assert_array_equal(
        az.from_netcdf(str(tmp_path / "draws.nc")).posterior["c"][0], draws["c"]
    )


def test_dimensions_have_names_and_labels():
    draws = Draws({"beta": np.zeros((100, 2)), "sigma": np.ones(100)}, {}, {"n_chains": None})
    data = draws.to_arviz({"feature": ["age", "dose"]}, {"beta": ["feature"]})
    assert data.posterior["beta"].sel(feature="dose").shape == (1, 100)
    with pytest.raises(ValueError, match=r"dims names 'bta'.*did you mean 'beta'"):
        draws.to_arviz(dims={"bta": ["feature"]})
    with pytest.raises(TypeError, match=r"dims\['beta'\] must be a list of names, not 'feature'"):
        draws.to_arviz(dims={"beta": "feature"})
    with pytest.raises(ValueError, match=r"dims\['sigma'\] has 1 names.*shape \(\)"):
        draws.to_arviz(dims={"sigma": ["feature"]})


x = np.zeros(100)
LOST = {  # what the error says: values, statistics
    "'a/b' and 'a.b' would both be 'a.b' in ArviZ": ({"a.b": x, "a": {"b": x + 1}}, {}),
    "'temperature/a/b' and 'temperature/a.b' would both": (
        {"c": x},
        {"temperature": {"a.b": x, "a": {"b": x}}},
    ),
    "'log_posterior' and 'lp' would both be 'lp'": ({"c": x}, {"log_posterior": x, "lp": x}),
    "'draw' is the name of a dimension": ({"draw": x}, {}),
    "'chain' is the name of a dimension": ({"c": x, "chain": x}, {}),
    "'beta_dim_0' is the name of a dimension": ({"beta": X[:100], "beta_dim_0": x}, {}),
}


@pytest.mark.parametrize("message", LOST)
def test_no_quantity_is_lost_where_names_collide(message):
    values, stats = LOST[message]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}.*: rename one"):
        Draws(values, stats, {"n_chains": None}).to_arviz()


def test_a_test_function_may_have_the_name_of_a_statistic():
    data = Draws({"lp": x + 1}, {"log_posterior": x}, {"n_chains": None}).to_arviz()
    assert (data.posterior["lp"] == 1).all()
    assert (data.sample_stats["lp"] == 0).all()


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'sgmcmc\[plot\]'"):
        Draws({"x": np.zeros(10)}, {}, {"n_chains": None}).to_arviz()
