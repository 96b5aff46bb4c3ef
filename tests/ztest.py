"""Comparing simulation with exact answers: z-tests that say how often they err, and what they see.

Each comparison is of a mean over independent chains with an exact value. It fails where they are
more than ALARM standard errors apart, which chance alone does at most 2.5 times in ten million: 1.6
times for normal values (Student's t with 249 degrees of freedom or more). Means of m squares of
normal values are skewed. With n chains, too small a mean then comes about exp(5.4³ √(8/mn) / 3)
times as often. As `detect` bounds √(2/mn), the rate is at most 2.5 in ten million where `detect` is
at most .1 (by importance sampling, for 250 chains). Means of fewer squares go to `assert_squares`.
A few comparisons of skewed values have a `detect` of .15 to .35, and rates up to ten times in ten
million.

A run may make BUDGET comparisons, so that some test fails by chance less than once in five thousand
runs, whatever the seeds: tests/conftest.py counts them, and a run with more fails. A comparison
whose standard error is too large to find a relative error of `detect` with probability .9987 fails
as well: it proves nothing.

Negative controls are counted apart, as it is no false alarm where one fails. Tests that use
`z_score` by themselves are not counted: nearly all have a wider bound than ALARM, and the rate
above has room for 100 that do not.
"""

import math

import numpy as np

ALARM = 5.4
POWER = 3.0
MIN_CHAINS = 250
BUDGET = 500

made = {"comparisons": 0, "controls": 0}  # by this process


def z_score(per_chain, exact):
    """How many standard errors the mean over chains is from the exact value."""
    per_chain = np.asarray(per_chain, float)
    assert per_chain.ndim == 1
    assert len(per_chain) >= MIN_CHAINS, "too few chains for a z-test"
    error = per_chain.std(ddof=1) / np.sqrt(len(per_chain))
    return (per_chain.mean() - exact) / error, error


def assert_mean(per_chain, exact, detect=0.03):
    """The chains' values have this mean; a relative error of `detect` would have been found."""
    made["comparisons"] += 1
    z, error = z_score(per_chain, exact)
    smallest = (ALARM + POWER) * error / abs(exact)
    assert smallest <= detect, f"would only find errors above {smallest:.1%}, not {detect:.1%}"
    assert abs(z) < ALARM, f"{np.mean(per_chain):.5g} is not {exact:.5g}: z = {z:.1f}"


def assert_squares(squares, exact, count, detect=0.03):
    """The means of `count` squares of normal values have this mean. Their cube roots are compared.

    These are nearly symmetric, and their mean is known: so few squares do not raise more alarms
    than `assert_mean` does with normal values.
    """
    k = count / 2
    mean = math.exp(math.lgamma(k + 1 / 3) - math.lgamma(k)) / k ** (1 / 3)
    root = (1 + detect) ** (1 / 3)
    assert_mean(np.cbrt(np.asarray(squares) / exact), mean, root - 1)


def assert_normal(draws, variance, detect=0.03):
    """Draws (chains, ...) are from N(0, variance), as the shares below four quantiles tell."""
    for z, share in ((-0.8416212, 0.2), (0.0, 0.5), (0.8416212, 0.8), (1.6448536, 0.95)):
        below = (draws < z * np.sqrt(variance)).mean(axis=tuple(range(1, draws.ndim)))
        assert_mean(below, share, detect)


def assert_rejected(per_chain, exact):
    """Negative control: the same test must see that this sampler is wrong."""
    made["controls"] += 1
    z, _ = z_score(per_chain, exact)
    assert abs(z) > ALARM, f"a wrong sampler passes: z = {z:.1f}"
