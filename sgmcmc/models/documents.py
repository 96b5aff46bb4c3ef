"""Documents as points of a sphere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from .. import checks
from .corpus import Rows, corpus

NEAR = 1e-3  # how far the length of a document may be from 1


def tf_idf(counts: Any, reference: Any = None) -> sparse.csr_array:
    """Turn counts of words into vectors of length 1, in which rare words weigh more.

    The weight of a word in a document is n log(D/(1 + d)), where it occurs n times, and in d of the
    D documents of the reference. Words that are in nearly all documents have the weight 0. Then
    each document is divided by its length.

    Parameters
    ----------
    counts : sparse or dense matrix, or path
        How often each word (column) occurs in each document (row), as in `fit_lda`.
    reference : sparse or dense matrix, or path
        The documents by which words are weighed: `counts` themselves by default. New documents
        should have the weights of those to which a model was fitted.

    Returns
    -------
    scipy.sparse.csr_array (documents, words)
        Rows of length 1, in float32.

    Examples
    --------
    >>> import numpy as np, sgmcmc
    >>> counts = np.array([[3, 0, 1], [0, 2, 1], [1, 0, 1], [0, 1, 1]])
    >>> sgmcmc.tf_idf(counts).toarray().round(2).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    documents = corpus("counts", counts)
    known = documents if reference is None else corpus("reference", reference, documents.n_words)
    found_in = np.bincount(known.words, minlength=known.n_words)
    weights = np.log(np.maximum(len(known) / (1 + found_in), 1))
    values = (documents.counts * weights[documents.words]).astype(np.float64)
    starts = documents.starts
    length = np.sqrt(np.add.reduceat(values**2, starts[:-1]))
    empty = np.flatnonzero(length == 0)
    if len(empty):
        raise ValueError(
            f"counts must have a word of weight above 0 in each document, but document {empty[0]} "
            "has only words that are in nearly all documents"
            + (f", and {len(empty) - 1} more" if len(empty) > 1 else "")
        )
    values /= np.repeat(length, np.diff(starts))
    shape = len(documents), documents.n_words
    return sparse.csr_array((values.astype(np.float32), documents.words, starts), shape)


@dataclass
class UnitDocuments:
    """Vectors of length 1, as sparse rows."""

    starts: np.ndarray
    words: np.ndarray
    weights: np.ndarray
    n_words: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def width(self) -> int:
        """The largest number of different words in a document."""
        return int(np.diff(self.starts).max())

    def rows(self) -> dict[str, Rows]:
        """Return the documents as a sampler's `dataset`: arrays whose rows are made when read."""
        return {"words": Rows(self, self.words), "weights": Rows(self, self.weights)}

    def mean(self) -> np.ndarray:
        """The mean document."""
        return np.bincount(self.words, self.weights, self.n_words) / len(self)

    def dense(self, documents: np.ndarray) -> np.ndarray:
        """Return some documents as rows of a matrix."""
        out = np.zeros((len(documents), self.n_words), np.float32)
        for row, d in zip(out, documents):
            here = slice(self.starts[d], self.starts[d + 1])
            row[self.words[here]] = self.weights[here]
        return out

    def batches(self, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield document numbers and a matrix of `size` documents, the last one filled up."""
        for start in range(0, len(self), size):
            index = np.arange(start, min(start + size, len(self)))
            yield index, self.dense(np.resize(index, size))


def unit_documents(name: str, value: Any, n_words: int | None = None) -> UnitDocuments:
    """Read documents from a matrix whose rows have the length 1, and check them."""
    try:
        matrix = sparse.csr_array(value).astype(np.float32)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be a sparse or dense matrix (documents, words), such as tf_idf(counts), "
            f"not {checks.described(value)}"
        ) from None
    if matrix.ndim != 2 or not matrix.shape[0] or matrix.shape[1] < 2:
        raise ValueError(
            f"{name} must have documents, and 2 words or more, but its shape is {matrix.shape}"
        )
    if n_words is not None and matrix.shape[1] != n_words:
        raise ValueError(
            f"{name} must have {n_words} columns, as the topics, not {matrix.shape[1]}"
        )
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    wrong = np.flatnonzero(~(np.abs(lengths - 1) < NEAR))
    if len(wrong):
        raise ValueError(
            f"{name} must have rows of length 1, but the length of row {wrong[0]} is "
            f"{lengths[wrong[0]]:.3g}: counts of words become such rows by tf_idf(counts)"
        )
    return UnitDocuments(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        (matrix.data / np.repeat(lengths, np.diff(matrix.indptr))).astype(np.float32),
        matrix.shape[1],
    )
