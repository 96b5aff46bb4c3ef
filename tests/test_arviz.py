"""Draws as ArviZ's data: InferenceData up to 0.23, DataTree from 1.0 on."""

import json
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


def test_without_arviz_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'sgmcmc\[plot\]'"):
        Draws({"x": np.zeros(10)}, {}, {"n_chains": None}).to_arviz()
