"""Shared by the figures of section 2.4.2: divide and conquer beside stochastic gradients."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import setting
import sgmcmc
from setting import COLOURS, QUICK
from sgmcmc import combine

W = 3 if QUICK else 20  # shards
REPEATS = 2 if QUICK else 10
M = 60 if QUICK else 2_000  # draws of each method
NEIGHBOUR = 10  # as in FNN, the thesis's R package
COMBINED = {  # what is tried for each method, one is chosen
    "consensus": {},
    "Gaussian product": {},
    "kernels": {"bandwidth": (0.05, 0.1, 0.2, 0.4, 0.8)},
    "semiparametric": {"bandwidth": (0.05, 0.1, 0.2, 0.4, 0.8)},
    "Weierstrass": {"acceptance": (0.01, 0.03, 0.1, 0.3)},
}
METHODS = {
    "consensus": lambda parts, seed: combine.consensus(parts),
    "Gaussian product": lambda parts, seed: combine.gaussian_product(parts, seed=seed),
    "kernels": combine.kde_product,
    "semiparametric": partial(combine.kde_product, semiparametric=True),
    "Weierstrass": combine.weierstrass,
}
COLOURS |= {
    "consensus": "#009E73",
    "Gaussian product": "#999999",
    "kernels": "#CC79A7",
    "semiparametric": "#882255",
    "Weierstrass": "#0072B2",
    "exact draws": COLOURS["NUTS"],
}


class Problem(NamedTuple):
    """A posterior, as the samplers need it, and draws from it and from its subposteriors."""

    log_lik: Callable
    log_prior: Callable | None
    dataset: dict
    start: np.ndarray
    truth: np.ndarray  # (many draws, p)
    shards: Callable  # of a number of repeats and a seed: (repeats, W, M, p)
    stepsizes: dict  # those to try, by sampler
    mode: np.ndarray | None = None  # the centre of control variates; it is searched for if None


class Found(NamedTuple):
    """The draws of a method in each repeat, how far they are from the truth, and its setting."""

    draws: Any
    divergences: list
    chosen: str


def divergence(draws, truth):
    return sgmcmc.kl_divergence(np.unique(draws, axis=0), truth, k=NEIGHBOUR)


def compared(problem, divergence=divergence):
    """Run all methods, with the setting that is best in two repeats of their own."""
    tuning, judged = problem.shards(2, 1), problem.shards(REPEATS, 2)
    found = {name: combined(problem, name, tuning, judged, divergence) for name in COMBINED}
    for name in problem.stepsizes:
        found[name] = sampled(problem, name, divergence)
    rng = np.random.default_rng(3)
    orders = [rng.permutation(problem.truth) for _ in judged]
    divergences = [divergence(x[:M], x[M:]) for x in orders]
    found["exact draws"] = Found([x[:M] for x in orders], divergences, "")
    return found


def judge(draws, problem, chosen, divergence):
    return Found(draws, [divergence(x, problem.truth) for x in draws], chosen)


def combined(problem, name, tuning, judged, divergence):
    """Combine subposterior draws, with the best of the settings to try."""

    def run(repeats, settings, seed):
        parts = [[{"theta": x} for x in repeat] for repeat in repeats]
        draws = [METHODS[name](p, seed=seed + i, **settings)["theta"] for i, p in enumerate(parts)]
        chosen = ", ".join(f"{k} {v:g}" for k, v in settings.items())
        return judge(draws, problem, chosen, divergence)

    tried = [{k: v} for k, values in COMBINED[name].items() for v in values] or [{}]
    scores = [np.mean(run(tuning, settings, 100).divergences) for settings in tried]
    best = tried[int(np.argmin(scores))]
    return run(judged, best, 200)


def sampled(problem, name, divergence):
    """Run a sampler, a chain for each repeat, with the best of the step sizes to try."""

    def run(chains, stepsize, seed):
        own = {"L": 3, "resample_momentum": True} if name == "sghmc" else {}  # as in the thesis
        if name == "sgldcv" and problem.mode is not None:
            own = {"mode": {"theta": problem.mode}}
        try:
            draws = setting.sampler(name)(
                log_lik=problem.log_lik,
                dataset=problem.dataset,
                params={"theta": problem.start},
                stepsize=stepsize,
                log_prior=problem.log_prior,
                minibatch_size=10 if QUICK else 50,
                n_iters=5 * M,
                burn_in=0 if name == "sgldcv" else 5 * M,
                thin=5,
                n_chains=chains,
                seed=seed,
                **own,
            )["theta"]
        except sgmcmc.ChainDiverged:
            return Found([], [np.inf], "diverged")
        return judge(list(draws), problem, f"ε = {stepsize:.2g}", divergence)

    tried = problem.stepsizes[name][: 1 if QUICK else None]
    scores = [np.mean(run(2, h, 1).divergences) for h in tried]
    best = tried[int(np.argmin(scores))]
    return run(REPEATS, best, 2)


def report(found):
    """Print a table of all methods."""
    setting.table(
        ["method", "setting", "KL from the truth"],
        [[name, each.chosen, setting.spread(each.divergences)] for name, each in found.items()],
    )


PANELS = ("consensus", "kernels", "Weierstrass", "sgld", "sghmc", "sgldcv")


def picture(found, name, contours, labels, limits, columns=(0, 1)):
    """Draw one repeat of six methods over the truth's contours, and box plots of all repeats.

    `contours` draws them on an axis. Points are the draws at two `columns`.
    """
    figure = plt.figure(figsize=(9.5, 8.5))
    above, below = figure.subfigures(2, 1, height_ratios=(2.4, 1))
    axes = above.subplots(2, 3, sharex=True, sharey=True)
    for axis, method in zip(axes.flat, PANELS):
        points = found[method].draws[0][:, list(columns)]
        axis.plot(*points.T, ".", ms=2, alpha=0.35, color=COLOURS[method], rasterized=True)
        contours(axis)
        axis.set(xlim=limits[0], ylim=limits[1])
        axis.locator_params(nbins=5)
        median = np.median(found[method].divergences)
        axis.set_title(f"{method} (KL {median:.2f})", fontsize=10)
    above.supxlabel(labels[0], fontsize=10)
    above.supylabel(labels[1], fontsize=10)
    boxes(below.subplots(), found)
    setting.save(figure, name)


def boxes(axis, found):
    """Draw box plots of the divergences in all repeats."""
    names = list(found)[::-1]
    drawn = axis.boxplot(
        [found[name].divergences for name in names],
        orientation="horizontal",
        widths=0.6,
        patch_artist=True,
        medianprops={"color": "black"},
    )
    for patch, name in zip(drawn["boxes"], names):
        patch.set(facecolor=COLOURS[name], alpha=0.7)
    axis.set_yticks(range(1, len(names) + 1), names)
    divergences = np.concatenate([each.divergences for each in found.values()])
    axis.set_xscale("symlog", linthresh=0.1)
    axis.set_xticks([0, 0.05, 0.1, 0.3, 1, 3, 10], ["0", "0.05", "0.1", "0.3", "1", "3", "10"])
    axis.set_xlim(min(-0.05, 1.3 * divergences.min()), 1.3 * max(0.1, divergences.max()))
    axis.set_xlabel(f"Kullback-Leibler divergence from the truth, {REPEATS} repeats")


def levels(density):
    """Return the levels of a density on a grid that bound 95, 80, 50 and 20 % of it."""
    falling = np.sort(density.ravel())[::-1]
    held = np.cumsum(falling) / falling.sum()
    return [falling[np.searchsorted(held, share)] for share in (0.95, 0.8, 0.5, 0.2)]
