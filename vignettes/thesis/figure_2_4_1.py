# %% [markdown]
# # Figure 2.4.1: a posterior from heavy-tailed data
#
# The location $\theta$ of a bivariate t distribution with known scale $\Sigma$ and $\nu$ degrees of
# freedom, from 800 observations, under a flat prior. Divide and conquer cuts them into 20 shards of
# 40. The thesis does not say what $\Sigma$ and $\nu$ are. We take $\nu = 3$, and $\Sigma$ with ones
# on its diagonal and a correlation of .5.

# %%
import divide
import numpy as np
import setting
import tensorflow as tf
from divide import M, Problem, W
from setting import QUICK

N = 60 if QUICK else 800
DF, SCALE = 3.0, np.array([[1.0, 0.5], [0.5, 1.0]])
PRECISION = np.linalg.inv(SCALE)


def data():
    rng = np.random.default_rng(1)
    normal = rng.standard_normal((N, 2)) @ np.linalg.cholesky(SCALE).T
    return normal / np.sqrt(rng.chisquare(DF, (N, 1)) / DF)


# %% [markdown]
# ## The model
#
# `log_p` has the rows of one data set for one $\theta$, or those of many for many.


# %%
def log_p(theta, X):
    away = X - theta[..., None, :]
    squared = tf.reduce_sum(tf.linalg.matmul(away, tf.constant(PRECISION, X.dtype)) * away, -1)
    return -(DF + 2) / 2 * tf.math.log1p(squared / DF)


def log_lik(params, data):
    return tf.reduce_sum(log_p(params["theta"], data["X"]))


# %% [markdown]
# ## The truth, and subposteriors
#
# Both are drawn by NUTS, those of all shards and repeats at once. So the figure shows what is lost
# by the combination, and not what a sampler loses before.


# %%
def nuts(shards, chains, n_iters, seed, thin):
    """Draws (chains, shards, draws, 2), from shards (shards, rows, 2)."""
    X = tf.constant(shards)
    draws = setting.nuts(
        lambda theta: tf.reduce_sum(log_p(theta, X), axis=-1),
        starts=np.random.default_rng(seed).normal(0, 0.1, (chains, len(shards), 2)),
        n_iters=n_iters,
        n_adapt=100 if QUICK else 1_000,
        step_size=0.1,
        seed=(seed, 0),
    )
    return np.moveaxis(draws[thin - 1 :: thin], 0, 2)


X = data()
truth = nuts(X[None], 4 if QUICK else 20, 5 * M, 0, thin=10).reshape(-1, 2)
problem = Problem(
    log_lik=log_lik,
    log_prior=None,
    dataset={"X": X},
    start=np.zeros(2),
    truth=truth,
    shards=lambda repeats, seed: nuts(np.array(np.split(X, W)), repeats, 5 * M, seed, thin=5),
    stepsizes={
        "sgld": np.array([0.003, 0.01, 0.03, 0.1, 0.3]) / N,
        "sghmc": np.array([1e-3, 3e-3, 0.01, 0.03, 0.1]) / N,
        "sgldcv": np.array([0.03, 0.1, 0.3, 1]) / N,
    },
)
found = divide.compared(problem)
divide.report(found)

# %% [markdown]
# ## The picture
#
# Contours are of the exact density, and bound 95, 80, 50 and 20 % of it. Points are the draws of
# the first repeat.

# %%
centre, width = truth.mean(axis=0), 4.5 * truth.std(axis=0)
limits = [(c - w, c + w) for c, w in zip(centre, width)]
grid = np.stack(np.meshgrid(*(np.linspace(*each, 80) for each in limits), indexing="ij"), -1)
height = tf.reduce_sum(log_p(tf.constant(grid.reshape(-1, 2)), tf.constant(X)[None]), -1).numpy()
density = np.exp(height - height.max()).reshape(80, 80)


def contours(axis):
    axis.contour(
        *np.moveaxis(grid, -1, 0), density, divide.levels(density), colors="black", linewidths=0.8
    )


divide.picture(found, "figure_2_4_1", contours, ("θ₁", "θ₂"), limits)
