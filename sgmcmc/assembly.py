"""From a plan to a sampler: the mode, coordinates and step sizes, and where chains set out."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from . import tree
from .dynamics import Dynamics
from .dynamics.scir import SCIR
from .estimators import Data, Mode, weights
from .estimators.control_variate import ControlVariate
from .mode import find_mode
from .model import Evaluation, Model
from .plan import Plan, each_start, printable
from .programs import Programs
from .sampler import Sampler, assemble
from .spaces.affine import Affine, around
from .store.identity import identity_of
from .streams import RENEWAL, stream
from .tuning import Tuned, Tuner, counts
from .tuning.cost import cheapest, seconds_per_iteration
from .tuning.epochs import Epoch
from .tuning.report import line
from .tuning.tangent import OnManifold


def set_up(plan: Plan, n_iters: int | None = None) -> Sampler:
    """Find the mode and the step sizes if they are wanted, and make the sampler.

    If it is to show progress, it says what to expect of step sizes that it chose, in `n_iters`
    iterations.
    """
    mode, n, found = mode_of(plan), plan.n, None
    bias = plan.bias if plan.schedule is None else None
    if plan.needs_mode:
        kind = OnManifold if plan.model.chart.has_manifold else Tuner
        tuner = kind(
            *(plan.model, plan.source, mode, plan.dynamics, plan.estimator, plan.precondition),
            *(bias, plan.rescale, plan.minibatches, plan.seed),
        )
        if plan.is_auto:
            n = cheapest(tuner, lambda n: made(plan, mode, tuner.tuned(n), n), plan.source.N)
        found = tuner.tuned(n)
        tuner.warn(found.report)
    elif plan.schedule is None and isinstance(plan.dynamics, SCIR):
        epoch = Epoch.of(plan.minibatches, plan.source.N, n, plan.dynamics.inner_steps)
        arguments = plan.model, plan.source, n, mode.x, plan.dynamics, plan.bias, epoch
        found = counts.tuned(*arguments)
    sampler = made(plan, mode, found, n)
    if found is not None and plan.schedule is None and plan.verbose is True:
        seconds = None if plan.source.is_elsewhere else seconds_per_iteration(sampler)
        expected = line(found.report, n_iters, seconds)
        print(f"{sampler.settings['sampler']}: {expected}", file=sys.stderr)
    return sampler


def made(plan: Plan, mode: Mode, found: Tuned | None, n: int) -> Sampler:
    """Make the sampler with the coordinates and step sizes that were found, and chains at the mode.

    Minibatches have n rows.
    """
    model, dynamics, schedule, x = plan.model, plan.dynamics, plan.schedule, plan.starts
    settings, affine = {**plan.settings, "minibatch_size": n}, None
    if found is not None:
        affine, dynamics, settings["tuning"] = found.affine, found.dynamics, found.report
        settings |= printable({k: v for k, v in vars(dynamics).items() if k in settings})
    elif plan.precondition is not None:
        affine = around({k: mode.x[k] for k in plan.covered}, plan.precondition)
    if schedule is None:
        h = found.stepsize
        schedule = h if isinstance(h, list) else [h] * len(tree.leaves(mode.x))
    if x is None:
        x = tree.map(lambda a: np.repeat(a[None], plan.n_chains or 1, axis=0), mode.x)
    if plan.statistic is not None:
        x = each_start(lambda x: model.chart.place(x, plan.statistic), x)
    if "mode" in settings:
        settings["mode"] = printable(tree.map(np.asarray, model.chart.forward(mode.x)))
    if affine is not None:
        mode, x = in_front(affine, model, plan, mode), each_start(affine.inverse, x)
    x = tree.map(tf.constant, x)
    model = model_in(plan, affine, dynamics)
    data = Data(plan.source, n, stream(plan.seed, RENEWAL))
    state = plan.estimator.init(model, x, data, mode)
    return assembled(plan, model, dynamics, schedule, x, n, settings, state)


def model_in(plan: Plan, affine: Affine | None, dynamics: Dynamics) -> Model:
    """The model in the coordinates of a sampler, with its programs."""
    model = plan.model if affine is None else plan.model.behind(affine)
    return replace(model, programs=plan.programs(dynamics))


def assembled(
    plan: Plan,
    model: Model,
    dynamics: Dynamics,
    schedule: list[Any],
    x: Any,
    n: int,
    settings: dict[str, Any],
    estimator_state: Any,
) -> Sampler:
    """Put the parts of a sampler together, with chains at x."""
    sampler = assemble(
        *(model, plan.estimator, dynamics, x, plan.source, n, schedule, plan.seed),
        estimator_state=estimator_state,
        gibbs=plan.gibbs,
        temperature=plan.temperature,
        n_chains=plan.n_chains,
        minibatches=plan.minibatches,
        shared_minibatches=plan.shared_minibatches,
        settings=settings,
        jit=plan.jit,
        verbose=plan.verbose,
    )
    sampler.identity = partial(identity_of, plan)
    return sampler


def mode_of(plan: Plan) -> Mode:
    """The point from which chains set out: the mode, where the estimator or the plan needs it."""
    model, start = plan.model, plan.model.chart.inverse(plan.params)
    needed = "" if not plan.needs_mode else "stepsize=None"
    if plan.needs_mode and plan.schedule is not None:
        needed = f"precondition={plan.precondition!r}"
    chart, around = model.chart, model.chart.around()
    if chart.has_manifold:
        model = replace(model, chart=around, programs=Programs())

    parts = model, plan.source, plan.n, plan.seed

    def search(*arguments: Any) -> Mode:
        found = partial(find_mode, *parts, verbose=plan.verbose, needed=needed)(*arguments)
        if not chart.has_manifold:
            return found
        # The gradient around a manifold is not that of functions which go on around it otherwise
        return Mode(chart.inverse(around.forward(found.x)), None)

    if plan.needs_mode and not isinstance(plan.estimator, ControlVariate):
        return search(start, None, ControlVariate.n_iters_opt)
    wanted, source = plan.estimator.row_probabilities, plan.source
    known = None if wanted is None else weights.given(wanted, model, source, start)
    mode = plan.estimator.start(start, search)
    if isinstance(wanted, str) and known is None:
        known = weights.by_leverage(model, source, mode, plan.seed)
    return mode._replace(probabilities=known)


def in_front(affine: Affine, model: Model, plan: Plan, mode: Mode) -> Mode:
    """The mode in the coordinates of an affine map, with the gradient of all data where known."""
    full = mode.full
    if full is None and isinstance(plan.estimator, ControlVariate):
        full = model.on_all(tree.map(tf.constant, mode.x), plan.source)
    if full is not None:
        full = Evaluation(full.value, affine.pulled_back(full.gradient))
    return Mode(affine.inverse(mode.x), full, None, mode.probabilities)
