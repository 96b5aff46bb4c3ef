# %% [markdown]
# # Figure 6, table 1, and the last panel of figure 2: mean and precision of a normal distribution
#
# 100 rows from N(0, 1), and the prior μ | γ ~ N(0, 1/γ), γ ~ Gamma(1, 1). The noise of gradients
# now depends on where the chain is, and differs between μ and γ. The posterior is known. Beside the
# paper's thermostat, which has one friction for both parameters, are those of its section 4.2: one
# for each coordinate, and a matrix. All have the paper's rate ε. Each run has 10⁶ steps.

# %%
import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
import setting
import sgmcmc
import tensorflow as tf
from setting import COLOURS, DATA, N_CHAINS, QUICK, SETTINGS

N = len(DATA)
n_iters, burn_in, thin = (1_000, 0, 1) if QUICK else (1_000_000, 50_000, 20)
SHAPE = 1 + N / 2
RATE = 1 + ((DATA - DATA.mean()) ** 2).sum() / 2 + N / (2 * (N + 1)) * DATA.mean() ** 2
EXACT = {
    "μ": scipy.stats.t(2 * SHAPE, DATA.sum() / (N + 1), np.sqrt(RATE / SHAPE / (N + 1))),
    "γ": scipy.stats.gamma(SHAPE, scale=1 / RATE),
}

# %% [markdown]
# The paper's gradient in γ lacks a factor ½ before the sum of squares. Here gradients are those of
# the log likelihood. μ and γ are one parameter, so that a matrix has the friction of both.


# %%
def log_prior(params):
    mu, gamma = tf.unstack(params["both"])
    return tf.math.log(gamma) / 2 - gamma * mu**2 / 2 - gamma


def log_lik(params, data):
    mu, gamma = tf.unstack(params["both"])
    return tf.reduce_sum(tf.math.log(gamma) - gamma * (data["x"] - mu) ** 2) / 2


def run(sampler, h, **more):
    return sampler(
        log_lik,
        {"x": DATA},
        {"both": [0.0, 1.6]},
        h**2,
        log_prior=log_prior,
        minibatch_size=10,
        minibatches="independent",
        n_iters=n_iters,
        burn_in=burn_in,
        thin=thin,
        n_chains=N_CHAINS,
        track={"sum": lambda params: tf.reduce_sum(params["both"])},
        seed=1,
        verbose=False,
        **more,
    )


runs = {"SGHMC": {(h, A): run(sgmcmc.sghmc, h, alpha=A * h, L=1) for h, A in SETTINGS}}
for kind in ("all", "coordinate", "matrix"):
    runs[f"SGNHT, {kind}"] = {
        (h, A): run(sgmcmc.sgnht, h, a=A * h, thermostat=kind, thermostat_rate="stepsize")
        for h, A in SETTINGS
    }

# %% [markdown]
# ## Table 1
#
# The paper does not say how its RMSE is computed. Here it is the root mean square of the difference
# between the densities of μ and γ and their histograms, in 100 bins each, which are the exact
# mean ± 4 standard deviations: the median over 16 chains. The autocorrelation time is the number of
# steps over that of effective draws of μ + γ.

# %%
BINS = {
    name: np.linspace(law.mean() - 4 * law.std(), law.mean() + 4 * law.std(), 101)
    for name, law in EXACT.items()
}


def rmse(chain):
    """The error of the density that one chain (draws, 2) gives."""
    squares = [
        (setting.histogram(x, BINS[name]) - np.diff(law.cdf(BINS[name])) / np.diff(BINS[name])) ** 2
        for x, (name, law) in zip(chain.T, EXACT.items())
    ]
    return np.sqrt(np.mean(squares))


def autocorrelation_time(draws):
    """Steps for one effective draw of μ + γ."""
    return N_CHAINS * n_iters / draws.summary(names=["sum"])["ess"][0]


errors = {
    name: {k: np.median([rmse(chain) for chain in draws["both"]]) for k, draws in some.items()}
    for name, some in runs.items()
}
times = {
    name: {k: autocorrelation_time(draws) for k, draws in some.items()}
    for name, some in runs.items()
}
head = [f"h = {h}, A = {A}" for h, A in SETTINGS]
setting.table(
    ["RMSE, autocorrelation time", *head],
    [[name, *(f"{errors[name][k]:.3f}, {times[name][k]:,.0f}" for k in SETTINGS)] for name in runs],
)
setting.table(
    ["sd of μ, of γ", *head],
    [
        [
            name,
            *(
                ", ".join(f"{sd:.4f}" for sd in draws["both"].astype(float).std(axis=(0, 1)))
                for draws in some.values()
            ),
        ]
        for name, some in runs.items()
    ]
    + [["exact", *4 * [", ".join(f"{law.std():.4f}" for law in EXACT.values())]]],
)

# %% [markdown]
# ## Figure 6
#
# Densities from all chains. The paper has SGHMC and the thermostat for all.

# %%
figure, axes = plt.subplots(2, 4, figsize=(12, 5.6), sharex="row", sharey="row")
for column, (title, some) in zip(axes.T, runs.items()):
    for i, (axis, (name, law)) in enumerate(zip(column, EXACT.items())):
        centre, sd = law.mean(), law.std()
        edges = np.linspace(centre - 6 * sd, centre + 6 * sd, 121)
        at = setting.middle(edges)
        for (h, A), draws in some.items():
            density = setting.histogram(draws["both"][..., i], edges)
            axis.plot(at, density, color=COLOURS[h, A], label=f"h = {h}, A = {A}")
        axis.plot(at, law.pdf(at), "k--", lw=1, label="posterior")
        axis.set(xlabel=name)
    column[0].set(title=title)
for axis, name in zip(axes[:, 0], EXACT):
    axis.set(ylabel=f"density of {name}")
figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
setting.save(figure, "figure_6")

# %% [markdown]
# ## The last panel of figure 2
#
# Error against autocorrelation time: lower and farther to the left is better.

# %%
MARKERS = dict(zip(runs, ("s", "o", "^", "x")))
figure, axis = plt.subplots(figsize=(6, 4.2))
for name in runs:
    x, y = ([each[name][k] for k in SETTINGS] for each in (times, errors))
    for k, a, b in zip(SETTINGS, x, y):
        axis.plot(a, b, MARKERS[name], color=COLOURS[k], ms=8, mew=2)
axis.set(
    xscale="log",
    yscale="log",
    xlabel="autocorrelation time of μ + γ, steps",
    ylabel="RMSE of the densities",
)
figure.legend(
    handles=[
        *(plt.Line2D([], [], ls="", marker=m, color="0.3", label=k) for k, m in MARKERS.items()),
        *(
            plt.Line2D([], [], color=COLOURS[h, A], lw=4, label=f"h = {h}, A = {A}")
            for h, A in SETTINGS
        ),
    ],
    loc="outside right center",
)
setting.save(figure, "figure_2_last")
