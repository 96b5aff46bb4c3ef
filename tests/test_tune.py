"""A race of settings: it lands near the best, survives divergence, and changes no chain."""

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import tree
from sgmcmc.assembly import set_up
from sgmcmc.describe import ROWS, bound
from sgmcmc.race import arms as arms_of
from sgmcmc.race import rounds
from sgmcmc.race.arms import Arm, combined, geometric
from sgmcmc.race.discrepancy import Discrepancy, by_coordinate
from sgmcmc.race.program import Program

from . import slow
from .test_common import arguments

N = 2000
X = np.random.default_rng(0).normal(size=N)


def log_lik(params, data):
    return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2


def log_lik_of_two(params, data):
    error = data["x"] - params["a"]["matrix"][0, 1] - params["b"]
    return -tf.reduce_sum(error**2) / 2 - tf.reduce_sum(params["a"]["matrix"][:, 0] ** 2)


MODEL = log_lik, {"x": X}, {"mean": X.mean()}
QUICK = {"seconds": 0.3, "verbose": False, "minibatch_size": 50, "jit": False}


def excess(params):
    """Half the squared distance from the posterior's mean, in its standard deviations."""
    return N * (params["mean"] - X.mean().astype("float32")) ** 2 / 2


def plan_of(name, **more):
    setup = getattr(sgmcmc, f"{name}_setup")
    return ROWS[name].plan(bound(setup, (), arguments(name, **more)))


def with_steps(name, steps, **more):
    """A sampler with a step size for each chain."""
    plan = plan_of(name, n_chains=len(steps), **more)
    return set_up(plan._replace(schedule=[np.array(steps)] * len(plan.schedule)))


@pytest.mark.parametrize(
    "name",
    [
        "sgld",
        *map(
            slow,
            ("sghmc", "sgnht", "sgldcv", "psgld", "sgbarker", "baoab", "scir", "scircv", "sgrld"),
        ),
        slow("mixed"),
    ],
)
def test_step_sizes_by_chain_give_the_chains_of_single_step_sizes(name):
    """To rounding where XLA fuses products and sums in another way, as for SGHMC; else exactly."""
    h = arguments(name)["stepsize"]
    steps = [h, h / 3, h / 10]
    together = sgmcmc.run(with_steps(name, steps), 100, verbose=False)
    for c, step in enumerate(steps):
        alone = getattr(sgmcmc, name)(**arguments(name, n_chains=3, stepsize=step), n_iters=100)
        nests = (dict(together), dict(alone)), (together.stats, alone.stats)
        for x, y in ((a, b) for pair in nests for a, b in zip(*map(tree.leaves, pair))):
            if name in ("sghmc", "sgnht", "mixed"):
                np.testing.assert_allclose(x[c], y[c], rtol=2e-3, atol=1e-4)
            else:
                np.testing.assert_array_equal(x[c], y[c])


@pytest.mark.slow
def test_step_sizes_by_chain_do_not_depend_on_blocks():
    steps = [1e-3, 1e-4]
    whole = sgmcmc.run(with_steps("sgld", steps, temperature=lambda k: 1 + k % 2), 7)
    sampler = with_steps("sgld", steps, temperature=lambda k: 1 + k % 2)
    for i in range(7):
        sgmcmc.step(sampler)
        for x, y in zip(*map(tree.leaves, (dict(whole), sgmcmc.get_params(sampler)))):
            np.testing.assert_array_equal(x[:, i], y)


def test_a_diverging_chain_is_named():
    with pytest.raises(sgmcmc.ChainDiverged) as caught:
        with_steps("sgld", [1e-4, 1e4, 1e-4, 1e4]).run(100)
    assert caught.value.chains == (1, 3)


@pytest.mark.slow
def test_the_best_of_a_fine_grid_within_a_factor_of_two(seed):
    """Of a Gaussian posterior of 200 parameters, where the variance of SGLD is known exactly.

    The loss is |log(variance / (1.3 posterior variances))|, which is 0 at one step size alone. A
    draw tells the variance to 10 %, and that of a step 2.5 times as large is 40 % larger.
    """
    n, n_all, p = 20, 200, 200
    x = np.random.default_rng(seed).normal(size=(n_all, p))
    x = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
    noise = n_all * (n_all - n) / n  # inflation: (1 + noise h / 4) / (1 - n_all h / 4)
    best = 0.3 / (noise / 4 + 1.3 * n_all / 4)

    def gaussian(params, data):
        return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2

    def loss(params):
        return tf.abs(tf.math.log(tf.reduce_mean(params["mean"] ** 2) * (n_all / 1.3)))

    table = sgmcmc.tune(
        sgmcmc.sgld, gaussian, {"x": x}, {"mean": np.zeros(p)}, minibatch_size=n, loss=loss,
        grid={"stepsize": best * np.geomspace(1 / 64, 64, 19)}, seconds=1.5, seed=seed,
        verbose=False, minibatches="independent",
    )  # fmt: skip
    assert best / 2 <= table.best["stepsize"] <= 2 * best
    assert (table["diverged"] >= 0).sum() >= 2


@pytest.mark.slow
def test_the_discrepancy_finds_usable_steps(seed):
    """Of 30 parameters with variance 1/N. Small steps barely move, and large ones are too wide."""
    x = np.random.default_rng(seed).normal(size=(N, 30))
    table = sgmcmc.tune(
        sgmcmc.sgld, log_lik, {"x": x}, {"mean": x.mean(axis=0)}, seed=seed,
        grid={"stepsize": np.geomspace(1e-10, 1, 11)}, seconds=1.5, verbose=False,
        minibatch_size=200,
    )  # fmt: skip
    assert 1e-7 < table.best["stepsize"] < 2e-3
    assert table["diverged"][-1] >= 0
    assert np.isnan(table["score"][-1])
    assert list(table["rounds"]) == sorted(table["rounds"], reverse=True)


@pytest.mark.slow
def test_default_steps_hold_the_best(seed):
    table = sgmcmc.tune(sgmcmc.sgld, *MODEL, seed=seed, **QUICK)
    steps = np.sort(table["stepsize"])
    assert steps[0] < 0.1 * 50 / N / N
    assert 1 / N < steps[-1] < 4 / N
    assert (np.diff(np.log(steps)) < np.log(2.02)).all()


@pytest.mark.slow
def test_all_arguments_of_a_sampler_can_be_tried(seed):
    grid = {"stepsize": [1e-7, 1e-6], "alpha": [0.1, 0.5], "L": [1, 2], "minibatch_size": [20, 0.1]}
    table = sgmcmc.tune(
        sgmcmc.sghmc, *MODEL, grid=grid, loss=excess, seconds=1, jit=False, verbose=False
    )
    assert len(table["score"]) == 16
    assert set(table.best) == set(grid)
    assert table["rounds"][0] == 4
    assert table.criterion == "loss"
    lines = repr(table).splitlines()
    assert "minibatch_size" in lines[0]
    assert "loss" in lines[0]
    assert "to set up and compile" in lines[17]
    more = {"n_iters": 10, "verbose": False, "seed": seed, "jit": False}
    assert sgmcmc.sghmc(*MODEL, **table.best, **more)["mean"].shape == (10,)


@pytest.mark.slow
def test_default_steps_in_white_coordinates():
    table = sgmcmc.tune(sgmcmc.sgld, *MODEL, precondition="hessian", **QUICK)
    assert np.max(table["stepsize"]) == 2


@pytest.mark.slow
def test_step_sizes_by_parameter():
    grid = {"stepsize": [{"a": {"matrix": 1e-5}, "b": 1e-6}, {"a": {"matrix": 1e-4}, "b": 1e-5}]}
    params = {"a": {"matrix": np.zeros((2, 2))}, "b": 0.0}
    table = sgmcmc.tune(sgmcmc.sgld, log_lik_of_two, {"x": X}, params, grid=grid, **QUICK)
    assert table.best["stepsize"] in grid["stepsize"]


@pytest.mark.slow
def test_same_seed_same_arms(seed):
    """How many iterations there are depends on the time; their random numbers do not."""
    tables = [sgmcmc.tune(sgmcmc.sgld, *MODEL, seed=seed, **QUICK) for _ in range(2)]
    assert set(tables[0]["stepsize"]) == set(tables[1]["stepsize"])


def program(name="sghmc", steps=(1e-5, 1e-4, 1e3), **more):
    plan = plan_of(name, n_chains=1, **more)
    return Program(
        plan._replace(jit=False), [Arm({"stepsize": h}, [h] * len(plan.schedule)) for h in steps]
    )


@pytest.mark.parametrize("name", ["sghmc", slow("sgnht"), slow("baoab"), slow("sgldcv")])
def test_what_diverges_is_replaced_and_the_rest_goes_on(name):
    """The other chains are those of a race in which nothing diverged."""
    mixed, sound = program(name), program(name, (1e-5, 1e-4, 1e-5))
    end = max(each.sampler.state.iteration for each in (mixed, sound))
    for each in (mixed, sound):
        each.forward(end + 1 - each.sampler.state.iteration)
    assert mixed.alive == [0, 1]
    assert sound.alive == [0, 1, 2]
    assert mixed.entered[2].diverged >= 0
    assert np.array_equal(mixed.sampler.feeder.steps_at(0), sound.sampler.feeder.steps_at(0))
    for x, y in zip(*(tree.leaves(p.sampler.state.chain) for p in (mixed, sound))):
        if x.shape.rank:
            np.testing.assert_array_equal(x[:2], y[:2])


def test_a_smaller_program_goes_on_from_where_it_stands():
    made = program()
    before = made.sampler.state
    made.shrink(0.0, 5)
    assert len(made.arms) == 3  # does not pay
    made.compile_seconds = 0.0
    taken = {}
    made.start = lambda sampler, _: taken.update(state=sampler.state)
    made.shrink(1.0, 5)
    assert len(made.arms) == 2
    assert made.alive == [0, 1]
    for x, y in zip(*map(tree.leaves, (before.chain, taken["state"].chain))):
        np.testing.assert_array_equal(x[:2], y)
    assert taken["state"].iteration == before.iteration


def test_scores_of_a_part_of_the_rows_are_near_those_of_all(monkeypatch, seed):
    x = np.random.default_rng(1).standard_t(5, size=20_000)

    def robust(params, data):
        return -3 * tf.reduce_sum(tf.math.log1p((data["x"] - params["mean"]) ** 2 / 5))

    setup = sgmcmc.sgld_setup
    call = {"log_lik": robust, "dataset": {"x": x}, "params": {"mean": 0.0}, "stepsize": 1e-5}
    call["log_prior"] = lambda params: -(params["mean"] ** 2)
    plan = ROWS["sgld"].plan(bound(setup, (), call))
    draws = {"mean": (np.random.default_rng(2).normal(size=70) * 0.01).astype("float32")}
    part = Discrepancy(plan.model, plan.source, seed)
    monkeypatch.setattr("sgmcmc.race.discrepancy.ROWS", 10**6)
    whole = Discrepancy(plan.model, plan.source, seed)
    both = [d.gradients(draws, d.offset([draws])) for d in (part, whole)]
    assert both[0].shape == (70, 1)
    exact = [float(plan.model.on_all({"mean": tf.constant(m)}, plan.source).gradient["mean"])
             - 2 * m for m in draws["mean"]]  # fmt: skip
    np.testing.assert_allclose(both[1][:, 0], exact, rtol=1e-3, atol=0.5)
    np.testing.assert_allclose(both[0][:, 0], exact, atol=0.1 * np.std(exact))


def test_the_discrepancy_is_least_for_exact_draws(seed):
    x = np.random.default_rng(seed).normal(size=(400, 20))
    right, wide, narrow, off = (by_coordinate(y, -y) for y in (x, 1.5 * x, 0.5 * x, x + 0.5))
    assert right < min(wide, narrow, off)
    assert by_coordinate(0 * x, 0 * x) == pytest.approx(1)
    assert by_coordinate(np.inf * (x + 9), x) == np.inf


def test_constrained_parameters_are_scored_in_free_coordinates():
    def poisson(params, data):
        return tf.reduce_sum(data["k"] * tf.math.log(params["rate"]) - params["rate"])

    k = np.random.default_rng(0).poisson(4, N).astype(float)
    table = sgmcmc.tune(
        sgmcmc.sgld, poisson, {"k": k}, {"rate": 4.0}, constrain={"rate": "positive"}, **QUICK
    )
    assert table.best["stepsize"] > 0


@pytest.mark.slow
def test_probabilities_by_a_loss():
    z = np.random.default_rng(0).choice(3, N)

    def counted(params, data):
        return tf.reduce_sum(tf.math.log(tf.gather(params["omega"], data["z"])))

    model = counted, {"z": z}, {"omega": np.full(3, 1 / 3)}
    table = sgmcmc.tune(sgmcmc.scir, *model, alpha=0.5, loss=lambda p: p["omega"][0] ** 2, **QUICK)
    assert 0 < table.best["stepsize"] <= 1
    with pytest.raises(ValueError, match="scir needs loss"):
        sgmcmc.tune(sgmcmc.scir, *model, alpha=0.5, **QUICK)
    with pytest.raises(ValueError, match="grid must have 'stepsize'"):
        sgmcmc.tune(sgmcmc.sgrld, *model, alpha=0.5, loss=lambda p: p["omega"][0], **QUICK)


def test_progress_is_shown(capsys):
    sgmcmc.tune(sgmcmc.sgld, *MODEL, grid={"stepsize": [1e-5, 1e3]}, seconds=0.3)
    assert "tune: round 1, 2 arms, 1 diverged; best stepsize=1e-05" in capsys.readouterr().err


def test_the_best_at_an_end_is_said():
    grid = {"stepsize": [1e-12, 1e-11, 1e-6]}
    table = sgmcmc.tune(sgmcmc.sgld, *MODEL, grid=grid, loss=lambda p: -excess(p), **QUICK)
    assert "the best step size is the largest one of its grid" in repr(table)


def test_all_arms_diverge():
    with pytest.raises(ValueError, match="all 2 arms diverged"):
        sgmcmc.tune(sgmcmc.sgld, *MODEL, grid={"stepsize": [1e3, 1e4]}, **QUICK)


def test_too_little_time():
    with pytest.raises(ValueError, match=r"seconds must be at least .* for 2 arms"):
        sgmcmc.tune(
            sgmcmc.sgld, *MODEL, grid={"stepsize": [1e-6, 1e-5]}, seconds=1e-6, verbose=False
        )


GOOD = dict(zip(("sampler", "log_lik", "dataset", "params"), (sgmcmc.sgld, *MODEL)))
ERRORS = [
    ({"grid": {"stepsise": [1e-5]}}, ValueError, "names 'stepsise'.*did you mean 'stepsize'"),
    ({"grid": {"L": [1]}}, ValueError, "grid names 'L', which is not among"),
    ({"grid": {"stepsize": []}}, ValueError, "must have at least one value"),
    ({"grid": {"stepsize": [1e-5, 0]}}, ValueError, r"grid\['stepsize'\]\[1\] must be .* above 0"),
    ({"grid": {"stepsize": [1e-5, 1e-5]}}, ValueError, "a second time"),
    ({"grid": {"stepsize": 1e-5}}, TypeError, "must be a list of values"),
    ({"grid": {"stepsize": [lambda k: 1e-5]}}, TypeError, "not a schedule"),
    ({"grid": {"minibatch_size": [-1]}}, ValueError, r"grid\['minibatch_size'\]\[0\]"),
    ({"grid": [1e-5]}, TypeError, "grid must be a dict of lists"),
    ({"seconds": 0}, ValueError, "seconds must be a finite number above 0"),
    ({"stepsize": 1e-5}, TypeError, "give it in grid"),
    ({"n_chains": 3}, TypeError, "no argument 'n_chains'"),
    ({"n_iters": 3}, TypeError, r"tune\(\) has no argument 'n_iters', which is of a run: give"),
    ({"log_priors": 3}, TypeError, r"tune\(\) has no argument 'log_priors'.*'log_prior'"),
    ({"client": "local"}, TypeError, r"no argument 'client', as it runs on this machine: leave it"),
    ({"dataset": sgmcmc.Shards([MODEL[1]])}, ValueError, "not be Shards.* rows of one shard"),
    ({"sampler": sgmcmc.sggmc}, TypeError, r"^sggmc\(\) missing a required .*'manifold'"),
    ({"grid": {"minibatch_size": [9]}, "minibatch_size": 9}, TypeError, "both in grid"),
    ({"loss": lambda params: params["mean"][None]}, ValueError, "loss must return one number"),
    ({"loss": 3}, TypeError, "must be a function of params"),
    ({"temperature": 0.5}, ValueError, "loss must be given where temperature is not 1"),
]


@pytest.mark.parametrize(("wrong", "kind", "message"), ERRORS)
def test_errors(wrong, kind, message):
    with pytest.raises(kind, match=message):
        sgmcmc.tune(**{**GOOD, **wrong})


def test_a_sampler_of_ones_own_is_refused():
    with pytest.raises(TypeError, match="sampler must be one of this package"):
        sgmcmc.tune(sum, *MODEL)
    with pytest.raises(ValueError, match=r"alpha.*at most 1"):
        sgmcmc.tune(sgmcmc.sghmc, *MODEL, grid={"alpha": [2.0]})


def test_helpers():
    assert combined({"a": [1, 2], "b": [3]}) == [{"a": 1, "b": 3}, {"a": 2, "b": 3}]
    assert combined({}) == [{}]
    assert [rounds.rounds_of(n) for n in (1, 2, 3, 4, 5, 72)] == [1, 1, 2, 2, 3, 7]
    assert geometric(1, 8) == [1, 2, 4, 8]
    assert arms_of.RATIO == 2
