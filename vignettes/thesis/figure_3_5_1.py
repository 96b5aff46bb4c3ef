# %% [markdown]
# # Figures 3.5.1 and A.3.1: variance reduction pays with large data
#
# The model is the logistic regression of figure 4.5.1, on 1 %, 10 % and all of the data. The
# figures show the mean log predictive density of 10,000 test rows, at every tenth iteration. The
# methods are plain `sgld`, `sgldcv`, and `sgld` with the estimators `SAGA` and `SVRG`, of which the
# thesis has all but the last. All have minibatches of 500. The curves of `sgld`, SAGA and SVRG
# include the burn-in. Those of `sgldcv` include finding its centre. In figure A.3.1 `sgld` has a
# step size that decreases.
#
# The thesis's axis is time. The machine here had other work, so the figures have the number of
# gradients of single rows that were evaluated.

# %%
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import setting
import sgmcmc
from setting import COLOURS, QUICK

THESIS = {0.01: 5e-4, 0.1: 5e-5, 1: 5e-6}  # step sizes by the share of the data, table A.3.2
TWICE = ("SAGA", "SVRG")  # are tried around twice these, which the thesis has for SAGA
n, TAU, KAPPA = 500, 1000, 0.33  # minibatch size; the thesis's a and b of decreasing step sizes
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
def setup(method, data, stepsize, decreasing=False, **more):
    return setting.sampler(f"{method}_setup")(
        log_lik=setting.summed(setting.logistic),
        dataset=data,
        params=start,
        stepsize=sgmcmc.decay(stepsize, TAU, KAPPA) if decreasing else stepsize,
        log_prior=setting.laplace,
        minibatch_size=n,
        seed=1,
        **more,
    )


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


class Found(NamedTuple):
    """A method's step size, gradients of rows before the chain and in each step, and curve."""

    method: str
    stepsize: float
    before: float
    each: float
    curve: np.ndarray

    def later(self):
        """Log predictive densities after the burn-in."""
        return self.curve[burn_in // 10 :]


def compare(share):
    """Yield what was found with each method."""
    data = {k: v[: int(share * len(v))] for k, v in train.items()}
    guess, N = THESIS[share], len(data["y"])
    every = max(100, N // n)
    of_sgld = {  # other arguments, gradients of rows before the chain, and in each step
        "sgld": ({}, 0, n),
        "sgld, decreasing": ({"decreasing": True}, 0, n),
        "SAGA": ({"gradient": sgmcmc.SAGA(features="X")}, N, n),
        "SVRG": ({"gradient": sgmcmc.SVRG(every=every)}, N, 2 * n + N / every),
    }
    best = {}
    for method, (options, before, each) in of_sgld.items():
        middle = 2 * guess if method in TWICE else guess
        best[method], curve = tuned("sgld", data, middle, **options)
        yield Found(method, best[method], before, each, curve)

    draws = sgmcmc.run(setup("sgld", data, best["sgld"]), burn_in, verbose=False)
    mean = {k: v[burn_in // 2 :].mean(axis=0) for k, v in draws.items()}
    mode = sgmcmc.get_params(setup("sgldcv", data, guess))
    for method, centre in {"centred by sgld": mean, "mode searched": mode}.items():
        stepsize, curve = tuned("sgldcv", data, guess, mode=centre)
        yield Found(f"sgldcv, {method}", stepsize, burn_in * n + N, 2 * n, curve)


# %%
results = {share: list(compare(share)) for share in THESIS}
setting.table(
    ["rows", "method", "ε", "mean", "sd"],
    [
        [
            f"{int(share * len(train['y'])):,}",
            found.method,
            f"{found.stepsize:g}",
            f"{found.later().mean():.4f}",
            f"{found.later().std():.4f}",
        ]
        for share, methods in results.items()
        for found in methods
    ],
)

# %%
LOOKS = {
    "sgld": COLOURS["sgld"],
    "sgld, decreasing": COLOURS["sgld"],
    "SAGA": COLOURS["sgnht"],
    "SVRG": COLOURS["sghmccv"],
    "sgldcv, centred by sgld": COLOURS["sgldcv"],
}


def draw(name, without):
    """Draw all methods but one. Where the mode was searched, only the level is drawn."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharex=True, sharey=True)
    for axis, (share, methods) in zip(axes, results.items()):
        for found in methods:
            if found.method in LOOKS and found.method != without:
                steps = 10 * np.arange(1, len(found.curve) + 1)
                millions = (found.before + found.each * steps) / 1e6
                look = {"color": LOOKS[found.method], "label": found.method}
                axis.plot(millions, found.curve, "o-", ms=6, markevery=[0], lw=1, **look)
        level = methods[-1].later().mean()
        axis.axhline(level, color="k", ls="--", lw=1, label=f"mean of {methods[-1].method}")
        axis.set(
            xlabel="million gradients of single rows",
            xscale="log",
            title=f"{int(share * len(train['y'])):,} rows",
        )
    axes[0].set(ylabel="log predictive density of a test row")
    if not QUICK:
        axes[0].set(xlim=(0.4, 40), ylim=(-0.53, -0.51))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    setting.save(figure, name)


draw("figure_3_5_1", without="sgld, decreasing")
draw("figure_a_3_1", without="sgld")

# %% [markdown]
# ## What comes out
#
# A dot is where a chain of `sgldcv` begins. With 5,610 rows the methods hardly differ: the
# posterior is wide, and its width matters more than the noise of gradients. With more rows the
# posterior becomes narrow. The draws of all methods with less noise then come together and predict
# better. Those of `sgld` do so far less, as the noise of its gradients does not shrink with the
# posterior.
#
# SAGA is the quickest, as in the thesis: it needs no centre, and one gradient of a row where the
# others need two. A chain that starts at the mode is there from the first draw. What the search for
# the mode costs is not counted here: some seconds for each of the three sizes.
#
# A decreasing step size (figure A.3.1) helps `sgld` a little: the noise of its draws shrinks with
# the step size, and so does its speed.
#
# The mean and the standard deviation in the table are over the draws after the first 10,000
# iterations.
