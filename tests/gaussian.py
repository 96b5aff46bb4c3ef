"""Gaussian targets with gradient noise of known size, several of them in one model.

Of each parameter, the target has precision λ, and a minibatch of n out of N rows gives the gradient
noise of variance σ² in each coordinate: rows x_i have mean 0 and the likelihood −λ(θ − x_i)²/2N,
so that σ² = λ² (N − n) / (nN) · S², with S² the variance of the rows.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

CHAINS = 512


class Case(NamedTuple):
    """One target, and the tuning constants of the sampler on it."""

    lam: float
    eps: float
    sigma: float
    alpha: float = 0.1
    size: int = 1


def run(sampler, cases, *, N=40, n=10, n_iters=5500, burn_in=500, seed, **options):
    """Draws of all cases at once; the gradient noise is theirs for this N and n."""
    rng = np.random.default_rng(0)
    dataset = {}
    for name, case in cases.items():
        x = rng.normal(size=(N, case.size))
        x = (x - x.mean(0)) / x.std(0, ddof=1)
        dataset[name] = x * case.sigma / case.lam * np.sqrt(n * N / max(N - n, 1))

    def log_lik(params, data):
        return tf.add_n(
            [
                -case.lam / (2 * N) * tf.reduce_sum((params[name] - data[name]) ** 2)
                for name, case in cases.items()
            ]
        )

    return sampler(
        log_lik,
        dataset,
        {name: np.zeros(case.size) for name, case in cases.items()},
        {name: case.eps for name, case in cases.items()},
        minibatch_size=n,
        n_iters=n_iters,
        burn_in=burn_in,
        n_chains=CHAINS,
        seed=seed,
        verbose=False,
        **{"minibatches": "independent", **options},
    )


def run_along(sampler, case, *, N=40, n=10, seed, **options):
    """Draws of two coordinates whose gradient noise is along (1, 1) alone, turned by 45°.

    The first of the two then has noise of variance σ², and the second has none.
    """
    turn = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    x = np.random.default_rng(0).normal(size=N)
    x = (x - x.mean()) / x.std(ddof=1) * case.sigma / case.lam * np.sqrt(n * N / (N - n))
    draws = sampler(
        lambda params, data: -case.lam / (2 * N) * tf.reduce_sum((params["x"] - data["x"]) ** 2),
        {"x": x[:, None] * turn[0]},
        {"x": np.zeros(2)},
        case.eps,
        minibatch_size=n,
        n_chains=CHAINS,
        seed=seed,
        verbose=False,
        **options,
    )
    return np.moveaxis(draws["x"].astype(float) @ turn, -1, 0)


def mean_squares(draws):
    """The mean square of each chain's draws: one number a chain."""
    return np.mean(draws.astype(float) ** 2, axis=tuple(range(1, draws.ndim)))


def sgld_variance(case, T=1):
    """Stationary variance of SGLD at temperature T."""
    return (T + case.eps * case.sigma**2 / 4) / (case.lam * (1 - case.eps * case.lam / 4))


def sghmc_variance(case, T=1):
    """Stationary variance of SGHMC whose momentum is carried over, at temperature T."""
    q = 2 * case.alpha * case.eps * T + (case.eps * case.sigma) ** 2
    el = case.eps * case.lam
    return (2 - case.alpha) * q / (case.alpha * el * (4 - 2 * case.alpha - el))


def sghmc_temperature(case, T=1):
    """Var ν / ε of the same."""
    q = 2 * case.alpha * case.eps * T + (case.eps * case.sigma) ** 2
    return 2 * q / (case.alpha * (4 - 2 * case.alpha - case.eps * case.lam)) / case.eps


def resampled_variance(case, L):
    """Stationary variance of SGHMC with fresh momentum before each L steps, by recursion."""
    kick = np.array(
        [[1 - case.eps * case.lam, 1 - case.alpha], [-case.eps * case.lam, 1 - case.alpha]]
    )
    q = 2 * case.alpha * case.eps + (case.eps * case.sigma) ** 2
    variance = 1 / case.lam
    for _ in range(100_000):
        S = np.diag([variance, case.eps])
        for _ in range(L):
            S = kick @ S @ kick.T + q
        if abs(S[0, 0] - variance) < 1e-12 * variance:
            break
        variance = S[0, 0]
    return variance


def sgnht_friction(case, a, T=1):
    """Mean friction ξ of SGNHT on many coordinates, where Var θ = T (1 − ξ/2)/λ."""
    q = 2 * a * case.eps + (case.eps * case.sigma) ** 2 / T
    b = 4 - case.eps * case.lam
    return (b - np.sqrt(b**2 - 16 * q / case.eps)) / 4


def baoab_variance(case):
    """Stationary variance of BAOAB: without gradient noise that of the target."""
    el = case.eps * case.lam
    heat = (2 - case.alpha) * case.eps * case.sigma**2 / (case.alpha * (4 - el))
    return (1 + heat) / case.lam


def baoab_temperature(case):
    """Var ν / ε of the same."""
    heat = case.eps * case.sigma**2 / (case.alpha * (2 - case.alpha))
    return 1 + (1 - case.alpha) ** 2 * heat / (1 - case.eps * case.lam / 4)


def variance_in_epochs(name, case, N, n, steps=1):
    """Stationary variance where minibatches are taken in turn, by the recursion over one epoch.

    Noise in an epoch has the correlation −n/(N − n). Each second moment of an epoch's positions is
    a sum over pairs of its steps.
    """
    e, lam, alpha = case.eps, case.lam, case.alpha
    if name == "sgld":
        A, c, heat = np.array([[1 - e * lam / 2]]), np.array([e / 2]), np.array([[e]])
    elif name == "sghmc":
        A = np.array([[1 - e * lam, 1 - alpha], [-e * lam, 1 - alpha]])
        c, heat = np.array([e, e]), 2 * alpha * e * np.ones((2, 2))
    else:
        c = e * np.array([1 - alpha / 2, 1 - alpha])
        A = np.array([[1 - c[0] * lam, 1 - alpha / 2], [-c[1] * lam, 1 - alpha]])
        heat = alpha * (2 - alpha) * e * np.outer([0.5, 1], [0.5, 1])
    m, rho = N // n, -n / (N - n)
    power = [np.linalg.matrix_power(A, i) for i in range(m + 1)]

    def added(j):
        """The second moments that j steps add."""
        total = sum(power[i] @ heat @ power[i].T for i in range(j))
        of_noise = [power[i] @ c for i in range(j)]
        return total + case.sigma**2 * sum(
            (1.0 if i == k else rho) * np.outer(of_noise[i], of_noise[k])
            for i in range(j)
            for k in range(j)
        )

    whole, size = added(m), len(c) ** 2
    start = np.linalg.solve(np.eye(size) - np.kron(power[m], power[m]), whole.reshape(-1))
    start = start.reshape(len(c), len(c))
    every = np.gcd(steps, m)
    each = [power[j] @ start @ power[j].T + added(j) for j in range(every, m + 1, every)]
    return np.mean([moments[0, 0] for moments in each])
