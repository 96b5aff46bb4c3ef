"""What samplers of probabilities, and of positive numbers, have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from .. import checks, tree
from . import Dynamics, Keyed


@dataclass(frozen=True)
class Simplex(Dynamics):
    """A target that is a product of Dirichlet distributions, if the shapes â were exact."""

    keyed = True
    without = ("log_prior",)
    example = "stepsize=0.5, alpha=0.1"
    example_model = "categories"

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

    def advice(self, name: str) -> str:
        if self.counts:
            return "Most often counts is at fault: what it returned is negative or not finite there"
        return (
            "Most often log_lik is at fault: its counts ω ∂log_lik/∂ω are negative or not finite "
            "there. Write it in the probabilities as they are, not normalised again"
        )

    def space(self, params: Any) -> Any:
        return {
            k: tree.map(lambda _, k=k: "positive" if k in self.positive else "simplex", v)
            for k, v in params.items()
        }

    def prior(self, params: Any) -> tuple[Any, Any]:
        """Σ α log ω, the density of log ω, or Σ (α log θ − θ); and α, as −θ is the process's."""

        def density(x: tf.Tensor, alpha: Any, space: str) -> tf.Tensor:
            value = alpha * tf.math.log(x)
            return tf.reduce_sum(value - x if space == "positive" else value)

        each = tree.map(density, params, self.alpha, self.space(params))
        return tf.add_n(tree.leaves(each)), tree.map(tf.convert_to_tensor, self.alpha)

    def free(self, params: Any) -> Collection[str]:
        return params if self.counts else ()

    def functions(self) -> list[Keyed]:
        return [] if self.counts is None else [Keyed("counts", self.counts)]

    def placed(self, starts: Any, statistic: Any) -> Any:
        """θ whose shares are ω, and whose sum is about that of the posterior."""

        def place(x: np.ndarray, a: np.ndarray, space: str) -> np.ndarray:
            return x if space == "positive" else x * np.sum(a, -1, keepdims=True).astype(x.dtype)

        return tree.map(place, starts, statistic, self.space(starts))
