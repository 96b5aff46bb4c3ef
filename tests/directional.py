"""Targets on manifolds with gradient noise of known size, several of them in one model.

Rows of data add a linear term whose sum over all N rows is 0. A minibatch of n rows gives gradient
noise of variance σ² in each coordinate, without correlation between coordinates.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import sgmcmc

CHAINS = 512


class Target(NamedTuple):
    """A log density, where it lives, a function that draws a start, and the sampler's constants."""

    manifold: Any
    log_density: Callable
    start: Callable  # of a NumPy generator
    eps: float
    friction: Any = 1.0
    sigma: Any = 0.0


def rows(N, shape):
    """Rows with mean 0 and the identity as their covariance."""
    z = np.random.default_rng(0).normal(size=(N, int(np.prod(shape))))
    z = z - z.mean(0)
    root = np.linalg.cholesky(np.cov(z.T).reshape(z.shape[1], -1))
    return np.linalg.solve(root, z.T).T.reshape(N, *shape)


def run(kind, targets, *, seed, n_iters, burn_in=0, chains=CHAINS, temperature=1.0, **own):
    """Draws of all targets at once, by a dynamics; `own` are its arguments."""
    rng = np.random.default_rng(seed)
    starts = {k: np.stack([t.start(rng) for _ in range(chains)]) for k, t in targets.items()}
    noisy = {k: t for k, t in targets.items() if np.any(t.sigma)}
    N = max([40, *(4 * starts[k][0].size for k in noisy)])
    has_all = issubclass(kind, sgmcmc.GMC)
    n = N if has_all else N // 4
    scale = np.sqrt(n / (N * max(N - n, 1)))
    dataset = {k: t.sigma * scale * rows(N, starts[k].shape[1:]) for k, t in noisy.items()}
    dataset["none"] = np.zeros(N)

    def log_lik(params, data):
        share = tf.cast(tf.shape(data["none"])[0], tf.float32) / N
        parts = [t.log_density(params[k]) * share for k, t in targets.items()]
        return tf.add_n(parts + [tf.reduce_sum(data[k] * params[k]) for k in noisy])

    if not has_all:
        own = {"friction": {k: t.friction for k, t in targets.items()}, **own}
    return sgmcmc.sample(
        kind(manifold={k: t.manifold for k, t in targets.items()}, **own),
        log_lik,
        dataset,
        {k: x[0] for k, x in starts.items()},
        {k: t.eps for k, t in targets.items()},
        minibatch_size=n,
        n_iters=n_iters,
        burn_in=burn_in,
        n_chains=chains,
        starts=starts,
        seed=seed,
        verbose=False,
        temperature=temperature,
        minibatches="reshuffled" if has_all else "independent",
        shared_minibatches=has_all,
    )


def aboba_moments(lam, eps, friction, sigma=0.0, known=0.0):
    """Stationary variances of θ and v on a Gaussian of precision λ, by the linear recursion.

    `known` is the variance V by which less noise is added.
    """
    d = np.exp(-friction * eps / 2)
    heat = max(2 * friction * eps - eps**2 * known, 0) + eps**2 * sigma**2
    step = np.array([[1 - eps**2 * d * lam, eps * d**2], [-eps * d * lam, d**2]])
    kick = np.array([eps * d, d])
    moments = np.linalg.solve(
        np.eye(4) - np.kron(step, step), heat * np.outer(kick, kick).reshape(-1)
    ).reshape(2, 2)
    end = np.array([1, -eps / 2])  # half a step before the point where the gradient is taken
    return end @ moments @ end, moments[1, 1]
