"""The three models for JAX, by row, as both of its packages want them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def p1(params: dict, x: Any, y: Any) -> Any:
    """Logistic regression."""
    logit = jnp.dot(x, params["beta"])
    return y * logit - jax.nn.softplus(logit)


def p2(params: dict, x: Any) -> Any:
    """Two Gaussian components with unit variances."""
    return jnp.logaddexp(*(-jnp.sum((x - params[k]) ** 2) / 2 for k in ("t1", "t2")))


def p3(params: dict, x: Any, y: Any) -> Any:
    """A network of one hidden layer."""
    hidden = jax.nn.softplus(x @ params["w1"] + params["b1"])
    return jax.nn.log_softmax(hidden @ params["w2"] + params["b2"])[y]


def gaussian_prior(params: dict, variance: float) -> Any:
    """Independent Gaussians about 0."""
    return -sum(jnp.sum(x**2) for x in params.values()) / (2 * variance)


MODELS = {"P1": p1, "P2": p2, "P3": p3}
PRIORS = {
    "P1": lambda params: gaussian_prior(params, 10.0),
    "P2": lambda params: gaussian_prior(params, 10.0),
    "P3": lambda params: gaussian_prior(params, 1.0),
}
