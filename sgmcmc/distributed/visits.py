"""By how much visits of shards make the draws of plain chains wider."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..dynamics import Dynamics
from ..dynamics.baoab import BAOAB
from ..dynamics.psgld import PSGLD
from ..dynamics.sgbarker import SGBarker
from ..dynamics.sghmc import SGHMC, friction
from ..dynamics.sgld import SGLD
from ..dynamics.sgnht import SGNHT


def response(dynamics: Dynamics, chain: Any, h: Any) -> Any:
    """By what share of the posterior's variance noise of variance 1 in gradients makes draws wider.

    It is the heat of the noise over that which a step adds on purpose, such as ε²/4 over ε. For
    thermostats it is a bound. The result is a nest by parameter, or None if it is not known.
    """
    if isinstance(dynamics, (SGLD, SGBarker)):
        return tree.map(lambda h: h / 4, h)
    if isinstance(dynamics, PSGLD):
        return tree.map(lambda h, V: h / (4 * (dynamics.floor + np.sqrt(V[0]))), h, chain.V)
    if isinstance(dynamics, SGHMC):
        alpha = friction(dynamics.alpha)
        return tree.map(lambda h, alpha: dynamics.L * h / (2 * alpha), h, alpha)
    if isinstance(dynamics, BAOAB):
        alpha = friction(dynamics.alpha)
        return tree.map(lambda h, alpha: h * (2 - alpha) / (4 * alpha), h, alpha)
    if isinstance(dynamics, SGNHT):
        return tree.map(lambda h, a: h / (2 * a), h, dynamics.a)
    return None


def widening(gradients: np.ndarray, rows: np.ndarray, response: np.ndarray) -> float:
    """By what share of the posterior's variance visits of one iteration make draws wider, at most.

    On shard s with N_s of N rows, a chain sees the gradient (N/N_s) g_s in place of g = Σ g_s. The
    difference d_s stays for the R iterations of a round. So it acts like noise of gradients whose
    variance is R times its own, V = Σ (N_s/N) d_s d_sᵀ, and less if rounds are long. The share is
    that of the direction in which it is largest.
    """
    away = gradients * (rows.sum() / rows)[:, None] - gradients.sum(axis=0)
    away = away * np.sqrt(rows / rows.sum())[:, None] * np.sqrt(response)
    return float(np.linalg.norm(away, 2) ** 2)
