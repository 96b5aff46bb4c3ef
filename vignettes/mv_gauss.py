# %% [markdown]
# # A Gaussian whose posterior is known: what step sizes and samplers do
#
# This page samples the mean of a bivariate Gaussian with known covariance, given 10,000 rows. The
# posterior is a Gaussian in closed form. So we can see what a step size that is too large or too
# small does, what control variates change, and how to tune the samplers with momentum.

# %%
import os

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf
import tensorflow_probability as tfp

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
n_iters = 400 if QUICK else 20_000
tfd = tfp.distributions

N, n = 10_000, 100
covariance = np.array([[1.0, 0.6], [0.6, 1.0]])
x = np.random.default_rng(1).multivariate_normal([0.5, -0.5], covariance, N)

# %% [markdown]
# The model uses TensorFlow Probability's distributions, which are TensorFlow operations like any
# others. The prior of each mean is N(0, 10).


# %%
def log_lik(params, data):
    cholesky = tf.constant(np.linalg.cholesky(covariance), tf.float32)
    return tf.reduce_sum(tfd.MultivariateNormalTriL(params["theta"], cholesky).log_prob(data["x"]))


def log_prior(params):
    return tf.reduce_sum(tfd.Normal(0.0, 10.0**0.5).log_prob(params["theta"]))


dataset, params = {"x": x}, {"theta": np.zeros(2)}

precision = np.eye(2) / 10 + N * np.linalg.inv(covariance)
exact_cov = np.linalg.inv(precision)
exact_mean = exact_cov @ np.linalg.solve(covariance, x.sum(0))
exact_sd = np.sqrt(np.diag(exact_cov))
print(f"exact posterior: mean {exact_mean.round(4)}, sd {exact_sd.round(4)}")

# %% [markdown]
# ## Without a step size
#
# Leave out the step size, and it is chosen, so that the variance of the draws is at most 5 % too
# large in every direction:

# %%
chosen = sgmcmc.sgldcv(
    log_lik=log_lik,
    dataset=dataset,
    params=params,
    log_prior=log_prior,
    minibatch_size=n,
    n_iters=n_iters,
    seed=1,
)
print(chosen.summary())

# %% [markdown]
# The rest of this page is about what is behind that choice ([`step_sizes`](step_sizes.md) says
# how it is made), and about models for which it cannot be made. So from here on we give step sizes.
#
# ## One chain
#
# The posterior variance is 1e-4 in each coordinate. But the step size must suit the *narrowest*
# direction, which is not a coordinate axis if parameters are correlated. Its variance is the
# smallest eigenvalue of the posterior covariance, 4e-5. We take a tenth of it. Each minibatch is
# drawn independently of the others here, which is not the default:

# %%
independent = sgmcmc.sgld(
    log_lik=log_lik,
    dataset=dataset,
    params=params,
    stepsize=4e-6,
    log_prior=log_prior,
    minibatch_size=n,
    minibatches="independent",
    n_iters=n_iters,
    burn_in=n_iters // 10,
    seed=1,
)
print(independent.summary())

# %% [markdown]
# The means are right, but the standard deviations are a third too large or more. We draw contours
# of the exact posterior over these draws, over those with minibatches that are taken in turn from
# shuffled rows, and over those of `sgldcv`, all with the same step size.


# %%
def contours(axes, label):
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.linalg.cholesky(exact_cov) @ [np.cos(angle), np.sin(angle)]
    for mass in (0.5, 0.95):
        ring = exact_mean[:, None] + np.sqrt(-2 * np.log(1 - mass)) * circle
        axes.plot(*ring, color="black", lw=1.5, label=label if mass == 0.5 else None)


def scatter(axes, theta, title):
    axes.plot(*theta[:: max(1, len(theta) // 4000)].T, ".", ms=2, alpha=0.4, color="tab:blue")
    contours(axes, "exact, 50 % and 95 %")
    inside = np.einsum("ij,jk,ik->i", theta - exact_mean, precision, theta - exact_mean)
    share = np.mean(inside < -2 * np.log(0.05))
    axes.set(title=f"{title}\n{share:.0%} of the draws inside 95 %", xlabel=r"$\theta_1$")


in_turn = sgmcmc.sgld(
    log_lik=log_lik,
    dataset=dataset,
    params=params,
    stepsize=4e-6,
    log_prior=log_prior,
    minibatch_size=n,
    n_iters=n_iters,
    burn_in=n_iters // 10,
    seed=1,
)
cv = sgmcmc.sgldcv(
    log_lik=log_lik,
    dataset=dataset,
    params=params,
    stepsize=4e-6,
    log_prior=log_prior,
    minibatch_size=n,
    n_iters=n_iters,
    seed=1,
)
fig, axes = plt.subplots(1, 3, figsize=(11, 4.3), sharex=True, sharey=True)
scatter(axes[0], independent["theta"], "sgld, independent minibatches")
scatter(axes[1], in_turn["theta"], "sgld")
scatter(axes[2], cv["theta"], "sgldcv")
axes[0].set_ylabel(r"$\theta_2$")
axes[0].legend(loc="upper left", framealpha=1)
fig.tight_layout()

# %% [markdown]
# Why are the draws of `sgld` too wide? The gradient of a minibatch is noisy, and its noise heats
# the chain. For a Gaussian of precision λ and gradient noise of variance σ², the variance of the
# draws of `sgld` with step size ε and independent minibatches is
#
# $$\frac{1 + \epsilon\sigma^2/4}{\lambda\,(1 - \epsilon\lambda/4)}$$
#
# where 1/λ would be right. In a model that fits the data, σ² is about λN/n, with n rows of N in a
# minibatch. So with minibatches of 1 %, the error in the numerator is a hundred times that in the
# denominator. If minibatches are taken in turn, their noise adds up to zero over an epoch, of N/n
# steps. That helps as far as the chain remembers the epoch. This gives three rules for a first step
# size:
#
# - with control variates, a tenth of the smallest posterior variance, .1/λ: an error of about 3 %
#   in the variance;
# - without, .4 (n/N)/λ with independent minibatches: an error of 10 %. With minibatches of 1 %,
#   this step is 25 times smaller;
# - and 1.7 (n/N)/λ with minibatches that are taken in turn, for the same error.
#
# Here control variates remove all of the noise, because the model is Gaussian. In other models some
# noise is left, and it grows with the distance from the mode.
#
# ## Too large, too small
#
# For a range of step sizes, we look at how much too wide the draws are, and how many independent
# draws they are worth.

# %%
stepsizes = [1e-6] if QUICK else [1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5]
long = 10 * n_iters
kinds = {
    "sgld, independent": (sgmcmc.sgld, "independent"),
    "sgld": (sgmcmc.sgld, "reshuffled"),
    "sgldcv": (sgmcmc.sgldcv, "reshuffled"),
}
colours = dict(zip(kinds, ("tab:red", "tab:orange", "tab:blue")))
width, ess = {name: [] for name in kinds}, {name: [] for name in kinds}
for stepsize in stepsizes:
    for name, (sampler, minibatches) in kinds.items():
        made = sampler(
            log_lik=log_lik,
            dataset=dataset,
            params={"theta": exact_mean},
            stepsize=stepsize,
            log_prior=log_prior,
            minibatch_size=n,
            minibatches=minibatches,
            n_iters=long,
            thin=10,
            n_chains=8,
            seed=2,
            verbose=False,
        )
        summary = made.summary()
        width[name].append(np.mean(summary["sd"] / exact_sd))
        ess[name].append(np.mean(summary["ess"]) / 8)  # of one chain

fig, axes = plt.subplots(1, 2, figsize=(9, 4))
for name, colour in colours.items():
    axes[0].semilogx(stepsizes, width[name], "o-", color=colour, label=name)
    axes[1].loglog(stepsizes, ess[name], "o-", color=colour, label=name)
axes[0].axhline(1, color="black", lw=1)
axes[0].set(xlabel="step size", ylabel="sd of the draws ÷ exact sd", title="Bias")
axes[1].set(
    xlabel="step size", ylabel="effective draws", title=f"What {long:,} iterations are worth"
)
axes[0].legend()
fig.tight_layout()

# %% [markdown]
# This is the trade-off: small steps give few effective draws, and large steps give draws that are
# too wide. For the same bias, `sgldcv` takes steps about a hundred times as large as `sgld` with
# independent minibatches, and gets about as many times the effective draws out of a chain. With
# minibatches in turn, `sgld` takes steps some five times as large.
#
# ## Far too large
#
# Beyond 4/λ the chain diverges. The exception says so, and contains the draws made before:

# %%
try:
    sgmcmc.sgld(
        log_lik=log_lik,
        dataset=dataset,
        params=params,
        stepsize=1e-3,
        log_prior=log_prior,
        minibatch_size=n,
        seed=1,
        verbose=False,
    )
except sgmcmc.ChainDiverged as error:
    print(error)

# %% [markdown]
# ## Momentum
#
# `sghmc` and `sgnht` carry a momentum, with a friction that takes out the heat of the gradient
# noise. Their ε is a *squared* step. `sghmc` has a fixed friction, `alpha`: noise of variance σ²
# adds a share εσ²/(2α) to the temperature. So ε must be small: .2 α (n/N)/λ for an error of 10 %
# with independent minibatches, as here. (A thermostat needs them, and has them by default.)
# `sgnht` measures its temperature and adapts its friction ξ until the temperature is 1. But it has
# one friction for a whole parameter, so the noise must be alike in all directions. Therefore we
# sample φ, with θ = Cφ for a Cholesky factor C of the data's covariance. The posterior of φ and its
# gradient noise are the same in all directions, and λ is about N. We run 100 chains of each
# sampler, all from the mode.


# %%
cholesky = np.linalg.cholesky(covariance)
rotate = tf.constant(cholesky, tf.float32)


def theta_of(params):
    return {"theta": tf.linalg.matvec(rotate, params["phi"])}


def log_lik_phi(params, data):
    return log_lik(theta_of(params), data)


def log_prior_phi(params):
    return log_prior(theta_of(params))


mode = {"phi": np.linalg.solve(cholesky, exact_mean)}
hot = sgmcmc.sghmc(
    log_lik=log_lik_phi,
    dataset=dataset,
    params=mode,
    stepsize=4e-7,
    log_prior=log_prior_phi,
    minibatch_size=n,
    minibatches="independent",
    n_iters=n_iters // 4,
    alpha=0.1,
    thin=10,
    n_chains=100,
    seed=1,
    verbose=False,
)
cool = sgmcmc.sghmc(
    log_lik=log_lik_phi,
    dataset=dataset,
    params=mode,
    stepsize=2e-8,
    log_prior=log_prior_phi,
    minibatch_size=n,
    minibatches="independent",
    n_iters=n_iters // 4,
    alpha=0.1,
    thin=10,
    n_chains=100,
    seed=1,
    verbose=False,
)
nht = sgmcmc.sgnht(
    log_lik=log_lik_phi,
    dataset=dataset,
    params=mode,
    stepsize=2e-7,
    log_prior=log_prior_phi,
    minibatch_size=n,
    n_iters=n_iters // 4,
    a=0.01,
    thin=10,
    n_chains=100,
    seed=1,
    verbose=False,
)


def temperature(made):
    return made.stats["temperature"]["phi"]


print("                    temperature   sd ÷ exact sd")
for name, made in {"sghmc, ε = 4e-7": hot, "sghmc, ε = 2e-8": cool, "sgnht, ε = 2e-7": nht}.items():
    half = made["phi"].shape[1] // 2  # the second half, after the chains have left the mode
    ratio = np.mean(made["phi"][:, half:].std((0, 1))) * N**0.5
    print(f"{name:20} {temperature(made)[:, half:].mean():10.2f} {ratio:15.2f}")

# %% [markdown]
# The first `sghmc` is hot, and its draws are far too wide. With an ε twenty times smaller, as the
# rule says, they are about 5 % too wide. (Without gradient noise, the temperature of `sghmc` is
# 1/(1 − α/2), here 1.05, and its draws are right.) `sgnht` can take an ε ten times that of the
# second `sghmc`. It starts with a friction of a = .01, far too little for this noise, so the chains
# heat up. But within a few hundred iterations the friction reaches the level at which the
# temperature is 1, and stays near it:

# %%
xi = nht.stats["thermostat"]["phi"]
iteration = 10 * np.arange(xi.shape[1])
eps, lam, noise = 2e-7, N, N * (N - n) / n
q, b = 2 * 0.01 + eps * noise, 4 - eps * lam
exact_xi = (b - np.sqrt(b**2 - 16 * q)) / 4  # the small root of ξ(4 − 2ξ − ελ) = 2q

fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
axes[0].plot(iteration, xi[0], color="tab:green", lw=0.8, alpha=0.6, label="one chain")
axes[0].plot(iteration, xi.mean(0), color="tab:green", lw=2, label="mean of 100 chains")
axes[0].axhline(exact_xi, color="black", lw=1, ls="--", label="exact")
axes[0].set(xlabel="iteration", ylabel=r"friction $\xi$", title="sgnht finds its friction")
axes[0].legend()
axes[1].plot(iteration, temperature(nht).mean(0), color="tab:red", lw=1)
axes[1].axhline(1, color="black", lw=1)
axes[1].set(
    xlabel="iteration",
    ylabel="temperature, mean of 100 chains",
    title="until the temperature is 1",
)
fig.tight_layout()

# %% [markdown]
# The friction of a single chain fluctuates about this level, because it follows a temperature that
# is measured on two coordinates only. The level is about a + εσ²/2. The variance of the draws is
# 1 − ξ/2 times what it should be, here .94, so keep the friction well below 1. It cannot exceed 1:
# if 2a + εσ² is above 1, the noise is more than it can take out. Then the temperature stays above
# 1, and ε is too large.

# %% [markdown]
# ## Autocorrelation
#
# ArviZ shows how fast a chain forgets its past, here that of `sgldcv`, with lags in iterations. The
# length of the chain divided by twice the area under this curve is its number of effective draws.

# %%
az.plot_autocorr(cv.to_arviz(), var_names=["theta"], max_lag=300)
for k, axes in enumerate(plt.gcf().axes):
    axes.set(ylim=(-0.2, 1), xlabel="lag, iterations", ylabel="autocorrelation")
    axes.set_title(f"coordinate {k + 1} of θ")
plt.gcf().tight_layout()
