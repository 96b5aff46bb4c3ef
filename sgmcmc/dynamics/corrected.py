"""Noise of dynamics that is smaller by an estimate of the noise of their gradients."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .. import tree
from ..estimators import Estimate
from ..spaces.flat import Euclidean
from . import Dynamics
from .heat import covariance, heated

FLAT = Euclidean()
NOISE_ESTIMATE = (
    "Add less noise by an estimate of the gradient's. None: add all. `'fisher'`: the variance of "
    "each coordinate of the gradient is estimated in each step from the gradients of single rows "
    "in the minibatch. `'fisher_matrix'`: so is the covariance of all coordinates of a parameter, "
    "laid end to end. Or a dict of these by parameter."
)


class Corrected(Dynamics):
    """Base class of dynamics that can add less noise by an estimate of the gradient's."""

    noise_estimate: Any

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]  # read-only, as all fields are
        return any(kind is not None for kind in tree.leaves(self.noise_estimate))

    @property
    def white_noise(self) -> bool:  # type: ignore[override]  # the estimate is for such noise
        return self.needs_rows

    def rows(self, estimate: Estimate) -> Any:
        """Return the gradients of single rows, or None for each parameter."""
        if self.needs_rows:
            return estimate.extra
        return tree.map(lambda _: None, estimate.gradient)


def lessened(z: tf.Tensor, share: Any, h: Any, rows: tf.Tensor, N: int, kind: str) -> tf.Tensor:
    """Return N(0, 2c − h²V), with 0 in place of what would be negative, for a share c.

    V is the covariance of the noise of gradients as `rows` tell it (chains, n, ...): its diagonal,
    or a matrix of all coordinates of the parameter.
    """
    if kind == "fisher":
        return heated(z, None, share, covariance(FLAT, z, rows, N, "diagonal"), h, False)
    flat = tree.flat(z)
    rows = tf.reshape(rows, (*rows.shape[:2], flat.shape[1]))
    share, h = (tf.reshape(a, (-1, 1)) if a.shape.rank else a for a in (share, h))
    noise = heated(flat, None, share, covariance(FLAT, flat, rows, N, "full"), h, True)
    return tf.reshape(noise, z.shape)
