# %% [markdown]
# # When the chain does not fit: test functions, running means, draws on disk
#
# A chain of 10,000 draws of a million parameters takes 40 GB. Most often you only need a
# prediction, a mean, or a few of the parameters. There are four ways to keep just that, from the
# least work to the most freedom:
#
# 1. `keep=` and `thin=`: fewer parameters, fewer draws,
# 2. `track=`: values of your own test functions instead of parameters,
# 3. `out=`: draws on disk, which are read when they are wanted,
# 4. `*_setup` and `step`: your own loop, with running means and anything else.

# %%
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
n_iters = 200 if QUICK else 4000

# %% [markdown]
# ## A model with many parameters
#
# A linear regression with 2,000 coefficients, most of them zero, on 10,000 rows, with as many to
# test on. All 4,000 draws would take 32 MB: small enough to try this out, large enough to see.

# %%
d, N = (200, 2_000) if QUICK else (2_000, 20_000)
rng = np.random.default_rng(1)
truth = np.where(np.arange(d) < 20, 1.0, 0.0)
X = rng.normal(size=(N, d)).astype(np.float32)
y = (X @ truth + rng.normal(size=N)).astype(np.float32)
dataset = {"X": X[: N // 2], "y": y[: N // 2]}
testset = {"X": tf.constant(X[N // 2 :]), "y": tf.constant(y[N // 2 :])}


def log_lik(params, data):
    fit = tf.linalg.matvec(data["X"], params["beta"]) + params["bias"]
    return -tf.reduce_sum((data["y"] - fit) ** 2) / 2


def log_prior(params):  # independent Laplace(0, .1): most coefficients are near 0
    return -10 * tf.reduce_sum(tf.abs(params["beta"]))


params = {"beta": np.zeros(d), "bias": 0.0}
arguments = {
    "log_lik": log_lik,
    "dataset": dataset,
    "params": params,
    "log_prior": log_prior,
    "minibatch_size": 0.1,
    "seed": 1,
}

# %% [markdown]
# ## Test functions
#
# A test function takes the parameters and returns a tensor. It is compiled, and evaluated at each
# draw that is kept, inside the run. Here the error on test data, and the size of the coefficients
# that are truly zero. `keep=["bias"]` keeps the bias besides; `keep=[]` would keep no parameter.
# `thin=10` keeps, and evaluates, every tenth iteration: a test function that looks at 10,000 rows
# costs more than a step that looks at 1,000.


# %%
def test_error(params):
    fit = tf.linalg.matvec(testset["X"], params["beta"]) + params["bias"]
    return tf.sqrt(tf.reduce_mean((testset["y"] - fit) ** 2))


def noise(params):
    return tf.sqrt(tf.reduce_mean(params["beta"][20:] ** 2))


draws = sgmcmc.sghmccv(
    **arguments,
    n_iters=n_iters,
    thin=10,
    keep=["bias"],
    track={"test_error": test_error, "noise": noise},
    verbose=False,
)
print(draws)
size = sum(draws[name].nbytes for name in draws)
print(f"{size / 1e3:.0f} kB, where all parameters would be {n_iters * (d + 1) * 4 / 1e6:.0f} MB")

# %%
iteration = 10 * np.arange(1, n_iters // 10 + 1)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.5))
axes[0].plot(iteration, draws["test_error"], color="tab:blue")
axes[0].axhline(1, color="black", lw=1, label="error of the true coefficients")
axes[0].set(xlabel="iteration", ylabel="root mean square error")
axes[0].legend()
axes[1].plot(iteration, draws["noise"], color="tab:orange")
axes[1].set(xlabel="iteration", ylabel="size of the zero coefficients", ylim=(0, None))
fig.tight_layout()

# %% [markdown]
# The chain sets out from the mode, and soon spreads out. The trace tells how much to throw away:
# `burn_in` iterations are neither kept nor given to the test functions.
#
# ## Draws on disk
#
# With `out=`, draws go to a folder as they come, and stay out of memory both during the run and
# after it. They survive whatever happens to the run, and it can go on from there: see `long_runs`.

# %%
temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name) / "draws"
on_disk = sgmcmc.sghmccv(**arguments, n_iters=n_iters, out=folder, verbose=False)
size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
print(on_disk, f"{size / 1e6:.1f} MB", sep="\n")

# %% [markdown]
# `load_draws` opens them, now or next month. Arrays read what you look at:

# %%
beta = sgmcmc.load_draws(folder)["beta"]
print(beta.shape, "the first coefficient:", beta[:, 0].mean().round(3))

# %% [markdown]
# ## A loop of your own
#
# `sghmccv_setup` takes the arguments of `sghmccv` but those of the run, `step` goes on by some
# iterations, and `sampler.params` are `tf.Variable`s that follow: a `tf.function` of yours that
# reads them is compiled once and sees the current state. So you can average predictions over the
# posterior, stop when they no longer change, save them, or anything else.

# %%
sampler = sgmcmc.sghmccv_setup(**arguments, verbose=False)


@tf.function
def predict():
    return tf.linalg.matvec(testset["X"], sampler.params["beta"]) + sampler.params["bias"]


def error(prediction):
    return float(np.sqrt(np.mean((testset["y"] - prediction) ** 2)))


sgmcmc.step(sampler, n_iters // 10)  # burn-in
mean, single, averaged = 0.0, [], []
for k in range(1, n_iters // 20 + 1):
    sgmcmc.step(sampler, 20)
    prediction = predict().numpy()
    mean = mean + (prediction - mean) / k  # a running mean needs no more memory than one draw
    single.append(error(prediction))
    averaged.append(error(mean))

fig, axes = plt.subplots(figsize=(7, 3.5))
axes.plot(20 * np.arange(1, len(single) + 1), single, label="one draw", color="tab:orange")
axes.plot(20 * np.arange(1, len(single) + 1), averaged, label="mean over draws", color="tab:blue")
axes.set(xlabel="iteration after burn-in", ylabel="test error")
axes.legend()
fig.tight_layout()

# %% [markdown]
# The averaged prediction is better than that of nearly every single draw. That is why we average
# over the posterior.
#
# ## What can go wrong
#
# - **One `step` at a time, ten thousand times.** It gives the same chain, bit for bit, but each
#   call costs some .2 ms; a step itself may cost a tenth of that. Take as many steps a call as you
#   can.
# - **Test functions as lambdas made in a loop.** Each fresh function is compiled anew, which takes
#   a good part of a second. Define them once.
# - **Large data inside a test function** given as NumPy arrays are copied into the compiled
#   program: make them tensors first, as `testset` above.
# - **Summaries of `thin`ned draws**: `ess` counts among the kept draws, which is what you want.
