"""Step sizes on manifolds, by the directions that are tangent at the mode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .. import tree
from ..curvature import Curvature
from ..estimators import Mode
from ..model import Model
from ..programs import Programs
from ..source import Source
from ..spaces import Chart
from ..spaces.manifolds import Manifold
from ..spaces.tangent import Tangent, directions
from . import Tuned, Tuner
from .laws import Choice
from .near import Near, largest_of


class NearOnManifold(Near):
    """What is known of the log posterior near its mode, in coordinates of the tangent space there.

    `basis` has the tangent directions of all parameters, laid end to end, as its columns.
    """

    def __init__(self, model: Model, source: Source, mode: Mode, seed: int) -> None:
        x = tree.map(np.asarray, mode.x)
        spaces = tree.map(
            lambda s, a: Tangent.at(s, a) if isinstance(s, Manifold) else s, model.chart.spaces, x
        )
        start = tree.map(
            lambda s, a: np.zeros(len(s.basis), a.dtype) if isinstance(s, Tangent) else a, spaces, x
        )
        each = tree.leaves(tree.map(directions, model.chart.spaces, x))
        self.basis = block_diagonal([b.reshape(len(b), -1).T for b in each])
        self.around = Curvature(model, source, x)
        inner = replace(model, chart=Chart(spaces), programs=Programs())
        super().__init__(inner, source, Mode(start, None), seed)

    def gradients(self, theta: np.ndarray, rows: Any) -> np.ndarray:
        """The tangent parts of gradients in the space around the manifold, as in a step."""
        x = tree.map(
            lambda s, w: s.near(w) if isinstance(s, Tangent) else w,
            self.curvature.model.chart.spaces,
            self.point(theta),
        )
        return self.around.gradients(x, rows) @ self.basis

    def named(self, direction: np.ndarray, most: int = 3) -> list[str]:
        return largest_of(np.abs(self.basis @ (direction / self.sd)), self.around.like, most)


class OnManifold(Tuner):
    """One step of time for each parameter, as its stiffest direction allows.

    There are no white coordinates on a manifold. L has a scale for each parameter here. Steps of
    time are √s times these, and s is chosen.
    """

    shared = "the directions of a parameter"

    @property
    def cure(self) -> str:
        return "Write the model with more parameters, each of fewer directions"

    def look(self, model: Model, source: Source, mode: Mode, seed: int) -> Near:
        return NearOnManifold(model, source, mode, seed)

    def matrix(self, precondition: Any) -> np.ndarray:
        """The scale of each direction: 1/√c, with the largest curvature c along its parameter."""
        curvature, begin, scales = self.near.forth.T @ self.near.forth, 0, []
        for w in tree.leaves(self.near.curvature.like):
            own = slice(begin, begin + w.size)
            scales.append(np.full(w.size, np.linalg.eigvalsh(curvature[own, own])[-1] ** -0.5))
            begin += w.size
        return np.concatenate(scales)

    def in_common(self, choice: Choice, stepsize: float, report: dict[str, Any]) -> Tuned:
        like = self.near.curvature.like
        ends = np.cumsum([w.size for w in tree.leaves(like)])
        steps = [float(np.sqrt(stepsize) * self.L[end - 1]) for end in ends]
        report["time steps"] = dict(zip(tree.names(like), steps))
        return Tuned(None, choice.dynamics, steps, report)


def block_diagonal(parts: list[np.ndarray]) -> np.ndarray:
    """One matrix of the blocks on its diagonal."""
    rows, columns = (np.cumsum([0, *sizes]) for sizes in zip(*(x.shape for x in parts)))
    whole = np.zeros((rows[-1], columns[-1]))
    for x, i, j in zip(parts, rows, columns):
        whole[i : i + len(x), j : j + x.shape[1]] = x
    return whole
