"""Coordinates and step sizes by which the variance of the draws is right to a stated bias.

1. The curvature of the log posterior at its mode gives white coordinates, in which a Gaussian
   posterior has variance 1 in all directions.
2. The gradients of single rows give the variance of the gradient noise in each direction.
3. The stationary variance of a sampler is then known exactly, and so is the largest step size of
   each direction whose bias is small enough. Step sizes are folded into the coordinates: a step of
   size 1 is one of size ε in a direction that is stretched by √ε.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from .. import tree
from ..checks.coordinates import DENSE
from ..dynamics import Dynamics
from ..dynamics.psgld import PSGLD
from ..estimators import Estimator, Mode
from ..estimators.control_variate import ControlVariate
from ..minibatches import Strata
from ..model import Model
from ..source import Source
from ..spaces.affine import Affine, around
from .epochs import Epoch
from .laws import CHOICES, Choice, Directions
from .many import Many
from .near import Near

NOT_GAUSSIAN = 0.3  # a misfit above this makes the stated bias unreliable
ROUND = 1.1  # coordinates count as white if posterior variances are within this factor of 1
SLOW = 1 / 100  # a direction with so many times fewer effective draws than most is named


class TuningWarning(UserWarning):
    """Step sizes were chosen, but there is reason to doubt what they promise.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf, warnings
    >>> def log_lik(params, data):  # tells the sum of both alone
    ...     return -tf.reduce_sum((data["x"] - params["a"] - params["b"]) ** 2) / 2
    >>> dataset = {"x": np.linspace(-1, 3, 1000)}
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", sgmcmc.TuningWarning)  # rather stop than go on
    ...     try:
    ...         sgmcmc.sgldcv_setup(log_lik, dataset, {"a": 0.0, "b": 0.0}, verbose=False)
    ...     except sgmcmc.TuningWarning as warning:
    ...         print(str(warning).split(":")[0])
    the data and the prior do not tell a and b apart
    """


class Tuned(NamedTuple):
    """Coordinates, dynamics and step size, and what is to be expected of them.

    Without `stepsize`, it is the user's. It may be a list with one for each parameter.
    """

    affine: Affine | None
    dynamics: Dynamics
    stepsize: float | list[float] | None
    report: dict[str, Any]


class Tuner:
    """Coordinates around the mode, and the step sizes there for any size of minibatches.

    Without `bias`, step sizes are the user's.
    """

    shared = "all directions"

    def __init__(
        self,
        model: Model,
        source: Source,
        mode: Mode,
        dynamics: Dynamics,
        estimator: Estimator,
        precondition: Any,
        bias: float | None,
        rescale: bool,
        minibatches: str | Strata,
        seed: int,
    ) -> None:
        is_relative = isinstance(estimator, ControlVariate)
        self.near = near = self.look(model, source, mode, seed)
        self.N, self.mode, self.minibatches = source.N, mode, minibatches
        self.dynamics, self.bias = dynamics, bias
        self.rescale, self.L = rescale, self.matrix(precondition)
        self.is_dense, self.is_white = self.L.ndim == 2, False
        if self.is_dense:
            root = near.forth @ self.L
            precision = np.linalg.eigvalsh(root.T @ root)
            self.is_white = bool(np.abs(np.log(precision)).max() < np.log(ROUND))
            if rescale and not self.is_white:
                raise ValueError(
                    "rescale=True needs white coordinates, such as precondition='hessian': in "
                    f"those that are given, variances are {1 / precision[-1]:.2g} to "
                    f"{1 / precision[0]:.2g}"
                )
        self.misfit = near.misfit()
        self.sizes = [int(np.prod(leaf.shape)) for leaf in tree.leaves(near.curvature.like)]
        if bias is None:
            return
        if isinstance(near, Many):
            self.extremes = near.extremes(self.L, is_relative)
        else:
            L = self.L if self.is_dense else np.diag(near.sd)
            self.covariance = near.noise(L, is_relative, mode.probabilities)

    def look(self, model: Model, source: Source, mode: Mode, seed: int) -> Near:
        """Look at the log posterior near its mode."""
        return (Near if tree.size(mode.x) <= DENSE else Many)(model, source, mode, seed)

    def matrix(self, precondition: Any) -> np.ndarray:
        """The matrix L of coordinates w, in x = mode + Lw, or its diagonal."""
        near = self.near
        if precondition is None:
            return np.ones_like(near.sd)
        if not isinstance(precondition, str):
            return precondition
        if precondition == "diagonal":
            return near.sd
        if precondition == "fisher":
            near.curvature.twice = False
            return near.curvature.coordinates(near.theta, near.rows.parts).back
        return near.back

    def choose(self, n: int) -> tuple[Choice, Directions, np.ndarray]:
        """The steps for minibatches of n rows, and the directions in free coordinates."""
        scale, L = noise_scale(self.N, n), self.L
        if self.mode.probabilities is not None:  # rows are drawn with replacement
            scale = self.N * (self.N - 1) / n
        epoch = Epoch.of(self.minibatches, self.N, n, self.dynamics.inner_steps)
        if isinstance(self.near, Many):
            precision, noise, vectors = self.extremes
            each = len(self.sizes)  # any constants may go with any direction
            variance, precision = (np.tile(a, each) for a in (scale * noise / precision, precision))
            of = Directions(variance, precision, [len(noise)] * each, epoch)
            directions = np.tile(L[:, None] * vectors, each)
            return CHOICES[type(self.dynamics)](self.dynamics, of, self.bias), of, directions
        noise = scale * self.covariance
        if self.is_white:
            variance, rotation = np.linalg.eigh(noise)
            of = Directions(np.maximum(variance, 0), None, self.sizes, epoch)
            directions = L @ rotation
        else:
            if isinstance(self.dynamics, PSGLD):
                L = self.scales_of_psgld(np.diag(noise), self.dynamics.floor)
            L = L if self.is_dense else np.diag(L)
            root = self.near.forth @ L
            precision, rotation = np.linalg.eigh(root.T @ root)
            directions = L @ rotation
            stretch = rotation if self.is_dense else directions / self.near.sd[:, None]
            variance = np.einsum("ij,ik,kj->j", stretch, noise, stretch) / precision
            of = Directions(variance, precision, self.sizes, epoch)
        return CHOICES[type(self.dynamics)](self.dynamics, of, self.bias), of, directions

    def scales_of_psgld(self, noise: np.ndarray, floor: float) -> np.ndarray:
        """The roots of what pSGLD multiplies step sizes by, at the mode."""
        mean_square = (noise / self.near.sd**2 + self.near.sd**-2) / self.N**2
        return 1 / np.sqrt(floor + np.sqrt(mean_square))

    def tuned(self, n: int) -> Tuned:
        """Coordinates, dynamics and step size for minibatches of n rows."""
        report: dict[str, Any] = {"directions": len(self.L), "misfit": self.misfit}
        if self.bias is None:
            return Tuned(around(self.mode.x, self.L), self.dynamics, None, report)
        choice, of, directions = self.choose(n)
        report |= {
            "bias": self.bias,
            **{k: spread(x) for k, x in (("noise", of.noise), ("stepsize", choice.eps))},
            **{k: spread(x) for k, x in choice.law._asdict().items()},
            "slowest": self.near.named(directions[:, np.argmin(choice.law.ess)]),
        }
        slow = np.flatnonzero(choice.law.ess < SLOW * np.median(choice.law.ess))
        names = dict.fromkeys(k for j in slow for k in self.near.named(directions[:, j]))
        report["hardly told"] = list(names)
        if not self.is_white:
            return self.in_common(choice, float(choice.eps[0] / of.precision[0]), report)
        shrink = 1 / np.sqrt(choice.law.inflation) if self.rescale else ()
        chart = around(self.mode.x, directions * np.sqrt(choice.eps), shrink)
        report["steps"] = choice.eps.tolist()
        return Tuned(chart, choice.dynamics, 1.0, report)

    def in_common(self, choice: Choice, stepsize: float, report: dict[str, Any]) -> Tuned:
        """What is tuned where all directions have one step size in common."""
        is_chart = not isinstance(self.dynamics, PSGLD) and (self.L != 1).any()
        chart = around(self.mode.x, self.L) if is_chart else None
        return Tuned(chart, choice.dynamics, stepsize, report)

    @property
    def cure(self) -> str:
        """What to do where directions that share a step size are too different."""
        if len(self.L) <= DENSE:
            return "Take precondition='hessian'"
        return "Write the model in parameters that depend less on one another"

    def warn(self, report: dict[str, Any]) -> None:
        """Warn of what makes the stated bias doubtful, and of directions that take very long."""
        untold = self.near.untold()
        if untold:
            which = " and ".join(untold) if len(untold) < 3 else ", ".join(untold[:5])
            which += " apart" * (len(untold) > 1)
            warn(
                f"the data and the prior do not tell {which}: in a direction of theirs, the "
                "log posterior has no curvature at the mode, and a small one is taken instead. "
                "Leave out what is not used or is collinear with others, or give a prior"
            )
        if self.bias is None:
            return
        if report["misfit"] > NOT_GAUSSIAN:
            warn(
                f"the posterior is far from Gaussian (misfit {report['misfit']:.2g}, where "
                f"{NOT_GAUSSIAN} is much), so that bias={self.bias:g} is no bound: compare the "
                f"draws with those of bias={self.bias / 4:g}"
            )
        if report["hardly told"]:
            slowest, median, _ = report["ess"]
            named = ", ".join(report["hardly told"][:8])
            long = (
                f"an effective draw takes {1 / slowest:,.0f} iterations, where {1 / median:,.0f} "
                "do for most directions"
            )
            if self.is_white:
                warn(
                    f"few rows tell {named}: the gradient is so noisy there that {long}. Take "
                    "larger minibatches, a larger bias, or a prior that says more of them"
                )
            else:
                warn(
                    f"{self.shared} have one step size, for which the posterior is very wide "
                    f"along {named}: {long}. {self.cure}, or give a prior that says more of them"
                )


def warn(message: str) -> None:
    """Warn of doubts about step sizes, where the user called a sampler."""
    warnings.warn(message, TuningWarning, stacklevel=5)


def spread(x: np.ndarray) -> list[float]:
    """The smallest, the middle and the largest of some numbers."""
    return [float(x.min()), float(np.median(x)), float(x.max())]


def noise_scale(N: int, n: int) -> float:
    """The variance of a minibatch's estimate of a sum over rows, over that of single rows."""
    return N * (N - n) / n
