"""Schedules of step sizes and temperatures."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi

from . import checks


@dataclass(frozen=True)
class decay:  # noqa: N801 - called as a function
    """The schedule h (1 + k/τ)^(−κ) of iterations k = 0, 1, ..., for the argument `stepsize`.

    Parameters
    ----------
    h : float
        The first step size.
    tau : float
        After about this many iterations the step begins to shrink.
    kappa : float
        How fast it shrinks. Welling and Teh (2011) require 1/2 < κ ≤ 1.

    Examples
    --------
    >>> import sgmcmc
    >>> schedule = sgmcmc.decay(0.1, tau=1000, kappa=0.5)
    >>> schedule(0), round(schedule(3000), 3)
    (0.1, 0.05)
    """

    h: float
    tau: float
    kappa: float

    def __post_init__(self) -> None:
        checks.number("h", self.h, above=0)
        checks.number("tau", self.tau, above=0)
        checks.number("kappa", self.kappa, at_least=0)

    def __call__(self, k: int) -> float:
        return self.h * (1 + k / self.tau) ** -self.kappa


@dataclass(frozen=True)
class cyclical:  # noqa: N801 - called as a function
    """A schedule that starts again after every `cycle` iterations, for the argument `stepsize`.

    In iteration k = 0, 1, ... the step size is

        h/2 · [cos(π (k mod cycle)/cycle) + 1]

    A cycle begins with large steps, which lead from mode to mode, and ends with small ones, which
    sample the mode that was found. In the first part of a cycle, the share `exploration`, the chain
    can also climb without noise: pass `temperature` with the step size. Keep the draws from the
    ends of cycles.

    Zhang, Li, Zhang, Chen and Wilson (2020), Cyclical stochastic gradient MCMC for Bayesian deep
    learning, ICLR.

    Parameters
    ----------
    h : float
        The first step size of a cycle.
    cycle : int
        The number of iterations in a cycle.
    exploration : float
        The share of a cycle for which `temperature` is 0.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> schedule = sgmcmc.cyclical(1e-4, cycle=500, exploration=0.5)
    >>> schedule(0), round(schedule(250), 7), schedule.temperature(0), schedule.temperature(250)
    (0.0001, 5e-05, 0.0, 1.0)
    >>> def log_lik(params, data):  # modes at ±1
    ...     return -tf.reduce_sum((data["x"] - params["a"] ** 2) ** 2) / 2
    >>> draws = sgmcmc.sgld(
    ...     log_lik, {"x": np.ones(1000)}, {"a": 0.5}, schedule, temperature=schedule.temperature,
    ...     n_iters=2000, seed=1, verbose=False,
    ... )
    """

    h: float
    cycle: int
    exploration: float = 0.0

    def __post_init__(self) -> None:
        checks.number("h", self.h, above=0)
        checks.whole("cycle", self.cycle)
        checks.number("exploration", self.exploration, at_least=0, below=1)

    def __call__(self, k: int) -> float:
        return self.h / 2 * (cos(pi * (k % self.cycle) / self.cycle) + 1)

    def temperature(self, k: int) -> float:
        """Return 0 in the first part of a cycle, otherwise 1: for the argument `temperature`."""
        return float(k % self.cycle >= self.exploration * self.cycle)
