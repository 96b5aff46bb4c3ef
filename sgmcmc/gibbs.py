"""Gibbs steps, which a user's function makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Gibbs:
    """Draw a parameter by a function of your own, given all others and the minibatch.

    This is a Gibbs step if the parameter's conditional distribution does not depend on the data, as
    for parameters of a prior. If it does, the function sees only a part of the rows.

    Parameters
    ----------
    draw : function of (params, data, key)
        Returns a draw of the parameter from its conditional distribution, in the parameter's shape.
        `data` has the rows of the minibatch, not scaled to all rows. `key` is for the functions of
        `sgmcmc.random`, or a seed for those of `tf.random.stateless_*`, which are much slower when
        compiled.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> def log_prior(params):
    ...     return -params["precision"] * tf.reduce_sum(params["mean"] ** 2) / 2
    >>> def draw(params, data, key):  # of a prior Gamma(1, 1), given 50 means
    ...     rate = 1 + tf.reduce_sum(params["mean"] ** 2) / 2
    ...     return sgmcmc.random.gammas(key, tf.constant(1 + 50 / 2)) / rate
    >>> rng = np.random.default_rng(1)
    >>> dataset = {"x": rng.normal(0, 3, 50) + rng.normal(size=(1000, 50))}
    >>> draws = sgmcmc.mixed(
    ...     log_lik, dataset, {"mean": np.zeros(50), "precision": 1.0}, 1e-4,
    ...     {"mean": sgmcmc.SGLD(), "precision": sgmcmc.Gibbs(draw)}, log_prior,
    ...     minibatch_size=100, n_iters=2000, burn_in=500, seed=1, verbose=False,
    ... )
    >>> bool(0.08 < draws["precision"].mean() < 0.2)
    True
    """

    draw: Callable[[dict, dict, Any], Any]
