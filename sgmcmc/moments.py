"""Exact means and variances of the samplers of probabilities, after any number of steps.

The target of a component θ is Gamma(a, 1), with a = α + Σᵢ zᵢ. Each step uses its own estimate â of
a. For the exact process â = a, from all rows; on a minibatch S, â = α + (N/n) Σ_{i∈S} zᵢ. All
functions take arrays, with an entry for each component.

Baker, Fearnhead, Fox and Nemeth (2018), Large-scale stochastic sampling from the probability
simplex, NeurIPS; Barile and Nemeth, Control variate-based stochastic sampling from the probability
simplex.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from . import checks


class Moments(NamedTuple):
    """The mean and the variance of each component."""

    mean: Any
    variance: Any


class Distribution(NamedTuple):
    """The values that â can take, along the last axis, and their probabilities."""

    values: np.ndarray
    probabilities: np.ndarray


# The process


def cir_moments(theta0: Any, a: Any, h: float, n_steps: int = 1) -> Moments:
    """Moments of the exact Cox-Ingersoll-Ross process, at the time t = Mh.

    The process dθ = (a − θ) dt + √(2θ) dW from θ₀ has

        E θ = θ₀e^{−t} + a(1 − e^{−t})
        Var θ = 2θ₀e^{−t}(1 − e^{−t}) + a(1 − e^{−t})²

    (Baker et al., 2018, corollary 3.2). As t grows, these become the moments of Gamma(a, 1).

    Parameters
    ----------
    theta0 : array_like
        The start θ₀, 0 or more.
    a : array_like
        The shape of the target, above 0.
    h : float
        The step size, which is a time.
    n_steps : int
        The number of steps M.

    Returns
    -------
    Moments
        `mean` and `variance`.

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc.moments import cir_moments
    >>> np.round(cir_moments(7.67, 150.1, h=0.1, n_steps=5), 2)
    array([63.71, 26.9 ])
    """
    theta0, a = _numbers("theta0", theta0, at_least=0), _numbers("a", a, above=0)
    t = checks.number("h", h, above=0) * checks.whole("n_steps", n_steps)
    decay, grown = np.exp(-t), -np.expm1(-t)
    return Moments(theta0 * decay + a * grown, 2 * theta0 * decay * grown + a * grown**2)


def scir_moments(theta0: Any, a: Any, var_a_hat: Any, h: float, n_steps: int = 1) -> Moments:
    """Moments of SCIR: the process, with an estimate â in place of a at each step.

    A step is θ' = (1 − e^{−h}) Gamma(â + K), K ~ Poisson(θe^{−h}/(1 − e^{−h})). If E â = a, the
    mean is that of `cir_moments`, and the variance is larger by

        (1 − e^{−2Mh}) (1 − e^{−h})/(1 + e^{−h}) Var â

    (Baker et al., 2018, corollary 3.2).

    Parameters
    ----------
    theta0, a : array_like
        The start θ₀, 0 or more, and the shape of the target, above 0.
    var_a_hat : array_like
        Var â, such as `a_hat_variance` gives.
    h, n_steps : float, int
        The step size and the number of steps M.

    Returns
    -------
    Moments
        `mean` and `variance`.

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc.moments import a_hat_variance, scir_moments
    >>> var_a_hat = a_hat_variance(150, N=1000, n=100)
    >>> np.round(scir_moments(7.67, 150.1, var_a_hat, h=0.1, n_steps=5), 2)
    array([63.71, 63.17])
    """
    exact = cir_moments(theta0, a, h, n_steps)
    var_a_hat = _numbers("var_a_hat", var_a_hat, at_least=0)
    return Moments(
        exact.mean + 0 * var_a_hat,
        exact.variance - np.expm1(-2 * n_steps * h) * np.tanh(h / 2) * var_a_hat,
    )


def scircv_moments(
    theta0: Any,
    a: Any,
    a_hat: tuple[Any, Any],
    h: float,
    n_steps: int = 1,
    form: str = "alternative",
) -> Moments:
    """Moments of SCIR with control variates, in either of its two forms.

    With b̂ = (â − 1)/(a − 1), a step is θ' = c Gamma(â + Poisson(rθ/c)), where

        alternative:  r = e^{−b̂h},  c = (1 − e^{−b̂h})/b̂,  which is h at b̂ = 0
        main:         r = e^{−h},   c = (1 − e^{−h})/b̂

    The main form needs b̂ > 0. If b̂ ≤ 0, it takes the step of the alternative form, both here and
    in the sampler. Given θ and â, the mean of θ' is câ + rθ and its variance is c(câ + 2rθ). So the
    moments of a step follow from those of the step before, with expectations over the distribution
    of â:

        E θ' = E[câ] + E[r] E θ
        Var θ' = E[c²â] + 2 E[cr] E θ + Var[câ + r E θ] + E[r²] Var θ

    In the third term E θ is a constant. The means are (8) and (20) of Barile and Nemeth. Their
    variances (9) and (21) lack the third term: they are E Var[θ | minibatches]. If always b̂ > 0,
    what (9) lacks is C₂(a − 1)² Var[â/(â − 1)], C₂ = (1 − e^{−h})² (1 − e^{−2Mh})/(1 − e^{−2h}).
    What (21) lacks is large while θ is far from its mode: 41 % in the example below, but only
    .002 % after 60 steps.

    In the alternative form the variance grows without bound unless E[e^{−2b̂h}] < 1, and the mean
    unless E[e^{−b̂h}] < 1. This fails if minibatches often have b̂ < 0, for example with a slightly
    above 1. A moment that is larger than all floating-point numbers is returned as infinite.

    Parameters
    ----------
    theta0 : array_like
        The start θ₀, 0 or more.
    a : array_like
        The shape in b̂, above 0 and not 1. For a ≤ 1 the sampler takes steps without control
        variates: see `scir_moments`.
    a_hat : tuple of array_like
        The values of â, above 0, and their probabilities. Both are along a last axis, which the
        other arguments do not have. `a_hat_distribution` computes them for counts.
    h, n_steps : float, int
        The step size and the number of steps M.
    form : {'alternative', 'main'}
        Which of the two steps.

    Returns
    -------
    Moments
        `mean` and `variance`.

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc.moments import a_hat_distribution, scircv_moments
    >>> a_hat = a_hat_distribution(0.1, 150, N=1000, n=100)
    >>> np.round(scircv_moments(7.67, 150.1, a_hat, h=0.1, n_steps=5), 2)
    array([63.6 , 45.81])
    >>> np.round(scircv_moments(7.67, 150.1, a_hat, h=0.1, n_steps=5, form="main"), 2)
    array([63.74, 28.51])
    """
    theta0, a = _numbers("theta0", theta0, at_least=0), _numbers("a", a, above=0)
    values, probabilities = _distribution(a_hat)
    h, n_steps = checks.number("h", h, above=0), checks.whole("n_steps", n_steps)
    if (a == 1).any():
        raise ValueError(
            "a must not be 1, where b̂ = (â − 1)/(a − 1) has no value: there, use scir_moments"
        )
    if form not in ("alternative", "main"):
        raise ValueError(f"form must be 'alternative' or 'main', not {form!r}")

    def mean(x: np.ndarray) -> np.ndarray:
        return (probabilities * x).sum(-1)

    with np.errstate(over="ignore", invalid="ignore"):
        b = (values - 1) / (a[..., None] - 1)
        nonzero = np.where(b == 0, 1, b)
        r, c = np.exp(-b * h), np.where(b == 0, h, -np.expm1(-b * h) / nonzero)
        if form == "main":
            r, c = np.where(b > 0, np.exp(-h), r), np.where(b > 0, -np.expm1(-h) / nonzero, c)
        mean_r, mean_ca = mean(r), mean(c * values)
        excess_r, excess_ca = r - mean_r[..., None], c * values - mean_ca[..., None]
        constant = mean(c**2 * values) + mean(excess_ca**2)
        linear = 2 * mean(c * r) + 2 * mean(excess_ca * excess_r)
        quadratic = mean(excess_r**2)
        mean_r2 = mean(r**2)
        m, v = theta0, 0.0
        for _ in range(n_steps):
            v = constant + linear * m + quadratic * m**2 + mean_r2 * v
            m = mean_ca + mean_r * m
    return Moments(*(np.where(np.isnan(x), np.inf, x)[()] for x in (m, v)))


def sgrld_moments(theta0: Any, a: Any, var_a_hat: Any, h: float, n_steps: int = 1) -> Moments:
    """Moments of Riemannian Langevin dynamics for Gamma(a, 1), without its reflection at 0.

    A step is θ' = θ + (h/2)(â − θ) + √(hθ) N(0, 1), so that

        E θ' = (1 − h/2) E θ + (h/2) a
        Var θ' = (1 − h/2)² Var θ + (h/2)² Var â + h E θ

    It discretises the process of `cir_moments` at half its pace: h/2 there is h here. Reflection
    increases the mean, so the moments are exact only if no step leads below 0. That is so far from
    0, and for the first step before it is reflected.

    Parameters
    ----------
    theta0, a, var_a_hat, h, n_steps
        As for `scir_moments`.

    Returns
    -------
    Moments
        `mean` and `variance`.

    Examples
    --------
    >>> import numpy as np
    >>> from sgmcmc.moments import sgrld_moments
    >>> np.round(sgrld_moments(7.67, 150.1, 0, h=0.2, n_steps=5), 2)
    array([66.  , 26.37])
    """
    theta0, a = _numbers("theta0", theta0, at_least=0), _numbers("a", a, above=0)
    var_a_hat = _numbers("var_a_hat", var_a_hat, at_least=0)
    h, n_steps = checks.number("h", h, above=0), checks.whole("n_steps", n_steps)
    m, v = theta0 + 0 * var_a_hat, 0.0
    for _ in range(n_steps):
        v = (1 - h / 2) ** 2 * v + (h / 2) ** 2 * var_a_hat + h * m
        m = (1 - h / 2) * m + h / 2 * a
    return Moments(m, v)


# The minibatch


def a_hat_variance(count: Any, N: int, n: int) -> np.ndarray:
    """Var â for categorical rows, with minibatches drawn without replacement.

    With p = count/N, the proportion of rows of this category,

        Var â = (N²/n) p(1 − p) (N − n)/(N − 1)

    Parameters
    ----------
    count : array_like
        The number of rows of the category, among all rows.
    N, n : int
        The number of all rows, and of the rows in a minibatch.

    Returns
    -------
    numpy.ndarray
        Var â, in the shape of `count`.

    Examples
    --------
    >>> from sgmcmc.moments import a_hat_variance
    >>> a_hat_variance([800, 100, 0], N=1000, n=10).round(1)
    array([15855.9,  8918.9,     0. ])
    """
    count = _count(count, N, n)
    return count * (N - count) * (N - n) / (n * max(N - 1, 1))


def a_hat_distribution(alpha: Any, count: Any, N: int, n: int) -> Distribution:
    """The distribution of â for categorical rows, with minibatches drawn without replacement.

    â = α + (N/n)Z, where Z is the number of rows of the category in a minibatch. It is
    hypergeometric: P(Z = z) is proportional to C(count, z) C(N − count, n − z).

    Parameters
    ----------
    alpha : array_like
        The shape of the prior, above 0.
    count : array_like
        The number of rows of the category, among all rows.
    N, n : int
        The number of all rows, and of the rows in a minibatch.

    Returns
    -------
    Distribution
        `values` and `probabilities`, along a last axis that the arguments do not have. A component
        with fewer values than others repeats some of its own, with probability 0.

    Examples
    --------
    >>> from sgmcmc.moments import a_hat_distribution
    >>> values, probabilities = a_hat_distribution(0.5, 2, N=4, n=2)
    >>> values
    array([0.5, 2.5, 4.5])
    >>> probabilities.round(3)
    array([0.167, 0.667, 0.167])
    """
    alpha, count = np.broadcast_arrays(_numbers("alpha", alpha, above=0), _count(count, N, n))
    alpha, count = alpha[..., None], count[..., None]
    least, most = np.maximum(0, n - (N - count)), np.minimum(n, count)
    z = np.arange(least.min(), most.max() + 1)
    # log P(z) − log P(z − 1), summed over z
    within = (least < z) & (z <= most)
    up = np.where(within, (count - z + 1) * (n - z + 1), 1)
    down = np.where(within, z * (N - count - n + z), 1)
    log_p = np.cumsum(np.log(up / down), axis=-1)
    log_p = np.where((least <= z) & (z <= most), log_p, -np.inf)
    p = np.exp(log_p - log_p.max(-1, keepdims=True))
    return Distribution(alpha + N / n * np.clip(z, least, most), p / p.sum(-1, keepdims=True))


# What users pass in


def _numbers(
    name: str, value: Any, at_least: float = -np.inf, above: float = -np.inf
) -> np.ndarray:
    """Check that numbers are finite and within bounds; return them in double precision."""
    x = checks.cast(name, checks.array(name, value), np.float64)
    if not ((above < x) & (at_least <= x)).all():
        low = f"above {above:g}" if above > -np.inf else f"at least {at_least:g}"
        raise ValueError(f"{name} must be {low}, not {x.min():g}")
    return x


def _count(count: Any, N: int, n: int) -> np.ndarray:
    """Check numbers of rows; return them as floating-point numbers, as their products are large."""
    if checks.whole("n", n) > checks.whole("N", N):
        raise ValueError(f"n must be at most N = {N}, not {n}")
    x = _numbers("count", count, at_least=0)
    if (x != x.round()).any() or (x > N).any():
        bad = x[(x != x.round()) | (x > N)][0]
        raise ValueError(f"count must be whole numbers from 0 to N = {N}, not {bad:g}")
    return x


def _distribution(a_hat: tuple[Any, Any]) -> Distribution:
    """Check the values of â and their probabilities."""
    if not isinstance(a_hat, tuple) or len(a_hat) != 2:
        raise TypeError(
            "a_hat must be the values of â and their probabilities, such as a_hat_distribution "
            f"gives, not {checks.described(a_hat)}"
        )
    values = _numbers("the values of a_hat", a_hat[0], above=0)
    probabilities = _numbers("the probabilities of a_hat", a_hat[1], at_least=0)
    if not values.ndim or values.shape[-1:] != probabilities.shape[-1:]:
        raise ValueError(
            "a_hat must have as many values as probabilities along the last axis, not shapes "
            f"{values.shape} and {probabilities.shape}"
        )
    total = probabilities.sum(-1)
    if (abs(total - 1) > 1e-6).any():
        bad = total.flat[abs(total - 1).argmax()]
        raise ValueError(f"the probabilities of a_hat must sum to 1, not {bad:g}")
    return Distribution(values, probabilities)
