# %% [markdown]
# # Parquet files, and rows in the order in which they come
#
# Data need not be NumPy arrays. `sgmcmc.parquet` takes minibatches from Parquet files, and
# `sgmcmc.stream` from any iterator over rows: a data base, files of another format, a
# `tf.data.Dataset`. This vignette uses both, and measures what the order of the rows does.

# %%
import os
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import sgmcmc
import tensorflow as tf

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
N, n_iters = (20_000, 500) if QUICK else (4_000_000, 10_000)

# %% [markdown]
# ## Files
#
# We make a table of people, and write it to four files. A row group is what a reader of Parquet
# has to decode as a whole, so its size matters: 25,000 rows of 24 bytes are .6 MB. (Without
# `row_group_size`, pyarrow writes up to a million rows as one.)

# %%
temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name) / "people"
folder.mkdir()
rng = np.random.default_rng(1)
people = {name: rng.standard_normal(N, np.float32) for name in ("age", "income", "distance")}
people["site"] = rng.integers(0, 4, N).astype(np.int32)
truth = {"beta": [0.5, -1.0, 0.25], "site": [-1.0, -0.5, 0.0, 0.5]}
logits = sum(b * people[k] for b, k in zip(truth["beta"], ("age", "income", "distance")))
logits = logits + np.array(truth["site"])[people["site"]]
people["bought"] = (rng.random(N) < 1 / (1 + np.exp(-logits))).astype(np.float32)
for k, rows in enumerate(np.array_split(np.arange(N), 4)):
    table = pyarrow.table({name: x[rows] for name, x in people.items()})
    pyarrow.parquet.write_table(table, folder / f"{k}.parquet", row_group_size=25_000)

# %% [markdown]
# ## Sampling from them
#
# Each keyword is an entry of `dataset`: the name of one column, or a list of names for a matrix.
# Nothing is read yet. A list of files would do as well as a folder, and so would a URL such as
# `s3://bucket/people`.

# %%
dataset = sgmcmc.parquet(folder, X=["age", "income", "distance"], site="site", y="bought")
for name, columns in dataset.items():
    print(f"{name}: {columns}")


def log_lik(params, data):
    logits = tf.linalg.matvec(data["X"], params["beta"]) + tf.gather(params["site"], data["site"])
    return -tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(data["y"], logits))


params = {"beta": np.zeros(3), "site": np.zeros(4)}
arguments = {"minibatch_size": 500, "n_iters": n_iters, "seed": 1, "verbose": False}
draws = sgmcmc.sgldcv(log_lik, dataset, params, **arguments)
print(draws.summary())

# %% [markdown]
# ## Rows in the order in which they come
#
# A stream is a function that makes an iterator over batches of rows, and the number of all rows.
# Here a batch is a row group, and each epoch takes the row groups in an order of its own: the
# function has the epoch as its argument, and returns the same rows each time it is called with
# the same epoch. `sgmcmc.parquet` also makes arrays of a table in memory.

# %%
groups = [
    group
    for file in pyarrow.dataset.dataset(folder).get_fragments()
    for group in file.split_by_row_group()
]


def row_groups(epoch):
    for k in np.random.default_rng(epoch).permutation(len(groups)):
        table = groups[k].to_table()
        yield sgmcmc.parquet(table, X=["age", "income", "distance"], site="site", y="bought")


in_order = sgmcmc.stream(row_groups, N, buffer_size=min(N, 500_000))
draws = sgmcmc.sgldcv(log_lik, in_order, params, **arguments)
print(draws.summary())

# %% [markdown]
# The rows of the buffer are shuffled and cut into minibatches; then the next rows come. The search
# for the mode passed over the stream about a dozen times. What needs rows at random or independent
# minibatches is refused: `SAGA`, `scircv`, and thermostats. With `out=` and `resume=True` a run
# goes on in the middle of an epoch, with the draws that it would have had.
#
# A `tf.data.Dataset` of single rows can be passed as `dataset`, and is such a stream. One of
# batches does not know its number of rows: pass
# `sgmcmc.stream(lambda: batches.as_numpy_iterator(), N)`.
#
# ## Which of them is faster
#
# To read one row, all of its row group is decoded. Minibatches that are taken in turn come from
# shuffled parts of 32 MB, made of pieces of 1 MB from all over the data: for each part, nearly all
# row groups are decoded if they are large. We write the table once more, with one row group a file,
# and compare.

# %%
large = Path(temporary.name) / "large"
large.mkdir()
for file in sorted(folder.iterdir()):
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(file), large / file.name)


def stream_of(path):
    parts = pyarrow.dataset.dataset(path).get_fragments()
    parts = [group for part in parts for group in part.split_by_row_group()]

    def batches():
        for part in parts:
            yield sgmcmc.parquet(part.to_table(), **entries)

    return sgmcmc.stream(batches, N)


entries = {"X": ["age", "income", "distance"], "site": "site", "y": "bought"}
sources = {
    "in memory": {name: columns[:] for name, columns in dataset.items()},
    "Parquet, small row groups": sgmcmc.parquet(folder, **entries),
    "Parquet, large row groups": sgmcmc.parquet(large, **entries),
    "stream, small row groups": stream_of(folder),
    "stream, large row groups": stream_of(large),
}
minibatches = {"in turn": "auto", "independent": "independent"}
for name, source in sources.items():
    times = []
    for kind in list(minibatches)[: 1 if name.startswith("stream") else 2]:
        few = n_iters if kind == "in turn" or name == "in memory" else n_iters // 10
        sampler = sgmcmc.sgld_setup(
            log_lik, source, params, 1e-7, minibatch_size=500, seed=1, verbose=False,
            minibatches=minibatches[kind],
        )  # fmt: skip
        sgmcmc.run(sampler, 100, verbose=False)
        began = time.perf_counter()
        sgmcmc.run(sampler, few, verbose=False)
        times.append(f"{kind} {1e6 * (time.perf_counter() - began) / few:5.0f} µs a step")
    print(f"{name:26}", ", ".join(times))

# %% [markdown]
# (Other programs ran on the machine, so only large differences mean something.) All of this is for
# a small model, whose step takes microseconds, and for a file of 100 MB, which is three parts. With
# 440 MB, a step from row groups of a million rows took 2.4 times as long as from those of 25,000;
# the more row groups a part has pieces of, the worse. In short:
#
# - If the data fit into memory, read them: `dataset["X"][:]` is an array.
# - Write files with row groups of about 1 MB, and `sgmcmc.parquet` takes minibatches from all over
#   them.
# - For large row groups take a stream.
# - `minibatches="independent"`, as thermostats need, decodes nearly all row groups for each block
#   of some hundred iterations. Convert such data to an `.npy` file, or read them into memory.
#
# ## What the order of the rows costs
#
# A minibatch is a random sample of the buffer, not of all data. If rows come in random order, this
# makes no difference. If they are sorted, the chain follows the part of the data that it sees. We
# sort rows by what is to be predicted, which is how many files are written.

# %%
M = min(N, 100_000)
some = {name: np.asarray(columns[:M]) for name, columns in dataset.items()}
design = np.concatenate([some["X"], np.eye(4)[some["site"]]], axis=1)
p = 1 / (1 + np.exp(-design @ np.concatenate([truth["beta"], truth["site"]])))
exact = np.sqrt(np.diag(np.linalg.inv((design * (p * (1 - p))[:, None]).T @ design)))
orders = {"random order": np.arange(M), "sorted by label": np.argsort(some["y"], kind="stable")}
sizes = [M // 1000, M // 100, M // 10, M // 2, M]


def batches_of(rows):
    for begin in range(0, M, 1000):
        yield {name: x[rows[begin : begin + 1000]] for name, x in some.items()}


def width(sampler, rows, size):
    draws = sampler(
        log_lik,
        sgmcmc.stream(lambda: batches_of(rows), M, buffer_size=size),
        truth,
        0.05 / M,
        minibatch_size=min(100, size),
        n_iters=4 * n_iters,
        burn_in=n_iters // 2,
        seed=2,
        verbose=False,
    )
    found = np.concatenate([draws["beta"], draws["site"]], axis=1)
    return np.mean(found.std(0) / exact)


fig, ax = plt.subplots(figsize=(6, 4))
lines = []
for name, sampler, colour in (
    ("sgld", sgmcmc.sgld, "tab:orange"),
    ("sgldcv", sgmcmc.sgldcv, "tab:blue"),
):
    for order, style in zip(orders, ("o-", "s--")):
        found = [width(sampler, orders[order], size) for size in sizes]
        shares = [size / M for size in sizes]
        ax.loglog(shares, found, style, color=colour, label=f"{name}, {order}")
        lines.append(f"{name}, {order}: {np.round(found, 2)}")
ax.axhline(1, color="black", lw=1)
ax.set(xlabel="rows in the buffer ÷ all rows", ylabel="sd of the draws ÷ exact sd")
ax.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
ax.legend(loc="center left")
fig.tight_layout()
print("\n".join(lines))

# %% [markdown]
# With plain gradients, draws from sorted rows are far too wide unless the buffer holds all rows:
# half of them is not enough. A buffer does not mend an order; it only mixes what lies close
# together. (In random order, they are 1.2 to 1.3 times too wide: that is the noise of minibatches
# at this step size, and the buffer has no part in it.) Control variates hardly mind: they use the
# gradient of each row only relative to the one at the mode.
#
# So shuffle the rows once, when they are written. Or let each batch of the stream take its rows
# from several places, and the epoch decide on the order.
