# %% [markdown]
# # A sampler of your own
#
# A paper has a new update, and you want to try it on real data. You write the update, as a class
# of some ten lines. The package gives it minibatches, gradients, compiled code, several chains,
# constraints, test functions and draws with a summary, as it does for its own samplers. This page
# writes such a class, runs it, and tests whether its draws are right.
#
# The method is that of Leimkuhler and Matthews (2013). It is Langevin dynamics, with one change:
# each noise is used twice, half in one step and half in the next. With step size $h$, gradient
# $g$ of the log posterior and independent standard normals $z_0, z_1, \dots$,
#
# $$\theta_{k+1} = \theta_k + \frac h2\, g(\theta_k) + \sqrt h\; \frac{z_k + z_{k+1}}2.$$
#
# Ordinary Langevin dynamics (`sgld`) would have $z_{k+1}$ alone at the end. So we write both at
# once, with a weight $w$ for the old noise: $w\, z_k + (1 - w)\, z_{k+1}$. Then $w = 0$ is
# `sgld`, and $w = 1/2$ the new method.

# %%
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds

# %% [markdown]
# ## The class
#
# A sampler is a subclass of `sgmcmc.Dynamics`, a frozen dataclass whose fields are its options.
# Its state is a `NamedTuple` of what it has to remember from step to step: here the parameters
# and the last noise. `init` makes the first state, `update` the next one. The parameters, their
# gradient, the noise and the step sizes are all dicts in the form of `params`, and
# `tf.nest.map_structure` applies a function to each parameter.


# %%
class State(NamedTuple):
    x: Any  # the parameters
    z: Any  # the noise of the last step


@dataclass(frozen=True)
class TwiceUsedNoise(sgmcmc.Dynamics):
    weight: float = 0.5

    def init(self, x, noise, h):
        return State(x, noise.normals)

    def update(self, chain, estimate, noise, h):
        def move(x, g, old, new, h):
            z = self.weight * old + (1 - self.weight) * new
            return x + (h / 2 * g + tf.sqrt(h) * z)

        x = tf.nest.map_structure(move, chain.x, estimate.gradient, chain.z, noise.normals, h)
        return State(x, noise.normals)


# %% [markdown]
# That is all. `sgmcmc.sample` runs it; its arguments after the first are those of `sgld`. We
# begin with ten means of Gaussian data, where the posterior is known: each mean has the precision
# $\lambda = N$.

# %%
N, d = 1_000, 10
data = {"x": np.random.default_rng(1).normal(size=(N, d))}


def log_lik(params, data):
    return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2


draws = sgmcmc.sample(
    TwiceUsedNoise(),
    log_lik=log_lik,
    dataset=data,
    params={"mean": np.zeros(d)},
    stepsize=1 / N,
    gradient="control_variates",
    n_iters=200 if QUICK else 5_000,
    n_chains=4,
    seed=1,
    verbose=False,
)
print(draws)
print(draws.summary(names=["mean"]))
print(f"the posterior's standard deviation: {N**-0.5:.4f}")

# %% [markdown]
# ## Is it right?
#
# A trace that looks good proves little. A better test is a posterior for which the law of the
# draws can be worked out. On a Gaussian with precision $\lambda$ the update is a linear
# recursion, so that its stationary variance follows from a line of algebra. With exact gradients
# it is
#
# $$\mathrm{Var}\,\theta = \frac1\lambda \cdot \frac{1 - w(1 - w)\, h\lambda}{1 - h\lambda/4}.$$
#
# With $w = 0$ this is too large by the factor $1/(1 - h\lambda/4)$. With $w = 1/2$ it is
# $1/\lambda$, *at any step size* for which the chain is stable. In this model control variates
# take out all noise of the gradient, so the draws must follow the formula. Many short chains show
# whether they do:

# %%
sizes = np.array([0.5, 1.0, 1.5, 2.0, 2.5, 3.0])  # hλ
n_chains = 50 if QUICK else 200
results = {}
for weight in (0.0, 0.5):
    for size in sizes:
        several = sgmcmc.sample(
            TwiceUsedNoise(weight=weight),
            log_lik=log_lik,
            dataset=data,
            params={"mean": np.zeros(d)},
            stepsize=size / N,
            gradient="control_variates",
            minibatch_size=1,
            n_iters=200,
            burn_in=100,
            n_chains=n_chains,
            seed=2,
            verbose=False,
        )
        squares = np.mean((several["mean"] - data["x"].mean(axis=0)) ** 2, axis=(1, 2))
        exact = (1 - weight * (1 - weight) * size) / (1 - size / 4)
        error = N * squares.std(ddof=1) / np.sqrt(n_chains)
        results[weight, size] = N * squares.mean(), (N * squares.mean() - exact) / error

fig, axes = plt.subplots(figsize=(7, 3.8))
line = np.linspace(0.01, 3.1, 200)
for weight, color, name in ((0.0, "tab:orange", "w = 0: sgld"), (0.5, "tab:blue", "w = 1/2: new")):
    exact = (1 - weight * (1 - weight) * line) / (1 - line / 4)
    axes.plot(line, exact, color=color, lw=1)
    axes.plot(sizes, [results[weight, size][0] for size in sizes], "o", color=color, label=name)
axes.set(
    xlabel=r"step size $h\lambda$",
    ylabel="variance ÷ posterior variance",
    title="Draws (points) and the exact law (lines)",
)
axes.legend()
fig.tight_layout()
print("largest distance, in standard errors:", round(max(abs(z) for _, z in results.values()), 1))

# %% [markdown]
# The points lie on the lines. [`tests/test_own_sampler.py`](../../tests/test_own_sampler.py)
# makes a test of this: it compares the draws with the formula, with noise in the gradient as
# well, and it has a *negative control*, a version with a mistake, which the same comparison must
# reject.
#
# On a posterior that is not Gaussian the new method does have a bias, but of the order of $h^2$
# instead of $h$ (Leimkuhler, Matthews and Tretyakov, 2014). And it does nothing against the noise
# of minibatches: if that has the variance $\sigma^2$, both methods have up to $h\sigma^2/4$ added
# to the numerator above. That is why control variates matter here.
#
# ## A model with a constraint
#
# Now a regression with an unknown standard deviation, which must be positive. `constrain` sees to
# that: the chain moves on its logarithm, and the package adds the Jacobian. The class above does
# not have to know. Functions to `track` are evaluated at each draw.

# %%
rng = np.random.default_rng(3)
X = rng.normal(size=(10_000, 3))
y = X @ np.array([1.0, -0.5, 0.0]) + 2.0 * rng.normal(size=10_000)
regression = {"X": X, "y": y}


def regression_log_lik(params, data):
    error = (data["y"] - tf.linalg.matvec(data["X"], params["beta"])) / params["sigma"]
    return -tf.reduce_sum(error**2 / 2 + tf.math.log(params["sigma"]))


def signal(params):
    return tf.norm(params["beta"]) / params["sigma"]


variance = {"beta": 4 / 10_000, "sigma": 1 / (2 * 10_000)}  # of beta, and of log sigma
for weight in (0.0, 0.5):
    fit = sgmcmc.sample(
        TwiceUsedNoise(weight=weight),
        log_lik=regression_log_lik,
        dataset=regression,
        params={"beta": np.zeros(3), "sigma": 1.0},
        stepsize=variance,
        constrain={"sigma": "positive"},
        gradient="control_variates",
        minibatch_size=200,
        n_iters=200 if QUICK else 20_000,
        burn_in=100,
        n_chains=4,
        track={"signal": signal},
        seed=4,
        verbose=False,
    )
    print(f"weight {weight:g}\n{fit.summary()}\n")

# %% [markdown]
# These step sizes are as large as the posterior variances, ten times what we would give `sgldcv`.
# With weight 0 all standard deviations are some 15 % larger. Which are right? Least squares gives
# those of the coefficients:

# %%
inverse = np.linalg.inv(X.T @ X)
residuals = y - X @ inverse @ X.T @ y
exact = residuals.std() * np.sqrt(np.diag(inverse))
print("sd of the draws ÷ exact sd:", (fit["beta"].std(axis=(0, 1)) / exact).round(2))

# %% [markdown]
# ## Step by step
#
# `sample_setup` makes a sampler without running it. `step`, `run` and `get_params` go on from
# where it stands, and `sampler.params` are variables that follow the chain. The chain is the
# same, bit for bit, however it is cut into steps and runs.

# %%
arguments = {
    "log_lik": regression_log_lik,
    "dataset": regression,
    "params": {"beta": np.zeros(3), "sigma": 1.0},
    "stepsize": variance,
    "constrain": {"sigma": "positive"},
    "minibatch_size": 200,
    "seed": 5,
    "verbose": False,
}
sampler = sgmcmc.sample_setup(TwiceUsedNoise(), **arguments)
for _ in range(100):
    sgmcmc.step(sampler)
print(sgmcmc.get_params(sampler))

at_once = sgmcmc.sample(TwiceUsedNoise(), n_iters=100, **arguments)
print("the same:", np.array_equal(at_once["beta"][-1], sgmcmc.get_params(sampler)["beta"]))

# %% [markdown]
# ## What else a class may say
#
# Only `update` is required. The other members have defaults, which suit Langevin dynamics:
#
# - `init(x, noise, h)` makes the first state: by default of the parameters alone. Override it for
#   a momentum, an average, or anything else to remember.
# - `noise(x)` says which random numbers a step needs: by default a standard normal for each
#   number in `x`. Others are `Noise(uniforms=x)`, none at all, and `Noise(key=True)`, a key for
#   the functions of `sgmcmc.random`.
# - `position(chain)` is where the next gradient is taken: by default at `chain.x`.
# - `draw(chain, h)` is what is recorded: by default the position. It may add statistics, such as
#   a temperature, which appear in `draws.stats`.
# - `inner_steps` is the number of updates in an iteration, by default 1.
# - `begin(chain, noise, h)` does something before the first of them, such as draw a fresh
#   momentum. It gets noise of its own with `Noise(..., refresh=True)`.
#
# An estimator of the gradient (`sgmcmc.Estimator`) and the set in which a parameter lies
# (`sgmcmc.Space`) can be your own as well: see their examples in the
# [reference](../../docs/reference.md).
#
# ## What can go wrong
#
# - **NumPy or Python in `update`.** It is compiled: use TensorFlow operations, and `tf.where` in
#   place of `if`. What it has to remember goes into the state, never into `self`.
# - **Arrays without the chains.** Arrays have the chains as their first axis, with a single chain
#   as well. A sum over the coordinates of a parameter goes over all axes but the first.
# - **The scale of the noise.** Twice used noise must have weights that add up to 1, not squares
#   that do: both look right for one step, and the second gives twice the variance. Work out the
#   law on a Gaussian, and test it.
# - **A drift that is rounded away.** In single precision a small drift that is added to a large
#   parameter alone may have no effect. Add drift and noise first, as above.
#
# Leimkuhler and Matthews (2013), Rational construction of stochastic numerical methods for
# molecular sampling, Applied Mathematics Research eXpress; Leimkuhler, Matthews and Tretyakov
# (2014), On the long-time integration of stochastic gradient systems, Proceedings of the Royal
# Society A.
