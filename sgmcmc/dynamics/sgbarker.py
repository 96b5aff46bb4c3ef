"""Stochastic gradient Barker dynamics (Mauri and Zanella, 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import checks, tree
from ..estimators import Estimate
from . import Dynamics, Noise

SPREAD = 0.1  # standard deviation of the length of a move, whose mean square is 1
PROBIT = 1.702  # the logistic function of x is about Φ(x / PROBIT)
MEMORY = 0.999  # the share that a step keeps of the running mean of gradient noise


class Noticed(NamedTuple):
    """A chain, its last gradient, and half the mean square change of gradients.

    `squares` is a weighted sum. The sum of its weights is `weight`, which grows from 0 to 1.
    """

    x: Any
    last: Any
    squares: Any
    weight: Any


@dataclass(frozen=True)
class SGBarker(Dynamics):
    """Stochastic gradient Barker dynamics.

    With step size ε and an unbiased estimate ĝ of the gradient of the log posterior, each
    coordinate moves by

        θ ← θ + w   with probability 1 / (1 + exp(−w ĝ(θ))),   else   θ ← θ − w

    where w = √ε (√.99 + .1 z) with z ~ N(0, 1), so that its mean square is ε. A step is no longer
    than w, however large the gradient is. With a wrong step size, or a gradient that is far off,
    the chain is inaccurate where that of `sgld` diverges. For small ε both are the same process.

    Noise of variance τ² in a coordinate of ĝ makes the choice of direction more random, and the
    draws too wide. The correction replaces w ĝ by c w ĝ with c = k / √(k² − w²τ²), k = 1.702, which
    on average gives the probability without noise. If w²τ² ≥ k² there is no such c, and the move
    follows the sign of w ĝ. τ² is half the mean square change of ĝ from step to step, over some
    1,000 steps. On a Gaussian of variance 1 with ε = .1 and τ = 5, the variance of the draws is
    1.09 with the correction, 1.48 without it and 1.67 for `sgld`; with τ = 2 it is 1.05, 1.12 and
    1.13. (For moves w ~ N(0, ε), which the paper has as well, these are 1.52 and 1.84, and 1.11
    and 1.27.)

    The correction is for noise that is independent from step to step. Therefore minibatches are
    drawn independently, unless you ask for others or leave out the correction. Taken in turn from
    shuffled rows, they make draws too narrow: .79 instead of 1.08 times the posterior's variance,
    for the mean of 10,000 rows with minibatches of 100 and εN = .02.

    At a temperature T, as by `sample`, steps are those of the step size εT on the posterior to the
    power of 1/T. T must be above 0, where a chain would stand still.

    Mauri and Zanella (2024), Robust approximate sampling via stochastic gradient Barker dynamics,
    AISTATS.

    Examples
    --------
    >>> import sgmcmc
    >>> block = sgmcmc.SGBarker(corrected=False)  # of a sampler that `mixed` makes
    """

    corrected: bool = checks.tunable(
        True,
        checks.boolean,
        "Correct the probabilities for the noise of gradients, whose size is estimated in the run.",
    )

    @property
    def white_noise(self) -> bool:  # type: ignore[override]  # read-only, as all fields are
        return self.corrected

    def noise(self, x: Any) -> Noise:
        return Noise(normals=x, uniforms=x)

    def init(self, x: Any, noise: Noise, h: Any) -> Noticed:
        zeros = tree.map(tf.zeros_like, x) if self.corrected else ()
        return Noticed(x, zeros, zeros, tf.constant(-1.0, tree.leaves(x)[0].dtype))

    def update(self, chain: Noticed, estimate: Estimate, noise: Noise, h: Any) -> Noticed:
        root = tf.sqrt(tf.convert_to_tensor(noise.temperature, chain.weight.dtype))

        def moves(z: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
            return tf.sqrt(h) * (root * np.sqrt(1 - SPREAD**2) + SPREAD * z)

        w = tree.map(moves, noise.normals, h)
        favour = tree.map(lambda w, g: tf.math.divide_no_nan(w * g, root**2), w, estimate.gradient)
        if self.corrected:
            favour = tree.map(
                lambda favour, w, squares: sharpened(
                    favour,
                    tf.math.divide_no_nan(w**2, root**4)
                    * (squares / tf.maximum(chain.weight, 1 - MEMORY)),
                ),
                *(favour, w, chain.squares),
            )
            chain = self.noticed(chain, estimate.gradient)
        x = tree.map(
            lambda x, w, favour, u: x + tf.where(u < tf.sigmoid(favour), w, -w),
            *(chain.x, w, favour, noise.uniforms),
        )
        return chain._replace(x=x)

    def noticed(self, chain: Noticed, gradient: Any) -> Noticed:
        """Update the mean square change of gradients. The first gradient has no change."""
        is_first = chain.weight < 0
        squares = tree.map(
            lambda s, g, last: tf.where(
                is_first, s, MEMORY * s + (1 - MEMORY) * (g - last) ** 2 / 2
            ),
            *(chain.squares, gradient, chain.last),
        )
        weight = MEMORY * chain.weight + (1 - MEMORY)
        weight = tf.where(is_first, tf.zeros_like(weight), weight)
        return Noticed(chain.x, gradient, squares, weight)


def sharpened(favour: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Correct log odds so that, averaged over noise of this variance, the probability is right."""
    left = PROBIT**2 - variance
    is_possible = left > 0
    rest = tf.where(is_possible, left, tf.ones_like(left))
    certain = tf.sign(favour) * np.inf
    certain = tf.where(favour == 0, tf.zeros_like(favour), certain)
    return tf.where(is_possible, PROBIT * favour / tf.sqrt(rest), certain)
