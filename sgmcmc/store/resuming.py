"""A sampler where another one stopped, without a search for the mode or a pass over the data."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import checks
from ..assembly import assembled, model_in
from ..plan import Plan
from ..running import Part, Wish, stored
from ..sampler import Sampler, State
from ..spaces.affine import Affine
from . import identity, nests, record


def continued(plan: Plan, wish: Wish) -> tuple[Plan, Part | None]:
    """The run in `out` with which another one goes on, and the plan with its seed."""
    known = stored(wish)
    if known is None:
        return plan, None
    plan, run = checked(plan, known, wish.out), known["run"]
    for name in ("burn_in", "thin"):
        if run[name] != getattr(wish, name):
            raise ValueError(
                f"resume: {name} must be {run[name]}, as in the run that {str(wish.out)!r} has, "
                f"not {getattr(wish, name)}"
            )
    if run["origin"]:
        raise ValueError(
            f"resume: {str(wish.out)!r} was written step by step: go on with it by a *_setup with "
            "resume= and by run"
        )
    if known["iteration"] > wish.burn_in + wish.n_iters:
        raise ValueError(
            f"n_iters must be at least {known['iteration'] - wish.burn_in:,}, which is how many "
            f"{str(wish.out)!r} has, not {wish.n_iters:,}"
        )
    return plan, Part(0, run["base"], known)


def checked(plan: Plan, known: dict[str, Any], path: Path) -> Plan:
    """A plan that can go on with a run, with its seed."""
    if plan.is_any_seed:
        plan = plan._replace(seed=known["identity"]["seed"])
        plan.settings["seed"] = plan.seed
    identity.check(known["identity"], identity.identity_of(plan), str(path))
    return plan


def resumed(plan: Plan, path: Path, known: dict[str, Any]) -> Sampler:
    """Make the sampler of a plan, and put its chains where those of the store stand."""
    start, state = nests.load(path, known["start"]), State(*nests.load(path, known["state"]))
    return standing_at(plan, start, known["settings"], state)


def standing_at(
    plan: Plan, start: dict[str, Any], settings: dict[str, Any], state: State
) -> Sampler:
    """Make the sampler of a plan with chains in this state, by what was found at the start."""
    dynamics, schedule = plan.dynamics, plan.schedule
    if start["alpha"] is not None:
        dynamics = replace(dynamics, alpha=start["alpha"])  # type: ignore[type-var]
    if schedule is None:
        schedule = [h.numpy() for h in start["stepsizes"]]
    affine = None
    if start["affine"] is not None:
        names, *tensors = start["affine"]
        affine = Affine(tuple(names), *tensors)
    moving, given = state.chain
    x = {**dynamics.position(moving), **given}
    sampler = assembled(
        *(plan, model_in(plan, affine, dynamics), dynamics, schedule),
        {k: x[k] for k in plan.model.chart.spaces},
        settings["minibatch_size"],
        {**settings, "versions": plan.settings["versions"]},
        state.estimator,
    )
    sampler.place(state)
    return sampler


def from_checkpoint(plan: Plan, path: Any) -> Sampler:
    """Make the sampler of a plan where that of a store or of `Sampler.save` stands."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"resume must be the path of a folder, not {checks.described(path)}")
    known = record.read(Path(path))
    if known is None:
        raise ValueError(
            f"resume must be a folder that out= or Sampler.save has written, and {str(path)!r} has "
            "no record of sgmcmc"
        )
    return resumed(checked(plan, known, Path(path)), Path(path), known)
