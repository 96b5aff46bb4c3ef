# %% [markdown]
# # Figure 2.4.2: a Gaussian mixture
#
# $x_i \sim \frac12 N(\theta_1, \Sigma) + \frac12 N(\theta_2, \Sigma)$, 10,000 points in the plane,
# with $\theta_1, \theta_2 \sim N(0, 10 I)$. The thesis does not say what $\Sigma$ is, or where the
# components are. We take $\Sigma = I$, and components at $(0, 0)$ and $(.35, .35)$. The posterior
# then has two modes that are not quite apart: $\theta_1$ and $\theta_2$ may be exchanged. The
# subposteriors of 500 points each are broad humps around $\theta_1 = \theta_2$.

# %%
import divide
import numpy as np
import setting
import tensorflow as tf
from divide import M, Problem, W
from scipy.stats import gaussian_kde
from setting import QUICK

N = 60 if QUICK else 10_000


def data():
    rng = np.random.default_rng(1)
    return rng.standard_normal((N, 2)) + 0.35 * rng.integers(0, 2, (N, 1))


# %% [markdown]
# ## The model
#
# `log_p` has the rows of one data set for one $\theta$, or those of many for many.


# %%
def log_p(theta, X):
    """θ (..., 4) has both locations; X (..., rows, 2)."""
    first, second = theta[..., None, :2], theta[..., None, 2:]
    half = tf.reduce_sum((X - first) ** 2, -1) / 2, tf.reduce_sum((X - second) ** 2, -1) / 2
    return -half[0] + tf.nn.softplus(half[0] - half[1])


def log_lik(params, data):
    return tf.reduce_sum(log_p(params["theta"], data["X"]))


def log_prior(params):
    return -tf.reduce_sum(params["theta"] ** 2) / 20


# %% [markdown]
# ## The truth, and subposteriors
#
# Both are drawn by NUTS. It crosses between the modes now and then. As exchanging $\theta_1$ and
# $\theta_2$ changes nothing, we take each draw of the truth both ways, which makes it exactly
# symmetric. Neighbouring draws of the truth are dependent, which makes all divergences here a
# little too small.


# %%
def nuts(shards, chains, n_iters, n_adapt, seed):
    """Draws (chains, shards, draws, 4), from shards (shards, rows, 2)."""
    X, power = tf.constant(shards), 1 / len(shards)
    draws = setting.nuts(
        lambda theta: (
            tf.reduce_sum(log_p(theta, X), axis=-1) - power * tf.reduce_sum(theta**2, -1) / 20
        ),
        starts=np.random.default_rng(seed).normal(0.175, 0.2, (chains, len(shards), 4)),
        n_iters=n_iters,
        n_adapt=n_adapt,
        step_size=0.02,
        seed=(seed, 0),
    )
    return np.moveaxis(draws, 0, 2)


X, adapt = data(), 100 if QUICK else 300
truth = nuts(X[None], 8, M, adapt, 0).reshape(-1, 4)
print("share of draws with θ₁ below θ₂, which is .5:", np.mean(truth[:, 0] < truth[:, 2]))
truth = np.concatenate([truth, truth[:, [2, 3, 0, 1]]])
problem = Problem(
    log_lik=log_lik,
    log_prior=log_prior,
    dataset={"X": X},
    start=np.array([0.1, 0.1, 0.25, 0.25]),
    truth=truth,
    shards=lambda repeats, seed: nuts(np.array(np.split(X, W)), repeats, M, adapt, seed),
    stepsizes={
        "sgld": np.array([0.03, 0.1, 0.3, 1, 3]) / N,
        "sghmc": np.array([1e-3, 3e-3, 0.01, 0.03, 0.1]) / N,
        "sgldcv": np.array([0.3, 1, 3, 10]) / N,
    },
)
found = divide.compared(problem)
divide.report(found)

# %% [markdown]
# ## The picture
#
# The first coordinates of $\theta_1$ and $\theta_2$. Contours are of the truth's draws, and bound
# 95, 80, 50 and 20 % of them. Points are the draws of the first repeat.

# %%
limits = [(-0.2, 0.55)] * 2
grid = np.stack(np.meshgrid(*(np.linspace(*each, 80) for each in limits), indexing="ij"), -1)
density = gaussian_kde(truth[:, [0, 2]].T)(grid.reshape(-1, 2).T).reshape(80, 80)


def contours(axis):
    axis.contour(
        *np.moveaxis(grid, -1, 0), density, divide.levels(density), colors="black", linewidths=0.8
    )


labels = ("first coordinate of θ₁", "first coordinate of θ₂")
divide.picture(found, "figure_2_4_2", contours, labels, limits, columns=(0, 2))
