"""Estimates of the log posterior and its gradient from a minibatch: one file for each estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..model import Batch, Evaluation, Model
from ..source import Source


class Estimate(NamedTuple):
    """The log posterior and its gradient in chart coordinates, and the number N of all rows.

    `extra` is what else an estimator returns for a dynamics that uses it.

    Examples
    --------
    >>> import sgmcmc, tensorflow as tf
    >>> estimate = sgmcmc.Estimate(tf.constant([-3.0]), {"mean": tf.constant([0.5])}, 1000)
    >>> estimate.N
    1000
    """

    value: Any
    gradient: Any
    N: int
    extra: Any = ()


class Mode(NamedTuple):
    """A point near the mode, in chart coordinates, and the log likelihood of all data there.

    The log likelihood is None if it has not been evaluated. `coordinates` are those in which the
    curvature at the point is the same in all directions, or None. `probabilities` are those with
    which rows are to be drawn, or None if all are alike.
    """

    x: Any
    full: Evaluation | None
    coordinates: Any = None
    probabilities: np.ndarray | None = None


class Data(NamedTuple):
    """What an estimator may use between blocks: all rows, the minibatch size, random numbers."""

    source: Source
    n: int
    rng: np.random.Generator


class Estimator(ABC):
    """Base class of all gradient estimators. Only `estimate` is required.

    A subclass is a frozen dataclass, whose fields are its arguments. Its state is a nest of tensors
    that `init` returns; a leading axis of length 1 is shared by all chains. Pass an object of the
    class as `gradient`.

    Attributes
    ----------
    every : int or None
        The number of iterations between calls of `renew`. None: it is never called.
    carried : bool
        True if `estimate` changes the state. Otherwise only `renew` replaces it.
    needs_index : bool
        True if `estimate` needs the numbers of the rows in a minibatch, as `batch.index`.
    needs_key : bool
        True if `estimate` draws random numbers: `batch.key` has a key for each chain.
    row_probabilities : array, str or None
        How probable rows are in minibatches, as in `ControlVariate`. None: all are alike.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> class Clipped(sgmcmc.Estimator):
    ...     def estimate(self, model, x, state, batch):
    ...         data = tf.nest.map_structure(
    ...             lambda a: tf.clip_by_value(batch.scale * a, -1e3, 1e3), model.on_rows(x, batch)
    ...         )
    ...         n = batch.rows["x"].shape[1]
    ...         return sgmcmc.Estimate(*model.with_prior(x, data), round(n * batch.scale)), state
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> dataset = {"x": np.random.default_rng(1).normal(5, 1, 10_000)}
    >>> draws = sgmcmc.sgld(
    ...     log_lik, dataset, {"mean": 4.9}, 1e-5, gradient=Clipped(), n_iters=1000, seed=1,
    ...     verbose=False,
    ... )
    >>> abs(float(draws["mean"].mean()) - 5) < 0.05
    True
    """

    every: int | None = None
    carried: bool = False
    needs_index: bool = False
    needs_key: bool = False
    row_probabilities: Any = None

    def check(self, N: int) -> None:  # noqa: B027
        """Validate the settings against the number of rows."""

    def start(self, x: Any, find_mode: Callable[..., Mode]) -> Mode:
        """Return the point where all chains start, unless the user gave `starts`."""
        return Mode(x, None)

    def init(self, model: Model, x: Any, data: Data, mode: Mode) -> Any:
        """Return the initial state, with chains at x; `mode` is what `start` returned."""
        return ()

    @abstractmethod
    def estimate(self, model: Model, x: Any, state: Any, batch: Batch) -> tuple[Estimate, Any]:
        """Return the estimate from a minibatch at x, and the state after it."""

    def renew(self, model: Model, x: Any, state: Any, data: Data) -> Any:
        """Return a new state from the data, with chains at x."""
        return state


def posterior(model: Model, x: Any, data: Evaluation, batch: Batch, extra: Any = ()) -> Estimate:
    """Add the log prior to an estimate of the log likelihood."""
    n = next(iter(batch.rows.values())).shape[1]
    return Estimate(*model.with_prior(x, data), round(n * batch.scale), extra)
