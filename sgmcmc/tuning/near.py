"""The log posterior near its mode: curvature, gradient noise, and how Gaussian it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks, tree
from ..checks.coordinates import DENSE
from ..curvature import NOT_DIFFERENTIABLE, SADDLE, Curvature, flat, in_pieces, unflat
from ..estimators import Mode
from ..model import Model
from ..source import Source
from ..streams import TUNING, stream
from .rows import chosen

DRAWS = 20  # points near the mode where the noise of control variates is looked at
DRAWS_FOR = 500  # parameters, for more of which there are fewer points
DIRECTIONS = 12  # in which the shape of the log posterior is looked at
NO_MODE = (
    "stepsize=None and precondition need a mode of the log posterior, but it {} where the search "
    "for the mode ended: it is a saddle point, or there is no mode, as in hierarchical models. "
    "Give stepsize and precondition=None"
)
CURVED_UP = "does not curve downwards"
UNTOLD = 1e-8  # a direction whose scaled curvature is below this is not told by the data


class Near:
    """What is known of the log posterior near its mode, from the rows that matter.

    `back` is the matrix of white coordinates w, in x = mode + back w: the curvature there is the
    same in all directions. `forth` is its inverse, and `sd` one over the root of the diagonal.
    `values` are curvatures in ascending order, in coordinates that are scaled by `sd`, and `axes`
    their directions.
    """

    directions = DIRECTIONS
    most = DENSE  # parameters whose matrix is computed; of more, its diagonal

    def __init__(self, model: Model, source: Source, mode: Mode, seed: int) -> None:
        self.rng, self.theta = stream(seed, TUNING), flat(mode.x)
        self.curvature = curvature = Curvature(model, source, mode.x, self.most)
        try:
            first = mode.coordinates
            if first is None:
                first = curvature.by_sample(self.theta, source, self.rng)
            self.rows = chosen(curvature, source, self.theta, first.back, self.rng)
        except NOT_DIFFERENTIABLE as error:
            raise ValueError(
                "stepsize=None and precondition need the log likelihood of single rows, but "
                f"log_lik cannot be evaluated so: {checks.summary(error)}. Give stepsize"
            ) from error
        now = curvature.coordinates(self.theta, self.rows.parts)
        if not now.least > SADDLE:
            raise ValueError(NO_MODE.format(CURVED_UP))
        self.back, self.forth, self.sd, self.kinks = now.back, now.forth, now.sd, now.kinks
        self.values, self.axes = now.values, now.back

    def point(self, x: np.ndarray) -> Any:
        """Free coordinates as a nest of tensors."""
        return unflat(x, self.curvature.like, self.curvature.dtype)

    def gradients(self, theta: np.ndarray, rows: Any) -> np.ndarray:
        """The gradients of single rows at a point, as an estimate of the gradient has them."""
        return self.curvature.gradients(self.point(theta), rows)

    def displaced(self, z: np.ndarray) -> np.ndarray:
        """A point in free coordinates, relative to the mode, at white coordinates z."""
        return self.back @ z

    def noise(
        self, L: np.ndarray, is_relative: bool, probabilities: np.ndarray | None = None
    ) -> np.ndarray:
        """The covariance of the gradients of single rows, in coordinates w with x = mode + Lw.

        With probabilities, that of gradients over N times these, for rows so drawn.

        Of control variates, gradients are relative to those at the mode, and their covariance is
        averaged over draws around it. Each draw sees all rows that count once, and a part of the
        sample of the others.
        """
        p, N = len(self.theta), self.rows.N
        count, covariance = 1, np.zeros((p, p))
        if is_relative:
            count = max(2, min(DRAWS, DRAWS * DRAWS_FOR // p))
        for k in range(count):
            square, total = np.zeros((p, p)), np.zeros(p)
            away = self.theta + self.displaced(self.rng.standard_normal(p))
            some, seen = self.rows.share(k, count), 0
            numbers = np.concatenate(some.index)
            for rows, weight in in_pieces(some.parts, p):
                g = self.gradients(self.theta, rows)
                if is_relative:
                    g = self.gradients(away, rows) - g
                g = g @ L
                index = numbers[seen : seen + len(g)]
                seen += len(g)
                each = np.full(len(g), weight)
                if probabilities is not None:  # where it is 0, the gradient is, too
                    often = N * probabilities[index]
                    each = np.divide(weight, often, out=np.zeros(len(g)), where=often > 0)
                square += (g * each[:, None]).T @ g
                total += weight * g.sum(axis=0)
            covariance += (square - np.outer(total, total) / N) / max(N - 1, 1) / count
        return covariance

    def misfit(self) -> float:
        """How far the log posterior is from a Gaussian's, √p standard deviations from the mode.

        That is where draws are. A Gaussian's has fallen by p/2 there, in all directions. The result
        is the root mean square of the difference over directions, divided by √p.
        """
        p, here = len(self.theta), self.point(self.theta)
        u = self.rng.standard_normal((self.directions, p))
        u *= np.sqrt(p) / np.linalg.norm(u, axis=1, keepdims=True)
        steps = np.array([self.displaced(z) for z in u])
        steps = np.concatenate([steps, -steps])
        points = [self.point(self.theta + step) for step in steps]
        change, slope = np.zeros(len(steps)), np.zeros(p)
        for rows, weight in in_pieces(self.rows.parts, p):
            before = self.curvature.values(here, rows)
            for i, point in enumerate(points):
                change[i] += weight * (self.curvature.values(point, rows) - before).sum()
            slope += weight * self.curvature.combined(here, np.ones(len(before)), rows)
        model = self.curvature.model
        if model.has_prior:
            prior = model.traced_prior(here)
            for i, point in enumerate(points):
                change[i] += float(model.traced_prior(point).value - prior.value)
            slope += flat(prior.gradient)
        off = change - steps @ slope + p / 2
        if not np.isfinite(off).all():
            raise ValueError(NO_MODE.format("is not finite a few standard deviations from"))
        return float(np.sqrt(np.mean(off**2) / p))

    def untold(self) -> list[str]:
        """The parameters of directions that neither the data nor the prior tell."""
        floor = max(UNTOLD, 10 * float(np.finfo(self.curvature.dtype).eps))
        found: list[str] = []
        for j in np.flatnonzero(self.values < floor):
            found += self.named(self.axes[:, j])
        return list(dict.fromkeys(found))

    def named(self, direction: np.ndarray, most: int = 3) -> list[str]:
        """The parameters that a direction is made of: those with the largest parts in it."""
        return largest_of(np.abs(direction) / self.sd, self.curvature.like, most)


def largest_of(part: np.ndarray, like: Any, most: int) -> list[str]:
    """The names of the numbers of a nest that have the largest parts in something."""
    order, names = np.argsort(-part)[:most], coordinate_names(like)
    return [names[i] for i in order if part[i] > part[order[0]] / 3]


def coordinate_names(x: Any) -> list[str]:
    """A name for each number of a nest, such as beta[3]."""
    found = []
    for path, leaf in zip(tree.names(x), tree.leaves(x)):
        found += [path + str(list(i)) * bool(leaf.shape) for i in np.ndindex(*leaf.shape)]
    return found
