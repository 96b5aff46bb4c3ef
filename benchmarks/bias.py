"""The variance of draws with chosen step sizes, over that of the posterior, direction by direction.

Each sampler chooses its step size and friction by itself, with `bias=0.05`. What it draws is
compared with the exact posterior of a Gaussian, or with long runs of Hamiltonian Monte Carlo on
all rows (TensorFlow Probability's, with its Metropolis step, so without bias).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

import sgmcmc

from .race import say

CONTROLLED = {"gradient": "control_variates"}
SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    **{k: (k, {}) for k in ("sgld", "sghmc", "sgnht", "baoab", "sgldcv", "sghmccv", "sgnhtcv")},
    "baoab, control variates": ("baoab", CONTROLLED),
    "psgld": ("psgld", {}),
    "sgbarker": ("sgbarker", {}),
    "sgld, independent minibatches": ("sgld", {"minibatches": "independent"}),
}
CHAINS = 16
ROWS = 500  # the most in a minibatch, which has 1 % of them
EFFECTIVE = 100  # draws of a chain in the slowest direction that is asked for, if there is time
TOLD = 0.1  # directions with fewer effective draws than this share of the median are left out
SECONDS, SEEDS = 60.0, 10  # of a sampler on a posterior


class Problem(NamedTuple):
    """A model with its data, and how to evaluate its log posterior at many points at once."""

    log_lik: Callable
    dataset: dict[str, np.ndarray]
    params: dict[str, Any]
    log_prior: Callable | None
    is_gaussian: bool = False


class Posterior(NamedTuple):
    """White coordinates z of parameters θ = centre + matrix z, and the variances of z."""

    centre: np.ndarray
    matrix: np.ndarray
    variance: np.ndarray


def problems(quick: bool) -> dict[str, Problem]:
    """The posteriors, by name."""
    few = 2000 if quick else None
    found = {
        "Gaussian, condition number 10⁴, N = 10³": gaussian(1000),
        "Gaussian, condition number 10⁴, N = 10⁶": gaussian(10**6 if not quick else 2000),
        "Poisson regression, N = 10⁴": poisson(few or 10_000),
        "Student-t regression, N = 10⁴": student(few or 10_000),
        "logistic regression, a9a": logistic("a9a", few),
        "logistic regression, cover types": logistic("covertype", few or 100_000),
    }
    return dict(list(found.items())[:1]) if quick else found


def gaussian(N: int, p: int = 10, condition: float = 1e4) -> Problem:
    """A regression with known noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, p)) * np.geomspace(1, condition**-0.5, p)
    X = X @ np.linalg.qr(rng.normal(size=(p, p)))[0]
    y = X @ rng.normal(size=p) + rng.normal(size=N)

    def log_lik(params: dict, data: dict) -> tf.Tensor:
        return -tf.reduce_sum((data["y"] - tf.linalg.matvec(data["X"], params["beta"])) ** 2) / 2

    return Problem(log_lik, {"X": X, "y": y}, {"beta": np.zeros(p)}, None, True)


def poisson(N: int, p: int = 10) -> Problem:
    """Counts, with an intercept and columns that go together."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(N), rng.normal(size=(N, p - 1)) @ rng.normal(size=(p - 1, p - 1))])
    X[:, 1:] /= X[:, 1:].std(axis=0)
    y = rng.poisson(np.exp(X @ np.r_[0.5, rng.normal(size=p - 1) / p]))

    def log_lik(params: dict, data: dict) -> tf.Tensor:
        eta = tf.linalg.matvec(data["X"], params["beta"])
        return tf.reduce_sum(data["y"] * eta - tf.exp(eta))

    return Problem(log_lik, {"X": X, "y": y.astype(float)}, {"beta": np.zeros(p)}, normal)


def student(N: int, p: int = 10) -> Problem:
    """A regression whose errors have heavy tails, with their scale unknown."""
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(N), rng.normal(size=(N, p - 1)) * np.geomspace(0.01, 10, p - 1)])
    y = X @ (rng.normal(size=p) / np.r_[1, np.geomspace(0.01, 10, p - 1)]) + rng.standard_t(4, N)

    def log_lik(params: dict, data: dict) -> tf.Tensor:
        error = data["y"] - tf.linalg.matvec(data["X"], params["beta"])
        scaled = (error / tf.exp(params["log_sigma"])) ** 2
        rows = tf.cast(tf.shape(error)[0], error.dtype)
        return -2.5 * tf.reduce_sum(tf.math.log1p(scaled / 4)) - rows * params["log_sigma"]

    return Problem(log_lik, {"X": X, "y": y}, {"beta": np.zeros(p), "log_sigma": 0.0}, normal)


def logistic(name: str, rows: int | None) -> Problem:
    """Real data, with an intercept."""
    data = sgmcmc.get_dataset(name)
    data = data.get("train", data)
    X, y = data["X"], data["y"]
    if rows is not None:
        some = np.random.default_rng(3).choice(len(y), rows, replace=False)
        X, y = X[some], y[some]
    X = np.column_stack([X, np.ones(len(y), X.dtype)])

    def log_lik(params: dict, data: dict) -> tf.Tensor:
        eta = tf.linalg.matvec(data["X"], params["beta"])
        return tf.reduce_sum(data["y"] * eta - tf.nn.softplus(eta))

    return Problem(log_lik, {"X": X, "y": y}, {"beta": np.zeros(X.shape[1])}, normal)


def normal(params: dict) -> tf.Tensor:
    """Independent N(0, 1)."""
    return -tf.add_n([tf.reduce_sum(x**2) for x in params.values()]) / 2


def reference(problem: Problem, draws: int, seed: int = 0) -> Posterior:
    """The variance in white coordinates at the mode: exact, or by Hamiltonian Monte Carlo."""
    made = sgmcmc.sgldcv_setup(
        *(problem.log_lik, problem.dataset, problem.params, 0.1),
        log_prior=problem.log_prior,
        precondition="hessian",
        dtype="float64",
        seed=seed,
        verbose=False,
    )
    affine = made.engine.model.chart.affine
    centre, matrix = np.asarray(affine.centre), np.asarray(affine.matrix)
    made.feeder.close()
    if problem.is_gaussian:
        X = problem.dataset["X"]
        covariance = np.linalg.inv(X.T @ X)
        exact = np.linalg.solve(matrix, np.linalg.solve(matrix, covariance).T).T
        mean = covariance @ X.T @ problem.dataset["y"]
        return Posterior(mean, matrix, np.diag(exact))
    rows = {k: tf.constant(np.asarray(v, float)) for k, v in problem.dataset.items()}
    sizes = [np.size(x) for x in problem.params.values()]
    shapes = [np.shape(x) for x in problem.params.values()]

    def log_posterior(z: tf.Tensor, data: dict) -> tf.Tensor:
        parts = tf.split(centre + tf.linalg.matvec(matrix, z), sizes)
        params = {k: tf.reshape(x, s) for k, x, s in zip(problem.params, parts, shapes)}
        return problem.log_lik(params, data) + problem.log_prior(params)

    p = len(centre)
    chains, length = 32, 3 if p < 50 else 5

    @tf.function(jit_compile=True)
    def run(z: tf.Tensor, data: dict, seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        kernel = tfp.mcmc.HamiltonianMonteCarlo(
            lambda z: tf.vectorized_map(lambda one: log_posterior(one, data), z),
            1.0 / p**0.25,
            length,
        )

        def step(_: tf.Tensor, state: tuple) -> tuple:
            z, results, total, square, accepted, key = state
            key, now = tf.unstack(tfp.random.split_seed(key, 2))
            z, results = kernel.one_step(z, results, seed=now)
            more = tf.reduce_mean(tf.cast(results.is_accepted, tf.float64))
            return _ + 1, (z, results, total + z, square + z**2, accepted + more, key)

        zeros = tf.zeros_like(z)
        start = z, kernel.bootstrap_results(z), zeros, zeros, tf.zeros((), tf.float64), seed
        _, (z, _, total, square, accepted, _) = tf.while_loop(
            lambda i, _: i < 100, step, (tf.constant(0), start)
        )
        return z, total, square, accepted / 100

    z = tf.constant(np.random.default_rng(seed).normal(size=(chains, p)))
    parts = []
    for k in range(2 + -(-draws // (100 * chains))):
        z, total, square, accepted = run(z, rows, tf.constant([seed, k]))
        if k >= 2:
            parts.append((total.numpy().mean(0) / 100, square.numpy().mean(0) / 100))
    mean, square = np.mean(parts, axis=0)
    error = np.std([s for _, s in parts], axis=0, ddof=1) / np.sqrt(len(parts))
    say(f"  HMC: accepted {float(accepted):.2f}, error of a variance {error.mean():.4f}")
    return Posterior(centre + matrix @ mean, matrix, square - mean**2)


def measured(problem: Problem, truth: Posterior, name: str, seeds: int, seconds: float) -> dict:
    """The variance of draws over the posterior's, by direction, of some seeds together."""
    kind, options = SAMPLERS[name]
    sampler = getattr(sgmcmc, f"{kind}_setup")
    squares, share, tuning, took = [], [], {}, 0.0
    for seed in range(seeds):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sgmcmc.TuningWarning)
            warnings.simplefilter("ignore", sgmcmc.TrustWarning)
            made = sampler(
                *(problem.log_lik, problem.dataset, problem.params),
                log_prior=problem.log_prior,
                minibatch_size=min(len(next(iter(problem.dataset.values()))) // 100, ROWS),
                n_chains=CHAINS,
                seed=seed,
                verbose=False,
                **options,
            )
            tuning = made.settings["tuning"]
            sgmcmc.step(made, 1000)
            start = time.perf_counter()
            sgmcmc.step(made, 1000)
            each = (time.perf_counter() - start) / 1000
            slow = max(tuning["ess"][0], TOLD * tuning["ess"][1])
            # Draws set out from the mode, all too near to it, and thermostats have to adapt
            burn_in = int(1.5 / slow) + 5000 * ("sgnht" in name)
            n_iters = int(min(max(EFFECTIVE / slow, 10 * burn_in), seconds / seeds / each))
            if n_iters < 5 * burn_in:
                made.feeder.close()
                return {"effective draws a second": CHAINS * slow / each}
            sgmcmc.step(made, burn_in)
            thin = max(1, n_iters // 4000)
            draws = sgmcmc.run(made, n_iters // thin * thin, thin=thin, verbose=False)
        made.feeder.close()
        x = np.concatenate(
            [np.reshape(draws[k], (CHAINS, n_iters // thin, -1)) for k in sorted(problem.params)], 2
        )
        z = np.linalg.solve(
            truth.matrix, (x - truth.centre).reshape(-1, x.shape[2]).T.astype(float)
        )
        z = z.T.reshape(x.shape)
        squares.append((z**2).mean(axis=(0, 1)) / truth.variance)
        share.append(sgmcmc.Draws({"z": z}, {}, {"n_chains": CHAINS}).summary()["ess"])
        took += time.perf_counter() - began
    ess = np.sum(share, axis=0)
    ratio = np.mean(squares, axis=0)
    error = np.std(squares, axis=0, ddof=1) / np.sqrt(seeds)
    kept = ess > TOLD * np.median(ess)
    spread = np.var(ratio[kept], ddof=1) - np.mean(error[kept] ** 2)
    return {
        "effective draws a second": CHAINS * slow / each,
        "mean": float(np.average(ratio[kept], weights=ess[kept])),
        "low": float(ratio[kept].min()),
        "high": float(ratio[kept].max()),
        "error of one": float(np.median(error[kept])),
        "spread": float(np.sqrt(max(0.0, spread))),
        "kept": int(kept.sum()),
        "of": len(kept),
        "promised": tuning["inflation"],
        "seconds": took,
    }


def run(quick: bool) -> dict:
    """All samplers on all posteriors."""
    found: dict[str, dict] = {}
    for title, problem in problems(quick).items():
        say(f"bias: {title}")
        truth = reference(problem, 1000 if quick else 50_000)
        for name in ["sgld"] if quick else SAMPLERS:
            result = measured(problem, truth, name, *((2, 4.0) if quick else (SEEDS, SECONDS)))
            found[f"{title} | {name}"] = result
            say(f"  {name}: " + ", ".join(f"{k} {v}" for k, v in result.items()))
    return {"bias": found}
