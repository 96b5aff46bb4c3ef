"""Tables and plots of what was measured."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import cluster_report
from .peers import ENTRIES, SIDE_BY_SIDE
from .problems import KINDS
from .scaling import GAUSSIAN_ROWS, METHODS, chosen
from .tables import grid, number, where, with_spread

TITLES: dict[str, tuple[str, str]] = {  # of the curves against N, n, d and the number of chains
    "rows": ("rows of data N (10 columns, minibatches of 500)", "µs a step"),
    "minibatch": ("minibatch size n (N = 581,012, d = 54)", "µs a step"),
    "width": ("parameters d (N = 100,000, n = 500)", "µs a step"),
    "chains": ("chains (N = 581,012, d = 54, n = 500)", "µs a step of one chain"),
}
EVERYONE = [name for name, entry in ENTRIES.items() if len(entry.problems) == 3]
SPECIALS = [name for name in ENTRIES if name not in EVERYONE]


def peers(result: dict) -> str:
    """Microseconds a step, the checks, and the ratios of the targets."""
    parts = [where(result)]
    for problem in dict.fromkeys(key.split()[0] for key in result["step"]):
        kinds = [key.split()[1] for key in result["step"] if key.startswith(problem)]
        rows = []
        for name in EVERYONE:
            cells = [cell(result, f"{problem} {kind}", name) for kind in kinds]
            if any(cells):
                rows.append([name, *cells])
        parts.append(f"**{problem}**, µs a step\n\n{grid(['', *kinds], rows)}")
    if "P1 sgld" in result["step"]:
        rows = [[name, cell(result, "P1 sgld", name)] for name in SPECIALS]
        parts.append(f"**P1 sgld**, beside the limit and variants\n\n{grid(['', 'sgld'], rows)}")
        parts.append("**Ratios** of these medians\n\n" + targets(result))
    if "side by side" in result:
        rows = [
            [name, number(1e6 * alone), number(1e6 * both), f"{both / alone:.2f}"]
            for name in SIDE_BY_SIDE
            for alone, both in [
                (median(result, "P1 sgld", name), result["side by side"][name]["median"])
            ]
        ]
        head = ["P1 sgld, µs a step", "alone", "two processes at once, each", "ratio"]
        parts.append(grid(head, rows))
    versions = "\n".join(
        f"- {name}: " + ", ".join(f"{k} {v}" for k, v in found.items())
        for name, found in result["versions"].items()
    )
    parts.append("Versions\n\n" + versions)
    return "\n\n".join(parts)


def cell(result: dict, key: str, name: str) -> str:
    """The time, marked where the draws are wrong."""
    check = result["check"].get(key, {}).get(name)
    if check is None:
        return ""
    if "failed" in check:
        return "fails"
    wrong = f", **wrong**: variance × {check['ratio']:.2f}" if check["wrong"] else ""
    return with_spread(result["step"][key].get(name), 1e6) + wrong


def median(result: dict, key: str, name: str) -> float:
    """Seconds a step, NaN where there is none."""
    return result["step"].get(key, {}).get(name, {}).get("median", np.nan)


def targets(result: dict) -> str:
    """What the design asks for."""
    old, new = "SGMCMCJax, JAX 0.4.13", "SGMCMCJax, JAX 0.10.2"
    wanted: list[tuple[str, str, str, str, float]] = []
    for kind in ("sgld", "sgnht"):
        key = f"P1 {kind}"
        wanted += [
            (key, "sgmcmc", "P1 sgld", "C loop", 1.6),
            (key, "sgmcmc", key, old, 1.1),
            (key, "sgmcmc", key, "BlackJAX", 0.45),
            (key, "sgmcmc", key, new, 0.45),
        ]
    wanted.append(("P1 sghmc", "sgmcmc", "P1 sghmc", old, 1.2))
    wanted += [(f"P1 {kind}cv", "sgmcmc", f"P1 {kind}", "sgmcmc", 1.4) for kind in KINDS]
    wanted += [
        ("P2 sgld", "sgmcmc", "P2 sgld", old, 1.05),
        ("P2 sgld", "sgmcmc", "P2 sgld", "BlackJAX", 0.4),
        ("P3 sgld", "sgmcmc", "P3 sgld", "BlackJAX", 0.95),
        ("P3 sgldcv", "sgmcmc", "P3 sgldcv", "BlackJAX", 0.95),
        ("P3 sgld", "sgmcmc", "P3 sgld", old, 0.6),
        ("P1 sgld", "sgmcmc without XLA", "P1 sgld", "C loop", 2.5),
        ("P1 sgld", "sgmcmc on one core", "P1 sgld", old, 1.25),
    ]
    rows = []
    for key, name, key_of, other, most in wanted:
        ratio = median(result, key, name) / median(result, key_of, other)
        held = "yes" if ratio <= most else "no"
        rows.append([f"{key}: {name} ÷ {key_of}: {other}", f"{ratio:.2f}", f"{most}", held])
    if "side by side" in result:
        both = result["side by side"]
        ratio = both["sgmcmc on one core"]["median"] / both[old]["median"]
        held = "yes" if ratio <= 1.3 else "no"
        label = f"P1 sgld, two processes at once: sgmcmc on one core ÷ {old}"
        rows.append([label, f"{ratio:.2f}", "1.3", held])
    return grid(["", "measured", "at most", "holds"], rows)


def first_call(result: dict) -> str:
    """Seconds to the end of the first 10,000 steps, and of the import."""
    names = dict.fromkeys(key.split(" | ")[1] for key in result["first call"])
    kinds = list(dict.fromkeys(key.split(" | ")[0] for key in result["first call"]))
    rows = [
        [
            name,
            *(with_spread(result["first call"].get(f"{kind} | {name}"), 1) for kind in kinds),
            with_spread(result["import"].get(name), 1),
        ]
        for name in names
    ]
    head = ["seconds", *(f"P1 {kind}" for kind in kinds), "import, not included"]
    return f"{where(result)}\n\n{grid(head, rows)}"


def memory(result: dict) -> str:
    """Megabytes above import, data and draws."""
    rows = [
        [*key.split(" | "), found["failed"]]
        if "failed" in found
        else [
            *key.split(" | "),
            number(found["median"] / 1e6),
            number(found["data"] / 1e6),
            number(found["draws"] / 1e6),
        ]
        for key, found in result["memory"].items()
    ]
    head = ["", "", "MB above import, data and draws", "data in memory", "draws"]
    return f"{where(result)}\n\n{grid(head, rows)}"


def scaling(result: dict) -> str:
    """The ends of the curves; the plots show the rest."""
    rows = []
    for what, curves in result["curves"].items():
        if what not in TITLES:
            continue
        for name, curve in curves.items():
            x, y = chosen(curve)
            rows.append([what, name, f"{x[0]:,}", number(y[0]), f"{x[-1]:,}", number(y[-1])])
            rows[-1].append(f"{y[-1] / y[0]:.2f}")
    table = grid(["", "", "from", "µs", "to", "µs", "ratio"], rows)
    where_rows_are = result["curves"]["ten million rows of 54"]
    first = where_rows_are["in memory"][0][1]["median"]
    rows = [
        [name, with_spread(curve[0][1], 1e6), f"{curve[0][1]['median'] / first:.2f}"]
        for name, curve in where_rows_are.items()
    ]
    table += "\n\n" + grid(["10,000,000 rows of 54", "µs", "ratio"], rows)
    head, errors = ["N", *METHODS], []
    for N in GAUSSIAN_ROWS:
        found = [result["error"].get(f"{method} | {N}") for method in METHODS]
        if all(found):
            cells = (
                f"{x['seconds']['median']:.2f} s, KL {x['kl']['median']:.2g}" for x in found if x
            )
            errors.append([f"{N:,}", *cells])
    return f"{where(result)}\n\n{table}\n\n{grid(head, errors)}"


def simplex(result: dict) -> str:
    """Transitions, expected counts and perplexities, with the ratios of the targets."""
    rows = [
        [
            name,
            *(with_spread(found[who], 1e6) for who in ("sgmcmc", "NumPy")),
            *held(found["sgmcmc"]["median"] / found["NumPy"]["median"], found["at most"]),
        ]
        for name, found in result["transition"].items()
    ]
    head = ["components, µs a transition", "sgmcmc", "NumPy", "ratio", "at most", "holds"]
    parts = [where(result), grid(head, rows)]
    if "expectations" in result:
        parts.append(expectations(result["expectations"]))
    if "perplexity" in result:
        parts.append(perplexity(result["perplexity"]))
    parts.append(", ".join(f"{name} {version}" for name, version in result["versions"].items()))
    return "\n\n".join(parts)


def expectations(found: dict) -> str:
    """Milliseconds and errors beside those of the C loop."""
    most = {"sgmcmc | 100 + 100 sweeps": 2.5, "sgmcmc | 20 + 40 sweeps": 0.9}
    limit = found["C loop | 100 + 100 sweeps"]["seconds"]["median"]
    rows = [
        [
            *key.split(" | "),
            with_spread(x["seconds"], 1e3),
            f"{number(x['error'])} ±{100 * x['error of error']:.0f} %",
            *held(x["seconds"]["median"] / limit, most.get(key)),
        ]
        for key, x in found.items()
    ]
    head = ["", "", "ms a minibatch", "RMS error", "÷ C loop, 100 + 100", "at most", "holds"]
    return grid(head, rows)


def perplexity(found: dict) -> str:
    """Perplexities beside that of the collapsed sampler; the target is for the best of ours."""
    (_, reference), *ours = found.items()
    best = min(ours, key=lambda item: item[1]["perplexity"])[0]
    rows = [
        [
            name,
            f"{x['draws']}",
            number(x["seconds"]),
            f"{x['perplexity']:,.1f}",
            *held(x["perplexity"] / reference["perplexity"], 1.03 if name == best else None),
        ]
        for name, x in found.items()
    ]
    head = ["", "draws", "seconds", "perplexity", "÷ collapsed", "at most", "holds"]
    settings = "\n".join(f"- {name}: `{x['settings']}`" for name, x in found.items())
    return f"{grid(head, rows)}\n\n{settings}"


def held(ratio: float, most: float | None) -> list[str]:
    """A ratio, its target if there is one, and whether it holds."""
    if most is None:
        return [f"{ratio:.3f}", "", ""]
    return [f"{ratio:.3f}", f"{most}", "yes" if ratio <= most else "no"]


def bias(result: dict) -> str:
    """Variances over those of the posterior, and effective draws a second."""
    parts = [where(result)]
    for title in dict.fromkeys(key.split(" | ")[0] for key in result["bias"]):
        rows = []
        for key, x in result["bias"].items():
            if key.startswith(f"{title} | "):
                draws = number(x["effective draws a second"])
                if "mean" in x:
                    spread = f"{x['low']:.3f} to {x['high']:.3f} ± {x['error of one']:.3f}"
                    promised = x["promised"]
                    said = f"{promised[0]:.3f} to {promised[2]:.3f}"
                    cells = [said, f"{x['mean']:.3f}", spread, f"{x['kept']} of {x['of']}"]
                else:
                    cells = ["", "", "", ""]
                rows.append([key.split(" | ")[1], draws, *cells])
        head = [title, "effective draws/s", "promised", "mean", "directions", "shown"]
        parts.append(grid(head, rows))
    return "\n\n".join(parts)


def manifold(result: dict) -> str:
    """µs a step, and the ratio to SGHMC of the same size."""
    found, rows = result["manifold"], []
    for key, x in found.items():
        size, name = key.split(" | ")
        ratio = x["median"] / found[f"{size} | sghmc"]["median"]
        rows.append([size, name, with_spread(x, 1e6), f"{ratio:.2f}"])
    return f"{where(result)}\n\n{grid(['', '', 'µs a step', '÷ sghmc'], rows)}"


def variance(result: dict) -> str:
    """µs a step with the ratios of the targets, and iterations for an effective draw."""
    steps = result["step"]
    by, hmc = "control variates", "sghmc, noise_estimate"
    wanted: list[tuple[str, str, float | None]] = [
        ("SVRG", by, 1.3),
        ("SAGA", "sgld", 2),
        (hmc, "sghmc, reshuffled minibatches", 3),
        (hmc, "sghmc, independent minibatches", 3),
        (f"{by}, leverage", by, None),
    ]
    ratios = [
        [f"{a} ÷ {b}", *held(steps[a]["median"] / steps[b]["median"], most)]
        for a, b, most in wanted
    ]
    rows = [
        [*key.split(" | "), number(x["iterations"]), number(x["noise"])]
        for key, x in result["draws"].items()
    ]
    parts = [
        where(result),
        grid(["P1, µs a step", ""], [[name, with_spread(x, 1e6)] for name, x in steps.items()]),
        grid(["", "measured", "at most", "holds"], ratios),
        grid(["cover types", "minibatches", "iterations a draw", "largest noise"], rows),
    ]
    return "\n\n".join(parts)


TABLES: dict[str, Callable[[dict], str]] = {
    "peers": peers,
    "scaling": scaling,
    "memory": memory,
    "first-call": first_call,
    "simplex": simplex,
    "bias": bias,
    "manifold": manifold,
    "variance": variance,
    "cluster": cluster_report.measured,
    "cluster-simulated": cluster_report.simulated,
}


def filled(page: str, results: dict[str, dict]) -> str:
    """The page with its tables between the marks of each."""
    if "cluster" in results:
        results = {**results, "cluster-simulated": results["cluster"]}
    for name, result in results.items():
        table = f"<!-- {name} -->\n\n{TABLES[name](result)}\n\n<!-- end -->"
        page = re.sub(f"<!-- {name} -->.*?<!-- end -->", lambda _, t=table: t, page, flags=re.S)
    return page


def plots(result: dict, folder: Path) -> None:
    """Two pictures."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    def plain_logarithms(axis: Any) -> None:
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())

    figure, axes = plt.subplots(2, 2, figsize=(10, 7.5), constrained_layout=True)
    curves_of = {what: result["curves"][what] for what in TITLES}
    for axis, (what, curves) in zip(axes.flat, curves_of.items()):
        for (name, curve), mark in zip(curves.items(), ("o-", "s--", "^:")):
            axis.plot(*chosen(curve), mark, label=name)
        top = max(chosen(curve)[1].max() for curve in curves.values())
        axis.set(xlabel=TITLES[what][0], ylabel=TITLES[what][1], xscale="log")
        if what in ("minibatch", "width"):
            plain_logarithms(axis)
        else:
            axis.set_ylim(0, 1.15 * top)
        axis.grid(alpha=0.3, which="both")
        axis.legend(frameon=False)
    figure.suptitle("Cost of a step, logistic regression")
    figure.savefig(folder / "scaling.png", dpi=110)
    plt.close(figure)

    names: dict[str, Any] = {"sgld": "sgld", "sgldcv": "sgldcv", "nuts": "NUTS (TFP)"}
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    for method, mark in zip(METHODS, ("o-", "s--", "^:")):
        found = [result["error"][f"{method} | {N}"] for N in GAUSSIAN_ROWS]
        for axis, key in zip(axes, ("seconds", "kl")):
            low, middle, high = (
                np.array([x[key][k] for x in found]) for k in ("low", "median", "high")
            )
            axis.errorbar(
                GAUSSIAN_ROWS, middle, [middle - low, high - middle], fmt=mark, label=names[method]
            )
    for axis, label in zip(axes, ("run time, s (set-up included)", "KL to the exact posterior")):
        axis.set(xlabel="rows of data N", ylabel=label, xscale="log")
        plain_logarithms(axis)
        axis.grid(alpha=0.3, which="both")
    axes[0].legend(frameon=False)
    figure.suptitle("Gaussian data: median and range of 5 runs")
    figure.savefig(folder / "error.png", dpi=110)
    plt.close(figure)
