# %% [markdown]
# # No step size to choose
#
# The step size is what users of stochastic gradient MCMC ask about first. Too small, and the
# chain hardly moves; too large, and the draws are too wide, which no diagnostic of a single
# chain shows. Leave `stepsize` out, and the package chooses it. You say how wrong the variance
# may be (`bias`, .05 by default). This page shows how the choice is made, what it promises, and
# when it fails.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf

# %% [markdown]
# ## A regression in the units of its data
#
# A logistic regression with columns as they come: one is in thousands, one in hundredths, and
# two are nearly the same. In these units the standard deviations of the posterior differ by a
# factor of a hundred thousand, and no single step size suits all parameters.

# %%
rng = np.random.default_rng(1)
N = 100_000
income, rate, age = rng.normal(3000, 1000, N), rng.normal(0, 0.01, N), rng.normal(40, 10, N)
X = np.column_stack([np.ones(N), income, rate, age, age + rng.normal(0, 1, N)])
true = np.array([-1, 5e-4, 30, 0.01, -0.02])
y = rng.random(N) < 1 / (1 + np.exp(-X @ true))
dataset = {"X": X.astype("float32"), "y": y.astype("float32")}
params = {"beta": np.zeros(5)}


def log_lik(params, data):
    eta = tf.linalg.matvec(data["X"], params["beta"])
    return tf.reduce_sum(data["y"] * eta - tf.nn.softplus(eta))


def log_prior(params):
    return -tf.reduce_sum(params["beta"] ** 2) / 2e4


draws = sgmcmc.sghmccv(
    log_lik=log_lik,
    dataset=dataset,
    params=params,
    log_prior=log_prior,
    minibatch_size=500,
    n_iters=5000,
    n_chains=4,
    seed=1,
    verbose=False,
)
print(draws.summary())

# %% [markdown]
# ## What was chosen
#
# All of it is in the settings. For each quantity there are three numbers: the smallest, the
# median and the largest over the directions of the posterior. They are for coordinates in which
# the posterior has variance 1 in all directions.

# %%
for name, value in draws.settings["tuning"].items():
    print(f"{name:10}", value)

# %% [markdown]
# 1. **Coordinates.** The search for the mode ends with the matrix of second derivatives H of the
#    log posterior. With LLᵀ = −H⁻¹ and θ = mode + Lw, a Gaussian posterior of w has variance 1
#    in all directions. The chain moves in w. You see θ.
# 2. **Noise.** The gradients of single rows give the variance s² of the gradient noise in each
#    direction. A sample of the rows is enough, together with those few rows on which the
#    posterior depends most. One pass over all data finds them.
# 3. **Step sizes.** On a Gaussian, the variance of the draws is known exactly. For `sgld` with
#    step size ε it is (1 + εs²/4)/(1 − ε/4). Each direction gets the largest step with which
#    this is at most 1 + `bias`.
#
# `noise` is s², `inflation` is what the variance of the draws will be, and `ess` is the number
# of effective draws an iteration.
#
# ## What it promises
#
# Here is the variance that three samplers have as a function of the step size, for directions
# with little and with much noise. The dots are the steps that are chosen.

# %%
eps = np.geomspace(1e-3, 1, 200)
fig, axes = plt.subplots(1, 2, figsize=(8.6, 3.6), sharey=True)
for axis, noise in zip(axes, (0.1, 10)):
    s2 = np.full_like(eps, noise)
    alpha = np.full_like(eps, 0.3)
    curves = {
        "sgld": sgmcmc.tuning.laws.langevin(eps, s2),
        "sghmc, α = .3": sgmcmc.tuning.laws.hamiltonian(eps, s2, alpha, alpha, 1),
        "baoab, α = .3": sgmcmc.tuning.laws.second_order(eps, s2, alpha),
    }
    for name, law in curves.items():
        (line,) = axis.semilogx(eps, law.inflation, label=name)
        inside = np.flatnonzero((law.inflation <= 1.05) & (eps <= sgmcmc.tuning.laws.LARGEST))
        axis.plot(eps[inside[-1]], law.inflation[inside[-1]], "o", color=line.get_color())
    axis.axhspan(1, 1.05, color="0.9")
    axis.set(ylim=(0.98, 1.4), xlabel="step size ε", title=f"gradient noise s² = {noise:g}")
axes[0].set_ylabel("variance of the draws")
axes[0].legend()
fig.tight_layout()

# %% [markdown]
# With little noise, as with control variates, the step itself makes draws too wide, except with
# `baoab`. With much noise, all step sizes must be smaller, in proportion.
#
# A smaller `bias` costs time in proportion. Here are the standard deviations for three of them,
# compared with those of .01. Ratios of at most √(1 + bias) are promised, up to the Monte Carlo
# error.

# %%
sd = {}
for bias in (0.01, 0.05, 0.2):
    run = sgmcmc.sghmccv(
        log_lik=log_lik,
        dataset=dataset,
        params=params,
        log_prior=log_prior,
        minibatch_size=500,
        bias=bias,
        n_iters=20_000,
        n_chains=4,
        seed=2,
        verbose=False,
    )
    summary = run.summary()
    sd[bias] = summary["sd"]
    ratio = np.round(sd[bias] / sd[0.01], 3)
    print(f"bias {bias:4}: ess {summary['ess'].min():7,.0f}, sd ratios {ratio}")

# %% [markdown]
# `rescale=True` goes one step further. As the inflation is known, draws are shrunk towards the
# mode by its root.
#
# ## When it fails, and says so
#
# The promise is for a Gaussian. Forty rows of a classification that a line all but separates
# have a skewed posterior:

# %%
few = np.random.default_rng(0).normal(size=(40, 6))
separated = {"X": few, "y": (few @ [4, 3, 2, 1, 0, 0] > 0).astype(float)}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    sgmcmc.sgldcv_setup(
        log_lik=log_lik,
        dataset=separated,
        params={"beta": np.zeros(6)},
        log_prior=lambda params: -tf.reduce_sum(params["beta"] ** 2) / 200,
        minibatch_size=20,
        seed=1,
        verbose=False,
    )
for warning in caught:
    print(warning.message)

# %% [markdown]
# Two columns that are the same, or a column that nothing depends on, leave a direction that the
# data do not tell. It is named:

# %%
twice = {"X": np.column_stack([X[:, 0], rate, rate]).astype("float32"), "y": dataset["y"]}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    sgmcmc.sgldcv_setup(
        log_lik=log_lik,
        dataset=twice,
        params={"beta": np.zeros(3)},
        seed=1,
        verbose=False,
    )
for warning in caught:
    print(warning.message)

# %% [markdown]
# And a posterior without a mode is refused, as there is no point to take the curvature at. A
# joint mode of a hierarchical model often does not exist, or is far from where the posterior is.

# %%
try:
    sgmcmc.sgld_setup(
        log_lik=lambda params, data: params["slope"] * tf.reduce_sum(data["y"]),
        dataset=dataset,
        params={"slope": 0.0},
        verbose=False,
    )
except ValueError as error:
    print(error)

# %% [markdown]
# ## Coordinates without chosen steps
#
# `precondition` can be used with a step size of your own. It is then in white coordinates, where
# .1 is a good first guess for all problems. A covariance, for example of an earlier run, or
# scales by parameter do as well:

# %%
covariance = np.cov(draws["beta"].reshape(-1, 5), rowvar=False)
again = sgmcmc.sgldcv(
    log_lik=log_lik,
    dataset=dataset,
    params={"beta": draws["beta"].mean(axis=(0, 1))},
    stepsize=0.1,
    log_prior=log_prior,
    minibatch_size=500,
    precondition=covariance,
    seed=3,
    verbose=False,
)
print(again.summary())
