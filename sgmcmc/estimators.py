"""What the data say: the log posterior and its gradient, estimated from a minibatch.

Parameters and minibatches have a leading axis, the chains; minibatches that all chains share have
one of length 1. The value is estimated along with the gradient, and by the same rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import checks, tree
from .minibatch import Batch, Source


class Evaluation(NamedTuple):
    """The logarithm of a density, and its gradient by parameter."""

    value: Any
    gradient: Any


@dataclass(frozen=True)
class Posterior:
    """The user's model: a sum over rows of data, and a prior that is known exactly."""

    data: Callable[[Any, dict[str, tf.Tensor]], Evaluation]
    prior: Callable[[Any], Evaluation] | None

    @cached_property
    def compiled_data(self) -> Callable:
        """`data` as a TensorFlow function, traced once for each shape of its arguments."""
        return tf.function(self.data, autograph=False).get_concrete_function


def posterior(log_lik: Callable, log_prior: Callable | None) -> Posterior:
    """The model of this log likelihood and log prior, with gradients by autodiff."""
    return Posterior(
        differentiated(log_lik), None if log_prior is None else differentiated(log_prior)
    )


def differentiated(log_density: Callable) -> Callable[..., Evaluation]:
    """A log density with its gradient; gradients of gathered rows add up to dense ones."""

    def evaluate(params: Any, *rows: Any) -> Evaluation:
        dtype = tree.leaves(params)[0].dtype
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(params)
            value = tf.cast(log_density(*tree.copies(params, *rows)), dtype)
        gradient = tape.gradient(value, params, unconnected_gradients="zero")
        return Evaluation(value, tree.map(tf.convert_to_tensor, gradient))

    return evaluate


def each_chain(fn: Callable, theta: Any, *rows: Any) -> Any:
    """fn(params, rows), or fn(params), for each chain."""
    if tree.leaves(theta)[0].shape[0] == 1:
        first = tree.map(lambda x: tf.squeeze(x, 0), (theta, *rows))
        return tree.map(lambda x: tf.expand_dims(x, 0), fn(*first))
    if rows and tree.leaves(rows)[0].shape[0] == 1:
        shared = tree.map(lambda x: tf.squeeze(x, 0), rows)
        return tf.vectorized_map(lambda params: fn(params, *shared), theta, warn=False)
    return tf.vectorized_map(lambda each: fn(*each), (theta, *rows), warn=False)


def with_prior(model: Posterior, theta: Any, data: Evaluation) -> Evaluation:
    """The log posterior, from what is known of the log likelihood."""
    if model.prior is None:
        return data
    return tree.map(tf.add, data, each_chain(model.prior, theta))


def on_all_data(model: Posterior) -> Callable[[Any, Source], Evaluation]:
    """The log likelihood of a whole data set: compiled for a piece of it, summed in float64."""

    def evaluate(params: Any, source: Source) -> Evaluation:
        total = None
        for rows in source.pieces():
            try:
                part = model.compiled_data(params, rows)(params, rows)
            except tf.errors.OpError as error:
                raise ValueError(f"log_lik raised {checks.summary(error)}") from error
            part = tree.map(lambda x: x.numpy().astype(np.float64), part)
            total = part if total is None else tree.map(np.add, total, part)
        return total

    return evaluate


@dataclass(frozen=True)
class Gradient:
    """The gradient on the minibatch: ĝ(θ) = ∇log p(θ) + (N/n) Σ ∇log p(xᵢ|θ)."""

    suffix = ""  # of the name of a sampler that estimates so

    def start(self, params: Any, find_mode: Callable) -> Any:
        """Where the chain sets out."""
        return params

    def init(self, model: Posterior, params: Any, source: Source) -> tuple:
        """What the estimator keeps: nothing."""
        return ()

    def estimate(self, model: Posterior, theta: Any, state: tuple, batch: Batch) -> Evaluation:
        """The log posterior and its gradient at theta."""
        data = each_chain(model.data, theta, batch.rows)
        return with_prior(model, theta, tree.map(lambda x: batch.scale * x, data))


class Centre(NamedTuple):
    """A point near the mode, and the log likelihood of all data there."""

    params: Any
    full: Evaluation


@dataclass(frozen=True)
class ControlVariate:
    """The gradient relative to that at a point θ̂ near the mode, where it is known exactly.

    With g for the log likelihood's part of it, summed over all rows, and ĝ on the minibatch,

        ∇log p(θ) + g(θ̂) + ĝ(θ) − ĝ(θ̂),

    both estimates on the same rows, so that most of their noise cancels while θ is near θ̂. The
    chain starts at θ̂. The log posterior's value is estimated in the same way, to first order: with
    l for the log likelihood, l(θ̂) + l̂(θ) − l̂(θ̂) + (θ − θ̂)ᵀ(g(θ̂) − ĝ(θ̂)).

    Baker, Fearnhead, Fox and Nemeth (2019), Control variates for stochastic gradient MCMC,
    Statistics and Computing; Baker (2018), thesis, section 4.3.4, where (4.3.6) lost its hats.
    """

    suffix = " with control variates"

    opt_stepsize: float | None = checks.tunable(
        None,
        checks.optional_positive,
        "Step size of stochastic gradient ascent, `n_iters_opt` minibatches of it, before the mode "
        "is searched for on all data. Helps where one pass through the data is dear, or the log "
        "posterior is far from concave. None: not needed.",
        positional=True,
    )
    n_iters_opt: int = checks.tunable(
        10_000, checks.whole, "Limit on the iterations of the search for the mode."
    )
    mode: dict | None = checks.tunable(
        None,
        checks.optional_like_params,
        "The point to centre on, in the form of `params`, where it is known. It should be near the "
        "mode: the draws are right for any, but the noisier the farther away it is.",
    )

    def start(self, params: Any, find_mode: Callable) -> Any:
        """Where the chain sets out: the mode."""
        if self.mode is not None:
            return self.mode
        return find_mode(params, self.opt_stepsize, self.n_iters_opt)

    def init(self, model: Posterior, params: Any, source: Source) -> Centre:
        """What the estimator keeps: the log likelihood of all data at the mode."""
        dtype = tree.leaves(params)[0].dtype
        full = on_all_data(model)(params, source)
        return Centre(params, tree.map(lambda x: tf.constant(x, dtype), full))

    def estimate(self, model: Posterior, theta: Any, centre: Centre, batch: Batch) -> Evaluation:
        """The log posterior and its gradient at theta."""

        def here_and_there(params: Any, rows: Any) -> tuple[Evaluation, Evaluation]:
            here = model.data(params, rows)
            # One after the other: in parallel, XLA hands work that takes microseconds to threads.
            then = tree.map(lambda c, g: c + 0 * g, centre.params, here.gradient)
            return here, model.data(then, rows)

        both = each_chain(here_and_there, theta, batch.rows)
        here, there = tree.map(lambda x: batch.scale * x, both)
        value, gradient = tree.map(lambda c, x, y: c + (x - y), centre.full, here, there)
        error = tree.map(tf.subtract, centre.full.gradient, there.gradient)
        for t, c, e in zip(*map(tree.leaves, (theta, centre.params, error))):
            value += tf.reduce_sum((t - c) * e, axis=range(1, t.shape.rank))
        return with_prior(model, theta, Evaluation(value, gradient))
