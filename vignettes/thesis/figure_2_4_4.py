# %% [markdown]
# # Figure 2.4.4: Gaussians of many dimensions
#
# The mean $\theta$ of Gaussian data with known covariance $\Sigma$, 800 observations, under a flat
# prior. Divide and conquer cuts them into 20 shards of 40. The thesis does not say what $\Sigma$
# is, nor which dimensions it has. We take $\Sigma_{ij} = .5^{|i - j|}$ and 2 to 50 dimensions.
#
# The posterior and the subposteriors are Gaussian, so we draw from them exactly.

# %%
import divide
import matplotlib.pyplot as plt
import numpy as np
import setting
import tensorflow as tf
from divide import REPEATS, M, Problem, W
from setting import COLOURS, QUICK

N = 60 if QUICK else 800
DIMENSIONS = (2, 5) if QUICK else (2, 5, 10, 20, 50)


def posed(p):
    """The problem in p dimensions, with the exact mean and covariance of the posterior."""
    covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    root, precision = np.linalg.cholesky(covariance), np.linalg.inv(covariance)
    rng = np.random.default_rng(p)
    X = rng.standard_normal((N, p)) @ root.T

    def log_lik(params, data):
        away = data["X"] - params["theta"]
        return -tf.reduce_sum((away @ tf.constant(precision, away.dtype)) * away) / 2

    def shards(repeats, seed):
        z = np.random.default_rng(seed).standard_normal((repeats, W, M, p))
        means = np.array(np.split(X, W)).mean(axis=1)
        return means[:, None] + z @ root.T / np.sqrt(N / W)

    step = np.array([0.01, 0.03, 0.1, 0.3, 1]) / (N * np.linalg.eigvalsh(precision)[-1])
    problem = Problem(
        log_lik=log_lik,
        log_prior=None,
        dataset={"X": X},
        start=X.mean(axis=0),
        truth=X.mean(axis=0) + rng.standard_normal((4 * M, p)) @ root.T / np.sqrt(N),
        shards=shards,
        stepsizes={"sgld": step, "sghmc": step / 30, "sgldcv": step},
    )
    return problem, X.mean(axis=0), covariance / N


# %% [markdown]
# ## Two divergences
#
# The thesis tunes and shows the nearest-neighbour estimate. In many dimensions it is biased, as
# neighbours are far away: it is below 0 for draws that are too wide. So we tune by the divergence
# of a Gaussian with the mean and the covariance of the draws, which has a closed form, and show
# both. Exact draws are shown beside them: what they have is the error of 2,000 draws.


# %%
def of_gaussians(draws, mean, covariance):
    """KL(N(mean of draws, their covariance) ‖ N(mean, covariance))."""
    away = draws.mean(axis=0) - mean
    ratio = np.linalg.solve(covariance, np.cov(draws.T))
    squared = away @ np.linalg.solve(covariance, away)
    return 0.5 * (np.trace(ratio) - len(mean) + squared - np.linalg.slogdet(ratio)[1])


lines = {}
for p in DIMENSIONS:
    problem, mean, covariance = posed(p)
    found = divide.compared(problem, lambda x, _: of_gaussians(x, mean, covariance))  # noqa: B023
    print(f"\n{p} dimensions, KL of Gaussians")
    divide.report(found)
    reference = problem.truth[:-M], problem.truth[-M:]
    found["exact draws"] = found["exact draws"]._replace(draws=[reference[1]])
    for name, each in found.items():
        near = np.median([divide.divergence(x, reference[0]) for x in each.draws])
        lines.setdefault(name, []).append([near, np.median(each.divergences)])

print("\nKL by nearest neighbours, median")
setting.table(
    ["method", *map(str, DIMENSIONS)],
    [[name, *(f"{near:.3f}" for near, _ in line)] for name, line in lines.items()],
)

# %% [markdown]
# ## The picture

# %%
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), sharex=True)
for name, line in lines.items():
    look = {"ls": "--", "zorder": 0} if name == "exact draws" else {"marker": "o", "ms": 4}
    for axis, values in zip(axes, np.transpose(line)):
        axis.plot(DIMENSIONS, values, color=COLOURS[name], label=name, **look)
axes[0].set(ylabel=f"KL by nearest neighbours, median of {REPEATS}", xscale="log")
axes[0].set_yscale("symlog", linthresh=0.1)
axes[1].set(ylabel=f"KL of Gaussians, median of {REPEATS}", yscale="log")
for axis in axes:
    axis.set_xlabel("dimensions")
    axis.set_xticks(DIMENSIONS, map(str, DIMENSIONS))
    axis.minorticks_off()
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
setting.save(figure, "figure_2_4_4")
