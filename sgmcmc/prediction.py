"""Functions of draws and data, evaluated over all draws in compiled code and bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from . import checks, tree
from .engine import each_chain
from .programs import programs_of
from .source import Source

BYTES = 32 << 20  # of the values of one call, and of the rows in it
KEPT_BYTES = 128 << 20  # of the values of all draws for some rows, of which quantiles are taken
DRAWS = 64  # the most draws in one call
BINS = 15  # of predicted probabilities, for calibration
FOLDS = 200  # resampled sets of rows, for the error of calibration


class Prediction:
    """What a function of draws and data is on average, for each row of the data.

    Attributes
    ----------
    mean, sd : array (rows, ...)
        Mean and standard deviation over the draws.
    quantiles : dict of arrays (rows, ...)
        By share, if they were asked for.
    values : array (draws, rows, ...), or None
        All values, if they were asked for; those of several chains one after the other.

    Examples
    --------
    >>> import numpy as np, sgmcmc
    >>> draws = sgmcmc.Draws({"x": np.arange(5.0)}, {}, {"n_chains": None})
    >>> draws.predict(lambda params, data: params["x"] * data["y"], {"y": np.arange(3.0)})
    Prediction((3,), mean of 5 draws)
    """

    def __init__(
        self, mean: np.ndarray, sd: np.ndarray, quantiles: dict[float, Any], values: Any, count: int
    ) -> None:
        self.mean, self.sd, self.quantiles, self.values = mean, sd, quantiles, values
        self.count = count

    def __repr__(self) -> str:
        return f"Prediction({self.mean.shape}, mean of {self.count:,} draws)"

    def score(self, labels: Any) -> dict[str, float]:
        """Compare averaged probabilities with what was seen.

        Parameters
        ----------
        labels : array (rows,)
            The classes 0, 1, ... that were seen. The means are the probabilities of all classes,
            (rows, classes), or those of class 1, (rows,).

        Returns
        -------
        dict
            `log_score`, the mean log predictive density, and `accuracy`, with their standard errors
            over rows, `log_score_error` and `accuracy_error`; and `calibration`, the expected
            calibration error: by how much the probability of the predicted class differs from how
            often it is right, on average over 15 groups of rows by that probability, with
            `calibration_error`, its standard error by resampling rows. A few rows alone make it
            positive.

        Examples
        --------
        >>> import numpy as np, sgmcmc
        >>> draws = sgmcmc.Draws({"p": np.array([0.1, 0.3])}, {}, {"n_chains": None})
        >>> rows = {"x": np.ones(10)}
        >>> score = draws.predict(lambda params, data: params["p"] * data["x"], rows).score(
        ...     [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
        ... )
        >>> score["accuracy"], round(score["calibration"], 6)
        (0.8, 0.0)
        """
        p = np.asarray(self.mean, float)
        if p.ndim == 1:
            p = np.stack([1 - p, p], axis=1)
        labels = np.asarray(labels).astype(int)
        if p.ndim != 2 or labels.shape != (len(p),):
            raise ValueError(
                f"labels must be one class for each of {len(p):,} rows, not of shape "
                f"{labels.shape}, and means of shape (rows, classes) or (rows,), not {p.shape}"
            )
        if labels.min() < 0 or labels.max() >= p.shape[1]:
            raise ValueError(
                f"labels must be classes from 0 to {p.shape[1] - 1}, but are from {labels.min()} "
                f"to {labels.max()}"
            )
        if not ((p > -1e-6) & (p < 1 + 1e-6)).all():
            raise ValueError(
                "score needs probabilities: fn must return numbers from 0 to 1, but their means "
                f"are from {p.min():.3g} to {p.max():.3g}"
            )
        logs = np.log(np.maximum(p[np.arange(len(p)), labels], 1e-300))
        best = p.argmax(axis=1)
        sure, right = p[np.arange(len(p)), best], (best == labels).astype(float)
        rng, root = np.random.default_rng(0), np.sqrt(len(p))
        again = [rng.integers(0, len(p), len(p)) for _ in range(FOLDS)]
        return {
            "log_score": float(logs.mean()),
            "log_score_error": float(logs.std() / root),
            "accuracy": float(right.mean()),
            "accuracy_error": float(right.std() / root),
            "calibration": calibration(sure, right),
            "calibration_error": float(np.std([calibration(sure[i], right[i]) for i in again])),
        }


def calibration(sure: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error."""
    group = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = np.bincount(group, sure - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(sure))


def predicted(
    draws: Any, fn: Callable, data: Any, thin: int, quantiles: Sequence[float], keep: bool
) -> Prediction:
    """Evaluate a function of (params, data) for all draws, row by row."""
    quantiles = [checks.number("quantiles", q, at_least=0, at_most=1) for q in quantiles]
    keep = checks.boolean("keep", keep)
    values = Values(draws, fn, data, thin)
    means, sds, kept = [], [], []
    found: dict[float, list] = {q: [] for q in quantiles}
    for piece in values.rows(some=bool(quantiles)):
        total, square, parts, first = 0.0, 0.0, [], None
        for part in values.of(*piece):
            first = part[0].astype(float) if first is None else first
            away = part - first
            total, square = total + away.sum(axis=0), square + (away**2).sum(axis=0)
            if quantiles or keep:
                parts.append(part)
        mean = total / values.count
        means.append(first + mean)
        sds.append(np.sqrt(np.maximum(square / values.count - mean**2, 0)))
        if parts:
            whole = np.concatenate(parts)
            for q in quantiles:
                found[q].append(np.quantile(whole, q, axis=0))
            if keep:
                kept.append(whole)
    together = {q: np.concatenate(x) for q, x in found.items()}
    everything = np.concatenate(kept, axis=1) if keep else None
    return Prediction(
        np.concatenate(means), np.concatenate(sds), together, everything, values.count
    )


def pointwise(draws: Any, fn: Callable, data: Any, thin: int) -> np.ndarray:
    """Evaluate the log likelihood of each row for each draw: (chains, draws, rows)."""
    values, parts = Values(draws, fn, data, thin), []
    if values.shape:
        raise ValueError(
            "fn must return the log likelihood of each row, of shape (rows,), not "
            f"(rows, {', '.join(map(str, values.shape))})"
        )
    for piece in values.rows(some=False):
        parts.append(np.concatenate(list(values.of(*piece))))
    found = np.concatenate(parts, axis=1)
    return found.reshape(values.chains, -1, found.shape[1])


class Values:
    """The values of a function of (params, data), by draws and rows.

    The function must return an array whose first axis are the rows.
    """

    def __init__(self, draws: Any, fn: Callable, data: Any, thin: int) -> None:
        chained, thin = draws.settings.get("n_chains") is not None, checks.whole("thin", thin)
        self.fn = checks.values.function("fn", fn, "of (params, data)")
        self.params, self.chained = dict(draws), chained
        leaves = tree.leaves(self.params)
        if not leaves:
            raise ValueError("there are no draws to predict from: keep a parameter")
        n = leaves[0].shape[int(chained)]
        self.chains = leaves[0].shape[0] if chained else 1
        self.thin, self.at = thin, np.arange(thin - 1, n, thin)
        if not len(self.at):
            raise ValueError(f"thin must be at most {n}, the number of draws, not {thin}")
        self.count = self.chains * len(self.at)
        dtype = tf.as_dtype(leaves[0].dtype)
        self.source = Source(checks.dataset(data, dtype), dtype)
        self.try_it()
        self.program = programs_of(fn).compiled(("predict", DRAWS), self.evaluate, True)

    def try_it(self) -> None:
        """Evaluate the function once, and see what it returns."""
        first = tree.map(lambda x: x[0], self.some(0, slice(-1, None)))
        rows = self.source.rows(0, min(2, self.source.N))
        (params,) = checks.tensors((first,))
        found = np.asarray(checks.called("fn", self.fn, params, rows))
        count = len(tree.leaves(rows)[0])
        if found.ndim == 0 or len(found) != count:
            raise ValueError(
                "fn must return an array whose first axis are the rows of data, but of "
                f"{count} rows it returned shape {found.shape}"
            )
        checks.functions.traced("fn", self.fn, params, rows)
        self.shape, self.itemsize = found.shape[1:], found.dtype.itemsize

    def some(self, chain: int, draws: slice) -> Any:
        """Some draws of a chain."""
        key = (chain, draws) if self.chained else draws
        return tree.map(lambda x: np.asarray(x[key]), self.params)

    def evaluate(self, params: Any, rows: Any, *, jit: bool) -> tf.Tensor:
        """The function for some draws: (draws, rows, ...)."""
        return each_chain(lambda p: self.fn(*tree.copies(p, rows)), params)

    def rows(self, some: bool) -> Iterator[tuple[dict[str, tf.Tensor], int]]:
        """Rows in pieces of one size, with how many of a piece count: the last is filled up.

        If `some` are wanted at a time, pieces are so small that the values of all draws fit.
        """
        each = max(1, int(np.prod(self.shape))) * self.itemsize
        most = min(BYTES // (DRAWS * each), BYTES // max(1, self.source.row_bytes), self.source.N)
        if some:
            most = min(most, KEPT_BYTES // (self.count * each))
        most = max(1, most)
        for start in range(0, self.source.N, most):
            count = min(most, self.source.N - start)
            index = np.minimum(np.arange(start, start + most), self.source.N - 1)
            yield self.source.subset(index).rows(0, most), count

    def of(self, rows: dict[str, tf.Tensor], count: int) -> Iterator[np.ndarray]:
        """The values for these rows, some draws at a time, chain after chain."""
        size = min(DRAWS, len(self.at))
        for c in range(self.chains):
            for start in range(0, len(self.at), size):
                at = self.at[start : start + size]
                part = self.some(c, slice(int(at[0]), int(at[-1]) + 1, self.thin))
                part = tree.map(partial(filled, size=size), part)  # so that there is one program
                found = self.program(part, rows).numpy()
                yield found[: len(at), :count]


def filled(x: np.ndarray, size: int) -> tf.Tensor:
    """Some draws as a tensor, with the last one again until there are `size` of them."""
    return tf.constant(np.concatenate([x, x[-1:].repeat(size - len(x), 0)]))
