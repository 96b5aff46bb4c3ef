"""Preconditioned stochastic gradient Langevin dynamics (Li et al., 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from .. import checks, tree
from ..estimators import Estimate
from . import Dynamics, Noise


class Slopes(NamedTuple):
    """What Γ is computed from: estimates of the derivatives ḡ′ and V′ by θ, and the last step.

    `last` is ḡ at the last step, and `push` is z/√(εG), its noise divided by its variance.
    """

    curvature: Any
    slope: Any
    last: Any
    push: Any


class Scaled(NamedTuple):
    """A chain, the mean of squared gradients, and the number of steps so far."""

    x: Any
    V: Any
    age: Any
    slopes: Any


@dataclass(frozen=True)
class PSGLD(Dynamics):
    """Preconditioned stochastic gradient Langevin dynamics.

    With step size ε, an unbiased estimate ĝ of the gradient of the log posterior, and ḡ = ĝ/N, in
    each coordinate

        V ← βV + (1 − β)ḡ²
        G = 1/(λ + √V)
        θ ← θ + (ε/2)(G ĝ(θ) + Γ) + N(0, εG)

    so that steps are long where gradients are small, as in RMSprop. V starts from 1/(εN²)², for
    which the noise of a step has a standard deviation of about εN, twice the drift of a step where
    |ḡ| = √V. If V were 0 where the first gradient is, as at a mode without gradient noise, the
    first step would lead far away. In step k = 0, 1, ... V keeps no more than the share
    (k + 1)/(k + 3), so that the start is soon forgotten.

    Γ is the derivative of G by θ. The paper leaves it out, which makes draws too wide: V is a mean
    over about 1/(1 − β) steps, so that it is large, and the chain slow, where the chain is far out.
    On a Gaussian without gradient noise the variance is too large by the factor

        εG/sd²    β = .9    β = .99    β = .999
        .02        1.79       1.33       1.05
        .1         1.49       1.10       1.01

    which is nearer to 1 with noise (1.04 in place of 1.33, for noise three times the gradient). Γ
    removes nearly all of this error: 1.05 remains of 1.79, and 1.02 of 1.33; or, where λ is as
    large as √V, .99 of 1.36 for β = .9, and .98 of 1.15 for β = .99. With V = E ḡ², Γ is
    −½ G² V′/√V, and V′ = E 2ḡḡ′ is estimated in the same way as V. The curvature ḡ′ is estimated
    from the change of gradients with the noise z of the steps: E z (ḡ after − ḡ before) = √(εG) ḡ′,
    whatever the noise of the gradients.

    Li, Chen, Carlson and Carin (2016), Preconditioned stochastic gradient Langevin dynamics for
    deep neural networks, AAAI.

    Examples
    --------
    >>> import sgmcmc
    >>> block = sgmcmc.PSGLD(beta=0.99)  # of a sampler that `mixed` makes
    """

    beta: float = checks.tunable(
        0.999,
        checks.within(at_least=0, below=1),
        "The share β of V that a step keeps: V is a mean over about 1/(1 − β) steps.",
    )
    floor: float = checks.tunable(
        1e-5,
        checks.within(above=0),
        "λ, which bounds steps where gradients are 0.",
    )
    correction: bool = checks.tunable(
        True,
        checks.boolean,
        "Add Γ, estimated from the chain. It takes memory for four more numbers per coordinate. "
        "False: leave it out, as in the paper.",
    )

    def init(self, x: Any, noise: Noise, h: Any) -> Scaled:
        zeros = tree.map(tf.zeros_like, x)
        slopes = Slopes(zeros, zeros, zeros, zeros) if self.correction else ()
        return Scaled(x, zeros, tf.zeros((), tree.leaves(x)[0].dtype), slopes)

    def update(self, chain: Scaled, estimate: Estimate, noise: Noise, h: Any) -> Scaled:
        g = tree.map(lambda g: g / estimate.N, estimate.gradient)
        rate = tf.maximum(2 / (chain.age + 3), 1 - self.beta)

        def mean_square(V: Any, g: Any, h: Any) -> tf.Tensor:
            V = tf.where(chain.age == 0, (h * estimate.N * estimate.N) ** -2, V)
            return V + rate * (g**2 - V)

        V = tree.map(mean_square, chain.V, g, h)
        root, drift = tree.map(tf.sqrt, V), estimate.gradient
        h = tree.map(lambda h, root: h / (self.floor + root), h, root)
        slopes = chain.slopes
        if self.correction:
            slopes = self.seen(slopes, g, rate)
            drift = tree.map(tf.add, drift, tree.map(self.gamma, slopes.slope, root))
            push = tree.map(lambda z, h: z / tf.sqrt(h), noise.normals, h)
            slopes = slopes._replace(push=push)
        x = tree.map(
            lambda x, g, z, h: x + (h / 2 * g + tf.sqrt(h) * z),
            *(chain.x, drift, noise.normals, h),
        )
        return Scaled(x, V, chain.age + 1, slopes)

    def gamma(self, slope: tf.Tensor, root: tf.Tensor) -> tf.Tensor:
        """Return Γ/G = −½ G V′/√V, which is bounded as V goes to 0."""
        return -tf.math.divide_no_nan(slope, 2 * (self.floor + root) * root)

    def seen(self, slopes: Slopes, g: Any, rate: tf.Tensor) -> Slopes:
        """Update the slopes by another gradient ḡ."""
        curvature = tree.map(
            lambda c, g, last, push: c + rate * (push * (g - last) - c),
            *(slopes.curvature, g, slopes.last, slopes.push),
        )
        slope = tree.map(lambda s, g, c: s + rate * (2 * g * c - s), slopes.slope, g, curvature)
        return Slopes(curvature, slope, g, slopes.push)
