"""One function a data set: from the files of its registry entry to arrays."""

from __future__ import annotations

import csv
import io
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from sgmcmc import checks

if TYPE_CHECKING:
    from sgmcmc.data import RawFile

NEWSGROUPS = (
    "alt.atheism",
    "comp.graphics",
    "comp.os.ms-windows.misc",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.windows.x",
    "misc.forsale",
    "rec.autos",
    "rec.motorcycles",
    "rec.sport.baseball",
    "rec.sport.hockey",
    "sci.crypt",
    "sci.electronics",
    "sci.med",
    "sci.space",
    "soc.religion.christian",
    "talk.politics.guns",
    "talk.politics.mideast",
    "talk.politics.misc",
    "talk.religion.misc",
)
PARTS = {"20news-bydate-train": "train", "20news-bydate-test": "test"}
WORD = re.compile("[a-z]{3,}")
RARE = 5  # words in fewer training documents are left out


def covertype(data: RawFile, multiclass: bool = False) -> dict[str, Any]:
    """Comma-separated integers, the class last."""
    table = data.parsed(integers)
    X, label = table[:, :-1].astype(np.float32), table[:, -1]
    X -= X.min(axis=0)
    X /= X.max(axis=0)
    y = label.astype(np.int32) - 1 if multiclass else (label == 2).astype(np.float32)
    return {"X": X, "y": y}


def integers(text: bytes) -> np.ndarray:
    """The rows of a comma-separated table of small integers."""
    columns = text[: text.index(b"\n")].count(b",") + 1
    return np.fromstring(text.replace(b"\n", b","), np.int16, sep=",").reshape(-1, columns)


def mnist(
    train_images: RawFile,
    train_labels: RawFile,
    test_images: RawFile,
    test_labels: RawFile,
    validation: int = 0,
) -> dict[str, Any]:
    """The idx format: bytes behind a header, of 16 bytes for images and of 8 for labels."""

    def part(images: RawFile, labels: RawFile) -> dict[str, np.ndarray]:
        pixels = np.frombuffer(images.content(), np.uint8, offset=16)
        X = pixels.reshape(-1, 28 * 28).astype(np.float32)
        X /= 255
        digits = np.frombuffer(labels.content(), np.uint8, offset=8).astype(np.int32)
        return {"X": X, "y": np.eye(10, dtype=np.float32)[digits], "labels": digits}

    train, test = part(train_images, train_labels), part(test_images, test_labels)
    if not validation:
        return {"train": train, "test": test}
    if validation >= len(train["X"]):
        raise ValueError(
            f"validation must be below {len(train['X']):,}, the number of training images, not "
            f"{validation:,}"
        )
    return {
        "train": {k: v[validation:] for k, v in train.items()},
        "validation": {k: v[:validation] for k, v in train.items()},
        "test": test,
    }


def msweb(train: RawFile, test: RawFile) -> dict[str, Any]:
    """Lines of areas (A), of users (C for case), of visits (V for vote) by the user above."""
    train_lines, test_lines = (
        list(csv.reader(file.content().decode("ascii").splitlines())) for file in (train, test)
    )
    titles = {int(line[1]): line[3] for line in train_lines if line[0] == "A"}
    column_of = {number: i for i, number in enumerate(sorted(titles))}

    def visits(lines: list[list[str]]) -> dict[str, np.ndarray]:
        users, columns, n_users = [], [], 0
        for kind, number, *_ in lines:
            if kind == "C":
                n_users += 1
            elif kind == "V":
                users.append(n_users - 1)
                columns.append(column_of[int(number)])
        X = np.zeros((n_users, len(titles)), np.uint8)
        X[users, columns] = 1
        return {"X": X}

    areas = np.array([titles[number] for number in column_of])
    return {"train": visits(train_lines), "test": visits(test_lines), "areas": areas}


def kos(docword: RawFile, vocab: RawFile) -> dict[str, Any]:
    """How many documents, words and lines there are, then lines of document, word, count."""
    csr_array = sparse("kos")
    numbers = np.fromstring(docword.content(), np.int32, sep=" ")
    shape, (document, word, count) = tuple(numbers[:2].tolist()), numbers[3:].reshape(-1, 3).T
    counts = csr_array((count, (document - 1, word - 1)), shape=shape)
    return {"counts": counts, "vocab": np.array(vocab.content().decode("ascii").split())}


def sparse(name: str) -> type:
    """The class `csr_array`; an error if SciPy is not there."""
    try:
        from scipy.sparse import csr_array
    except ImportError:
        raise ImportError(
            f"the data set {name!r} is a sparse array, which wants scipy: "
            "pip install 'sgmcmc[data]'"
        ) from None
    return csr_array


def a9a(train: RawFile, test: RawFile) -> dict[str, Any]:
    """LIBSVM's lines: the label, then the features that are 1, counted from 1, as in `3:1`."""

    def part(file: RawFile) -> dict[str, np.ndarray]:
        lines = [line.split() for line in file.content().splitlines()]
        X = np.zeros((len(lines), 123), np.float32)
        for row, (_, *features) in zip(X, lines):
            row[[int(feature.split(b":")[0]) - 1 for feature in features]] = 1
        return {"X": X, "y": np.array([line[0] == b"+1" for line in lines], np.float32)}

    return {"train": part(train), "test": part(test)}


def news20(archive: RawFile, groups: Any = None) -> dict[str, Any]:
    """A tar archive with a file a message, such as `20news-bydate-train/sci.space/59848`."""
    csr_array, chosen = sparse("20news"), newsgroups(groups)
    bags: dict[str, list[Counter[str]]] = {"train": [], "test": []}
    labels: dict[str, list[int]] = {"train": [], "test": []}
    for part, group, text in messages(archive.content()):
        if group in chosen:
            _, _, body = text.partition("\n\n")
            bags[part].append(Counter(WORD.findall(body.lower())))
            labels[part].append(chosen.index(group))
    n_documents = Counter(word for bag in bags["train"] for word in bag)
    vocab = sorted(word for word, n in n_documents.items() if n >= RARE)
    column_of = {word: i for i, word in enumerate(vocab)}

    def counted(part: str) -> dict[str, Any]:
        triples = [
            (row, column_of[word], n)
            for row, bag in enumerate(bags[part])
            for word, n in bag.items()
            if word in column_of
        ]
        row, column, n = np.array(triples, np.int32).reshape(-1, 3).T
        counts = csr_array((n, (row, column)), shape=(len(bags[part]), len(vocab)))
        kept = np.diff(counts.indptr) > 0  # topic models refuse documents without words
        return {"counts": counts[kept], "y": np.array(labels[part], np.int32)[kept]}

    return {
        "train": counted("train"),
        "test": counted("test"),
        "vocab": np.array(vocab),
        "groups": np.array(chosen),
    }


def newsgroups(groups: Any) -> list[str]:
    """The chosen newsgroups, in alphabetical order."""
    if groups is None:
        return list(NEWSGROUPS)
    if not isinstance(groups, (list, tuple, set)):
        raise TypeError(
            f"groups must be a list of names of newsgroups, not {checks.described(groups)}"
        )
    if not groups:
        raise ValueError("groups must have at least one newsgroup; None stands for all")
    for name in groups:
        if name not in NEWSGROUPS:
            raise ValueError(
                f"groups names {name!r}, which is no newsgroup{checks.nearest(name, NEWSGROUPS)}; "
                f"the newsgroups are {list(NEWSGROUPS)}"
            )
    return [name for name in NEWSGROUPS if name in groups]


def messages(archive: bytes) -> Iterator[tuple[str, str, str]]:
    """The part, the group and the text of each message in a tar archive."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as files:
        for file in files:
            place = PurePosixPath(file.name).parts
            if file.isreg() and len(place) == 3 and place[0] in PARTS:
                text = files.extractfile(file).read().decode("latin-1")
                yield PARTS[place[0]], place[1], text
