# %% [markdown]
# # Figure 3.5.2: zero-variance control variates on the cover types
#
# The model is the logistic regression of figure 4.5.1. The quantity is the mean log predictive
# density of 10,000 test rows. With linear polynomials its draws are corrected by a combination of
# the 55 gradients that the chain has used anyway. Five seeds, as in the thesis.

# %%
import matplotlib.pyplot as plt
import numpy as np
import setting
import sgmcmc
import tensorflow as tf
from setting import QUICK

n_iters, burn_in, thin = (200, 20, 1) if QUICK else (50_000, 10_000, 5)
SEEDS = range(1, 3) if QUICK else range(1, 6)
train, test = setting.covertype(seed=1)
STEPSIZE = 5e-6  # table A.3.2
START = {"beta": np.zeros(54), "bias": 0.0}


def log_predictive(params):
    return tf.reduce_mean(setting.logistic(params, test))


def model(params=START):
    return {
        "log_lik": setting.summed(setting.logistic),
        "dataset": train,
        "params": params,
        "log_prior": setting.laplace,
        "minibatch_size": 500,
    }


def run(method, params, seed, **more):
    return setting.sampler(method)(
        **model(params),
        **more,
        stepsize=STEPSIZE,
        n_iters=n_iters,
        burn_in=burn_in,
        thin=thin,
        track={"log_p": log_predictive},
        keep_gradients=True,
        seed=seed,
    )


# %% [markdown]
# All chains start at the mode, with the thesis's step size. Plain `sgld` is beside `sgldcv`: by the
# thesis's theory, it gains little on large data, as its gradients are too noisy.

# %%
mode = sgmcmc.get_params(setting.sampler("sgldcv_setup")(**model(), stepsize=STEPSIZE, seed=1))
draws = {
    "sgldcv": [run("sgldcv", mode, seed, mode=mode) for seed in SEEDS],
    "sgld": [run("sgld", mode, seed) for seed in SEEDS],
}
found = {
    name: [sgmcmc.zero_variance(each, of=["log_p"]) for each in some]
    for name, some in draws.items()
}
setting.table(
    [
        *("sampler", "variance after / before", "error before", "error after"),
        *("sd of the seeds' means before", "after"),
    ],
    [
        [
            name,
            setting.spread([float(each["variance_ratio"][0]) for each in some]),
            f"{np.median([each['plain_mcse'][0] for each in some]):.1e}",
            f"{np.median([each['mcse'][0] for each in some]):.1e}",
            f"{np.std([each['plain_mean'][0] for each in some], ddof=1):.1e}",
            f"{np.std([each['mean'][0] for each in some], ddof=1):.1e}",
        ]
        for name, some in found.items()
    ],
)

# %% [markdown]
# The box plots need the draws themselves after the correction, which `zero_variance` does not
# return. They are computed here by least squares from all draws, as in the thesis. `zero_variance`
# takes the coefficients of each fifth of the draws from the other four.


# %%
def corrected(draws):
    """Return log predictive densities less what gradients tell of them."""
    g = draws["log_p"].astype(float)
    gradients = draws.stats["gradients"]
    h = np.column_stack([gradients["beta"], gradients["bias"]]).astype(float)
    h -= h.mean(axis=0)
    return g - h @ np.linalg.lstsq(h, g - g.mean(), rcond=None)[0]


figure, axes = plt.subplots(1, 2, figsize=(9, 3.8))
for axis, (name, some) in zip(axes, draws.items()):
    centre = np.mean([each["log_p"].mean() for each in some])
    before = [1e4 * (each["log_p"].astype(float) - centre) for each in some]
    after = [1e4 * (corrected(each) - centre) for each in some]
    for series, shift, colour in ((before, -0.2, "#E69F00"), (after, 0.2, "#0072B2")):
        axis.boxplot(
            series,
            positions=np.array(SEEDS) + shift,
            widths=0.3,
            whis=(1, 99),
            showfliers=False,
            patch_artist=True,
            boxprops={"facecolor": colour, "alpha": 0.7},
            medianprops={"color": "black"},
            label="before" if shift < 0 else "after zero-variance control variates",
        )
    axis.set(title=name, xlabel="seed", xticks=SEEDS, xticklabels=SEEDS)
axes[0].set(ylabel="log predictive density of a test row,\nless its mean over all seeds, × 10⁴")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
setting.save(figure, "figure_3_5_2")

# %% [markdown]
# The boxes hold half of the draws, the whiskers 98 %. Note the scale of the right picture.
