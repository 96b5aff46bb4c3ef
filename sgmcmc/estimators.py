"""What the data say: the log posterior and its gradient, estimated from a minibatch.

Parameters and minibatches have a leading axis, the chains; minibatches that all chains share have
one of length 1. The value is estimated along with the gradient, and by the same rule. Gradients by
probabilities and positive numbers are by their logarithms: expected counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import checks, tree
from .dynamics import LOGARITHMIC, Dynamics
from .minibatch import Batch, Source
from .programs import Programs, programs_of
from .random import folded

ROUNDING = 1e-4  # the part of all counts by which one may be below 0


class Evaluation(NamedTuple):
    """The logarithm of a density, and its gradient by parameter."""

    value: Any
    gradient: Any


@dataclass(frozen=True)
class Posterior:
    """The user's model: a sum over rows of data, and a prior that is known exactly.

    Where it is `keyed`, a key comes with the rows. Where it is `in_turn`, it is evaluated for one
    chain after the other.
    """

    data: Callable[..., Evaluation]
    prior: Callable[[Any], Evaluation] | None
    keyed: bool = False
    has_value: bool = True
    in_turn: bool = False
    programs: Programs = field(default_factory=Programs)

    def compiled_data(self, *arguments: Any) -> Evaluation:
        """`data`, traced once for each shape of its arguments."""
        return self.programs.traced("data", self.data, *arguments)(*arguments)

    def compiled_prior(self, params: Any) -> Evaluation:
        """`prior`, traced once."""
        return self.programs.traced("prior", self.prior, params)(params)


def posterior(
    log_lik: Callable | None,
    log_prior: Callable | None,
    dynamics: Dynamics | None = None,
    in_turn: bool = False,
) -> Posterior:
    """The model of this log likelihood and log prior, with gradients by autodiff.

    What is special of a sampler goes in with them: its own prior, counts by functions of the user.
    """
    dynamics = dynamics or Dynamics()
    programs = programs_of(log_lik, log_prior, type(dynamics), vars(dynamics), in_turn)
    data = differentiated(log_lik or (lambda params, rows: 0.0), dynamics)
    counters = [each.call for each in dynamics.functions() if each.counts]
    prior = None if log_prior is None else differentiated(log_prior, dynamics)
    prior = with_own(prior, dynamics)
    more = {"in_turn": in_turn, "programs": programs}
    if not counters:
        return Posterior(data, prior, **more)
    return Posterior(counted(data, counters), prior, True, log_lik is not None, **more)


def with_own(
    prior: Callable[[Any], Evaluation] | None, dynamics: Dynamics
) -> Callable[[Any], Evaluation] | None:
    """The user's prior, and with it that which is an argument of the sampler."""
    if type(dynamics).prior is Dynamics.prior:
        return prior

    def evaluate(params: Any) -> Evaluation:
        own = Evaluation(*dynamics.prior(tree.map(above_zero, params, dynamics.space(params))))
        return own if prior is None else tree.map(tf.add, prior(params), own)

    return evaluate


def differentiated(log_density: Callable, dynamics: Dynamics) -> Callable[..., Evaluation]:
    """A log density with its gradient; gradients of gathered rows add up to dense ones."""

    def evaluate(params: Any, *rows: Any) -> Evaluation:
        dtype, space = tree.leaves(params)[0].dtype, dynamics.space(params)
        params = tree.map(above_zero, params, space)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(params)
            value = tf.cast(log_density(*tree.copies(params, *rows)), dtype)
        gradient = tape.gradient(value, params, unconnected_gradients="zero")
        gradient = tree.map(tf.convert_to_tensor, gradient)
        return Evaluation(value, tree.map(by_logarithm, params, gradient, space))

    return evaluate


def above_zero(x: tf.Tensor, space: str) -> tf.Tensor:
    """Probabilities and positive numbers by which the likelihood can be divided."""
    if space not in LOGARITHMIC:
        return x
    x = tf.convert_to_tensor(x)
    return tf.maximum(x, np.finfo(x.dtype.as_numpy_dtype).tiny ** 0.8)


def tilted(x: tf.Tensor) -> tf.Tensor:
    """Other probabilities, all of them apart; or other numbers, where each stands alone."""
    if len(x.shape) == 0 or x.shape[-1] == 1:
        return 2 * x
    count = x.shape[-1]
    x = x + tf.cast(tf.linspace(0.5, 1.5, count), x.dtype) / count
    return x / tf.reduce_sum(x, axis=-1, keepdims=True)


def by_logarithm(x: tf.Tensor, gradient: tf.Tensor, space: str) -> tf.Tensor:
    """The gradient by log x, of probabilities and positive numbers: NaN where it is below 0."""
    if space not in LOGARITHMIC:
        return gradient
    counts = x * gradient
    rounding = ROUNDING * tf.reduce_sum(tf.abs(counts))
    return tf.where(counts < -rounding, tf.constant(np.nan, x.dtype), tf.maximum(counts, 0))


def counted(data: Callable[..., Evaluation], counters: list[Callable]) -> Callable[..., Evaluation]:
    """A model some of whose counts are drawn by functions of the user."""

    def evaluate(params: Any, rows: Any, key: tf.Tensor) -> Evaluation:
        value, gradient = data(params, rows)
        for i, counts in enumerate(counters):
            found = counts(*tree.copies(params, rows), folded(key, i))
            old = {name: gradient[name] for name in found}
            gradient = {**gradient, **tree.map(no_fewer_than_0, found, old)}
        return Evaluation(value, gradient)

    return evaluate


def no_fewer_than_0(counts: Any, like: tf.Tensor) -> tf.Tensor:
    """Counts in the type of `like`, NaN where they are negative."""
    counts = tf.cast(counts, like.dtype)
    return tf.where(counts < 0, tf.constant(np.nan, like.dtype), counts)


def on_rows(model: Posterior, theta: Any, batch: Batch) -> Evaluation:
    """The log likelihood of a minibatch for each chain; in turn, where it draws random numbers."""
    if not model.keyed:
        return each_chain(model.data, theta, batch.rows, in_turn=model.in_turn)
    return tree.each(model.data, theta, batch.rows, batch.key)


def each_chain(fn: Callable, theta: Any, *rows: Any, in_turn: bool = False) -> Any:
    """fn(params, rows), or fn(params), for each chain: for all at once, unless `in_turn`."""
    if tree.leaves(theta)[0].shape[0] == 1:
        first = tree.map(lambda x: tf.squeeze(x, 0), (theta, *rows))
        return tree.map(lambda x: tf.expand_dims(x, 0), fn(*first))
    if in_turn:
        return tree.each(fn, theta, *rows)
    if rows and tree.leaves(rows)[0].shape[0] == 1:
        shared = tree.map(lambda x: tf.squeeze(x, 0), rows)
        return tf.vectorized_map(lambda params: fn(params, *shared), theta, warn=False)
    return tf.vectorized_map(lambda each: fn(*each), (theta, *rows), warn=False)


def with_prior(model: Posterior, theta: Any, data: Evaluation) -> Evaluation:
    """The log posterior, from what is known of the log likelihood."""
    if model.prior is None:
        return data
    return tree.map(tf.add, data, each_chain(model.prior, theta, in_turn=model.in_turn))


def on_all_data(model: Posterior) -> Callable[[Any, Source], Evaluation]:
    """The log likelihood of a whole data set: compiled for a piece of it, summed in float64."""

    def evaluate(params: Any, source: Source) -> Evaluation:
        total = None
        for rows in source.pieces():
            try:
                part = model.compiled_data(params, rows)
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
    renews = False  # whether it looks at the data again, from where the chains stand
    every = None  # after how many iterations; None: at the start alone

    def check(self, N: int) -> None:
        """See whether it suits N rows."""

    def start(self, params: Any, find_mode: Callable) -> Any:
        """Where the chain sets out."""
        return params

    def init(self, model: Posterior, params: Any, source: Source) -> tuple:
        """What the estimator keeps: nothing."""
        return ()

    def estimate(self, model: Posterior, theta: Any, state: tuple, batch: Batch) -> Evaluation:
        """The log posterior and its gradient at theta."""
        data = on_rows(model, theta, batch)
        return with_prior(model, theta, tree.map(lambda x: batch.scale * x, data))


class Centre(NamedTuple):
    """A point near the mode, and the log likelihood of all data there."""

    params: Any
    full: Evaluation


@dataclass(frozen=True)
class ControlVariate(Gradient):
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
    search_mode: bool = checks.tunable(
        True,
        checks.boolean,
        "Search for the mode on all data. False: the centre is where stochastic gradient ascent by "
        "`opt_stepsize` ends, as in the R package.",
    )
    mode: dict | None = checks.tunable(
        None,
        checks.optional_like_params,
        "The point to centre on, in the form of `params`, where it is known. It should be near the "
        "mode: the draws are right for any, but the noisier the farther away it is.",
    )

    def check(self, N: int) -> None:
        if not (self.search_mode or self.mode is not None or self.opt_stepsize is not None):
            raise ValueError("search_mode=False needs opt_stepsize, for the ascent, or mode")

    def start(self, params: Any, find_mode: Callable) -> Any:
        """Where the chain sets out: the mode."""
        if self.mode is not None:
            return self.mode
        return find_mode(params, self.opt_stepsize, self.n_iters_opt, self.search_mode)

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

        both = each_chain(here_and_there, theta, batch.rows, in_turn=model.in_turn)
        here, there = tree.map(lambda x: batch.scale * x, both)
        value, gradient = tree.map(lambda c, x, y: c + (x - y), centre.full, here, there)
        error = tree.map(tf.subtract, centre.full.gradient, there.gradient)
        for t, c, e in zip(*map(tree.leaves, (theta, centre.params, error))):
            value += tf.reduce_sum((t - c) * e, axis=range(1, t.shape.rank))
        return with_prior(model, theta, Evaluation(value, gradient))
