"""The von Mises-Fisher distribution of directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from scipy.special import gammaln

SMALL = 0.01  # κ²/(ν + 1), below which the series of I_ν(κ) is used
TERMS = 5  # of that series


def von_mises_fisher_log_prob(x: Any, mean_direction: Any, concentration: Any) -> tf.Tensor:
    """Return the log density of the von Mises-Fisher distribution on the sphere.

    With mean direction μ and concentration κ ≥ 0, the density of x on the sphere of dimension d − 1
    is c(κ) exp(κ μᵀx), with respect to its area. Here
    c(κ) = κ^(d/2 − 1) / ((2π)^(d/2) I_{d/2 − 1}(κ)), and I is the modified Bessel function of the
    first kind. Orders and concentrations may be as large as 10⁵. The result can be differentiated
    by all three arguments, and compiled by XLA. As κμᵀx is written as κ − κ‖x − μ‖²/2, it is
    accurate in single precision, too, where κ is large. Gradients by x and μ are right along the
    sphere.

    Parameters
    ----------
    x : tensor (..., d)
        Vectors of length 1, d ≥ 2.
    mean_direction : tensor (..., d)
        Vectors μ of length 1.
    concentration : tensor (...)
        κ. At 0 the distribution is uniform.

    Returns
    -------
    tensor (...)
        Leading axes are broadcast, as in x[:, None] and mean_direction[None, :].

    Examples
    --------
    >>> import sgmcmc, tensorflow as tf
    >>> north, south = tf.constant([0.0, 0.0, 1.0]), tf.constant([0.0, 0.0, -1.0])
    >>> log_prob = sgmcmc.von_mises_fisher_log_prob(north, tf.stack([north, south]), 2.0)
    >>> log_prob.numpy().astype(float).round(3).tolist()
    [-1.126, -5.126]
    """
    x, mean = tf.convert_to_tensor(x), tf.convert_to_tensor(mean_direction)
    concentration = tf.convert_to_tensor(concentration, x.dtype)
    apart = tf.reduce_sum((x - mean) ** 2, axis=-1) / 2
    return log_normaliser(x.shape[-1], concentration) - concentration * apart


def log_normaliser(dimension: int, concentration: tf.Tensor) -> tf.Tensor:
    """Return log c(κ) + κ: the log density at the mean direction.

    For small κ, I_ν(κ) is (κ/2)^ν / Γ(ν + 1) times the first terms of a series in κ²/(ν + 1).
    """
    order, dtype = dimension / 2 - 1, concentration.dtype
    constant = tf.constant(-dimension / 2 * np.log(2 * np.pi), dtype)
    bound = tf.constant(np.sqrt(SMALL * (order + 1)), dtype)
    kappa = tf.maximum(concentration, bound)
    ratio = order * tf.math.log(kappa) - tfp.math.log_bessel_ive(tf.constant(order, dtype), kappa)
    term, total = tf.ones_like(kappa), tf.zeros_like(kappa)
    for k in range(1, TERMS):
        term *= tf.minimum(concentration, bound) ** 2 / (4 * k * (order + k))
        total += term
    series = tf.math.log1p(total)
    limit = tf.constant(order * np.log(2) + gammaln(order + 1), dtype)
    return constant + tf.where(concentration < bound, limit + concentration - series, ratio)
