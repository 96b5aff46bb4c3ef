"""Gradient estimates with control variates, centred on a point near the mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import checks, tree
from ..model import Batch, Evaluation, Model
from . import Data, Estimate, Estimator, Mode, posterior
from .rows import weighted
from .weights import row_probabilities


class Centre(NamedTuple):
    """A point near the mode, and the log likelihood of all data there.

    `weights` are those of all N rows, 1/(N pᵢ), or () if all rows are drawn alike.
    """

    x: Any
    full: Evaluation
    weights: Any = ()


def relative(model: Model, x: Any, centre: Any, batch: Batch, weights: Any = ()) -> Estimate:
    """Estimate the log posterior at x relative to that at a centre, where it is known.

    The centre has the point, `x`, and the log likelihood of all data there, `full`, with an axis of
    chains, of length 1 if they share it. Rows may have weights, (chains, rows).
    """
    # In free coordinates, so that a product with the matrix of white ones is made once, at the end
    free, at, there_at = model.behind(None), model.free(x), model.free(centre.x)

    def here_and_there(x: Any, rows: Any, centre: Any) -> tuple[Evaluation, Evaluation]:
        here = free.data(x, rows)
        # 0 * g: one after the other. In parallel, XLA hands microseconds of work to threads.
        then = tree.map(lambda c, g: c + 0 * g, centre, here.gradient)
        return here, free.data(then, rows)

    if isinstance(weights, tuple):
        both = free.each_chain(here_and_there, at, batch.rows, there_at)
    else:
        here = weighted(free, at, batch.rows, weights)
        then = tree.map(lambda c, g: c + 0 * g, there_at, here.gradient)
        both = here, weighted(free, then, batch.rows, weights)
    here, there = tree.map(lambda a: batch.scale * a, both)
    value, full = centre.full.value + (here.value - there.value), centre.full.gradient
    value += along(x, centre.x, full) - along(at, there_at, there.gradient)
    gradient = tree.map(tf.subtract, here.gradient, there.gradient)
    found = posterior(free, at, Evaluation(value, gradient), batch)
    return found._replace(gradient=tree.map(tf.add, full, model.of_free(x, found.gradient)))


def along(x: Any, centre: Any, gradient: Any) -> tf.Tensor:
    """Return by how much each chain's function changes from a centre to x, to first order."""
    each = zip(*map(tree.leaves, (x, centre, gradient)))
    return tf.add_n([tf.reduce_sum((a - c) * g, axis=range(1, a.shape.rank)) for a, c, g in each])


@dataclass(frozen=True)
class ControlVariate(Estimator):
    """Estimates the gradient relative to its exact value at a point θ̂ near the mode.

    With g for the gradient of the log likelihood of all rows, and ĝ for its estimate from a
    minibatch, the estimate is

        ∇log p(θ) + g(θ̂) + ĝ(θ) − ĝ(θ̂),

    where both ĝ are on the same rows, so that most of their noise cancels while θ is near θ̂. The
    chain starts at θ̂. The log posterior's value is estimated in the same way, to first order: with
    l for the log likelihood, l(θ̂) + l̂(θ) − l̂(θ̂) + (θ − θ̂)ᵀ(g(θ̂) − ĝ(θ̂)).

    With `row_probabilities` pᵢ, rows are drawn with replacement, and the rows S of a minibatch of
    size n have weights: ĝ(θ) − ĝ(θ̂) = (1/n) Σ_S (∇log p(xᵢ|θ) − ∇log p(xᵢ|θ̂))/pᵢ.

    The noise that is left depends on where the chain is. Minibatches that are taken in turn from
    shuffled rows, as by default, take part of it back: at the same bias there are up to 1.2 times
    the effective draws, where there are 6 times as many without control variates.

    Baker, Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC,
    Statistics and Computing; Baker (2018), thesis, section 4.3.4, where (4.3.6) lost its hats.

    Examples
    --------
    >>> import sgmcmc
    >>> gradient = sgmcmc.ControlVariate(opt_stepsize=1e-5)  # an argument of sgld and others
    """

    opt_stepsize: float | Callable | dict | None = checks.tunable(
        None,
        checks.optional_stepsize,
        "Step size, or a schedule of it, of stochastic gradient ascent on `n_iters_opt` "
        "minibatches, before the mode is searched for on all data. It helps if a pass through the "
        "data is expensive, or the log posterior is far from concave. None: no ascent.",
        positional=True,
        at_start=True,
    )
    n_iters_opt: int = checks.tunable(
        10_000, checks.whole, "Limit on the iterations of the search for the mode.", at_start=True
    )
    search_mode: bool = checks.tunable(
        True,
        checks.boolean,
        "Search for the mode on all data. False: the centre is the point where stochastic gradient "
        "ascent with `opt_stepsize` ends, as in the R package, and there is one pass over the data "
        "for the gradient there. The schedule `decay(1/m, tau=1, kappa=1)`, which is 1/(mk) in "
        "step k, then leads to within about √(N/(n k)) standard deviations of the mode, if the log "
        "posterior's curvature is everywhere at least m, and not much more (thesis, lemma 3.3.9).",
        at_start=True,
    )
    mode: dict | None = checks.tunable(
        None,
        checks.optional_like_params,
        "The point to centre on, in the form of `params`, if it is known. It should be near the "
        "mode: the draws are right for any point, but the noisier the farther away it is.",
        at_start=True,
    )

    row_probabilities: str | np.ndarray | None = checks.tunable(
        None,
        row_probabilities,
        "How probable rows are in minibatches, which are then drawn with replacement: an array "
        'with a number for each row; `"lipschitz"`, by the squared lengths of the rows of a linear '
        'predictor; or `"leverage"`, by how much the gradient of a row changes around the mode. '
        "It helps where few rows tell some of the parameters. None: all rows alike, without "
        "replacement.",
        at_start=True,
    )

    @property
    def needs_index(self) -> bool:  # type: ignore[override]  # read-only, as all fields are
        return self.row_probabilities is not None

    def check(self, N: int) -> None:
        p = self.row_probabilities
        if isinstance(p, np.ndarray) and len(p) != N:
            raise ValueError(
                f"row_probabilities must have a number for each of N = {N} rows, not {len(p)}"
            )
        if not (self.search_mode or self.mode is not None or self.opt_stepsize is not None):
            raise ValueError("search_mode=False needs opt_stepsize, for the ascent, or mode")

    def start(self, x: Any, find_mode: Callable[..., Mode]) -> Mode:
        """Return the mode. The field `mode` is in chart coordinates by now."""
        if self.mode is not None:
            return Mode(self.mode, None)
        return find_mode(x, self.opt_stepsize, self.n_iters_opt, self.search_mode)

    def init(self, model: Model, x: Any, data: Data, mode: Mode) -> Centre:
        """Return the mode, with the log likelihood of all data there."""
        centre = tree.map(tf.constant, mode.x)
        dtype = tree.leaves(centre)[0].dtype
        full = mode.full or model.on_all(centre, data.source)
        weights: Any = ()
        if mode.probabilities is not None:
            p = mode.probabilities
            weights = tf.constant(
                np.divide(1 / len(p), p, where=p > 0, out=np.zeros_like(p)), dtype
            )
        return Centre(centre, tree.map(lambda a: tf.constant(a, dtype), full), weights)

    def estimate(self, model: Model, x: Any, state: Centre, batch: Batch) -> tuple[Estimate, Any]:
        shared = tree.map(lambda a: a[None], state._replace(weights=()))
        weights: Any = ()
        if self.needs_index:
            weights = tf.gather(state.weights, batch.index)
            weights = tf.broadcast_to(weights, (tree.leaves(x)[0].shape[0], weights.shape[1]))
        return relative(model, x, shared, batch, weights), state


def probabilities_of(state: Any) -> np.ndarray | None:
    """Return the probabilities of rows that belong to the state of an estimator, if it has any.

    They come from the weights, which the state has in its own precision: so a chain that is
    resumed draws the same rows.
    """
    if not isinstance(state, Centre) or isinstance(state.weights, tuple):
        return None
    weights = state.weights.numpy().astype(np.float64)
    return np.divide(1 / len(weights), weights, where=weights > 0, out=np.zeros_like(weights))
