"""The draws in free coordinates, and what is known of the sampler that made them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from .. import tree
from ..draws import Draws
from ..origin import Origin
from ..summary import summary_of
from ..tuning.epochs import Epoch
from ..tuning.near import coordinate_names

MOST = 1 << 26  # numbers of draws that are looked at; of more, every k-th draw is
FEWEST = 100  # draws of all chains together


@dataclass
class Evidence:
    """Draws laid end to end: `x` has shape (chains, draws, p), in free coordinates if `origin`.

    Without `origin`, coordinates are the user's values. `thin` is how many iterations are between
    two successive draws.
    """

    draws: Draws
    x: np.ndarray
    names: list[str]
    origin: Origin | None
    thin: int
    left_out: list[str]

    @property
    def p(self) -> int:
        """The number of coordinates."""
        return self.x.shape[2]

    @property
    def epoch(self) -> Epoch | None:
        """The epochs in which minibatches were taken in turn; None if they were independent."""
        engine, kind = self.origin.engine, self.draws.settings["minibatches"]
        return Epoch.of(kind, engine.N, engine.n, engine.wanted.inner_steps)

    def columns(self) -> dict[str, np.ndarray]:
        """Return mean, sd, effective sample size, its Monte Carlo error and R̂ by coordinate."""
        parts = [
            summary_of(np.array(self.x[:, :, j : j + 64].transpose(2, 0, 1), order="C"))
            for j in range(0, self.p, 64)
        ]
        kept = [k for k in ("mean", "sd", "ess", "mcse", "r_hat") if k in parts[0]]
        return {k: np.concatenate([part[k] for part in parts]) for k in kept}

    def lag_one(self) -> np.ndarray:
        """Return the autocorrelation of successive draws."""
        return lag_one(self.x)


def lag_one(x: np.ndarray) -> np.ndarray:
    """Return the autocorrelation of successive draws (chains, draws, p) by coordinate."""
    x = x - x.mean(axis=(0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return (x[:, 1:] * x[:, :-1]).mean(axis=(0, 1)) / (x**2).mean(axis=(0, 1))


def evidence_of(draws: Draws) -> Evidence:
    """Lay draws end to end. An error if there are too few."""
    origin, left_out = draws._origin, []
    chained = draws.settings.get("n_chains") is not None
    values = dict(draws)
    if origin is None:
        left_out.append(
            "gradient noise, width, Stein discrepancy and half steps: these draws do not know "
            "their sampler, as after pickling: call diagnose before"
        )
    else:
        known = origin.engine.model.chart.spaces
        missing = [k for k in known if k not in values]
        if missing:
            left_out.append(
                "gradient noise, width, Stein discrepancy and half steps: the draws lack "
                f"{', '.join(missing)} (keep=...)"
            )
            origin = None
        else:
            values = {k: values[k] for k in known}
    if not values:
        raise ValueError("there is nothing to diagnose: keep a parameter")
    arrays = tree.map(lambda a: np.asarray(a) if chained else np.asarray(a)[None], values)
    leaves = tree.leaves(arrays)
    chains, n = leaves[0].shape[:2]
    if chains * n < FEWEST or n < 20:
        raise ValueError(
            f"diagnose needs at least {FEWEST} draws, and 20 of each chain, but there are "
            f"{n:,} of each of {chains:,}" + " chain" + "s" * (chains > 1)
        )
    thin = int(draws.settings.get("thin", 1))
    every = -(-chains * n * sum(a[0, 0].size for a in leaves) // MOST)
    if every > 1:
        arrays, thin = tree.map(lambda a: a[:, ::every], arrays), thin * every
    if origin is not None:
        arrays = free(arrays, origin.engine.model.chart.spaces)
    like = tree.map(lambda a: a[0, 0], arrays)
    x = np.concatenate([a.reshape(*a.shape[:2], -1) for a in tree.leaves(arrays)], axis=2)
    return Evidence(draws, x.astype(float), coordinate_names(like), origin, thin, left_out)


def free(values: Any, spaces: Any) -> Any:
    """Map users' values (chains, draws, ...) to free coordinates."""

    def one(space: Any, a: np.ndarray) -> np.ndarray:
        if np.array_equal(space.inverse(a[0, 0]), a[0, 0]):
            return a
        rows = a.reshape(-1, *a.shape[2:])
        try:
            found = np.asarray(space.inverse(tf.constant(rows)))
            ends = [np.asarray(space.inverse(tf.constant(rows[i]))) for i in (0, -1)]
            same = all(np.allclose(found[i], end) for i, end in zip((0, -1), ends))
        except (ValueError, TypeError, IndexError, tf.errors.OpError):
            same = False
        if not same:
            found = np.stack([np.asarray(space.inverse(tf.constant(row))) for row in rows])
        return found.reshape(*a.shape[:2], *found.shape[1:])

    return tree.map(one, spaces, values)
