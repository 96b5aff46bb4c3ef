"""Public data sets: find or download their files, verify them, and make arrays of them."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from . import checks
from .progress import tqdm

TIMEOUT = 30  # give up a mirror that sends nothing for this many seconds
GZIP = b"\x1f\x8b"
FOLDER = "the environment variable SGMCMC_DATA_DIR"


def list_datasets() -> Listing:
    """List the data sets that `get_dataset` knows.

    Returns
    -------
    Listing
        A dict by name, which prints as a table. Each entry is a dict of `title`, `shape`, `size`
        (of the download, in bytes), `licence`, `citation` and `url` (its home page).

    Examples
    --------
    >>> import sgmcmc
    >>> list(sgmcmc.list_datasets())
    ['covertype', 'mnist', 'msweb', 'kos', 'a9a', '20news']
    >>> sgmcmc.list_datasets()["mnist"]["licence"]
    'CC BY-SA 3.0'
    """
    return Listing(
        (
            name,
            {key: entry[key] for key in ("title", "shape")}
            | {"size": sum(file["size"] for file in entry["files"])}
            | {key: entry[key] for key in ("licence", "citation", "url")},
        )
        for name, entry in registry().items()
    )


def get_dataset(
    name: str,
    *,
    multiclass: bool = False,
    validation: int = 0,
    groups: list[str] | None = None,
) -> dict[str, Any]:
    """Return a public data set as arrays, and download it the first time.

    If the environment variable `SGMCMC_DATA_DIR` names a folder, the files must be there, and
    nothing is downloaded. Otherwise they are downloaded into the user's cache folder when they are
    first needed, for which `pip install 'sgmcmc[data]'`. In both cases their content is verified.

    - ``"covertype"``: `X` (581,012 × 54), each column scaled to [0, 1], and `y`, which is 1 where
      the class is 2 (lodgepole pine).
    - ``"mnist"``: `train` (60,000 images) and `test` (10,000), each with `X` (784 pixels, scaled to
      [0, 1]), `y` (one-hot, 10 columns) and `labels` (integers). With ``validation=5000``, `train`
      has the 55,000 images of the R package, and `validation` the others.
    - ``"msweb"``: `train` (32,711 users) and `test` (5,000), each with `X`, which is 1 where the
      user of the row visited the area of the column. `areas` are the titles of the 294 columns, in
      the order of the areas' numbers.
    - ``"kos"``: `counts` (3,430 documents × 6,906 words), a `scipy.sparse.csr_array`, and `vocab`,
      the words of its columns.
    - ``"a9a"``: `train` (32,561 rows) and `test` (16,281), each with `X` (123 binary features) and
      `y`, which is 1 where the income is above $50,000.
    - ``"20news"``: `train` (11,314 messages to newsgroups) and `test` (7,532 later ones), each with
      `counts` (documents × words), a `scipy.sparse.csr_array`, and `y`, the number of each
      document's group, from 0. `groups` are the names of the 20 groups. `vocab` are the words of
      the columns, which are those in at least 5 training documents. A word is a run of three or
      more letters a to z in the lower-cased text below the headers. Documents without any of these
      words are left out, as topic models refuse them.

    Parameters
    ----------
    name : str
        The name of the data set, one of those in `list_datasets()`.
    multiclass : bool, default False
        For covertype only. If True, `y` is the class of seven, an integer from 0 to 6.
    validation : int, default 0
        For mnist only. This many training images, the first ones, become a part `validation`.
    groups : list of str, optional
        For 20news only. Take the documents of these newsgroups only, such as
        ``["sci.med", "sci.space"]``. `y` then numbers these groups, in alphabetical order, and
        `vocab` is that of their documents.

    Returns
    -------
    dict
        New arrays, which you may change. Their type is float32, except for labels and counts
        (int32), visits (uint8) and text.

    Raises
    ------
    FileNotFoundError
        If `SGMCMC_DATA_DIR` is set and a file is not there.
    ValueError
        If no data set has this name, or the content of a file is not what it should be.
    ConnectionError
        If no mirror gives the file. The message says how each of them failed, and where to put the
        file by hand.

    Examples
    --------
    >>> import sgmcmc
    >>> data = sgmcmc.get_dataset("covertype")  # doctest: +SKIP
    >>> data["X"].shape  # doctest: +SKIP
    (581012, 54)
    >>> sgmcmc.get_dataset("covertyp")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    ValueError: name must be one of ['covertype', 'mnist', 'msweb', 'kos', 'a9a', '20news'], not
    'covertyp' (did you mean 'covertype'?)
    """
    known = registry()
    if not isinstance(name, str):
        raise TypeError(f"name must be one of {list(known)}, not {checks.described(name)}")
    if name not in known:
        raise ValueError(
            f"name must be one of {list(known)}, not {name!r}{checks.nearest(name, known)}"
        )
    multiclass = checks.boolean("multiclass", multiclass)
    validation = checks.whole("validation", validation, at_least=0)
    if multiclass and name != "covertype":
        raise ValueError(f"multiclass must be False for {name!r}: it is for 'covertype' only")
    if validation and name != "mnist":
        raise ValueError(f"validation must be 0 for {name!r}: it is for 'mnist' only")
    if groups is not None and name != "20news":
        raise ValueError(f"groups must be None for {name!r}: it is for '20news' only")
    options: dict[str, dict[str, Any]] = {
        "covertype": {"multiclass": multiclass},
        "mnist": {"validation": validation},
        "20news": {"groups": groups},
    }
    files = [RawFile(**file) for file in known[name]["files"]]
    prepare = getattr(datasets(".prepare"), known[name].get("function", name))
    return prepare(*files, **options.get(name, {}))


class Listing(dict):
    """A dict with a description of each data set, which prints as a table."""

    def __repr__(self) -> str:
        rows = [["", "title", "shape", "download"]] + [
            [name, entry["title"], entry["shape"], megabytes(entry["size"])]
            for name, entry in self.items()
        ]
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join(
            "  ".join([*map(str.ljust, row[:-1], widths), row[-1].rjust(widths[-1])])
            for row in rows
        )


@dataclass(frozen=True)
class RawFile:
    """A file as its source distributes it, gzipped or not.

    The hash is that of the decompressed content, as mirrors compress it differently; or that of the
    file itself, where no other is known.
    """

    path: str
    sha256: str
    size: int
    urls: list[str]

    def content(self) -> bytes:
        """Return the decompressed content, after it was verified."""
        path = self.located()
        try:
            return self.verified(path)
        except ValueError as error:
            sources = " or ".join(self.urls)
            cure = f"replace it by that of {sources}" if data_dir() else "delete it to get it anew"
            raise ValueError(f"the file {str(path)!r} {error}: {cure}") from None

    def parsed(self, parse: Callable[[bytes], np.ndarray]) -> np.ndarray:
        """Return parse(content). The cache keeps the array, which is faster to read again."""
        self.located()
        path = cache_folder() / "parsed" / f"{parse.__name__}-{self.sha256}.npz"
        try:
            with np.load(path) as file:  # in the format npz, as that has a checksum
                return file["array"]
        except Exception:  # the file is not there yet, or is damaged
            array = parse(self.content())
        with suppress(OSError), written(path) as part:
            np.savez(part, array=array)
        return array

    def located(self) -> Path:
        """Return the path of the file, after downloading it if necessary."""
        if folder := data_dir():
            path = folder / self.path
            if not path.is_file():
                raise FileNotFoundError(
                    f"there is no file {str(path)!r}: download {' or '.join(self.urls)} and save "
                    f"it there unchanged; or unset {FOLDER}, to have it downloaded"
                )
            return path
        path = cache_folder() / self.path
        if not path.is_file():
            self.download(path)
        return path

    def download(self, path: Path) -> None:
        """Download the file from the first mirror that gives it."""
        by_hand = (
            f"save it as {str(path)!r}, unchanged, or let {FOLDER} name a folder that has "
            f"{self.path!r}"
        )
        try:
            from pooch import HTTPDownloader
        except ImportError:
            raise ImportError(
                f"downloading {self.path!r} wants pooch: pip install 'sgmcmc[data]'. Without it, "
                f"get {' or '.join(self.urls)} and {by_hand}"
            ) from None
        download = HTTPDownloader(
            progressbar=tqdm is not None and sys.stderr.isatty(),
            chunk_size=1 << 16,
            timeout=TIMEOUT,
        )
        outer, failures = sys.exc_info()[1], []
        with written(path) as part:
            for url in self.urls:
                print(f"downloading {url} ({megabytes(self.size)})", file=sys.stderr)
                try:
                    download(url, str(part), None)
                    self.verified(part)
                    return
                except Exception as error:
                    while error.__context__ not in (None, outer):  # the cause is inside
                        error = error.__context__
                    failures.append(f"\n  {url}: {checks.summary(error)}")
            raise ConnectionError(
                f"no mirror gave {self.path!r}:{''.join(failures)}\nTry again later; or get it by "
                f"other means, and {by_hand}"
            )

    def verified(self, path: Path) -> bytes:
        """Return the decompressed content of a file; an error if it is not what it should be.

        Either the content or the file itself must have the hash. Of some files, only the
        hash of the gzipped form is known.
        """
        raw = content = path.read_bytes()
        if raw.startswith(GZIP):
            try:
                content = gzip.decompress(raw)
            except Exception as error:
                raise ValueError(f"is damaged ({checks.summary(error)})") from None
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256 and hashlib.sha256(raw).hexdigest() != self.sha256:
            raise ValueError(
                f"holds other content than it should: {len(content):,} bytes with the sha256 "
                f"{found}, not {self.sha256}"
            )
        return content


# Folders


def data_dir() -> Path | None:
    """Return the folder of raw files that `SGMCMC_DATA_DIR` names, or None."""
    told = os.environ.get("SGMCMC_DATA_DIR")
    if not told:
        return None
    path = Path(told).expanduser()
    if not path.is_dir():
        raise FileNotFoundError(f"{FOLDER} must name a folder, but there is none at {told!r}")
    return path


def cache_folder() -> Path:
    """Return the folder in which downloaded files are kept."""
    try:
        from pooch import os_cache
    except ImportError:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sgmcmc"
    return os_cache("sgmcmc")


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Give a file to write to, and move it to its place in the cache once it is complete."""
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = tempfile.TemporaryDirectory(prefix="unfinished-", dir=cache)
    except OSError as error:
        raise OSError(
            f"the cache folder {str(cache)!r} cannot be written to ({error}): make it writable, or "
            f"have the files in a folder of your own, which {FOLDER} names"
        ) from None
    with unfinished as folder:
        part = Path(folder) / path.name
        yield part
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(part, path)


# The registry


def registry() -> dict[str, Any]:
    """Return the descriptions of all data sets."""
    return json.loads((resources.files(datasets()) / "registry.json").read_text("utf-8"))


def datasets(module: str = "") -> ModuleType:
    """Import the package `sgmcmc.datasets`, or a module of it."""
    name = "sgmcmc.datasets"
    if importlib.util.find_spec(name) is None:  # in a checkout, its folder is beside this package's
        path = Path(__file__).parents[1] / "datasets" / "__init__.py"
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return importlib.import_module(name + module)


def megabytes(size: int) -> str:
    """Return a size in MB, as text."""
    return f"{size / 1e6:.1f} MB"
