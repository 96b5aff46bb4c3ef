# %% [markdown]
# # Figure 2.4.3: a warped Gaussian
#
# $x_i \sim N(\theta_1 + \theta_2^2, \sigma_x^2)$, 800 observations, with
# $\theta_1, \theta_2 \sim N(0, \sigma_\theta^2)$. The data only tell the sum
# $\theta_1 + \theta_2^2$, so the posterior is a bent ridge. The thesis does not say what
# $\sigma_x$ and $\sigma_\theta$ are. We take $\sigma_x = 4$ and $\sigma_\theta = 1$, and simulate
# the data with $\theta = (0, 1)$.

# %%
import divide
import numpy as np
import setting
import tensorflow as tf
from divide import M, Problem, W
from setting import QUICK

N, SIGMA_X, SIGMA_THETA = 60 if QUICK else 800, 4.0, 1.0

# %% [markdown]
# ## The model
#
# NUTS uses the means of the shards, which are sufficient; the samplers of the package get all rows.


# %%
def log_lik(params, data):
    mean = params["theta"][0] + params["theta"][1] ** 2
    return -tf.reduce_sum((data["x"] - mean) ** 2) / (2 * SIGMA_X**2)


def log_prior(params):
    return -tf.reduce_sum(params["theta"] ** 2) / (2 * SIGMA_THETA**2)


def log_density(theta, means, rows, power):
    """The log of the likelihood of so many rows times the prior to a power."""
    away = means - theta[..., 0] - theta[..., 1] ** 2
    prior = tf.reduce_sum(theta**2, axis=-1) / (2 * SIGMA_THETA**2)
    return -rows * away**2 / (2 * SIGMA_X**2) - power * prior


# %% [markdown]
# ## The truth, and subposteriors


# %%
def nuts(shards, chains, n_iters, seed, thin):
    """Draws (chains, shards, draws, 2), from shards (shards, rows)."""
    means, rows, power = tf.constant(shards.mean(axis=1)), shards.shape[1], 1 / len(shards)
    draws = setting.nuts(
        lambda theta: log_density(theta, means, rows, power),
        starts=np.random.default_rng(seed).normal(0, 1, (chains, len(shards), 2)),
        n_iters=n_iters,
        n_adapt=100 if QUICK else 2_000,
        step_size=0.1,
        seed=(seed, 0),
    )
    return np.moveaxis(draws[thin - 1 :: thin], 0, 2)


x = np.random.default_rng(1).normal(1, SIGMA_X, N)
truth = nuts(x[None], 4 if QUICK else 20, 5 * M, 0, thin=10).reshape(-1, 2)
problem = Problem(
    log_lik=log_lik,
    log_prior=log_prior,
    dataset={"x": x},
    start=np.array([0.0, 1.0]),
    truth=truth,
    shards=lambda repeats, seed: nuts(np.array(np.split(x, W)), repeats, 5 * M, seed, thin=5),
    stepsizes={
        "sgld": (0.0005, 0.001, 0.002, 0.004, 0.008),
        "sghmc": (1e-5, 3e-5, 1e-4, 3e-4, 1e-3),
        "sgldcv": (0.0005, 0.001, 0.002, 0.004, 0.008),
    },
    mode=np.array([0.5, np.sqrt(max(0, x.mean() - 0.5))]),
)
found = divide.compared(problem)
divide.report(found)

# %% [markdown]
# ## The picture
#
# Contours are of the exact density, and bound 95, 80, 50 and 20 % of it. Points are the draws of
# the first repeat.

# %%
limits = [(-3.6, 1.7), (-2.3, 2.3)]
grid = np.stack(np.meshgrid(*(np.linspace(*each, 300) for each in limits), indexing="ij"), -1)
height = log_density(tf.constant(grid), x.mean(), N, 1.0).numpy()
density = np.exp(height - height.max())


def contours(axis):
    axis.contour(
        *np.moveaxis(grid, -1, 0), density, divide.levels(density), colors="black", linewidths=0.8
    )


divide.picture(found, "figure_2_4_3", contours, ("θ₁", "θ₂"), limits)
