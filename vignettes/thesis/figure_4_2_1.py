# %% [markdown]
# # Figure 4.2.1: Gaussian data of growing size
#
# $x_i \sim N(\theta, 1)$ with $\theta \sim N(0, 10)$, sampled by `sgldcv` and by NUTS, for $N$ from
# $10^3$ to $10^6$. The model is so simple that the posterior is known. The question is for which
# $N$ minibatches begin to pay. The thesis compares with the NUTS of Stan, we with that of
# TensorFlow Probability. Both methods are compiled anew in each run, and that is part of the time,
# as in the thesis.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
import setting
import tensorflow as tf
from setting import COLOURS, QUICK

STEPSIZES = {
    1_000: 3e-5,
    5_000: 1e-5,
    10_000: 7e-6,
    50_000: 5e-6,
    100_000: 3e-6,
    500_000: 1e-6,
    1_000_000: 3e-7,
}
if QUICK:
    STEPSIZES = {1_000: 3e-5}
n_iters, seeds = (100, 1) if QUICK else (1_000, 10)
all_x = np.random.default_rng(2).standard_normal(max(STEPSIZES))


def log_p(params, data):
    return -((data["x"] - params["theta"]) ** 2) / 2


def log_prior(params):
    return -(params["theta"] ** 2) / 20


log_lik = setting.summed(log_p)

# %% [markdown]
# The divergence is that of the exact posterior, $N(\mu, s)$ with $s = 1/(N + 1/10)$ and $\mu =
# s\sum x_i$, from the Gaussian with the mean $m$ and variance $v$ of the draws, in closed form:
#
# $$KL = \tfrac12\left[\log\frac vs + \frac{s + (\mu - m)^2}{v} - 1\right].$$


# %%
def divergence(draws, x):
    s = 1 / (len(x) + 0.1)
    mu, m, v = s * x.sum(), draws.mean(), draws.var()
    return (np.log(v / s) + (s + (mu - m) ** 2) / v - 1) / 2


def sgldcv(x, stepsize, seed):
    return setting.sampler("sgldcv")(
        log_lik=log_lik,
        dataset={"x": x},
        params={"theta": 0.0},
        stepsize=stepsize,
        log_prior=log_prior,
        minibatch_size=1_000 if len(x) < 500_000 else 5_000,
        n_iters=n_iters,
        n_iters_opt=1_000,
        seed=seed,
    )["theta"]


def nuts(x, seed):
    data = {"x": tf.constant(x)}  # the sum over all N is what a Stan program computes

    def log_posterior(theta):
        return log_lik({"theta": theta}, data) + log_prior({"theta": theta})

    return setting.nuts(
        log_posterior,
        starts=0.0,
        n_iters=n_iters,
        n_adapt=n_iters,
        step_size=len(x) ** -0.5,
        seed=(seed, len(x)),
    )


METHODS = {
    "NUTS": lambda x, seed: nuts(x, seed),
    "sgldcv": lambda x, seed: sgldcv(x, STEPSIZES[len(x)], seed),
    "sgldcv, ε = 0.5/N": lambda x, seed: sgldcv(x, 0.5 / len(x), seed),
}
TIMED = ("NUTS", "sgldcv")

# %% [markdown]
# NUTS starts at 0 like `sgldcv`, with the step size $N^{-1/2}$ before it adapts. It computes in
# double precision, as Stan does. Each method first runs once on the smallest data, without being
# timed, to load the compilers.

# %%
kl = {method: [] for method in METHODS}
seconds = {method: [] for method in METHODS}
for method, draw in METHODS.items():
    if not QUICK:
        draw(all_x[:1_000], seeds)
    for N in STEPSIZES:
        x, runs = all_x[:N], []
        for seed in range(seeds):
            began = time.perf_counter()
            draws = draw(x, N + seed).astype(float)
            runs.append((time.perf_counter() - began, divergence(draws, x)))
        for found, values in zip((seconds, kl), zip(*runs)):
            found[method].append(values)

setting.table(
    ["N", *(f"{method}: KL" for method in METHODS), *(f"{method}: seconds" for method in TIMED)],
    [
        [f"{N:,}"]
        + [setting.spread(kl[method][i], ".2g") for method in METHODS]
        + [setting.spread(seconds[method][i], ".2f") for method in TIMED]
        for i, N in enumerate(STEPSIZES)
    ],
)

# %%
LOOKS = {
    "NUTS": {"color": COLOURS["NUTS"], "fmt": "s-"},
    "sgldcv": {"color": COLOURS["sgldcv"], "fmt": "o-"},
    "sgldcv, ε = 0.5/N": {"color": COLOURS["sgldcv"], "fmt": "o:", "mfc": "white"},
}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8))
for axis, found, methods in ((axes[0], kl, METHODS), (axes[1], seconds, TIMED)):
    for shift, method in zip((0.93, 1, 1.075), methods):
        low, middle, high = np.quantile(found[method], (0, 0.5, 1), axis=1)
        x = shift * np.array(list(STEPSIZES))
        bars = [middle - low, high - middle]
        axis.errorbar(x, middle, bars, elinewidth=0.8, ms=5, label=method, **LOOKS[method])
    axis.set(xlabel="observations N", xscale="log")
axes[0].set(ylabel="KL divergence from the posterior", yscale="log", ylim=(1e-4, 1))
axes[1].set(ylabel="run time, s (with compilation)", ylim=(0, None))
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
setting.save(figure, "figure_4_2_1")

# %% [markdown]
# ## What comes out
#
# As in the thesis, NUTS takes longer the more data there are, since each of its steps looks at all
# of them. The time of `sgldcv` hardly changes, and its divergence falls.
#
# But N is not the cause of this fall. In this model control variates cancel the noise of the
# gradient altogether, so that the only bias is that of a finite step: the variance is too large by
# the factor $1/(1 - \varepsilon N/4)$, at most 14 % here, which is a divergence of .004. The rest
# comes from the correlation of the draws. The thesis's step sizes shrink more slowly than 1/N, so
# the step grows with N relative to the posterior variance: a thousand draws are worth some 8
# independent ones at $N = 10^3$, and 140 at $5\cdot 10^5$. With ε = 0.5/N throughout, the dotted
# line, the divergence is the same for all N, a few times that of NUTS.
