# %% [markdown]
# # A mixture of directions
#
# Texts, gene profiles and wind are often compared by their direction alone, as vectors of length 1.
# Their clusters can be described by a mixture of von Mises-Fisher distributions: each component has
# a weight ωₖ, a mean direction μₖ on the sphere, and a concentration κₖ. The three kinds of
# parameters live in three kinds of spaces. `mixed` gives each the sampler that suits it. Liu, Zhu
# and Song (2016) name this model as a use of their samplers on manifolds.
#
# First we take a thousand directions in three dimensions, which can be drawn on a map. Then we take
# twenty thousand in ten dimensions. In both cases, `gmc` on all rows, which has no bias, is there
# to compare with.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf
from scipy import optimize, special, stats

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
jit = not QUICK  # compiling takes longer than so few iterations
K = 4
vmf = sgmcmc.von_mises_fisher_log_prob


def simulated(truth, N, rng):
    component = rng.choice(K, N, p=truth["omega"])
    x = np.empty((N, truth["mu"].shape[1]))
    for k in range(K):
        mine = component == k
        law = stats.vonmises_fisher(truth["mu"][k], truth["kappa"][k])
        x[mine] = law.rvs(mine.sum(), random_state=rng)
    return x


longitude, latitude = np.radians([[-110, -20, 30, 110], [10, 50, -30, 20]])
level = np.cos(latitude)
globe = {
    "omega": np.array([0.15, 0.2, 0.3, 0.35]),
    "mu": np.stack(
        [level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=1
    ),
    "kappa": np.array([5.0, 10, 20, 40]),
}
places = simulated(globe, 100 if QUICK else 1000, np.random.default_rng(1))

# %% [markdown]
# ## The model
#
# The likelihood sums over the components, as no sampler that follows gradients can have labels as
# parameters. It is written in the weights as they are. Directions and weights have flat priors, and
# κ an exponential one with mean 100. The prior of the weights is `alpha=1` of their sampler, and
# not a part of `log_prior`.


# %%
def log_density(params, data):
    each = vmf(data["x"][:, None], params["mu"], params["kappa"])
    return tf.reduce_logsumexp(each + tf.math.log(params["omega"]), axis=1)


def log_lik(params, data):
    return tf.reduce_sum(log_density(params, data))


def log_prior(params):
    return -tf.reduce_sum(params["kappa"]) / 100


# %% [markdown]
# - `SCIR` moves the weights, as in [`simplex`](simplex.md).
# - `SGGMC` moves the four mean directions, each on its own sphere. With `gradient_noise="full"`, it
#   estimates the covariance of the noise of their gradients from the rows of each minibatch, and
#   adds less noise of its own.
# - `constrain` keeps the concentrations positive, so that the chain moves log κ. `SGLD` or `SGHMC`
#   could move it. But `SGGMC` on flat space, `Euclidean()`, allows for the noise of gradients here,
#   too.

# %%
blocks = {
    "omega": sgmcmc.SCIR(alpha=1.0),
    "mu": sgmcmc.SGGMC(manifold=sgmcmc.Sphere(), momentum=0.3, L=1, gradient_noise="full"),
    "kappa": sgmcmc.SGGMC(
        manifold=sgmcmc.Euclidean(), momentum=0.3, L=1, gradient_noise="diagonal"
    ),
}


def spherical_k_means(x, rng):
    """Mean directions of K clusters, which start from rows far from one another."""
    centre = x[rng.choice(len(x), 1)]
    while len(centre) < K:
        far = np.maximum(1 - (x @ centre.T).max(axis=1), 0)
        centre = np.concatenate([centre, x[rng.choice(len(x), 1, p=far / far.sum())]])
    for _ in range(20):
        nearest = (x @ centre.T).argmax(axis=1)
        centre = np.stack([x[nearest == k].sum(axis=0) for k in range(K)])
        centre /= np.linalg.norm(centre, axis=1, keepdims=True)
    return centre


def start_at(mu):
    return {"omega": np.full(K, 1 / K), "mu": mu, "kappa": np.full(K, 10.0)}


start = start_at(spherical_k_means(places, np.random.default_rng(2)))
n_iters = 100 if QUICK else 20_000
mixed = sgmcmc.mixed(
    log_lik=log_lik,
    dataset={"x": places},
    params=start,
    stepsize={"omega": 0.01, "mu": 2e-3, "kappa": 6e-3},
    blocks=blocks,
    log_prior=log_prior,
    constrain={"kappa": "positive"},
    minibatch_size=10 if QUICK else 100,
    n_iters=n_iters,
    burn_in=n_iters // 10,
    thin=5,
    n_chains=4,
    seed=1,
    verbose=False,
    jit=jit,
)

# %% [markdown]
# The other call is `gmc`, on all thousand rows. `Simplex()` is the manifold of the weights. With no
# `alpha` and nothing in `log_prior`, their density is flat, which is what `alpha=1` means for
# `SCIR`.

# %%
exact = sgmcmc.gmc(
    log_lik=log_lik,
    dataset={"x": places},
    params=start,
    stepsize={"omega": 4e-3, "mu": 4e-3, "kappa": 0.015},
    log_prior=log_prior,
    manifold={"omega": sgmcmc.Simplex(), "mu": sgmcmc.Sphere()},
    constrain={"kappa": "positive"},
    L=10,
    n_iters=100 if QUICK else 4000,
    burn_in=10 if QUICK else 200,
    n_chains=4,
    seed=2,
    dtype="float64",
    verbose=False,
    jit=jit,
)
print(f"{exact.stats['accepted'].mean():.0%} of the trajectories of gmc were accepted")

# %% [markdown]
# A mixture does not say which component is the first. Here all chains start from one clustering,
# and none changes its labels, so we only have to bring the components into the order of the truth.
# Each chain's mean directions are matched to those of the truth, or of another chain.


# %%
def relabelled(draws, mu):
    """The draws, in a dict, with components in the order of the directions `mu`."""
    order = []
    for chain in draws["mu"]:
        _, match = optimize.linear_sum_assignment(-mu @ chain.mean(axis=0).T)
        order.append(match)
    return {
        name: np.stack([chain[:, match] for chain, match in zip(x, order)])
        for name, x in draws.items()
    }


def spread(mu):
    """Mean direction of draws, and root mean square of their angle from it, in degrees."""
    mean = mu.astype(float).mean(axis=(0, 1))
    mean /= np.linalg.norm(mean, axis=-1, keepdims=True)
    return mean, np.degrees(np.sqrt(np.mean(2 - 2 * np.sum(mu * mean, axis=-1), axis=(0, 1))))


def compare(found, reference, truth):
    print("           truth    gmc: mean      sd    mixed: mean      sd")
    for name, digits in (("omega", 3), ("kappa", 2)):
        for k in range(K):
            print(f"{name:5} {k + 1}  {truth[name][k]:8.{digits}f}", end="")
            for each in (reference, found):
                x = each[name][..., k]
                print(f"  {x.mean():11.{digits}f} {x.std():8.{digits + 1}f}", end="")
            print()
    print("\nangles in degrees:  gmc to truth   gmc: spread   mixed to gmc   mixed: spread")
    (there, width), (here, own) = spread(reference["mu"]), spread(found["mu"])
    for k in range(K):
        apart = [
            np.degrees(np.arccos(min(a @ b, 1)))
            for a, b in ((there[k], truth["mu"][k]), (here[k], there[k]))
        ]
        print(f"mu {k + 1} {apart[0]:25.2f} {width[k]:13.2f} {apart[1]:14.2f} {own[k]:15.2f}")


mixed, exact = relabelled(mixed, globe["mu"]), relabelled(exact, globe["mu"])
compare(mixed, exact, globe)

# %%
colours = ("tab:blue", "tab:orange", "tab:green", "tab:red")


def on_map(x):
    return np.arctan2(x[..., 1], x[..., 0]).ravel(), np.arcsin(x[..., 2]).ravel()


fig = plt.figure(figsize=(12, 3.6))
grid = fig.add_gridspec(1, 3, width_ratios=(2, 1, 1))
axes = fig.add_subplot(grid[0], projection="mollweide")
axes.plot(*on_map(places), ".", ms=3, color="0.7")
for k, colour in enumerate(colours):
    axes.plot(*on_map(mixed["mu"][:, ::50, k]), ".", ms=2, color=colour, alpha=0.6)
axes.plot(*on_map(globe["mu"]), "k+", ms=9, mew=1)
axes.grid(alpha=0.3)
axes.set(xticklabels=[], yticklabels=[], title="Rows (grey), draws of μ, and the truth (+)")
for place, name, symbol in ((1, "omega", "ω"), (2, "kappa", "κ")):
    axes = fig.add_subplot(grid[place])
    for k, colour in enumerate(colours):
        for each, style in ((mixed, "-"), (exact, ":")):
            x = each[name][..., k].astype(float).ravel()
            at = np.linspace(x.min(), x.max(), 200)
            height = stats.gaussian_kde(x[:: max(1, len(x) // 4000)])(at)
            axes.plot(at, height / height.max(), style, color=colour if style == "-" else "black")
        axes.plot(globe[name][k], 0, "+", color="black", ms=10, mew=1.5, clip_on=False)
    axes.set(title=f"{symbol}: mixed, gmc (dotted)", yticks=[], xlabel=symbol)
    if name == "kappa":
        axes.set_xscale("log")
        axes.set_xticks([5, 10, 20, 40], ["5", "10", "20", "40"])
        axes.minorticks_off()
fig.tight_layout()

# %% [markdown]
# `mixed` and `gmc` agree: the means differ by at most a tenth of a standard deviation. The standard
# deviations of the weights are up to a tenth too large with `mixed`, since `SCIR` does not subtract
# the noise of minibatches: a smaller step makes this error smaller. The others agree to within 4 %.
# What differs from the truth is the same for both: it is all that a thousand rows can tell. The
# first component has the fewest rows, and they are spread most widely.
#
# ## Ten dimensions, and where chains start
#
# Now twenty thousand directions on the sphere in ten dimensions, and two thousand more that are
# held out. Minibatches have 500 rows.

# %%
rng = np.random.default_rng(3)
mu = rng.normal(size=(K, 10))
truth = {
    "omega": np.array([0.1, 0.2, 0.3, 0.4]),
    "mu": mu / np.linalg.norm(mu, axis=1, keepdims=True),
    "kappa": np.array([8.0, 12, 20, 40]),
}
train = simulated(truth, 500 if QUICK else 20_000, rng)
test = simulated(truth, 2000, rng)


def sample(starts, n_iters, burn_in):
    return sgmcmc.mixed(
        log_lik=log_lik,
        dataset={"x": train},
        params=start_at(starts[0]),
        stepsize={"omega": 0.005, "mu": 2e-4, "kappa": 5e-4},
        blocks=blocks,
        log_prior=log_prior,
        constrain={"kappa": "positive"},
        minibatch_size=50 if QUICK else 500,
        n_iters=n_iters,
        burn_in=burn_in,
        thin=10,
        n_chains=len(starts),
        starts={
            name: np.stack([start_at(mu)[name] for mu in starts])
            for name in ("omega", "mu", "kappa")
        },
        seed=1,
        verbose=False,
        jit=jit,
    )


def held_out(draws):
    """Mean log density of the rows held out, averaged over the draws of each chain."""
    each = draws.log_likelihood(log_density, {"x": test}, thin=10)
    return (special.logsumexp(each, axis=1) - np.log(each.shape[1])).mean(axis=-1)


# %% [markdown]
# A mixture's posterior has many modes. Some are mirror images, which say the same with other
# labels. Others are worse: two components share a cluster, and another one covers two clusters. No
# sampler here leaves such a mode, so the start decides. We compare eight chains that start from
# random rows with eight from spherical k-means, each with random numbers of its own.

# %%
n_iters = 200 if QUICK else 2000
starts = {
    "random rows": [train[rng.choice(len(train), K, replace=False)] for _ in range(8)],
    "k-means": [spherical_k_means(train, rng) for _ in range(8)],
}
as_constants = {name: tf.constant(x) for name, x in truth.items()}
best = float(tf.reduce_mean(log_density(as_constants, {"x": tf.constant(test)})))
scores = {}
print("held-out log density less that of the truth, by chain")
for name, each in starts.items():
    scores[name] = held_out(sample(each, n_iters, n_iters)) - best
    print(f"{name:12}", *(f"{x:7.3f}" for x in np.sort(scores[name])))

# %% [markdown]
# With random rows, some chains have not found the four clusters after 4,000 iterations, and their
# predictions are worse by up to three quarters of a unit for each row. All chains from k-means are
# within a few thousandths of the truth. The held-out density finds such chains, and so does the
# trace of the log posterior. `r_hat` is of less use here, as the next run shows.
#
# ## Label switching
#
# We take four of the starts from k-means for a longer run. Clusterings number their clusters at
# random.

# %%
n_iters = 100 if QUICK else 16_000
draws = sample(starts["k-means"][:4], n_iters, n_iters // 10)
print("order of the components, by chain:")
for chain in draws["mu"]:
    print(1 + optimize.linear_sum_assignment(-truth["mu"] @ chain.mean(axis=0).T)[1])
raw = draws.summary(names=["omega", "kappa"])
found = relabelled(draws, truth["mu"])
tidy = sgmcmc.Draws(found, draws.stats, draws.settings).summary(names=["omega", "kappa"])
print(f"r_hat of ω and κ: up to {np.max(raw['r_hat']):.1f} as they are", end=", ")
print(f"{np.max(tidy['r_hat']):.3f} in one order; ess at least {np.min(tidy['ess']):.0f}")
for name, x in draws.stats["temperature"].items():
    print(f"temperature of {name}: {x.mean():.3f}")

# %% [markdown]
# Each chain keeps the order of its start. So the chains disagree about "the first component", and
# `r_hat` of the draws as they are is enormous. Nothing is wrong with the chains. But none of them
# has explored the 4! = 24 mirror images of the mode: each has seen one. As all images say the same,
# one is enough. In one order, `r_hat` is small, although it is not yet below 1.01: the smallest
# component moves slowly. (If components overlap so much that a chain exchanges them on its way, no
# single order of a chain is right. Then use only what does not depend on labels, such as
# predictions.)
#
# ## Compared with all rows
#
# `gmc` on all 20,000 rows takes 9 gradients of the whole data for each draw. One chain of a few
# hundred draws can be afforded, if it starts where the other chains ended.

# %%
last = {name: x[0, -1].astype(float) for name, x in found.items()}
last["omega"] /= last["omega"].sum()
reference = sgmcmc.gmc(
    log_lik=log_lik,
    dataset={"x": train},
    params=last,
    stepsize={"omega": 1e-3, "mu": 9e-4, "kappa": 3e-3},
    log_prior=log_prior,
    manifold={"omega": sgmcmc.Simplex(), "mu": sgmcmc.Sphere()},
    constrain={"kappa": "positive"},
    L=8,
    n_iters=10 if QUICK else 600,
    burn_in=0 if QUICK else 50,
    n_chains=1,
    seed=1,
    dtype="float64",
    verbose=False,
    jit=jit,
)
print(f"{reference.stats['accepted'].mean():.0%} accepted")
print(reference.summary(names=["omega", "kappa"]))
reference = relabelled(reference, truth["mu"])
compare(found, reference, truth)

# %%
fig, axes = plt.subplots(1, 3, figsize=(12, 3.8), width_ratios=(1, 1.4, 1.4))
for place, score in enumerate(scores.values()):
    axes[0].plot(place + np.linspace(-0.15, 0.15, len(score)), np.sort(score), "o", ms=5)
axes[0].axhline(0, color="black", lw=0.8)
axes[0].set(xticks=[0, 1], xlim=(-0.5, 1.5), title="Held-out log density, by start")
axes[0].set_xticklabels(scores)
axes[0].set_ylabel("less that of the truth")
labels = []
for k in range(K):
    for row, name in ((K - k, "kappa"), (2 * K - k, "omega")):
        unit = reference[name][..., k].std()
        for each, colour, shift in ((found, "tab:blue", 0.12), (reference, "black", -0.12)):
            x = (each[name][..., k] - truth[name][k]) / unit
            axes[1].plot(np.percentile(x, [2.5, 97.5]), 2 * [row + shift], color=colour, lw=1.5)
            label = None if k or name == "kappa" else "mixed" if shift > 0 else "gmc"
            axes[1].plot(x.mean(), row + shift, "o", ms=4, color=colour, label=label)
        labels.append((row, f"{'ω' if name == 'omega' else 'κ'}{'₁₂₃₄'[k]}"))
axes[1].axvline(0, color="tab:red", lw=1, label="truth")
axes[1].set_yticks(*zip(*labels))
axes[1].set(title="95 % intervals", xlabel="distance from the truth, in sd of gmc")
axes[1].legend(fontsize=8)
for k, colour in enumerate(colours):
    for each, style in ((found, "-"), (reference, ":")):
        cosine = np.clip(each["mu"][..., k, :] @ truth["mu"][k], -1, 1)
        angle = np.degrees(np.arccos(cosine)).ravel()
        at = np.linspace(0, 6, 200)
        height = stats.gaussian_kde(angle[:: max(1, len(angle) // 4000)])(at)
        paint = colour if style == "-" else "black"
        axes[2].plot(
            at, height, style, color=paint, label=f"μ{'₁₂₃₄'[k]}" if style == "-" else None
        )
axes[2].set(xlabel="angle from the true μ, degrees", ylabel="density")
axes[2].set_title("Mean directions: mixed, gmc (dotted)")
axes[2].legend(fontsize=8)
fig.tight_layout()

# %% [markdown]
# `mixed` agrees with `gmc` again, at a fraction of the rows for each draw. Both place κ₁ two
# standard deviations below the truth, and the other seven intervals contain it. Their disagreement
# is largest for the mean direction of the first component, which has the fewest effective draws.
#
# ## In short
#
# - **Write the likelihood in the values themselves**: weights, unit vectors and concentrations. The
#   blocks of `mixed` keep each in its space.
# - **Start from a clustering**, with different random numbers for each chain, and compare the
#   chains by a held-out density.
# - **Order the components after sampling**, or use only what does not depend on labels.
# - **Step sizes.** The component with the most rows and the largest κ has the narrowest posterior
#   and the most noise. If its step is too large, the temperature is above 1. The smallest component
#   then moves slowly, and needs a longer run: look at its `ess`.
# - **Weights near 0.** Where components may be empty, `SCIR` is the sampler to take. Otherwise
#   `sggmc` can sample everything, with `manifold={"omega": Simplex(), "mu": Sphere()}`.
