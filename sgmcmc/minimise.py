"""Minimising a smooth function of many variables: Newton's method and L-BFGS, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .curvature import Coordinates, times

MEMORY = 20  # pairs of steps and gradient changes that L-BFGS remembers
WINDOW = 8  # L-BFGS may stop if it has gained little over this many iterations
FEW = 3  # Newton's method stops if it has gained little over this many iterations
TRIALS = 60  # the most points that one line search tries

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Task(NamedTuple):
    """A function to minimise, the tolerance, and the most iterations to take.

    `eps` is the relative rounding error of the function's values. `progress` is called with the
    number of iterations and minus the value.
    """

    objective: Objective
    tolerance: float
    limit: int
    eps: float
    progress: Callable[[int, float], None]


class Search(NamedTuple):
    """The state of a search.

    `gap` estimates by how much the function can still fall, and `slope` is its gradient at `x`.
    """

    x: np.ndarray
    gap: float = np.inf
    slope: np.ndarray | None = None
    iterations: int = 0


def newton(
    task: Task, coordinates: Callable[[np.ndarray, np.ndarray], Coordinates], state: Search
) -> Search:
    """Minimise by Newton's method, until little can still be gained, or little has been gained.

    Each step goes downhill in coordinates in which the curvature at the present point is the same
    in all directions, and has a line search. So the start may be wrong by orders of magnitude.
    """
    objective, tolerance, limit, eps, progress = task
    x, gap, _, iterations = state
    f, g = objective(x)
    values = [f]
    while g.any():
        back = coordinates(x, g).back
        slope = times(back.T, g)
        gap, direction = float(slope @ slope) / 2, -times(back, slope)
        fell = values[-1 - FEW] - f if len(values) > FEW else np.inf
        if gap < tolerance or fell < tolerance or iterations >= limit:
            break
        found = line_search(objective, x, f, g, direction, eps)
        if found is None:
            break
        step, f, g = found
        x = x + step
        values.append(f)
        iterations += 1
        progress(iterations, -f)
    return Search(x, gap, g, iterations)


def lbfgs(task: Task, coordinates: Coordinates, state: Search) -> Search:
    """Minimise by L-BFGS, until little can still be gained, and little has been gained recently.

    The estimate of what can still be gained is ½ gᵀH⁻¹g. But H only knows directions that were
    searched, and their curvature at that time. Therefore there is the second condition, and both
    must hold a second time after H was forgotten. If `back` is a matrix, in whose coordinates the
    curvature is the same in all directions, ½ gᵀg alone decides.

    Nocedal and Wright (2006), algorithm 7.4, with the bisecting weak Wolfe line search of Lewis and
    Overton (2013), which copes with the kinks of Laplace priors.
    """
    objective, tolerance, limit, eps, progress = task
    x, gap, iterations, back = state.x, np.inf, state.iterations, coordinates.back
    pairs: tuple = ()
    f, g = objective(x)
    values, forgot_at = [f], np.inf
    while True:
        if back.ndim == 2 and squared(times(back.T, g)) / 2 < tolerance:
            gap = squared(times(back.T, g)) / 2
            break
        if pairs or not g.any():
            gap = float(g @ two_loops(pairs, g, back)) / 2
        fell = values[-1 - WINDOW] - f if len(values) > WINDOW else np.inf
        settled = gap < tolerance and fell < tolerance
        if iterations >= limit or not g.any() or (settled and forgot_at - f < tolerance):
            break
        if settled:  # the remembered pairs may be wrong, if the curvature has changed
            pairs, values, forgot_at = (), [f], f
        found = line_search(objective, x, f, g, -two_loops(pairs, g, back), eps)
        if found is None and pairs:
            pairs = ()  # the pairs were out of date: begin again by steepest descent
            continue
        if found is None:
            break
        step, f, new_g = found
        x, change, g = x + step, new_g - g, new_g
        if step @ change > 0:
            pairs = (*pairs[1 - MEMORY :], (step, change))
        values.append(f)
        iterations += 1
        progress(iterations, -f)
    return Search(x, gap, g, iterations)


def descend(task: Task, direction: np.ndarray, state: Search) -> Search:
    """Take one step in this direction, if it leads downhill."""
    found = line_search(task.objective, state.x, *task.objective(state.x), direction, task.eps)
    if found is None:
        return state
    step, f, slope = found
    task.progress(state.iterations + 1, -f)
    return Search(state.x + step, state.gap, slope, state.iterations + 1)


def two_loops(pairs: tuple, g: np.ndarray, back: np.ndarray) -> np.ndarray:
    """Compute H⁻¹g by the two-loop recursion of L-BFGS, which begins with a multiple of BBᵀ."""
    q, weights = g.copy(), []
    for step, change in reversed(pairs):
        weights.append((step @ q) / (step @ change))
        q -= weights[-1] * change
    q = times(back, times(back.T, q))
    if pairs:
        step, change = pairs[-1]
        q *= (step @ change) / squared(times(back.T, change))
    for (step, change), weight in zip(pairs, reversed(weights)):
        q += (weight - (change @ q) / (step @ change)) * step
    return q


def squared(x: np.ndarray) -> float:
    """Return the squared length of a vector."""
    return float(x @ x)


def line_search(
    objective: Objective,
    x: np.ndarray,
    f: float,
    g: np.ndarray,
    direction: np.ndarray,
    eps: float,
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """Find a step that meets the weak Wolfe conditions, and the value and gradient after it.

    If two values differ by no more than rounding, the slopes decide (Hager and Zhang, 2005).
    Returns None if no such step is found.
    """
    slope, low, high, t = float(g @ direction), 0.0, np.inf, 1.0
    rounding = 10 * eps * abs(f)
    for _ in range(TRIALS):
        new_f, new_g = objective(x + t * direction)
        with np.errstate(invalid="ignore"):  # where the function is not finite
            new_slope = new_g @ direction
        lower = new_f <= f + 1e-4 * t * slope
        equal = new_f <= f + rounding and new_slope <= -0.8 * slope
        if not ((lower or equal) and np.isfinite([new_f, new_slope]).all()):
            high = t
        elif new_slope < 0.9 * slope:
            low = t
        else:
            return t * direction, new_f, new_g
        t = (low + high) / 2 if high < np.inf else 2 * t
    return None
