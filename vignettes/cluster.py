# %% [markdown]
# # Chains and data on a cluster
#
# A sampler runs on the workers of a [Dask](https://distributed.dask.org) cluster if it gets a
# `client`. There are two cases. If the data fit into the memory of each worker, the *chains* are
# spread. If they do not, the *data* are in shards, of which each worker has some, and chains visit
# the shards. This vignette does both with two worker processes on one machine (`pip install
# 'sgmcmc[dask,parquet]'`). On more machines, only the address differs.

# %%
import os
import signal
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import psutil
import pyarrow
import pyarrow.parquet
import sgmcmc
import tensorflow as tf
from distributed import Client, LocalCluster

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
n_files, in_file = (16, 2_000) if QUICK else (16, 625_000)
n_iters = 2_000 if QUICK else 20_000
globals().pop("__file__", None)  # as a script: see below

# %% [markdown]
# ## Workers
#
# Each worker is a process with one thread. `SGMCMC_ONE_CORE=1` lets it prepare minibatches on the
# core on which it computes. `client="local"` would start such a cluster for one call, with a worker
# for each core.
#
# Python starts a worker process by importing the script that is running. So a script has `if
# __name__ == "__main__":` before the line that starts the cluster, and all that follows under it,
# or each worker would try to start a cluster of its own. Notebooks need nothing of the kind. (This
# page is both. The last line above hides from the workers that there is a script.)

# %%
one_core = {"SGMCMC_ONE_CORE": "1"}
cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", env=one_core)
client = Client(cluster)

# %% [markdown]
# ## Chains on workers
#
# A step takes microseconds, and a message over a network takes longer. So work travels in rounds of
# about two seconds: a worker gets the state of some chains, and returns their draws and the new
# state. A random number depends on the seed, the chain and the iteration, and not on where it is
# drawn. On processors of one kind, the draws are those of one machine, byte for byte.


# %%
def log_lik(params, data):
    logits = tf.linalg.matvec(data["X"], params["beta"]) + params["intercept"]
    return -tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(data["y"], logits))


def log_prior(params):
    return -(tf.reduce_sum(params["beta"] ** 2) + params["intercept"] ** 2) / 2


names = ["age", "income", "distance", "visits"]
truth = np.array([0.5, -1.0, 0.25, 0.0, -0.5])  # the last one is the intercept


def simulated(number, rows):
    """Features and outcomes of some people."""
    rng = np.random.default_rng([1, number])
    X = rng.standard_normal((rows, 4), np.float32)
    y = rng.random(rows) < 1 / (1 + np.exp(-(X @ truth[:4] + truth[4])))
    return {"X": X, "y": y.astype(np.float32)}


params = {"beta": np.zeros(4), "intercept": 0.0}
arguments = {"log_prior": log_prior, "minibatch_size": 500, "n_iters": n_iters, "seed": 1}
small = simulated(0, 20_000)
alone = sgmcmc.sgldcv(log_lik, small, params, **arguments, n_chains=4, verbose=False)
spread = sgmcmc.sgldcv(
    log_lik, small, params, **arguments, n_chains=4, verbose=False, client=client
)
for name in alone:
    print(f"{name}: {alone[name].shape}, equal: {np.array_equal(alone[name], spread[name])}")

# %% [markdown]
# `out=`, `resume=True`, `track` and progress work as they do on one machine. A store that was begun
# on one machine can be gone on with on a cluster, and the other way round.
#
# ## Data in shards
#
# Now ten million rows, in 16 Parquet files. The workers write them, each file in row groups of
# 25,000 rows (.6 MB). On a real cluster the files would be where all workers can read them, such as
# in a bucket or on a shared file system.

# %%
temporary = tempfile.TemporaryDirectory()


def write(number, folder):
    """Write a shard, and return its path."""
    data = simulated(1 + number, in_file)
    table = pyarrow.table({**dict(zip(names, data["X"].T)), "bought": data["y"]})
    path = Path(folder) / f"{number:02}.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=25_000)
    return str(path)


paths = client.gather(client.map(write, range(n_files), folder=temporary.name))
N = n_files * in_file
megabytes = sum(os.path.getsize(path) for path in paths) / 1e6
print(f"{N:,} rows in {len(paths)} files of {megabytes / len(paths):.1f} MB")

# %% [markdown]
# `Shards` says where they are, and which columns make an array, as `sgmcmc.parquet` does. Nothing
# is read here, and no file passes through the scheduler: each worker opens the files that are given
# to it. Only a sample of the rows comes back, for a checksum and for the step size.
#
# Then comes the call of any other data. It needs no step size. The search for the mode asks all
# shards for their sums of gradients, and makes its steps here. The curvature there, from which the
# step size follows, comes from the shards in the same way.


# %%
def resident():
    """Memory of this process, in MB."""
    return psutil.Process().memory_info().rss / 1e6


def memory():
    """Memory of each worker, in MB."""
    return np.round(list(client.run(resident).values()))


before = memory()
shards = sgmcmc.Shards(paths, X=names, y="bought")
began = time.perf_counter()
draws = sgmcmc.sgldcv(log_lik, shards, params, **arguments, n_chains=4, client=client)
seconds = time.perf_counter() - began
print(draws.summary())
print(f"{seconds:.0f} s, of which the mode and the step size are a part")
print(f"iterations of a round: {draws.settings['round_iterations']:,}")
print(f"memory of the workers before {before} and after {memory()} MB")

# %% [markdown]
# The workers began with TensorFlow and the first example in memory. While they work, they have rows
# as well: of files, shuffled parts of 32 MB at most, and up to 64 MB in all. When the run ends,
# they forget them.
#
# No other worker opens the files of one that is busy, as that would take memory. So a chain may
# have to wait for the worker of the shard that it is to visit. Have more chains than workers.
#
# In each round, a chain visits one shard, drawn with a probability proportional to its rows, and
# takes all minibatches there. Control variates allow that. They use the gradient of all shards at
# the mode, and minibatches tell only how the gradient changes from there. Rounds of a long run take
# two seconds each. This run is short, and has twenty of them.
#
# How well do these draws agree with the posterior? With so many rows it is a Gaussian, and its
# covariance is the inverse of the information. Its centre follows from the gradient at the mode
# that was found, by one step of Newton's method. The workers compute both, in double precision.


# %%
def at_mode(path, mode):
    """The gradient of the log likelihood of a shard, and the information."""
    gradient, information = np.zeros(5), np.zeros((5, 5))
    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(100_000):
        design = np.stack(
            [*(batch[name].to_numpy() for name in names), np.ones(len(batch))], axis=1
        )
        p = 1 / (1 + np.exp(-design @ mode))
        gradient += (batch["bought"].to_numpy() - p) @ design
        information += (design * (p * (1 - p))[:, None]).T @ design
    return gradient, information


mode = np.append(draws.settings["mode"]["beta"], draws.settings["mode"]["intercept"]).astype(float)
gradients, informations = zip(*client.gather(client.map(at_mode, paths, mode=mode)))
covariance = np.linalg.inv(np.eye(5) + sum(informations))
centre = mode + covariance @ (sum(gradients) - mode)
sd = np.sqrt(np.diag(covariance))
all_draws = np.concatenate([draws["beta"], draws["intercept"][..., None]], axis=-1)
z = (all_draws - centre) / sd
print("in sds from the centre of the posterior:")
print("truth:            ", np.round((truth - centre) / sd, 2))
print("the mode found:   ", np.round((mode - centre) / sd, 2))
print("mean of the draws:", np.round(z.mean((0, 1)), 2))
print("sd of the draws:  ", np.round(z.std((0, 1)), 3))

fig, axes = plt.subplots(1, 5, figsize=(10, 2.4), sharey=True)
grid = np.linspace(-4, 4, 200)
for ax, name, x in zip(axes, [*names, "intercept"], z.reshape(-1, 5).T):
    ax.hist(x, 40, range=(-4, 4), density=True, color="tab:blue", alpha=0.4, label="draws")
    ax.plot(grid, np.exp(-(grid**2) / 2) / np.sqrt(2 * np.pi), color="black", lw=1, label="exact")
    ax.set(title=name, xlabel="sds from the centre")
axes[0].set_ylabel("density")
axes[0].legend(fontsize=7, loc="upper left")
fig.tight_layout()

# %% [markdown]
# ## A worker is lost
#
# A round is a pure function of the state that it begins with. If a worker dies, another one makes
# its rounds again, and opens its shards. The draws do not depend on it. To show this, we make the
# same run again, and kill a worker when a quarter of it is done. (`verbose` may be a function,
# which is told how far the run is.) Rounds must be of the same length as before, so we give it.

# %%
killed = []


def kill(report):
    if report.label != "mode" and report.done > n_iters / 4 and not killed:
        killed.append(next(iter(client.run(os.getpid).values())))
        os.kill(killed[0], signal.SIGKILL)


each = draws.settings["round_iterations"]
shards = sgmcmc.Shards(paths, X=names, y="bought", round_iterations=each)
again = sgmcmc.sgldcv(
    log_lik, shards, params, **arguments, n_chains=4, client=client, verbose=kill
)  # fmt: skip
print(f"workers killed: {len(killed)}")
for name in draws:
    print(f"{name}: equal: {np.array_equal(draws[name], again[name])}")

# %% [markdown]
# If this process itself is lost, the store of `out=` has all rounds but the last ones, and
# `resume=True` goes on from there.
#
# ## Plain samplers on shards
#
# Without control variates, a chain that stays on a shard for long forgets all others, and settles
# on the posterior of that shard. Its draws would have 16 times the variance of the posterior here.
# In shorter rounds the difference between the gradients of a shard and those of all data acts like
# noise, the more so the longer a round is. Before the run it is measured how much wider that makes
# the draws, and rounds that make them wider by more than `bias` are refused:

# %%
shards = sgmcmc.Shards(paths, X=names, y="bought", round_iterations=1000)
try:
    sgmcmc.sgld(log_lik, shards, params, 0.1 / N, **arguments, n_chains=4, client=client)
except ValueError as error:
    print(error)

# %% [markdown]
# A smaller step would allow rounds of a few iterations, which spend their time on messages. On
# shards, take control variates.

# %%
client.close()
cluster.close()
temporary.cleanup()

# %% [markdown]
# ## Your own cluster
#
# `client="tcp://host:8786"` is the address of a scheduler, and a `distributed.Client` does as well.
# Workers need the versions of this package, of TensorFlow and of NumPy that this process has; that
# is checked first.
#
# - **Machines that you can log in to.** `dask scheduler` on one of them, and `SGMCMC_ONE_CORE=1
#   dask worker --nworkers 16 --nthreads 1 tcp://host:8786` on each.
# - **SLURM.** `dask_jobqueue.SLURMCluster(cores=1, memory="4GB")` submits a job for each worker,
#   and `Client(cluster)` is the client.
# - **Kubernetes.** `dask_kubernetes.operator.KubeCluster(image=...)` starts workers as pods, from
#   an image that has this package.
# - **A cloud.** `dask_cloudprovider` has such a class for each of the large ones; shards are then
#   URLs such as `s3://bucket/people/00.parquet`.
#
# Chains go to workers in groups of at least two, as the arithmetic of a single chain rounds
# differently. So have two chains or more for each worker: with fewer, some have nothing to do. (On
# shards, each chain is by itself.)
#
# A worker that joins late gets chains of the others, and shards. Those of a worker that leaves go
# to the others. A run begins when there is one worker. It waits a minute for the first one: if jobs
# stay longer in the queue of a batch system, call `client.wait_for_workers(1)` before. A cluster
# that adapts itself counts work by its seconds, and sees little in rounds of two: give it a
# minimum, as in `cluster.adapt(minimum=8)`.
#
# Workers import the modules in which your functions are. One that they do not have is named in an
# error. `client.upload_file("mymodel.py")` sends it to them, and
# `cloudpickle.register_pickle_by_value(mymodel)` sends what is in it along with the functions. What
# is written in a notebook or in the script itself needs neither.
#
# A worker pauses if it has little memory left of what Dask allows it, and a run says so if it waits
# for one. `--memory-limit 0` is no limit.
#
# Dask's profiler, its clock and its monitors take some 5 % of the time of the cores.
# `client="local"` sets them to take less. On a cluster of your own, put the same into the
# configuration of its workers and its scheduler:
#
# ```py
# dask.config.set({
#     "distributed.worker.profile.enabled": False,
#     "distributed.worker.memory.monitor-interval": "1s",
#     "distributed.admin.tick.interval": "1s",
#     "distributed.admin.system-monitor.interval": "5s",
# })
# ```
#
# **What a cluster trusts.** Dask sends functions as pickles, so whoever can reach the scheduler can
# run any program on the workers, and on this machine. Without TLS anyone in the network can. So
# open its port to a private network only, or use certificates of your own:
#
# ```py
# from distributed import Client, Security
#
# security = Security(
#     tls_ca_file="ca.pem",
#     tls_client_cert="cert.pem",
#     tls_client_key="key.pem",
#     require_encryption=True,
# )
# client = Client("tls://host:8786", security=security)
# ```
#
# The scheduler and the workers get theirs by `--tls-ca-file`, `--tls-cert` and `--tls-key`.
# Parquet, `.npy` and HDF5 files need no such trust, nor do stores of draws: nothing in them is
# unpickled.
#
# How this grows with the number of workers is in the [page on
# scaling](../../benchmarks/cluster.md).
