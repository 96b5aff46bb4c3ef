"""Functions of draws and data: averages, quantiles, scores, and the log likelihood of rows."""

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import prediction

RNG = np.random.default_rng(0)
SLOPE = RNG.normal(1, 0.3, (2, 150, 3)).astype(np.float32)
DRAWS = sgmcmc.Draws({"a": {"slope": SLOPE}}, {}, {"n_chains": 2, "sampler": "sgld", "seed": 1})
DATA = {"X": RNG.normal(size=(500, 3)).astype(np.float32), "y": np.arange(500) % 2}


def chance(params, data):
    return tf.sigmoid(tf.linalg.matvec(data["X"], params["a"]["slope"]))


def exact(thin=1):
    slope = SLOPE[:, thin - 1 :: thin].reshape(-1, 3).astype(float)
    return 1 / (1 + np.exp(-slope @ DATA["X"].T))


class TestPredict:
    @pytest.mark.parametrize("nbytes", [1 << 25, 20_000])
    @pytest.mark.parametrize("thin", [1, 7])
    def test_all_of_it(self, thin, nbytes, monkeypatch):
        """In one piece, and in many pieces of rows."""
        monkeypatch.setattr(prediction, "BYTES", nbytes)
        monkeypatch.setattr(prediction, "KEPT_BYTES", nbytes)
        found = DRAWS.predict(chance, DATA, thin=thin, quantiles=(0.05, 0.5), keep=True)
        values = exact(thin)
        np.testing.assert_allclose(found.values, values, rtol=1e-5)
        np.testing.assert_allclose(found.mean, values.mean(0), rtol=1e-5)
        np.testing.assert_allclose(found.sd, values.std(0), rtol=1e-3)
        for q in (0.05, 0.5):
            np.testing.assert_allclose(found.quantiles[q], np.quantile(values, q, 0), rtol=1e-5)
        assert repr(found) == f"Prediction((500,), mean of {len(values)} draws)"

    def test_several_numbers_a_row(self):
        def both(params, data):
            p = chance(params, data)
            return tf.stack([1 - p, p], axis=1)

        found = DRAWS.predict(both, DATA)
        np.testing.assert_allclose(found.mean[:, 1], exact().mean(0), rtol=1e-5)
        assert found.values is None
        assert found.score(DATA["y"]) == pytest.approx(
            DRAWS.predict(chance, DATA).score(DATA["y"]), rel=1e-4
        )

    def test_from_disk(self, tmp_path):
        DRAWS.save(tmp_path / "x")
        stored = sgmcmc.load_draws(tmp_path / "x")
        a, b = DRAWS.predict(chance, DATA), stored.predict(chance, DATA)
        np.testing.assert_array_equal(a.mean, b.mean)

    @pytest.mark.parametrize(
        ("fn", "more", "message"),
        [
            (lambda params, data: tf.reduce_sum(data["X"]), {}, "whose first axis are the rows"),
            (lambda params, data: data["Z"], {}, "fn raised KeyError|'Z'"),
            (chance, {"thin": 0}, "thin must be"),
            (chance, {"thin": 151}, "thin must be at most 150"),
            (chance, {"quantiles": [2]}, "quantiles must be"),
            (3, {}, "fn must be a function"),
        ],
    )
    def test_bad_input(self, fn, more, message):
        with pytest.raises((ValueError, TypeError), match=message):
            DRAWS.predict(fn, DATA, **more)


class TestScore:
    def test_by_hand(self):
        mean = np.array([0.9, 0.8, 0.3, 0.6])
        found = sgmcmc.Prediction(mean, mean, {}, None, 1).score([1, 0, 0, 1])
        logs = np.log([0.9, 0.2, 0.7, 0.6])
        assert found["log_score"] == pytest.approx(logs.mean())
        assert found["log_score_error"] == pytest.approx(logs.std() / 2)
        assert found["accuracy"] == 0.75
        # each row is in a group of its own
        assert found["calibration"] == pytest.approx((0.1 + 0.8 + 0.3 + 0.4) / 4)

    def test_calibrated_probabilities(self):
        rng = np.random.default_rng(0)
        p = rng.random(100_000)
        labels = rng.random(100_000) < p
        good = sgmcmc.Prediction(p, p, {}, None, 1).score(labels)
        assert good["calibration"] < 5 * good["calibration_error"]
        bold = p**3 / (p**3 + (1 - p) ** 3)
        bad = sgmcmc.Prediction(bold, p, {}, None, 1).score(labels)
        assert bad["calibration"] > 20 * bad["calibration_error"]
        assert bad["log_score"] < good["log_score"] - 5 * good["log_score_error"]

    @pytest.mark.parametrize(
        ("labels", "mean", "message"),
        [
            ([0, 1], np.full(3, 0.5), "labels must be one class for each of 3 rows"),
            ([0, 2, 1], np.full(3, 0.5), "must be classes from 0 to 1"),
            ([0, 1, 1], np.full(3, 2.0), "score needs probabilities"),
        ],
    )
    def test_bad_input(self, labels, mean, message):
        with pytest.raises(ValueError, match=message):
            sgmcmc.Prediction(mean, mean, {}, None, 1).score(labels)


class TestLogLikelihood:
    def test_for_arviz(self):
        arviz = pytest.importorskip("arviz")
        draws = sgmcmc.Draws(dict(DRAWS), {}, DRAWS.settings)

        def fn(params, data):
            p = chance(params, data)
            return tf.where(data["y"] == 1, tf.math.log(p), tf.math.log(1 - p))

        found = draws.log_likelihood(fn, DATA, thin=3)
        p = exact(3)
        expected = np.log(np.where(DATA["y"] == 1, p, 1 - p)).reshape(2, 50, 500)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
        data = draws.to_arviz()
        assert data.posterior["a.slope"].shape == (2, 50, 3)
        assert np.isfinite(arviz.loo(data).elpd_loo if hasattr(arviz.loo(data), "elpd_loo") else 0)

    def test_bad_input(self):
        with pytest.raises(ValueError, match=r"log likelihood of each row, of shape \(rows,\)"):
            DRAWS.log_likelihood(lambda params, data: data["X"], DATA)


class TestConcatenate:
    def test_draws_and_chains(self):
        one = sgmcmc.Draws({"x": np.arange(4.0)}, {}, {"n_chains": None, "seed": 1})
        two = sgmcmc.Draws({"x": np.arange(6.0)}, {}, {"n_chains": None, "seed": 2})
        both = sgmcmc.Draws.concatenate([one, two])
        np.testing.assert_array_equal(both["x"], [0, 1, 2, 3, 0, 1, 2, 3, 4, 5])
        assert both.settings["seed"] == [1, 2]
        with pytest.raises(ValueError, match=r"parts\[1\] has 6 draws, and parts\[0\] has 4"):
            sgmcmc.Draws.concatenate([one, two], "chains")
        chains = sgmcmc.Draws.concatenate([one, one], "chains")
        assert (chains["x"].shape, chains.settings["n_chains"]) == ((2, 4), 2)

    @pytest.mark.parametrize(
        ("other", "message"),
        [
            ({"y": np.zeros(4)}, r"must have the draws and statistics of parts\[0\]"),
            ({"x": np.zeros((4, 2))}, "of shape"),
        ],
    )
    def test_other_models(self, other, message):
        one, two = (sgmcmc.Draws(x, {}, {"n_chains": None}) for x in ({"x": np.zeros(4)}, other))
        with pytest.raises(ValueError, match=message):
            sgmcmc.Draws.concatenate([one, two])
        with pytest.raises(TypeError, match="must be a list of Draws"):
            sgmcmc.Draws.concatenate([one, 3])
        with pytest.raises(ValueError, match="axis must be"):
            sgmcmc.Draws.concatenate([one], "rows")
