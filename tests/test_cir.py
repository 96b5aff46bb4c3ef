"""The Cox-Ingersoll-Ross transition against the non-central chi-squared law, and its random words.

The shares of draws below three exact quantiles and two moments are compared with z-tests over
CHAINS independent chains, as in `ztest`, for each pair of a shape and a rate. Relative errors of
4 % in a share, 5 % in a mean and 12 % in a variance (mostly of much less) are found with
probability .9987, and negative controls are rejected. A comparison fails by chance four times in
10¹⁰ (Student's t beyond ALARM), one of all 250 once in 10⁷ runs.
"""

from functools import cache

import numpy as np
import pytest
import tensorflow as tf
from scipy import optimize, special, stats

from sgmcmc import cir, random
from sgmcmc.dynamics import scir

from . import slow
from .ztest import POWER, z_score

ALARM = 6.5
CHAINS, DRAWS = 256, 4096
LOG_SHARES = np.log([0.1, 0.5, 0.9])
SHAPES = 1e-4, 0.01, 0.1, 0.5, 0.7, 1.0, 100.0
RATES = 0.0, 5e-9, 0.2, 20.0, 5e5


def log_draws(rate, *more):
    """log G for all rates."""
    value, is_excess = cir.gamma_poisson(rate, *more)
    return tf.where(is_excess, tf.math.log(rate + value), value)


def compiled(dtype=tf.float32):
    def draw(rate, shape, keys):
        full = [tf.fill((CHAINS, DRAWS), tf.cast(x, dtype)) for x in (rate, shape)]
        return log_draws(*full, keys)

    return tf.function(draw, jit_compile=True, autograph=False)


def some_keys(seed, *chains):
    return tf.constant(
        np.random.default_rng(seed).integers(-(2**31), 2**31, (*chains, 2)), tf.int32
    )


def log_cdf(log_x, shape, rate):
    """Compute log P(log G < log_x). Where x underflows, P = e^{−λ} x^a / Γ(a + 1)."""
    if log_x < -300:
        return shape * log_x - special.gammaln(shape + 1) - rate
    if rate < 100:
        k = np.arange(300)
        share = stats.poisson.pmf(k, rate) @ special.gammainc(shape + k, np.exp(log_x))
        return np.log(max(share, 1e-300))
    return stats.ncx2.logcdf(2 * np.exp(log_x), 2 * shape, 2 * rate)


@cache
def quantile(log_share, shape, rate):
    """Find the quantile at which log_cdf reaches a share."""
    ends = -10 / shape - 20, np.log(10 * (rate + shape) + 50)
    return optimize.brentq(lambda x: log_cdf(x, shape, rate) - log_share, *ends, xtol=1e-10)


def comparisons(log_g, shape, rate):
    """Yield one value for each chain, their exact mean, and the relative error to be found."""
    for log_share in LOG_SHARES:
        below = log_g < quantile(log_share, shape, rate)
        yield below.mean(axis=1), np.exp(log_share), 0.04
    if shape >= 0.1:
        g = np.exp(log_g.astype(float))
        yield g.mean(axis=1), shape + rate, 0.05
        yield ((g - shape - rate) ** 2).mean(axis=1), shape + 2 * rate, 0.12


def worst(log_g, shape, rate):
    """The largest |z| of the comparisons."""
    found = []
    for values, exact, detect in comparisons(log_g, shape, rate):
        z, error = z_score(values, exact)
        assert (ALARM + POWER) * error <= detect * exact
        found.append(abs(z))
    return max(found)


def law(draw, seed, shape, rate):
    rate, shape = float(np.float32(rate)), float(np.float32(shape))
    log_g = draw(tf.constant(rate), tf.constant(shape), some_keys(seed, CHAINS)).numpy()
    assert np.isfinite(log_g).all()
    return worst(log_g, shape, rate)


@pytest.mark.parametrize(("dtype", "shapes"), [(tf.float32, SHAPES), slow(tf.float64, SHAPES[2:4])])
def test_law(seed, dtype, shapes):
    draw = compiled(dtype)
    for i, shape in enumerate(shapes):
        for j, rate in enumerate(RATES):
            assert law(draw, (seed, i, j), shape, rate) < ALARM, (shape, rate)


def test_exact_law():
    """The law that draws are compared with is SciPy's, where that does not underflow."""
    for shape in SHAPES[1:]:
        for rate in RATES[1:]:
            x = np.exp(quantile(np.log(0.9), shape, rate))
            assert stats.ncx2.cdf(2 * x, 2 * shape, 2 * rate) == pytest.approx(0.9, abs=1e-6)


def numpy_sampler(fault):
    """Samplers in NumPy: a right one, to check the test, and wrong ones as negative controls."""

    def draw(rate, shape, keys):
        rate, shape, size = float(rate), float(shape), (CHAINS, DRAWS)
        rng = np.random.default_rng(keys.numpy().view(np.uint32).ravel())
        events = rng.poisson(rate, size)
        if fault == "truncated":
            events = np.minimum(events, 6)
        if fault == "all the degrees" or (fault == "identity" and shape >= 0.5):
            square = (rng.normal(size=size) * np.sqrt(0.5) + np.sqrt(rate)) ** 2
            rest = shape if fault == "all the degrees" else shape - 0.5
            return tf.math.log(square + rng.gamma(rest, size=size))
        log_g = np.log(rng.gamma(shape + events + 1))
        return tf.constant(
            log_g
            if fault == "not raised"
            else log_g - rng.exponential(size=size) / (shape + events)
        )

    return draw


@pytest.mark.parametrize(
    ("fault", "shape", "rate", "seen"),
    [
        (None, 0.1, 0.2, False),
        ("identity", 0.7, 20, False),
        ("all the degrees", 1, 20, True),
        ("not raised", 0.7, 0.2, True),
        ("truncated", 0.7, 4, True),
    ],
)
def test_negative_controls(seed, fault, shape, rate, seen):
    assert (law(numpy_sampler(fault), seed, shape, rate) > ALARM) == seen


def test_rejection_is_needed(seed, monkeypatch):
    """If all candidates of Marsaglia and Tsang are accepted, the test rejects the draws.

    No more than 17 % of the candidates should have been rejected.
    """

    def accepted(d, x, level):
        return tf.maximum((1 + x / (3 * tf.sqrt(d))) ** 3, 1e-3)

    monkeypatch.setattr(cir, "candidate", accepted)
    assert law(compiled(), seed, 1.0, 0.2) > ALARM


@pytest.mark.slow
def test_other_use_other_draw(seed):
    """Other uses, keys and elements are uncorrelated; the same use and key give the same."""

    @tf.function(jit_compile=True, autograph=False)
    def draw(key):
        arguments = tf.zeros(5000), tf.fill([5000], 1.3), key
        return [log_draws(*arguments, use) for use in (0, cir.USES)]

    key = some_keys(seed)
    one, other = (x.numpy() for x in draw(key))
    np.testing.assert_array_equal(one, draw(key)[0])
    for x, y in ((one, other), (one[1:], one[:-1]), (one, draw(key + 1)[0])):
        assert abs(np.corrcoef(x, y)[0, 1]) < ALARM / np.sqrt(4999)


def mixed(seed, *size):
    """Rates and shapes over all their range."""
    rng = np.random.default_rng(seed)
    rate = np.exp(rng.uniform(-100, 16, size)).astype(np.float32)
    rate[..., ::7] = 0
    return tf.constant(rate), tf.constant(10 ** rng.uniform(-4, 7, size), tf.float32)


def log_draw(rate, shape, keys):
    return log_draws(rate, shape, keys)


@pytest.mark.parametrize("size", [10, slow(30_001)])
def test_finite_and_same_without_xla(seed, size):
    arguments = *mixed(seed, size), some_keys(seed)
    one, other = (
        tf.function(log_draw, jit_compile=jit, autograph=False)(*arguments).numpy()
        for jit in (True, False)
    )
    assert np.isfinite(one).all()
    assert np.isfinite(other).all()
    # Where a candidate is as good as on the border, three times in a million, rounding decides.
    assert (~np.isclose(one, other, rtol=1e-4, atol=1e-4)).sum() < 5


@pytest.mark.parametrize("size", [(10,), slow((3, 700))])
def test_chains_alone(seed, size):
    rate, shape = mixed(seed, 4, *size)
    keys = some_keys(seed, 4)
    draw = tf.function(log_draw, autograph=False)
    together = draw(rate, shape, keys).numpy()
    for c in range(4):
        alone = draw(rate[c], shape[c], keys[c]).numpy()
        np.testing.assert_allclose(together[c], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("jit", [True, False])
def test_nan_shape(seed, jit):
    size = 3000
    rate, shape = mixed(seed, size)
    invalid = np.arange(size) % 5 == 2
    shape = tf.where(invalid, np.nan, shape)
    draw = tf.function(log_draw, jit_compile=jit, autograph=False)
    log_g = draw(rate, shape, some_keys(seed)).numpy()
    np.testing.assert_array_equal(np.isnan(log_g), invalid)


def after(transition, shape, h, steps, seed):
    """log θ after some transitions from the stationary law, (CHAINS, DRAWS)."""
    theta = np.random.default_rng(seed).gamma(shape, size=(CHAINS, DRAWS)).astype(np.float32)
    a, stay = tf.fill(theta.shape, np.float32(shape)), tf.constant(-h)
    keys = some_keys(seed, steps, CHAINS)

    @tf.function(jit_compile=True, autograph=False)
    def run(chain, a, stay, keys):
        def step(i, chain):
            return i + 1, transition(chain, a, stay, -tf.math.expm1(stay), keys[i])

        return tf.while_loop(lambda i, _: i < steps, step, (0, chain), parallel_iterations=1)[1]

    chain = scir.LogChain(tf.constant(theta), tf.math.log(theta))
    return run(chain, a, stay, keys).log_theta.numpy()


def by_logarithms(chain, a, stay, scale, key):
    """The draws are right up to rounding: log θ is about 14, where the last digit is 1e-6."""
    rate = tf.exp(chain.log_theta + stay - tf.math.log(scale))
    log_theta = log_draws(rate, a, key) + tf.math.log(scale)
    return scir.LogChain(tf.exp(log_theta), log_theta)


@pytest.mark.parametrize(
    ("shape", "h", "steps", "transition"),
    [
        slow(0.3, 0.7, 40, scir.transition),
        slow(30.0, 0.1, 40, scir.transition),
        slow(1e6, 1e-3, 100, scir.transition),
        slow(1e6, 1e-3, 100, by_logarithms),
    ],
)
def test_transitions_keep_the_stationary_law(shape, h, steps, transition, seed):
    log_g = after(transition, shape, h, steps, seed)
    assert (worst(log_g, shape, 0.0) < ALARM) == (transition is scir.transition)


def test_marks():
    numbers = tf.constant([1.0, -1.5, 0.0, -np.inf, np.nan], tf.float32)
    for mark in (True, False):
        mark = tf.fill(numbers.shape, mark)
        for x in (numbers, tf.cast(numbers, tf.float64)):
            found = cir.marked(x, mark)
            np.testing.assert_array_equal(cir.is_marked(found), mark)
            np.testing.assert_allclose(found[:3], x[:3], rtol=2e-7, atol=1e-40)
            assert not np.isfinite(found[3:]).any()


@pytest.mark.parametrize(
    ("ones", "expected"), [(0, (0x6B200159, 0x99BA4EFE)), (1, (0x1CB996FC, 0xBB002BE7))]
)
def test_threefry(ones, expected):
    """The known answers of the authors' library, Random123."""
    word = tf.constant(0xFFFFFFFF * ones, tf.uint32)
    assert tuple(map(int, random.threefry((word, word), word, word))) == expected


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_uniforms(seed, dtype):
    n = 1 << 20
    key = some_keys(seed)
    numbers = np.stack([x for use in (0, 1, 7) for x in random.uniforms(key, (n,), use, dtype)])
    assert (numbers > 0).all()
    assert (numbers < 1).all()
    assert np.isfinite(np.log(numbers)).all()
    bound = ALARM / np.sqrt(n)
    assert np.abs(numbers.mean(axis=1) - 1 / 2).max() < bound * np.sqrt(1 / 12)
    assert np.abs(numbers.var(axis=1) - 1 / 12).max() < bound * np.sqrt(1 / 180)
    assert np.abs(np.corrcoef(numbers) - np.eye(6)).max() < bound
    assert abs(np.corrcoef(numbers[0, 1:], numbers[0, :-1])[0, 1]) < bound


def test_uniforms_never_reach_the_ends():
    words = tf.constant([0, 1, 2**31, 2**32 - 129, 2**32 - 128, 2**32 - 1], tf.uint32)
    numbers = random.open_unit(words, tf.float32).numpy()
    assert (numbers > 0).all()
    assert (numbers < 1).all()
    assert (np.diff(numbers) >= 0).all()
