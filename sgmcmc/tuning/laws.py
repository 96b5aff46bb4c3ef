"""What a sampler does on a Gaussian: the variance of its draws, and how many are effective.

In coordinates in which the posterior has variance 1, a sampler with step size ε is a linear
recursion. Its stationary variance and its autocorrelation are therefore exact, and so is the
largest step size that inflates the variance by no more than a given bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import tree
from ..dynamics import Dynamics
from ..dynamics.baoab import BAOAB
from ..dynamics.gsgnht import GSGNHT
from ..dynamics.psgld import PSGLD
from ..dynamics.sgbarker import SGBarker
from ..dynamics.sggmc import SGGMC
from ..dynamics.sghmc import SGHMC
from ..dynamics.sgld import SGLD
from ..dynamics.sgnht import SGNHT
from .epochs import Epoch, in_epochs

LARGEST = 0.25  # no step size is larger: the posterior may curve more elsewhere than at the mode
HALVINGS = 40
MARGIN = 0.8  # of the bias that is allowed, for thermostats: their law is that of an average
ALPHAS = 0.2, 0.3, 0.4  # frictions, of which the one with the most effective draws is taken


class Law(NamedTuple):
    """For each direction, variance over that of the posterior, and effective draws an iteration."""

    inflation: np.ndarray
    ess: np.ndarray


class Directions(NamedTuple):
    """Directions in which the posterior is a Gaussian, and what step sizes are possible there.

    `noise` is the variance of the gradient noise by direction where the posterior has variance 1.
    With `precision`, all directions have one step size in common, which counts there as the step
    size times the precision. `sizes` are the numbers of directions that go by each parameter's
    constants, in the order of parameters. `epoch` is None if minibatches are independent.
    """

    noise: np.ndarray
    precision: np.ndarray | None
    sizes: list[int]
    epoch: Epoch | None = None

    def spread(self, constants: Any) -> np.ndarray:
        """Constants by parameter, laid out by direction."""
        return np.repeat(np.array(tree.leaves(constants), float), self.sizes)

    @property
    def blocks(self) -> list[slice]:
        """The directions of each parameter."""
        ends = np.cumsum(self.sizes)
        return [slice(end - size, end) for size, end in zip(self.sizes, ends)]


class Choice(NamedTuple):
    """A dynamics with its constants, a step size for each direction, and what to expect."""

    dynamics: Dynamics
    eps: np.ndarray
    law: Law


def langevin(eps: np.ndarray, noise: np.ndarray, epoch: Epoch | None = None) -> Law:
    """θ ← θ + (ε/2)ĝ + N(0, ε), with gradient noise of variance `noise`."""
    A, heat = (1 - eps / 2)[:, None, None], eps[:, None, None]
    return stationary(A, heat, (eps / 2)[:, None], noise, 1, epoch)


def taken_back(eps: np.ndarray, noise: np.ndarray, epoch: Epoch) -> np.ndarray:
    """E θη in Langevin dynamics, with the noise η of the gradient at θ: what epochs take back."""
    A, heat = (1 - eps / 2)[:, None, None], eps[:, None, None]
    return in_epochs(A, heat, (eps / 2)[:, None], noise, 1, epoch)[1]


def hamiltonian(
    eps: np.ndarray,
    noise: np.ndarray,
    friction: np.ndarray,
    a: np.ndarray,
    steps: int,
    epoch: Epoch | None = None,
) -> Law:
    """ν ← (1 − α)ν + εĝ + N(0, 2aε), θ ← θ + ν, with `friction` α; a draw after each `steps`."""
    A = matrices([[1 - eps, 1 - friction], [-eps, 1 - friction]])
    heat = (2 * a * eps)[:, None, None] * np.ones((2, 2))
    return stationary(A, heat, np.stack([eps, eps], -1), noise, steps, epoch)


def second_order(
    eps: np.ndarray, noise: np.ndarray, alpha: np.ndarray, epoch: Epoch | None = None
) -> Law:
    """ν ← ν + εĝ, θ ← θ + ν/2, ν ← (1 − α)ν + N(0, α(2 − α)ε), θ ← θ + ν/2."""
    kick = np.stack([1 - alpha / 2, 1 - alpha], -1)
    A = matrices([[1 - kick[:, 0] * eps, kick[:, 0]], [-kick[:, 1] * eps, kick[:, 1]]])
    moved = np.array([0.5, 1])
    heat = (alpha * (2 - alpha) * eps)[:, None, None] * np.outer(moved, moved)
    return stationary(A, heat, eps[:, None] * kick, noise, 1, epoch)


def geodesic(
    eps: np.ndarray,
    noise: np.ndarray,
    lost: np.ndarray,
    added: float,
    steps: int,
    epoch: Epoch | None = None,
) -> Law:
    """θ ← θ + ν/2, ν ← dν, ν ← ν + εĝ + N(0, 2cε), ν ← dν, θ ← θ + ν/2, with d = exp(−lost/2).

    c is the share `added`. `steps` of these are an iteration.
    """
    d = np.exp(-lost / 2)
    A = matrices([[1 - d * eps / 2, (1 + d**2 - d * eps / 2) / 2], [-d * eps, d**2 - d * eps / 2]])
    kick = d[:, None] * np.array([0.5, 1])
    heat = (2 * added * eps)[:, None, None] * kick[:, :, None] * kick[:, None, :]
    return stationary(A, heat, eps[:, None] * kick, noise, steps, epoch)


def matrices(rows: list[list]) -> np.ndarray:
    """One matrix for each direction, from its entries."""
    return np.stack([np.stack(np.broadcast_arrays(*row), -1) for row in rows], -2)


def stationary(
    A: np.ndarray,
    heat: np.ndarray,
    kick: np.ndarray,
    noise: np.ndarray,
    steps: int,
    epoch: Epoch | None,
) -> Law:
    """The law of the first entry of state ← A state + N(0, heat) + kick η, after each `steps`.

    The gradient noise η has variance `noise`. It is independent from step to step, or that of
    minibatches that are taken in turn in an `epoch`.
    """
    kicked = noise[:, None, None] * kick[:, :, None] * kick[:, None, :]
    still, both = (of_white_noise(A, Q, steps) for Q in (heat, heat + kicked))
    if epoch is None:
        return Law(both.variance, np.minimum(1, both.variance / both.of_means))
    variance, _ = in_epochs(A, heat, kick, noise, steps, epoch)
    # The sum of an epoch's noise is next to nothing, and with it its share in means of draws.
    of_means = still.of_means + epoch.sum_of_noise * (both.of_means - still.of_means)
    return Law(variance, np.minimum(1, variance / of_means))


class White(NamedTuple):
    """The stationary variance, and the variance of means of draws times their number."""

    variance: np.ndarray
    of_means: np.ndarray


def of_white_noise(A: np.ndarray, Q: np.ndarray, steps: int) -> White:
    """The first entry of state ← A state + N(0, Q), seen after each `steps` steps."""
    directions, k = A.shape[:2]
    twice = np.einsum("dij,dkl->dikjl", A, A).reshape(directions, k * k, k * k)
    flat = np.linalg.solve(np.eye(k * k) - twice, Q.reshape(directions, k * k, 1))
    variance = flat.reshape(directions, k, k)
    power = np.linalg.matrix_power(A, steps)
    later = np.linalg.solve(np.eye(k) - power, power @ variance[:, :, :1])[:, 0, 0]  # all lags
    theta = variance[:, 0, 0]
    return White(theta, theta + 2 * later)


def largest(law: Callable[[np.ndarray], Law], of: Directions, bias: float) -> np.ndarray:
    """The largest step size of each direction that inflates the variance by at most `bias`."""
    low, high = np.full(len(of.noise), -60.0), np.full(len(of.noise), np.log(LARGEST))
    fits = law(np.exp(high)).inflation <= 1 + bias
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        good = law(np.exp(middle)).inflation <= 1 + bias
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    eps = np.where(fits, LARGEST, np.exp(low))
    return eps if of.precision is None else in_common(eps, of.precision)


def in_common(eps: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Step sizes by direction where all have one in common, which is the smallest."""
    return (eps / precision).min() * precision


def of_langevin(dynamics: SGLD | PSGLD | SGBarker, of: Directions, bias: float) -> Choice:
    """Steps of Langevin dynamics, which pSGLD resembles.

    Corrected Barker dynamics are less wide for the same step, but by an amount that depends on the
    distribution of the noise, which is far from normal where few rows tell a direction.
    """
    eps = largest(lambda eps: langevin(eps, of.noise, of.epoch), of, bias)
    return Choice(dynamics, eps, langevin(eps, of.noise, of.epoch))


def with_friction(
    dynamics: Any, of: Directions, bias: float, law: Callable[[np.ndarray, np.ndarray], Law]
) -> Choice:
    """Steps of a dynamics with friction `alpha`, which is chosen, too, where it is None."""
    given, choices = dynamics.alpha, []
    for alpha in ALPHAS if None in tree.leaves(given) else [given]:
        constants = tree.map(lambda _, alpha=alpha: alpha, given) if given is not alpha else given
        each = of.spread(constants)
        eps = largest(partial(law, each), of, bias)
        choices.append(Choice(replace(dynamics, alpha=constants), eps, law(each, eps)))
    return max(choices, key=lambda choice: choice.law.ess.min())


def of_sghmc(dynamics: SGHMC, of: Directions, bias: float) -> Choice:
    """Steps of SGHMC."""
    return with_friction(
        *(dynamics, of, bias),
        lambda alpha, eps: hamiltonian(eps, of.noise, alpha, alpha, dynamics.L, of.epoch),
    )


def of_sggmc(dynamics: SGGMC, of: Directions, bias: float) -> Choice:
    """Steps of SGGMC."""
    c, L = dynamics.rho, dynamics.L

    def law(eps: np.ndarray) -> Law:
        return geodesic(eps, of.noise, np.full_like(eps, c), c, L, of.epoch)

    eps = largest(law, of, bias)
    found = law(eps)
    if found.inflation.min() < 1 - bias:
        raise too_large("momentum", c, "momentum**2/24", bias)
    return Choice(dynamics, eps, found)


def of_baoab(dynamics: BAOAB, of: Directions, bias: float) -> Choice:
    """Steps of BAOAB."""
    return with_friction(
        *(dynamics, of, bias), lambda alpha, eps: second_order(eps, of.noise, alpha, of.epoch)
    )


def of_sgnht(dynamics: SGNHT, of: Directions, bias: float) -> Choice:
    """Steps of SGNHT."""
    a = of.spread(dynamics.a)

    def law(eps: np.ndarray, block: slice) -> Law:
        here = eps[block], of.noise[block]
        xi = np.full(len(here[0]), friction(*here, a[block]))
        return hamiltonian(*here, xi, a[block], 1)

    return with_thermostat(dynamics, of, bias, law, "a", float(a.max()), "a/2")


def of_gsgnht(dynamics: GSGNHT, of: Directions, bias: float) -> Choice:
    """Steps of gSGNHT."""
    c = dynamics.rho

    def law(eps: np.ndarray, block: slice) -> Law:
        here = eps[block], of.noise[block]

        def temperature(lost: float) -> float:
            d = np.exp(-lost / 2)
            heat = d**2 * (2 * c + here[0] * here[1])
            return np.mean(heat / ((1 - d**2) * (1 + d**2 - d * here[0] / 2)))

        lost = np.full(len(here[0]), balanced(temperature))
        return geodesic(*here, lost, c, dynamics.L)

    most = min(LARGEST, 2 * bias)  # a temperature of 1 makes draws narrower by ε/4
    return with_thermostat(dynamics, of, bias, law, "momentum", c, "momentum**2/8", most)


def with_thermostat(
    dynamics: Any,
    of: Directions,
    bias: float,
    law: Callable[[np.ndarray, slice], Law],
    name: str,
    constant: float,
    error: str,
    most: float = LARGEST,
) -> Choice:
    """Steps for which the noise in a step is alike in all directions that share a thermostat.

    A thermostat takes the same share of heat out of all directions of its parameter. Where their
    noise differs, they are too wide or too narrow, although the temperature is right on average.
    """
    for ratio in np.geomspace(1, 1e-6, 300):  # of the heat that noise brings in a step
        eps = np.minimum(most, ratio / np.maximum(of.noise, 1e-300))
        if of.precision is not None:
            eps = in_common(eps, of.precision)
        found = by_block(law, eps, of)
        if np.abs(found.inflation - 1).max() <= MARGIN * bias:
            return Choice(dynamics, eps, found)
    raise too_large(name, constant, error, bias)


def too_large(name: str, constant: float, error: str, bias: float) -> ValueError:
    """The error of a constant with which no step size keeps the bias."""
    return ValueError(
        f"bias={bias:g} cannot be kept with {name}={constant:g}: without any gradient noise, the "
        f"variance of draws is wrong by about {error}. Give a smaller {name}, or a larger bias"
    )


def by_block(law: Callable[[np.ndarray, slice], Law], eps: np.ndarray, of: Directions) -> Law:
    """The law of all directions, each parameter of which has a thermostat."""
    return Law(*map(np.concatenate, zip(*(law(eps, block) for block in of.blocks))))


def friction(eps: np.ndarray, noise: np.ndarray, a: np.ndarray) -> float:
    """The friction with which the mean temperature of some directions is 1, of SGNHT."""
    return balanced(lambda xi: np.mean(2 * (2 * a + eps * noise) / (xi * (4 - 2 * xi - eps))))


def balanced(temperature: Callable[[float], float]) -> float:
    """The friction with which a temperature, which falls with it, is 1."""
    low, high = 1e-9, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if temperature(middle) > 1 else (low, middle)
    return middle


CHOICES: dict[type[Dynamics], Callable[[Any, Directions, float], Choice]] = {
    SGLD: of_langevin,
    PSGLD: of_langevin,
    SGBarker: of_langevin,
    SGHMC: of_sghmc,
    BAOAB: of_baoab,
    SGNHT: of_sgnht,
    SGGMC: of_sggmc,
    GSGNHT: of_gsgnht,
}
