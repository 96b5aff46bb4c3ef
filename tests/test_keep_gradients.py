"""Gradients that are kept with draws: each belongs to its draw, in any kind of run.

No test here is random: gradients are compared with exact ones, up to rounding.
"""

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import engine, programs, tree

from . import slow

N = 60
X = np.random.default_rng(0).normal([1.0, 2.0], size=(N, 2))
PRECISION = np.array([[2.0, 1.2], [1.2, 1.0]])
EXACT = {"minibatch_size": "all", "dtype": "float64", "seed": 3, "verbose": False}


def log_lik(params, data):
    away = data["x"] - params["net"]["mean"]
    return -tf.reduce_sum(away * tf.linalg.matmul(away, PRECISION)) / 2


def log_prior(params):
    return -tf.reduce_sum(params["b"] ** 2) * 30


def gradient(mean):
    return -N * (mean - X.mean(axis=0)) @ PRECISION


def run(sampler, stepsize=1e-4, **options):
    start = {"net": {"mean": np.zeros(2)}, "b": 0.5}
    options = {"log_prior": log_prior, "n_iters": 200, "keep_gradients": True, **options}
    return sampler(log_lik, {"x": X}, start, stepsize, **{**EXACT, **options})


def assert_paired(draws):
    mean, b = draws["net"]["mean"], draws["b"]
    of = draws.stats["gradients"]
    np.testing.assert_allclose(of["net"]["mean"], gradient(mean), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(of["b"], -60 * b, rtol=1e-9, atol=1e-9)
    assert np.std(mean) > 0


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sgld", {}),
        ("sghmc", {"alpha": 0.1, "L": 3, "stepsize": 1e-5}),
        slow("sgnht", {"stepsize": 1e-5}),
        slow("baoab", {"alpha": 0.1, "stepsize": 1e-5}),
        slow("psgld", {}),
        slow("sgbarker", {}),
        slow("sgldcv", {}),
    ],
)
def test_gradients_are_those_at_the_draws(name, options):
    draws = run(getattr(sgmcmc, name), n_chains=2, burn_in=5, thin=3, **options)
    assert draws["b"].shape == (2, 66)
    assert_paired(draws)
    assert "coordinates" not in draws.stats


def test_a_draw_is_the_point_before_its_step():
    """Draws of SGLD are those of a run without gradients, one step earlier, and so is `track`."""
    track = {"double": lambda params: 2 * params["b"]}
    with_them = run(sgmcmc.sgld, track=track)
    without = run(sgmcmc.sgld, keep_gradients=False)
    assert "gradients" not in without.stats
    np.testing.assert_array_equal(with_them["b"][1:], without["b"][:-1])
    np.testing.assert_array_equal(with_them["double"], 2 * with_them["b"])
    assert with_them["b"][0] == 0.5
    log_posterior = "log_posterior"
    np.testing.assert_array_equal(with_them.stats[log_posterior], without.stats[log_posterior])


class Downhill(sgmcmc.Dynamics):
    """The chain moves by its gradient alone, which the draws tell therefore."""

    def noise(self, x):
        return sgmcmc.Noise()

    def update(self, chain, estimate, noise, h):
        return chain._replace(x=tree.map(lambda x, g, h: x + h * g, chain.x, estimate.gradient, h))


@pytest.mark.parametrize("estimator", ["plain", slow("control_variates")])
def test_gradients_of_minibatches_are_those_by_which_the_chain_moved(estimator, monkeypatch):
    monkeypatch.setattr(engine, "APART_BYTES", 0)  # minibatches are copied, as large ones are

    def sample(*arguments, **options):
        return sgmcmc.sample(Downhill(), *arguments, gradient=estimator, **options)

    h, mode = 1e-5, sgmcmc.ControlVariate(mode={"net": {"mean": np.ones(2)}, "b": 0.1})
    estimator = mode if estimator == "control_variates" else estimator
    draws = run(sample, h, minibatch_size=4)
    for x, g in zip(tree.leaves(dict(draws)), tree.leaves(draws.stats["gradients"])):
        np.testing.assert_allclose(np.diff(x, axis=0), h * g[:-1], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("precondition", ["hessian", slow("diagonal")])
def test_gradients_are_by_the_parameters_in_white_coordinates(precondition):
    draws = run(sgmcmc.sgld, None, n_chains=2, precondition=precondition)
    assert_paired(draws)
    assert "coordinates" not in draws.stats


@pytest.mark.slow
def test_shrunk_draws_have_the_coordinates_of_their_gradients():
    draws = run(sgmcmc.sgld, None, rescale=True, minibatch_size=20)
    x = draws.stats["coordinates"]
    assert not np.allclose(x["b"], draws["b"], rtol=1e-6)
    np.testing.assert_allclose(draws.stats["gradients"]["b"], -60 * x["b"], rtol=1e-8, atol=1e-8)


def test_gradients_of_constrained_parameters_are_by_free_coordinates():
    """With θ = exp(x) and the density θ³ exp(−2θ), that of x has the gradient 4 − 2θ."""
    draws = sgmcmc.sgld(
        lambda params, data: 0 * tf.reduce_sum(data["x"]) + 0 * params["rate"],
        {"x": X},
        {"rate": 1.0},
        0.01,
        log_prior=lambda params: 3 * tf.math.log(params["rate"]) - 2 * params["rate"],
        constrain={"rate": "positive"},
        n_iters=300,
        keep_gradients=True,
        **EXACT,
    )
    x, g = draws.stats["coordinates"]["rate"], draws.stats["gradients"]["rate"]
    np.testing.assert_allclose(np.exp(x), draws["rate"], rtol=1e-12)
    np.testing.assert_allclose(g, 4 - 2 * draws["rate"], rtol=1e-9, atol=1e-9)
    found = sgmcmc.zero_variance(draws)
    assert found["variance_ratio"][0] < 1e-20
    assert abs(found["mean"][0] - 2) < 1e-10


def test_only_those_of_kept_parameters_are_kept():
    draws = run(sgmcmc.sgld, None, keep=["b"])
    assert list(draws) == list(draws.stats["gradients"]) == ["b"]
    np.testing.assert_allclose(draws.stats["gradients"]["b"], -60 * draws["b"], atol=1e-8)


def test_draws_on_disk_have_them_and_go_on(tmp_path):
    options = {"minibatch_size": 6, "n_chains": 2}
    whole = run(sgmcmc.sgld, None, **options)
    run(sgmcmc.sgld, None, out=tmp_path / "a", n_iters=80, **options)
    with pytest.raises(ValueError, match="keep, track and keep_gradients must be those with"):
        run(sgmcmc.sgld, None, out=tmp_path / "a", resume=True, keep_gradients=False, **options)
    resumed = run(sgmcmc.sgld, None, out=tmp_path / "a", resume=True, **options)
    for draws in (resumed, sgmcmc.load_draws(tmp_path / "a")):
        nests = [(dict(d), d.stats) for d in (whole, draws)]
        tree.map(np.testing.assert_array_equal, *tree.map(np.asarray, nests))
    in_memory, stored = (sgmcmc.zero_variance(draws) for draws in (whole, resumed))
    for column in in_memory:
        np.testing.assert_array_equal(in_memory[column], stored[column])
    np.testing.assert_allclose(in_memory["mean"][1:], X.mean(axis=0), atol=0.05)


def test_runs_with_and_without_follow_one_another():
    start = {"net": {"mean": np.zeros(2)}, "b": 0.5}

    def made():
        return sgmcmc.sgld_setup(log_lik, {"x": X}, start, 1e-4, log_prior=log_prior, **EXACT)

    sampler, plain = made(), made()
    whole = sgmcmc.run(plain, 60)
    first = sgmcmc.run(sampler, 20)
    last = sgmcmc.get_params(sampler)["b"]
    second = sgmcmc.run(sampler, 20, keep_gradients=True)
    assert second["b"][0] == last
    assert_paired(second)
    sgmcmc.step(sampler, 10)
    third = sgmcmc.run(sampler, 10)
    np.testing.assert_array_equal(first["b"], whole["b"][:20])
    np.testing.assert_array_equal(second["b"], whole["b"][19:39])
    np.testing.assert_array_equal(third["b"], whole["b"][50:])


def test_programs_without_gradients_have_no_more_outputs(monkeypatch):
    outputs, trace = [], programs.trace

    def seen(*arguments):
        made = trace(*arguments)
        outputs.append([tuple(x.shape) for x in made.outputs])
        return made

    monkeypatch.setattr(programs, "trace", seen)
    run(sgmcmc.sgld, keep_gradients=False)
    run(sgmcmc.sgld)
    without, with_them = outputs
    size = without[-1][0]
    # that it stopped, two parameters of the chain, these once more, and the draws of an iteration
    assert len(without) == 1 + 2 + 2 + 3
    assert sorted(with_them) == sorted(without + 2 * [(size, 1, 2), (size, 1)])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: sgmcmc.scir(
                lambda p, d: tf.reduce_sum(tf.math.log(tf.gather(p["omega"], d["z"]))),
                {"z": np.arange(40) % 4},
                {"omega": np.full(4, 0.25)},
                0.5,
                0.1,
                minibatch_size=10,
                keep_gradients=True,
            ),
            "keep_gradients must be False with this sampler, where probabilities move by counts",
        ),
        (
            lambda: run(
                sgmcmc.mixed,
                blocks={
                    "net": sgmcmc.SGLD(),
                    "b": sgmcmc.Gibbs(lambda params, data, key: params["b"]),
                },
            ),
            "where some parameters are drawn by Gibbs steps",
        ),
        (
            lambda: sgmcmc.gsgnht(
                lambda p, d: tf.reduce_sum(d["x"] * p["mu"]),
                {"x": X},
                {"mu": [0.6, 0.8]},
                0.01,
                manifold=sgmcmc.Sphere(),
                keep_gradients=True,
            ),
            "where parameters lie on a manifold",
        ),
        (lambda: run(sgmcmc.sgld, temperature=2.0), "where the chain is tempered"),
        (lambda: run(sgmcmc.sgld, keep=[]), "needs parameters to keep, and keep has none"),
    ],
    ids=["counts", "gibbs", "manifold", "tempered", "none"],
)
def test_where_gradients_tell_nothing_they_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_keep_gradients_is_true_or_false():
    with pytest.raises(TypeError, match="keep_gradients must be True or False, not 'yes'"):
        run(sgmcmc.sgld, keep_gradients="yes")
