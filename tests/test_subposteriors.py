"""Subposteriors: their laws on Gaussians, their product, and seeds.

Chains are of SGLD with control variates, whose gradients have no noise here. With step size ε and
precision λ, its variance is 1 / (λ (1 − ελ/4)) exactly. Each comparison raises a false alarm at
most 2.5 times in ten million. It finds errors of .1 standard deviations in a mean, and of 6 % in a
variance.
"""

import json
import os
import pickle
import signal
from functools import partial

import cloudpickle
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

import sgmcmc
from sgmcmc import Draws, combine
from sgmcmc.combine import parts as parts_of_draws
from sgmcmc.combine import shards as module
from sgmcmc.distributed import tasks
from sgmcmc.dynamics.mixed import Mixed
from sgmcmc.spaces.constrained import spaces

from .ztest import assert_mean, assert_rejected

X = [np.array([0.1, 0.7, 1.3, 0.5]), np.array([1.1, 0.2, 0.9, 1.5, 0.4, 0.1, 0.8])]
SHARDS = [{"x": x} for x in X]
PRIOR_MEAN, PRIOR_PRECISION = -1.0, 4.0
STEPSIZE = 0.05
RUN = {"minibatch_size": 2, "verbose": False}
ON_SPHERE = {"manifold": sgmcmc.Sphere()}


def of_mean(params, data):
    return -tf.reduce_sum((data["x"] - params["theta"]) ** 2) / 2


def normal(params):
    return -PRIOR_PRECISION / 2 * (params["theta"] - PRIOR_MEAN) ** 2


def of_scale(params, data):
    return -tf.reduce_sum((data["x"] - tf.math.log(params["theta"])) ** 2) / 2


def lognormal(params):
    """The density of exp(z), where z has the prior of `normal`."""
    z = tf.math.log(params["theta"])
    return -PRIOR_PRECISION / 2 * (z - PRIOR_MEAN) ** 2 - z


def laws(power=0.5):
    """The exact means and variances of the chains of the two shards, prior to this power."""
    precision = np.array([len(x) + power * PRIOR_PRECISION for x in X])
    total = np.array([x.sum() + power * PRIOR_PRECISION * PRIOR_MEAN for x in X])
    return total / precision, 1 / (precision * (1 - STEPSIZE * precision / 4))


def sampled(log_lik, log_prior, start, seed, **more):
    return combine.subposteriors(
        sgmcmc.sgldcv,
        log_lik,
        SHARDS,
        {"theta": start},
        log_prior=log_prior,
        stepsize=STEPSIZE,
        n_iters=2000,
        burn_in=100,
        n_chains=400,
        seed=seed,
        **RUN,
        **more,
    )


@pytest.mark.slow
@pytest.mark.parametrize("constrained", [False, True], ids=["real", "positive"])
def test_shards_have_the_prior_to_a_power_and_their_product_is_the_posterior(constrained, seed):
    """Controls: the whole prior for each shard; the Jacobian of a positive parameter in each."""
    if constrained:
        constrain = {"theta": "positive"}
        parts = sampled(of_scale, lognormal, 1.0, seed, constrain=constrain)
        found = combine.consensus(parts, constrain=constrain)
        z, both = [np.log(part["theta"]) for part in parts], np.log(found["theta"])
    else:
        parts = sampled(of_mean, normal, 0.0, seed)
        z, both = [part["theta"] for part in parts], combine.consensus(parts)["theta"]
    means, variances = laws()
    for x, mean, variance in zip(z, means, variances):
        assert_mean(1 + (x - mean).mean(axis=1) / np.sqrt(variance), 1, detect=0.1)
        assert_mean(((x - mean) ** 2).mean(axis=1), variance, detect=0.06)
    variance = 1 / (1 / variances).sum()
    mean = variance * (means / variances).sum()
    assert_mean(1 + (both - mean).mean(axis=1) / np.sqrt(variance), 1, detect=0.1)
    assert_mean(((both - mean) ** 2).mean(axis=1), variance, detect=0.06)
    for x, mean in zip(z, laws(power=1)[0]):
        assert_rejected(x.mean(axis=1), mean)
    if constrained:
        half_too_much = laws()[0] + 0.5 / (1 / variances)
        for x, mean in zip(z, half_too_much):
            assert_rejected(x.mean(axis=1), mean)


@pytest.mark.slow
def test_shards_have_seeds_of_their_own_which_fix_the_draws():
    run = partial(
        combine.subposteriors,
        *(
            sgmcmc.sgld,
            of_mean,
            [SHARDS[0], SHARDS[0], SHARDS[0]],
            {"theta": 0.0},
        ),
        stepsize=0.01,
        n_iters=20,
        **RUN,
    )
    parts, again, other = run(seed=1), run(seed=1), run(seed=2)
    assert all((a["theta"] == b["theta"]).all() for a, b in zip(parts, again))
    assert all((a["theta"] != b["theta"]).any() for a, b in zip(parts, other))
    assert (parts[0]["theta"] != parts[1]["theta"]).any()
    assert (parts[0]["theta"] != parts[2]["theta"]).any()
    alone = sgmcmc.sgld(
        of_mean, SHARDS[0], {"theta": 0.0}, 0.01, n_iters=20, seed=parts[2].settings["seed"], **RUN
    )
    np.testing.assert_array_equal(parts[2]["theta"], alone["theta"])


def test_shards_may_be_data_frames():
    frames = [pd.DataFrame(shard) for shard in SHARDS]
    run = {"stepsize": 0.01, "n_iters": 20, "seed": 1, **RUN}
    found, exact = (
        combine.subposteriors(sgmcmc.sgld, of_mean, shards, {"theta": 0.0}, **run)
        for shards in (frames, SHARDS)
    )
    np.testing.assert_array_equal(found[1]["theta"], exact[1]["theta"])


def test_the_work_of_a_shard_and_its_draws_can_be_sent_to_another_process():
    given = {"log_lik": of_mean, "params": {"theta": 0.0}, "stepsize": 0.01, "n_iters": 20, **RUN}
    work = partial(module.subposterior, sgmcmc.sgld, given, SHARDS[1], {"shard": 1}, 1)
    there = pickle.loads(pickle.dumps(cloudpickle.loads(cloudpickle.dumps(work))()))
    np.testing.assert_array_equal(work()["theta"], there["theta"])


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    own = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**own) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("kind", [list, sgmcmc.Shards])
def test_what_cannot_be_sent_to_workers_is_named(kind, client, tmp_path):
    lock = __import__("threading").Lock()
    h5py = pytest.importorskip("h5py")
    run = {"params": {"theta": 0.0}, "stepsize": 0.01, "n_iters": 20, "client": client, **RUN}
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["x"] = X[0]
        parts, named = [SHARDS[0], {"x": file["x"]}], r"shards\[1\]\['x'\]"
        if kind is sgmcmc.Shards:
            parts, named = [SHARDS[0], lambda: {"x": X[1], "lock": lock}], r"parts\[1\] of Shards"
        with pytest.raises(ValueError, match=f"{named} must be something that can be sent to"):
            combine.subposteriors(sgmcmc.sgld, of_mean, kind(parts), **run)


@pytest.mark.slow
@pytest.mark.parametrize("trials", [1, 3])
def test_a_worker_is_lost(trials, client, tmp_path, seed, monkeypatch):
    """Its shard is sampled again, with the draws of this machine, or named in the error."""
    monkeypatch.setattr(tasks, "TRIALS", trials)
    here, trace = os.getpid(), tmp_path / "lost"

    def log_lik(params, data):
        if os.getpid() != here and data["x"].shape[0] == len(X[1]) and not trace.exists():
            trace.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return of_mean(params, data)

    run = {"params": {"theta": 0.0}, "stepsize": 0.01, "n_iters": 20, "seed": seed, **RUN}
    run["minibatch_size"] = "all"
    shards = [pd.DataFrame(shard) for shard in SHARDS]
    if trials == 1:
        with pytest.raises(RuntimeError, match="client: the workers that had shard 1 were lost"):
            combine.subposteriors(sgmcmc.sgld, log_lik, shards, **run, client=client)
        return
    there = combine.subposteriors(sgmcmc.sgld, log_lik, shards, **run, client=client)
    assert trace.exists()
    for a, b in zip(there, combine.subposteriors(sgmcmc.sgld, log_lik, shards, **run)):
        np.testing.assert_array_equal(a["theta"], b["theta"])


def test_parts_must_be_combined_in_their_coordinates():
    parts = combine.subposteriors(
        sgmcmc.sgld,
        of_scale,
        SHARDS,
        {"theta": 1.0},
        stepsize=0.01,
        n_iters=20,
        constrain={"theta": "positive"},
        seed=1,
        **RUN,
    )
    for other in (None, {"theta": tfp.bijectors.Softplus()}):
        with pytest.raises(ValueError, match="constrain must be that of subposteriors"):
            combine.consensus(parts, constrain=other)
    with pytest.raises(ValueError, match=r"one of 2, and there are 4"):
        combine.consensus(parts + parts, constrain={"theta": "positive"})
    with pytest.raises(
        ValueError, match=r"once, but parts\[1\] and parts\[0\] are both of shard 1"
    ):
        combine.consensus([parts[1], parts[1]], constrain={"theta": "positive"})
    found = combine.consensus(parts[::-1], constrain={"theta": tfp.bijectors.Exp()})
    assert isinstance(found, Draws)
    assert (found["theta"] > 0).all()


@pytest.mark.parametrize(
    ("made", "combined"),
    [
        (tfp.bijectors.Softplus(), tfp.bijectors.Softplus(hinge_softness=np.float32(2))),
        ("unit", tfp.bijectors.NormalCDF()),
        (tfp.bijectors.Softplus(), "positive"),
    ],
)
@pytest.mark.parametrize("shape", [(), (100,)])
def test_spaces_are_told_apart_by_their_maps(made, combined, shape):
    """Settings of a bijector that its name does not tell count, too; stored draws keep the map."""
    like = {"layer": {"w": np.full(shape, 0.5, "float32"), "b": np.float32(1)}}
    one, same, other = (
        parts_of_draws.maps_of(spaces({"layer": {"w": space}}, like), like)
        for space in (made, made, combined)
    )
    assert list(one) == ["layer/w"]
    assert parts_of_draws.are_same(json.loads(json.dumps(one)), same)
    assert not parts_of_draws.are_same(one, other)


@pytest.mark.parametrize(
    "settings",
    [
        {"manifold": "Sphere()"},
        {"manifold": {"u": "Sphere()", "x": "Euclidean()"}},
        {"blocks": {"u": "SGGMC(manifold=Sphere(), friction=None)", "x": "SGLD()"}},
    ],
)
def test_draws_on_manifolds_are_not_combined(settings):
    rng = np.random.default_rng(1)
    values = [{"u": rng.normal(size=(50, 2)), "x": rng.normal(size=50)} for _ in range(2)]
    settings = {"sampler": "any", "seed": 1, **settings}
    with pytest.raises(ValueError, match=r"parts\[0\]: draws of 'u' are on a manifold"):
        combine.consensus([Draws(v, {}, settings) for v in values])
    if settings.get("manifold") != "Sphere()":
        real = [Draws({"x": v["x"]}, {}, settings) for v in values]
        assert combine.consensus(real)["x"].shape == (50,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampler": sgmcmc.scir}, "sampler must be one whose prior is log_prior alone, not scir"),
        ({"sampler": sgmcmc.sgld_setup}, r"sampler must be sgmcmc.sgld, not its \*_setup"),
        ({"sampler": print}, "sampler must be one of this package"),
        ({"sampler": sgmcmc.mixed, "blocks": {"theta": sgmcmc.SGLD()}}, "alone, not mixed"),
        (
            {"sampler": sgmcmc.sample, "dynamics": Mixed({"theta": sgmcmc.SGLD()})},
            "alone, not Mixed",
        ),
        ({"sampler": sgmcmc.sggmc, **ON_SPHERE}, r"manifold must not be Sphere\(\) here"),
        (
            {"sampler": sgmcmc.gsgnht, "manifold": {"theta": sgmcmc.Sphere()}},
            r"manifold must not be \{'theta': Sphere\(\)\} here",
        ),
        (
            {"sampler": sgmcmc.sample, "dynamics": sgmcmc.SGGMC(**ON_SPHERE)},
            r"manifold must not be Sphere\(\) here.* with sgmcmc.sample",
        ),
        ({"shards": SHARDS[0]}, "shards must be a list"),
        ({"shards": SHARDS[:1]}, "at least two entries, not 1"),
        ({"shards": [SHARDS[0], {"y": X[1]}]}, r"shards\[1\] has \{'y': \(\)\}"),
        ({"shards": [SHARDS[0], 3]}, r"shards\[1\] must be a dict of arrays"),
        ({"shards": [{"x": X[0], "y": X[1]}] * 2}, r"arrays of shards\[0\] must have equally many"),
        ({"log_prior": 3}, "log_prior must be a function of params"),
        ({"params": {"theta": "a"}}, r"params\['theta'\] must hold real numbers"),
        ({"out": "here"}, "no argument 'out'"),
        ({"track": {}}, "no argument 'track'"),
        ({"stepsizes": 1}, "sgld.* has no argument 'stepsizes'"),
        ({"constrain": {"theta": "odd"}}, r"constrain\['theta'\] must be"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_bad_input(change, message):
    good = {"sampler": sgmcmc.sgld, "log_lik": of_mean, "shards": SHARDS, "params": {"theta": 0.0}}
    with pytest.raises((TypeError, ValueError), match=message):
        combine.subposteriors(**{**good, **change})
