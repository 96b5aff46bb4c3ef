# %% [markdown]
# # Figures 1 and 4: a double well, with fixed friction and with a thermostat
#
# The potential is $U(\theta) = (\theta + 4)(\theta + 1)(\theta - 1)(\theta - 3)/14 + .5$. Its
# gradient has noise, $\nabla\tilde U h = \nabla U h + N(0, 2Bh)$ with h = .01 and B = 1, and no
# other noise is added: A = 0. The friction ξ is fixed at 1, at 10 and at .1, or follows the
# thermostat. Each run has 10⁶ steps.

# %%
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import setting
import sgmcmc
import tensorflow as tf
from setting import N_CHAINS, QUICK

h, B = 0.01, 1
n_iters, thin = (2_000, 1) if QUICK else (1_000_000, 10)


def potential(theta):
    return (theta + 4) * (theta + 1) * (theta - 1) * (theta - 3) / 14 + 0.5


# %% [markdown]
# ## The noise
#
# The package has noise from minibatches. Here the data are 1,000 numbers of mean 0 and variance
# 2B/h, and the likelihood of a row is linear in θ. A minibatch of one row has the noise that is
# wanted.

# %%
N = 1_000
z = np.random.default_rng(0).normal(size=N)
dataset = {"noise": (z - z.mean()) / z.std() * np.sqrt(2 * B / h)}


def log_lik(params, data):
    share = tf.cast(tf.size(data["noise"]), tf.float32) / N
    return tf.reduce_sum(data["noise"]) / N * params["x"] - share * potential(params["x"])


# %% [markdown]
# ## Fixed friction
#
# `sghmc` adds the noise that belongs to its friction, which the paper leaves out here. A dynamics
# of its own is short. In the paper's notation ν = ph, so that ν²/h² is twice the kinetic energy.


# %%
@dataclass(frozen=True)
class FixedFriction(sgmcmc.Dynamics):
    """Momentum ν with friction, without noise of its own."""

    friction: float
    white_noise = True

    def noise(self, x):
        return sgmcmc.Noise()

    def init(self, x, noise, eps):
        return {"x": x, "nu": tf.nest.map_structure(tf.zeros_like, x)}

    def update(self, chain, estimate, noise, eps):
        nu = tf.nest.map_structure(
            lambda v, g, e: (1 - self.friction) * v + e * g, chain["nu"], estimate.gradient, eps
        )
        return {"x": tf.nest.map_structure(tf.add, chain["x"], nu), "nu": nu}

    def position(self, chain):
        return chain["x"]

    def draw(self, chain, eps):
        temperature = tf.nest.map_structure(lambda v, e: v**2 / e, chain["nu"], eps)
        return chain["x"], {"temperature": temperature}


def run(dynamics):
    return sgmcmc.sample(
        dynamics,
        log_lik,
        dataset,
        {"x": -3.0},
        h**2,
        minibatch_size=1,
        n_iters=n_iters,
        thin=thin,
        n_chains=N_CHAINS,
        seed=1,
        verbose=False,
    )


fixed = {xi: run(FixedFriction(xi * h)) for xi in (1, 10, 0.1)}
rates = {"ρ = ε, the paper's": "stepsize", "ρ = .001, the package's": 1e-3}
thermostats = {name: run(sgmcmc.SGNHT(a=0.0, thermostat_rate=rate)) for name, rate in rates.items()}
runs = {f"ξ = {xi}": draws for xi, draws in fixed.items()}
runs |= {f"thermostat, {name}": draws for name, draws in thermostats.items()}

# %% [markdown]
# ## What is right
#
# With friction ξ and noise B, the law of θ is about exp(−U ξ/B): it is right at ξ = B, too cold
# above, and too hot below. Both densities are known by quadrature. The table has the distance of
# Kolmogorov and Smirnov from the posterior, the posterior's own mean being −2.148 and its variance
# 2.862, by chain: median and range.

# %%
grid = np.linspace(-12, 12, 9_601)


def density(power=1.0):
    values = np.exp(-power * (potential(grid) - potential(grid).min()))
    return values / values.sum() / (grid[1] - grid[0])


def distance(draws):
    """The Kolmogorov-Smirnov distance of some draws from the posterior."""
    cdf = np.cumsum(density()) * (grid[1] - grid[0])
    return np.abs(np.searchsorted(np.sort(draws), grid) / draws.size - cdf).max()


def spread(x, form=".3f"):
    return f"{np.median(x):{form}} ({np.min(x):{form}} – {np.max(x):{form}})"


setting.table(
    ["", "KS distance", "mean", "variance", "kinetic energy", "mean ξ"],
    [
        [
            name,
            spread([distance(chain) for chain in draws["x"]]),
            spread(draws["x"].astype(float).mean(axis=1), ".2f"),
            spread(draws["x"].astype(float).var(axis=1), ".2f"),
            f"{draws.stats['temperature']['x'].mean(dtype=float) / 2:.4f}",
            f"{draws.stats['thermostat']['x'].mean(dtype=float) / h:.3f}"
            if "thermostat" in draws.stats
            else "",
        ]
        for name, draws in runs.items()
    ],
)

# %% [markdown]
# ## Figure 1
#
# Densities are of the first chain, as in the paper, and of the others in grey.

# %%
edges = np.linspace(-9, 9, 91)
shown = {f"ξ = {xi}": draws for xi, draws in fixed.items()}
shown["thermostat"] = next(iter(thermostats.values()))
figure, axes = plt.subplots(2, 4, figsize=(12, 5.6), sharex="row")
for (top, bottom), (name, draws) in zip(axes.T, shown.items()):
    for i, chain in reversed(list(enumerate(draws["x"]))):
        look = {"color": "#0072B2", "lw": 1.5} if i == 0 else {"color": "0.8", "lw": 0.8}
        top.plot(setting.middle(edges), setting.histogram(chain, edges), **look)
        energy = draws.stats["temperature"]["x"][i].astype(float) / 2
        mean = np.cumsum(energy) / np.arange(1, len(energy) + 1)
        steps = thin * np.arange(1, len(energy) + 1)
        bottom.plot(steps[::10], mean[::10], **look)
    top.plot(grid, density(), "k", lw=1.2)
    if name.startswith("ξ") and name != "ξ = 1":
        top.plot(grid, density(float(name[4:]) / B), "--", color="#D55E00", lw=1.2)
    bottom.axhline(0.5, color="k", lw=1)
    top.set(title=name, xlabel="θ", xlim=(-9, 9), ylim=(0, 0.75 if name != "ξ = 10" else None))
    bottom.set(xlabel="steps", xscale="log", yscale="log", ylim=(0.02, 20))
axes[0, 0].set(ylabel="density")
axes[1, 0].set(ylabel="mean kinetic energy so far")
figure.legend(
    handles=[
        plt.Line2D([], [], color="k", label="right"),
        plt.Line2D([], [], color="#0072B2", label="one chain"),
        plt.Line2D([], [], color="0.8", label="15 other chains"),
        plt.Line2D([], [], color="#D55E00", ls="--", label="exp(−U ξ/B)"),
    ],
    loc="outside lower center",
    ncols=4,
)
setting.save(figure, "figure_1")

# %% [markdown]
# ## Figure 4
#
# The thermostat starts at ξ = A = 0, and must come to B = 1. On the left is the friction of one
# chain at first, on the right the mean so far of all chains.

# %%
LOOKS = dict(zip(thermostats, ("#0072B2", "#E69F00")))
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
for name, draws in reversed(thermostats.items()):
    friction = draws.stats["thermostat"]["x"].astype(float) / h
    steps = thin * np.arange(1, friction.shape[1] + 1)
    early = steps <= 10_000
    left.plot(steps[early], friction[0, early], color=LOOKS[name], lw=1)
    means = np.cumsum(friction, axis=1) / np.arange(1, len(steps) + 1)
    right.plot(steps[::10], means[:, ::10].T, color=LOOKS[name], lw=0.6)
for axis in (left, right):
    axis.axhline(B, color="k", lw=1)
    axis.set(xlabel="steps")
left.set(ylabel="friction ξ", title="one chain")
right.set(ylabel="mean friction so far", title="16 chains", xscale="log", ylim=(-1, 3))
figure.legend(
    handles=[
        *(plt.Line2D([], [], color=colour, label=name) for name, colour in LOOKS.items()),
        plt.Line2D([], [], color="k", label="the noise, B"),
    ],
    loc="outside lower center",
    ncols=3,
)
setting.save(figure, "figure_4")
