# %% [markdown]
# # Long runs: nothing lost, and going on
#
# Long chains on large data die: the machine is needed elsewhere, the disk fills up, the notebook's
# kernel goes. With `out=`, draws go to a folder as they come, and every half minute the draws so
# far and the state of the chains are committed to it. The same call with `resume=True` goes on from
# there. What comes out is the chain that would have been, bit for bit, had nothing happened.
#
# The three lines to remember:
#
# ```
# draws = sgmcmc.sgldcv(..., out="chain.zarr", resume=True)  # run it again whenever it stopped
# draws = sgmcmc.load_draws("chain.zarr")                    # read it, now or next month
# predicted = draws.predict(fn, data)                        # average over draws, from disk
# ```

# %%
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)

# %% [markdown]
# ## A run that is killed
#
# Here is a script: a logistic regression of 100,000 rows, and a call that would take a while. We
# write it to a file and start it in a process of its own, as we are going to kill it.

# %%
SCRIPT = """
import sys
import numpy as np
import sgmcmc
import tensorflow as tf

rng = np.random.default_rng(1)
X = rng.normal(size=(100_000, 6)).astype("float32")
y = (rng.random(100_000) < 1 / (1 + np.exp(-X @ [1, -0.5, 0.25, 0, 2, -1]))).astype("float32")


def log_lik(params, data):
    eta = tf.linalg.matvec(data["X"], params["beta"])
    return tf.reduce_sum(data["y"] * eta - tf.nn.softplus(eta))


def log_prior(params):
    return -tf.reduce_sum(params["beta"] ** 2) / 2


def run(**where):
    return sgmcmc.sgldcv(
        log_lik, {"X": X, "y": y}, {"beta": np.zeros(6)}, log_prior=log_prior,
        n_iters=N_ITERS, minibatch_size=200, n_chains=2, seed=1, verbose=False, **where,
    )


if __name__ == "__main__":
    run(out=sys.argv[1], resume=True, flush=0.2)
"""
n_iters = 100_000 if QUICK else 1_000_000
script, path = folder / "fit.py", folder / "chain.zarr"
script.write_text(SCRIPT.replace("N_ITERS", str(n_iters)))


def started():
    return subprocess.Popen([sys.executable, script, path], stderr=subprocess.DEVNULL)


def n_draws():
    try:
        return sgmcmc.load_draws(path)["beta"].shape[1]
    except ValueError:  # nothing is committed yet
        return 0


def killed_after(process, seconds):
    """Wait until there are draws, then for so many seconds, and kill the process."""
    before = n_draws()
    while process.poll() is None and n_draws() == before:
        time.sleep(0.05)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)  # no chance to tidy up
    process.wait()


killed_after(started(), 0.5)
draws = sgmcmc.load_draws(path)
print(draws)

# %% [markdown]
# `flush=0.2` commits five times a second here, so that there is something to see; the default is
# every 30 seconds. `load_draws` opens what was committed. Its arrays are read from disk when they
# are wanted: a slice reads what it is of, and `draws.summary()` takes little memory however many
# draws there are. It can be called while the run goes on.

# %%
print(draws.summary())
print(draws["beta"][0, -1])

# %% [markdown]
# ## Going on
#
# We run the same script again, kill it again, and then let it end.

# %%
for _ in range(1 if QUICK else 3):
    killed_after(started(), 0.5)
    print(f"{n_draws():,} draws of each chain")
started().wait()
draws = sgmcmc.load_draws(path)
print(f"{draws['beta'].shape[1]:,} draws of each chain, at the end")

# %% [markdown]
# Is it the chain that was never interrupted? We run that one here, in memory.

# %%
sys.path.insert(0, str(folder))
import fit  # noqa: E402

whole = fit.run()
print("the same, bit for bit:", np.array_equal(draws["beta"], whole["beta"]))

# %% [markdown]
# ## What is in the folder
#
# The draws are in the Zarr format, which xarray reads, and ArviZ by it. `pip install
# 'sgmcmc[store]'` installs the package that they need. Beside the draws are the state of the
# chains, what was found before the first iteration, and the record, `sgmcmc.json`, which is
# replaced as a whole. What it does not name does not count. There is no code in any of it, and
# nothing is unpickled.

# %%
print(*sorted(p.name for p in path.iterdir()))
size = sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
print(f"{size / 1e6:.0f} MB")

# %%
import xarray  # noqa: E402

print(xarray.open_zarr(path, group="posterior"))

# %% [markdown]
# ## Prediction from disk
#
# `predict` averages a function of the parameters and of data over draws, in compiled code, some
# draws and rows at a time. Here are the probabilities of new rows, averaged over every hundredth
# draw, and how good they are. The calibration error says by how much a probability differs from how
# often it comes true.

# %%
rng = np.random.default_rng(2)
new = {"X": rng.normal(size=(20_000, 6)).astype("float32")}
truth = 1 / (1 + np.exp(-new["X"] @ [1, -0.5, 0.25, 0, 2, -1]))
labels = rng.random(20_000) < truth

predicted = draws.predict(
    lambda params, data: tf.sigmoid(tf.linalg.matvec(data["X"], params["beta"])),
    new,
    thin=100,
    quantiles=(0.05, 0.95),
)
print(predicted)
for name, value in predicted.score(labels).items():
    print(f"{name:18} {value:.4f}")

# %%
some = np.argsort(predicted.mean)[:: 20_000 // 60]
mean, low, high = (x[some] for x in (predicted.mean, *predicted.quantiles.values()))
fig, axes = plt.subplots(figsize=(7, 3.5))
axes.errorbar(mean, 0 * mean, [mean - low, high - mean], fmt=".", label="5 % to 95 % of draws")
axes.plot(mean, truth[some] - mean, "k.", ms=4, label="true probability")
axes.set(xlabel="predicted probability of some new rows", ylabel="distance from it")
axes.legend()
fig.tight_layout()

# %% [markdown]
# ## Step by step
#
# A sampler that you advance yourself saves where it stands by `sampler.save(path)`. Any `*_setup`
# with `resume=path` goes on from there, without searching for the mode again.

# %%
arguments = {
    "log_lik": fit.log_lik,
    "dataset": {"X": fit.X, "y": fit.y},
    "params": {"beta": np.zeros(6)},
    "minibatch_size": 200,
    "seed": 3,
    "verbose": False,
}
sampler = sgmcmc.sgldcv_setup(**arguments)
sgmcmc.step(sampler, 1000)
sampler.save(folder / "checkpoint")
began = time.perf_counter()
other = sgmcmc.sgldcv_setup(**arguments, resume=folder / "checkpoint")
print(f"{other}, set up in {time.perf_counter() - began:.2f} s")
for each in (sampler, other):
    sgmcmc.step(each, 100)
print("the same:", np.array_equal(*(sgmcmc.get_params(s)["beta"] for s in (sampler, other))))

# %% [markdown]
# ## What can go wrong
#
# - **Other arguments.** A run goes on only with the same model, data, sampler, constants and seed,
#   and says what differs otherwise. `n_iters` may be larger. Of the data, shapes and a checksum of
#   4,096 rows are compared; of the model, its value on some rows.
# - **Another machine.** On another kind of processor, or with another version of TensorFlow, sums
#   are rounded differently. The chain goes on, as a chain of the same law, but not bit for bit.
# - **Two processes, one folder.** The second is refused, and told which process is writing. A
#   process that was killed holds nothing.
# - **A full disk** ends the run with an `OSError`. What was committed is safe: make room, and go on
#   with `resume=True`.
