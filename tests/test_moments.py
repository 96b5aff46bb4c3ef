"""Exact moments of the Cox-Ingersoll-Ross samplers, against simulation and the papers' formulas.

The simulation is plain NumPy and draws its own minibatches, so it shares no code with what it
checks. False alarms are those of `ztest`. The comparisons find errors of 2 % in means and of 3 % in
variances. As negative controls, mistakes of the papers and of the field are simulated, or put into
the formula, and the same comparisons reject them.
"""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import hypergeom

from sgmcmc.moments import (
    a_hat_distribution,
    a_hat_variance,
    cir_moments,
    scir_moments,
    scircv_moments,
    sgrld_moments,
)

from .ztest import assert_mean, assert_rejected

CHAINS = 400_000


class Case(NamedTuple):
    """A start, a column of categorical data, and how to run."""

    theta0: float
    alpha: float
    count: int
    N: int
    n: int
    h: float
    n_steps: int = 1

    @property
    def a(self):
        return self.alpha + self.count

    @property
    def var_a_hat(self):
        return a_hat_variance(self.count, self.N, self.n)

    @property
    def a_hat(self):
        return a_hat_distribution(self.alpha, self.count, self.N, self.n)


FIGURE_3 = Case(7.67, 0.1, 150, 1000, 100, 0.1, 5)
NEGATIVE = Case(60, 0.1, 100, 1000, 10, 0.3, 4)  # b̂ ≤ 0 in 35 % of steps
POSITIVE = Case(2, 5, 30, 400, 80, 0.4, 6)  # b̂ > 0 always: â > 1
SPARSE = Case(3, 0.3, 2, 50, 5, 0.5, 2)  # b̂ ≤ 0 in 80 %


# Simulation


def poisson_gamma(rng, theta, a_hat, r, c):
    """θ' = c Gamma(â + Poisson(rθ/c))."""
    return c * rng.gamma(a_hat + rng.poisson(r * theta / c))


def scir_step(rng, theta, a_hat, a, h):
    return poisson_gamma(rng, theta, a_hat, np.exp(-h), 1 - np.exp(-h))


def alternative_step(rng, theta, a_hat, a, h):
    b = (a_hat - 1) / (a - 1)
    assert (b != 0).all()
    return poisson_gamma(rng, theta, a_hat, np.exp(-b * h), (1 - np.exp(-b * h)) / b)


def main_step(rng, theta, a_hat, a, h):
    b = (a_hat - 1) / (a - 1)
    scale = (1 - np.exp(-h)) / np.where(b > 0, b, 1)
    theta1 = poisson_gamma(rng, theta, a_hat, np.exp(-h), scale)
    return np.where(b > 0, theta1, alternative_step(rng, theta, a_hat, a, h))


def one_for_negative_step(rng, theta, a_hat, a, h):
    """Main form with b̂ := 1 where b̂ ≤ 0."""
    b = (a_hat - 1) / (a - 1)
    scale = (1 - np.exp(-h)) / np.where(b > 0, b, 1)
    return poisson_gamma(rng, theta, a_hat, np.exp(-h), scale)


def misprinted_step(rng, theta, a_hat, a, h):
    """A wrong step: (7) as it is printed, with the state θ̂ in place of b̂."""
    b = (a_hat - 1) / (a - 1)
    return (1 - np.exp(-h)) / theta * rng.gamma(a_hat + rng.poisson(theta * b / np.expm1(h)))


def sgrld_step(rng, theta, a_hat, a, h):
    return theta + h / 2 * (a_hat - theta) + np.sqrt(h * theta) * rng.normal(size=theta.shape)


def simulated(step, case, seed, chains=CHAINS):
    rng, theta = np.random.default_rng(seed), np.full(chains, float(case.theta0))
    for _ in range(case.n_steps):
        z = rng.hypergeometric(case.count, case.N - case.count, case.n, size=chains)
        theta = step(rng, theta, case.alpha + case.N / case.n * z, case.a, case.h)
    return theta


def assert_moments(theta, exact):
    assert_mean(theta, exact.mean, 0.02)
    assert_mean((theta - exact.mean) ** 2, exact.variance, 0.03)


def assert_moments_rejected(theta, exact):
    assert_rejected(theta, exact.mean)
    assert_rejected((theta - exact.mean) ** 2, exact.variance)


def of(moments, case, *options):
    """The moments of a case."""
    how = case.a_hat if moments is scircv_moments else case.var_a_hat
    return moments(case.theta0, case.a, how, case.h, case.n_steps, *options)


@pytest.mark.parametrize("case", [FIGURE_3, NEGATIVE, SPARSE])
def test_scir_simulated(seed, case):
    theta = simulated(scir_step, case, seed)
    assert_moments(theta, of(scir_moments, case))
    exact = cir_moments(case.theta0, case.a, case.h, case.n_steps)
    assert_rejected((theta - exact.mean) ** 2, exact.variance)  # Var â left out


def test_cir_simulated(seed):
    all_rows = FIGURE_3._replace(n=FIGURE_3.N)
    theta = simulated(scir_step, all_rows, seed)
    assert_moments(theta, cir_moments(7.67, 150.1, 0.5))


@pytest.mark.parametrize("form", ["alternative", "main"])
@pytest.mark.parametrize("case", [FIGURE_3, POSITIVE, NEGATIVE, SPARSE])
def test_scircv_simulated(seed, case, form):
    step = {"alternative": alternative_step, "main": main_step}
    theta = simulated(step[form], case, seed)
    assert_moments(theta, of(scircv_moments, case, form))
    (other,) = step.keys() - {form}
    assert_rejected(theta, of(scircv_moments, case, other).mean)


def test_scircv_faults(seed):
    """Errors this large show in few chains."""
    few, long = 20_000, NEGATIVE._replace(n_steps=20)
    theta = simulated(one_for_negative_step, long, seed, few)
    assert_moments_rejected(theta, of(scircv_moments, long, "main"))
    assert theta.mean() == pytest.approx(65, rel=0.05)
    theta = simulated(misprinted_step, POSITIVE, seed, few)
    assert_moments_rejected(theta, of(scircv_moments, POSITIVE, "main"))
    theta = simulated(alternative_step, FIGURE_3, seed, few)
    assert_rejected((theta - of(scircv_moments, FIGURE_3).mean) ** 2, printed_21(FIGURE_3))


def test_sgrld_simulated(seed):
    assert_moments(
        simulated(sgrld_step, SPARSE._replace(n_steps=1), seed),
        sgrld_moments(3, 2.3, SPARSE.var_a_hat, 0.5),
    )
    far = FIGURE_3._replace(theta0=100.0, h=0.2, n_steps=8)
    theta = simulated(sgrld_step, far, seed)
    assert_moments(theta, of(sgrld_moments, far))
    assert_rejected((theta - theta.mean()) ** 2, of(scir_moments, far._replace(h=0.1)).variance)


# Formulas


TABLE = {5: (26.90, 63.17, 28.51), 20: (114.02, 170.35, 120.82), 60: (149.40, 206.78, 158.31)}


@pytest.mark.parametrize("n_steps", TABLE)
def test_table(n_steps):
    """Figure 3 of Barile and Nemeth, as in ALGORITHMS.md, section 4."""
    case = FIGURE_3._replace(n_steps=n_steps)
    variances = [
        cir_moments(7.67, 150.1, 0.1, n_steps).variance,
        of(scir_moments, case).variance,
        of(scircv_moments, case, "main").variance,
    ]
    np.testing.assert_allclose(variances, TABLE[n_steps], atol=0.006)


def geometric(case):
    """C₁, C₂, C₃ of (9)."""
    M, q = case.n_steps, np.exp(-case.h)
    C1 = q**M - q ** (2 * M)
    C2 = (1 - q) ** 2 * (1 - q ** (2 * M)) / (1 - q**2)
    C3 = (1 - q) ** 2 * (
        (q**M - q) / ((1 - q) * (q - 1)) - (q ** (2 * M) - q**2) / ((1 - q) * (q**2 - 1))
    )
    return C1, C2, C3


def printed_9(case):
    values, p = case.a_hat
    C1, C2, C3 = geometric(case)
    inverse, ratio = (p / (values - 1)).sum(), (p * values / (values - 1)).sum()
    last = C2 * (case.a - 1) ** 2 * (p * values / (values - 1) ** 2).sum()
    return 2 * (case.a - 1) * inverse * (case.theta0 * C1 + C3 * (case.a - 1) * ratio) + last


def printed_20(case):
    values, p = case.a_hat
    b = (values - 1) / (case.a - 1)
    decay = (p * np.exp(-b * case.h)).sum()
    jump = (p * values * (1 - np.exp(-b * case.h)) / b).sum()
    left = decay**case.n_steps
    return case.theta0 * left + (1 - left) / (1 - decay) * jump


def printed_21(case):
    values, p = case.a_hat
    b, M = (values - 1) / (case.a - 1), case.n_steps
    r, c = np.exp(-b * case.h), (1 - np.exp(-b * case.h)) / b
    A, R = (p * r).sum(), (p * r**2).sum()
    C1, C2 = (A**M - R**M) / (A - R), (1 - R**M) / (1 - R)
    C3 = 1 + A + R + (A**M - A**3) / ((A - R) * (A - 1)) - (R**M - R**3) / ((A - R) * (R - 1))
    braces = case.theta0 * C1 + (p * values * c).sum() * C3
    return 2 * (p * c * r).sum() * braces + (p * values * c**2).sum() * C2


@pytest.mark.parametrize("n_steps", [1, 2, 7, 100])
def test_main_formulas(n_steps):
    case = POSITIVE._replace(n_steps=n_steps)
    values, p = case.a_hat
    exact, C2 = of(scircv_moments, case, "main"), geometric(case)[1]
    ratio, left = values / (values - 1), np.exp(-case.h * n_steps)
    mean = (p * ratio).sum()
    assert exact.mean == pytest.approx(case.theta0 * left + (1 - left) * (case.a - 1) * mean)
    missing = C2 * (case.a - 1) ** 2 * (p * (ratio - mean) ** 2).sum()
    assert exact.variance == pytest.approx(printed_9(case) + missing)
    assert missing > 1e-3 * exact.variance


@pytest.mark.parametrize("case", [FIGURE_3, POSITIVE, NEGATIVE, SPARSE])
def test_alternative_mean(case):
    assert of(scircv_moments, case).mean == pytest.approx(printed_20(case))


@pytest.mark.parametrize("n_steps", [1, 2, 3, 7, 20])
def test_alternative_variance(n_steps):
    """(21) is the variance given the minibatches; that of the mean given them is missing."""
    case = FIGURE_3._replace(n_steps=n_steps)
    values, p = case.a_hat
    b = (values - 1) / (case.a - 1)
    r, c = np.exp(-b * case.h), (1 - np.exp(-b * case.h)) / b
    mean, second = case.theta0, case.theta0**2  # of E[θ | minibatches], which is câ + r itself
    for _ in range(n_steps):
        second = (p * ((c * values) ** 2 + 2 * c * values * r * mean + r**2 * second)).sum()
        mean = (p * (c * values + r * mean)).sum()
    exact = of(scircv_moments, case).variance
    assert exact == pytest.approx(printed_21(case) + second - mean**2)
    assert n_steps > 7 or printed_21(case) < 0.8 * exact


def test_scir_steps():
    """Corollary 3.2 against its own steps, one after the other."""
    m, v, q = 7.67, 0.0, np.exp(-0.1)
    for _ in range(20):
        v = q**2 * v + 2 * (1 - q) * q * m + (1 - q) ** 2 * (150.1 + FIGURE_3.var_a_hat)
        m = q * m + (1 - q) * 150.1
    np.testing.assert_allclose(of(scir_moments, FIGURE_3._replace(n_steps=20)), (m, v))


@pytest.mark.parametrize("form", ["alternative", "main"])
def test_all_rows(form):
    """Without subsampling, every sampler is the exact process."""
    case = FIGURE_3._replace(n=1000, n_steps=9)
    exact = cir_moments(7.67, 150.1, 0.9)
    np.testing.assert_allclose(of(scir_moments, case), exact)
    np.testing.assert_allclose(of(scircv_moments, case, form), exact)
    absent = case._replace(count=0, n=100)  # â = α and b̂ = 1 whatever the minibatch
    exact = cir_moments(7.67, 0.1, 0.9)
    np.testing.assert_allclose(of(scir_moments, absent), exact)
    np.testing.assert_allclose(of(scircv_moments, absent, form), exact)


def test_sgrld_converges():
    """Small steps at half the pace are the exact process."""
    errors = [
        np.subtract(sgrld_moments(7.67, 150.1, 0, 2 * t, round(1 / t)), cir_moments(7.67, 150.1, 1))
        for t in (0.01, 0.005)
    ]
    np.testing.assert_allclose(errors[0], 2 * errors[1], rtol=0.05)


# The minibatch


@pytest.mark.parametrize(
    ("count", "N", "n"),
    [
        *[(150, 1000, 100), (0, 10, 3), (10, 10, 3), (7, 10, 10), (7, 10, 8), (1, 1, 1), (3, 9, 1)],
        *[(10, 10**6, 10**5), (5 * 10**5, 10**6, 10**4)],
    ],
)
def test_distribution(count, N, n):
    values, p = a_hat_distribution(0.1, count, N, n)
    z = np.round((values - 0.1) * n / N)
    np.testing.assert_allclose(values, 0.1 + N / n * z)
    np.testing.assert_allclose(p, hypergeom(N, count, n).pmf(z), rtol=1e-8, atol=1e-15)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert (p * values).sum() == pytest.approx(0.1 + count)
    assert (p * (values - 0.1 - count) ** 2).sum() == pytest.approx(a_hat_variance(count, N, n))


# Arrays and extremes


@pytest.mark.parametrize("form", ["alternative", "main"])
def test_components(form):
    counts, alpha = np.array([800, 100, 0, 0]), np.array([0.1, 0.2, 0.3, 0.1])
    theta0 = np.array([[0.0], [5.0], [900.0]])
    a_hat, var = a_hat_distribution(alpha, counts, 1000, 40), a_hat_variance(counts, 1000, 40)
    assert a_hat.values.shape == (4, 41)
    together = [
        scircv_moments(theta0, alpha + counts, a_hat, 0.2, 3, form),
        scir_moments(theta0, alpha + counts, var, 0.2, 3),
        sgrld_moments(theta0, alpha + counts, var, 0.2, 3),
    ]
    assert np.shape(together) == (3, 2, 3, 4)
    for i, j in np.ndindex(3, 4):
        case = Case(theta0[i, 0], alpha[j], counts[j], 1000, 40, 0.2, 3)
        alone = of(scircv_moments, case, form), of(scir_moments, case), of(sgrld_moments, case)
        assert np.shape(alone) == (3, 2)
        np.testing.assert_allclose(np.array(together)[:, :, i, j], alone)


def test_single_precision():
    """Arguments in single precision are converted to double precision first."""
    given = [np.float32(x) for x in (7.67, 150.1)]
    a_hat = tuple(x.astype(np.float32) for x in FIGURE_3.a_hat)
    moments = scircv_moments(*given, a_hat, 0.1, 5)
    assert all(x.dtype == np.float64 for x in moments)
    np.testing.assert_allclose(moments, of(scircv_moments, FIGURE_3), rtol=1e-4)


def test_b_hat_zero():
    """At b̂ = 0 the step is the limit as b̂ goes to 0, in both forms."""
    at, *near = [scircv_moments(4, 3, ([x], [1]), 0.5, 1) for x in (1, 1 + 1e-9, 1 - 1e-9)]
    np.testing.assert_allclose([near[0], near[1]], [at, at], rtol=1e-8)
    np.testing.assert_allclose(at, (4.5, 0.25 + 2 * 0.5 * 4))  # h Gamma(1 + Poisson(θ/h))
    np.testing.assert_allclose(scircv_moments(4, 3, ([1], [1]), 0.5, 1, "main"), at)


@pytest.mark.parametrize("form", ["alternative", "main"])
def test_extreme_steps(form):
    case = POSITIVE._replace(h=1e-12, n_steps=1)
    values, p = case.a_hat
    b = (values - 1) / (case.a - 1)
    noise = 4e-12 * (p / b).sum() if form == "main" else 4e-12
    np.testing.assert_allclose(of(scir_moments, case), (2, 4e-12), rtol=1e-9)
    np.testing.assert_allclose(of(scircv_moments, case, form), (2, noise), rtol=1e-9)
    case = POSITIVE._replace(h=1e300)
    np.testing.assert_allclose(of(scir_moments, case), (35, 35 + case.var_a_hat))
    mean = (p * values / b).sum()  # θ' ~ Gamma(â, b̂), whatever θ was
    variance = (p * (values / b**2 + (values / b - mean) ** 2)).sum()
    np.testing.assert_allclose(of(scircv_moments, case, form), (mean, variance))


def test_explosion():
    """Where E[exp(−2b̂h)] ≥ 1, the variance grows for ever, and is never NaN."""
    case = Case(1, 0.1, 1, 1000, 100, 0.5)  # a = 1.1
    variances = [of(scircv_moments, case._replace(n_steps=M)).variance for M in (1, 10, 1000)]
    assert np.isfinite(variances[1])
    assert 1e6 * variances[0] < variances[1]
    assert variances[2] == np.inf
    assert of(scircv_moments, case._replace(theta0=0, h=1000.0, n_steps=3)) == (np.inf, np.inf)
    assert np.isfinite(of(scir_moments, case._replace(n_steps=1000))).all()


HALVES = ([0.1, 10.1], [0.5, 0.5])
WRONG = {
    "theta0 must be at least 0, not -1": lambda: cir_moments(-1, 2, 0.1),
    "theta0 is nan: every value must be finite": lambda: cir_moments(np.nan, 2, 0.1),
    "a must be above 0, not 0": lambda: cir_moments(1, [2, 0], 0.1),
    "h must be a finite number above 0, not 0": lambda: cir_moments(1, 2, 0),
    "n_steps must be a positive whole number, not 0": lambda: scir_moments(1, 2, 3, 0.1, 0),
    "var_a_hat must be at least 0, not -3": lambda: sgrld_moments(1, 2, -3, 0.1),
    "a must not be 1": lambda: scircv_moments(1, [2, 1], HALVES, 0.1),
    "form must be 'alternative' or 'main', not 'other'": lambda: scircv_moments(
        1, 5.1, HALVES, 0.1, form="other"
    ),
    "a_hat must be the values of â and their probabilities": lambda: scircv_moments(1, 2, 3, 0.1),
    "as many values as probabilities": lambda: scircv_moments(1, 2, ([1, 2, 3], [0.5, 0.5]), 0.1),
    "the probabilities of a_hat must sum to 1, not 0.9": lambda: scircv_moments(
        1, 2, ([1, 2], [0.4, 0.5]), 0.1
    ),
    "the values of a_hat must be above 0": lambda: scircv_moments(1, 2, ([0], [1]), 0.1),
    "n must be at most N = 10, not 11": lambda: a_hat_variance(3, 10, 11),
    "count must be whole numbers from 0 to N = 10, not 2.5": lambda: a_hat_variance(2.5, 10, 1),
    "to N = 10, not 12": lambda: a_hat_distribution(0.1, [3, 12], 10, 1),
    "alpha must be above 0, not 0": lambda: a_hat_distribution(0, 3, 10, 1),
}


@pytest.mark.parametrize("message", WRONG)
def test_errors(message):
    with pytest.raises((TypeError, ValueError), match=message):
        WRONG[message]()
