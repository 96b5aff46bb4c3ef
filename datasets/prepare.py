"""One function a data set, of its name: from the files of its registry entry to arrays."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sgmcmc.data import RawFile


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
    try:
        from scipy.sparse import csr_array
    except ImportError:
        raise ImportError(
            "the data set 'kos' is a sparse array, which wants scipy: pip install 'sgmcmc[data]'"
        ) from None
    numbers = np.fromstring(docword.content(), np.int32, sep=" ")
    shape, (document, word, count) = tuple(numbers[:2].tolist()), numbers[3:].reshape(-1, 3).T
    counts = csr_array((count, (document - 1, word - 1)), shape=shape)
    return {"counts": counts, "vocab": np.array(vocab.content().decode("ascii").split())}


def a9a(train: RawFile, test: RawFile) -> dict[str, Any]:
    """LIBSVM's lines: the label, then the features that are 1, counted from 1, as in `3:1`."""

    def part(file: RawFile) -> dict[str, np.ndarray]:
        lines = [line.split() for line in file.content().splitlines()]
        X = np.zeros((len(lines), 123), np.float32)
        for row, (_, *features) in zip(X, lines):
            row[[int(feature.split(b":")[0]) - 1 for feature in features]] = 1
        return {"X": X, "y": np.array([line[0] == b"+1" for line in lines], np.float32)}

    return {"train": part(train), "test": part(test)}
