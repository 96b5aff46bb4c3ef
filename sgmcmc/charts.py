"""The spaces in which parameters move: those of the dynamics, and those of `constrain`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .dynamics import Dynamics, HasSpaces
from .dynamics.mixed import Mixed
from .dynamics.probabilities import Counter, MovesByCounts
from .gibbs import Gibbs
from .spaces import Chart
from .spaces.constrained import spaces


def counters_of(dynamics: Dynamics) -> list[Counter]:
    """Return the user's functions that draw counts."""
    return dynamics.counters() if isinstance(dynamics, MovesByCounts) else []


def without_gibbs(dynamics: Dynamics) -> tuple[Dynamics, dict[str, Callable]]:
    """Split a dynamics into that of the moving parameters, and the functions of Gibbs steps."""
    if not isinstance(dynamics, Mixed):
        return dynamics, {}
    gibbs = {k: b.draw for k, b in dynamics.blocks.items() if isinstance(b, Gibbs)}
    return Mixed({k: b for k, b in dynamics.blocks.items() if k not in gibbs}), gibbs


def chart_of(constrain: Any, dynamics: Dynamics, params: Any) -> Chart:
    """Return the spaces of all parameters: those of the dynamics, and those of `constrain`."""
    moving, gibbs = without_gibbs(dynamics)
    own = moving.spaces(params) if isinstance(moving, HasSpaces) else {}
    given = spaces(constrain, params)
    for name in constrain or {}:
        if name in own:
            raise ValueError(
                f"constrain names {name!r}, which its sampler moves in a space of its own: leave "
                "it out of constrain"
            )
        if name in gibbs:
            raise ValueError(
                f"constrain names {name!r}, which a Gibbs step draws: what its function returns is "
                "taken as it is, so leave it out of constrain"
            )
    return Chart({k: own.get(k, given[k]) for k in params})
