"""What `diagnose` says of runs of many kinds, each with a fault that it once had.

Bounds on estimates are 6 standard errors or more from what is right. The wrong values, which are
those of other minibatches, are more than 6 beyond the bounds.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc

from . import slow
from .test_diagnose import OPTIONS, quiet, said  # noqa: F401

pytestmark = pytest.mark.usefixtures("quiet")


def of_mean(params, data):
    return -tf.reduce_sum((data["x"] - params["m"]) ** 2) / 2


def a_mean(N=1000):
    """Data with mean m, whose posterior is N(x̄, 1/N)."""
    return of_mean, {"x": np.random.default_rng(0).permutation(np.linspace(-2, 2, N))}, {"m": 0.0}


def left_out(diagnosis):
    return " ".join(diagnosis.left_out)


def test_stratified_minibatches(seed):
    """In the order of x, a stratum has 1/20² of the variance. That of draws is by the law of SGLD.

    With independent minibatches of 20 rows it would be 4.6, and at half the step 2.7.
    """
    log_lik, dataset, params = a_mean()
    draws = sgmcmc.sgld(
        *(log_lik, dataset, params, 2e-4), minibatch_size=20, minibatches=dataset["x"],
        n_iters=20_000, seed=seed, verbose=False,
    )  # fmt: skip
    diagnosis = sgmcmc.diagnose(draws, halve=True)
    exact = (1 + 0.2 * (50 / 300) / 4) / (1 - 0.2 / 4)
    assert diagnosis["expected"][0] == pytest.approx(exact, abs=0.03)
    assert diagnosis.overall["width_expected"] == pytest.approx(exact, abs=0.03)
    assert abs(np.log(diagnosis["half"][0])) < 0.35
    draws._origin = draws._origin._replace(strata=None)
    draws.settings["minibatches"] = "independent"
    wrong = sgmcmc.diagnose(draws, halve=True)
    assert "The chain is not what its equation says" in said(wrong)
    assert "The variance changes with the step size" in said(wrong)


def of_net(params, data):
    of_w = tf.reduce_sum((data["x"][:, :3] - params["net"]["w"]) ** 2)
    return -(of_w + tf.reduce_sum((data["x"][:, 3] - params["b"]) ** 2)) / 2


def mixed(seed, **blocks):
    """A run of `mixed` without gradient noise, at a posterior with variance 1/1000."""
    x = np.random.default_rng(0).normal(size=(1000, 4))
    return sgmcmc.mixed(
        *(of_net, {"x": x}, {"net": {"w": np.zeros(3)}, "b": 0.0}, 1e-4, blocks),
        gradient="control_variates", minibatches="independent", n_iters=4000, seed=seed, **OPTIONS,
    )  # fmt: skip


def test_temperatures_of_blocks(seed):
    """Those of SGHMC are 1 / (1 − α/2), and tell the variance."""
    diagnosis = sgmcmc.diagnose(mixed(seed, net=sgmcmc.SGHMC(0.5), b=sgmcmc.SGHMC(0.4)))
    known = diagnosis.overall
    assert known["temperature_expected"] == pytest.approx({"b": 1 / 0.8, "net/w": 1 / 0.75})
    assert "The temperature of" not in said(diagnosis)
    T = known["temperature"]
    told = (0.8 * T["b"] + 3 * 0.75 * T["net/w"]) / 4
    assert known["width_expected"] == pytest.approx(told)
    assert known["width"] == pytest.approx(told, abs=0.02 + 8 * known["width_error"])


@pytest.mark.parametrize(
    ("blocks", "temperatures"),
    [
        (
            {"net": sgmcmc.SGNHT(0.1, thermostat="coordinate"), "b": sgmcmc.SGHMC(0.5)},
            {"b": 1 / 0.75, "net/w": 1.0},
        ),
        slow({"net": sgmcmc.SGHMC(0.5), "b": sgmcmc.SGNHT()}, {"b": 1.0, "net/w": 1 / 0.75}),
        slow({"net": sgmcmc.SGLD(), "b": sgmcmc.BAOAB(1.0)}, {"b": 1.0}),
    ],
)
def test_blocks_of_several_kinds(seed, blocks, temperatures):
    """The variance of blocks without momentum, or without memory of it, is not told."""
    known = sgmcmc.diagnose(mixed(seed, **blocks)).overall
    assert known["temperature_expected"] == pytest.approx(temperatures)
    assert ("width_expected" in known) == (len(temperatures) == 2)


def test_baoab_that_forgets_its_momentum(seed):
    """The momentum that is recorded is then noise, and does not tell the variance."""
    draws = sgmcmc.baoab(*a_mean(), 1e-5, alpha=1.0, n_iters=2000, seed=seed, **OPTIONS)
    known = sgmcmc.diagnose(draws).overall
    assert known["temperature_expected"] == {"m": 1.0}
    assert "width" in known
    assert "width_expected" not in known


def test_tempered_chains(seed):
    draws = sgmcmc.sghmc(
        *a_mean(), 1e-4, alpha=0.2, temperature=0.5, n_iters=2000, seed=seed, **OPTIONS
    )
    diagnosis = sgmcmc.diagnose(draws)
    assert "temperature" not in diagnosis.overall
    assert "The temperature of" not in said(diagnosis)
    assert "the temperature, as the chain is tempered" in left_out(diagnosis)


class Noisy(sgmcmc.Estimator):
    """Gradients with some noise of their own."""

    needs_key = True

    def estimate(self, model, x, state, batch):
        data = tf.nest.map_structure(lambda a: batch.scale * a, model.on_rows(x, batch))
        noise = tf.cast(batch.key[:, 0] % 2, tf.float32) - 0.5
        gradient = tf.nest.map_structure(lambda g: g + noise, data.gradient)
        total = model.with_prior(x, data._replace(gradient=gradient))
        return sgmcmc.Estimate(*total, 1000), state


class FromStarts(sgmcmc.Estimator):
    """Keeps the starting point of each chain."""

    def init(self, model, x, data, mode):
        return x

    def estimate(self, model, x, state, batch):
        data = tf.nest.map_structure(lambda a: batch.scale * a, model.on_rows(x, batch))
        gradient = tf.nest.map_structure(lambda g, x, s: g + 0 * (x - s), data.gradient, x, state)
        total = model.with_prior(x, data._replace(gradient=gradient))
        return sgmcmc.Estimate(*total, 1000), state


@pytest.mark.parametrize(
    ("estimator", "chains"), [(Noisy(), None), slow(Noisy(), 3), (FromStarts(), 3)]
)
def test_estimators_of_ones_own(estimator, chains):
    """Those that need a key, or have a state for each chain, are not asked again."""
    draws = sgmcmc.sgld(
        *a_mean(), 2e-4, gradient=estimator, n_chains=chains, n_iters=2000, seed=1, **OPTIONS
    )
    diagnosis = sgmcmc.diagnose(draws)
    assert "width" in diagnosis
    assert "noise" not in diagnosis
    assert "gradient noise, as this estimator has a state" in left_out(diagnosis)


def test_half_a_step_with_which_the_chain_diverges():
    with pytest.raises(sgmcmc.ChainDiverged) as error:
        sgmcmc.sgld(*a_mean(), 8.4e-3, n_chains=4, n_iters=1000, seed=1, **OPTIONS)
    diagnosis = sgmcmc.diagnose(error.value.draws, halve=True)
    assert "The chain diverges even with half the step size" in said(diagnosis)
    assert "half" not in diagnosis


class File:
    """An array that can be sliced until it is closed, as that of a file or of a cluster."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __len__(self):
        return len(self.array)

    def __getitem__(self, rows):
        if self.array is None:
            raise OSError("the file is closed")
        return self.array[rows]


def test_data_that_cannot_be_read_any_more():
    log_lik, dataset, params = a_mean()
    file = File(dataset["x"])
    draws = sgmcmc.sgld(log_lik, {"x": file}, params, 1e-4, n_iters=300, seed=1, **OPTIONS)
    file.array = None
    diagnosis = sgmcmc.diagnose(draws, halve=True)
    assert left_out(diagnosis).count("cannot be read any more (OSError: the file is closed)") == 2
    assert set(diagnosis) == {"mean", "sd", "ess"}


@dataclass(frozen=True)
class Counting(sgmcmc.SGLD):
    """Records a number for each coordinate as its temperature."""

    def draw(self, chain, h):
        return chain.x, {"temperature": chain.x}


def test_statistics_of_ones_own():
    options = {"minibatch_size": 200, "n_iters": 300, "seed": 1, "verbose": False}
    log_lik = lambda params, data: of_mean({"m": params["m"][0]}, data)  # noqa: E731
    dataset = a_mean()[1]
    draws = sgmcmc.sample(Counting(), log_lik, dataset, {"m": np.zeros(2)}, 1e-4, **options)
    assert "temperature" not in sgmcmc.diagnose(draws).overall


def of_directions(params, data):
    return 3 * tf.reduce_sum(tf.linalg.matvec(data["x"], params["u"]))


def directions():
    x = np.random.default_rng(0).normal([2, 0, 0], 1, (100, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return of_directions, {"x": x}, {"u": np.array([1.0, 0, 0])}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", [sgmcmc.sggmc, sgmcmc.gsgnht, sgmcmc.gmc])
@pytest.mark.parametrize("chains", [None, 2])
def test_samplers_on_manifolds(sampler, chains):
    options = {} if sampler is sgmcmc.gmc else {"friction": 1.0, "minibatch_size": 20}
    draws = sampler(
        *directions(), 0.02, manifold=sgmcmc.Sphere(), n_chains=chains, n_iters=300, seed=1,
        verbose=False, **options,
    )  # fmt: skip
    diagnosis = sgmcmc.diagnose(draws, halve=True)
    assert "as parameters lie on a manifold" in left_out(diagnosis)
    assert "half" in diagnosis
