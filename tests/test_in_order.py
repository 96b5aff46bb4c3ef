"""Streams: each row once an epoch, the same draws after a stop, and exact variances.

Of rows in an exchangeable order, which is the same in each epoch, the noise of two minibatches that
are less than an epoch apart has the correlation ρ = −n/(N − n). The stationary variance of SGLD is
then known exactly, if the chain forgets within an epoch. Each of many columns of data is one
replicate. The z-tests find relative errors of 3%. Sorted rows with a small buffer are rejected, and
so is the law of independent minibatches.
"""

import itertools
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc.in_order import Reader, StreamSource
from sgmcmc.minibatches import InOrder
from sgmcmc.resident import Streamed

from .ztest import assert_mean, assert_rejected

N = 1003
X = np.random.default_rng(0).normal(3, 1, (N, 2))


def batches(data, size):
    """A function that makes an iterator over batches of a dict of arrays."""
    count = len(next(iter(data.values())))

    def make():
        for start in range(0, count, size):
            yield {k: x[start : start + size] for k, x in data.items()}

    return make


def log_lik(params, data):
    return -tf.reduce_sum((data["x"] - params["m"]) ** 2) / 2


def draw(dataset, sampler=sgmcmc.sgld, stepsize=1e-4, **options):
    options = {"n_iters": 500, "minibatch_size": 10, "seed": 1, "verbose": False, **options}
    return sampler(log_lik, dataset, {"m": np.zeros(2)}, stepsize, **options)


def setup(dataset):
    options = {"minibatch_size": 10, "seed": 1, "verbose": False}
    return sgmcmc.sgld_setup(log_lik, dataset, {"m": np.zeros(2)}, 1e-4, **options)


def stream(size=100, buffer_size=200, x=X):
    return sgmcmc.stream(batches({"x": x}, size), len(x), buffer_size=buffer_size)


def streamed(make, N, n, buffer_rows, seed=1, inner=1):
    source = StreamSource(sgmcmc.stream(make, N), tf.float64)
    return Streamed(source, InOrder(N, n, seed, inner, buffer_rows), inner)


# Which rows come


@pytest.mark.parametrize(("n", "inner", "buffer_rows"), [(10, 1, 35), (7, 3, 1), (50, 1, 500)])
def test_each_row_comes_once_an_epoch(n, inner, buffer_rows, seed):
    """A part has the next rows of the stream, in random order; an epoch follows the last one."""
    data = {"row": np.arange(97), "x": np.arange(97) + 0.5}
    made = streamed(batches(data, 11), 97, n, buffer_rows, seed, inner)
    size = made.minibatches.batches * n
    seen = []
    for number in range(97):
        made.fill(number, made.arrays)
        rows = made.arrays["row"].reshape(-1)
        np.testing.assert_array_equal(made.arrays["x"], made.arrays["row"] + 0.5)
        np.testing.assert_array_equal(made.minibatches.order(number), made.arrays["row"])
        wanted = np.arange(number * size, (number + 1) * size) % 97
        np.testing.assert_array_equal(np.sort(rows), np.sort(wanted))
        assert size < 4 or (rows != wanted).any()
        seen.append(rows.copy())
    assert set(np.bincount(np.concatenate(seen))) == {size}
    made.close()


def test_parts_in_any_order_are_the_same(seed):
    data = {"row": np.arange(97)}
    made = streamed(batches(data, 11), 97, 10, 35, seed)
    parts = []
    for number in range(12):
        made.fill(number, made.arrays)
        parts.append(made.arrays["row"].copy())
    for number in (7, 3, 4, 4, 11, 0):
        made.fill(number, made.arrays)
        np.testing.assert_array_equal(made.arrays["row"], parts[number])
    made.close()


def test_rows_are_counted_beyond_32_bits():
    """NumPy 2 raises an OverflowError for sums of int32 and larger numbers."""
    found = InOrder(97, 10, 1, 1, 50).order(2**33)
    np.testing.assert_array_equal(
        np.sort(found.reshape(-1)), np.sort((2**33 * 50 + np.arange(50)) % 97)
    )


@pytest.mark.parametrize("n_chains", [None, 3])
def test_how_rows_are_cut_into_batches_does_not_matter(n_chains):
    draws = [draw(stream(size), n_chains=n_chains)["m"] for size in (1, 100, N)]
    np.testing.assert_array_equal(draws[0], draws[1])
    np.testing.assert_array_equal(draws[0], draws[2])


def test_batches_may_end_elsewhere_in_each_pass(seed):
    """The first rows are compared, and not the first batch; batches may be empty."""
    rng = np.random.default_rng(seed)

    def make():
        ends = np.sort(rng.integers(0, N, 9))
        yield from ({"x": part} for part in np.split(X, sorted([0, *ends, ends[4]])))

    def make_shuffled_at(place):
        order = np.arange(N)
        order[place:] = rng.permutation(order[place:])
        return batches({"x": X[order]}, int(rng.integers(1, 100)))()

    whole = draw(stream())["m"]
    np.testing.assert_array_equal(draw(sgmcmc.stream(make, N, buffer_size=200))["m"], whole)
    for place in (0, 500):
        with pytest.raises(ValueError, match="it began with other rows than before"):
            draw(sgmcmc.stream(lambda place=place: make_shuffled_at(place), N))


@pytest.mark.parametrize("kind", ["pandas", "table", "batch"])
def test_batches_may_be_tables(kind):
    make = pytest.importorskip("pandas").DataFrame
    if kind != "pandas":
        pa = pytest.importorskip("pyarrow")
        make = pa.table if kind == "table" else pa.RecordBatch.from_pydict
    data = {"x": X[:, 0], "y": np.arange(N)}
    ends = (0, 600), (600, 600), (600, N)
    made = [make({k: v[a:b] for k, v in data.items()}) for a, b in ends]
    found, exact = (
        StreamSource(sgmcmc.stream(make, N), tf.float32)
        for make in (lambda: made, batches(data, 600))
    )
    for a, b in zip(found.pieces(1000), exact.pieces(1000)):
        assert a["y"].dtype == tf.int64
        for k in data:
            np.testing.assert_array_equal(a[k], b[k])


def test_epochs_are_asked_for_by_number(seed):
    asked = []

    def make(epoch):
        asked.append(epoch)
        order = np.random.default_rng([seed, epoch]).permutation(N)
        return batches({"x": X[order]}, 100)()

    given = sgmcmc.stream(make, N, buffer_size=200)
    whole = draw(given, n_iters=510)["m"]
    assert set(asked) >= set(range(5))
    asked.clear()
    np.testing.assert_array_equal(draw(given, n_iters=510)["m"], whole)
    steps = setup(given)
    for t in range(510):
        sgmcmc.step(steps)
        if t in (0, 99, 100, 101, 509):
            np.testing.assert_array_equal(sgmcmc.get_params(steps)["m"], whole[t])


# The law of the draws


COLUMNS, ROWS, n, EPS, SIGMA = 2048, 400, 10, 0.8, 2.0


def mean_squares(seed, buffer_size, is_sorted=False):
    """Of the draws of each parameter, whose log posterior is −θ²/2, and its noise SIGMA²."""
    x = np.random.default_rng(seed).normal(size=(ROWS, COLUMNS))
    x = np.sort(x, axis=0) if is_sorted else x
    x = (x - x.mean(0)) / x.std(0, ddof=1) * SIGMA * np.sqrt(n * ROWS / (ROWS - n))
    draws = sgmcmc.sgld(
        lambda params, data: -tf.reduce_sum((data["x"] - params["m"]) ** 2) / (2 * ROWS),
        sgmcmc.stream(batches({"x": x}, 64), ROWS, buffer_size=buffer_size),
        {"m": np.zeros(COLUMNS)},
        EPS,
        minibatch_size=n,
        n_iters=1000,
        burn_in=100,
        seed=seed,
        verbose=False,
    )
    return np.mean(draws["m"].astype(float) ** 2, axis=0)


def variance(rho):
    a, c = 1 - EPS / 2, EPS / 2
    noise = (c * SIGMA) ** 2
    return (EPS + (1 - rho) * noise) / (1 - a**2) + rho * noise / (1 - a) ** 2


@pytest.mark.slow
@pytest.mark.parametrize("buffer_size", [70, n])
def test_rows_in_random_order_have_the_exact_variance(buffer_size, seed):
    found = mean_squares(seed, buffer_size)
    assert_mean(found, variance(-n / (ROWS - n)))
    assert_rejected(found, variance(0.0))


@pytest.mark.slow
def test_sorted_rows_with_a_small_buffer_are_rejected(seed):
    found = mean_squares(seed, 20, is_sorted=True)
    assert_rejected(found, variance(-n / (ROWS - n)))
    assert found.mean() > 2 * variance(0.0)


# All rows in passes


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"gradient": sgmcmc.SVRG(every=50)}, {"minibatch_size": "auto"}]
)
def test_passes_see_what_arrays_in_memory_show(options):
    """The mode, the coordinates and step sizes, and the gradient of all rows."""
    sampler, stepsize = (sgmcmc.sgld, 1e-4) if "gradient" in options else (sgmcmc.sgldcv, None)
    in_memory, passed = (
        draw(data, sampler, stepsize, **options) for data in ({"x": X}, stream(64))
    )
    if stepsize is None:
        assert passed.settings["mode"] == in_memory.settings["mode"]
    if not options:
        assert passed.settings["tuning"] == in_memory.settings["tuning"]
    np.testing.assert_allclose(passed["m"][-200:].mean(0), X.mean(0), atol=0.1)


def test_rows_are_found_wherever_they_are(seed):
    source = StreamSource(stream(64), tf.float32)
    rng = np.random.default_rng(seed)
    for index in (rng.permutation(N)[:50], rng.integers(0, N, 2000), np.array([N - 1])):
        found = source.subset(index).arrays["x"]
        np.testing.assert_array_equal(found, X[index].astype(np.float32))
        out = {"x": np.empty((len(index), 1, 2), np.float32)}
        source.gather(index[:, None], out)
        np.testing.assert_array_equal(out["x"][:, 0], found)
    np.testing.assert_array_equal(
        np.concatenate([p["x"] for p in source.pieces(800)]), X.astype(np.float32)
    )


@pytest.mark.slow
def test_diagnose_and_tune_take_a_stream():
    draws = draw(stream(), sgmcmc.sgldcv, None, n_iters=2000)
    assert "width" in sgmcmc.diagnose(draws)
    grid = {"stepsize": [1e-4, 1e-5]}
    options = {"seconds": 0.5, "minibatch_size": 50, "verbose": False}
    race = sgmcmc.tune(sgmcmc.sgld, log_lik, stream(), {"m": X.mean(0)}, grid=grid, **options)
    assert race.best["stepsize"] in grid["stepsize"]


# Going on after a stop


@pytest.mark.parametrize("sampler", [sgmcmc.sgld, sgmcmc.sghmccv])
def test_a_run_goes_on_in_the_middle_of_an_epoch(sampler, tmp_path):
    opened = []

    def make(epoch):
        opened.append(epoch)
        return batches({"x": X[np.random.default_rng(epoch).permutation(N)]}, 64)()

    given = sgmcmc.stream(make, N, buffer_size=200)
    whole = draw(given, sampler)["m"]
    options = {"out": tmp_path / "chain.zarr"}
    np.testing.assert_array_equal(draw(given, sampler, n_iters=333, **options)["m"], whole[:333])
    opened.clear()
    np.testing.assert_array_equal(draw(given, sampler, resume=True, **options)["m"][:], whole)
    assert not {1, 2} & set(opened)  # epochs that are over are not read again
    for other in (stream(buffer_size=100), stream(x=X + 1)):
        with pytest.raises(ValueError, match=r"^resume: .*(buffer_size is 200|other data)"):
            draw(other, sampler, resume=True, n_iters=600, **options)


def test_after_a_failure_the_stream_is_read_again():
    whole, broken = draw(stream())["m"], [True]

    def make(epoch):
        for number, batch in enumerate(batches({"x": X}, 100)()):
            if epoch == 2 and number == 5 and broken:
                raise OSError("no network")
            yield batch

    given = sgmcmc.stream(make, N, buffer_size=200)
    sampler = setup(given)
    with pytest.raises(OSError, match="no network") as raised:
        sgmcmc.run(sampler, 500, verbose=False)
    kept = raised.value.draws["m"]
    assert 200 <= len(kept) <= 260
    with pytest.raises(OSError, match="no network"):
        sgmcmc.run(sampler, 500, verbose=False)
    broken.clear()
    rest = sgmcmc.run(sampler, 500 - len(kept), verbose=False)["m"]
    np.testing.assert_array_equal(np.concatenate([kept, rest]), whole)


def test_little_of_a_stream_is_in_memory():
    """Rows of 80 MB, made as they come, in a buffer of 8 kB."""
    count = 1_000_000

    def make():
        for k in range(100):
            yield {"x": np.full((count // 100, 10), k, np.float64)}

    source = StreamSource(sgmcmc.stream(make, count), tf.float32)
    made = Streamed(source, InOrder(count, 10, 1, 1, 200), 1)
    tracemalloc.start()
    try:
        for number in range(count // 200):
            made.fill(number, made.arrays)
        for _ in source.pieces(1 << 18):
            pass
        source.subset(np.linspace(0, count - 1, 100).astype(int))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        made.close()
    assert peak < 6e6


# tf.data


def test_a_dataset_of_tensorflow_is_a_stream():
    data = {"x": X, "y": np.arange(N)}

    def likelihood(params, data):
        assert data["y"].dtype == tf.int64
        return log_lik(params, data)

    def draws(dataset):
        options = {"minibatch_size": 10, "n_iters": 300, "seed": 1, "verbose": False}
        return sgmcmc.sgld(likelihood, dataset, {"m": np.zeros(2)}, 1e-4, **options)["m"]

    of_rows = tf.data.Dataset.from_tensor_slices(data)
    as_stream = draws(sgmcmc.stream(batches(data, 77), N))
    of_batches = sgmcmc.stream(lambda: of_rows.batch(50).as_numpy_iterator(), N)
    for same in (of_rows, of_batches, of_rows.map(lambda row: row).prefetch(2)):
        np.testing.assert_array_equal(draws(same), as_stream)


def of_slices(x=X[:, 0]):
    return tf.data.Dataset.from_tensor_slices({"x": x})


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (of_slices().batch(10), "as it is of batches: pass sgmcmc.stream"),
        (of_slices().batch(10, drop_remainder=True), "as it may be of batches: pass sgmcmc.stream"),
        (of_slices().filter(lambda row: True), "number of its elements is not known: pass sgmcmc"),
        (of_slices().repeat(), "leave out .repeat"),
        (
            of_slices().shuffle(N, seed=1),
            "must not shuffle, or with reshuffle_each_iteration=False",
        ),
        (tf.data.Dataset.from_tensor_slices(X), "must have dicts of tensors as elements"),
        (of_slices(X.astype(str)[:, 0]), "must hold real numbers or booleans, not "),
    ],
)
def test_other_datasets_of_tensorflow(dataset, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw(dataset)


# Bad input


def shuffled():
    order = np.random.default_rng().permutation(N)
    return batches({"x": X[order]}, 100)()


ONCE = batches({"x": X}, 100)()
NAN = X.copy()
NAN[750, 1] = np.nan


def with_batch(number, batch):
    """Batches of 100 rows, of which one is another."""

    def make():
        each = list(batches({"x": X}, 100)())
        each[number] = batch
        return each

    return make


@pytest.mark.parametrize(
    ("make", "count", "message"),
    [
        (batches({"x": X}, 100), 1000, "N is 1,000, but the stream has at least 1,003 rows in ep"),
        (batches({"x": X}, 100), 1010, "N is 1,010, but the stream has 1,003 rows in epoch 0"),
        (list, 1010, "N is 1,010, but the stream has no rows"),
        (lambda: [{"x": X[:0]}] * 3, N, "N is 1,003, but the stream has no rows"),
        (with_batch(3, {"x": X[:0]}), N, "N is 1,003, but the stream has 903 rows in epoch 0"),
        (lambda: [{"x": X, "y": X[:0]}], N, r"\['y'\] must not be empty"),
        (lambda: ONCE, N, "a new iterator over the same rows, in the same order, each time"),
        (shuffled, N, "make_iterator must return .* the same rows, .* let it be a function of the"),
        (lambda: 5, N, "make_iterator must return an iterator over dicts of arrays, not 5"),
        (ONCE, N, "make_iterator must be a function without arguments, or of the epoch, not"),
        (lambda a, b: [], N, r"without arguments, or of the epoch alone, not of \(a, b\)"),
        (batches({"x": X}, 100), -1, "N must be"),
        (lambda: [X], N, "batch 0 of epoch 0 must be a dict of arrays of some rows each"),
        (lambda: [{"x": 1.0}], N, "'x' is one number: let the iterator yield batches of rows"),
        (lambda: [{"x": X, "y": X[:9]}], N, "batch 0 of epoch 0 must have equally many rows"),
        (lambda: [{"x": [["a"]]}], N, r"batch 0 of epoch 0, \['x'\] must hold real numbers"),
        (with_batch(3, {"y": X}), N, r"batch 3 of epoch 0 has \['y'\], but the first \['x'\]"),
        (with_batch(3, {"x": X[:9, :1]}), N, r"rows of shape \(1,\), but the first batch had"),
        (with_batch(3, {"x": X[:9].astype(int)}), N, "batch 3 of epoch 0 has 'x' of int64"),
        (batches({"x": NAN}, 100), N, r"dataset\['x'\] has nan in row 750"),
    ],
)
def test_bad_streams(make, count, message):
    with pytest.raises((TypeError, ValueError), match=message):
        draw(sgmcmc.stream(make, count))


def test_numbers_too_large_for_the_type():
    with pytest.raises(ValueError, match=r"has 1e\+300 in row 640, too large for float32"):
        draw(stream(x=np.where(np.arange(N)[:, None] == 640, 1e300, X)))


@pytest.mark.parametrize(
    ("sampler", "options", "message"),
    [
        (sgmcmc.sgld, {"gradient": sgmcmc.SAGA()}, "not be a stream for SAGA, which needs rows by"),
        (
            sgmcmc.sgld,
            {"minibatches": "independent"},
            "must be 'auto' or 'reshuffled' for a stream",
        ),
        (sgmcmc.sgld, {"minibatch_size": 300}, "buffer_size must be at least minibatch_size, 300"),
        (
            sgmcmc.sgnht,
            {},
            "not be a stream for sgnht with these settings, which needs independent",
        ),
        (sgmcmc.sgld, {"noise_estimate": "fisher"}, "not be a stream for sgld with these settings"),
    ],
)
def test_what_needs_rows_at_random_is_refused(sampler, options, message):
    with pytest.raises(ValueError, match=message):
        draw(stream(), sampler, **options)


def test_scircv_is_refused():
    data = {"k": np.random.default_rng(0).integers(0, 3, 100)}
    with pytest.raises(ValueError, match="must not be a stream for scircv"):
        sgmcmc.scircv(
            lambda params, data: tf.reduce_sum(tf.math.log(tf.gather(params["p"], data["k"]))),
            sgmcmc.stream(batches(data, 10), 100),
            {"p": np.ones(3) / 3},
            0.1,
            alpha=1.0,
        )


def test_a_reader_notices_what_comes_after_the_last_row():
    """More rows than N are an error, although all that are wanted have come."""
    source = StreamSource(stream(size=100), tf.float64)
    reader = Reader(source)
    source.N = 1000
    assert sum(len(rows["x"]) for rows in itertools.chain(reader.read(0, 1000))) == 1000
    with pytest.raises(ValueError, match="N is 1,000, but the stream has at least 1,003 rows"):
        reader.finish()
