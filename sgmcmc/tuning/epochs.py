"""The stationary variance where minibatches are taken in turn from a shuffled data set.

Gradient noise is then no longer independent from step to step. The noises of an epoch have the
correlation −n/(N − n), as those of a sample without replacement, so that nearly all of it is taken
back within the epoch; those of two epochs are independent. Within an epoch, the second moments of a
linear recursion follow a linear recursion of their own. Its fixed point is exact.

Shaw and Whalley (2025), Random reshuffling for stochastic gradient Langevin dynamics,
arXiv 2501.16055, prove that the bias becomes smaller; the variance here is for the minibatches of
`Reshuffled`, averaged over the positions in an epoch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..minibatches import Strata, in_turn


class Epoch(NamedTuple):
    """The number of minibatches in an epoch, and the correlation of their gradient noise."""

    batches: int
    correlation: float

    @property
    def sum_of_noise(self) -> float:
        """The variance of the sum of an epoch's noise, over that of independent noise."""
        return max(0.0, 1 + (self.batches - 1) * self.correlation)

    @classmethod
    def of(cls, kind: str | Strata, N: int, n: int, inner: int) -> Epoch | None:
        """That of minibatches of n of N rows; None if these are independent."""
        return cls(N // n, -n / (N - n)) if in_turn(kind, N, n, inner) else None


def in_epochs(
    A: np.ndarray,
    heat: np.ndarray,
    kick: np.ndarray,
    noise: np.ndarray,
    steps: int,
    epoch: Epoch,
) -> tuple[np.ndarray, np.ndarray]:
    """The variance of the first entry of s ← A s + N(0, heat) + kick η, after each `steps` steps.

    The second result is its covariance with the noise η of the next step, the mean of ρ σ² S.

    A has shape (directions, k, k). In an epoch that begins at step 0, let M be E s sᵀ after j
    steps, and S the sum of Aⁱ kick over i < j. With ρ for the correlation of η, and c for `kick`,

        M ← A M Aᵀ + heat + (1 − ρ) σ² c cᵀ + ρ σ² (A S cᵀ + c (A S)ᵀ + c cᵀ)
        S ← A S + c

    where the last term of M is how S Sᵀ grows. The state (M, S, 1) is linear, so that the map over
    many steps, and the sum over their states, come from few products of matrices.
    """
    directions, k = kick.shape
    size, rho = k * k + k + 1, epoch.correlation
    T = np.zeros((directions, size, size))
    of_M, of_S = slice(0, k * k), slice(k * k, k * k + k)
    T[:, of_M, of_M] = np.einsum("dij,dkl->dikjl", A, A).reshape(directions, k * k, k * k)
    cross = np.einsum("dij,dk->dikj", A, kick)  # A S cᵀ, as a linear map of S
    cross = cross + cross.transpose(0, 2, 1, 3)
    strength = noise[:, None, None]
    T[:, of_M, of_S] = rho * strength * cross.reshape(directions, k * k, k)
    outer = kick[:, :, None] * kick[:, None, :]
    T[:, of_M, -1] = (heat + strength * outer).reshape(directions, k * k)
    T[:, of_S, of_S], T[:, of_S, -1], T[:, -1, -1] = A, kick, 1
    seen = math.gcd(steps, epoch.batches)  # a draw may come after each of these many steps
    some, _ = powers(T, seen)
    whole, total = powers(some, epoch.batches // seen)
    M0 = np.linalg.solve(np.eye(k * k) - whole[:, of_M, of_M], whole[:, of_M, -1:])
    start = np.concatenate([M0, np.zeros((directions, k, 1)), np.ones((directions, 1, 1))], axis=1)
    mean = (total @ start)[:, :, 0] * seen / epoch.batches
    # After the last step of an epoch comes the first of another, with which nothing goes together.
    last = (whole @ start)[:, of_S.start, 0] * seen / epoch.batches
    return mean[:, 0], rho * noise * (mean[:, of_S.start] - last)


def powers(T: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Tᵐ and T + T² + ... + Tᵐ."""
    one = np.broadcast_to(np.eye(T.shape[-1]), T.shape)
    power, total = one, np.zeros_like(T)
    for bit in f"{m:b}":
        power, total = power @ power, total + power @ total
        if bit == "1":
            power = power @ T
            total = total + power
    return power, total
