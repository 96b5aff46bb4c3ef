"""The base class of samplers of probabilities, and of positive numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .. import checks, tree
from ..spaces.counts import Gamma, Simplex
from . import Dynamics, HasSpaces, Noise


class Counter(NamedTuple):
    """A function of (params, data, key) that draws the counts of some parameters."""

    label: str
    call: Callable
    names: tuple[str, ...] | None = None  # the parameters; None: all


@runtime_checkable
class MovesByCounts(HasSpaces, Protocol):
    """A dynamics that moves by counts, and perhaps has functions that draw them."""

    def counters(self) -> list[Counter]:
        """Return the user's functions that draw counts."""


@dataclass(frozen=True)
class Probabilities(Dynamics):
    """Base class of samplers whose target is a product of Dirichlet and Gamma densities.

    The estimate's gradient by the logarithms of the parameters is an estimate â of their shapes.
    """

    alpha: float | np.ndarray | dict = checks.required(
        checks.concentration,
        "Parameters α of the Dirichlet prior, or shapes of the Gamma prior of a `positive` "
        "parameter: a number, a vector along the last axis, an array like the parameter, or a dict "
        "of these by parameter.",
    )
    counts: Callable[[dict, dict, Any], dict] | None = checks.tunable(
        None,
        checks.optional_function,
        "A function of (params, data, key) that returns, by parameter, the counts of its "
        "categories, in place of those by differentiation. It is for models that draw their latent "
        "variables, as in the example of `SCIR`. The counts have the form of the parameter. They "
        "are sums over the rows of `data`; the sampler scales them to all rows and adds `alpha`. "
        "`key` is for the functions of `sgmcmc.random`, or a seed for those of "
        "`tf.random.stateless_*`, which are much slower when compiled. `log_lik` may then be None; "
        "no log posterior is recorded without it.",
    )
    positive: tuple[str, ...] = checks.tunable(
        (),
        checks.some_names,
        "Names of parameters that are not probabilities but positive numbers θ with Gamma(a, 1) "
        "posteriors, where a is α plus the counts. The sampler adds the −θ of that log density: "
        "leave it out of `log_lik`. For a posterior Gamma(a, r), take r times the parameter as θ.",
    )
    keep_log: bool = checks.tunable(
        False,
        checks.keep_log,
        "Also keep the logarithms of the draws, those of `omega` as `stats['log_omega']`. They are "
        "exact even if a probability is below the smallest number of `dtype`.",
    )

    def spaces(self, params: Any) -> Any:
        return {
            k: tree.map(Gamma if k in self.positive else Simplex, self.alpha[k])  # type: ignore[index]  # by parameter, once checked
            for k in params
        }

    def counters(self) -> list[Counter]:
        return [] if self.counts is None else [Counter("counts", self.counts)]

    def noise(self, x: Any) -> Noise:
        return Noise(key=True)

    def logarithms(self, x: Any) -> dict[str, Any]:
        """Return the logarithms of draws as a statistic, if they are to be kept."""
        if not self.keep_log:
            return {}
        return {"log": tree.map(lambda s, a: s.log_forward(a), self.spaces(x), x)}
