# %% [markdown]
# # Getting started
#
# Logistic regression on simulated data: 100,000 rows, six features, and coefficients that we
# know, so that the draws can be judged. It takes a minute. What it shows carries over to every
# model:
#
# 1. write the log likelihood and the log prior,
# 2. choose a step size, and run a few chains,
# 3. read the summary and the trace,
# 4. halve the step size, and see that nothing changes.

# %%
import os

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
n_iters = 500 if QUICK else 40_000

features = ["age", "dose", "weight", "noise", "stage", "treated"]
truth = np.array([1.0, -0.5, 0.25, 0.0, 2.0, -1.0])
rng = np.random.default_rng(1)
X = rng.normal(size=(100_000, 6))
y = rng.random(100_000) < 1 / (1 + np.exp(-(X @ truth + 0.3)))

# %% [markdown]
# ## The model
#
# A model is two functions of TensorFlow operations. `log_lik` gets the parameters and a
# *minibatch* of rows, under the names that you give them below, and returns the **sum** of the
# rows' log likelihoods; the package scales it up to all rows. `log_prior` gets the parameters
# alone. Gradients are found by automatic differentiation, so there is nothing else to write.


# %%
def log_lik(params, data):
    logits = tf.linalg.matvec(data["X"], params["beta"]) + params["bias"]
    return -tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=data["y"], logits=logits))


def log_prior(params):  # independent Laplace(0, 1)
    return -(tf.reduce_sum(tf.abs(params["beta"])) + tf.abs(params["bias"]))


dataset = {"X": X, "y": y.astype(np.float32)}
params = {"beta": np.zeros(6), "bias": 0.0}  # where to start

# %% [markdown]
# ## Draws in one call
#
# `sgldcv` is Langevin dynamics with control variates: it first finds the posterior mode and then
# samples around it. For posteriors with one dominant mode, as here, it is the one to try first.
# Each step looks at 1 % of the rows, the default. We run four chains, to see whether they agree.
#
# There is no step size to choose. At the mode, the package measures how wide the posterior is in
# each direction, and how noisy gradients are. It takes the largest steps with which the variance
# of the draws is at most 5 % too large ([`step_sizes`](step_sizes.md) explains how).

# %%
draws = sgmcmc.sgldcv(
    log_lik=log_lik,
    dataset=dataset,
    params=params,
    log_prior=log_prior,
    n_iters=n_iters,
    n_chains=4,
    seed=1,
)
print(draws)

# %% [markdown]
# ## Reading the draws
#
# `draws` is a mapping from names to arrays, here `(chains, iterations, ...)`. Its summary has a
# row for each quantity. Look at two columns first. `r_hat` should be below about 1.01, which says
# that the chains agree. `ess` is the number of independent draws that would be worth as much. It
# should be some hundreds before you quote a mean or an interval.

# %%
print(draws.summary())
print("the truth: beta", truth, "bias", 0.3)

# %% [markdown]
# [ArviZ](https://python.arviz.org) has many more summaries and plots, and `to_arviz` converts the
# draws for it. A healthy trace looks like grass: no drift, no long excursions, and the chains on
# top of each other.

# %%
data = draws.to_arviz(coords={"feature": features}, dims={"beta": ["feature"]})
az.plot_trace(data, var_names=["bias"])
plt.gcf().tight_layout()

# %% [markdown]
# As we know the truth, we can look at the errors. On average, nine of ten intervals contain 0.

# %%
low, high = np.percentile(draws["beta"] - truth, [5, 95], axis=(0, 1))
fig, axes = plt.subplots(figsize=(7, 3))
axes.hlines(features, low, high, lw=3, color="tab:blue")
axes.axvline(0, color="black", lw=1)
axes.set(xlabel="coefficient minus its true value", title="90 % posterior intervals")
axes.invert_yaxis()
fig.tight_layout()

# %% [markdown]
# ## How wide are the draws?
#
# Every sampler here has a small bias that grows with the step size: most often, draws spread too
# widely. One run does not show it, not even by its `r_hat`. The settings tell what is expected:
# the variance relative to the posterior's (`inflation`), for the directions where it is smallest,
# in the middle and largest.

# %%
for name in ("stepsize", "noise", "inflation", "ess", "slowest"):
    print(f"{name:10}", draws.settings["tuning"][name])

# %% [markdown]
# This is exact for a Gaussian. To see how large the bias really is, allow less of it and compare.
# A tenth of the bias needs ten times as many iterations for the same `ess`. The standard
# deviations should agree within about 2 % and their Monte Carlo errors:

# %%
less = sgmcmc.sgldcv(
    log_lik=log_lik,
    dataset=dataset,
    params=params,
    bias=0.005,
    log_prior=log_prior,
    n_iters=5 * n_iters,
    n_chains=4,
    seed=2,
)
sd, sd_less = draws.summary()["sd"], less.summary()["sd"]
for name, ratio in zip(less.summary().names, sd / sd_less):
    print(f"{name:8} sd with bias .05 ÷ sd with bias .005: {ratio:.2f}")

# %% [markdown]
# ## Using the draws
#
# To infer any function of the parameters, compute it for each draw: the results are draws from
# its posterior. Here are the predicted probabilities of three new rows, with 90 % intervals:

# %%
new = rng.normal(size=(3, 6))
beta, bias = draws["beta"].reshape(-1, 6), draws["bias"].reshape(-1, 1)
probability = 1 / (1 + np.exp(-(beta @ new.T + bias)))
for row, p in enumerate(probability.T):
    low, high = np.percentile(p, [5, 95])
    exact = 1 / (1 + np.exp(-(new[row] @ truth + 0.3)))
    print(f"row {row}: {p.mean():.3f}, 90 % in [{low:.3f}, {high:.3f}] (truth {exact:.3f})")

# %% [markdown]
# ## What can go wrong
#
# - **`TuningWarning`**: step sizes were chosen, but something is doubtful: parameters that the
#   data do not tell apart, or a posterior that is far from Gaussian. The message says what to do.
# - **No mode**, as in networks or mixtures: give `stepsize` yourself, and start small.
# - **Low `ess`, traces that wander**: the chain is too short.
# - **`r_hat` above 1.01**: the chains have not forgotten their starts (use `burn_in`, or more
#   iterations), or there are several modes ([`gauss_mixture`](gauss_mixture.md)).
# - **The mean instead of the sum** in `log_lik`: the posterior becomes as wide as for N/n rows,
#   here 100. `log_lik` must be a sum over rows.
# - **Parameters that must be positive.** Chains move freely on the real line, and would step
#   across 0. Pass `constrain={"sigma": "positive"}`: the chain then moves on the logarithm of
#   `sigma`, and the package adds the Jacobian.
#
# Next: [`mv_gauss`](mv_gauss.md) shows what step sizes do where the answer is known,
# [`logistic_regression`](logistic_regression.md) does the same with real data.
