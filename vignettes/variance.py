# %% [markdown]
# # Less noise: which estimator of the gradient when
#
# A minibatch tells the gradient of the log posterior with noise, and this noise makes draws too
# wide. The package has several remedies. Three estimate the gradient with less noise:
# `ControlVariate`, `SVRG` and `SAGA`. Two leave the noise and make up for it: `noise_estimate`
# and thermostats. One works after the run: `zero_variance`. This page shows the noise along a
# run, what each remedy costs, and when it fails.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf
from scipy.optimize import minimize

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds

# %% [markdown]
# ## A posterior that is known
#
# A logistic regression with 20,000 rows and minibatches of 100. With so many rows the posterior is
# nearly Gaussian: its mean is the mode, and its covariance Σ the inverse of the curvature there.

# %%
rng = np.random.default_rng(1)
N, n, d = 20_000, 100, 6
X = rng.normal(size=(N, d))
y = (rng.random(N) < 1 / (1 + np.exp(-X @ rng.normal(size=d)))).astype(float)
dataset, params = {"X": X, "y": y}, {"beta": np.zeros(d)}


def log_lik(params, data):
    eta = tf.linalg.matvec(data["X"], params["beta"])
    return tf.reduce_sum(data["y"] * eta - tf.nn.softplus(eta))


def exact_gradient(beta):
    """Return the gradient on all rows at many points, (points, d)."""
    return (y[:, None] - 1 / (1 + np.exp(-X @ beta.T))).T @ X


def loss(beta):
    return np.logaddexp(0, X @ beta).sum() - y @ (X @ beta)


mode = minimize(loss, np.zeros(d), jac=lambda beta: -exact_gradient(beta[None])[0]).x
p = 1 / (1 + np.exp(-X @ mode))
covariance = np.linalg.inv(X.T @ (X * (p * (1 - p))[:, None]))

# %% [markdown]
# ## Noise along a run
#
# Thirty-two chains of `sgld` start far from the mode and have each its own minibatches. With
# `keep_gradients=True` the gradients that they used are kept, and their errors can be computed. The
# noise is given as s², the mean variance of the errors in coordinates in which the posterior has
# variance 1. With a step size of ε in these coordinates the draws are too wide by the factor
# (1 + εs²/4)/(1 − ε/4).

# %%
CHAINS = 4 if QUICK else 32
n_iters, stepsize = (600 if QUICK else 4_000), 1e-5
estimators = {
    "plain": "plain",
    "control variates": sgmcmc.ControlVariate(mode={"beta": mode}),
    "SVRG": sgmcmc.SVRG(every=N // n),
    "SAGA": sgmcmc.SAGA(features="X"),
}


def run(sampler, stepsize=stepsize, n_iters=n_iters, **more):
    return sampler(
        log_lik,
        dataset,
        params,
        stepsize,
        minibatch_size=n,
        n_iters=n_iters,
        n_chains=CHAINS,
        seed=1,
        verbose=False,
        **{"minibatches": "independent", **more},
    )


far = {"beta": np.tile(-mode, (CHAINS, 1))}
runs = {
    name: run(sgmcmc.sgld, gradient=gradient, starts=far, keep_gradients=True)
    for name, gradient in estimators.items()
}


def distance_and_noise(draws, iterations):
    """Return the distance from the mode in standard deviations, and s², at some iterations."""
    beta = draws["beta"][:, iterations].astype(float)
    away = beta - mode
    error = draws.stats["gradients"]["beta"][:, iterations] - np.reshape(
        exact_gradient(beta.reshape(-1, d)), beta.shape
    )
    distance = np.einsum("cti,ij,ctj->ct", away, np.linalg.inv(covariance), away) / d
    noise = np.einsum("cti,ij,ctj->ct", error, covariance, error) / d
    return np.sqrt(distance.mean(axis=0)), noise.mean(axis=0)


iterations = np.unique(np.geomspace(1, n_iters - 1, 200).astype(int))
COLOURS = dict(zip(estimators, ("#E69F00", "#D55E00", "#0072B2", "#009E73")))
figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 6.4), sharex=True, height_ratios=[1, 2])
noises = {}
for name, draws in runs.items():
    distance, noises[name] = distance_and_noise(draws, iterations)
    top.loglog(iterations, distance, color=COLOURS[name], lw=1.2)
    bottom.loglog(iterations, noises[name], color=COLOURS[name], label=name)
top.set(ylabel="distance from\nthe mode, sds")
bottom.set(xlabel="iteration", ylabel="noise of the gradient, s²")
bottom.legend()
figure.tight_layout()

# %% [markdown]
# - **Plain**: in the posterior, s² is about N/n = 200. The chains end too wide.
# - **Control variates**: the noise s² grows with the square of the distance from the centre, near
#   the centre. At this start, 60 standard deviations away, they gain nothing. In the posterior less
#   than a thousandth of the noise is left.
# - **SVRG**: there is no noise where the snapshot is. It comes back until the next snapshot, after
#   N/n iterations here. While the chain travels fast, the noise is soon more than that of plain
#   gradients.
# - **SAGA**: the table has no error where the chain starts, and is soon out of date: then it is as
#   bad as an old snapshot. It is right again when nearly all rows have been seen near the mode,
#   which takes several times N/n iterations.
#
# So no estimator helps a chain that is far from the mode. Start at the mode where there is one. In
# the posterior, the three differ little.
#
# ## What it costs, and what comes of it
#
# The chains are now started in the posterior, with half of the step size. That of `sgnht` is a
# squared step, and must be smaller. The last column is the variance of the draws over that of the
# posterior, averaged over all directions. It should be 1.

# %%
root = np.linalg.cholesky(covariance)
start = {"beta": mode + rng.normal(size=(CHAINS, d)) @ root.T}


def width(draws):
    """Return the variance of the draws over that of the posterior, and its standard error."""
    z = np.linalg.solve(root, (draws["beta"].astype(float) - mode).reshape(-1, d).T)
    each = (z.reshape(d, CHAINS, -1) ** 2).mean(axis=(0, 2))
    return f"{each.mean():.2f} ± {each.std(ddof=1) / np.sqrt(CHAINS):.2f}"


sgld, half = sgmcmc.sgld, stepsize / 2
lengths = {"n_iters": 200, "burn_in": 50} if QUICK else {"n_iters": 20_000, "burn_in": 2_000}
compared = {  # sampler, step size, other arguments, gradients of rows a step, numbers in memory
    "plain": (sgld, half, {}, "n", "none"),
    "ControlVariate": (sgld, half, {"gradient": estimators["control variates"]}, "2n", "p"),
    "SVRG": (sgld, half, {"gradient": estimators["SVRG"]}, "3n", "p a chain"),
    "SAGA": (sgld, half, {"gradient": estimators["SAGA"]}, "n", "N a chain"),
    "noise_estimate": (sgld, half, {"noise_estimate": "fisher_matrix"}, "n, singly", "pn a chain"),
    "thermostat": (sgmcmc.sgnht, stepsize / 20, {}, "n", "1 a chain"),
}
print(f"{'':16}{'gradients a step':18}{'memory':14}variance")
for name, (sampler, step, more, gradients, memory) in compared.items():
    found = width(run(sampler, step, starts=start, thin=10, **lengths, **more))
    print(f"{name:16}{gradients:18}{memory:14}{found}")
eps = half / np.linalg.eigvalsh(covariance)
print(f"plain, by the formula: {np.mean((1 + eps * (N / n - 1) / 4) / (1 - eps / 4)):.2f}")

# %% [markdown]
# - **`ControlVariate`** (`sgldcv`, `sghmccv`): two gradients of each row in a minibatch, and one
#   pass over the data at the start, beside the search for the mode.
# - **`SVRG(every=N/n)`**: the same, and a third gradient for the passes over the data. It needs no
#   mode, and follows the chain.
# - **`SAGA(features="X")`**: one gradient of each row, and a table with a number for each row and
#   chain. A step takes little more time than a plain one. Without `features`, for models that are
#   no linear predictors, the table has the p numbers of a gradient for each row: here .5 MB a
#   chain, and for 581,012 rows of 54 columns 126 MB.
# - **`noise_estimate`** measures the noise of each minibatch from the gradients of its rows, and
#   adds as much less. It cannot make up for more noise than there is room for: with twice this step
#   size, it would be more than the sampler adds in some directions. The noise stays as it is, so
#   that step sizes must be as small as for plain gradients, but draws have the right width.
# - **Thermostats** (`sgnht`) take out the heat by friction. They need not know the noise, cost
#   nothing, and need no mode. Friction ξ makes the variance smaller by the factor 1 − ξ/2, which is
#   what is seen here, and shrinks with the step size. If noise differs between coordinates, take
#   `thermostat="coordinate"` or `"matrix"`
#   ([how they fail otherwise](../thermostats/README.md)).
#
# ## After the run
#
# `zero_variance` needs gradients, too, but as they are. It makes the error of posterior means
# smaller, and leaves the draws and their width alone. Quantities that are nearly linear in the
# parameters gain most. Noisy gradients gain little, so that it belongs to control variates:

# %%
of = {
    "beta": lambda some: some["beta"],
    "p": lambda some: 1 / (1 + np.exp(-some["beta"].sum(axis=-1))),  # at a row of ones
}
for name in ("plain", "control variates"):
    draws = run(
        sgmcmc.sgld, half, gradient=estimators[name], starts=start, keep_gradients=True, **lengths
    )
    print(f"{name}:\n{sgmcmc.zero_variance(draws, of=of)}\n")

# %% [markdown]
# The column `variance_ratio` says how much of the variance is left. The coefficients of this
# correction are learnt from the draws. Where a chain has not mixed, those from one part of it do
# not hold in another, and the ratio may be above 1: then keep the plain mean, and run longer.
#
# ## What breaks: more than one mode
#
# Control variates with a fixed centre know one mode. Take a mixture of N(θ, 1) and N(−θ, 1) in
# equal parts, which are not far apart. The posterior of θ has two modes, mirror images, and a
# chain goes from one to the other. The density and the variance of the noise can be computed on a
# grid.

# %%
rows = 1_000
few = rng.choice([-0.34, 0.34], rows) + rng.normal(size=rows)
grid = np.linspace(-0.7, 0.7, 281)
log_density = -rows * grid**2 / 2 + np.logaddexp(few[:, None] * grid, -few[:, None] * grid).sum(0)
density = np.exp(log_density - log_density.max())
density /= density.sum() * (grid[1] - grid[0])
centre = grid[np.argmax(np.where(grid > 0, density, 0))]
slopes = few[:, None] * np.tanh(few[:, None] * grid) - grid  # of each row, at each θ
at_centre = slopes[:, [np.argmin(abs(grid - centre))]]
share = rows * (rows - 50) / 50
plain, relative = (share * each.var(axis=0, ddof=1) for each in (slopes, slopes - at_centre))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
left.semilogy(grid, plain, color=COLOURS["plain"], label="plain")
left.semilogy(grid, relative, color=COLOURS["control variates"], label="control variates")
left.axvline(centre, color="0.6", ls=":", label="their centre")
left.set(xlabel="θ", ylabel="variance of the gradient's noise", ylim=(plain.max() / 1e3, 1e5))
left.legend(loc="upper center", ncols=2)


def log_lik_of_two(params, data):
    both = tf.stack([data["x"] - params["theta"], data["x"] + params["theta"]])
    return tf.reduce_sum(tf.reduce_logsumexp(-(both**2) / 2, axis=0))


two_modes = {
    "plain": "plain",
    "control variates": sgmcmc.ControlVariate(mode={"theta": centre}),
    "SVRG": sgmcmc.SVRG(every=50),
    "SAGA": sgmcmc.SAGA(),
}
edges = np.linspace(-0.7, 0.7, 57)
STYLES = dict(zip(two_modes, ("-", "-", "-", "--")))
for name, gradient in two_modes.items():
    draws = sgmcmc.sgld(
        log_lik_of_two,
        {"x": few},
        {"theta": centre},
        stepsize=2e-4,
        gradient=gradient,
        minibatch_size=50,
        minibatches="independent",
        n_iters=500 if QUICK else 50_000,
        thin=5,
        n_chains=CHAINS,
        starts={"theta": np.resize([centre, -centre], CHAINS)},
        seed=1,
        verbose=False,
    )["theta"]
    counts = np.histogram(draws, edges)[0] / draws.size / np.diff(edges)
    right.stairs(counts, edges, color=COLOURS[name], ls=STYLES[name], lw=1.5, label=name)
    print(f"{name:18}share of draws at θ > 0: {(draws > 0).mean():.2f}")
right.plot(grid, density, "k--", lw=1, label="posterior")
right.set(xlabel="θ", ylabel="density", ylim=(0, 4.8))
right.legend(loc="upper center", ncols=2)
figure.tight_layout()

# %% [markdown]
# Away from the centre, at the other mode, control variates have several times the noise of plain
# gradients. Noise makes draws wider, and drives the chain out of the noisy mode sooner than out of
# the quiet one. So too many draws are where the centre is. SVRG and SAGA move with the chain, and
# have no favourite. If modes are farther apart, no sampler here goes from one to the other, and all
# draws stay where they began ([`gauss_mixture`](gauss_mixture.md)).
#
# ## Which one when
#
# | | take |
# |---|---|
# | one dominant mode, which can be searched for | `sgldcv` or `sghmccv`, i.e. `ControlVariate` |
# | posterior means to more digits | `keep_gradients=True` with one of these, then `zero_variance` |
# | a typical set that is not at the mode, or several near modes | `SVRG(every=N/n)` |
# | few rows tell some of the parameters | `row_probabilities="leverage"` of `sgldcv` |
# | rows of known categories, and plain gradients or `scir` | `minibatches=` these categories |
# | a linear predictor, if evaluations are expensive | `SAGA(features=...)` |
# | networks, and other models with far to go | plain gradients, and `sgnht` |
# | plain gradients, of at most some thousand parameters | `noise_estimate` with `sgld` or `sghmc` |
# | a chain that is still far from the mode | plain gradients; none of the others helps |
#
# Two of these change which rows are drawn. On the cover types with Laplace priors, `sgldcv` takes
# 542 iterations for an effective draw in the slowest direction, along soil types that few rows
# have. With `row_probabilities="leverage"`, rows are drawn by how much their gradients change
# around the mode. Then 31 iterations do, each of which costs 2.2 times as much
# ([benchmarks](../../benchmarks/README.md)). Stratified minibatches have one row of each of n
# strata: where these are the categories, counts have no noise at all.
