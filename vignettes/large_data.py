# %% [markdown]
# # Data outside memory, and what a step costs
#
# Stochastic gradients are for large data: a step looks at a minibatch, so its cost does not grow
# with the data. This vignette makes a data file of ten million rows, samples a logistic regression
# on it without ever loading it, and measures the cost and the accuracy of `sgld` and `sgldcv` as
# the data grow.

# %%
import os
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
N, d = (100_000 if QUICK else 10_000_000), 10
n_iters = 500 if QUICK else 10_000

# %% [markdown]
# ## A file
#
# Any file that NumPy can map will do: an `.npy` file, or raw numbers. Write it in pieces, with
# the rows as the first axis. (Arrays of `h5py` and `zarr` can be passed directly, too. For Parquet
# files and iterators over rows, see [`parquet_and_streams`](parquet_and_streams.md).)

# %%
temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)
rng = np.random.default_rng(1)
truth = rng.normal(size=d) / np.sqrt(d)
X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (N, d))
y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (N,))
for begin in range(0, N, 1_000_000):
    piece = slice(begin, min(begin + 1_000_000, N))
    X[piece] = rng.standard_normal((piece.stop - begin, d), np.float32)
    y[piece] = rng.random(piece.stop - begin) < 1 / (1 + np.exp(-X[piece] @ truth))
X.flush()
y.flush()
print(f"X.npy: {(folder / 'X.npy').stat().st_size / 1e6:.0f} MB")

# %% [markdown]
# ## Sampling from it
#
# Opened with `mmap_mode="r"`, the arrays take no memory. A minibatch is read from the file as it is
# needed, by a thread that runs ahead of the chain.

# %%
dataset = {
    "X": np.load(folder / "X.npy", mmap_mode="r"),
    "y": np.load(folder / "y.npy", mmap_mode="r"),
}


def log_lik(params, data):
    logits = tf.linalg.matvec(data["X"], params["beta"])
    return -tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(data["y"], logits))


params = {"beta": np.zeros(d)}

# %% [markdown]
# To find the mode, `sgldcv` reads the whole file a few times (fewer than the search has iterations,
# as it begins on small random subsets), and once more to choose step sizes. Then it looks at 500
# rows a step.

# %%
began = time.perf_counter()
sampler = sgmcmc.sgldcv_setup(
    log_lik=log_lik,
    dataset=dataset,
    params=params,
    minibatch_size=500,
    seed=1,
    verbose=False,
)
found = time.perf_counter()
draws = sgmcmc.run(sampler, n_iters, verbose=False)
print(
    f"the mode and step sizes: {found - began:.1f} s, "
    f"{n_iters:,} draws: {time.perf_counter() - found:.1f} s"
)
print(draws.summary())
error = (draws["beta"].mean(0) - truth) / draws["beta"].std(0)
print("mean minus truth, in posterior standard deviations:", error.round(1))

# %% [markdown]
# ## Cost and accuracy against N
#
# We use the same model on the first 10⁴, 10⁵, 10⁶ and 10⁷ rows, with 500 rows a step. We time a
# step in the second of two runs, so without compilation. And we compare the standard deviation of
# the draws with that of the posterior, which for so many rows follows from the Fisher information.

# %%
sizes = [10**k for k in range(4, 8) if 10**k <= N]
samplers = {"sgld": (sgmcmc.sgld_setup, 0.5), "sgldcv": (sgmcmc.sgldcv_setup, 0.5)}
seconds = {name: [] for name in samplers}
width = {name: [] for name in samplers}
for rows in sizes:
    part = {name: array[:rows] for name, array in dataset.items()}
    some = slice(0, min(rows, 100_000))
    p = 1 / (1 + np.exp(-part["X"][some] @ truth))
    weighted = part["X"][some] * (p * (1 - p))[:, None]
    information = weighted.T @ part["X"][some] * rows / len(p)
    exact = np.sqrt(np.diag(np.linalg.inv(information)))
    for name, (setup, factor) in samplers.items():
        sampler = setup(
            log_lik=log_lik,
            dataset=part,
            params={"beta": truth},
            stepsize=factor / rows,
            minibatch_size=500,
            seed=2,
            verbose=False,
        )
        sgmcmc.run(sampler, n_iters // 5, verbose=False)
        began = time.perf_counter()
        draws = sgmcmc.run(sampler, n_iters, verbose=False)
        seconds[name].append((time.perf_counter() - began) / n_iters)
        width[name].append(np.mean(draws["beta"].std(0) / exact))

fig, axes = plt.subplots(1, 2, figsize=(9, 4))
for name, colour in {"sgld": "tab:orange", "sgldcv": "tab:blue"}.items():
    axes[0].loglog(sizes, 1e6 * np.array(seconds[name]), "o-", color=colour, label=name)
    axes[1].loglog(sizes, width[name], "o-", color=colour, label=name)
axes[0].set(xlabel="rows of data, N", ylabel="µs a step", title="Cost", ylim=(1, 1000))
axes[1].axhline(1, color="black", lw=1)
axes[1].set(xlabel="rows of data, N", ylabel="sd of the draws ÷ exact sd", title="Bias")
axes[0].legend()
fig.tight_layout()

# %% [markdown]
# For a thousand times the data, a step costs a few times as much, because rows no longer wait in
# the processor's cache. (This file fits into the memory of most machines, which keep it there after
# the first reading: what a slow disk would add is not in the picture.)
#
# But look at the right panel. With this step size, the draws of `sgld` become wider as N grows,
# because its gradient noise grows as N²/n, and the precision of the posterior only as N. To be
# right, `sgld` needs a step that is some N/(4n) times smaller, and a chain that is as many times
# longer. (Without `stepsize`, it gets such a step.) Then its whole cost grows with N after all.
# Control variates remove this growth: their noise grows as N, like the precision. **For large
# data, control variates are what makes the method worthwhile.**
#
# ## What can go wrong
#
# - **A slow disk.** Random rows of a file that is larger than memory are random reads: an SSD does
#   tens of thousands a second, a spinning disk a hundred. Shuffle the rows once, and sample a
#   subset that fits into memory first.
# - **Files in which a row is not contiguous** (Fortran order, one file a column): each minibatch
#   reads all over the file. Store rows together.
# - **float64 files** are converted row by row: correct, but twice the reading.
