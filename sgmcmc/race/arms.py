"""The arms of a race, from the user's grid of arguments."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import tensorflow as tf

from .. import checks, tree
from ..describe import Row
from ..dynamics.geodesic import OnManifold
from ..dynamics.mixed import Mixed
from ..dynamics.probabilities import Probabilities
from ..dynamics.psgld import PSGLD
from ..dynamics.scir import SCIR
from ..dynamics.sgrld import SGRLD
from ..plan import Plan

GROUPS, GROUP_ROWS = 64, 4096  # rows, in groups, whose gradients give the default step sizes
RATIO = 2.0  # of a default step size and the next
LOWEST = 0.03  # of the smallest default step size, in units of v n/N


@dataclass(eq=False)
class Arm:
    """Some settings, the step size of each parameter among them, and how far they came."""

    settings: dict[str, Any]
    steps: list[float]
    rounds: int = 0
    score: float = np.nan
    iterations: int = 0
    diverged: int = -1


def choices(row: Row, grid: Any, params: Any) -> dict[str, list]:
    """Check the grid but for its step sizes, and return its values by argument."""
    own = {f.name: f for f in fields(row.dynamics)} if row.dynamics else {}  # type: ignore[arg-type]  # a dataclass
    if row.dynamics and issubclass(row.dynamics, (Probabilities, Mixed)):
        own = {}  # these define the model
    for name in ("manifold", "learning_rate"):  # the model, and another name of the step size
        own.pop(name, None)
    known = ["stepsize", "minibatch_size", *own]
    if not isinstance(grid, Mapping):
        raise TypeError(
            "grid must be a dict of lists, such as {'stepsize': [1e-5, 1e-4]}, "
            f"not {checks.described(grid)}"
        )
    found = {}
    for name, values in grid.items():
        if name not in known:
            raise ValueError(
                f"grid names {name!r}, which is not among {known}, the arguments of {row.name} "
                f"that can be tuned{checks.nearest(str(name), known)}"
            )
        if isinstance(values, (str, Mapping)) or not hasattr(values, "__len__"):
            raise TypeError(
                f"grid[{name!r}] must be a list of values, not {checks.described(values)}"
            )
        values = [v.item() if isinstance(v, np.generic) else v for v in values]
        if not values:
            raise ValueError(f"grid[{name!r}] must have at least one value, but is empty")
        for i, value in enumerate(values):
            label = f"grid[{name!r}][{i}]"
            if values.index(value) < i:
                raise ValueError(f"{label} is {value!r} a second time: give each value once")
            if name in own:
                own[name].metadata["check"](label, value, params)
            elif name == "minibatch_size":
                checks.number(label, value, above=0)
            elif not isinstance(value, Mapping):
                if callable(value):
                    raise TypeError(f"{label} must be a number or a dict of them, not a schedule")
                checks.number(label, value, above=0)
        found[name] = values
    return found


def combined(grid: Mapping[str, list]) -> list[dict[str, Any]]:
    """All combinations of the values of a grid."""
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())]


def steps_of(plan: Plan, stepsize: Any) -> list[float]:
    """Return the step size of each parameter that moves."""
    moved = {k: x for k, x in plan.params.items() if k not in plan.gibbs}
    if isinstance(stepsize, Mapping):
        stepsize = {k: h for k, h in stepsize.items() if k not in plan.gibbs}
    steps = tree.leaves(checks.stepsize(stepsize, moved))
    if any(map(callable, steps)):
        raise TypeError("grid['stepsize'] must have numbers or dicts of them, and no schedules")
    return steps


def default_steps(plan: Plan) -> list[float]:
    """Step sizes between one that is too small and one that is too large, by the gradients of rows.

    The variance of single rows' gradients at the start, times N, is about the curvature of the log
    posterior. Let v be one over the largest of them, n the rows of a minibatch. With steps above
    about 4v chains diverge, and the noise of gradients allows some v n/N if the parameters are
    independent, and less if they are not. The range is .03 v n/N to 2v; in white coordinates
    v is 1.
    """
    model, source, dynamics = plan.model, plan.source, plan.dynamics
    if isinstance(dynamics, SCIR):
        return geometric(0.02 * plan.n / source.N, 1.0)
    if isinstance(dynamics, (SGRLD, Mixed, OnManifold)) or any(tree.leaves(model.chart.has_counts)):
        raise ValueError(
            "grid must have 'stepsize' for this sampler, such as np.geomspace(1e-6, 1e-2, 9)"
        )
    if plan.precondition is not None:  # white coordinates, where the posterior's variance is 1
        return geometric(LOWEST * plan.n / source.N, 2.0)
    count = min(source.N, GROUP_ROWS)
    rng = np.random.default_rng(plan.seed)
    groups = np.array_split(rng.choice(source.N, count, replace=False), min(GROUPS, count))
    size = min(map(len, groups))
    x = tree.map(tf.constant, model.chart.inverse(plan.params))
    each = []
    for group in groups:
        rows = source.subset(np.sort(group[:size])).rows(0, size)
        gradient = model.traced_data(x, rows).gradient
        each.append(np.concatenate([np.ravel(g) for g in tree.leaves(gradient)]).astype(float))
    prior = np.concatenate([np.ravel(g) for g in tree.leaves(model.traced_prior(x).gradient)])
    variance = np.var(each, axis=0, ddof=min(1, len(each) - 1)) / size  # of one row's gradient
    curvature = source.N * variance
    if isinstance(dynamics, PSGLD):
        mean = np.mean(each, axis=0) / size + prior / source.N
        root = np.sqrt(variance / plan.n + mean**2)
        curvature = curvature / (dynamics.floor + root)
    if not (np.isfinite(curvature).all() and curvature.max() > 0):
        raise ValueError(
            "grid must have 'stepsize': the gradients of rows at params do not tell the scale of "
            "the parameters, as they are all alike or not finite"
        )
    v = 1 / curvature.max()
    return geometric(LOWEST * v * plan.n / source.N, 2 * v)


def geometric(low: float, high: float) -> list[float]:
    """Numbers from low to high, each RATIO times the one before or a little less."""
    count = 1 + int(np.ceil(np.log(high / low) / np.log(RATIO)))
    return [float(f"{h:.3g}") for h in np.geomspace(low, high, count)]
