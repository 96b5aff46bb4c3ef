"""Combination of subposterior draws: exact laws on Gaussians, and by enumeration and quadrature.

Each comparison raises a false alarm at most 2.5 times in ten million. Those over 300 or 400
replications find relative errors of 3 %. Those of `kde_product` and `weierstrass` are with the
exact law of what they draw, given the draws of the shards, bandwidth included: they find errors of
.05 posterior standard deviations in the mean, and of 6 % in the variance.
"""

import itertools

import numpy as np
import pytest
from scipy import optimize, stats

from sgmcmc import Draws, combine, load_draws

from . import slow
from .ztest import assert_mean, assert_rejected

MEANS = np.array([[1.0, -1.0], [0.0, 0.5], [-0.5, 1.0]])
COVARIANCES = np.array([[[1.0, 0.8], [0.8, 1.0]], [[2.0, -0.5], [-0.5, 0.5]], [[0.5, 0], [0, 3]]])
PRODUCT = np.linalg.inv(np.linalg.inv(COVARIANCES).sum(axis=0))
MEAN = PRODUCT @ np.einsum("sij,sj->i", np.linalg.inv(COVARIANCES), MEANS)
ROOT = np.linalg.cholesky(PRODUCT)


def gaussian_parts(rng, m=4000):
    """Draws of three Gaussians that differ in mean and covariance."""
    roots = np.linalg.cholesky(COVARIANCES)
    return [{"x": mu + rng.normal(size=(m, 2)) @ root.T} for mu, root in zip(MEANS, roots)]


def white(draws):
    """Draws in coordinates in which the exact product is N(0, I)."""
    return np.linalg.solve(ROOT, (draws - MEAN).T).T


# Gaussians


def check_gaussian(found, check):
    """Compare the moments of replications (replications, draws, 2) in white coordinates."""
    first, second = found[..., 0], found[..., 1]
    check(1 + first.mean(axis=1), 1)
    check(1 + second.mean(axis=1), 1)
    check((first**2).mean(axis=1), 1)
    check((second**2).mean(axis=1), 1)
    check(1 + (first * second).mean(axis=1), 1)


METHODS = {
    "consensus": lambda parts, seed: combine.consensus(parts),
    "gaussian_product": lambda parts, seed: combine.gaussian_product(parts, seed=seed),
    "weierstrass": lambda parts, seed: combine.weierstrass(parts, acceptance=0.3, seed=seed),
}


@pytest.mark.parametrize("method", [*list(METHODS)[:2], slow("weierstrass")])
def test_gaussians_have_the_mean_and_covariance_of_the_product(method, seed):
    rng = np.random.default_rng(seed)
    found = [white(METHODS[method](gaussian_parts(rng), i)["x"]) for i in range(300)]
    check_gaussian(np.array(found), assert_mean)


def test_averages_with_other_weights_are_rejected(seed):
    """Negative controls: equal weights, and weights by variances without correlations."""
    rng = np.random.default_rng(seed)
    equal, by_variance = [], []
    for _ in range(300):
        draws = np.array([part["x"] for part in gaussian_parts(rng)])
        equal.append(white(draws.mean(axis=0)))
        weights = 1 / draws.var(axis=1, keepdims=True)
        by_variance.append(white((weights * draws).sum(axis=0) / weights.sum(axis=0)))
    for wrong in (np.array(equal), np.array(by_variance)):
        assert_rejected(1 + wrong[..., 0].mean(axis=1), 1)
        assert_rejected((wrong[..., 0] ** 2).mean(axis=1), 1)


# Kernel density estimates


def components(shards, h, tilted):
    """Weights, means and variances of all components of the product, from the paper's formulas.

    In one dimension, by densities with all their constants.
    """

    def normal(x, mean, variance):
        return np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)

    W = len(shards)
    means, variances = ([f(x) for x in shards] for f in (np.mean, lambda x: np.var(x, ddof=1)))
    total = 1 / sum(1 / v for v in variances)
    centre = total * sum(mu / v for mu, v in zip(means, variances))
    found = []
    for chosen in itertools.product(*shards):
        middle = np.mean(chosen)
        weight = np.prod([normal(x, middle, h**2) for x in chosen])
        mean, variance = middle, h**2 / W
        if tilted:
            weight *= normal(middle, centre, total + h**2 / W)
            weight /= np.prod([normal(x, mu, v) for x, mu, v in zip(chosen, means, variances)])
            variance = 1 / (W / h**2 + 1 / total)
            mean = variance * (W / h**2 * middle + centre / total)
        found.append((weight, mean, variance))
    weights, means, variances = np.array(found).T
    return weights / weights.sum(), means, variances


SHARDS = [np.array(x) for x in ([-1.0, 0.1, 0.4, 2.0], [0.3, 1.5, -0.6], [-0.2, 0.9, 1.0, 1.8, 0])]


def moments(w, means, variances):
    """The mean and variance of a mixture."""
    mean = w @ means
    return mean, w @ (variances + (means - mean) ** 2)


@pytest.mark.parametrize("tilted", [False, True], ids=["kernels", "semiparametric"])
def test_index_chains_draw_from_the_mixture(tilted, seed):
    """Controls: equal weights, no noise within a component, the weights of the other method."""
    h, unit = 0.5, np.sqrt(np.mean([np.var(x, ddof=1) for x in SHARDS]))
    w, means, variances = components(SHARDS, h * unit, tilted)
    mean, variance = moments(w, means, variances)
    x = combine.kde_product(
        [{"x": x} for x in SHARDS],
        semiparametric=tilted,
        bandwidth=h,
        n_sweeps=60,
        n_draws=60_000,
        seed=seed,
    )["x"]
    assert_mean(1 + (x - mean) / np.sqrt(variance), 1, detect=0.05)
    assert_mean((x - mean) ** 2, variance, detect=0.06)
    wrong, _ = moments(np.full(len(w), 1 / len(w)), means, variances)
    assert_rejected(x, wrong)
    assert_rejected((x - mean) ** 2, moments(w, means, 0 * variances)[1])
    wrong, _ = moments(*components(SHARDS, h * unit, not tilted))
    assert_rejected(x, wrong)


def test_index_chains_draw_from_the_product_of_many_kernels(seed):
    """The product of estimates from 300 draws each is integrated on a grid."""
    rng = np.random.default_rng(seed)
    shards = [rng.gamma(3, 1, 300) + shift for shift in (0, 0.3, 0.6, 1)]
    x = combine.kde_product(
        [{"x": x} for x in shards], bandwidth=0.3, n_sweeps=200, n_draws=20_000, seed=seed
    )["x"]
    h = 0.3 * np.sqrt(np.mean([np.var(x, ddof=1) for x in shards]))
    grid = np.linspace(-5, 20, 2000)
    density = np.prod(
        [np.exp(-((grid[:, None] - x) ** 2) / (2 * h**2)).mean(axis=1) for x in shards], axis=0
    )
    density /= density.sum()
    mean = density @ grid
    variance = density @ (grid - mean) ** 2
    assert_mean(1 + (x - mean) / np.sqrt(variance), 1, detect=0.07)
    assert_mean((x - mean) ** 2, variance, detect=0.15)


@pytest.mark.slow
def test_semiparametric_estimates_of_a_gaussian_need_no_small_bandwidth(seed):
    """With h = 1, kernels double the variance; divided by Gaussians, they leave it as it is."""
    parts = gaussian_parts(np.random.default_rng(seed), 20_000)
    settings = {"bandwidth": 1.0, "n_draws": 20_000, "seed": seed}
    plain, tilted = (
        white(combine.kde_product(parts, semiparametric=kind, **settings)["x"])
        for kind in (False, True)
    )
    assert np.all(plain.var(axis=0) > 1.4)
    np.testing.assert_allclose(tilted.var(axis=0), 1, atol=0.12)
    np.testing.assert_allclose(tilted.mean(axis=0), 0, atol=0.12)


# A product that is not Gaussian: that of Gamma(3) with rates 1 and 2 is Gamma(5) with rate 3


def law_of_weierstrass(acceptance):
    """The exact mean and second moment with very many draws, by quadrature."""
    grid = (np.arange(2500) + 0.5) / 100
    x, y = grid[:, None], grid / 2
    density = stats.gamma.pdf(x, 3) * stats.gamma.pdf(y, 3, scale=0.5)
    density, squared = density / density.sum(), (x - y) ** 2
    rate = optimize.brentq(lambda r: (density * np.exp(-r * squared)).sum() - acceptance, 0, 1e4)
    w = density * np.exp(-rate * squared)
    theta = (0.75 * x + 3 * y) / 3.75
    return [(w * theta**k).sum() / w.sum() for k in (1, 2)]


@pytest.mark.slow
def test_weierstrass_draws_from_its_law_and_tends_to_the_product(seed):
    exact = [5 / 3, 5 * 6 / 9]
    rng = np.random.default_rng(seed)
    found, average = [], []
    for i in range(400):
        parts = [{"x": rng.gamma(3, 1, 3000)}, {"x": rng.gamma(3, 0.5, 3000)}]
        found.append(combine.weierstrass(parts, acceptance=0.1, seed=i)["x"])
        average.append(combine.consensus(parts)["x"])
    found, average = np.array(found), np.array(average)
    first, second = law_of_weierstrass(0.1)
    assert_mean(found.mean(axis=1), first)
    assert_mean((found**2).mean(axis=1), second)
    assert_rejected(average.mean(axis=1), exact[0])
    assert_rejected(average.mean(axis=1), first)
    # The error is of the order h², and acceptance of the order h
    errors = [law_of_weierstrass(a)[0] - exact[0] for a in (0.08, 0.04, 0.02)]
    assert abs(errors[0]) < 0.02 * exact[0]
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 4, rtol=0.15)


# Forms of draws


def nested(rng, m, chains=None):
    shape = (m,) if chains is None else (chains, m)
    values = {"layer": {"w": rng.normal(size=(*shape, 2, 2)), "b": rng.normal(size=shape)}}
    return values if chains is None else Draws(values, {}, {"n_chains": chains, "seed": 1})


ALL = {
    "consensus": combine.consensus,
    "gaussian_product": combine.gaussian_product,
    "kde_product": combine.kde_product,
    "weierstrass": combine.weierstrass,
}


@pytest.mark.parametrize("method", ALL)
def test_draws_come_back_in_the_form_of_the_parts(method):
    rng = np.random.default_rng(1)
    seeded = {} if method == "consensus" else {"seed": 2}
    plain = ALL[method]([nested(rng, 50) for _ in range(3)], **seeded)
    assert plain["layer"]["w"].shape == (50, 2, 2)
    assert plain["layer"]["b"].shape == (50,)
    parts = [nested(rng, 20, 3) for _ in range(3)]
    found = ALL[method](parts, **seeded)
    assert isinstance(found, Draws)
    lead = (3, 20) if method == "consensus" else (60,)
    assert found["layer"]["w"].shape == (*lead, 2, 2)
    assert found.settings["sampler"] == method
    assert found.summary().names[0] == "layer/b"
    again = ALL[method](parts, **seeded)
    np.testing.assert_array_equal(found["layer"]["w"], again["layer"]["w"])


@pytest.mark.parametrize("method", list(ALL)[1:])
def test_seeds_and_numbers_of_draws(method):
    rng = np.random.default_rng(1)
    parts = [{"x": rng.normal(size=m).astype("float32")} for m in (40, 50, 70)]
    draws = [ALL[method](parts, n_draws=30, seed=i)["x"] for i in (1, 2)]
    assert draws[0].shape == (30,)
    assert draws[0].dtype == np.float32
    assert not np.isin(draws[0], draws[1]).any() or method == "weierstrass"
    assert (draws[0] != draws[1]).any()


# Bad input


GOOD = [{"x": np.random.default_rng(i).normal(size=(20, 2))} for i in range(3)]
CONSTANT = {"x": np.column_stack([np.arange(20.0), np.ones(20)])}
TWICE = {"x": np.column_stack([np.arange(20.0), 2 * np.arange(20.0)])}


@pytest.mark.parametrize(
    ("parts", "settings", "message"),
    [
        ({"x": np.ones(3)}, {}, "parts must be a list"),
        (GOOD[:1], {}, "at least two shards, not of 1"),
        ([GOOD[0], {"y": np.ones((20, 2))}], {}, r"parts\[1\] must have the parameters of parts"),
        ([GOOD[0], {"x": np.ones((20, 3))}], {}, r"parts\[1\] has draws of 'x' of shape \(3,\)"),
        ([GOOD[0], {"x": np.full((20, 2), np.nan)}], {}, r"parts\[1\]\['x'\] must be finite"),
        ([GOOD[0], {"x": GOOD[1]["x"][:3]}], {}, r"parts\[1\] must have at least 4 draws"),
        ([GOOD[0], CONSTANT], {}, r"parts\[1\]: 'x' must vary"),
        ([GOOD[0], TWICE], {}, r"parts\[1\] must have a covariance that can be inverted"),
        ([GOOD[0], {"x": "y"}], {}, r"parts\[1\]\['x'\] must hold real numbers"),
        (GOOD, {"constrain": {"x": "positive"}}, "inside Positive"),
        (GOOD, {"constrain": {"y": "positive"}}, "constrain names 'y'"),
        (GOOD, {"n_draws": 0}, "n_draws must be a positive whole number"),
        (GOOD, {"seed": -1}, "seed must be"),
        (GOOD, {"acceptance": 0}, "acceptance must be"),
        (
            GOOD,
            {"acceptance": 1e-10},
            r"acceptance must be at least 6\.4e-09 for 20 draws of 2 numbers.*about 2e\+11",
        ),
        (GOOD, {"bandwidth": -1}, "bandwidth must be"),
        (GOOD, {"n_sweeps": 0}, "n_sweeps must be"),
        (GOOD, {"semiparametric": "yes"}, "semiparametric must be True or False"),
    ],
)
def test_bad_input(parts, settings, message):
    method = combine.weierstrass if "acceptance" in settings else combine.kde_product
    with pytest.raises((TypeError, ValueError), match=message):
        method(parts, **settings)


def test_parts_may_be_on_disk(tmp_path):
    parts = [nested(np.random.default_rng(i), 20, 3) for i in range(2)]
    for i, part in enumerate(parts):
        part.save(tmp_path / str(i))
    stored = [load_draws(tmp_path / str(i)) for i in range(2)]
    found, exact = combine.consensus(stored), combine.consensus(parts)
    np.testing.assert_array_equal(found["layer"]["w"], exact["layer"]["w"])
    found.save(tmp_path / "both")
    again = load_draws(tmp_path / "both")
    np.testing.assert_array_equal(np.asarray(again["layer"]["w"]), exact["layer"]["w"])
    assert again.settings["shards"] == 2


def test_consensus_wants_equally_many_draws():
    with pytest.raises(ValueError, match=r"parts\[1\] has 1 × 19, and parts\[0\] has 1 × 20"):
        combine.consensus([GOOD[0], {"x": GOOD[1]["x"][1:]}])


def test_chains_and_no_chains_do_not_mix():
    rng = np.random.default_rng(1)
    one = Draws(nested(rng, 60), {}, {"n_chains": None, "seed": 1})
    with pytest.raises(ValueError, match="axis of chains"):
        combine.consensus([one, nested(rng, 20, 3)])
    with pytest.raises(TypeError, match="all be Draws, or all be dicts"):
        combine.consensus([one, nested(rng, 60)])
