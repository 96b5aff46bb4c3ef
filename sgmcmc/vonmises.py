"""The von Mises-Fisher distribution of directions."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf
from numpy.polynomial import Polynomial


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

    With F_ν = I_ν(κ)/κ^ν, which is positive at κ = 0, too, and μ = ν + k of at least `LARGE`,

        log F_ν = log F_μ − Σ log q_{ν + i} over i = 1, ..., k,    q_ν = F_ν / F_{ν − 1},

    where F_{ν − 1} = 2ν F_ν + κ² F_{ν + 1} gives each q from the one above. The graph has no loop:
    XLA cannot compile the gradient of a loop that is run for many chains at once.
    """
    order = dimension / 2 - 1
    steps = max(0, math.ceil(LARGE - order))
    top = order + steps
    total = of_large_order(top, concentration)
    if steps:
        ratio = tf.exp(of_large_order(top + 1, concentration) - total)
    for i in range(steps):
        ratio = 1 / (2 * (top - i) + concentration**2 * ratio)
        total -= tf.math.log(ratio)
    return -dimension / 2 * math.log(2 * math.pi) - total


def of_large_order(order: float, kappa: tf.Tensor) -> tf.Tensor:
    """Return log(I_ν(κ)/κ^ν) − κ, by Debye's expansion in 1/ν.

    Digital Library of Mathematical Functions, 10.41.3.
    """
    root = tf.sqrt(order**2 + kappa**2)
    t, series = order / root, tf.zeros_like(kappa)
    for coefficients in DEBYE[::-1]:
        term = tf.zeros_like(kappa)
        for each in coefficients[::-1]:
            term = term * t + each
        series = (series + term) / order
    exponent = order**2 / (root + kappa) - order * tf.math.log(order + root)
    return exponent - tf.math.log(2 * math.pi * root) / 2 + tf.math.log1p(series)


def debye(terms: int) -> list[list[float]]:
    """Return the coefficients of the polynomials U₁, U₂, ... of t (DLMF 10.41.9)."""
    t, last, found = Polynomial([0, 1]), Polynomial([1]), []
    for _ in range(terms):
        last = t**2 * (1 - t**2) * last.deriv() / 2 + ((1 - 5 * t**2) * last).integ() / 8
        found.append(last.coef.tolist())
    return found


LARGE = 20  # orders for which Debye's expansion is used
DEBYE = debye(terms=10)  # with these, errors are below 10⁻¹¹
