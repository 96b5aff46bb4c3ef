# %% [markdown]
# # A Gaussian mixture: more than one mode
#
# Half of the data come from one Gaussian, half from another, and we want their centres. Exchanging
# the centres does not change the likelihood, so the posterior has two modes, mirror images of each
# other. This vignette shows how to notice several modes, what to do about them, and what no sampler
# here can do.

# %%
import os

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf
import tensorflow_probability as tfp

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
n_iters = 500 if QUICK else 100_000
tfd = tfp.distributions

rng = np.random.default_rng(1)
centres = np.array([[0.0, 0.0], [2.0, 2.0]])
X = centres[rng.integers(0, 2, 10_000)] + rng.normal(size=(10_000, 2))

fig, axes = plt.subplots(figsize=(5, 4.5))
axes.plot(*X.T, ".", ms=2, alpha=0.3)
axes.plot(*centres.T, "k+", ms=15, mew=3, label="true centres")
axes.set(xlabel="$x_1$", ylabel="$x_2$", title="The data", aspect="equal")
axes.legend()
fig.tight_layout()

# %% [markdown]
# ## The model
#
# The likelihood of a mixture sums over the labels, by `tf.reduce_logsumexp` or, as here, by
# TensorFlow Probability's `MixtureSameFamily`. Such models have to be written like this, because
# samplers that follow gradients cannot have discrete parameters.


# %%
def log_lik(params, data):
    mixture = tfd.MixtureSameFamily(
        tfd.Categorical(probs=[0.5, 0.5]),
        tfd.MultivariateNormalDiag(params["centre"], tf.ones(2)),
    )
    return tf.reduce_sum(mixture.log_prob(data["X"]))


def log_prior(params):
    return tf.reduce_sum(tfd.Normal(0.0, 10.0**0.5).log_prob(params["centre"]))


dataset, params = {"X": X}, {"centre": np.zeros((2, 2))}

# %% [markdown]
# ## Many chains, far apart
#
# To find several modes, spread the starts of the chains wider than the posterior. `starts` takes a
# value for each chain. Here we run four chains, with each centre drawn from N(1, 1):

# %%
starts = {"centre": np.random.default_rng(2).normal(1, 1, (4, 2, 2))}
draws = sgmcmc.sgld(
    log_lik=log_lik,
    dataset=dataset,
    params=params,
    stepsize=4e-6,
    log_prior=log_prior,
    minibatch_size=500,
    n_iters=n_iters,
    burn_in=n_iters // 4,
    thin=10,
    n_chains=4,
    starts=starts,
    seed=4,
    verbose=False,
)
print(draws.summary())

# %% [markdown]
# `r_hat` is far above 1 and `ess` is only a handful, so the chains disagree. The trace shows how.
# Each chain is steady, but some have settled on one labelling and some on the other.

# %%
fig, axes = plt.subplots(figsize=(8, 3.5))
for chain, theta in enumerate(draws["centre"]):
    axes.plot(10 * np.arange(len(theta)), theta[:, 0, 0], lw=1, label=f"chain {chain + 1}")
axes.set(
    xlabel="iteration after burn-in", ylabel="first coordinate of component 1", ylim=(-0.7, 3.4)
)
axes.set_title("Each chain has settled on one of two labellings")
axes.legend(ncols=4, loc="upper center")
fig.tight_layout()

# %% [markdown]
# ## What to do about it
#
# The two modes say the same about the data, so one of them is enough. Order the components *after*
# sampling: component 1 is the one with the smaller first coordinate.

# %%
centre = draws["centre"]
order = np.argsort(centre[..., 0], axis=-1)[..., None]
ordered = sgmcmc.Draws(
    values={"centre": np.take_along_axis(centre, order, axis=-2)},
    stats=draws.stats,
    settings=draws.settings,
)
print(ordered.summary())

# %% [markdown]
# Now `r_hat` is near 1. The truth, (0, 0) and (2, 2), lies within about two standard deviations in
# each of the four coordinates, as it should. ArviZ's pair plot shows the joint posterior of the two
# first coordinates:

# %%
data = ordered.to_arviz(
    coords={"component": [1, 2], "coordinate": ["x₁", "x₂"]},
    dims={"centre": ["component", "coordinate"]},
).sel(draw=slice(None, None, 50))
az.plot_pair(data, var_names=["centre"], coords={"coordinate": "x₁"})
plt.gcf().suptitle("First coordinates of the two centres")
plt.gcf().tight_layout()

# %% [markdown]
# ## Control variates
#
# `sgldcv` first finds a mode, and then stays with it. All chains start there, so the summary shows
# no disagreement, and no label switching either. We start the two centres apart. At `zeros` they
# would lie on top of each other, a saddle of the posterior where the search can get stuck.

# %%
apart = {"centre": np.array([[-0.5, -0.5], [0.5, 0.5]])}
cv = sgmcmc.sgldcv(
    log_lik=log_lik,
    dataset=dataset,
    params=apart,
    stepsize=2e-5,
    log_prior=log_prior,
    minibatch_size=500,
    n_iters=n_iters // 5,
    n_chains=4,
    seed=3,
    verbose=False,
)
print(cv.summary())

# %% [markdown]
# ## What can go wrong
#
# - **One chain only.** It shows one mode, an `ess` in the hundreds and a smooth trace, and nothing
#   of the other mode. Run several chains whenever a posterior might have several modes.
# - **Modes that differ in more than their labels.** No sampler in this package jumps between modes
#   that lie far apart, and neither `r_hat` nor relabelling helps then. Chains show *where* the
#   modes are, not how much weight each has.
# - **A start far from all data.** A component at (9, 9) explains no point, so the likelihood's
#   gradient with respect to it is 0, and the chain does not move it. Starts should be wide, but
#   within the data.
# - **Components on top of each other.** When the centres are close, the modes join and chains
#   wander from one to the other. The thesis's version of this example ([figure
#   4.6.1](../thesis/README.md)) is of that kind.
