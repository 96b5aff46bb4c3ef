# %% [markdown]
# # Getting started: logistic regression on simulated data
#
# 100,000 rows, six features, and coefficients that we know, so that the draws can be judged.

# %%
import numpy as np
import tensorflow as tf

import sgmcmc

rng = np.random.default_rng(1)
truth = np.array([1.0, -0.5, 0.25, 0.0, 2.0, -1.0])
X = rng.normal(size=(100_000, 6))
y = rng.random(100_000) < 1 / (1 + np.exp(-(X @ truth + 0.3)))

# %% [markdown]
# The model is two functions in TensorFlow operations. `log_lik` gets a minibatch of rows under the
# names of the data set, and returns the *sum* of their log likelihoods. `log_prior` is optional.


# %%
def log_lik(params, data):
    logits = tf.linalg.matvec(data["X"], params["beta"]) + params["bias"]
    return -tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=data["y"], logits=logits))


def log_prior(params):
    return -(tf.reduce_sum(tf.abs(params["beta"])) + tf.abs(params["bias"]))


# %% [markdown]
# `sgldcv` finds the posterior mode and samples around it, each step on 1 % of the rows. The step
# size is about a tenth of the posterior variance of the coefficients.

# %%
draws = sgmcmc.sgldcv(
    log_lik,
    dataset={"X": X, "y": y.astype(np.float32)},
    params={"beta": np.zeros(6), "bias": 0.0},
    stepsize=1e-5,
    log_prior=log_prior,
    minibatch_size=0.01,
    n_iters=10_000,
    seed=1,
)
print(draws.summary())
print("truth: ", truth, 0.3)
