"""Samplers on manifolds against exact answers: whole laws, heat, and the order of the integrator.

Chains start from the exact law, or nearly, so that only a wrong sampler moves away from it. False
alarms and power are those of `ztest`: each comparison says which relative error it would find.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats
from scipy.integrate import quad
from scipy.ndimage import map_coordinates, spline_filter
from scipy.special import ive

import sgmcmc
from sgmcmc import tree

from . import slow
from .directional import Target, aboba_moments, run
from .gaussian import mean_squares
from .test_stationary import too_little_noise
from .ztest import assert_mean, assert_rejected

SPHERE, STIEFEL = sgmcmc.Sphere(), sgmcmc.Stiefel()


def temperature(draws, name):
    return draws.stats["temperature"][name].mean(axis=1).astype(float)


# On flat space: the exact answer of the scheme, with large steps

FLAT = {"large_step": (1.0, 1.0, 1.0, 0.0), "noisy": (4.0, 0.3, 2.0, 1.5)}


def flat(name, manifold=sgmcmc.Euclidean()):  # noqa: B008
    lam, eps, friction, sigma = FLAT[name]
    return Target(
        manifold,
        lambda x: -lam * tf.reduce_sum(x**2) / 2,
        lambda rng: rng.normal(size=8) / np.sqrt(lam),
        *(eps, friction, sigma),
    )


@pytest.mark.parametrize(
    "noise", [slow(None), 2.25, slow("scalar"), slow("diagonal"), slow("full")]
)
def test_on_flat_space(noise, seed):
    """V is known, or estimated from the gradients of single rows."""
    own = {} if noise is None else {"gradient_noise": {"large_step": None, "noisy": noise}}
    targets = {name: flat(name) for name in FLAT}
    draws = run(sgmcmc.SGGMC, targets, seed=seed, n_iters=500, burn_in=50, **own)
    for name, (lam, eps, friction, sigma) in FLAT.items():
        known = sigma**2 if noise is not None else 0
        variance, heat = aboba_moments(lam, eps, friction, sigma, known)
        assert_mean(mean_squares(draws[name]), variance, detect=0.02)
        assert_mean(temperature(draws, name), heat, detect=0.02)
        if known:
            assert_rejected(temperature(draws, name), aboba_moments(lam, eps, friction, sigma)[1])


@pytest.mark.slow
def test_friction_by_a_matrix(seed):
    """In the axes of the matrix, each direction has its own friction."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    values = np.array([0.5, 1.0, 3.0])
    friction = turn @ np.diag(values) @ turn.T
    target = flat("large_step")._replace(
        friction=friction, eps=0.8, start=lambda rng: rng.normal(size=3)
    )
    draws = run(sgmcmc.SGGMC, {"x": target}, seed=seed, n_iters=500, burn_in=50)
    for k, x in enumerate(np.moveaxis(draws["x"].astype(float) @ turn, -1, 0)):
        assert_mean(mean_squares(x), aboba_moments(1.0, 0.8, values[k])[0])
    assert_rejected(mean_squares(x), aboba_moments(1.0, 0.8, values[0])[0])


@dataclass(frozen=True)
class Thinned(too_little_noise(sgmcmc.SGGMC)):
    """A wrong sampler: its noise has nine tenths of the variance."""


@pytest.mark.slow
def test_too_little_noise_is_rejected(seed):
    draws = run(Thinned, {"large_step": flat("large_step")}, seed=seed, n_iters=500, burn_in=50)
    lam, eps, friction, _ = FLAT["large_step"]
    assert_rejected(mean_squares(draws["large_step"]), aboba_moments(lam, eps, friction)[0])


# On spheres: the von Mises-Fisher law


def vmf(d, kappa, eps, friction=1.0, sigma=0.0):
    first = np.eye(d)[0]
    return Target(
        SPHERE,
        lambda x: kappa * x[0],
        lambda rng: stats.vonmises_fisher(first, kappa).rvs(1, random_state=rng)[0],
        *(eps, friction, sigma),
    )


def moments(d, kappa):
    """E μᵀx and E (μᵀx)²."""
    ratio = ive(d / 2, kappa) / ive(d / 2 - 1, kappa)
    return ratio, 1 - (d - 1) * ratio / kappa


def compare(x, d, kappa, detect):
    first, second = moments(d, kappa)
    assert_mean(x.mean(axis=1), first, detect)
    assert_mean((x**2).mean(axis=1), second, detect)


def test_moments_are_those_of_the_issue():
    assert moments(10, 5) == pytest.approx((0.42247, 0.2396), abs=5e-5)


@pytest.mark.slow
def test_von_mises_fisher(seed):
    """With gradient noise whose size is known. Without that knowledge it is too flat."""
    eps = 0.05
    targets = {f"{k}": vmf(10, k, eps, sigma=np.sqrt(1 / eps)) for k in (5, 50)}
    for noise, n_iters in ((1 / eps, 250), (None, 50)):
        own = {"gradient_noise": noise, "L": 10}
        draws = run(sgmcmc.SGGMC, targets, seed=seed, n_iters=n_iters, burn_in=50, **own)
        for k in (5, 50):
            x = draws[f"{k}"][..., 0].astype(float)
            if noise is not None:
                compare(x, 10, k, 0.03 if k == 5 else 0.01)
            else:
                assert_rejected(x.mean(axis=1), moments(10, k)[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [sgmcmc.SGGMC, Thinned])
def test_von_mises_fisher_in_a_hundred_dimensions(kind, seed):
    targets = {f"{k}": vmf(100, k, 0.0125) for k in (5, 50)}
    n_iters = 300 if kind is sgmcmc.SGGMC else 60  # a control needs fewer
    draws = run(kind, targets, seed=seed, n_iters=n_iters, burn_in=100, L=10)
    for k in (5, 50):
        x = draws[f"{k}"][..., 0].astype(float)
        if kind is sgmcmc.SGGMC:
            compare(x, 100, k, 0.08 if k == 5 else 0.03)
        elif k == 50:  # with κ = 5 the law is nearly uniform, whatever the heat
            assert_rejected((x**2).mean(axis=1), moments(100, k)[1])


TOY = np.array([np.cos(np.pi / 3), np.sin(np.pi / 3)])


def toy(seed):
    """Section 5.1 of the paper: two modes on the circle, gradient noise of variance 1,000."""
    angles = np.linspace(-np.pi, np.pi, 20_001)[:-1]
    density = np.exp(5 * np.cos(angles - np.pi / 3)) + 2 * np.exp(-5 * np.cos(angles - np.pi / 3))
    cumulated = np.cumsum(density / density.sum())
    exact = np.sum(density * np.cos(angles - np.pi / 3) ** 2) / density.sum()

    def start(rng):
        angle = angles[np.searchsorted(cumulated, rng.random())]
        return np.array([np.cos(angle), np.sin(angle)])

    def log_density(x):
        along = tf.reduce_sum(x * TOY.astype(np.float32))
        return tf.reduce_logsumexp([5 * along, tf.math.log(2.0) - 5 * along])

    return {"x": Target(SPHERE, log_density, start, 0.01, 10.0, np.sqrt(1000))}, exact


@pytest.mark.slow
def test_the_toy_of_the_paper(seed):
    """E (x·μ₁)² = .82132, where V is known or estimated; with V = 0 it is .756."""
    targets, exact = toy(seed)
    assert exact == pytest.approx(0.82132, abs=1e-5)
    for noise in (1000.0, "full", None):
        own = {"gradient_noise": noise, "L": 30}
        draws = run(sgmcmc.SGGMC, targets, seed=seed, n_iters=150, burn_in=20, **own)
        squares = ((draws["x"].astype(float) @ TOY) ** 2).mean(axis=1)
        if noise is None:
            assert_rejected(squares, exact)
            assert_rejected(temperature(draws, "x"), 1.0)
        else:
            assert_mean(squares, exact, detect=0.035)
            assert_mean(temperature(draws, "x"), 1.0, detect=0.06)


@pytest.mark.slow
def test_half_a_sphere(seed):
    """Driven against the wall: the height z has the density exp(−3z) between 0 and 1."""
    target = Target(
        sgmcmc.Sphere(positive=[False, False, True]),
        lambda x: -3 * x[2],
        lambda rng: np.array([0.6, 0.0, 0.8]),
        *(0.04, 1.0),
    )
    draws = run(sgmcmc.SGGMC, {"x": target}, seed=seed, n_iters=800, burn_in=100, L=10)
    height = draws["x"][..., 2].astype(float)
    assert height.min() >= 0
    assert_mean(height.mean(axis=1), 1 / 3 - 1 / np.expm1(3.0), detect=0.03)
    wrong = np.abs(height) * np.sqrt(1 - height**2)  # the density of the latitude has its cosine
    assert_rejected(wrong.mean(axis=1), 1 / 3 - 1 / np.expm1(3.0))


# Matrices with orthonormal columns


def uniform(n, k):
    def start(rng):
        q, r = np.linalg.qr(rng.normal(size=(n, k)))
        return q * np.sign(np.diag(r))

    return start


FIELD = np.zeros((5, 2), np.float32)
FIELD[0, 0], FIELD[1, 1] = 4, 2
MATRICES = {
    "uniform": Target(STIEFEL, lambda x: 0 * x[0, 0], uniform(5, 2), 0.2, 1.0, 3.0),
    "langevin": Target(STIEFEL, lambda x: tf.reduce_sum(FIELD * x), uniform(5, 2), 0.05),
    "sphere": Target(
        STIEFEL, lambda x: 5 * x[0, 0], lambda rng: vmf(10, 5, 0).start(rng)[:, None], 0.1
    ),
}


def compare_matrices(draws):
    """Moments of the uniform law; one column is a point of a sphere."""
    x = draws["uniform"].astype(float)
    assert_mean((x**4).mean(axis=(1, 2, 3)), 3 / 35, detect=0.02)
    assert_mean((x[..., 0, 0] ** 2 * x[..., 1, 1] ** 2).mean(axis=1), 6 / 140, detect=0.1)
    compare(draws["sphere"][..., 0, 0].astype(float), 10, 5, 0.04)
    turned = x[..., 0, 0] ** 2 * x[..., 0, 1] ** 2  # in one row: 1/35
    assert_rejected(turned.mean(axis=1), 6 / 140)


@pytest.mark.slow
def test_stiefel(seed):
    """The uniform law, one column as on a sphere, and the matrix Langevin law against `gmc`."""
    means = []
    for kind, own in (
        (sgmcmc.SGGMC, {"gradient_noise": {"uniform": 9.0, "langevin": None, "sphere": None}}),
        (sgmcmc.GMC, {}),
    ):
        draws = run(kind, MATRICES, seed=seed + len(means), n_iters=150, burn_in=50, L=10, **own)
        compare_matrices(draws)
        x = draws["langevin"].astype(float)
        means.append(np.stack([x[..., 0, 0] ** 2, x[..., 1, 1] ** 2]).mean(axis=-1))
        if kind is sgmcmc.GMC:
            assert draws.stats["accepted"].mean() > 0.8
    for here, there in zip(*means):
        assert_mean(here - there + there.mean(), there.mean(), detect=0.06)
        assert_rejected(here, 1 / 5)  # the uniform law's


# Simplex, boxes and balls


@pytest.mark.slow
def test_dirichlet(seed):
    """The mean and variance of Dirichlet(2, 3, 4), and not those of the density without its map."""
    shape = np.array([2.0, 3.0, 4.0])
    target = Target(
        sgmcmc.Simplex(),
        lambda w: tf.reduce_sum(tf.constant(shape - 1, tf.float32) * tf.math.log(w)),
        lambda rng: rng.dirichlet(shape),
        *(0.02, 1.0),
    )
    draws = run(sgmcmc.SGGMC, {"x": target}, seed=seed, n_iters=350, burn_in=100, L=10)
    omega, exact = draws["x"].astype(float), stats.dirichlet(shape)
    for j in range(3):
        assert_mean(omega[..., j].mean(axis=1), exact.mean()[j])
    second = exact.var()[0] + exact.mean()[0] ** 2
    assert_mean((omega[..., 0] ** 2).mean(axis=1), second, detect=0.04)
    without = stats.dirichlet(shape - 0.5)  # if the map's factor were left out
    assert_rejected(omega[..., 0].mean(axis=1), without.mean()[0])


@pytest.mark.slow
def test_walls(seed):
    """A normal density N(1, 1) on a half-line, on a box, and a standard one on a ball."""
    log_density = lambda x: -tf.reduce_sum((x - 1) ** 2) / 2  # noqa: E731
    targets = {
        "half": Target(sgmcmc.Euclidean(lower=0), log_density, lambda rng: np.full(4, 0.5), 0.05),
        "box": Target(
            sgmcmc.Euclidean(lower=-0.5, upper=1), log_density, lambda rng: np.zeros(4), 0.05
        ),
        "ball": Target(
            sgmcmc.Ball(radius=1.2),
            lambda x: -tf.reduce_sum(x**2) / 2,
            lambda rng: np.array([0.5, 0.0]),
            0.05,
        ),
    }
    draws = run(sgmcmc.SGGMC, targets, seed=seed, n_iters=300, burn_in=50, L=10)
    for name, low, high in (("half", 0, np.inf), ("box", -0.5, 1)):
        exact = stats.truncnorm(low - 1, high - 1, loc=1)
        x = draws[name].astype(float)
        assert x.min() >= low
        assert x.max() <= high
        assert_mean(x.mean(axis=(1, 2)), exact.mean())
        assert_mean(mean_squares(x), exact.moment(2))
    assert_rejected(x.mean(axis=(1, 2)), 0.25)  # the middle of the box
    square = (draws["ball"].astype(float) ** 2).sum(axis=-1)
    assert square.max() <= 1.2**2 * (1 + 1e-5)
    weight = lambda r: r * np.exp(-(r**2) / 2)  # noqa: E731
    exact = quad(lambda r: r**2 * weight(r), 0, 1.2)[0] / quad(weight, 0, 1.2)[0]
    assert_mean(square.mean(axis=1), exact)
    assert_rejected(square.mean(axis=1), 1.2**2 / 2)  # uniform


def test_angles(seed):
    """Von Mises on the circle of angles, with a mean that is near where they start again."""
    target = Target(
        sgmcmc.Torus(),
        lambda a: 2 * tf.reduce_sum(tf.cos(a - 3)),
        lambda rng: stats.vonmises(2, loc=3).rvs(4, random_state=rng),
        0.1,
    )
    targets = {"x": target, "hot": target._replace(sigma=4.0)}  # noise that nothing removes
    draws = run(sgmcmc.SGGMC, targets, seed=seed, n_iters=150, burn_in=50, L=10)
    x, hot = (np.cos(draws[name].astype(float) - 3) for name in targets)
    assert np.abs(draws["x"]).max() <= np.pi + 1e-6
    first = ive(1, 2) / ive(0, 2)
    assert_mean(x.mean(axis=(1, 2)), first)
    assert_mean((x**2).mean(axis=(1, 2)), 1 - first / 2)
    assert_rejected(hot.mean(axis=(1, 2)), first)


# The thermostat


@pytest.mark.slow
def test_the_thermostat_removes_the_heat_of_gradient_noise(seed):
    """Its mean is C + εσ²/2 to first order. Moments are right where those of SGGMC are not.

    Without forces, a step multiplies the heat by exp(−2ξε) and adds (2Cε + ε²σ²) exp(−ξε).
    """
    eps, sigma, d = 0.02, 10.0, 20
    free = Target(SPHERE, lambda x: 0 * x[0], uniform_direction(d), eps, 1.0, sigma)
    targets = {"free": free, "vmf": vmf(d, 20, eps, 1.0, sigma)}
    draws = run(sgmcmc.GSGNHT, targets, seed=seed, n_iters=400, burn_in=400, L=10)
    heat = 2 * eps + eps**2 * sigma**2
    friction = draws.stats["thermostat"]["free"].mean(axis=1).astype(float)
    assert_mean(friction, np.arcsinh(heat / 2) / eps, detect=0.01)
    assert np.arcsinh(heat / 2) / eps == pytest.approx(1 + eps * sigma**2 / 2, rel=1e-3)
    assert_rejected(friction, 1.0)
    assert_mean(temperature(draws, "vmf"), 1.0, detect=0.01)
    compare(draws["vmf"][..., 0].astype(float), d, 20, 0.03)
    draws = run(sgmcmc.SGGMC, targets, seed=seed, n_iters=200, burn_in=100, L=10)
    assert_rejected(draws["vmf"][..., 0].mean(axis=1).astype(float), moments(d, 20)[0])


def uniform_direction(d):
    def start(rng):
        x = rng.normal(size=d)
        return x / np.linalg.norm(x)

    return start


# All rows, and a Metropolis step


@pytest.mark.slow
def test_gmc(seed):
    """Exact for a step that is far too large for the others: half of it is refused."""
    targets = {"5": vmf(10, 5, 0.5), "50": vmf(10, 50, 0.2)}
    draws = run(sgmcmc.GMC, targets, seed=seed, n_iters=600, burn_in=100, L=4)
    for k in (5, 50):
        compare(draws[f"{k}"][..., 0].astype(float), 10, k, 0.04 if k == 5 else 0.01)
    assert 0.2 < draws.stats["accepted"].mean() < 0.9
    first = draws["5"][..., 0]
    log_lik = 5 * first + 50 * draws["50"][..., 0]
    np.testing.assert_allclose(draws.stats["log_posterior"], log_lik, rtol=1e-4, atol=1e-3)


@dataclass(frozen=True)
class AcceptsAll(sgmcmc.GMC):
    """Without its Metropolis step."""

    def update(self, chain, estimate, noise, h):
        always = {"accept": 0 * noise.uniforms["accept"]}
        return super().update(chain, estimate, noise._replace(uniforms=always), h)


@pytest.mark.slow
def test_gmc_that_accepts_all_is_rejected(seed):
    draws = run(AcceptsAll, {"5": vmf(10, 5, 0.7)}, seed=seed, n_iters=400, burn_in=100, L=4)
    assert_rejected(draws["5"][..., 0].mean(axis=1).astype(float), moments(10, 5)[0])


# The order of the integrator


def on_a_grid(eps, kappa=3.0, friction=1.0, size=96):
    """E cos φ of the stationary law on a circle, by the chain's operator on a grid of (φ, v).

    The expectation of cos φ after k steps, as a function of where a chain is, becomes flat.
    """
    angle = np.linspace(-np.pi, np.pi, size, endpoint=False)
    speed = np.linspace(-6, 6, 121)
    phi, v = np.meshgrid(angle, speed, indexing="ij")
    points, weights = np.polynomial.hermite_e.hermegauss(12)
    damp, maps = np.exp(-friction * eps / 2), []
    for z in points:
        middle = phi + v * eps / 2
        kick = -kappa * np.sin(middle) * eps + np.sqrt(2 * friction * eps) * z
        after = damp * (damp * v + kick)
        there = middle + after * eps / 2
        at_angle = (there + np.pi) / (2 * np.pi) * size
        at_speed = (np.clip(after, -6, 6) + 6) / 0.1
        maps.append(np.stack([at_angle % size, at_speed]))
    law = np.exp(kappa * np.cos(phi) - v**2 / 2)
    law /= law.sum()
    value = np.cos(phi)
    for _ in range(int(60 / eps)):
        wide = np.concatenate([value[-8:], value, value[:8]])  # the circle has no end
        curve = spline_filter(wide, order=5)
        moved = [m + np.array([8, 0]).reshape(2, 1, 1) for m in maps]
        each = [map_coordinates(curve, m, order=5, prefilter=False, mode="nearest") for m in moved]
        value = np.tensordot(weights / weights.sum(), each, 1)
    return np.sum(law * value), ive(1, kappa) / ive(0, kappa)


@pytest.mark.slow
def test_the_error_is_of_second_order():
    errors = []
    for eps in (0.4, 0.28, 0.2):
        chain, target = on_a_grid(eps)
        errors.append(chain - target)
    slopes = np.diff(np.log(np.abs(errors))) / np.diff(np.log([0.4, 0.28, 0.2]))
    np.testing.assert_allclose(slopes, 2, atol=0.25)


@pytest.mark.slow
def test_the_law_of_large_steps(seed):
    """The chain has just the error that its operator on a grid has."""
    chain, target = on_a_grid(0.4)
    circle = vmf(2, 3, 0.4)
    draws = run(sgmcmc.SGGMC, {"x": circle}, seed=seed, n_iters=600, burn_in=50)
    per_chain = draws["x"][..., 0].mean(axis=1).astype(float)
    assert_mean(per_chain, chain, detect=0.01)
    assert_rejected(per_chain, target)


# How it is given


@pytest.mark.slow
def test_learning_rate_and_momentum(seed):
    """ε = √(γ/N) and C = ρ/ε, as in appendix E."""
    given = {
        "log_lik": lambda params, data: tf.reduce_sum(data["x"] @ params["mu"][:, None]),
        "dataset": {"x": np.random.default_rng(0).normal(size=(100, 3))},
        "params": {"mu": [1.0, 0, 0]},
        "manifold": SPHERE,
        "minibatch_size": 10,
        "n_iters": 50,
        "verbose": False,
        "seed": seed,
        "jit": False,
    }
    for sampler in (sgmcmc.sggmc, sgmcmc.gsgnht):
        one = sampler(**given, learning_rate=0.04, momentum=0.2)
        assert one.settings["stepsize"] == pytest.approx(0.02)
        other = sampler(**given, stepsize=0.02, friction=10.0)
        np.testing.assert_allclose(one["mu"], other["mu"], rtol=1e-4, atol=1e-4)
        default = sampler(**given, stepsize=0.02)
        np.testing.assert_allclose(
            default["mu"], sampler(**given, stepsize=0.02, momentum=0.1)["mu"], rtol=1e-6
        )


@pytest.mark.slow
def test_control_variates_are_centred_on_the_manifold(seed):
    """The mode is found on the sphere, and the noise is less than without control variates."""
    rng = np.random.default_rng(seed)
    x = stats.vonmises_fisher([0, 0, 1], 5).rvs(2000, random_state=rng)
    mean = x.sum(axis=0) / np.linalg.norm(x.sum(axis=0))

    def log_lik(params, data):
        return tf.reduce_sum(sgmcmc.von_mises_fisher_log_prob(data["x"], params["mu"], 5.0))

    given = {
        "params": {"mu": [0.6, 0, 0.8]},
        "manifold": SPHERE,
        "minibatch_size": 20,
        "n_iters": 500,
        "verbose": False,
        "seed": seed,
    }
    made = sgmcmc.sggmc_setup(
        log_lik,
        {"x": x},
        stepsize=0.002,
        gradient="control_variates",
        **{k: v for k, v in given.items() if k != "n_iters"},
    )
    np.testing.assert_allclose(made.mode["mu"], mean, atol=1e-3)
    heat = {
        gradient: sgmcmc.sggmc(log_lik, {"x": x}, stepsize=0.002, gradient=gradient, **given)
        .stats["temperature"]["mu"]
        .mean()
        for gradient in ("plain", "control_variates")
    }
    assert heat["control_variates"] < 1.5 < heat["plain"]


@pytest.mark.slow
def test_directions_weights_and_scales_in_one_chain(seed):
    """A mixture of von Mises-Fisher laws: each parameter moves where it lives."""
    rng = np.random.default_rng(seed)
    x = np.concatenate(
        [
            stats.vonmises_fisher([1, 0, 0], 20).rvs(300, random_state=rng),
            stats.vonmises_fisher([0, 0, 1], 20).rvs(700, random_state=rng),
        ]
    )

    def log_lik(params, data):
        each = sgmcmc.von_mises_fisher_log_prob(
            data["x"][:, None], params["mu"], tf.exp(params["log_kappa"])
        )
        return tf.reduce_sum(tf.reduce_logsumexp(each + tf.math.log(params["omega"]), axis=1))

    draws = sgmcmc.mixed(
        log_lik,
        {"x": x},
        {"mu": np.eye(3)[[0, 2]], "log_kappa": np.log(10.0), "omega": [0.5, 0.5]},
        {"mu": 2e-3, "log_kappa": 1e-5, "omega": 0.1},
        {
            "mu": sgmcmc.SGGMC(SPHERE, L=1, gradient_noise="scalar"),
            "log_kappa": sgmcmc.SGLD(),
            "omega": sgmcmc.SCIR(alpha=1.0),
        },
        minibatch_size=100,
        n_iters=3000,
        burn_in=2000,
        seed=seed,
        verbose=False,
    )
    np.testing.assert_allclose(np.linalg.norm(draws["mu"], axis=2), 1, atol=1e-5)
    np.testing.assert_allclose(draws["mu"].mean(axis=0), np.eye(3)[[0, 2]], atol=0.1)
    np.testing.assert_allclose(draws["omega"].mean(axis=0), [0.3, 0.7], atol=0.1)
    assert 12 < np.exp(draws["log_kappa"].mean()) < 30


@pytest.mark.slow
def test_leaves_of_nests_keep_their_order():
    """Each parameter of a nest has its own manifold."""
    start = {"a": {"y": np.eye(3, 2), "x": np.array([1.0, 0])}, "b": 0.5}
    sampler = sgmcmc.sggmc_setup(
        lambda params, data: tf.add_n([tf.reduce_sum(x) for x in tree.leaves(params)]),
        {"x": np.ones(10)},
        start,
        0.1,
        manifold={"a": {"y": STIEFEL, "x": SPHERE}},
        minibatch_size=5,
        seed=1,
        verbose=False,
    )
    sgmcmc.step(sampler, 50)
    now = sgmcmc.get_params(sampler)
    np.testing.assert_allclose(now["a"]["y"].T @ now["a"]["y"], np.eye(2), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(now["a"]["x"]), 1, atol=1e-5)
    assert all(np.abs(a - b).max() > 0 for a, b in zip(tree.leaves(now), tree.leaves(start)))
