"""Step sizes that shrink."""

from __future__ import annotations

from dataclasses import dataclass

from . import checks


@dataclass(frozen=True)
class decay:  # noqa: N801 - called as a function
    """The schedule h (1 + k/τ)^(−κ) of iterations k = 0, 1, ..., for the argument `stepsize`.

    Parameters
    ----------
    h : float
        The first step size.
    tau : float
        After about so many iterations the step begins to shrink.
    kappa : float
        How fast it shrinks. Welling and Teh (2011) want 1/2 < κ ≤ 1.

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
