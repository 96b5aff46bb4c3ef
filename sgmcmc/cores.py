"""How much of the machine a process takes."""

from __future__ import annotations

import os
import warnings

import tensorflow as tf


def one_core() -> bool:
    """Whether SGMCMC_ONE_CORE asks for one core, to which TensorFlow is then limited as well.

    Blocks are then filled and used in turn, where otherwise the next is filled meanwhile.
    """
    asked = os.environ.get("SGMCMC_ONE_CORE", "0")
    if asked not in ("0", "1"):
        raise ValueError(f"the environment variable SGMCMC_ONE_CORE must be 0 or 1, not {asked!r}")
    if asked == "1":
        try:
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        except RuntimeError:
            warnings.warn(
                "SGMCMC_ONE_CORE=1 cannot limit TensorFlow, which was in use before: import sgmcmc "
                "before the first tensor is made",
                stacklevel=2,
            )
    return asked == "1"
