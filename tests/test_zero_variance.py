"""Zero-variance control variates: exact where they should be, unbiased, and paired.

On Gaussians with exact gradients no variance may be left, up to rounding. Each z-test raises a
false alarm at most 2.5 times in ten million. They find errors of .07 of the mean in estimates, and
of .05 in the scale of a function whose mean is to be 0. Each has a negative control.
"""

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import Draws, polynomials, reduction, ridge, tree
from sgmcmc.polynomials import Columns, Folds, Polynomials, Scaling

from . import slow
from .ztest import assert_mean, assert_rejected

PRECISION = np.array([[2.0, 0.6], [0.6, 0.5]])
MEAN = np.array([3.0, -2.0])
COVARIANCE = np.linalg.inv(PRECISION)


def gaussian(n=400, chains=None, seed=1, noise=0.0):
    """Draws of a Gaussian with its gradients, as a run would return them."""
    rng = np.random.default_rng(seed)
    shape = (n,) if chains is None else (chains, n)
    x = MEAN + rng.normal(size=(*shape, 2)) @ np.linalg.cholesky(COVARIANCE).T
    gradient = -(x - MEAN) @ PRECISION + noise * rng.normal(size=x.shape)
    return Draws({"x": x}, {"gradients": {"x": gradient}}, {"n_chains": chains})


def product(some):
    return some["x"][:, 0] * some["x"][:, 1]


# Exactness


@pytest.mark.parametrize(
    ("sampler", "stepsize"),
    [(sgmcmc.sgld, 0.01), slow(sgmcmc.sghmc, 0.002), slow(sgmcmc.sgnht, 0.002)],
)
def test_no_variance_is_left_on_a_gaussian_with_exact_gradients(sampler, stepsize):
    def log_lik(params, data):
        away = tf.linalg.matvec(PRECISION, params["x"] - MEAN)
        return -tf.reduce_sum((params["x"] - MEAN) * away) / 2 + 0 * tf.reduce_sum(data["none"])

    draws = sampler(
        log_lik,
        {"none": np.zeros(10)},
        {"x": MEAN + 1},
        stepsize,
        minibatch_size="all",
        n_iters=2000,
        thin=2,
        n_chains=2,
        keep_gradients=True,
        dtype="float64",
        seed=1,
        verbose=False,
    )
    found = sgmcmc.zero_variance(draws)
    assert found.names == ["x[0]", "x[1]"]
    assert (found["variance_ratio"] < 1e-20).all()
    assert (found["mcse"] < 1e-10 * found["plain_mcse"]).all()
    np.testing.assert_allclose(found["mean"], MEAN, rtol=1e-12)
    np.testing.assert_allclose(found["plain_mean"], draws["x"].mean(axis=(0, 1)), rtol=1e-12)
    np.testing.assert_allclose(found["plain_mcse"], draws.summary()["mcse"], rtol=1e-12)
    exact = [COVARIANCE[0, 1] + MEAN[0] * MEAN[1]]
    second = sgmcmc.zero_variance(draws, 2, product)
    np.testing.assert_allclose(second["mean"], exact, rtol=1e-10)
    assert second["variance_ratio"][0] < 1e-20
    gradients = tree.map(lambda g: np.roll(g, -1, axis=1), draws.stats["gradients"])
    wrong = Draws(dict(draws), {"gradients": gradients}, draws.settings)
    assert (sgmcmc.zero_variance(wrong)["variance_ratio"] > 1e-4).all()  # those of the next draw


def test_functions_are_those_of_the_formula():
    """h = −½ΔQ + ½∇Q·∇f, for all monomials, by derivatives of the polynomials."""
    draws, folds = gaussian(30), Folds(1, 30)
    columns = [Columns(nest, False) for nest in (dict(draws), draws.stats["gradients"])]
    made = Polynomials(*columns, folds, 2)
    centre, scale = made.scaling
    z = tf.constant((draws["x"] - centre) / scale)
    monomials = [
        lambda z: z[:, 0],
        lambda z: z[:, 1],
        lambda z: z[:, 0] ** 2,
        lambda z: z[:, 0] * z[:, 1],
        lambda z: z[:, 1] ** 2,
    ]
    gradient_of_f = -scale * draws.stats["gradients"]["x"]
    h = made.read(slice(None))[0]
    for i, monomial in enumerate(monomials):
        with tf.GradientTape() as outer:
            outer.watch(z)
            with tf.GradientTape() as tape:
                tape.watch(z)
                value = monomial(z)
            slope = tf.convert_to_tensor(tape.gradient(value, z, unconnected_gradients="zero"))
        curvature = outer.batch_jacobian(slope, z, unconnected_gradients="zero")
        expected = -tf.linalg.trace(curvature) / 2
        expected += tf.reduce_sum(slope * gradient_of_f, axis=1) / 2
        np.testing.assert_allclose(h[:, i], expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(np.exp2(np.round(np.log2(scale))), scale)


def test_functions_have_mean_zero_and_those_of_the_misprint_do_not(seed):
    """The thesis prints ΔQ + ½∇Q·∇f, whose mean is E ΔQ · 3/2; errors of .05 E ΔQ are found."""
    folds, draws = Folds(400, 900), gaussian(400, 900, seed, noise=1.0)
    nests = dict(draws), draws.stats["gradients"]
    h = Polynomials(*(Columns(nest, True) for nest in nests), folds, 2).read(slice(None))
    for i in (2, 4):
        assert_mean(1 + h[..., i].mean(axis=1), 1, detect=0.05)
        printed = h[..., i] + 3  # ΔQ = 2
        assert_rejected(1 + printed.mean(axis=1), 1)


# Bias


def log_gamma(shape, n, rng):
    """Draws of the logarithm of a gamma variable, whose gradient is skewed."""
    x = np.log(rng.gamma(shape, size=n))
    return Draws({"x": x}, {"gradients": {"x": shape - np.exp(x)}}, {"n_chains": None})


@pytest.mark.slow
def test_estimates_are_not_biased_by_their_own_fit(seed):
    rng, shape = np.random.default_rng(seed), 0.5
    exact = float(tf.math.digamma(tf.constant(shape, tf.float64)))
    crossed, own = [], []
    for _ in range(1000):
        draws = log_gamma(shape, 20, rng)
        crossed.append(sgmcmc.zero_variance(draws)["mean"][0])
        g, h = draws["x"], -draws.stats["gradients"]["x"] / 2
        a = -np.cov(g, h)[0, 1] / h.var(ddof=1)
        own.append((g + a * h).mean())
    assert_mean(crossed, exact, detect=0.1)
    assert_rejected(own, exact)


@pytest.mark.parametrize("chains", [None, 7])
def test_the_coefficients_of_a_draw_are_from_other_folds(chains):
    """Other values of the quantity in one fold change no coefficient there, but all others."""
    draws = gaussian(50, chains, noise=1.0)
    g = np.exp(draws["x"][..., 0])
    changed = g.copy()
    changed[..., :10] += 5  # the first fold where chains are cut
    if chains:
        changed = g.copy()
        changed[:1] += 5

    def coefficients(values):
        found, fitted = [], reduction.fitted

        def seen(*arguments):
            found.extend(fitted(*arguments))
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reduction, "fitted", seen)
            sgmcmc.zero_variance(draws, of={"g": values})
        return found

    one, other = coefficients(g), coefficients(changed)
    np.testing.assert_allclose(one[0], other[0], rtol=1e-9)
    assert not np.isclose(one[1], other[1], rtol=1e-6).all()


def test_folds_have_all_draws_once():
    for chains, n in ((1, 23), (3, 20), (5, 4), (12, 31)):
        seen = np.full((chains, n), -1)
        for _, parts in Folds(chains, n).parts(3):
            for part in parts:
                assert (seen[part.chains, part.draws] == -1).all()
                seen[part.chains, part.draws] = part.fold
        assert (np.bincount(seen.ravel(), minlength=5) > 0).all()
        assert (seen >= 0).all()


# Gradient noise, and many coefficients


def test_ridge_regression_is_no_worse_than_no_control_variates():
    """65 coefficients from 100 draws: least squares alone make estimates much worse."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(100, 10))
    gradients = -x + rng.normal(size=x.shape)
    draws = Draws({"x": x}, {"gradients": {"x": gradients}}, {"n_chains": None})
    found = sgmcmc.zero_variance(draws, 2)
    assert found["variance_ratio"].mean() < 1
    assert (found["variance_ratio"] < 1.3).all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ridge, "PENALTIES", np.zeros(1))
        assert sgmcmc.zero_variance(draws, 2)["variance_ratio"].mean() > 3


def test_with_noise_the_least_variance_is_that_of_theory():
    """Of N(0, 1) with gradient noise of variance σ², it is σ² / (1 + σ²)."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4, 20_000))
    gradients = -x + 0.5 * rng.normal(size=x.shape)
    draws = Draws({"x": x}, {"gradients": {"x": gradients}}, {"n_chains": 4})
    ratio = sgmcmc.zero_variance(draws)["variance_ratio"][0]
    assert abs(ratio - 0.2) < 0.01


@pytest.mark.slow
def test_the_gain_with_control_variates_in_the_sampler_does_not_shrink_with_the_data():
    """Logistic regression, minibatches of 10, εN = .5: with sgld the gain is next to nothing."""

    def log_lik(params, data):
        logits = tf.linalg.matvec(data["X"], params["beta"])
        return -tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(data["y"], logits))

    def ratios(sampler, N):
        rng = np.random.default_rng(N)
        X = rng.normal(size=(N, 5))
        y = 1.0 * (rng.random(N) < 1 / (1 + np.exp(-X @ [1, -1, 0.5, 0, 0.2])))
        draws = sampler(
            log_lik,
            {"X": X, "y": y},
            {"beta": np.zeros(5)},
            0.5 / N,
            log_prior=lambda params: -tf.reduce_sum(params["beta"] ** 2) / 2,
            minibatch_size=10,
            n_iters=20_000,
            burn_in=2_000,
            n_chains=2,
            keep_gradients=True,
            seed=1,
            verbose=False,
        )
        found = sgmcmc.zero_variance(draws)
        spread = np.hypot(found["mcse"], found["plain_mcse"])
        assert (abs(found["mean"] - found["plain_mean"]) < 6 * spread).all()
        return found["variance_ratio"]

    sizes = 1_000, 10_000, 100_000
    controlled = np.array([ratios(sgmcmc.sgldcv, N) for N in sizes])
    plain = np.array([ratios(sgmcmc.sgld, N) for N in sizes])
    assert (controlled < 0.5).all()
    assert (controlled[1:] < 1.1 * controlled[0]).all()
    assert (plain > 0.93).all()


# What is asked for


def test_quantities_by_name_by_function_and_as_arrays():
    draws = gaussian(200, 3, noise=0.5)
    names = sgmcmc.zero_variance(draws, of=["x[1]"])
    assert names.names == ["x[1]"]
    together = sgmcmc.zero_variance(
        draws,
        of={
            "second": lambda some: some["x"][:, 1],
            "given": np.array(draws["x"]),
            "many": lambda some: {"sum": some["x"].sum(axis=1), "both": some["x"] + 1},
        },
    )
    listed = ["given[0]", "given[1]", "second", "sum", "both[0]", "both[1]"]
    assert together.names == listed
    for column in names:
        at = listed.index("second"), listed.index("given[1]")
        np.testing.assert_allclose(together[column][list(at)], names[column][0], rtol=1e-10)
    alone = sgmcmc.zero_variance(draws, of=lambda some: some["x"])
    assert alone.names == ["of[0]", "of[1]"]
    np.testing.assert_allclose(alone["mean"], sgmcmc.zero_variance(draws)["mean"], rtol=1e-12)


def test_the_result_is_a_table_and_a_dict():
    found = sgmcmc.zero_variance(gaussian())
    head, *rows = repr(found).splitlines()
    assert head.split() == ["mean", "mcse", "plain_mean", "plain_mcse", "variance_ratio"]
    assert [row.split()[0] for row in rows] == ["x[0]", "x[1]"]
    assert found["mean"].shape == (2,)
    frame = pytest.importorskip("pandas") and found.to_frame()
    assert list(frame.index) == ["x[0]", "x[1]"]


@pytest.mark.parametrize("chains", [None, 2, 6])
def test_pieces_give_what_all_at_once_gives(chains, tmp_path, monkeypatch):
    draws = gaussian(70, chains, noise=0.3)
    whole = sgmcmc.zero_variance(draws, 2)
    draws.save(tmp_path / "draws")
    monkeypatch.setattr(polynomials, "NUMBERS", 50)
    monkeypatch.setattr(reduction, "NUMBERS", 50)
    monkeypatch.setattr(reduction, "SERIES", 1)
    for again in (draws, sgmcmc.load_draws(tmp_path / "draws")):
        parts = sgmcmc.zero_variance(again, 2)
        for column in whole:
            np.testing.assert_allclose(parts[column], whole[column], rtol=1e-8)


def test_scales_do_not_depend_on_units():
    draws = gaussian(noise=0.5)
    units = np.array([2.0**-30, 2.0**20])
    scaled = Draws(
        {"x": draws["x"] * units},
        {"gradients": {"x": draws.stats["gradients"]["x"] / units}},
        draws.settings,
    )
    one, other = sgmcmc.zero_variance(draws, 2), sgmcmc.zero_variance(scaled, 2)
    np.testing.assert_allclose(one["variance_ratio"], other["variance_ratio"], rtol=1e-6)
    constant = Columns({"x": np.ones((30, 1))}, False)
    assert Scaling.of(constant, Folds(1, 30)).scale == [1]


# Bad input


def changed(**nests):
    draws = gaussian(60)
    stats = {"gradients": nests.get("gradients", draws.stats["gradients"])}
    return Draws(nests.get("values", dict(draws)), stats, draws.settings)


NAN = np.where(np.arange(120).reshape(60, 2) == 77, np.nan, 1.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: [{"x": np.ones(9)}], TypeError, "draws must be what a sampler returned, not"),
        (
            lambda: [Draws({"x": np.ones(9)}, {}, {})],
            ValueError,
            "draws must have gradients: run the sampler with keep_gradients=True",
        ),
        (lambda: [gaussian(), 3], ValueError, "degree must be 1 or 2, not 3"),
        (lambda: [gaussian(), 0], ValueError, "degree must be 1 or 2, not 0"),
        (lambda: [gaussian(), "linear"], TypeError, "degree must be 1 or 2, not 'linear'"),
        (lambda: [gaussian(19)], ValueError, "at least 20 of each of 1 chains.*not 19"),
        (lambda: [gaussian(3, 8)], ValueError, "at least 4 of each of 8 chains.*not 3"),
        (lambda: [wide(60, 30), 2], ValueError, "more than the 495 coefficients that degree = 2"),
        (lambda: [wide(60, 60)], ValueError, "draws must be more than the 60 coefficients"),
        (lambda: [wide(60, 80), 2], ValueError, "degree = 2 has 3,320 coefficients.*degree=1, or"),
        (lambda: [gaussian(), 1, "x"], TypeError, "of must be a list of names"),
        (lambda: [gaussian(), 1, ["y"]], ValueError, "of has 'y', which is not among the draws"),
        (lambda: [gaussian(), 1, ["x[2]"]], ValueError, "of has 'x\\[2\\]', but one draw of 'x'"),
        (lambda: [gaussian(), 1, 5], TypeError, "of must be a list of names, a dict of functions"),
        (lambda: [gaussian(), 1, {}], TypeError, "of must be a list of names, a dict of functions"),
        (
            lambda: [gaussian(), 1, {"a": np.ones(3)}],
            ValueError,
            r"of\['a'\] must have the leading axes of the draws, \(400,\), not shape \(3,\)",
        ),
        (
            lambda: [gaussian(), 1, lambda some: some["x"].sum()],
            ValueError,
            r"of\['of'\] must return an array whose first axis are the draws",
        ),
        (
            lambda: [gaussian(), 1, {"a": lambda some: some["y"]}],
            ValueError,
            r"of\['a'\] raised KeyError: 'y'",
        ),
        (
            lambda: [gaussian(), 1, {"a": lambda some: 0 * some["x"]}],
            ValueError,
            r"of: a\[0\] must vary from draw to draw, but is constant",
        ),
        (
            lambda: [gaussian(), 1, {"a": lambda some: np.where(some["x"] > 3, np.inf, 1)}],
            ValueError,
            r"of: a\[0\] must be finite",
        ),
        (
            lambda: [changed(gradients={"x": NAN})],
            ValueError,
            "gradients of 'x' must be finite, but some are NaN",
        ),
        (lambda: [changed(values={"x": NAN})], ValueError, "draws of 'x' must be finite"),
        (
            lambda: [changed(gradients={"x": np.ones((60, 3))})],
            ValueError,
            "draws must have a gradient for each number of a draw",
        ),
    ],
)
def test_bad_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        sgmcmc.zero_variance(*call())


def wide(n, p):
    x = np.random.default_rng(0).normal(size=(n, p))
    return Draws({"x": x}, {"gradients": {"x": -x}}, {"n_chains": None})
