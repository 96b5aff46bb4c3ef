"""Tables and the picture of what was measured on a cluster, and simulated."""

from __future__ import annotations

from pathlib import Path

from .tables import grid, number, where, with_spread

MEANING = {
    "workers": "workers, of one core each",
    "rows": "rows",
    "width": "columns and parameters, of 4 bytes",
    "step": "s a step",
    "kept": "steps for each draw that is kept",
    "latency": "s for a message",
    "bandwidth": "bytes a second that reach the client",
    "task": "s of the scheduler for each task, one at a time",
    "answer": "s of the client for each round, one at a time",
    "straggling": "sd of log(time of a round), which is lognormal",
    "lost": "s until a worker is lost, on average (exponential)",
    "load": "s until another one has loaded its shards",
    "read": "bytes a second in a pass of a worker over its rows",
    "passes": "passes over all rows until the mode and the step size are known",
}


def measured(result: dict) -> str:
    """Effective draws a second, the overhead of a round and the memory of a worker."""
    rates = result["speed"]
    rows = [
        [kind, *(with_spread(rates[name][kind], 1) for name in rates)]
        for kind in ("while chains run", "whole call")
    ]
    for row in rows:
        ratio = rates["two workers"][row[0]]["median"] / rates["alone"][row[0]]["median"]
        row += [f"{ratio:.2f}"]
    parts = [where(result), grid(["effective draws a second", *rates, "ratio"], rows)]
    ratio = rates["two workers"]["while chains run"]["median"]
    ratio /= rates["alone"]["while chains run"]["median"]
    overhead = 100 * result["overhead"]["median"]
    beyond = max(x["above"] - x["own"] for x in result["memory"]) / 1e6
    wanted = [
        ["two workers ÷ alone", f"{ratio:.2f}", "at least 1.8", ratio >= 1.8],
        ["overhead of a round of one second, %", number(overhead), "at most 5", overhead <= 5],
        ["memory of a worker beyond its shards, MB", number(beyond), "at most 200", beyond <= 200],
    ]
    rows = [[*row[:3], "yes" if row[3] else "no"] for row in wanted]
    parts.append(grid(["", "measured", "wanted", "holds"], rows))
    head = ["memory, MB", "above imports", "half of the rows"]
    rows = [
        [f"worker {i}", megabytes(x["above"]), megabytes(x["own"])]
        for i, x in enumerate(result["memory"], 1)
    ]
    parts.append(grid(head, rows))
    return "\n\n".join(parts)


def megabytes(x: float) -> str:
    """Bytes, in MB."""
    return number(x / 1e6)


def simulated(result: dict) -> str:
    """What was assumed, the utilisation, and the time of the search."""
    found = result["simulated"]
    assumed = found["assumed"]
    rows = [[MEANING[name], f"{x:,g}"] for name, x in assumed.items()]
    parts = [grid(["assumed", ""], rows)]
    lengths = [length for length, _ in next(iter(found["curves"].values()))]
    rows = [[name, *(f"{y:.2f}" for _, y in curve)] for name, curve in found["curves"].items()]
    head = ["steps ÷ those of workers that never wait, by s a round", *(f"{s:g}" for s in lengths)]
    parts.append(grid(head, rows))
    each = 4 * assumed["width"] * assumed["rows"] / assumed["workers"] / 1e9
    parts.append(
        f"The mode and the step size are found after {found['search']:.0f} s. A worker reads "
        f"{each:.1f} GB in each pass, and all wait for the slowest."
    )
    return "\n\n".join(parts)


def plot(result: dict, folder: Path) -> None:
    """One picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 4.2), constrained_layout=True)
    for name, curve in result["curves"].items():
        style = "--" if "no worker" in name else "o-"
        colour = "black" if "no worker" in name else None
        axis.plot(*zip(*curve), style, color=colour, label=name)
    lengths = [length for length, _ in next(iter(result["curves"].values()))]
    axis.set_xscale("log")
    axis.set_xticks(lengths, [f"{s:g}" for s in lengths])
    axis.minorticks_off()
    axis.set(ylim=(0, 1), xlabel="seconds of a round")
    axis.set(ylabel="steps ÷ those of workers that never wait")
    axis.grid(alpha=0.3)
    handles, labels = axis.get_legend_handles_labels()
    axis.legend(handles[::-1], labels[::-1], frameon=False, fontsize=9, loc="upper left", ncols=2)
    workers = result["assumed"]["workers"]
    axis.set_title(f"Chains on shards of {workers} workers (simulated)")
    figure.savefig(folder / "cluster.png", dpi=110)
    plt.close(figure)
