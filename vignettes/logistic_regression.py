# %% [markdown]
# # Logistic regression on real data: forest cover types
#
# The data are 581,012 plots of forest of 30 × 30 m, with 54 features each (elevation, slope,
# soil, ...). The question is whether the trees are lodgepole pines (Blackard and Dean, 1999).
# This is the example of the thesis, section 4.5.1. Here the model is trained on all but 10,000
# plots and tested on those.

# %%
import os
import warnings

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
n_iters = 200 if QUICK else 20_000

# %% [markdown]
# ## The data
#
# `get_dataset` downloads a public data set once, checks it, and keeps it in your cache folder;
# `sgmcmc.list_datasets()` shows what there is. All features come scaled to [0, 1].

# %%
covertype = sgmcmc.get_dataset("covertype")
held_out = np.zeros(len(covertype["y"]), bool)
held_out[np.random.default_rng(13).choice(len(held_out), 10_000, replace=False)] = True
dataset = {name: array[~held_out] for name, array in covertype.items()}
testset = {name: array[held_out] for name, array in covertype.items()}
if QUICK:
    dataset = {name: array[:20_000] for name, array in dataset.items()}
N, d = dataset["X"].shape
print(f"{N:,} rows, {d} features, {dataset['y'].mean():.1%} lodgepole pine")

# %% [markdown]
# ## The model


# %%
def logits(params, X):
    return tf.linalg.matvec(X, params["beta"]) + params["bias"]


def log_lik(params, data):
    return -tf.reduce_sum(
        tf.nn.sigmoid_cross_entropy_with_logits(data["y"], logits(params, data["X"]))
    )


def log_prior(params):  # independent Laplace(0, 1)
    return -(tf.reduce_sum(tf.abs(params["beta"])) + tf.abs(params["bias"]))


params = {"beta": np.zeros(d), "bias": 0.0}

# %% [markdown]
# ## How we judge it
#
# We use the log loss on the test plots, the mean of −log p(y). A coin toss has .693. `track`
# evaluates it at each draw that is kept, inside the compiled run.

# %%
test = {name: tf.constant(array) for name, array in testset.items()}


def log_loss(params):
    return -log_lik(params, test) / len(testset["y"])


# %% [markdown]
# ## Scales
#
# Before choosing a step size, look at how the posterior is shaped. A row's information about the
# coefficients is p(1 − p)xxᵀ, which is at most xxᵀ/4. We sum this bound over the rows, and add
# the identity for the prior. The eigenvalues are the precisions of the posterior along its axes:

# %%
design = np.column_stack([dataset["X"], np.ones(N)]).astype(np.float64)


def posterior_precision(information):
    return design.T @ (design * information[:, None]) + np.eye(d + 1)


eigenvalues = np.linalg.eigvalsh(posterior_precision(np.full(N, 0.25)))
print(f"from {eigenvalues[0]:.2g} to {eigenvalues[-1]:.2g}")

# %% [markdown]
# That is bad news for any sampler with one step size. The narrowest axis asks for a step of about
# 1e-7. Chains would then need some ten million steps to move once across the posterior along the
# widest axis. (The narrow axis is the mean of all features, none of which is centred. The wide
# ones are soil types that occur in a handful of plots, and the four wilderness areas, whose
# indicators sum to 1, the column of the bias.)
#
# So we leave the step size to the package. It moves in coordinates in which the posterior is
# about equally wide in all directions, by its curvature at the mode, and takes for each direction
# the largest step with which the variance of the draws is at most 5 % too large
# ([`step_sizes`](step_sizes.md)).

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    draws = sgmcmc.sghmccv(
        log_lik=log_lik,
        dataset=dataset,
        params=params,
        log_prior=log_prior,
        minibatch_size=500,
        n_iters=n_iters,
        n_chains=4,
        thin=5,
        track={"log_loss": log_loss},
        seed=1,
        verbose=False,
    )
for warning in caught:
    print(warning.message)
for name, value in draws.settings["tuning"].items():
    print(f"{name:12}", value)

# %%
summary = draws.summary()
ess, r_hat = (dict(zip(summary.names, summary[column])) for column in ("ess", "r_hat"))
print(f"log loss {draws['log_loss'].mean():.4f}, ess: median {np.median(summary['ess']):.0f}")
for name in sorted(ess, key=ess.get)[:5]:
    print(f"ess of {name} {ess[name]:.0f}, r_hat {r_hat[name]:.3f}")

# %% [markdown]
# The median coefficient has thousands of effective draws. Those of a few soil types have some
# hundreds. A minibatch seldom has one of the few plots with such a soil, which then counts for a
# thousand rows. This noise is why their steps must be small, and the warning names them. (It also
# says that the posterior is not quite Gaussian: that of a coefficient which three plots tell has
# the kink of its Laplace prior.)
#
# ## Is it right where it is hard?
#
# The rarest soil type is that of three plots. We nearly know what the standard deviation of its
# coefficient should be: given all other coefficients, its density depends on these rows and the
# prior.

# %%
mode = draws.settings["mode"]
rarest = int(np.argmin(dataset["X"][:, 10:].sum(0))) + 10
has_it = dataset["X"][:, rarest] == 1
grid = np.linspace(-12, 12, 4001)
rest = (dataset["X"] @ mode["beta"] + mode["bias"])[has_it] - mode["beta"][rarest]
z = rest[:, None] + grid
density = np.exp((dataset["y"][has_it, None] * z - np.logaddexp(0, z)).sum(0) - np.abs(grid))
density /= density.sum()
exact = np.sqrt(density @ grid**2 - (density @ grid) ** 2)
sd = dict(zip(summary.names, summary["sd"]))
print(f"sd of the rarest soil type's coefficient, given the others: {exact:.2f}")
print(f"sd of its draws: {sd[f'beta[{rarest}]']:.2f}, ess {ess[f'beta[{rarest}]']:.0f}")

# %%
data = draws.to_arviz()
az.plot_trace(data, var_names=["bias", "log_loss"])
plt.gcf().tight_layout()

# %% [markdown]
# For comparison, we run `sgldcv` on the coefficients as they are, with two step sizes, below and
# above what the narrowest axis allows, which is four times its variance:

# %%
p = 1 / (1 + np.exp(-(dataset["X"] @ mode["beta"] + mode["bias"])))
limit = 4 / np.linalg.eigvalsh(posterior_precision(p * (1 - p)))[-1]
for share in (0.1, 1.1):
    plain = sgmcmc.sgldcv(
        log_lik=log_lik,
        dataset=dataset,
        params=params,
        stepsize=share * limit,
        log_prior=log_prior,
        minibatch_size=500,
        mode=mode,
        n_iters=5 * n_iters,
        n_chains=4,
        thin=25,
        track={"log_loss": log_loss},
        seed=2,
        verbose=False,
    )
    ess = np.median(plain.summary()["ess"])
    print(f"{share * limit:.1e}: log loss {plain['log_loss'].mean():.4f}, median ess {ess:.0f}")

# %% [markdown]
# Below the limit, predictions are right but most coefficients have hardly moved. Above it,
# nothing is right. (The logistic likelihood keeps the chain from diverging, so there is no
# exception.)
#
# ## Predictions
#
# A Bayesian prediction averages the *probabilities* over the draws, and `predict` does it for every
# 200th of them. Its score is the mean log probability of what was seen, the share of right
# predictions, and the calibration error, each with a standard error. Is it calibrated? Of the plots
# with a predicted probability of about 30 %, about 30 % should have the trees.


# %%
def chance(params, data):
    return tf.sigmoid(tf.linalg.matvec(data["X"], params["beta"]) + params["bias"])


predicted = draws.predict(chance, testset, thin=n_iters // 100)
probability, y = predicted.mean, testset["y"]
for name, value in predicted.score(y).items():
    print(f"{name:18} {value:.4f}")

edges = np.linspace(0, 1, 11)
bins = np.digitize(probability, edges[1:-1])
full = [b for b in range(10) if np.sum(bins == b) >= 30]
fig, axes = plt.subplots(figsize=(4.5, 4.2))
axes.plot([0, 1], [0, 1], color="black", lw=1)
axes.errorbar(
    [probability[bins == b].mean() for b in full],
    [y[bins == b].mean() for b in full],
    [2 * np.sqrt(y[bins == b].var() / np.sum(bins == b)) for b in full],
    fmt="o",
)
axes.set(xlabel="predicted probability", ylabel="share with the trees", title="Calibration")
fig.tight_layout()

# %% [markdown]
# The calibration is fairly good, not perfect. A linear model of these features cannot do better,
# however it is sampled. With half a million rows the posterior is narrow, and the model's own
# misfit matters more than the parameters' uncertainty.
#
# ## What can go wrong
#
# - **`sgld` without control variates, at the same step size**: the gradient noise of 500 rows of
#   571,012 makes the draws far too wide. The thesis's figure [4.6.2](../thesis/README.md) shows
#   all six samplers.
# - **Judging by predictions alone.** The log loss of the plain chain below the limit is right,
#   though most of its coefficients have hardly moved.
# - **More than 2,000 coefficients.** Then the curvature is too large a matrix for the package. It
#   scales each coefficient by itself, which is fine unless features are strongly correlated.
