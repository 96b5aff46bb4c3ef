"""The examples in the documentation of the samplers: sessions with small models."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .describe import Row

MODELS = {
    "normal": (
        """\
        >>> def log_lik(params, data):
        ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
        >>> dataset = {"x": np.random.default_rng(1).normal(5, 1, 10_000)}
        """,
        'log_lik, dataset, {"mean": 4.9}',
        """\
        >>> draws["mean"].shape
        (2000,)
        >>> abs(float(draws["mean"].mean()) - 5) < 0.05
        True
        >>> 0.005 < float(draws["mean"].std()) < 0.02  # .01 is right
        True""",
        """\
        >>> abs(float(sgmcmc.get_params(sampler)["mean"]) - 5) < 0.1
        True""",
    ),
    "categories": (
        """\
        >>> def log_lik(params, data):
        ...     return tf.reduce_sum(tf.math.log(tf.gather(params["omega"], data["z"])))
        >>> z = np.random.default_rng(1).choice(4, 10_000, p=[0.7, 0.2, 0.1, 0])
        >>> dataset = {"z": z}
        """,
        'log_lik, dataset, {"omega": np.full(4, 0.25)}',
        """\
        >>> draws["omega"].shape
        (2000, 4)
        >>> bool(np.abs(draws["omega"].mean(axis=0) - [0.7, 0.2, 0.1, 0]).max() < 0.02)
        True""",
        """\
        >>> bool(abs(sgmcmc.get_params(sampler)["omega"].sum() - 1) < 1e-5)
        True""",
    ),
    "directions": (
        """\
        >>> def log_lik(params, data):
        ...     return 2 * tf.reduce_sum(tf.linalg.matvec(data["x"], params["mu"]))
        >>> x = np.random.default_rng(1).normal(size=(10_000, 3)) + [0, 0, 1]
        >>> dataset = {"x": x / np.linalg.norm(x, axis=1, keepdims=True)}
        """,
        'log_lik, dataset, {"mu": [0.6, 0.0, 0.8]}',
        """\
        >>> bool(np.abs(draws["mu"].mean(axis=0) - [0, 0, 1]).max() < 0.05)
        True
        >>> bool(np.abs(np.linalg.norm(draws["mu"], axis=1) - 1).max() < 1e-5)
        True""",
        """\
        >>> bool(sgmcmc.get_params(sampler)["mu"][2] > 0.9)
        True""",
    ),
    "mixed": (
        """\
        >>> def log_lik(params, data):
        ...     error = data["x"] - tf.gather(params["mu"], data["z"])
        ...     share = tf.math.log(tf.gather(params["omega"], data["z"]))
        ...     return tf.reduce_sum(share - error**2 / 2)
        >>> rng = np.random.default_rng(1)
        >>> z = rng.choice(3, 10_000, p=[0.7, 0.2, 0.1])
        >>> dataset = {"z": z, "x": z + rng.normal(size=10_000)}
        """,
        'log_lik, dataset, {"omega": np.full(3, 1 / 3), "mu": np.zeros(3)}',
        """\
        >>> bool(np.abs(draws["omega"].mean(axis=0) - [0.7, 0.2, 0.1]).max() < 0.02)
        True
        >>> bool(np.abs(draws["mu"].mean(axis=0) - [0, 1, 2]).max() < 0.2)
        True""",
        """\
        >>> bool(np.abs(sgmcmc.get_params(sampler)["mu"] - [0, 1, 2]).max() < 0.5)
        True""",
    ),
}


def example(name: str, row: Row, has_run: bool) -> str:
    """Return the section Examples: a session with a small model, which doctest runs."""
    model, first, seen, after = MODELS[row.model]
    made = "draws" if has_run else "sampler"
    call = (
        *([] if row.fixed else ["minibatch_size=0.1"]),
        *(["n_iters=2000", "burn_in=500"] if has_run else []),
        "seed=1",
        "verbose=False",
    )
    then = seen if has_run else ">>> sgmcmc.step(sampler, 1000)\n" + textwrap.dedent(after)
    dynamics = "" if row.dynamics else "sgmcmc.SGLD(), "
    return "\n".join(
        [
            "Examples",
            "--------",
            ">>> import numpy as np, sgmcmc, tensorflow as tf",
            textwrap.dedent(model).rstrip(),
            f">>> {made} = sgmcmc.{name}(",
            f"...     {dynamics}{first}, {row.call},",
            f"...     {', '.join(call)},",
            "... )",
            textwrap.dedent(then),
        ]
    )
