"""Estimates of the parameters of a Dirichlet posterior from counts, with control variates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import checks, tree
from ..model import Batch, Model
from ..source import BLOCK_BYTES
from ..streams import without_replacement
from . import Data, Estimate, Mode
from .gradient import Gradient

PROBE = 100  # rows on which counts are checked for whether they depend on the parameters
FAR = 10  # control variates are used up to this many standard deviations above a
GROUPS, FEW_GROUPS = 1000, 16  # the fewest groups of rows that the variance of counts is from


class Aim(NamedTuple):
    """A point x of the chain, the posterior's a there, and the limit of θ up to which it is used.

    The limit is 0 for components that control variates do not help. For others it is a value that
    θ hardly ever reaches. The error of a is its variance relative to that of â: 0 if a is from all
    rows.
    """

    x: Any
    a: Any
    limit: Any
    error: Any


class Relative(NamedTuple):
    """The estimate b̂, the limit of θ up to which it is used, and the error of its a."""

    b: Any
    limit: Any
    error: Any


@dataclass(frozen=True)
class Counted(Gradient):
    """The estimate â of a posterior's parameters, and b̂ = (â − 1)/(a − 1) with a from many rows.

    If counts depend on the parameters, as expectations of latent variables do, b̂ is computed at the
    point where a was estimated, on the same rows as â. This removes the noise of the rows, and
    leaves the chain free to move. It costs a second evaluation of the counts.

    A user's function draws the latent variables instead. Then b̂ is computed where the chain is, so
    that the chain stays about a until a is renewed. As a is from draws itself, this is Gibbs
    sampling: latent variables given the parameters, then parameters given those. With expectations
    in place of draws, the variance would be too small by 1 + γ, where γ is the share of the
    information that is missing. With a second evaluation of draws, the noise of the draws in a
    would make it too large, by 1/(1 − γ).
    """

    draws_latent = True  # users' functions return draws of latent variables, not expectations

    refresh_every: int | None = checks.tunable(
        None,
        checks.optional_whole,
        "For latent variables, whose counts depend on the parameters: estimate a again after this "
        "many iterations. None: only at the start, which is right for observed categories.",
    )
    refresh_size: int | None = checks.tunable(
        None,
        checks.optional_whole,
        "The number of rows, drawn at random, from which a is estimated each time. All by default. "
        "With fewer, a has an error until it is estimated again: more than 2/h minibatches are "
        "needed for it to be less than the noise that control variates remove.",
    )

    @property
    def every(self) -> int | None:  # type: ignore[override]  # read-only, as all fields are
        return self.refresh_every

    def check(self, N: int) -> None:
        if self.refresh_size is None:
            return
        if self.refresh_size > N:
            raise ValueError(f"refresh_size must be at most N = {N} rows, not {self.refresh_size}")
        if self.refresh_every is None and self.refresh_size < N:
            raise ValueError(
                f"refresh_size = {self.refresh_size} needs refresh_every, such as 100: the error "
                "of a single estimate from some of the rows would stay in all draws"
            )

    def init(self, model: Model, x: Any, data: Data, mode: Mode) -> Aim:
        if model.counters and self.draws_latent:
            self.check_counts(model, tree.map(lambda a: a[0], x), data)
        return self.renew(model, x, None, data)

    def check_counts(self, model: Model, x: Any, data: Data) -> None:
        """Check that counts that depend on the parameters are renewed, and are draws."""
        rows, keys = data.source.probe(min(PROBE, data.source.N)), ([0, 0], [1, 1])
        elsewhere = tree.map(tf.constant, model.chart.elsewhere(tree.map(np.asarray, x)))
        found = [
            tree.leaves(model.traced_data(point, rows, tf.constant(key)).gradient)
            for point, key in ((x, keys[0]), (elsewhere, keys[0]), (x, keys[1]))
        ]
        for here, there, again in zip(*found):
            if np.array_equal(here, there):
                continue
            if self.refresh_every is None:
                raise ValueError(
                    "counts depends on the parameters, as where categories are latent: then "
                    "scircv needs refresh_every, such as 100, or all draws would be about what it "
                    "says at the start"
                )
            if np.array_equal(here, again) and (here.numpy() % 1).any():
                raise ValueError(
                    "counts must draw latent variables by its key, but some of it are "
                    "expectations, the same for any key, with which scircv has too small a "
                    "variance: draw them, as in the example of SCIR, or leave counts out and write "
                    "log_lik"
                )

    def renew(self, model: Model, x: Any, state: Any, data: Data) -> Aim:
        """Estimate a, and the variance of â over minibatches, from the counts of groups of rows.

        A smaller last group would need another program: it is left out if a is from some of the
        rows anyway.
        """
        (source, n, rng), N, leaf = data, data.source.N, tree.leaves(x)[0]
        chains, dtype = leaf.shape[0], leaf.dtype.as_numpy_dtype
        m = self.refresh_size or N
        index = rng.permutation(without_replacement(rng, N, m, 1)[0])
        size = max(1, min(n, m // FEW_GROUPS) if model.counters else m // GROUPS)
        groups, rest = divmod(m, size)
        parts = [index[: m - rest].reshape(groups, size)]
        if rest and m < N:
            m -= rest
        elif rest:
            parts.append(index[m - rest :][None])
        nbytes = chains * size * source.row_bytes + 8 * tree.size(x)
        some = 1 if model.counters else max(1, BLOCK_BYTES // nbytes)
        total, squares = 0.0, 0.0
        for i, part in enumerate(parts):
            # The leftover group is too small to be worth compiling.
            jit = model.jit and (i == 0 or len(model.counters) > 0)
            count = model.programs.compiled("survey", partial(survey, model), jit)
            for counts in counted_groups(part, min(some, len(part)), x, data, count):
                total, squares = total + counts.sum(0), squares + (counts**2).sum(0) / part.shape[1]
        with np.errstate(invalid="ignore", divide="ignore"):
            of_a_row = (squares - total**2 / m) / (sum(map(len, parts)) - 1)
        alpha = model.prior(tree.map(lambda a: a[0], x)).gradient
        a = tree.flat(tree.map(lambda a: a[None], alpha)).numpy() + N / m * total
        variance = N * (N - n) / n * of_a_row
        helps = (a > 1) & (variance <= (a - 1) ** 2)
        limit = np.where(helps, a + FAR * (1 + np.sqrt(a + variance)), 0)
        a, limit = (tree.split(tf.constant(each, dtype), x) for each in (a, limit))
        error = n * (N - m) / (m * max(N - n, 1))
        return Aim(x, a, limit, tf.constant(error, dtype))

    def estimate(self, model: Model, x: Any, state: Aim, batch: Batch) -> tuple[Estimate, Any]:
        """Return the estimate â at x, with b̂ as `extra`."""
        here, _ = super().estimate(model, x, (), batch)
        there = here.gradient
        if not (model.counters and self.draws_latent):
            there = super().estimate(model, state.x, (), batch)[0].gradient
        b = tree.map(
            lambda a_hat, a, limit: (a_hat - 1) / tf.where(limit > 0, a - 1, 1),
            *(there, state.a, state.limit),
        )
        return here._replace(extra=Relative(b, state.limit, state.error)), state


class CountedTwice(Counted):
    """For functions whose counts are noisy expectations: b̂ is computed where a was estimated."""

    draws_latent = False


def survey(model: Model, x: Any, rows: dict[str, tf.Tensor], key: tf.Tensor, *, jit: bool) -> Any:
    """Return the counts of each of some groups of rows, as (groups, chains, ...)."""
    groups, chains = (tree.leaves(nest)[0].shape[0] for nest in (rows, x))
    if groups > 1:
        rows = tree.map(lambda a: tf.repeat(a, chains, axis=0), rows)
        x = tree.map(lambda a: tf.tile(a, (groups, *[1] * (a.shape.rank - 1))), x)
    found = model.on_rows(x, Batch(rows, 1.0, (), key)).gradient
    return tree.map(lambda a: tf.reshape(a, (groups, chains, *a.shape[1:])), found)


def counted_groups(
    index: np.ndarray, some: int, x: Any, data: Data, count: Callable
) -> Iterator[np.ndarray]:
    """Yield counts of groups of rows, `some` at a time: (groups, chains, counts end to end)."""
    source, chains = data.source, tree.leaves(x)[0].shape[0]
    for start in range(0, len(index), some):
        part = index[start : start + some]
        filled = np.sort(np.resize(part, (some, part.shape[1])), axis=1)  # one program for all
        rows = {k: np.empty(s, source.dtypes[k]) for k, s in source.shapes(*filled.shape).items()}
        source.gather(filled, rows)
        key = data.rng.bit_generator.random_raw(chains).view(np.int32).reshape(-1, 2)
        found = count(x, *tree.map(tf.constant, (rows, key)))
        counts = [a.numpy().astype(np.float64) for a in tree.leaves(found)]
        flat = np.concatenate([a.reshape(some, chains, -1) for a in counts], axis=2)
        yield flat[: len(part)]
