"""What correct draws look like: posteriors known without any of the contestants."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from .problems import ALPHA, PROBLEMS, L, dead


class Verdict(NamedTuple):
    """The variance of the draws over the right one, and the error of this ratio."""

    ratio: float
    error: float
    shift: float  # of the mean, in posterior standard deviations (root mean square)

    @property
    def wrong(self) -> bool:
        """Beyond the known bias by more than chance allows."""
        near = abs(self.ratio - 1) <= 0.06 + 3 * self.error  # NaN is near nothing
        return not (near and self.shift <= 0.2 + 6 * np.sqrt(self.error))


def laplace(data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of P1's posterior: with so many rows, it is Gaussian."""
    X, y = data["X"].astype(float), data["y"]
    beta = np.zeros(X.shape[1])
    for _ in range(20):
        p = 1 / (1 + np.exp(-X @ beta))
        hessian = X.T @ (X * (p * (1 - p))[:, None]) + np.eye(len(beta)) / 10
        beta += np.linalg.solve(hessian, X.T @ (y - p) - beta / 10)
    return beta, np.linalg.inv(hessian)


def importance(data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of P2's posterior, where θ1 is the lower component.

    Importance sampling from a Gaussian that is adapted to its own weighted draws.
    """
    rng, X = np.random.default_rng(0), data["X"].astype(float)
    mean, cov = np.array([0, 0, 3, 3.0]), np.eye(4) / 100

    def log_posterior(theta: np.ndarray) -> np.ndarray:
        logs = [-((X - t[:, None]) ** 2).sum(2) / 2 for t in (theta[:, :2], theta[:, 2:])]
        return np.logaddexp(*logs).sum(1) - (theta**2).sum(1) / 20

    for _ in range(8):
        root = np.linalg.cholesky(1.2 * cov)
        z = rng.standard_normal((4000, 4))
        theta = mean + z @ root.T
        log_weight = log_posterior(theta) + (z**2).sum(1) / 2
        weight = np.exp(log_weight - log_weight.max())
        mean = np.average(theta, axis=0, weights=weight)
        cov = np.cov(theta.T, aweights=weight)
    return mean, cov


@functools.cache
def posterior(problem: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the posterior of the first two problems."""
    return {"P1": laplace, "P2": importance}[problem](PROBLEMS[problem].data(rows))


def compare(draws: np.ndarray, mean: np.ndarray, cov: np.ndarray) -> Verdict:
    """Compare draws (draw, parameter), in coordinates in which the posterior is N(0, I)."""
    if not np.isfinite(draws).all():
        return Verdict(np.nan, 0.0, np.nan)
    z = np.linalg.solve(np.linalg.cholesky(cov), (draws - mean).T)
    batches = z[:, : z.shape[1] // 20 * 20].reshape(len(z), 20, -1)
    squares = (batches**2).mean(2)  # about the true mean: a wrong one is an error, too
    error = squares.mean(0).std(ddof=1) / np.sqrt(20)
    return Verdict(float(squares.mean()), float(error), float(np.sqrt((z.mean(1) ** 2).mean())))


def untouched(w1: np.ndarray, steps: int, kind: str, stepsize: float, resampled: bool) -> Verdict:
    """P3: the dead pixels' weights, of which only the prior speaks, against their known law.

    They start at 0 and follow linear dynamics with precision 1, whose variance is computed here.
    A thermostat's friction is not known beforehand: it hardly matters while ε·steps² is small,
    as the weights then move by their first momenta.
    """
    weights = w1[dead(len(w1))].ravel()
    if kind == "sgld":
        variance = 0.0
        for _ in range(steps):
            variance = (1 - stepsize / 2) ** 2 * variance + stepsize
    else:
        A = np.array([[1 - stepsize, 1 - ALPHA], [-stepsize, 1 - ALPHA]])
        Q = 2 * ALPHA * stepsize * np.ones((2, 2))
        S = np.diag([0, stepsize])
        for k in range(steps * (L if kind == "sghmc" else 1)):
            if resampled and kind == "sghmc" and k % L == 0:
                S = np.diag([S[0, 0], stepsize])
            S = A @ S @ A.T + Q
        variance = S[0, 0]
    ratio = weights.var() / variance
    return Verdict(float(ratio), float(ratio * np.sqrt(2 / weights.size)), 0.0)
