"""The three models for this package and for plain TensorFlow."""

from __future__ import annotations

import tensorflow as tf


def p1(params: dict, data: dict) -> tf.Tensor:
    """Logistic regression."""
    logits = tf.linalg.matvec(data["X"], params["beta"])
    return tf.reduce_sum(data["y"] * logits - tf.nn.softplus(logits))


def p2(params: dict, data: dict) -> tf.Tensor:
    """Two Gaussian components with unit variances."""
    logs = [-tf.reduce_sum((data["X"] - params[k]) ** 2, axis=1) / 2 for k in ("t1", "t2")]
    return tf.reduce_sum(tf.reduce_logsumexp(tf.stack(logs), axis=0))


def p3(params: dict, data: dict) -> tf.Tensor:
    """A network of one hidden layer."""
    hidden = tf.nn.softplus(data["X"] @ params["w1"] + params["b1"])
    logits = hidden @ params["w2"] + params["b2"]
    return -tf.reduce_sum(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=data["y"], logits=logits)
    )


def gaussian_prior(params: dict, variance: float) -> tf.Tensor:
    """Independent Gaussians about 0."""
    return -tf.add_n([tf.reduce_sum(x**2) for x in params.values()]) / (2 * variance)


MODELS = {"P1": p1, "P2": p2, "P3": p3}
PRIORS = {
    "P1": lambda params: gaussian_prior(params, 10.0),
    "P2": lambda params: gaussian_prior(params, 10.0),
    "P3": lambda params: gaussian_prior(params, 1.0),
}
