"""Summarise draws: means, quantiles, effective sample sizes and R̂, in little memory."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import checks, tree

MAX_ROWS, END_ROWS = 60, 5  # of a longer table, only the first and last rows are printed
BLOCK = 2**21  # numbers that are copied at a time, or all draws of one quantity if they are more
WORK = 2**18  # numbers that are transformed or subtracted at a time
FIRST_LAGS, MOST_LAGS = 2**10, 2**17  # lags at first, which mostly suffice; the most at a time
QUANTILES = (0.05, 0.5, 0.95)


class Summary(dict):
    """A dict of the columns of a table, whose rows are quantities.

    It prints as a table. Of more than 60 quantities, the first and last five are printed.

    Attributes
    ----------
    names : list of str
        The names of the rows.
    """

    def __init__(self, names: list[str], columns: dict[str, np.ndarray]) -> None:
        super().__init__(columns)
        self.names = names

    def __repr__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join(lines + self.note())

    def _repr_html_(self) -> str:
        head, *body = self.rows()
        cells = [f"<th>{html.escape(title)}</th>" for title in head]
        table = [f"<thead><tr>{''.join(cells)}</tr></thead>", "<tbody>"]
        for name, *values in body:
            cells = "".join(f"<td>{value}</td>" for value in values)
            table.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
        notes = [f"<p>{line}</p>" for line in self.note()]
        return "\n".join(["<table>", *table, "</tbody>", "</table>", *notes])

    def rows(self) -> list[list[str]]:
        """Return the rows of the printed table, of which the first has the titles."""
        formats = {"ess": "{:.0f}", "r_hat": "{:.3f}"}
        is_cut = len(self.names) > MAX_ROWS
        shown = range(len(self.names))
        parts = [shown[:END_ROWS], shown[-END_ROWS:]] if is_cut else [shown]
        rows = [
            [
                [self.names[i], *(formats.get(k, "{:.4g}").format(x[i]) for k, x in self.items())]
                for i in part
            ]
            for part in parts
        ]
        gap = [["..."] * (len(self) + 1)] if is_cut else []
        return [["", *self], *rows[0], *gap, *(rows[1] if is_cut else [])]

    def note(self) -> list[str]:
        """Return a line with the number of rows, if they are not all printed."""
        return [f"[{len(self.names)} rows]"] if len(self.names) > MAX_ROWS else []

    def to_frame(self) -> Any:
        """Return the table as a data frame of pandas, with the names of quantities as its index.

        Returns
        -------
        pandas.DataFrame
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        return pandas.DataFrame(dict(self), index=self.names)


def summarize(draws: dict[str, Any], chained: bool, names: Sequence[str] | None) -> Summary:
    """Summarise draws, or those called `names`.

    Arrays are (draws, ...), or (chains, draws, ...) if they are `chained`.
    """
    if not draws:
        raise ValueError("there is nothing to sum up: keep a parameter, or track a function")
    arrays = dict(zip(tree.names(draws), tree.leaves(draws)))
    shapes = {k: x.shape if chained else (1, *x.shape) for k, x in arrays.items()}
    rows, parts = [], []
    for path, some in quantities(shapes, names):
        x = arrays[path]
        chains, n, *shape = shapes[path]
        if n < 4:
            raise ValueError(f"a summary wants at least 4 draws of each chain, not {n}")
        count = max(1, BLOCK // (chains * n))
        for start in range(some.start, some.stop, count):
            columns = range(start, min(start + count, some.stop))
            index = zip(*np.unravel_index(columns, shape)) if shape else [()]
            rows += [path + str([int(i) for i in each]) * bool(each) for each in index]
            block = columns_of(x, (chains, n), slice(columns.start, columns.stop))
            parts.append(summary_of(np.array(block.transpose(2, 0, 1), order="C")))
    return Summary(rows, {k: np.concatenate([part[k] for part in parts]) for k in parts[0]})


def columns_of(x: Any, leading: tuple[int, int], some: slice) -> np.ndarray:
    """Return some of the numbers of all draws, laid end to end: (chains, draws, numbers)."""
    if hasattr(x, "columns"):  # draws on disk
        return x.columns(some)
    return np.asarray(x).reshape(*leading, -1)[:, :, some]


def quantities(
    shapes: dict[str, tuple[int, ...]], names: Sequence[str] | None, argument: str = "names"
) -> list[tuple[str, range]]:
    """Return the paths of arrays, and for each which of the numbers in a draw are wanted.

    Errors are about `argument`.
    """
    sizes = {path: range(int(np.prod(shape[2:]))) for path, shape in shapes.items()}
    if names is None:
        return list(sizes.items())
    if isinstance(names, str) or not isinstance(names, (list, tuple)) or not names:
        raise TypeError(
            f"{argument} must be a list of names of quantities, such as {list(shapes)[:1]}, "
            f"not {checks.described(names)}"
        )
    found = []
    for name in names:
        whole = [path for path in shapes if path == name or path.startswith(f"{name}/")]
        found += [(path, sizes[path]) for path in whole] or [one_number(shapes, name, argument)]
    return found


def one_number(shapes: dict[str, tuple[int, ...]], name: str, argument: str) -> tuple[str, range]:
    """Return the path of an array and the place in it, of a quantity such as ``beta[2]``."""
    path, bracket, index = str(name).partition("[")
    if bracket and path in shapes:
        shape = shapes[path][2:]
        try:
            place = int(np.ravel_multi_index(json.loads(bracket + index), shape))
        except (TypeError, ValueError):
            raise ValueError(
                f"{argument} has {name!r}, but one draw of {path!r} has shape {shape}"
            ) from None
        return path, range(place, place + 1)
    known = {*shapes, *(path.split("/")[0] for path in shapes)}
    raise ValueError(
        f"{argument} has {name!r}, which is not among the draws{checks.nearest(name, known)}"
    )


def summary_of(x: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns of the table for draws (quantities, chains, draws); reorders these."""
    _, chains, n = x.shape
    varies = x.min(axis=(1, 2)) != x.max(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        means = x.mean(axis=2, dtype=float)
        mean, within = means.mean(axis=1), squares(x, means).mean(axis=1) / n
        between = ((means - mean[:, None]) ** 2).sum(axis=1)
        sd = np.sqrt(n * (chains * within + between) / (chains * n - 1)) * varies
        ess = np.where(varies, effective_size(x, means, within), np.nan)
        last = {"ess": ess, "mcse": sd / np.sqrt(np.maximum(ess, 1))}
        if chains > 1:
            last["r_hat"] = np.where(varies, split_r_hat(x), np.nan)
        middle = sorted_at(x.reshape(len(x), -1), np.array(QUANTILES))
    middle[:, np.isnan(mean)] = np.nan
    return {"mean": mean, "sd": sd} | {f"{q:.0%}": y for q, y in zip(QUANTILES, middle)} | last


def squares(x: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return the sums of squared deviations from the means, along the last axis."""
    step = max(1, WORK // means.size)
    parts = (x[..., t : t + step] - means[..., None] for t in range(0, x.shape[-1], step))
    return sum((part**2).sum(axis=-1) for part in parts)


def sorted_at(x: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return quantiles of each row, (shares, rows), interpolated linearly; reorders the rows."""
    at = shares * (x.shape[1] - 1)
    low, high = np.floor(at).astype(int), np.ceil(at).astype(int)
    x.partition(np.unique([low, high]), axis=1)
    below, above = x[:, low].astype(float), x[:, high].astype(float)
    return (below + (at - low) * (above - below)).T


def effective_size(x: np.ndarray, means: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Return the effective sample size of the mean of each quantity, at most N log₁₀ N.

    It is N / (1 + 2 Σ ρ_k), where ρ_k is the autocorrelation of all chains relative to their common
    mean. The sum ends at the first pair ρ_2j + ρ_2j+1 below zero (Geyer 1992; Vehtari et al. 2021,
    (10)). The bound, for antithetic chains, is that of Vehtari et al. Once this pair has been found
    for all quantities, autocovariances at larger lags are not computed.
    """
    _, chains, n = x.shape
    total = within + (means.var(axis=1, ddof=1) if chains > 1 else 0)
    time = np.where(np.isfinite(total), -1.0, np.nan)
    positive, start, count = np.isfinite(total), 0, min(FIRST_LAGS, n + n % 2)
    while start < n - 1 and positive.any():
        lags = np.arange(start, min(start + count, n - n % 2))
        left = n - lags
        covariance = lagged_products(x, means, start, count)[:, : len(lags)] / left
        rho = 1 - (within[:, None] - covariance) / total[:, None]
        pairs, weighted = (y.reshape(len(x), -1, 2).sum(axis=2) for y in (rho, rho * left / n))
        counted = np.logical_and.accumulate(pairs >= 0, axis=1) & positive[:, None]
        time += 2 * np.where(counted, weighted, 0).sum(axis=1)
        positive = counted[:, -1]
        start, count = start + count, min(2 * count, MOST_LAGS)
    N = chains * n
    return N / np.maximum(time, 1 / np.log10(N))


def lagged_products(x: np.ndarray, means: np.ndarray, start: int, count: int) -> np.ndarray:
    """Compute Σ_t (x_t − mean)(x_t+k − mean), averaged over chains, for lags k from `start` on.

    It takes Fourier transforms of pieces of the chains, which are twice as long as there are lags.
    """
    size, (_, chains, n) = 2 * count, x.shape
    some, few = max(1, WORK // (size * chains)), max(1, WORK // size)
    found = np.empty((len(x), count))
    for i in range(0, len(x), some):
        spectrum = 0
        for c in range(0, chains, few):
            part, mean = x[i : i + some, c : c + few], means[i : i + some, c : c + few, None]
            for t in range(0, n - start, count):
                early, late = (
                    part[..., s : s + m] - mean for s, m in ((t, count), (t + start, size))
                )
                product = np.conj(np.fft.rfft(early, size)) * np.fft.rfft(late, size)
                spectrum = spectrum + product.sum(axis=1)
        found[i : i + some] = np.fft.irfft(spectrum, size)[:, :count] / chains
    return found


def split_r_hat(x: np.ndarray) -> np.ndarray:
    """Compute R̂ of the halves of all chains (Brooks and Gelman 1998)."""
    m, n = 2 * x.shape[1], x.shape[2] // 2
    halves = x[..., :n], x[..., n : 2 * n]
    means = [half.mean(axis=2, dtype=float) for half in halves]
    within = np.concatenate([squares(*each) for each in zip(halves, means)], axis=1).mean(axis=1)
    within = within / (n - 1)
    between = np.concatenate(means, axis=1).var(axis=1, ddof=1)
    total = (n - 1) / n * within + between
    return np.sqrt((m + 1) / m * total / within - (n - 1) / (m * n))
