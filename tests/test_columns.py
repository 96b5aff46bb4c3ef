"""Parquet files and Arrow tables have the same rows, and so the same draws, as arrays in memory."""

import itertools
import re
import sys
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

import sgmcmc
from sgmcmc import checks, columns, minibatches
from sgmcmc.minibatches import InWindows
from sgmcmc.source import Source

pa = pytest.importorskip("pyarrow")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

N = 1000


def numbers(seed, N=N):
    rng = np.random.default_rng(seed)
    return {
        "a": rng.normal(size=N),
        "b": rng.normal(size=N).astype(np.float32),
        "site": rng.integers(0, 4, N).astype(np.int16),
        "member": rng.random(N) < 0.5,
        "image": rng.normal(size=(N, 3, 2)).astype(np.float32),
    }


def as_list(x):
    values = pa.array(x.reshape(-1))
    for size in x.shape[:0:-1]:
        values = pa.FixedSizeListArray.from_arrays(values, size)
    return values


def table(data):
    return pa.table({k: as_list(x) for k, x in data.items()})


def written(data, path, row_group_size=130, files=3):
    """Write the rows to some files, in row groups of unequal size."""
    ends = np.linspace(0, len(data["a"]), files + 1).astype(int)
    for k, (start, stop) in enumerate(itertools.pairwise(ends)):
        part = table({name: x[start:stop] for name, x in data.items()})
        pq.write_table(part, path / f"{k}.parquet", row_group_size=row_group_size)
    return path


ENTRIES = {"X": ["a", "b"], "site": "site", "member": "member", "image": "image"}


def entries(data):
    return {
        "X": np.stack([data["a"], data["b"]], axis=1),
        **{k: data[k] for k in ("site", "member", "image")},
    }


def log_lik(params, data):
    mean = tf.linalg.matvec(data["X"], params["beta"])
    mean += tf.gather(params["site"], tf.cast(data["site"], tf.int32))
    mean += tf.where(data["member"], 1.0, 0.0) + tf.reduce_sum(data["image"], [1, 2])
    return -tf.reduce_sum(mean**2) / 2


def draw(dataset, sampler=sgmcmc.sgld, **options):
    params, options = {"beta": np.zeros(2), "site": np.zeros(4)}, {"seed": 1, **options}
    options = {"n_iters": 300, "minibatch_size": 20, "verbose": False, **options}
    return sampler(log_lik, dataset, params, 1e-4, **options)


def assert_same(a, b):
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


@pytest.mark.parametrize("kind", ["folder", "files", "dataset", "url", "table", "batch"])
def test_parquet_has_the_same_draws_as_arrays(kind, tmp_path, seed):
    data = numbers(seed)
    source = written(data, tmp_path)
    if kind == "files":
        source = sorted(tmp_path.glob("*"))
    elif kind == "dataset":
        source = ds.dataset(tmp_path)
    elif kind == "url":
        source = f"file://{tmp_path}"
    elif kind == "table":
        source = table(data)
    elif kind == "batch":
        source = table(data).combine_chunks().to_batches()[0]
    dataset = sgmcmc.parquet(source, **ENTRIES)
    assert all(isinstance(x, np.ndarray) for x in dataset.values()) == (kind in ("table", "batch"))
    for name, x in entries(data).items():
        assert dataset[name].shape == x.shape
        assert dataset[name].dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(dataset[name]), x)
    assert_same(
        draw(dataset, minibatches="independent"), draw(entries(data), minibatches="independent")
    )


@pytest.mark.parametrize("sampler", [sgmcmc.sgldcv, sgmcmc.sgnht])
def test_parquet_has_the_draws_of_a_memory_map(sampler, tmp_path, seed, monkeypatch):
    """In turn from parts of the data, too, and after passes over all data."""
    monkeypatch.setattr(minibatches, "WINDOW_BYTES", 1 << 13)
    monkeypatch.setattr(minibatches, "PIECE_BYTES", 1 << 11)
    data = entries(numbers(seed))
    for name, x in data.items():
        np.save(tmp_path / f"{name}.npy", x)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in data}
    folder = tmp_path / "parquet"
    folder.mkdir()
    dataset = sgmcmc.parquet(written(numbers(seed), folder), **ENTRIES)
    assert_same(draw(dataset, sampler), draw(mapped, sampler))


INDICES = {
    "number": 7,
    "last": np.int64(-1),
    "list": [3, 1, 3, 999],
    "nothing": [],
    "negative": np.array([-1, 5, -1000]),
    "grid": np.array([[800, 2], [2, -3]], np.int16),
    "mask": np.arange(N) % 7 == 3,
    "unsigned": np.array([900, 2], np.uint64),
    "backwards": slice(None, None, -300),
    "steps": slice(-990, None, 123),
    "empty": slice(5, 5),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_rows_are_indexed_as_those_of_an_array(index, tmp_path, seed):
    dataset = sgmcmc.parquet(written(numbers(seed), tmp_path), **ENTRIES)
    for name, x in entries(numbers(seed)).items():
        found = dataset[name][index]
        np.testing.assert_array_equal(found, x[index])
        assert found.dtype == x.dtype


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (1000, IndexError, "row 1000 is out of range, as there are 1,000 rows"),
        ([5, -1001], IndexError, "row -1001 is out of range"),
        (np.ones(999, bool), IndexError, r"mask must have shape \(1000,\), one entry a row, not"),
        ((slice(3), 0), TypeError, r"indexed by rows alone.*; take x\[rows\]\[:, column\]"),
        (1.5, TypeError, "a list of whole numbers or a mask, not by 1.5"),
        ("a", TypeError, "not by 'a'"),
        (None, TypeError, "not by None"),
    ],
)
def test_bad_indices(index, error, message, tmp_path, seed):
    column = sgmcmc.parquet(written(numbers(seed), tmp_path))["a"]
    with pytest.raises(error, match=message):
        column[index]


def test_columns_of_a_file_are_entries(tmp_path, seed):
    data = {k: x for k, x in numbers(seed).items() if k != "image"}
    written(data, tmp_path)
    assert list(sgmcmc.parquet(tmp_path)) == list(data)

    def likelihood(params, data):
        assert data["site"].dtype == tf.int16
        assert data["member"].dtype == tf.bool
        return -tf.reduce_sum((data["a"] - params["m"]) ** 2)

    def draws(dataset):
        options = {"minibatches": "independent", "n_iters": 100, "seed": 1, "verbose": False}
        return sgmcmc.sgld(likelihood, dataset, {"m": 0.0}, 1e-4, **options)["m"]

    for dataset in (table(data), ds.dataset(tmp_path), sgmcmc.parquet(str(tmp_path))):
        np.testing.assert_array_equal(draws(dataset), draws(data))


def test_dictionaries_of_numbers_are_numbers_and_partitions_are_columns(tmp_path):
    for year in (2001, 2002):
        (tmp_path / f"year={year}").mkdir()
        x = pa.array([1.5, 2.5, 1.5]).dictionary_encode()
        pq.write_table(pa.table({"x": x}), tmp_path / f"year={year}" / "0.parquet")
    found = sgmcmc.parquet(tmp_path, x="x", year="year")
    np.testing.assert_array_equal(found["x"][:], [1.5, 2.5, 1.5] * 2)
    np.testing.assert_array_equal(found["year"][1:5], [2001, 2001, 2002, 2002])


def test_other_formats_are_read_file_by_file(tmp_path):
    feather = pytest.importorskip("pyarrow.feather")
    x = np.arange(10.0)
    for k in range(2):
        feather.write_feather(pa.table({"x": x + 10 * k}), tmp_path / f"{k}.arrow")
    found = sgmcmc.parquet(ds.dataset(tmp_path, format="ipc"))
    np.testing.assert_array_equal(found["x"][5:15], np.arange(5.0, 15.0))


def test_file_systems_of_fsspec(seed):
    fsspec = pytest.importorskip("fsspec")
    data = {"a": numbers(seed)["a"]}
    system = fsspec.filesystem("memory")
    with system.open("/people/0.parquet", "wb") as file:
        pq.write_table(table(data), file)
    for path in ("memory://people", ["memory://people/0.parquet"]):
        np.testing.assert_array_equal(sgmcmc.parquet(path)["a"][:], data["a"])


def test_rows_of_all_row_groups_come_once_an_epoch(tmp_path, seed):
    """Row groups of unequal size: in whole epochs, each row is in as many minibatches."""
    data = {"a": np.arange(3072.0)}
    written(data, tmp_path, row_group_size=170, files=2)
    source = Source(checks.dataset(sgmcmc.parquet(tmp_path), tf.float64), tf.float64)
    taken = InWindows(source.N, 4, seed, 1, row_bytes=1 << 18)
    count, parts = np.zeros(3072), taken.count // taken.together
    for number in range(4 * parts):
        out = {"a": np.empty((taken.batches, 4))}
        source.gather(taken.order(number), out)
        np.add.at(count, out["a"].astype(int).reshape(-1), 1)
    assert set(count) == {4}


def test_little_of_a_file_is_in_memory(tmp_path):
    data = {"a": np.zeros(2_000_000), "b": np.zeros(2_000_000)}
    written(data, tmp_path, row_group_size=50_000)
    del data
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        source = Source(checks.dataset(sgmcmc.parquet(tmp_path), tf.float32), tf.float32)
        out = {k: np.empty(1000, np.float32) for k in ("a", "b")}
        for _ in range(3):
            source.gather(np.linspace(0, 1_999_999, 1000).astype(int), out)
        for _ in source.pieces(1 << 20):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2.5 * columns.CACHE_BYTES
    assert pa.total_allocated_bytes() - before < columns.CACHE_BYTES


def missing(seed):
    data = table({"a": np.arange(1000.0), "b": np.arange(1000.0)})
    image = pa.array(
        [[1.0, 2.0]] * 700 + [[None, 1.0]] + [[1.0, 2.0]] * 299, pa.list_(pa.float64(), 2)
    )
    b = pa.array([*range(400), None, *range(599)], pa.float64())
    return data.set_column(1, "b", b).append_column("image", image)


def test_nulls_are_refused_with_column_and_row(tmp_path, seed):
    pq.write_table(missing(seed), tmp_path / "x.parquet", row_group_size=170)
    for entries, name, row in (({"X": ["a", "b"]}, "b", 400), ({"X": "image"}, "image", 700)):
        found = sgmcmc.parquet(tmp_path / "x.parquet", **entries)
        message = rf"column '{name}' has a null \(a missing value\) in row {row}: fill it in"
        with pytest.raises(ValueError, match=message):
            found["X"][:]
        with pytest.raises(ValueError, match=message):
            sgmcmc.sgldcv(
                lambda p, d: -tf.reduce_sum((d["X"] - p["m"]) ** 2), found, {"m": np.zeros(2)}, 1e-4
            )
        with pytest.raises(ValueError, match=message):
            sgmcmc.parquet(missing(seed), **entries)


def test_not_a_number_is_refused_with_its_row(tmp_path):
    x = np.ones(1000)
    x[456] = np.nan
    written({"a": x}, tmp_path)
    source = Source(checks.dataset(sgmcmc.parquet(tmp_path), tf.float32), tf.float32)
    with pytest.raises(ValueError, match=r"dataset\['a'\] has nan in row 456"):
        list(source.pieces())


TEXT = pa.table({"x": ["u", "v"], "y": [1.0, 2.0]})
BAD = [
    (TEXT, {}, TypeError, "column 'x' must hold real numbers or booleans, not string: code it"),
    (
        pa.table({"x": pa.array(["u"]).dictionary_encode()}),
        {},
        TypeError,
        "column 'x' must hold real numbers or booleans, not string: code it",
    ),
    (pa.table({"x": [[1.0], [2.0]]}), {}, TypeError, "if all have one length, cast them to"),
    (pa.table({"x": pa.array([1], pa.timestamp("s"))}), {}, TypeError, "days since a date"),
    (pa.table({"x": pa.array([1], pa.decimal128(9))}), {}, TypeError, "cast it to float64"),
    (TEXT, {"X": ["y", "z"]}, ValueError, "X: there is no column 'z'; there are 'x', 'y'"),
    (TEXT, {"X": 3}, TypeError, "X must be the name of a column or a list of names, not 3"),
    (TEXT, {"X": []}, TypeError, r"X must be the name of a column or a list of names, not \[\]"),
    (
        table({"a": np.ones((2, 2))}),
        {"X": ["a"]},
        ValueError,
        "column 'a' holds lists, and cannot be one column of a matrix",
    ),
    (pa.table([[1.0], [2.0]], ["x", "x"]), {}, ValueError, "several columns 'x'"),
    (7, {}, TypeError, "source must be a path, a URL or a list of these, a pyarrow.dataset"),
    ([], {}, TypeError, "source must be a path"),
    ("/no/such/file", {}, FileNotFoundError, "source: there is no file or folder /no/such/file"),
    (__file__, {}, ValueError, "source must be Parquet files: "),
    (
        ds.dataset(TEXT).filter(ds.field("y") > 1),
        {},
        ValueError,
        "source must not be a filtered dataset",
    ),
    (pa.table({"x": pa.array([], pa.float64())}), {}, ValueError, "source has no rows"),
]


@pytest.mark.parametrize(("source", "arrays", "error", "message"), BAD)
def test_bad_sources(source, arrays, error, message):
    with pytest.raises(error, match=message):
        sgmcmc.parquet(source, **arrays)


def test_other_things_that_are_no_datasets():
    def sampler(dataset):
        return sgmcmc.sgld(log_lik, dataset, {"m": 0.0}, 1e-4)

    with pytest.raises(TypeError, match=re.escape("for Parquet files, pass sgmcmc.parquet(path)")):
        sampler("x.parquet")

    class DaskFrame:
        columns, compute = ["x"], None

    with pytest.raises(TypeError, match="not one of dask: compute it, or write it to Parquet"):
        sampler(DaskFrame())

    class Unknown:
        shape, dtype = (np.nan, 2), np.dtype(float)

        def __getitem__(self, rows):
            raise NotImplementedError

    with pytest.raises(TypeError, match=r"dataset\['x'\] must have a known shape, not \(nan, 2\)"):
        sampler({"x": Unknown()})


def test_without_pyarrow_parquet_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'sgmcmc[parquet]'")):
        sgmcmc.parquet("x.parquet")
