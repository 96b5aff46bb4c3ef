"""Manifolds: their paths, projections and walls, and what is said of values not on them."""

from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import sgmcmc
from sgmcmc.dynamics.mixed import Mixed
from sgmcmc.spaces.manifolds import Manifold

from . import slow


def on(manifold, shape, rng, speed=1.0):
    """A point and a velocity."""
    x = manifold.retract(tf.constant(rng.normal(size=shape)))
    if isinstance(manifold, sgmcmc.Ball):
        x = x * 0.5
    v = manifold.tangent(x, tf.constant(speed * rng.normal(size=shape)))
    return x, v


CASES = {
    "sphere": (sgmcmc.Sphere(), (3, 5)),
    "half sphere": (sgmcmc.Sphere(positive=[False, False, True]), (2, 3)),
    "simplex": (sgmcmc.Simplex(), (4,)),
    "stiefel": (sgmcmc.Stiefel(), (2, 5, 3)),
    "rotations": (sgmcmc.Stiefel(), (3, 3)),
    "torus": (sgmcmc.Torus(), (4,)),
    "box": (sgmcmc.Euclidean(lower=-1, upper=2), (4,)),
    "half line": (sgmcmc.Euclidean(lower=0), ()),
    "ball": (sgmcmc.Ball(radius=1.5), (2, 3)),
    "line": (sgmcmc.Ball(radius=1.0), (1,)),
}


@pytest.mark.parametrize("name", CASES)
class TestFlow:
    def test_there_and_back(self, name, seed):
        """With the velocity turned round, the path leads back: through walls, too."""
        manifold, shape = CASES[name]
        x, v = on(manifold, shape, np.random.default_rng(seed), speed=3.0)
        there, speed = manifold.flow(x, v, 1.7)
        back, again = manifold.flow(there, -speed, 1.7)
        np.testing.assert_allclose(manifold.forward(back), manifold.forward(x), atol=1e-8)
        np.testing.assert_allclose(tf.norm(again), tf.norm(v), rtol=1e-9)
        assert np.abs(there - x).max() > 1e-6  # far above the error of the way back

    def test_two_halves_are_one(self, name, seed):
        manifold, shape = CASES[name]
        x, v = on(manifold, shape, np.random.default_rng(seed), speed=3.0)
        whole, halves = manifold.flow(x, v, 1.4), manifold.flow(*manifold.flow(x, v, 0.7), 0.7)
        np.testing.assert_allclose(halves[0], whole[0], atol=1e-8)
        np.testing.assert_allclose(halves[1], whole[1], atol=1e-8)

    def test_leading_axes_and_times_of_their_own(self, name, seed):
        manifold, shape = CASES[name]
        rng = np.random.default_rng(seed)
        each = [on(manifold, shape, rng) for _ in range(3)]
        x, v = (tf.stack(a) for a in zip(*each))
        t = tf.reshape(tf.constant([0.1, 0.2, 0.3], tf.float64), (3,) + (1,) * len(shape))
        there, speed = manifold.flow(x, v, t)
        for i, (a, b) in enumerate(each):
            one = manifold.flow(a, b, t[i])
            np.testing.assert_allclose(there[i], one[0], atol=1e-12)
            np.testing.assert_allclose(speed[i], one[1], atol=1e-12)

    def test_the_dimension_is_that_of_the_tangent_space(self, name, seed):
        manifold, shape = CASES[name]
        x, _ = on(manifold, shape, np.random.default_rng(seed))
        size = int(np.prod(shape))
        basis = np.eye(size).reshape(size, *shape)
        image = [np.ravel(manifold.tangent(x, tf.constant(e))) for e in basis]
        projection = np.array(image)
        assert np.linalg.matrix_rank(projection, tol=1e-8) == manifold.dimension(shape)
        np.testing.assert_allclose(projection @ projection, projection, atol=1e-12)
        np.testing.assert_allclose(projection, projection.T, atol=1e-12)


def test_great_circles_are_rotations(seed):
    x, v = on(sgmcmc.Sphere(), (6,), np.random.default_rng(seed), speed=2.0)
    x, v = x.numpy(), v.numpy()
    turn = expm(0.8 * (np.outer(v, x) - np.outer(x, v)))
    there, speed = sgmcmc.Sphere().flow(*map(tf.constant, (x, v)), 0.8)
    np.testing.assert_allclose(there, turn @ x, atol=1e-12)
    np.testing.assert_allclose(speed, turn @ v, atol=1e-12)


def test_paths_of_stiefel_solve_their_equation(seed):
    """Ẍ = −X ẊᵀẊ, solved numerically; and on rotations X exp(tA)."""
    x, v = on(sgmcmc.Stiefel(), (5, 2), np.random.default_rng(seed))
    there, speed = sgmcmc.Stiefel().flow(x, v, 1.3)

    def slope(_, both):
        X, V = both.reshape(2, 5, 2)
        return np.concatenate([V.ravel(), (-X @ V.T @ V).ravel()])

    start = np.concatenate([np.ravel(x), np.ravel(v)])
    end = solve_ivp(slope, (0, 1.3), start, rtol=1e-10, atol=1e-12).y[:, -1].reshape(2, 5, 2)
    np.testing.assert_allclose([there, speed], end, atol=1e-7)
    x, v = on(sgmcmc.Stiefel(), (3, 3), np.random.default_rng(seed))
    there, _ = sgmcmc.Stiefel().flow(x, v, 1.3)
    np.testing.assert_allclose(there, x @ expm(1.3 * np.transpose(x) @ v), atol=1e-10)


@pytest.mark.parametrize("shape", [(1,), (2,), (4,)])
def test_reflections_in_a_ball_are_those_of_many_short_steps(shape, seed):
    """Each short step that would leave the ball is reflected at the point where it would."""
    ball, rng = sgmcmc.Ball(radius=0.8), np.random.default_rng(seed)
    x, v = (np.array(a) for a in on(ball, shape, rng, speed=3.0))
    there, speed = ball.flow(tf.constant(x), tf.constant(v), 2.0)
    left = 2.0
    while left > 1e-12:
        a, b, c = v @ v, x @ v, x @ x - 0.8**2
        hit = (-b + np.sqrt(b**2 - a * c)) / a
        t = min(hit, left)
        x, left = x + t * v, left - t
        if left > 1e-12:
            n = x / np.linalg.norm(x)
            v = v - 2 * (v @ n) * n
            x = x * (1 - 1e-15)
    np.testing.assert_allclose(there, x, atol=1e-7)
    np.testing.assert_allclose(speed, v, atol=1e-6)


@pytest.mark.parametrize("name", ["sphere", slow("stiefel"), "simplex"])
def test_rounding_errors_do_not_add_up(name, seed):
    """After 10⁵ steps in single precision a point is on its manifold, with a tangent velocity."""
    manifold, shape = CASES[name]
    x, v = (tf.cast(a, tf.float32) for a in on(manifold, shape, np.random.default_rng(seed)))

    @tf.function(jit_compile=True, autograph=False)
    def run(x, v):
        def step(i, x, v):
            x, v = manifold.flow(x, v, 0.1)
            return i + 1, x, manifold.tangent(x, v)

        return tf.while_loop(lambda i, *_: i < 100_000, step, (0, x, v))[1:]

    there, speed = run(x, v)
    columns = there if manifold.matrices else there[..., None]
    inner = tf.matmul(columns, columns, transpose_a=True)
    np.testing.assert_allclose(
        inner, tf.broadcast_to(tf.eye(inner.shape[-1]), inner.shape), atol=1e-5
    )
    np.testing.assert_allclose(manifold.tangent(there, speed), speed, atol=1e-5)
    np.testing.assert_allclose(tf.norm(speed), tf.norm(v), rtol=0.01)


# What is said of a user's mistakes


def log_lik(params, data):
    return tf.reduce_sum(data["x"]) * 0 + tf.reduce_sum(params["mu"]) * 0


def setup(start, manifold=sgmcmc.Sphere(), stepsize=0.01, sampler=sgmcmc.sggmc_setup, **more):  # noqa: B008
    given = {"manifold": manifold, "minibatch_size": 5, "verbose": False, "seed": 1, **more}
    return sampler(log_lik, {"x": np.ones(10)}, {"mu": start}, stepsize, **given)


def test_a_start_off_the_manifold_is_normalised():
    with pytest.warns(UserWarning, match=r"params\['mu'\] is not on Sphere\(\), by up to 3.2"):
        sampler = setup([3.0, 0, 4])
    np.testing.assert_allclose(sgmcmc.get_params(sampler)["mu"], [0.6, 0, 0.8], atol=1e-6)
    with pytest.warns(UserWarning, match=r"is not on Stiefel\(\)"):
        sampler = setup(2 * np.eye(3, 2), sgmcmc.Stiefel())
    np.testing.assert_allclose(sgmcmc.get_params(sampler)["mu"], np.eye(3, 2), atol=1e-6)


@pytest.mark.parametrize(
    ("start", "manifold", "message"),
    [
        ([0.0, 0, 0], sgmcmc.Sphere(), "no nearest point on Sphere.*must not be 0"),
        ([1.0], sgmcmc.Sphere(), "2 coordinates or more along its last axis.*only 1 and −1"),
        (1.0, sgmcmc.Sphere(), "2 coordinates or more"),
        ([0.6, -0.8], sgmcmc.Sphere(positive=True), "must not be negative"),
        ([0.6, 0.8], sgmcmc.Sphere(positive=[True]), "one entry for each of the 2 coordinates"),
        (np.eye(2, 3), sgmcmc.Stiefel(), "at least as many rows as columns.*shape is .2, 3."),
        ([1.0, 0], sgmcmc.Stiefel(), "at least as many rows as columns"),
        (np.ones((3, 2)), sgmcmc.Stiefel(), "linearly independent columns"),
        ([[1.0]], sgmcmc.Stiefel(), "cannot move"),
        ([0.5, -0.1], sgmcmc.Simplex(), "must not be negative"),
        ([0.5, 2], sgmcmc.Euclidean(upper=1), "inside the bounds of Euclidean.upper=1"),
        ([1.0, 1], sgmcmc.Ball(), "no longer than radius = 1"),
        ([1.0, 0], "sphere", "must be a manifold such as Sphere.*not 'sphere'"),
        ([1.0, 0], sgmcmc.Sphere, r"not the class Sphere: make an object.*Sphere\(\)"),
        ([1.0, 0], {"mux": sgmcmc.Sphere()}, "names 'mux', which is no par.* .did you mean 'mu'"),
    ],
)
def test_bad_manifolds(start, manifold, message):
    with pytest.raises((ValueError, TypeError), match=message):
        setup(start, manifold)


NO_TEMPERATURE = "gradient_noise must be None where temperature is not 1"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"friction": 0}, "friction.'mu'. must be a finite number above 0 or a matrix|above 0"),
        ({"friction": -np.eye(2)}, "positive definite"),
        ({"friction": np.eye(3)}, r"of shape \(2, 2\), which acts along the last axis"),
        ({"friction": [[1, 2], [0, 1]]}, "symmetric"),
        ({"friction": 1, "momentum": 0.1}, "momentum must be left out where friction is given"),
        ({"momentum": 0}, "momentum must be a finite number above 0"),
        ({"learning_rate": 0.1}, "learning_rate must be left out where stepsize is given"),
        ({"stepsize": None, "learning_rate": -1}, "learning_rate must be a finite number above 0"),
        ({"gradient_noise": "scalr"}, "did you mean 'scalar'"),
        ({"gradient_noise": -1}, "at least 0"),
        ({"gradient_noise": np.diag([1.0, -1])}, "covariance, but has the eigenvalue -1"),
        ({"gradient_noise": [1.0, -1]}, "must not be negative"),
        ({"gradient_noise": "full", "minibatch_size": 1}, "minibatch_size must be 2 or more"),
        ({"gradient_noise": "full", "temperature": 2.0}, NO_TEMPERATURE),
        ({"gradient_noise": 20.0, "temperature": 0.25}, NO_TEMPERATURE),
        ({"gradient_noise": np.eye(2), "temperature": sgmcmc.decay(2, 9, 1)}, NO_TEMPERATURE),
        ({"L": 0}, "L must be a positive whole number"),
        ({"constrain": {"mu": "positive"}}, "moves in a space of its own"),
        ({"sampler": sgmcmc.gsgnht_setup, "friction": np.eye(2)}, "finite number above 0"),
    ],
)
def test_bad_arguments(more, message):
    with pytest.raises((ValueError, TypeError), match=message):
        setup([1.0, 0], **more)


def test_blocks_of_mixed_have_no_temperature_with_gradient_noise():
    block = sgmcmc.SGGMC(sgmcmc.Sphere(), friction=1.5, gradient_noise=20.0)
    with pytest.raises(ValueError, match=NO_TEMPERATURE):
        sgmcmc.sample_setup(
            *(Mixed({"mu": block}), log_lik, {"x": np.ones(10)}, {"mu": [1.0, 0]}, 0.1),
            minibatch_size=5,
            temperature=0.25,
        )


def test_other_samplers_refuse_a_manifold():
    with pytest.raises(ValueError, match=r"cannot be Sphere\(\).*pass it to sggmc or gsgnht"):
        sgmcmc.sgld_setup(
            *(log_lik, {"x": np.ones(10)}, {"mu": [1.0, 0]}, 0.1),
            minibatch_size=5,
            constrain={"mu": sgmcmc.Sphere()},
        )
    for more, message in (
        ({"dynamics": sgmcmc.GMC(sgmcmc.Sphere())}, "minibatch_size must be 'all' for GMC"),
        ({"precondition": "hessian"}, "precondition must be None for parameters on a manifold"),
    ):
        given = {"dynamics": sgmcmc.SGGMC(sgmcmc.Sphere()), "stepsize": 0.1, **more}
        given["minibatch_size"] = 5
        with pytest.raises(ValueError, match=message):
            sgmcmc.sample_setup(
                log_lik=log_lik, dataset={"x": np.ones(10)}, params={"mu": [1.0, 0]}, **given
            )


@dataclass(frozen=True)
class Ring(Manifold):
    """The circle of this radius; `fault` spoils one of its functions."""

    radius: float = 2.0
    fault: str = ""

    def flow(self, x, v, t):
        x, v = sgmcmc.Sphere().flow(x / self.radius, v / self.radius, t)
        return x * (1.1 if self.fault == "flow" else 1) * self.radius, v * self.radius

    def tangent(self, x, v):
        inner = tf.reduce_sum(x * v, axis=-1, keepdims=True)
        return v - x * inner / self.radius ** (1 if self.fault == "tangent" else 2)

    def dimension(self, shape):
        return 0 if self.fault == "dimension" else 1

    def retract(self, x):
        near = self.radius * sgmcmc.Sphere().retract(x)
        return near[..., None] if self.fault == "retract" else near


class TestOfYourOwn:
    def test_it_works(self, seed):
        draws = sgmcmc.sggmc(
            lambda params, data: params["mu"][0] + 0 * tf.reduce_sum(data["x"]),
            {"x": np.ones(10)},
            {"mu": [2.0, 0]},
            0.2,
            minibatch_size=5,
            manifold=Ring(),
            n_iters=100,
            seed=seed,
            verbose=False,
        )
        np.testing.assert_allclose(np.linalg.norm(draws["mu"], axis=1), 2, rtol=1e-5)

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("flow", "flow leaves the manifold, by its retract"),
            ("tangent", "tangent is no projection"),
            ("dimension", "dimension of Ring.* must be between 1 and 2, not 0"),
            ("retract", "shape"),
        ],
    )
    def test_faults_are_found_before_the_run(self, fault, message):
        with pytest.raises(ValueError, match=message):
            setup([2.0, 0], Ring(fault=fault))
