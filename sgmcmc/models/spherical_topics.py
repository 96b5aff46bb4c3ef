"""What draws of spherical topics tell: words, proportions in documents, and log-perplexity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from .. import checks
from ..draws import Draws
from ..streams import stream
from ..vonmises import log_normaliser
from .admixture import Inner, draw_proportions
from .documents import unit_documents

BATCH = 100  # `proportions` and `log_perplexity` work on this many documents at a time
PIECE = 1 << 22  # numbers of proportions × documents that are looked at together
PRIOR, TOPICS = 110, 111  # purposes of streams of random numbers


@dataclass(frozen=True)
class SphericalTopicModel:
    """Draws of the topics of a spherical admixture model, as `fit_sam` returns them.

    Attributes
    ----------
    draws : Draws
        The draws of the topics, `draws["beta"]`, with shape (draws, topics, words). Topics have
        length 1. Words that a topic speaks against are negative.
    vocab : array of str, or None
        The words.
    kappa, alpha : float
        The concentration of documents, and the parameter of the Dirichlet prior of proportions.
    inner : tuple
        Trajectories before proportions are kept and while they are, and the steps of each.

    Examples
    --------
    >>> import numpy as np, sgmcmc
    >>> beta = np.array([[[0.8, 0.6, 0, 0], [0, 0, 0.6, 0.8]]], "float32")  # one draw, two topics
    >>> draws = sgmcmc.Draws({"beta": beta}, {}, {"sampler": "by hand"})
    >>> words = np.array(["apple", "pear", "saw", "nail"])
    >>> model = sgmcmc.SphericalTopicModel(draws, words, 1000.0, 1.0, (20, 20, 5))
    >>> model.top_words(2)
    [['apple', 'pear'], ['nail', 'saw']]
    >>> model.proportions([[0.8, 0.6, 0, 0], [0, 0, 0.6, 0.8]]).astype(float).round(1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    draws: Draws
    vocab: np.ndarray | None
    kappa: float
    alpha: float
    inner: tuple[int, int, int]

    def __repr__(self) -> str:
        count, topics, words = self.draws["beta"].shape
        name = self.draws.settings["sampler"]
        return f"SphericalTopicModel({topics} topics of {words} words, {count} draws of {name})"

    def top_words(self, n: int = 10) -> list[list]:
        """Return the words with the largest coordinates in each topic, averaged over draws.

        Parameters
        ----------
        n : int
            How many words of each topic.

        Returns
        -------
        list of lists
            Words of the vocabulary, or their numbers if there is no vocabulary.
        """
        mean = self.draws["beta"].mean(axis=0)
        best = np.argsort(-mean, axis=1, kind="stable")[:, : checks.whole("n", n)]
        return (best if self.vocab is None else self.vocab[best]).tolist()

    def proportions(self, documents: Any, seed: int = 0) -> np.ndarray:
        """Return the expected proportions of topics in documents, averaged over draws.

        Parameters
        ----------
        documents : sparse or dense matrix
            Documents as in `fit_sam`. They may be new.
        seed : int
            Fixes the random numbers.

        Returns
        -------
        array of (documents, topics)
        """
        given = unit_documents("documents", documents, self.draws["beta"].shape[-1])
        size = min(BATCH, len(given))
        expect = expected_proportions(self.kappa, self.alpha, Inner(*self.inner))
        keys = stream(checks.seed(seed), TOPICS).bit_generator
        found = []
        for index, rows in given.batches(size):
            total = np.zeros((size, self.draws["beta"].shape[1]))
            for beta in self.draws["beta"]:
                key = tf.constant(keys.random_raw(1).view(np.int32))
                total += expect(tf.constant(beta), tf.constant(rows), key).numpy()
            found.append(total[: len(index)] / len(self.draws["beta"]))
        return np.concatenate(found).astype(np.float32)

    def log_perplexity(self, documents: Any, n_samples: int = 1000, seed: int = 0) -> float:
        """Return minus the mean log density of documents: lower is better.

        The density of a document is averaged over `n_samples` proportions from their Dirichlet
        prior, and over the draws of the topics: −(1/D) Σ log[(1/M) Σₘ p(v | βₘ)]. For large κ few
        of the proportions matter to the average, so that values of different `n_samples` differ:
        compare models by the same number. Densities are with respect to the area of the sphere. In
        many dimensions they are far above 1, and the result is far below 0.

        Parameters
        ----------
        documents : sparse or dense matrix
            Documents that were not used to fit, as in `fit_sam`.
        n_samples : int
            The number of proportions from the prior.
        seed : int
            Fixes the random numbers.

        Returns
        -------
        float
        """
        return float(self.log_perplexities(documents, n_samples, seed)[-1])

    def log_perplexities(self, documents: Any, n_samples: int = 1000, seed: int = 0) -> np.ndarray:
        """Return the log-perplexity after each draw, with densities averaged over draws so far.

        Parameters
        ----------
        documents, n_samples, seed
            As in `log_perplexity`.

        Returns
        -------
        array of (draws,)
        """
        betas = self.draws["beta"]
        given = unit_documents("documents", documents, betas.shape[-1])
        rng = stream(checks.seed(seed), PRIOR)
        shape = checks.whole("n_samples", n_samples), betas.shape[1]
        theta = rng.dirichlet(np.full(shape[1], self.alpha), shape[0]).astype(np.float32)
        size = max(1, min(len(given), BATCH, PIECE // shape[0]))
        density = log_densities(self.kappa)
        total = np.zeros(len(betas))
        for index, rows in given.batches(size):
            rows, so_far = tf.constant(rows), np.full(len(index), -np.inf)
            for m, beta in enumerate(betas):
                each = density(tf.constant(beta), rows, tf.constant(theta)).numpy()[: len(index)]
                so_far = np.logaddexp(so_far, each)
                total[m] += np.sum(so_far - np.log(m + 1))
        kappa = tf.constant(self.kappa, tf.float64)
        return -total / len(given) - float(log_normaliser(betas.shape[-1], kappa))


@lru_cache
def expected_proportions(kappa: float, alpha: float, inner: Inner) -> Callable[..., tf.Tensor]:
    """Compile a function that returns the expected proportions of topics in some documents."""

    @tf.function(jit_compile=True, autograph=False)
    def expect(beta: tf.Tensor, v: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        a, G = tf.matmul(v, beta, transpose_b=True), tf.matmul(beta, beta, transpose_b=True)
        return tf.reduce_mean(draw_proportions(a, G, kappa, alpha, key, inner)[0], axis=0)

    return expect


@lru_cache
def log_densities(kappa: float) -> Callable[..., tf.Tensor]:
    """Compile a function that returns κvᵀv̄ − κ of documents, averaged over proportions."""

    @tf.function(jit_compile=True, autograph=False)
    def log_density(beta: tf.Tensor, v: tf.Tensor, theta: tf.Tensor) -> tf.Tensor:
        a, G = tf.matmul(v, beta, transpose_b=True), tf.matmul(beta, beta, transpose_b=True)
        square = tf.reduce_sum(theta * tf.matmul(theta, G), axis=-1)
        cosine = tf.matmul(a, theta, transpose_b=True) * tf.math.rsqrt(square)
        count = tf.math.log(tf.cast(theta.shape[0], a.dtype))
        return tf.reduce_logsumexp(kappa * (cosine - 1), axis=-1) - count

    return log_density
