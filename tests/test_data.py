"""Data sets: where their files come from, the errors if they cannot be had, and their content."""

import builtins
import doctest
import gzip
import hashlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import sgmcmc
from sgmcmc import data

ROOT = Path(__file__).parents[1]
HTTP_ONLY = "http://qwone.com/"  # what it gives is verified, as all files are
CONTENT = b"".join(b"%d,%d\n" % (i, i * i % 97 - 50) for i in range(1000))
TABLE = np.array([[i, i * i % 97 - 50] for i in range(1000)])


# A server whose mirrors behave as their path says


class Mirrors(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        getattr(self, self.path.strip("/"))()

    def answer(self, body, size=None, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.end_headers()
        self.wfile.write(body)

    def plain(self):
        self.answer(CONTENT)

    def gzipped(self):
        self.answer(gzip.compress(CONTENT, 1))

    def missing(self):
        self.answer(b"not here", status=404)

    def empty(self):
        self.answer(b"", status=202)

    def truncated(self):
        self.answer(CONTENT[:-7], size=len(CONTENT))

    def cut(self):
        self.answer(gzip.compress(CONTENT)[:-100])

    def wrong(self):
        self.answer(CONTENT.replace(b"7", b"8"))

    def slow(self):
        self.answer(CONTENT[:10], size=len(CONTENT))
        for part in np.array_split(np.frombuffer(CONTENT[10:], np.uint8), 6):
            time.sleep(0.1)
            self.wfile.write(part.tobytes())

    def hanging(self):
        self.answer(CONTENT[:100], size=len(CONTENT))
        self.server.over.wait(10)

    def interrupted(self):
        self.answer(CONTENT[:100], size=len(CONTENT))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        self.server.over.wait(10)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mirrors) as server:
        server.daemon_threads, server.block_on_close = True, False
        server.asked, server.over = [], threading.Event()
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.over.set()
        server.shutdown()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The cache folder. SGMCMC_DATA_DIR is not set, unless a test sets it."""
    monkeypatch.delenv("SGMCMC_DATA_DIR", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(data, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def tiny(server, cache, monkeypatch):
    """Register a single data set, `tiny`, with mirrors of these kinds."""
    prepare = data.datasets(".prepare")
    monkeypatch.setattr(
        prepare, "tiny", lambda file: {"table": file.parsed(prepare.integers)}, raising=False
    )

    def declare(*mirrors):
        urls = [
            url if "//" in url else f"http://127.0.0.1:{server.server_port}/{url}"
            for url in mirrors
        ]
        digest = hashlib.sha256(CONTENT).hexdigest()
        file = {"path": "few/numbers.gz", "sha256": digest, "size": len(CONTENT), "urls": urls}
        monkeypatch.setattr(data, "registry", lambda: {"tiny": {"files": [file]}})

    return declare


def table():
    return sgmcmc.get_dataset("tiny")["table"]


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("kind", ["plain", "gzipped", "slow"])
def test_a_file_is_downloaded_once(kind, tiny, server, cache, capfd, monkeypatch):
    if kind == "slow":
        monkeypatch.setattr(data, "TIMEOUT", 0.5)  # less than the whole download takes
    tiny(kind)
    np.testing.assert_array_equal(table(), TABLE)
    assert f"/{kind} (0.0 MB)" in capfd.readouterr().err
    np.testing.assert_array_equal(table(), TABLE)
    shutil.rmtree(cache / "parsed")
    np.testing.assert_array_equal(table(), TABLE)
    assert server.asked == [f"/{kind}"]
    assert capfd.readouterr() == ("", "")
    assert [f for f in files(cache) if (cache / f).is_file()] == [
        "few/numbers.gz",
        f"parsed/integers-{hashlib.sha256(CONTENT).hexdigest()}.npz",
    ]


@pytest.mark.parametrize(
    ("kind", "says"),
    {
        "missing": "HTTPError: 404 .*",
        "empty": "ValueError: .* 0 bytes with the sha256 e3b0c4.*",
        "truncated": r"IncompleteRead.*\b7 more expected.*",
        "cut": "EOFError: Compressed file ended before .*",
        "wrong": "ValueError: .* bytes with the sha256 [0-9a-f]{64}, not [0-9a-f]{64}",
        "hanging": "TimeoutError: timed out",
    }.items(),
)
def test_where_a_mirror_fails_the_next_is_asked(kind, says, tiny, server, cache, monkeypatch):
    if kind == "hanging":
        monkeypatch.setattr(data, "TIMEOUT", 0.2)
    tiny(kind)
    with pytest.raises(ConnectionError) as caught:
        table()
    first, line, advice = str(caught.value).splitlines()
    assert first == "no mirror gave 'few/numbers.gz':"
    assert re.fullmatch(rf"  http://127.0.0.1:\d+/{kind}: {says}", line)
    assert f"save it as {str(cache / 'few' / 'numbers.gz')!r}" in advice
    assert "SGMCMC_DATA_DIR" in advice
    assert files(cache) == []
    tiny(kind, "plain")
    np.testing.assert_array_equal(table(), TABLE)
    assert server.asked == [f"/{kind}", f"/{kind}", "/plain"]


def test_when_no_mirror_answers_each_is_named_with_its_reason(tiny, cache):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refusing = f"http://127.0.0.1:{unused.getsockname()[1]}/tiny"
    tiny(refusing, "missing")
    try:
        raise KeyError("an error that has nothing to do with it")
    except KeyError:
        with pytest.raises(ConnectionError) as caught:
            table()
    lines = str(caught.value).splitlines()
    assert re.fullmatch(rf"  {refusing}: ConnectionRefusedError: .*", lines[1])
    assert "/missing: HTTPError: 404" in lines[2]
    assert len(lines) == 4
    assert files(cache) == []


def test_ctrl_c_leaves_nothing_behind(tiny, cache, server):
    tiny("interrupted", "plain")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            table()
    finally:
        signal.signal(signal.SIGINT, before)
    assert files(cache) == []
    assert server.asked == ["/interrupted"]


def test_a_bar_in_a_terminal(tiny, monkeypatch, capsys):
    tiny("plain")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    table()
    assert "100%" in capsys.readouterr().err


def without(monkeypatch, package):
    real = builtins.__import__

    def importing(name, *args, **more):
        if name.split(".")[0] == package:
            raise ImportError(f"No module named {package!r}")
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", importing)


def test_without_pooch_an_error_says_what_to_install(tiny, server, cache, monkeypatch):
    without(monkeypatch, "pooch")
    tiny("plain")
    with pytest.raises(ImportError, match=r"pip install 'sgmcmc\[data\]'.*SGMCMC_DATA_DIR"):
        table()
    assert server.asked == []
    (cache / "few").mkdir(parents=True)
    (cache / "few" / "numbers.gz").write_bytes(CONTENT)
    np.testing.assert_array_equal(table(), TABLE)


def test_the_cache_folder_is_the_same_with_and_without_pooch(monkeypatch, tmp_path):
    pooch = pytest.importorskip("pooch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data.cache_folder() == pooch.os_cache("sgmcmc")
    without(monkeypatch, "pooch")
    if sys.platform == "linux":
        assert data.cache_folder() == tmp_path / "sgmcmc"


# The user's own files


@pytest.fixture
def own(tiny, tmp_path, monkeypatch):
    """The path of the user's own copy of the tiny file. Connections are errors."""

    def connect(*args):
        raise AssertionError("a connection was attempted")

    tiny("plain")
    monkeypatch.setenv("SGMCMC_DATA_DIR", str(tmp_path / "own"))
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "create_connection", connect)
    (tmp_path / "own" / "few").mkdir(parents=True)
    return tmp_path / "own" / "few" / "numbers.gz"


@pytest.mark.parametrize("form", [bytes, gzip.compress])
def test_files_of_ones_own_are_read_without_a_connection(own, form, server, monkeypatch):
    own.write_bytes(form(CONTENT))
    for _ in range(2):
        np.testing.assert_array_equal(table(), TABLE)
    monkeypatch.setenv("HOME", str(own.parents[2]))
    monkeypatch.setenv("SGMCMC_DATA_DIR", "~/own")
    np.testing.assert_array_equal(table(), TABLE)
    own.unlink()
    with pytest.raises(FileNotFoundError) as caught:
        table()
    assert f"there is no file {str(own)!r}: download http://127" in str(caught.value)
    assert server.asked == []


def test_a_folder_that_is_not_there(own, monkeypatch):
    monkeypatch.setenv("SGMCMC_DATA_DIR", "/nowhere/at/all")
    with pytest.raises(FileNotFoundError, match=r"SGMCMC_DATA_DIR must name a folder, .*nowhere"):
        table()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (CONTENT + b"1,1\n", "sha256 [0-9a-f]{64}, not [0-9a-f]{64}: replace it by that of http"),
        (gzip.compress(CONTENT)[:-20], "is damaged .EOFError: .*: replace it by that of http"),
    ],
)
def test_a_file_with_other_content(own, cache, content, says, monkeypatch):
    own.write_bytes(content)
    with pytest.raises(ValueError, match=f"{own}.*{says}"):
        table()
    monkeypatch.delenv("SGMCMC_DATA_DIR")
    shutil.copytree(own.parent, cache / "few")
    with pytest.raises(ValueError, match=f"{cache}.*: delete it to get it anew"):
        table()


def test_the_hash_may_be_that_of_the_file_or_of_its_content(tmp_path):
    path, files = tmp_path / "numbers.gz", [gzip.compress(CONTENT, mtime=i) for i in (1, 2)]
    of_content, of_file = (
        data.RawFile(path.name, hashlib.sha256(hashed).hexdigest(), 0, [])
        for hashed in (CONTENT, files[0])
    )
    for raw in files:
        path.write_bytes(raw)
        assert of_content.verified(path) == CONTENT
    with pytest.raises(ValueError, match=f"holds other content .*, not {of_file.sha256}"):
        of_file.verified(path)
    path.write_bytes(files[0])
    assert of_file.verified(path) == CONTENT


# The binary cache


@pytest.mark.parametrize("damage", ["truncated", "changed", "emptied", "text"])
def test_a_damaged_cache_is_made_anew(damage, own, cache):
    own.write_bytes(CONTENT)
    table()
    (path,) = (cache / "parsed").iterdir()
    good = bytearray(path.read_bytes())
    bad = good.copy()
    bad[len(bad) // 2] ^= 1
    path.write_bytes(
        {"truncated": good[:500], "changed": bad, "emptied": b"", "text": b"no array"}[damage]
    )
    np.testing.assert_array_equal(table(), TABLE)
    assert path.read_bytes() == good


def test_the_cache_is_what_is_read_and_what_comes_of_it_may_be_changed(own, monkeypatch):
    own.write_bytes(CONTENT)
    table()
    monkeypatch.setattr(data.RawFile, "content", None)
    first = table()
    first += 1
    np.testing.assert_array_equal(table(), TABLE)


def test_a_cache_that_cannot_be_written(own, cache, monkeypatch):
    def replace(*args):
        raise PermissionError("read-only")

    own.write_bytes(CONTENT)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        np.testing.assert_array_equal(table(), TABLE)
    assert [f for f in files(cache) if (cache / f).is_file()] == []
    shutil.rmtree(cache)
    cache.write_text("no folder")
    np.testing.assert_array_equal(table(), TABLE)
    monkeypatch.delenv("SGMCMC_DATA_DIR")
    with pytest.raises(OSError, match=f"the cache folder '{cache}' cannot be written to"):
        data.RawFile("a", "", 0, []).download(cache / "a")


# Arguments and the listing


def test_wrong_arguments(cache):
    with pytest.raises(ValueError, match=r"'mnits' \(did you mean 'mnist'\?\)"):
        sgmcmc.get_dataset("mnits")
    with pytest.raises(ValueError, match=r"one of \['covertype', 'mnist', .*\], not 'zzz'$"):
        sgmcmc.get_dataset("zzz")
    with pytest.raises(TypeError, match=r"name must be one of \['covertype', .*\], not 3"):
        sgmcmc.get_dataset(3)
    with pytest.raises(TypeError, match="multiclass must be True or False, not 'yes'"):
        sgmcmc.get_dataset("covertype", multiclass="yes")
    with pytest.raises(ValueError, match="multiclass must be False for 'kos'"):
        sgmcmc.get_dataset("kos", multiclass=True)
    with pytest.raises(ValueError, match="validation must be 0 for 'a9a': it is for 'mnist' only"):
        sgmcmc.get_dataset("a9a", validation=5000)
    with pytest.raises(TypeError, match="validation must be a whole number, 0 or more, not 'yes'"):
        sgmcmc.get_dataset("mnist", validation="yes")
    with pytest.raises(ValueError, match="validation must be a whole number, 0 or more, not -1"):
        sgmcmc.get_dataset("mnist", validation=-1)


def test_the_listing_prints_a_row_a_data_set():
    listing = sgmcmc.list_datasets()
    lines = repr(listing).splitlines()
    assert [line.split()[0] for line in lines] == ["title", *listing]
    assert len({len(line) for line in lines}) == 1
    assert "581,012 rows" in lines[1]
    assert lines[1].endswith("11.2 MB")
    for entry in listing.values():
        assert list(entry) == ["title", "shape", "size", "licence", "citation", "url"]


def test_the_registry_is_complete():
    prepare = data.datasets(".prepare")
    for name, entry in data.registry().items():
        assert callable(getattr(prepare, entry.get("function", name)))
        for text in ("title", "shape", "licence", "citation", "url"):
            assert entry[text].strip()
        for file in entry["files"]:
            assert re.fullmatch("[0-9a-f]{64}", file["sha256"])
            assert not Path(file["path"]).is_absolute()
            assert file["urls"]
            assert all(url.startswith(("https://", HTTP_ONLY)) for url in file["urls"])


def test_examples_in_docstrings():
    result = doctest.testmod(data)
    assert result.attempted >= 5
    assert result.failed == 0


# The real files


@pytest.fixture(scope="module")
def real(real_data, tmp_path_factory):
    """Return a function that reads a data set from the real files, each only once."""
    cache, known = tmp_path_factory.mktemp("cache"), {}

    def read(name, **options):
        if (key := (name, *options.items())) not in known:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("SGMCMC_DATA_DIR", real_data)
                patch.setattr(data, "cache_folder", lambda: cache)
                known[key] = sgmcmc.get_dataset(name, **options)
        return known[key]

    return read


@pytest.mark.parametrize("name", data.registry())
def test_hashes_are_those_of_the_real_files(name, real_data, monkeypatch):
    monkeypatch.setenv("SGMCMC_DATA_DIR", real_data)
    for file in data.registry()[name]["files"]:
        if not (Path(real_data) / file["path"]).is_file():
            pytest.skip(f"needs the file {file['path']}, which is not in {real_data}")
        assert len(data.RawFile(**file).content()) > 0


def test_covertype(real):
    X, y = real("covertype").values()
    assert (X.shape, X.dtype) == ((581_012, 54), np.float32)
    assert (y.shape, y.dtype) == ((581_012,), np.float32)
    assert y.sum() == 283_301
    assert set(np.unique(y)) == {0, 1}
    np.testing.assert_array_equal(X.min(0), 0)
    np.testing.assert_array_equal(X.max(0), 1)
    # the first line is 2596,51,3,258,0,..., and elevations are from 1859 to 3858 metres
    np.testing.assert_allclose(X[0, :2], [(2596 - 1859) / (3858 - 1859), 51 / 360], rtol=1e-6)
    np.testing.assert_array_equal(X[:, 10:14].sum(1), 1)
    np.testing.assert_array_equal(X[:, 14:].sum(1), 1)


def test_covertype_with_all_classes(real):
    X, label = real("covertype", multiclass=True).values()
    assert label.dtype == np.int32
    counts = [211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510]
    np.testing.assert_array_equal(np.bincount(label), counts)
    np.testing.assert_array_equal(label == 1, real("covertype")["y"])
    np.testing.assert_array_equal(X, real("covertype")["X"])


def test_mnist(real):
    for part, n, counts in [
        ("train", 60_000, [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        ("test", 10_000, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
    ]:
        X, y, labels = (real("mnist")[part][name] for name in ("X", "y", "labels"))
        assert (X.shape, X.dtype) == ((n, 784), np.float32)
        assert (X.min(), X.max()) == (0, 1)
        assert (y.shape, y.dtype, labels.dtype) == ((n, 10), np.float32, np.int32)
        np.testing.assert_array_equal(np.bincount(labels), counts)
        np.testing.assert_array_equal(y.argmax(1), labels)
        np.testing.assert_array_equal(y.sum(1), 1)
        X += 0  # is writable
    assert list(real("mnist")["train"]["labels"][:5]) == [5, 0, 4, 1, 9]


@pytest.mark.slow
def test_mnist_as_in_the_r_package(real):
    """It trains on the 55,000 rows after the first 5,000, with one-hot labels."""
    whole = real("mnist")["train"]
    parts = real("mnist", validation=5000)
    assert list(parts) == ["train", "validation", "test"]
    for part, rows in (("train", slice(5000, None)), ("validation", slice(5000))):
        for name in ("X", "y", "labels"):
            np.testing.assert_array_equal(parts[part][name], whole[name][rows])
    assert [len(part["y"]) for part in parts.values()] == [55_000, 5_000, 10_000]
    assert list(parts["train"]["labels"][:5]) == [7, 3, 4, 6, 1]
    with pytest.raises(ValueError, match=r"validation must be below 60,000, .* not 60,000"):
        real("mnist", validation=60_000)


def test_msweb(real):
    train, test, areas = real("msweb").values()
    assert (train["X"].shape, train["X"].dtype) == ((32_711, 294), np.uint8)
    assert (test["X"].shape, test["X"].dtype) == ((5_000, 294), np.uint8)
    assert (train["X"].sum(), test["X"].sum()) == (98_654, 15_191)
    assert train["X"].max() == 1
    np.testing.assert_array_equal(np.flatnonzero(train["X"][0]), [0, 1, 2])  # 1000, 1001, 1002
    assert len(areas) == 294
    assert areas[0] == "regwiz"
    assert areas[train["X"].sum(0).argmax()] == "Free Downloads"


def test_kos(real):
    counts, vocab = real("kos").values()
    assert (counts.shape, counts.dtype, counts.format) == ((3430, 6906), np.int32, "csr")
    assert (counts.sum(), counts.nnz) == (467_714, 353_160)
    assert (counts[0, 60], counts[0, 75]) == (2, 1)  # its first lines are 1 61 2 and 1 76 1
    assert vocab.shape == (6906,)
    assert (vocab[0], vocab[-1]) == ("aarp", "zones")


def test_a9a(real):
    for part, n, positive in [("train", 32_561, 7_841), ("test", 16_281, 3_846)]:
        X, y = real("a9a")[part].values()
        assert (X.shape, X.dtype, y.shape, y.dtype) == ((n, 123), np.float32, (n,), np.float32)
        assert y.sum() == positive
        assert set(np.unique(X)) == {0, 1}
    first = [3, 11, 14, 19, 39, 42, 55, 64, 67, 73, 75, 76, 80, 83]
    np.testing.assert_array_equal(np.flatnonzero(real("a9a")["train"]["X"][0]) + 1, first)


# Where the registry is found


@pytest.mark.slow
def test_the_registry_is_found_in_a_checkout_that_is_not_installed(tmp_path):
    for name in ("sgmcmc", "datasets"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import sys; sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f)]\n"
        "import sgmcmc; print(sgmcmc.data.datasets().__file__, *sgmcmc.list_datasets())"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    found = [str(tmp_path / "datasets" / "__init__.py"), *sgmcmc.list_datasets()]
    assert done.stdout.split() == found, done.stderr


@pytest.mark.slow
def test_the_wheel_has_the_registry(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("sgmcmc", "datasets"):
        shutil.copytree(ROOT / name, source / name)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if "No matching distribution found for setuptools" in done.stderr:
        pytest.skip("setuptools cannot be had here to build a wheel")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"sgmcmc-{sgmcmc.__version__}-")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        known = json.loads(archive.read("sgmcmc/datasets/registry.json"))
    assert known == data.registry()
    assert {"sgmcmc/datasets/prepare.py", "sgmcmc/datasets/__init__.py"} <= set(names)
    assert {"sgmcmc/py.typed", "sgmcmc/api.pyi", "sgmcmc/dynamics/sgld.py"} <= set(names)
    assert not [name for name in names if not name.startswith(("sgmcmc/", "sgmcmc-"))]
