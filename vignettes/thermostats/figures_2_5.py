# %% [markdown]
# # Figures 2 and 5: the mean of a normal distribution
#
# 100 rows from N(0, 1), a flat prior, minibatches of 10. The posterior is N(x̄, 1/100). The step
# size is ε = h² and the friction Ah. `sghmc` is not told the noise of its gradients. `sgnht` has
# the paper's thermostat, at the rate ε. Each run has 10⁶ steps.

# %%
import matplotlib.pyplot as plt
import numpy as np
import setting
import sgmcmc
import tensorflow as tf
from setting import COLOURS, DATA, N_CHAINS, QUICK, SETTINGS

N, n = len(DATA), 10
n_iters, burn_in, thin = (1_000, 0, 1) if QUICK else (1_000_000, 20_000, 20)
NOISE = N * (N - n) / n * DATA.var(ddof=1)  # the variance of the gradient's noise


def log_lik(params, data):
    return -tf.reduce_sum((data["x"] - params["mu"]) ** 2) / 2


def run(sampler, h, **more):
    return sampler(
        log_lik,
        {"x": DATA},
        {"mu": DATA.mean()},
        h**2,
        minibatch_size=n,
        minibatches="independent",
        n_iters=n_iters,
        burn_in=burn_in,
        thin=thin,
        n_chains=N_CHAINS,
        seed=1,
        verbose=False,
        **more,
    )


runs = {
    "SGHMC": {(h, A): run(sgmcmc.sghmc, h, alpha=A * h, L=1) for h, A in SETTINGS},
    "SGNHT": {
        (h, A): run(sgmcmc.sgnht, h, a=A * h, thermostat_rate="stepsize") for h, A in SETTINGS
    },
}

# %% [markdown]
# ## What is right
#
# The law of `sghmc` is a normal distribution, whose variance is known at any step size. For `sgnht`
# the mean friction follows from that of the kinetic energy, which it keeps at ½. To first order it
# is A + hσ²/2, with σ² the variance of the noise. N times the variance of μ is then 1 − hξ/2. Both
# are exact if many coordinates have one friction. Here only one has.


# %%
def sghmc_variance(h, A):
    """The stationary variance of θ and of ν²/ε."""
    eps, alpha = h**2, A * h
    heat = 2 * alpha * eps + eps**2 * NOISE
    below = alpha * (4 - 2 * alpha - eps * N)
    return (2 - alpha) * heat / (below * eps * N), 2 * heat / below / eps


def sgnht_friction(h, A):
    """The ξ at which the kinetic energy is ½: the smaller root of a square equation."""
    b, c = 4 - h**2 * N, 2 * (2 * A * h + h**2 * NOISE)
    return (b - np.sqrt(b**2 - 8 * c)) / 4 / h


rows = []
for name, some in runs.items():
    for (h, A), draws in some.items():
        each = N * draws["mu"].astype(float).var(axis=1)
        energy = draws.stats["temperature"]["mu"].mean(dtype=float) / 2
        if name == "SGHMC":
            variance, kinetic = sghmc_variance(h, A)
            exact = [f"{N * variance:.3f}", f"{kinetic / 2:.3f}", "", ""]
        else:
            xi = sgnht_friction(h, A)
            mean = draws.stats["thermostat"]["mu"].mean(dtype=float) / h
            exact = [f"{1 - h * xi / 2:.3f}", "0.500", f"{mean:.2f}", f"{xi:.2f}"]
        error = each.std(ddof=1) / np.sqrt(len(each))
        measured = f"{each.mean():.3f} ± {error:.3f}"
        rows.append([name, h, A, measured, exact[0], f"{energy:.3f}", *exact[1:]])
setting.table(
    [
        *("sampler", "h", "A", "N · variance", "exact", "kinetic energy", "exact"),
        *("mean ξ", "exact"),
    ],
    rows,
)

# %% [markdown]
# ## Figure 2, without its last panel
#
# That one belongs to the second example, and is in figure 6's script.


# %%
def normal(x, variance):
    return np.exp(-((x - DATA.mean()) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


edges = np.linspace(-0.6, 0.5, 111)
at = setting.middle(edges)
figure, axes = plt.subplots(1, 3, figsize=(12, 3.8))
for axis, (name, some) in zip(axes, reversed(runs.items())):
    for (h, A), draws in some.items():
        axis.plot(
            at,
            setting.histogram(draws["mu"], edges),
            color=COLOURS[h, A],
            label=f"h = {h}, A = {A}",
        )
        if name == "SGHMC":
            axis.plot(at, normal(at, sghmc_variance(h, A)[0]), ":", color=COLOURS[h, A], lw=2.5)
    axis.plot(at, normal(at, 1 / N), "k--", lw=1, label="posterior")
    axis.set(title=f"density of μ, {name}", xlabel="μ", ylim=(0, 5))
steps = thin * np.arange(1, n_iters // thin + 1)
for (h, A), draws in runs["SGNHT"].items():
    friction = draws.stats["thermostat"]["mu"][0].astype(float) / h
    mean = np.cumsum(friction) / np.arange(1, len(friction) + 1)
    axes[2].plot(steps / 1e6, mean, color=COLOURS[h, A])
    axes[2].axhline(sgnht_friction(h, A), color=COLOURS[h, A], ls=":", lw=2)
axes[2].set(title="mean ξ so far, SGNHT", xlabel="million steps", ylim=(0, 18))
handles, names = axes[0].get_legend_handles_labels()
handles.append(plt.Line2D([], [], color="0.5", ls=":", lw=2.5))
names.append("exact")
figure.legend(handles, names, loc="outside lower center", ncols=3)
setting.save(figure, "figure_2")

# %% [markdown]
# ## Figure 5
#
# The kinetic energy of one chain, as a mean so far.

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
for axis, (name, some) in zip(axes, runs.items()):
    for (h, A), draws in some.items():
        energy = draws.stats["temperature"]["mu"][0].astype(float) / 2
        mean = np.cumsum(energy) / np.arange(1, len(energy) + 1)
        axis.plot(steps, mean, color=COLOURS[h, A], label=f"h = {h}, A = {A}")
        if name == "SGHMC":
            axis.axhline(sghmc_variance(h, A)[1] / 2, color=COLOURS[h, A], ls=":", lw=2)
    axis.axhline(0.5, color="k", ls="--", lw=1)
    axis.set(title=name, xlabel="steps", xscale="log")
axes[0].set(ylabel="mean kinetic energy so far", ylim=(0, 2.5))
handles, names = axes[0].get_legend_handles_labels()
handles += [plt.Line2D([], [], color="0.5", ls=":", lw=2), plt.Line2D([], [], color="k", ls="--")]
figure.legend(handles, [*names, "exact", "right"], loc="outside lower center", ncols=3)
setting.save(figure, "figure_5")
