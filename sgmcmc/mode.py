"""The search for the mode, on which control variates are centred."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import tree
from .dynamics import Chain, Dynamics
from .estimators import Gradient, Posterior, on_all_data
from .minibatch import SUBSET, Feeder, Source, stream, without_replacement
from .progress import Progress
from .sampler import ChainDiverged, Sampler

MEMORY = 20  # pairs of steps and gradient changes that L-BFGS remembers
CLOSE = 0.01  # the part of p/2, how far draws lie below the mode, that may still be gained
WINDOW = 8  # iterations over which nothing was gained
GROWTH, SUBSET_BYTES = 8, 64 << 20
FISHER_ROWS, FISHER_BYTES = 20_000, 64 << 20
FULL = 500  # parameters up to which their correlations are reckoned with


class ModeNotFound(UserWarning):
    """The search for the mode stopped before it was there.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf, warnings
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> dataset = {"x": np.linspace(-1, 3, 1000)}
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", sgmcmc.ModeNotFound)  # rather stop than go on
    ...     try:
    ...         sgmcmc.sgldcv_setup(
    ...             log_lik, dataset, {"mean": 50.0}, 1e-4, n_iters_opt=1, verbose=False
    ...         )
    ...     except sgmcmc.ModeNotFound as warning:
    ...         print(str(warning).split(",")[0])
    the search for the mode stopped after 1 iterations
    """


@dataclass(frozen=True)
class Ascent(Dynamics):
    """θ ← θ + ε ĝ(θ)."""

    def update(self, chain: Chain, gradient: Any, noise: tf.Tensor, h: Any) -> Chain:
        return Chain(tree.map(lambda t, g, h: t + h * g, chain.theta, gradient, h))


def find_mode(
    model: Posterior,
    source: Source,
    n: int,
    seed: int,
    params: Any,
    opt_stepsize: Any,
    n_iters_opt: int,
    verbose: bool = False,
) -> Any:
    """The parameters near the mode of the log posterior.

    L-BFGS with exact gradients, first on a random subset of rows and then on larger ones until all
    are used; what it learnt of the curvature goes along. Coordinates are those in which the Fisher
    information, or its diagonal where there are many parameters, is the identity; it is added up
    over the points where a stage begins, as at some of them it can vanish. It stops when the log
    posterior can rise by no more than CLOSE · p/2: the log posterior of a draw lies about p/2 below
    the mode's, so this is within a tenth of a posterior standard deviation (half of one where a
    prior has kinks).
    """
    if opt_stepsize is not None:
        params = ascend(model, source, n, seed, params, opt_stepsize, n_iters_opt, verbose)
    p, dtype = tree.size(params), tree.leaves(params)[0].dtype
    log_lik, rows, close = on_all_data(model), stream(seed, SUBSET), CLOSE * p / 2
    state, coordinates, seen = Search(flat(params)), Coordinates(np.ones(p), np.ones(p)), 0.0

    def prior_slope(theta: np.ndarray) -> np.ndarray:
        if model.prior is None:
            return np.zeros(p)
        return flat(model.prior(unflat(theta, params, dtype)).gradient)

    with Progress(n_iters_opt, "mode", verbose) as progress:
        for m in [*subset_sizes(source, p), source.N]:
            part = source
            if m < source.N:
                part = source.subset(without_replacement(rows, source.N, m, 1)[0])
            theta = times(coordinates.back, state.x)
            few = min(m, fisher_rows(p))
            some = part.subset(without_replacement(rows, m, few, 1)[0]) if few < m else part
            seen = seen + information(model, unflat(theta, params, dtype), some)
            new = round_coordinates(with_prior(source.N * seen, prior_slope, theta), few)
            state, coordinates = state.moved(coordinates, new), new

            def objective(x: np.ndarray, part: Source = part, back: np.ndarray = new.back) -> tuple:
                theta, weight = unflat(times(back, x), params, dtype), source.N / part.N
                data = log_lik(theta, part)
                value, slope = weight * data.value, weight * flat(data.gradient)
                if model.prior is not None:
                    prior = model.prior(theta)
                    value, slope = value + float(prior.value), slope + flat(prior.gradient)
                return -value, -times(back.T, slope)

            tolerance = close * source.N / m
            state = lbfgs(objective, state, tolerance, n_iters_opt, np.finfo(dtype).eps, progress)
    if state.gap > close:
        gap = f"about {state.gap:.3g}" if np.isfinite(state.gap) else "an unknown amount"
        warnings.warn(
            f"the search for the mode stopped after {state.iterations} iterations, where the log "
            f"posterior could still rise by {gap} (draws lie about {p / 2:g} below the mode). The "
            "draws are right all the same, but noisier: raise n_iters_opt, start from better "
            "params, or give mode=",
            ModeNotFound,
            stacklevel=2,
        )
    return tree.map(lambda x: x.numpy(), unflat(times(coordinates.back, state.x), params, dtype))


class Coordinates(NamedTuple):
    """x = forth · θ and θ = back · x: matrices, or their diagonals."""

    forth: np.ndarray
    back: np.ndarray


def times(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The product with a matrix, or with one that is given by its diagonal."""
    return matrix * x if matrix.ndim == 1 else matrix @ x


def round_coordinates(information: np.ndarray, count: int) -> Coordinates:
    """Those in which this matrix, or diagonal, is the identity.

    Directions in which it is 0, as none of `count` rows told it, are treated as if one of them had.
    """
    diagonal = information if information.ndim == 1 else np.diag(information)
    if not diagonal.any():
        return Coordinates(np.ones_like(diagonal), np.ones_like(diagonal))
    root = np.sqrt(np.where(diagonal > 0, diagonal, diagonal[diagonal > 0].min()))
    if information.ndim == 1:
        return Coordinates(root, 1 / root)
    correlation = information / np.outer(root, root) + np.eye(len(root)) / count
    forth = np.linalg.cholesky(correlation).T * root
    return Coordinates(forth, np.linalg.inv(forth))


def information(model: Posterior, params: Any, source: Source) -> np.ndarray:
    """The Fisher information of a row, or its diagonal, by the gradients of the rows of `source`.

    0 where gradients of single rows cannot be had.
    """
    rows = tree.map(lambda x: x[:, None], source.rows(0, source.N))
    each = tf.function(
        lambda params, rows: tf.vectorized_map(lambda row: model.data(params, row).gradient, rows),
        autograph=False,
    )
    p = tree.size(params)
    try:
        gradients = each.get_concrete_function(params, rows)(params, rows)
    except (ValueError, TypeError, tf.errors.OpError):  # the model does not take single rows
        return np.zeros(p)
    g = np.concatenate(
        [np.asarray(g, np.float64).reshape(source.N, -1) for g in tree.leaves(gradients)], axis=1
    )
    return g.T @ g / source.N if p <= FULL else np.mean(g**2, axis=0)


def with_prior(
    information: np.ndarray, prior_slope: Callable[[np.ndarray], np.ndarray], theta: np.ndarray
) -> np.ndarray:
    """The information, and on its diagonal that of the prior.

    That is by how much the prior's slope falls over a standard deviation to each side, all
    parameters at once. It makes a kink count as the Gaussian that is as wide.
    """
    diagonal = information if information.ndim == 1 else np.diag(information)
    if not diagonal.any():
        return information
    data = np.where(diagonal > 0, diagonal, diagonal[diagonal > 0].min())
    prior = np.zeros_like(data)
    for _ in range(10):  # from the width that the data leave to the prior's own
        sd = (data + prior) ** -0.5
        fall = (prior_slope(theta - sd) - prior_slope(theta + sd)) / (2 * sd)
        prior = np.clip(np.nan_to_num(fall, posinf=0, neginf=0), 0, None)
    return information + (prior if information.ndim == 1 else np.diag(prior))


def fisher_rows(p: int) -> int:
    """How many rows' gradients are looked at."""
    return int(np.clip(FISHER_BYTES // (8 * p), 1, FISHER_ROWS))


def ascend(
    model: Posterior,
    source: Source,
    n: int,
    seed: int,
    params: Any,
    opt_stepsize: Any,
    n_iters: int,
    verbose: bool,
) -> Any:
    """Stochastic gradient ascent, run as any sampler is, with random numbers of its own."""
    theta = tree.map(lambda x: tf.constant(x[None]), params)
    feeder = Feeder(source, n, Ascent(), theta, opt_stepsize, seed + 2**64, False)
    sampler = Sampler(model, Gradient(), (), Ascent(), theta, feeder, None)
    try:
        with Progress(n_iters, "ascent", verbose) as progress:
            sampler.run(n_iters, progress=progress)
    except ChainDiverged as error:
        raise ChainDiverged(
            f"the ascent to the mode diverged at iteration {error.iteration}: try a tenth of "
            f"opt_stepsize, or leave it out"
        ) from None
    finally:
        feeder.close()
    return tree.map(lambda v: v.numpy(), sampler.params)


def subset_sizes(source: Source, p: int) -> list[int]:
    """Growing numbers of rows, fewer than all, on which to begin."""
    sizes, m = [], max(1000, 50 * p)
    while GROWTH * m <= source.N and m * source.row_bytes <= SUBSET_BYTES:
        sizes.append(m)
        m *= GROWTH
    return sizes


class Search(NamedTuple):
    """Where a search stands: the point, the newest pairs of steps and gradient changes."""

    x: np.ndarray
    pairs: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    gap: float = np.inf
    iterations: int = 0

    def moved(self, old: Coordinates, new: Coordinates) -> Search:
        """The same in other coordinates."""

        def point(x: np.ndarray) -> np.ndarray:
            return times(new.forth, times(old.back, x))

        def slope(g: np.ndarray) -> np.ndarray:
            return times(new.back.T, times(old.forth.T, g))

        pairs = tuple((point(step), slope(change)) for step, change in self.pairs)
        return self._replace(x=point(self.x), pairs=pairs)


def lbfgs(
    objective: Callable[[np.ndarray], tuple[float, np.ndarray]],
    state: Search,
    tolerance: float,
    limit: int,
    eps: float,
    progress: Progress,
) -> Search:
    """Minimise by L-BFGS until little may be gained, and little was in the last iterations.

    What may be gained is ½ gᵀH⁻¹g, where H knows only the directions that were searched, as they
    were then: hence the second condition, and both must hold once more after H was forgotten.
    Nocedal and Wright (2006), algorithm 7.4, with the bisecting weak Wolfe line search of Lewis and
    Overton (2013), which copes with the kinks of Laplace priors. TFP's L-BFGS, called on an
    objective that is summed on the host, took 27 ms an iteration where the objective took 1.
    """
    x, pairs, gap, iterations = state
    f, g = objective(x)
    values, forgot_at = [f], np.inf
    while True:
        if pairs or not g.any():
            gap = float(g @ two_loops(pairs, g)) / 2
        fell = values[-1 - WINDOW] - f if len(values) > WINDOW else np.inf
        settled = gap < tolerance and fell < tolerance
        if iterations >= limit or not g.any() or (settled and forgot_at - f < tolerance):
            break
        if settled:  # what is remembered may be wrong where the curvature has changed
            pairs, values, forgot_at = (), [f], f
        direction = -two_loops(pairs, g)
        if not pairs:
            direction /= max(1.0, float(np.abs(g).sum()))
        found = line_search(objective, x, f, g, direction, eps)
        if found is None and pairs:
            pairs = ()  # a direction from stale pairs: begin anew, downhill
            continue
        if found is None:
            break
        step, f, new_g = found
        x, change, g = x + step, new_g - g, new_g
        if step @ change > 0:
            pairs = (*pairs[1 - MEMORY :], (step, change))
        values.append(f)
        iterations += 1
        progress.update(iterations, -f)
    return Search(x, pairs, gap, iterations)


def two_loops(pairs: tuple, g: np.ndarray) -> np.ndarray:
    """H⁻¹g by the L-BFGS two-loop recursion."""
    q, weights = g.copy(), []
    for step, change in reversed(pairs):
        weights.append((step @ q) / (step @ change))
        q -= weights[-1] * change
    if pairs:
        step, change = pairs[-1]
        q *= (step @ change) / (change @ change)
    for (step, change), weight in zip(pairs, reversed(weights)):
        q += (weight - (change @ q) / (step @ change)) * step
    return q


def line_search(
    objective: Callable, x: np.ndarray, f: float, g: np.ndarray, direction: np.ndarray, eps: float
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """The step, value and gradient at a point that meets the weak Wolfe conditions."""
    slope, low, high, t = float(g @ direction), 0.0, np.inf, 1.0
    rounding = eps * abs(f)
    for _ in range(40):
        new_f, new_g = objective(x + t * direction)
        if not new_f <= f + 1e-4 * t * slope + rounding:
            high = t
        elif new_g @ direction < 0.9 * slope:
            low = t
        else:
            return t * direction, new_f, new_g
        t = (low + high) / 2 if high < np.inf else 2 * t
    return None


def flat(nest: Any) -> np.ndarray:
    """A nest laid end to end, in float64."""
    return np.concatenate([np.asarray(x, np.float64).ravel() for x in tree.leaves(nest)])


def unflat(x: np.ndarray, like: Any, dtype: Any) -> Any:
    """Tensors in the form of `like`."""
    leaves = tree.leaves(like)
    parts = np.split(x.astype(dtype), np.cumsum([leaf.size for leaf in leaves])[:-1])
    shaped = [tf.constant(part.reshape(leaf.shape)) for part, leaf in zip(parts, leaves)]
    return tree.pack(like, shaped)
