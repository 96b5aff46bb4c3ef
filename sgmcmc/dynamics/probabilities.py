"""What samplers of probabilities, and of positive numbers, have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .. import checks, tree
from ..spaces.counts import Gamma, Simplex
from . import Dynamics, Noise


class Counter(NamedTuple):
    """A function of (params, data, key) that draws the counts of some parameters."""

    label: str
    call: Callable
    names: tuple[str, ...] | None = None  # the parameters; None: all


@runtime_checkable
class MovesByCounts(Protocol):
    """A dynamics that brings the spaces of its parameters, and perhaps their counts."""

    def spaces(self, params: Any) -> Any:
        """The space of each parameter that it moves by counts."""

    def counters(self) -> list[Counter]:
        """Functions of the user's that draw counts."""


@dataclass(frozen=True)
class Probabilities(Dynamics):
    """A target that is a product of Dirichlet and Gamma densities, if their shapes were exact.

    The estimate's gradient is by logarithms: it is an estimate â of these shapes.
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
        "categories in place of those by differentiation: for models that draw their latent "
        "variables, as in the example of `SCIR`. They have the form of the parameter and are sums "
        "over the rows of `data`, neither scaled to all rows nor with `alpha`: that is done here. "
        "`key` is for the functions of `sgmcmc.random`, or a seed for those of "
        "`tf.random.stateless_*`, much slower when compiled. `log_lik` may then be None, and no "
        "log posterior is recorded.",
    )
    positive: tuple[str, ...] = checks.tunable(
        (),
        checks.some_names,
        "Names of parameters that are not probabilities but positive numbers θ with Gamma(a, 1) "
        "posteriors, a being α and the counts. The −θ of that density is the sampler's own: leave "
        "it out of `log_lik`. For a posterior Gamma(a, r), take r times the parameter as θ.",
    )
    keep_log: bool = checks.tunable(
        False,
        checks.keep_log,
        "Keep the logarithms of the draws as well, those of `omega` as `stats['log_omega']`: they "
        "are exact where a probability is below the smallest number of `dtype`.",
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
        """The statistic of the logarithms of draws, where they are kept."""
        if not self.keep_log:
            return {}
        return {"log": tree.map(lambda s, a: s.log_forward(a), self.spaces(x), x)}
