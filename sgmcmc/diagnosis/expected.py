"""What step size and gradient noise do to the variance of draws, if the posterior is Gaussian.

Curvature and noise are measured at the draws themselves: the curvature by the regression of scores
on draws, which is exact for a Gaussian, the noise by gradients from minibatches. So both are of
where the chain has been, and not of a mode far away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from .. import tree
from ..dynamics import Dynamics
from ..dynamics.baoab import BAOAB
from ..dynamics.sgbarker import SGBarker
from ..dynamics.sghmc import SGHMC
from ..dynamics.sghmc import friction as given_friction
from ..dynamics.sgld import SGLD
from ..dynamics.sgnht import SGNHT
from ..tuning.epochs import Epoch
from ..tuning.laws import friction, hamiltonian, langevin, second_order, taken_back
from .scores import Scores
from .width import DENSE

STABLE = 3.9  # a step times the curvature above which chains do not stay finite
LEAST = 1e-12


class Expected(NamedTuple):
    """By coordinate, the variance of draws over that of the posterior.

    `without_noise` is the same for exact gradients. `slowest` is the largest number of iterations
    in which a direction gives one effective draw. `taken_back` is the mean over directions of E xη,
    with the noise η of the gradient at x, in Langevin dynamics: 0 for independent minibatches.
    """

    inflation: np.ndarray
    without_noise: np.ndarray
    slowest: float
    taken_back: float


def expected(dynamics: Dynamics, scores: Scores, epoch: Epoch | None) -> Expected | None:
    """Predict the variance of the draws; None if that is not possible."""
    p = scores.x.shape[2]
    x, s = scores.x.reshape(-1, p), scores.exact.reshape(-1, p)
    law = law_of(dynamics, epoch)
    if law is None or scores.moved is None or scores.steps is None:
        return None
    if p > DENSE or len(x) < 5 * p:
        return None
    x, s = x - x.mean(axis=0), s - s.mean(axis=0)
    scale = np.maximum(x.std(axis=0), 1e-300)  # lest squares overflow
    x, s = x / scale, s * scale
    slope = np.linalg.lstsq(x, s, rcond=None)[0]
    precision = -(slope + slope.T) / 2
    matrix = np.diag(scores.matrix) if scores.matrix.ndim == 1 else scores.matrix
    matrix = matrix * np.sqrt(scores.steps) / scale[:, None]
    eps, rotation = np.linalg.eigh(matrix.T @ precision @ matrix)
    if eps[-1] <= 0:
        return None
    eps = np.maximum(eps, LEAST * eps[-1])
    error = scores.noise.reshape(-1, p) * np.sqrt(scores.steps) @ rotation
    noise = error.var(axis=0) / eps
    inflation, ess = by(law, eps, noise)
    without_noise, _ = by(law, eps, np.zeros_like(noise))
    share = (matrix @ rotation) ** 2 / eps
    share = share / share.sum(axis=1, keepdims=True)
    back = np.zeros(1) if epoch is None else taken_back(np.minimum(eps, STABLE), noise, epoch)
    slowest = float(1 / ess.min())
    return Expected(share @ inflation, share @ without_noise, slowest, float(back.mean()))


def by(law: Callable, eps: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inflation and effective draws; a very large inflation where the chain is not stable."""
    found = law(np.minimum(eps, STABLE), noise)
    is_stable = (eps < STABLE) & (found.inflation > 0)
    return np.where(is_stable, found.inflation, 1e3), np.maximum(found.ess, LEAST)


def law_of(dynamics: Dynamics, epoch: Epoch | None) -> Callable | None:
    """The law of a dynamics on a Gaussian, as a function of step sizes and noise."""
    if dynamics.needs_rows:
        return None  # how much noise is added differs from step to step
    if isinstance(dynamics, SGNHT) and dynamics.thermostat not in ("parameter", "all"):
        return None  # the friction is not the same in all directions
    if isinstance(dynamics, (SGLD, SGBarker)):
        return partial(langevin, epoch=epoch)
    if not isinstance(dynamics, (SGHMC, BAOAB, SGNHT)):
        return None
    constants = dynamics.a if isinstance(dynamics, SGNHT) else given_friction(dynamics.alpha)
    each = {float(a) for a in tree.leaves(constants)}
    if len(each) > 1 or getattr(dynamics, "resample_momentum", False):
        return None
    alpha = each.pop()

    def law(eps: np.ndarray, noise: np.ndarray) -> object:
        a = np.full(len(eps), alpha)
        if isinstance(dynamics, SGHMC):
            return hamiltonian(eps, noise, a, a, dynamics.L, epoch)
        if isinstance(dynamics, BAOAB):
            return second_order(eps, noise, a, epoch)
        return hamiltonian(eps, noise, np.full(len(eps), friction(eps, noise, a)), a, 1)

    return law
