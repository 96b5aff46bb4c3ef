# %% [markdown]
# # Figure 3.5.1: control variates pay with large data
#
# The model is the logistic regression of figure 4.5.1, on 1 %, 10 % and all of the data. The figure
# shows the mean log predictive density of 10,000 test rows, at every tenth iteration, against time.
# The time of `sgld` includes its burn-in, that of `sgldcv` includes finding its centre. Both have
# minibatches of 500. The thesis's third method, SAGA, is not in the package yet.

# %%
import time

import matplotlib.pyplot as plt
import numpy as np
import setting
import sgmcmc
from setting import COLOURS, QUICK

THESIS = {0.01: 5e-4, 0.1: 5e-5, 1: 5e-6}  # step sizes by the share of the data, table A.3.2
if QUICK:
    THESIS = {0.01: 5e-4}
FACTORS = (1,) if QUICK else (0.2, 0.5, 1, 2)  # multiples of them, tried for each method
burn_in, n_iters = (20, 50) if QUICK else (10_000, 20_000)

train, test = setting.covertype(seed=1)
order = np.random.default_rng(1).permutation(len(train["y"]))
train, validation = setting.split(train, order, len(test["y"]))

rng = np.random.default_rng(1)
start = {"beta": rng.standard_normal(54), "bias": rng.standard_normal()}

# %% [markdown]
# There are two ways to find a centre. One is the package's search for the mode, on all data. The
# other is to run plain `sgld` first and to centre on the mean of draws 5,001 to 10,000: the cost is
# one burn-in and one pass through the data. The thesis uses stochastic gradient ascent, which costs
# as much as the second way.


# %%
def setup(method, data, stepsize, **more):
    return setting.sampler(f"{method}_setup")(
        log_lik=setting.summed(setting.logistic),
        dataset=data,
        params=start,
        stepsize=stepsize,
        log_prior=setting.laplace,
        minibatch_size=500,
        seed=1,
        **more,
    )


def timed(function, *arguments, **more):
    began = time.perf_counter()
    return function(*arguments, **more), time.perf_counter() - began


# %% [markdown]
# A chain is timed without test function and without compilation, which takes about as long for all
# methods. Making the sampler is part of the time. This traces the model; for `sgldcv` it includes
# the search, if there is one, and the pass through all rows.


# %%
def predictive(sampler):
    """Return mean log densities of validation and test rows, at every tenth iteration."""
    rows = {"validation": validation, "test": test}
    track = {k: lambda params, rows=v: setting.logistic(params, rows) for k, v in rows.items()}
    draws = sgmcmc.run(sampler, n_iters, thin=10, keep=[], track=track, verbose=False)
    return draws["validation"].mean(axis=1), draws["test"].mean(axis=1)


def tuned(method, data, guess, **more):
    """Return the step size whose later draws predict validation rows best, and its test curve."""
    curves = {f: predictive(setup(method, data, f * guess, **more)) for f in FACTORS}
    best = max(curves, key=lambda f: curves[f][0][burn_in // 10 :].mean())
    return best * guess, curves[best][1]


def seconds_a_step(method, data, stepsize, **more):
    sampler = setup(method, data, stepsize, **more)
    sgmcmc.step(sampler, 10)
    return timed(sgmcmc.step, sampler, n_iters)[1] / n_iters


def compare(share):
    """Yield (name, step size, seconds before the chain, seconds a step, curve) by method."""
    data = {k: v[: int(share * len(v))] for k, v in train.items()}
    guess = THESIS[share]

    stepsize, curve = tuned("sgld", data, guess)
    before = timed(setup, "sgld", data, stepsize)[1]
    pace = seconds_a_step("sgld", data, stepsize)
    yield "sgld", stepsize, before, pace, curve

    draws = sgmcmc.run(setup("sgld", data, stepsize), burn_in, verbose=False)
    mean = {k: v[burn_in // 2 :].mean(axis=0) for k, v in draws.items()}
    to_mean = before + burn_in * pace
    stepsize, curve = tuned("sgldcv", data, guess, mode=mean)
    before = timed(setup, "sgldcv", data, stepsize, mode=mean)[1]
    pace = seconds_a_step("sgldcv", data, stepsize, mode=mean)
    yield "sgldcv, centred by sgld", stepsize, to_mean + before, pace, curve

    sampler, before = timed(setup, "sgldcv", data, guess)
    found = sgmcmc.get_params(sampler)
    stepsize, curve = tuned("sgldcv", data, guess, mode=found)
    yield "sgldcv, mode searched", stepsize, before, pace, curve


# %%
setup("sgldcv", {k: v[:1_000] for k, v in train.items()}, 1e-3)  # loads the compilers
found = {share: list(compare(share)) for share in THESIS}
setting.table(
    ["rows", "method", "ε", "seconds before", "µs a step", "mean", "sd"],
    [
        [
            f"{int(share * len(train['y'])):,}",
            method,
            f"{stepsize:g}",
            f"{before:.2f}",
            f"{1e6 * pace:.1f}",
            f"{curve[burn_in // 10 :].mean():.4f}",
            f"{curve[burn_in // 10 :].std():.4f}",
        ]
        for share, methods in found.items()
        for method, stepsize, before, pace, curve in methods
    ],
)

# %%
LOOKS = {
    "sgld": {"color": COLOURS["sgld"]},
    "sgldcv, centred by sgld": {"color": COLOURS["sgldcv"]},
    "sgldcv, mode searched": {"color": "#7A3600"},
}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharex=True, sharey=True)
for axis, (share, methods) in zip(axes, found.items()):
    for method, _, before, pace, curve in methods:
        seconds = before + pace * 10 * np.arange(1, len(curve) + 1)
        axis.plot(seconds, curve, "o-", ms=6, markevery=[0], lw=1, label=method, **LOOKS[method])
    rows = int(share * len(train["y"]))
    axis.set(xlabel="seconds", xscale="log", title=f"{rows:,} rows")
axes[0].set(ylabel="log predictive density of a test row")
if not QUICK:
    axes[0].set(xlim=(0.03, 10), ylim=(-0.53, -0.51))
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
setting.save(figure, "figure_3_5_1")

# %% [markdown]
# ## What comes out
#
# A dot is where a chain begins. With 5,610 rows the methods hardly differ: the posterior is wide,
# and its width matters more than the noise of gradients. With more rows the posterior becomes
# narrow, and the draws of `sgldcv` come together and predict better. Those of `sgld` do so far
# less, as the noise of its gradients does not shrink with the posterior. That is what the thesis
# found. The search for the mode takes longer than a burn-in, but the chain then begins at the mode;
# from a centre that `sgld` has found, it has some way to go.
#
# The mean and the standard deviation in the table are over the draws after the first 10,000
# iterations.
