"""Documents as counts of words, from matrices or files, and their rows for minibatches."""

from __future__ import annotations

import gzip
import math
import os
import warnings
import zlib
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .. import checks

MOST_TOKENS = 1_000_000  # the most tokens that a document may have


class Corpus:
    """Documents as sparse counts.

    Document d has the words words[starts[d] : starts[d + 1]], with the counts in the same places.
    """

    def __init__(
        self, starts: np.ndarray, words: np.ndarray, counts: np.ndarray, n_words: int
    ) -> None:
        self.starts, self.n_words = starts.astype(np.int64), n_words
        self.words, self.counts = (x.astype(np.int32, copy=False) for x in (words, counts))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each document."""
        return np.add.reduceat(self.counts, self.starts[:-1], dtype=np.int64)

    @property
    def width(self) -> int:
        """The largest number of different words in a document."""
        return int(np.diff(self.starts).max())

    def some(self, documents: np.ndarray) -> Corpus:
        """Return a corpus of these documents."""
        sizes = np.diff(self.starts)[documents]
        entries = np.repeat(self.starts[:-1][documents], sizes) + within(sizes)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        return Corpus(starts, self.words[entries], self.counts[entries], self.n_words)

    def rows(self) -> dict[str, Rows]:
        """Return the documents as a sampler's `dataset`: arrays whose rows are made when read."""
        return {"words": Rows(self, self.words), "counts": Rows(self, self.counts)}

    def split(self, share: float, rng: np.random.Generator) -> tuple[Corpus, Corpus]:
        """Split the tokens of each document at random; the first part has this share of them."""
        taken = np.empty_like(self.counts)
        for start, stop in zip(self.starts, self.starts[1:]):
            counts = self.counts[start:stop]
            size = math.ceil(share * counts.sum())
            taken[start:stop] = rng.multivariate_hypergeometric(counts, size, method="marginals")
        first, second = (
            Corpus(self.starts, self.words, part, self.n_words)
            for part in (taken, self.counts - taken)
        )
        return first, second


def within(sizes: np.ndarray) -> np.ndarray:
    """Number the members of each group: 0, 1, ... for groups of these sizes, end to end."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


class Sparse(Protocol):
    """Documents of different lengths, end to end: those of d are starts[d] to starts[d + 1]."""

    starts: np.ndarray

    @property
    def width(self) -> int:
        """The largest number of different words in a document."""

    def __len__(self) -> int: ...


class Rows:
    """An array (documents, width) whose rows are made when they are read, and filled up with 0."""

    def __init__(self, corpus: Sparse, values: np.ndarray) -> None:
        self.corpus, self.values = corpus, values
        self.shape, self.dtype = (len(corpus), corpus.width), values.dtype

    def __getitem__(self, documents: slice | np.ndarray) -> np.ndarray:
        if isinstance(documents, slice):
            documents = np.arange(len(self.corpus))[documents]
        starts = self.corpus.starts
        sizes = starts[documents + 1] - starts[documents]
        out = np.zeros((len(documents), self.shape[1]), self.dtype)
        out[np.arange(self.shape[1]) < sizes[:, None]] = self.values[
            np.repeat(starts[documents], sizes) + within(sizes)
        ]
        return out


def corpus(name: str, value: Any, n_words: int | None = None) -> Corpus:
    """Read documents from a sparse or dense matrix, or from a file, and check them."""
    if isinstance(value, (str, os.PathLike)):
        found = read(name, Path(value), n_words)
    else:
        found = of_matrix(name, value)
    if not len(found):
        raise ValueError(f"{name} must have documents, but has none")
    if n_words is not None and found.n_words != n_words:
        raise ValueError(
            f"{name} is of {found.n_words} words, but the vocabulary has {n_words}: it must have "
            "a column for each"
        )
    empty = np.flatnonzero(np.diff(found.starts) == 0)
    if len(empty):
        raise ValueError(
            f"{name} must have words in each document, but document {empty[0]} has none"
            + (f", and {len(empty) - 1} more" if len(empty) > 1 else "")
        )
    longest = found.lengths.argmax()
    if found.lengths[longest] > MOST_TOKENS:
        raise ValueError(
            f"{name} must have documents of at most {MOST_TOKENS:,} tokens, as each is worked on "
            f"as a whole, but row {longest} has {found.lengths[longest]:,}: split it"
        )
    return found


def of_matrix(name: str, value: Any) -> Corpus:
    """Read documents from a matrix, whose rows they are."""
    if hasattr(value, "tocsr"):
        matrix = value.tocsr()
        if matrix.ndim != 2:
            raise ValueError(f"{name} must be a matrix of documents × words, not {value.shape}")
        if not getattr(matrix, "has_canonical_format", True):
            matrix = matrix.copy()
            matrix.sum_duplicates()
        documents, n_words = matrix.shape
        document = np.repeat(np.arange(documents), np.diff(matrix.indptr))
        words, counts = matrix.indices, matrix.data
    else:
        dense = checks.array(name, value)
        if dense.ndim != 2:
            raise ValueError(
                f"{name} must be a matrix of documents × words, sparse or dense, or the path of a "
                f"file, not {checks.described(value)}"
            )
        (documents, n_words), (document, words) = dense.shape, np.nonzero(dense)
        counts = dense[document, words]
    return ordered(name, document, words, counts, documents, n_words)


def ordered(
    name: str,
    document: np.ndarray,
    words: np.ndarray,
    counts: np.ndarray,
    documents: int,
    n_words: int,
) -> Corpus:
    """Make a corpus from entries in the order of their documents, without entries of count 0."""
    good = (counts >= 0) & (counts < 2**31) & (counts == np.floor(counts))
    if not good.all():
        bad = np.argmin(good)
        raise ValueError(
            f"{name} must hold whole numbers from 0 to 2³¹ − 1, but has {counts[bad]} in row "
            f"{document[bad]}"
        )
    kept = counts > 0
    sizes = np.bincount(document[kept], minlength=documents)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return Corpus(starts, words[kept], counts[kept], n_words)


def read(name: str, path: Path, n_words: int | None) -> Corpus:
    """Read a file in the format of UCI's bags of words or of LDA-C, gzipped or not.

    The first format has three lines with the numbers of documents, words and entries, and then one
    line for each entry, `document word count`, where numbers begin at 1. The second has one line
    for each document, `how_many word:count word:count ...`, where words are numbered from 0.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{name} must be the path of a file that can be read: {error}") from None
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{name} is a gzip file that is not whole: {error}") from None
    try:
        if b":" in content[:10_000]:
            return lda_c(name, content, n_words)
        return bag_of_words(name, content)
    except NotNumbers:
        raise ValueError(
            f"{name} must be a file of UCI's bags of words or of LDA-C, which {str(path)!r} is not"
        ) from None


class NotNumbers(Exception):
    """Raised for a text that is not made of numbers."""


def numbers_in(content: bytes) -> np.ndarray:
    """Read all integers in a text."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # some versions of NumPy only warn of what they cannot read
        try:
            return np.fromstring(content, np.int64, sep=" ")
        except (ValueError, DeprecationWarning):
            raise NotNumbers from None


def bag_of_words(name: str, content: bytes) -> Corpus:
    """Read the format of UCI's bags of words."""
    numbers = numbers_in(content)
    if len(numbers) < 3 or (numbers[:3] < 0).any():
        raise NotNumbers
    documents, n_words, size = numbers[:3].tolist()
    if len(numbers) != 3 + 3 * size:
        raise ValueError(
            f"{name} has {(len(numbers) - 3) / 3:.10g} entries where its third line says {size}: "
            "the file is not whole"
        )
    document, words, counts = numbers[3:].reshape(-1, 3).T
    document, words = document - 1, words - 1
    in_vocabulary(name, words, n_words)
    if size and not (document.min() >= 0 and document.max() < documents):
        raise ValueError(f"{name} has a document outside 1 ... {documents}")
    if (np.diff(document) < 0).any():
        order = np.argsort(document, kind="stable")
        document, words, counts = document[order], words[order], counts[order]
    return ordered(name, document, words, counts, documents, n_words)


def lda_c(name: str, content: bytes, n_words: int | None) -> Corpus:
    """Read the format of LDA-C."""
    pairs = np.array([line.count(b":") for line in content.splitlines() if line.strip()])
    numbers = numbers_in(content.replace(b":", b" "))
    if len(numbers) != len(pairs) + 2 * pairs.sum():
        raise NotNumbers
    heads = np.cumsum(2 * pairs + 1) - 2 * pairs - 1
    wrong = np.flatnonzero(numbers[heads] != pairs)
    if len(wrong):
        raise ValueError(
            f"{name} has {pairs[wrong[0]]} words in document {wrong[0]}, whose line begins with "
            f"{numbers[heads][wrong[0]]}: the file is not whole"
        )
    words, counts = np.delete(numbers, heads).reshape(-1, 2).T
    n_words = n_words or int(words.max()) + 1
    in_vocabulary(name, words, n_words)
    document = np.repeat(np.arange(len(pairs)), pairs)
    return ordered(name, document, words, counts, len(pairs), n_words)


def in_vocabulary(name: str, words: np.ndarray, n_words: int) -> None:
    """Check that all word numbers are those of words."""
    bad = (words < 0) | (words >= n_words)
    if bad.any():
        raise ValueError(
            f"{name} has the word {words[bad][0]} (counted from 0), outside the vocabulary of "
            f"{n_words} words"
        )
