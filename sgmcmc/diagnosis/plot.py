"""The picture of a diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tree

if TYPE_CHECKING:
    from .report import Diagnosis

TRACES, BARS, POINTS = 3, 20, 2000


def figure(of: Diagnosis) -> Any:
    """Draw traces, the noise and width of coordinates, and temperatures."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install 'sgmcmc[plot]'") from error
    x, stats = of.traces["x"], of.traces["stats"]
    temperatures = stats.get("temperature")
    bars = [k for k in ("noise", "width") if k in of]
    slowest = np.argsort(np.nan_to_num(of["ess"], nan=0.0), kind="stable")[:TRACES]
    rows = len(slowest) + bool(bars) + (temperatures is not None)
    made = Figure(figsize=(10, 1.9 * rows + 1 * bool(bars)), layout="constrained")
    heights = [1.0] * len(slowest) + [1.6] * bool(bars) + [1.0] * (temperatures is not None)
    grid = made.add_gridspec(rows, max(1, len(bars)), height_ratios=heights)
    every = -(-x.shape[1] // POINTS)
    at = np.arange(0, x.shape[1], every)
    for row, j in enumerate(slowest):
        axes = made.add_subplot(grid[row, :])
        for chain in x[:8]:
            axes.plot(at, chain[at, j], lw=0.6)
        axes.set_ylabel(of.names[j])
        axes.set_title(f"ess {of['ess'][j]:,.0f}", loc="right", fontsize=9)
        if row == 0:
            axes.set_title("Traces of the slowest coordinates", loc="left", fontsize=10)
        axes.margins(x=0)
    axes.set_xlabel("draw")
    for column, name in enumerate(bars):
        bar(of, made.add_subplot(grid[len(slowest), column]), name)
    if temperatures is not None:
        axes = made.add_subplot(grid[-1, :])
        chained = of.traces["chained"]
        for name, T in zip(tree.names(temperatures), tree.leaves(temperatures)):
            T = np.atleast_2d(T).mean(axis=0) if chained else np.asarray(T)
            width = max(1, len(T) // 100)
            smooth = T[: len(T) // width * width].reshape(-1, width).mean(axis=1)
            (line,) = axes.plot(width * (np.arange(len(smooth)) + 0.5), smooth, lw=1, label=name)
            right = of.overall.get("temperature_expected", {}).get(name)
            if right is not None:
                axes.axhline(right, color=line.get_color(), ls=":", lw=1)
        axes.set_title("Temperature (dotted: of right draws)", loc="left", fontsize=10)
        axes.legend(fontsize=8, ncols=4, loc="upper right")
        axes.set_xlabel("draw")
        axes.margins(x=0)
    return made


def bar(of: Diagnosis, axes: Any, name: str) -> None:
    """The share of noise, or the width, of the coordinates where it is worst."""
    values = of[name]
    order = np.sort(np.argsort(-np.abs(values - (name == "width")))[:BARS])
    place = np.arange(len(order))[::-1]
    if name == "noise":
        axes.barh(place, values[order], color="tab:orange", height=0.6)
        axes.set_xlim(0, 1)
        title = "Share of the gradient that is noise"
    else:
        error = 2 * of["width_error"][order]
        axes.errorbar(values[order], place, xerr=error, fmt="o", ms=4, label="measured, ± 2 s.e.")
        if "expected" in of:
            axes.plot(of["expected"][order], place, "x", color="tab:red", label="by step and noise")
        axes.axvline(1, color="black", lw=0.8, ls=":")
        axes.legend(fontsize=8)
        title = "Variance over the posterior's"
    axes.set_yticks(place, [of.names[i] for i in order], fontsize=8)
    axes.set_ylim(-0.7, len(order) - 0.3)
    more = len(values) - len(order)
    axes.set_title(
        title + (f" (the {len(order)} farthest)" if more else ""), loc="left", fontsize=10
    )
