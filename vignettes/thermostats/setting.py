"""Shared by the figures: data, densities, tables, and the style of pictures."""

import io
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # tiny: the tests run all this in seconds
N_CHAINS = 2 if QUICK else 16
DATA = np.random.default_rng(42).normal(size=100)  # of the Gaussian examples
SETTINGS = [(0.001, 1), (0.001, 10), (0.01, 1), (0.01, 10)]  # the paper's h and A
COLOURS = dict(zip(SETTINGS, ("#56B4E9", "#0072B2", "#E69F00", "#D55E00")))

plt.style.use(Path(__file__).parents[1] / "figures.mplstyle")


def histogram(draws, edges):
    """Return the density of draws in bins, as a share of all draws."""
    counts, _ = np.histogram(draws, edges)
    return counts / draws.size / np.diff(edges)


def middle(edges):
    return (edges[1:] + edges[:-1]) / 2


def table(head, rows):
    """Print a Markdown table."""
    print(f"\n| {' | '.join(head)} |\n|---|{'---:|' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    print(flush=True)


def save(figure, name):
    """Write the picture beside this file; a quick run draws it but does not keep it."""
    figure.savefig(io.BytesIO() if QUICK else Path(__file__).parent / f"{name}.png", format="png")
    plt.close(figure)
