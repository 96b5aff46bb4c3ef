"""The search for the mode, on which control variates are centred."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from . import tree
from .curvature import NEAR, SADDLE, Coordinates, Curvature, flat, unflat
from .divergence import ChainDiverged
from .dynamics import Chain, Dynamics, Noise
from .estimators import Estimate, Mode
from .estimators.gradient import Gradient
from .minimise import Search, Task, descend, lbfgs, newton
from .model import Evaluation, Model
from .progress import Progress
from .sampler import assemble
from .source import Source
from .streams import SUBSET, stream, without_replacement

CLOSE = 0.01  # the search ends if the log posterior can rise by no more than this part of p/2
GROWTH, SUBSET_BYTES = 8, 64 << 20  # by how much subsets grow; the most bytes of one
ROUNDS = 4  # the most searches on all rows, each in new coordinates
REMEMBERED = 2  # the log likelihood is remembered at this many points
COARSE = 0.1  # rounding errors of more standard deviations than this hinder a search
NOISY = (
    "Control variates that are centred far from the mode are noisy: draws are too wide, or the "
    "chain diverges, unless the step size is very small"
)


class ModeNotFound(UserWarning):
    """The mode search stopped before it converged.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf, warnings
    >>> def log_lik(params, data):  # rises for ever: there is no mode
    ...     return params["slope"] * tf.reduce_sum(data["x"])
    >>> dataset = {"x": np.linspace(-1, 3, 1000)}
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", sgmcmc.ModeNotFound)  # rather stop than go on
    ...     try:
    ...         sgmcmc.sgldcv_setup(log_lik, dataset, {"slope": 0.0}, 1e-4, verbose=False)
    ...     except sgmcmc.ModeNotFound as warning:
    ...         print(str(warning).split(" after")[0])
    the search for the mode stopped
    """


@dataclass(frozen=True)
class Ascent(Dynamics):
    """Stochastic gradient ascent: θ ← θ + ε ĝ(θ)."""

    def noise(self, x: Any) -> Noise:
        return Noise()

    def update(self, chain: Chain, estimate: Estimate, noise: Noise, h: Any) -> Chain:
        return Chain(tree.map(lambda x, g, h: x + h * g, chain.x, estimate.gradient, h))


class MinusLogPosterior:
    """Minus the log posterior and its gradient, estimated from a part of the N rows.

    Its argument is one vector: the free coordinates of all parameters, laid end to end. It
    remembers the log likelihood at the last points, so that no pass over the data is repeated.
    """

    def __init__(self, model: Model, part: Source, N: int, like: Any) -> None:
        self.model, self.part, self.weight, self.like = model, part, N / part.N, like
        self.dtype = tree.leaves(like)[0].dtype
        self.seen: deque[tuple[bytes, Evaluation]] = deque(maxlen=REMEMBERED)

    def remembered(self, x: np.ndarray) -> Evaluation | None:
        """Return the log likelihood of these rows at x if it is remembered, else None."""
        return dict(self.seen).get(x.astype(self.dtype).tobytes())

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        with np.errstate(over="ignore"):
            data = self.remembered(x)
        point = unflat(x, self.like, self.dtype)
        if data is None:
            data = self.model.on_all(point, self.part)
            self.seen.append((flat(point).astype(self.dtype).tobytes(), data))
        value, slope = self.weight * data.value, self.weight * flat(data.gradient)
        if self.model.has_prior:
            prior = self.model.traced_prior(point)
            value, slope = value + float(prior.value), slope + flat(prior.gradient)
        return -value, -slope


def find_mode(
    model: Model,
    source: Source,
    n: int,
    seed: int,
    x: Any,
    opt_stepsize: Any,
    n_iters_opt: int,
    search: bool = True,
    verbose: bool | Callable = False,
    needed: str = "",
) -> Mode:
    """Find a point near the mode of the log posterior, in free coordinates.

    Stochastic gradient ascent comes first, if `opt_stepsize` is given. Without `search`, nothing
    comes after it. The search begins with Newton's method on a few rows, for which the start may be
    far away. Then comes L-BFGS, with exact gradients, on larger and larger subsets and at last on
    all rows, in coordinates in which the curvature is the same in all directions.

    The search ends when the log posterior can rise by no more than CLOSE · p/2. At a draw from the
    posterior it is about p/2 lower than at the mode, so the point is then within a tenth of a
    posterior standard deviation of the mode (within half of one if a prior has kinks). At the end,
    the curvature at the point tells how much it can still rise. If that is more than this, and the
    point is not at a kink, the search goes on. If it never ends in this way, there is a warning, or
    an error where the mode is `needed` by what is named there.
    """
    if opt_stepsize is not None:
        x = ascend(model, source, n, seed, x, opt_stepsize, n_iters_opt, verbose)
    if not search:
        return Mode(x, None)
    p, dtype = tree.size(x), tree.leaves(x)[0].dtype
    draws, close, eps = stream(seed, SUBSET), CLOSE * p / 2, float(np.finfo(dtype).eps)
    curvature, state = Curvature(model, source, x), Search(flat(x))
    of_all = MinusLogPosterior(model, source, source.N, x)

    def some(part: Source, count: int) -> Source:
        if count >= part.N:
            return part
        return part.subset(without_replacement(draws, part.N, count, 1)[0])

    with Progress(None, "mode", verbose) as progress:

        def stage(method: Any, part: Source, coordinates: Any) -> Search:
            objective = of_all
            if part is not source:
                objective = MinusLogPosterior(model, part, source.N, x)
            tolerance = close * source.N / part.N
            task = Task(objective, tolerance, n_iters_opt, eps, progress.update)
            return method(task, coordinates, state)

        def coordinates(part: Source) -> Coordinates:
            rows = curvature.for_all(some(part, curvature.enough))
            return curvature.coordinates(state.x, rows, state.slope)

        def is_at_kink(direction: np.ndarray) -> bool:
            """True if the log posterior falls again within a tenth of a standard deviation."""
            step = NEAR / np.sqrt(2 * state.gap) * direction  # Newton's has √(2 gap) of them
            return bool(of_all(state.x + step)[1] @ direction >= 0)

        if curvature.is_full:
            few = some(source, curvature.chunk)
            here = curvature.for_all(few)
            state = stage(newton, few, lambda x, g: curvature.coordinates(x, here, g))
        for m in subset_sizes(source, p):
            part = some(source, m)
            state = stage(lbfgs, part, coordinates(part))
        now = coordinates(source)
        for _ in range(ROUNDS):
            state = stage(lbfgs, source, now)
            now = coordinates(source)
            rows = source if curvature.is_full else some(source, curvature.enough_to_judge)
            known = curvature.descent(state.x, state.slope, now, rows)
            gap, direction = known or (state.gap, -state.slope)
            state = state._replace(gap=gap)
            is_mode = now.least > SADDLE and (gap <= close or is_at_kink(direction))
            if is_mode or state.iterations >= n_iters_opt:
                break
            state = stage(descend, source, direction)
    if not is_mode:
        where, cure = not_found(state, now, x, "give stepsize" if needed else "give mode=")
        if needed:
            raise ValueError(f"{needed} needs a mode of the log posterior, but {where}. {cure}")
        warnings.warn(f"{where}. {NOISY}. {cure}", ModeNotFound, stacklevel=2)
    found = tree.map(lambda a: a.numpy(), unflat(state.x, x, dtype))
    return Mode(found, of_all.remembered(state.x), now)


def not_found(state: Search, coordinates: Coordinates, params: Any, other: str) -> tuple[str, str]:
    """Return where a search stopped that did not end at a mode, and what to do."""
    p, eps = len(state.x), np.finfo(tree.leaves(params)[0].dtype).eps
    if coordinates.least <= SADDLE:
        where = "at a saddle point or in a tail, where the log posterior does not curve downwards"
    elif np.isfinite(state.gap):
        where = (
            f"where the log posterior could still rise by about {state.gap:.3g} (draws lie about "
            f"{p / 2:g} below the mode)"
        )
    else:
        where = "and how far the log posterior could still rise is not known"
    cure = (
        "Start from better params, raise n_iters_opt, rescale parameters or data that are far from "
        f"1, or {other}"
    )
    per_sd = np.linalg.norm(coordinates.forth, axis=0) if coordinates.forth.ndim == 2 else 0
    coarse = np.flatnonzero(eps * np.abs(state.x) * per_sd > COARSE)
    if len(coarse):
        ends = np.cumsum([x.size for x in tree.leaves(params)])
        name = tree.names(params)[np.searchsorted(ends, coarse[0], side="right")]
        cure = (
            f"Single precision hardly tells values of the parameter {name!r} apart that the data "
            "do: centre it, or pass dtype='float64'"
        )
    return f"the search for the mode stopped after {state.iterations} iterations, {where}", cure


def ascend(
    model: Model,
    source: Source,
    n: int,
    seed: int,
    x: Any,
    opt_stepsize: Any,
    n_iters: int,
    verbose: bool | Callable,
) -> Any:
    """Run stochastic gradient ascent, as a sampler with its own random numbers."""
    start, h = tree.map(lambda a: tf.constant(a[None]), x), tree.leaves(opt_stepsize)
    sampler = assemble(model, Gradient(), Ascent(), start, source, n, h, seed + 2**64)
    try:
        with Progress(n_iters, "ascent", verbose) as progress:
            sampler.run(n_iters, progress=progress)
    except ChainDiverged as error:
        raise ChainDiverged(
            f"the ascent to the mode diverged at iteration {error.iteration}: try a tenth of "
            f"opt_stepsize, or leave it out"
        ) from None
    finally:
        sampler.feeder.close()
    return tree.map(lambda a: a.numpy()[0], sampler.engine.position(sampler.state.chain))


def subset_sizes(source: Source, p: int) -> list[int]:
    """Return the sizes of the subsets on which the search begins, from small to large."""
    sizes, m = [], max(1000, 50 * p)
    while GROWTH * m <= source.N and m * source.row_bytes <= SUBSET_BYTES:
        sizes.append(m)
        m *= GROWTH
    return sizes
