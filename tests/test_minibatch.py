"""Minibatches are simple random samples, noise is white, and neither depends on the blocks' size.

Each random test raises a false alarm less than once in a million times: chi-square tests at EXTREME
at either end, z-tests at ALARM, or at SIGMAS for up to 3000 comparisons. They find errors of 10% in
the frequencies of sets of rows (root mean square), of 3% in those of rows, of 5% in those of
neighbours in a minibatch at N = 100 and 35% at N = 581,012, and of 5% in overlaps; of .04 in means
and correlations of the noise, and of .06 in its variances. Each test has a negative control.
"""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from sgmcmc import checks, outside, streams, tree
from sgmcmc import feeder as feeding
from sgmcmc.dynamics import Noise
from sgmcmc.dynamics.sghmc import SGHMC
from sgmcmc.feeder import Feeder, Wanted
from sgmcmc.outside import Outside
from sgmcmc.source import Source
from sgmcmc.streams import stream, without_replacement

from .ztest import ALARM, assert_mean, assert_rejected

EXTREME, SIGMAS = 1e-8, 6.5


def is_typical(chi2, df):
    """True if counts are not too far from the expected ones, nor (for df ≥ 5) too near to them."""
    law = tfp.distributions.Chi2(tf.constant(df, tf.float64))
    return law.survival_function(chi2) > EXTREME and (df < 5 or law.cdf(chi2) > EXTREME)


def pearson(count):
    return np.sum((count - count.mean()) ** 2) / count.mean()


# Wrong alternatives to `without_replacement`


def with_replacement(rng, N, n, count):
    return np.sort(rng.integers(0, N, (count, n)))


def next_to_duplicate(rng, N, n, count):
    """A wrong sampler: it replaces a row that came twice by the next row, not by a random one."""
    rows = with_replacement(rng, N, n, count)
    for _ in range(10 * n):
        twice = np.diff(rows, prepend=-1) == 0
        if not twice.any():
            break
        rows = np.sort((rows + twice) % N)
    return rows


def without_last_row(rng, N, n, count):
    return without_replacement(rng, N - 1, n, count)


# Simple random samples


def sets_are_even(draw, rng, N, n):
    """Count all sets of n rows out of N. For small N, this tests the whole distribution."""
    sets = {s: i for i, s in enumerate(itertools.combinations(range(N), n))}
    rows = draw(rng, N, n, 300 * len(sets))
    rows.sort()
    number = [sets.get(tuple(s), len(sets)) for s in rows.tolist()]
    count = np.bincount(number, minlength=len(sets) + 1)
    if count[-1] or len(sets) == 1:
        return count[-1] == 0
    return is_typical(pearson(count[:-1]), len(sets) - 1)


def rows_are_even(rows, N, bins=100):
    """Pearson's statistic times (N−1)/(N−n), because the rows of a minibatch exclude each other."""
    n, bins = rows.shape[1], min(N, bins)
    size = np.diff(-(-np.arange(bins + 1) * N // bins))
    count = np.bincount(rows.ravel().astype(np.int64) * bins // N, minlength=bins)
    expected = rows.size * size / N
    if n == N:
        return (count == expected).all()
    return is_typical(np.sum((count - expected) ** 2 / expected) * (N - 1) / (N - n), bins - 1)


def neighbours(rows, N):
    """Count the pairs of neighbouring rows in each minibatch; the first row follows the last."""
    rows = np.sort(rows)
    return np.sum((np.roll(rows, -1, axis=1) - rows) % N == 1, axis=1)


def are_sets(rows, N):
    rows = np.sort(rows)
    return rows.min() >= 0 and rows.max() < N and (np.diff(rows) > 0).all()


SMALL = [(1, 1), (2, 1), (6, 6), (9, 1), (9, 3), (9, 4), (9, 5), (9, 7), (9, 8), (10, 5)]
LARGE = [(100, 49, 20_000), (100, 50, 20_000), (100, 51, 20_000), (100, 90, 20_000)]
LARGE += [(101, 50, 20_000), (581_012, 500, 4_000)]


@pytest.mark.parametrize(("N", "n"), SMALL)
def test_every_set_of_rows_is_as_likely(N, n, seed):
    assert sets_are_even(without_replacement, np.random.default_rng(seed), N, n)


@pytest.mark.parametrize("wrong", [with_replacement, next_to_duplicate, without_last_row])
@pytest.mark.parametrize(("N", "n"), [(9, 3), (9, 4)])
def test_control_sets(wrong, N, n, seed):
    assert not sets_are_even(wrong, np.random.default_rng(seed), N, n)


@pytest.mark.parametrize(("N", "n", "count"), LARGE)
def test_rows_and_neighbours(N, n, count, seed):
    rows = without_replacement(np.random.default_rng(seed), N, n, count)
    assert rows.shape == (count, n)
    assert are_sets(rows, N)
    assert rows_are_even(rows, N)
    assert_mean(neighbours(rows, N), n * (n - 1) / (N - 1), detect=0.05 if N < 1000 else 0.35)


@pytest.mark.parametrize(("N", "n", "count"), [LARGE[0], LARGE[-1]])
def test_control_neighbours(N, n, count, seed):
    rng = np.random.default_rng(seed)
    rows = next_to_duplicate(rng, N, n, count)
    assert are_sets(rows, N)
    assert_rejected(neighbours(rows, N), n * (n - 1) / (N - 1))
    assert not are_sets(with_replacement(rng, N, n, count), N)


def test_control_rows(seed):
    rng = np.random.default_rng(seed)
    assert not rows_are_even(without_last_row(rng, 100, 49, 20_000), 100)
    too_even = np.arange(20_000 * 50).reshape(20_000, 50) % 100
    assert not rows_are_even(too_even, 100)


@pytest.mark.parametrize("N", [2**31 - 1, 2**31, 2**31 + 1, 10**9, 2**40])
def test_many_rows(N, seed):
    rows = without_replacement(np.random.default_rng(seed), N, 500, 500)
    assert are_sets(rows, N)
    assert rows_are_even(rows, N)


def test_a_minibatch_costs_no_memory_in_proportion_to_the_data(seed):
    rng = np.random.default_rng(seed)
    tracemalloc.start()
    try:
        without_replacement(rng, 10**9, 500, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000


# Successive minibatches, chains and seeds


OF_OVERLAP = 400, 60


def overlap_z(a, b, shift):
    """Return the z-score of the mean overlap of b with a shifted; overlaps are hypergeometric."""
    N, n = OF_OVERLAP
    marked = np.zeros((len(a), N))
    np.put_along_axis(marked, (a + shift) % N, 1, axis=1)
    sizes = np.take_along_axis(marked, b, axis=1).sum(axis=1)
    variance = n * (n / N) * (1 - n / N) * (N - n) / (N - 1)
    assert SIGMAS * np.sqrt(variance / len(a)) < 0.05 * n * n / N
    return (sizes.mean() - n * n / N) / np.sqrt(variance / len(a))


@pytest.mark.parametrize("shift", [0, 1])
def test_minibatches_are_uncorrelated(shift, seed, monkeypatch):
    monkeypatch.setattr(feeding, "CHUNK_MAX", 64)
    rows = [row_numbers(feeder(seed + s, *OF_OVERLAP, chains=2), 4096) for s in (0, 1)]
    a, other_seed = rows[0].reshape(4096, 2, -1).astype(np.int64), rows[1].reshape(4096, 2, -1)
    pairs = {
        "next": (a[:-1, 0], a[1:, 0]),
        "next but one": (a[:-2, 0], a[2:, 0]),
        "next chunk": (a[:-64, 0], a[64:, 0]),
        "other chain": (a[:, 0], a[:, 1]),
        "other chain next": (a[:-1, 0], a[1:, 1]),
        "other chain, other chunk": (a[:-64, 0], a[64:, 1]),
        "other seed": (a[:, 0], other_seed[:, 0].astype(np.int64)),
    }
    for what, (x, y) in pairs.items():
        assert abs(overlap_z(x, y, shift)) < ALARM, what


def test_control_overlaps(seed):
    rng = np.random.default_rng(seed)
    a = without_replacement(rng, *OF_OVERLAP, 4096).astype(np.int64)
    b = np.where(rng.random((4096, 1)) < 0.05, (a + 1) % OF_OVERLAP[0], a[::-1])
    assert abs(overlap_z(a, b, 1)) > ALARM


# The feeder


class Steps:
    """A stand-in for a dynamics, with all that a feeder asks of it."""

    def __init__(self, inner_steps=1):
        self.inner_steps = inner_steps

    def noise(self, x):
        return Noise(normals=x)


def numbered(N):
    """Arrays of many types, in which each row holds its own number."""
    i = np.arange(N)
    return {
        "double": i + 0.5,
        "single": (i[:, None] * [1, -1]).astype(np.float32),
        "long": i.reshape(N, 1, 1),
        "byte": (i % 256).astype(np.uint8),
        "big": i.astype(">i4"),
        "odd": i % 2 == 1,
    }


def feeder(
    seed, N=97, n=10, chains=3, dynamics=None, shared=False, data=None, dtype=tf.float32, h=None
):
    theta = {"a": tf.zeros([chains, 2], dtype), "b": {"c": tf.zeros([chains, 2, 1], dtype)}}
    source = Source(checks.dataset(data or numbered(N), dtype), dtype)
    dynamics = dynamics or Steps()
    wanted = Wanted(dynamics.noise(theta), dynamics.inner_steps, index=False, key=False)
    return Feeder(source, n, wanted, h or [0.5, lambda t: 1 / (1 + t)], theta, seed, shared)


def content(feeder, j, end):
    """Return a copy of one block."""
    block = feeder.block(j, end)
    feeder.ask_schedules(j, 0, feeder.size)
    return tree.map(lambda x: x.numpy().copy(), block)


def contents(feeder, n_iters):
    """Join the blocks of the first iterations, and close the feeder."""
    blocks = []
    for j in range(-(-n_iters // feeder.size)):
        blocks.append(content(feeder, j, n_iters))
    feeder.close()
    return tree.map(lambda *parts: np.concatenate(parts)[:n_iters], *blocks)


def row_numbers(feeder, n_iters):
    return contents(feeder, n_iters).rows["long"][..., 0, 0]


def assert_same(a, b):
    tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("shared", [False, True])
def test_blocks_hold_rows_of_the_data(shared, dtype, seed):
    n_iters, N, n, L = 50, 97, 10, 2
    block = contents(feeder(seed, N, n, 3, Steps(L), shared, dtype=dtype), n_iters)
    data = numbered(N)
    i = block.rows["long"][..., 0, 0]
    assert i.shape == (n_iters, L, 1 if shared else 3, n)
    assert are_sets(i.reshape(-1, n), N)
    for name, x in data.items():
        wanted = dtype.as_numpy_dtype if x.dtype.kind == "f" else x.dtype.newbyteorder("=")
        assert block.rows[name].dtype == wanted
        np.testing.assert_array_equal(block.rows[name], x[i])
    assert block.noise.shape == (n_iters, L, 3, 4)
    assert block.noise.dtype == block.schedule.dtype == dtype.as_numpy_dtype
    t = np.arange(n_iters)
    np.testing.assert_allclose(block.schedule, np.stack([0 * t + 0.5, 1 / (1 + t)], 1), rtol=1e-7)


def test_rows_of_blocks_are_even(seed):
    rows = row_numbers(feeder(seed, 100, 30, 2), 10_000)
    assert rows_are_even(rows[:, 0, 0], 100)
    assert rows_are_even(rows[:, 0, 1], 100)


@pytest.mark.parametrize("size", [1, 3, 7, 8, 9, 64])
@pytest.mark.parametrize("dynamics", [Steps(1), SGHMC(L=3, resample_momentum=True)])
def test_the_size_of_blocks_does_not_matter(size, dynamics, seed, monkeypatch):
    monkeypatch.setattr(feeding, "CHUNK_MAX", 8)
    as_usual = contents(feeder(seed, dynamics=dynamics), 50)
    monkeypatch.setattr(feeding, "BLOCK_MAX", size)
    made = feeder(seed, dynamics=dynamics)
    assert (made.size, made.chunk) == (size, 8)
    assert_same(contents(made, 50), as_usual)


def test_the_size_of_blocks_in_bytes_does_not_matter(seed, monkeypatch):
    as_usual = contents(feeder(seed), 50)
    monkeypatch.setattr(feeding, "BLOCK_BYTES", 5000)
    made = feeder(seed)
    assert 1 < made.size < 20
    assert_same(contents(made, 50), as_usual)


def test_blocks_in_any_order(seed, monkeypatch):
    monkeypatch.setattr(feeding, "BLOCK_MAX", 4)
    monkeypatch.setattr(feeding, "CHUNK_MAX", 8)
    whole = contents(feeder(seed), 48)
    made = feeder(seed)
    for j in [0, 5, 2, 2, 3, 0, 1, 11, 8, 10, 9, 7]:
        assert_same(content(made, j, 48), tree.map(lambda x, j=j: x[4 * j : 4 * j + 4], whole))
    made.close()


def test_chunks_differ(seed, monkeypatch):
    monkeypatch.setattr(feeding, "CHUNK_MAX", 8)
    block = contents(feeder(seed), 16)
    assert not np.any(block.noise[:8] == block.noise[8:])
    assert np.any(block.rows["long"][:8] != block.rows["long"][8:])


def test_a_chain_is_the_same_among_any_number_of_chains(seed):
    two, four = (contents(feeder(seed, chains=c), 60) for c in (2, 4))
    assert_same(two.rows, tree.map(lambda x: x[:, :, :2], four.rows))
    assert_same(two.noise, four.noise[:, :, :2])
    assert np.any(two.rows["long"][:, :, 0] != two.rows["long"][:, :, 1])


def test_shared_minibatches(seed):
    own, shared = (contents(feeder(seed, shared=s), 60) for s in (False, True))
    assert_same(shared.rows, tree.map(lambda x: x[:, :, :1], own.rows))
    assert_same(shared.noise, own.noise)


def test_seeds_matter(seed):
    a, same, other = (contents(feeder(s), 20) for s in (seed, seed, seed + 1))
    assert_same(a, same)
    assert not np.any(a.noise == other.noise)
    assert np.any(a.rows["long"] != other.rows["long"])


# Failures


def test_a_failure_is_raised_each_time_and_harms_no_other_block(seed, monkeypatch):
    monkeypatch.setattr(feeding, "BLOCK_MAX", 4)
    whole = contents(feeder(seed), 24)
    made = feeder(seed)
    fill, broken = made.fill, [2]

    def failing(j):
        if j in broken:
            raise OSError("no such rows")
        fill(j)

    made.fill = failing

    def assert_good(j):
        assert_same(content(made, j, 24), tree.map(lambda x: x[4 * j : 4 * j + 4], whole))

    assert_good(0)
    assert_good(1)
    for _ in range(3):
        with pytest.raises(OSError, match="no such rows"):
            made.block(2, 24)
    assert_good(3)
    assert_good(5)
    with pytest.raises(OSError, match="no such rows"):
        made.block(2, 24)
    broken.clear()
    for j in range(6):
        assert_good(j)
    made.close()


def test_schedules_are_asked_for_no_iteration_past_the_end(seed):
    table = np.linspace(1, 0, 20, endpoint=False, dtype=np.float32)
    made = feeder(seed, h=[0.5, lambda t: table[t]])
    for end in (10, 20):
        block = made.block(0, end)
        made.ask_schedules(0, end - 10, end)
        np.testing.assert_array_equal(block.schedule[:end, 1], table[:end])
    made.close()


# Memory maps


def on_disk(path, x):
    mapped = np.memmap(path, x.dtype, "w+", shape=x.shape)
    mapped[...] = x
    mapped.flush()
    return np.memmap(path, x.dtype, "r", shape=x.shape)


def test_memory_maps_hold_the_same_rows(tmp_path, seed):
    data = numbered(97)
    mapped = {k: on_disk(tmp_path / k, x) for k, x in data.items()}
    assert_same(contents(feeder(seed, data=mapped), 30), contents(feeder(seed, data=data), 30))
    source = Source(checks.dataset(mapped, tf.float32), tf.float32)
    for name, x in source.rows(5, 20).items():
        np.testing.assert_array_equal(x, data[name][5:20])
        assert x.dtype == source.dtypes[name]
    for name, x in source.subset(np.array([3, 90, 4])).arrays.items():
        np.testing.assert_array_equal(x, data[name][[3, 90, 4]])
        assert x.dtype == source.dtypes[name]


def test_memory_maps_are_not_read_whole(tmp_path, seed):
    N, width = 2_000_000, 8
    x = np.memmap(tmp_path / "x", np.float64, "w+", shape=(N, width))
    x[0] = 1
    tracemalloc.start()
    try:
        source = Source(checks.dataset({"x": x}, tf.float32), tf.float32)
        theta = tf.zeros([1, 3])
        wanted = Wanted(Noise(normals=theta), 1, index=False, key=False)
        made = Feeder(source, 10, wanted, [1.0], theta, seed, shared_minibatches=False)
        assert made.block(0, 1).rows["x"].dtype == tf.float32
        made.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6 < x.nbytes / 10


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_memory_maps_are_checked_as_they_are_read(bad, tmp_path, seed, monkeypatch):
    monkeypatch.setattr(feeding, "BLOCK_MAX", 1)
    x = np.ones((40, 2))
    x[17, 1] = bad
    mapped = {"x": on_disk(tmp_path / "x", x), "long": np.arange(40)[:, None, None]}
    clean = {**mapped, "x": np.ones((40, 2))}
    rows = row_numbers(feeder(seed, n=5, chains=1, data=clean), 60)[:, 0, 0]
    made = feeder(seed, n=5, chains=1, data=mapped)
    for t, here in enumerate(rows):
        if 17 in here:
            with pytest.raises(ValueError, match=r"dataset\['x'\] has -?(nan|inf) in row 17"):
                made.block(t, 60)
        else:
            np.testing.assert_array_equal(made.block(t, 60).rows["x"], 1)
    made.close()
    with pytest.raises(ValueError, match="in row 17"):
        list(made.source.pieces())


def test_numbers_too_large_for_the_type(tmp_path):
    x = np.ones(10)
    x[3] = 1e300
    for data in ({"x": x}, {"x": on_disk(tmp_path / "x", x)}):
        with (
            np.errstate(over="ignore"),
            pytest.raises(ValueError, match="in row 3"),
        ):
            Source(checks.dataset(data, tf.float32), tf.float32).rows(0, 10)


# Array-likes that are not in memory


class Slices:
    """An array-like that takes slices, as all of them do."""

    def __init__(self, x):
        self.x, self.shape, self.dtype, self.read, self.counts = x, x.shape, x.dtype, 0, []

    def __getitem__(self, rows):
        if not isinstance(rows, slice):
            raise TypeError("slices, please")
        found = self.x[rows]
        self.read += len(found)
        self.counts.append(len(found))
        return found


class Numbers(Slices):
    """An array-like that also takes increasing row numbers, as some do."""

    def __getitem__(self, rows):
        if isinstance(rows, slice):
            return super().__getitem__(rows)
        assert (np.diff(rows) > 0).all()
        self.read += len(rows)
        self.counts.append(len(rows))
        return self.x[rows]


def in_a_file(x, path):
    h5py = pytest.importorskip("h5py")
    return h5py.File(path, "w").create_dataset("x", data=x, chunks=True)


@pytest.mark.parametrize("kind", [Slices, Numbers, "file"])
def test_array_likes_hold_the_same_rows(kind, tmp_path, seed):
    data = {k: x for k, x in numbered(97).items() if k != "odd"}
    if kind == "file":
        likes = {k: in_a_file(x, tmp_path / f"{k}.h5") for k, x in data.items()}
    else:
        likes = {k: kind(x) for k, x in data.items()}
    assert_same(contents(feeder(seed, data=likes), 30), contents(feeder(seed, data=data), 30))
    source = Source(checks.dataset(likes, tf.float32), tf.float32)
    for name, x in source.rows(5, 20).items():
        np.testing.assert_array_equal(x, data[name][5:20])
    for name, x in source.subset(np.array([3, 90, 4, 3])).arrays.items():
        np.testing.assert_array_equal(x, data[name][[3, 90, 4, 3]])


@pytest.mark.parametrize("kind", [Slices, Numbers])
def test_array_likes_are_not_read_whole(kind, seed):
    x = kind(np.broadcast_to(0.0, (1_000_000, 1000)))
    made = feeder(seed, n=10, chains=1, data={"x": x, "long": np.zeros((1_000_000, 1, 1), int)})
    assert x.read == 1
    content(made, 0, 1)
    made.close()
    assert x.read <= 1 + 10 * made.size


@pytest.mark.parametrize("kind", [Slices, Numbers])
def test_rows_close_together_are_read_by_slices_of_bounded_size(kind, seed, monkeypatch):
    monkeypatch.setattr(outside, "SLICE_BYTES", 100_000)
    x = np.arange(40_000.0).reshape(20_000, 2)
    like = kind(x)
    rows = np.random.default_rng(seed).integers(0, 20_000, (10, 500))
    np.testing.assert_array_equal(Outside(like)[rows], x[rows])
    assert len(like.counts) <= 5
    assert max(like.counts) * 16 <= 100_000


@pytest.mark.parametrize("kind", [Numbers, "file"])
def test_rows_far_apart_are_selected_a_few_at_a_time(kind, tmp_path, seed):
    x = np.broadcast_to(np.arange(100_000.0)[:, None], (100_000, 40))
    like = in_a_file(x, tmp_path / "x.h5") if kind == "file" else kind(x)
    made = Outside(like)
    rows = np.random.default_rng(seed).integers(0, 100_000, 2000)
    np.testing.assert_array_equal(made[rows], x[rows])
    assert made.takes_numbers
    if kind is Numbers:
        assert like.read == len(np.unique(rows))
        assert max(like.counts) <= 500


def test_array_likes_are_checked_as_they_are_read(seed):
    x = np.ones((40, 2))
    x[17, 1] = np.nan
    made = feeder(seed, n=40, chains=1, data={"x": Slices(x), "long": np.arange(40)[:, None, None]})
    with pytest.raises(ValueError, match=r"dataset\['x'\] has nan in row 17"):
        made.block(0, 1)
    made.close()


def test_other_arrays_are_taken_as_they_are():
    class Labelled(Slices):  # as pandas has them
        iloc = None

        def __array__(self, dtype=None, copy=None):
            return self.x

    x = np.arange(6.0)
    for value in (Labelled(x), tf.constant(x), x.tolist()):
        assert isinstance(checks.dataset({"x": value}, tf.float64)["x"], np.ndarray)


# Noise


def noise_z(z, lag):
    """Return z-scores of correlations of columns at this lag; at 0, of means and variances too."""
    m = len(z) - lag
    cross = z[:m].T @ z[lag:] / np.sqrt(m)
    if lag:
        return cross
    squares = (np.sum(z**2, axis=0) - m) / np.sqrt(2 * m)
    np.fill_diagonal(cross, squares)
    return np.vstack([cross, z.sum(axis=0) / np.sqrt(m)])


def is_white(z, lags=(0, 1, 2, 64)):
    assert (SIGMAS + 3) * np.sqrt(2 / len(z)) < 0.06
    return all(np.abs(noise_z(z, lag)).max() < SIGMAS for lag in lags)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_noise_is_white(dtype, seed, monkeypatch):
    """Over iterations, inner steps, chains and parameters of equal shape."""
    monkeypatch.setattr(feeding, "CHUNK_MAX", 64)
    made = feeder(seed, chains=2, dynamics=SGHMC(L=2, resample_momentum=True), dtype=dtype)
    z = contents(made, 64_000).noise.astype(float)
    assert z.shape[1:] == (3, 2, 4)
    assert is_white(z.reshape(len(z), -1))


def quantile_z(z):
    """Return z-scores of the shares beyond some quantiles, on both sides."""
    beyond = np.array([0.1, 0.5, 1, 2, 3, 4])
    p = np.array([math.erfc(q / math.sqrt(2)) / 2 for q in beyond])
    found = np.array([[np.mean(side > q) for q in beyond] for side in (z, -z)])
    return (found - p) / np.sqrt(p * (1 - p) / z.size)


def test_noise_is_normal(seed):
    """Tails to four standard deviations; a tail 1.5 times too heavy at three would be found."""
    z = streams.standard_normals(stream(seed, streams.NOISE), (1 << 11, 1, 513), np.float32)
    assert z.shape == (1 << 11, 1, 513)
    assert z.dtype == np.float32
    assert np.abs(quantile_z(z.ravel())).max() < SIGMAS


@pytest.mark.parametrize("wrong", ["heavy", "scale", "uniform"])
def test_control_noise_is_normal(wrong, seed):
    rng = np.random.default_rng(seed)
    z = {
        "heavy": lambda: rng.standard_t(40, 1 << 20),
        "scale": lambda: 1.02 * rng.normal(size=1 << 20),
        "uniform": lambda: rng.uniform(-(3**0.5), 3**0.5, 1 << 20),
    }[wrong]()
    assert np.abs(quantile_z(z)).max() > SIGMAS


def test_many_chains_share_a_bounded_chunk(seed):
    few, many = feeder(seed, n=50, chains=30), feeder(seed, n=50, chains=3000)
    assert few.chunk == feeder(seed, n=50, chains=1).chunk
    index, _, noise, _ = many.random(0)
    assert index.nbytes + noise.nbytes <= feeding.CHUNK_BYTES
    assert are_sets(index.reshape(-1, 50), 97)
    few.close()
    many.close()


@pytest.mark.parametrize("copied", ["parameter", "chain", "iteration", "chunk", "variance", "mean"])
def test_control_noise(copied, seed):
    z = np.random.default_rng(seed).normal(size=(64_000, 2, 4))
    if copied == "parameter":
        z[:, :, 2:] = 0.995 * z[:, :, 2:] + 0.1 * z[:, :, :2]
    elif copied == "chain":
        z[:, 1] = z[:, 0]
    elif copied == "iteration":
        z[1::2] = z[::2]
    elif copied == "chunk":
        chunks = z.reshape(-1, 2, 64, 2, 4)
        chunks[:, 1] = chunks[:, 0]
    elif copied == "variance":
        z *= 1.05
    else:
        z += 0.05
    assert not is_white(z.reshape(len(z), -1))


def test_parameters_of_equal_shape_have_noise_of_their_own(seed):
    made = feeder(seed, chains=2)
    theta = {"a": tf.zeros([2, 2]), "b": {"c": tf.zeros([2, 2, 1])}}
    z = tree.split(tf.constant(contents(made, 1).noise[0, 0]), theta)
    assert not np.any(z["a"].numpy() == z["b"]["c"].numpy()[..., 0])


PURPOSES = range(7)


def test_streams_are_uncorrelated(seed):
    names = [
        (seed + s, *rest) for s in (0, 1) for rest in itertools.product(PURPOSES, (0, 1), (0, 1))
    ]
    z = np.stack([stream(*name).standard_normal(64_000) for name in names], axis=1)
    assert is_white(z, lags=(0, 1))
