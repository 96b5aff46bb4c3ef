"""Latent Dirichlet allocation: the topics of a corpus (Blei, Ng and Jordan, 2003)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from .. import checks
from ..api import sample_setup
from ..draws import Draws
from ..dynamics.scir import SCIR
from ..dynamics.scircv import SCIRCV
from ..dynamics.sgrld import SGRLD
from ..estimators.counts import CountedTwice
from ..estimators.gradient import Gradient
from ..running import run
from ..spaces.counts import Simplex
from ..stepsize import decay
from ..streams import stream
from .corpus import Corpus, corpus
from .gibbs import Room, expected_counts, mean_proportions, room

SAMPLERS = {  # dynamics, estimator, and default step size
    "scir": (SCIR, Gradient, decay(0.5, 10, 0.5)),
    "scircv": (SCIRCV, CountedTwice, decay(0.5, 10, 0.5)),
    "sgrld": (SGRLD, Gradient, decay(0.01, 1000, 0.6)),
}
BATCH = 50  # `topics` and `perplexity` work on this many documents at a time
STARTS, SPLITS, TOPICS = range(100, 103)  # purposes of streams of random numbers
FEW = 10  # each topic starts from the words of this many documents


@dataclass(frozen=True)
class TopicModel:
    """Draws of the topics from their posterior, as `fit_lda` returns them.

    Attributes
    ----------
    draws : Draws
        The draws of the topics, `draws["phi"]`, with shape (draws, topics, words).
    vocab : array of str, or None
        The words.
    alpha : float
        The parameter of the Dirichlet prior of the proportions of topics in a document.
    n_burn_in, n_samples : int
        Sweeps of Gibbs sampling over the topics of a document, before counts are averaged and while
        they are.

    Examples
    --------
    >>> import numpy as np, sgmcmc
    >>> phi = np.array([[[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]], "float32")  # one draw, two topics
    >>> draws = sgmcmc.Draws({"phi": phi}, {}, {"sampler": "by hand"})
    >>> model = sgmcmc.TopicModel(draws, np.array(["apple", "pear", "saw", "nail"]), 0.1, 20, 40)
    >>> model.top_words(2)
    [['apple', 'pear'], ['saw', 'nail']]
    >>> model.topics([[6, 4, 0, 0], [1, 0, 0, 9]]).astype(float).round(1).tolist()
    [[1.0, 0.0], [0.1, 0.9]]
    """

    draws: Draws
    vocab: np.ndarray | None
    alpha: float
    n_burn_in: int
    n_samples: int

    def __repr__(self) -> str:
        count, topics, words = self.draws["phi"].shape
        name = self.draws.settings["sampler"]
        return f"TopicModel({topics} topics of {words} words, {count} draws of {name})"

    def top_words(self, n: int = 10) -> list[list]:
        """Return the most probable words of each topic, averaged over draws.

        Parameters
        ----------
        n : int
            How many words of each topic.

        Returns
        -------
        list of lists
            Words of the vocabulary, or their numbers if there is no vocabulary.
        """
        best = np.argsort(-self.draws["phi"].mean(axis=0), axis=1, kind="stable")[
            :, : checks.whole("n", n)
        ]
        return (best if self.vocab is None else self.vocab[best]).tolist()

    def topics(self, counts: Any, seed: int = 0) -> np.ndarray:
        """Return the expected proportions of topics in documents, averaged over draws.

        Parameters
        ----------
        counts : sparse or dense matrix, or path
            The documents, as in `fit_lda`. They may be new.
        seed : int
            Fixes the random numbers.

        Returns
        -------
        array of (documents, topics)
        """
        documents = corpus("counts", counts, self.draws["phi"].shape[-1])
        return np.concatenate([pi.mean(axis=0) for _, pi in self.proportions(documents, seed)])

    def perplexity(self, counts: Any, share: float = 0.5, seed: int = 0) -> float:
        """Document-completion perplexity: lower is better.

        The topics of a document are found from a random part of its tokens, by Gibbs sampling. They
        predict the remaining tokens w. The perplexity is exp(−mean log p(w)), where the
        probabilities p are averaged over draws.

        Parameters
        ----------
        counts : sparse or dense matrix, or path
            Documents that were not used to fit, as in `fit_lda`. Those of one token are left out.
        share : float
            The part of each document's tokens from which its topics are found.
        seed : int
            Fixes the random numbers, by which this part is chosen, too.

        Returns
        -------
        float
        """
        return float(self.perplexities(counts, share, seed)[-1])

    def perplexities(self, counts: Any, share: float = 0.5, seed: int = 0) -> np.ndarray:
        """Return the perplexity after each draw, with probabilities averaged over draws so far.

        Parameters
        ----------
        counts, share, seed
            As in `perplexity`.

        Returns
        -------
        array of (draws,)
        """
        checks.number("share", share, above=0, at_most=1)
        phis = self.draws["phi"]
        documents = corpus("counts", counts, phis.shape[-1])
        documents = documents.some(np.flatnonzero(documents.lengths > 1))
        if not len(documents):
            raise ValueError("counts must have documents of two tokens or more, but has none")
        seen, rest = documents.split(share, stream(checks.seed(seed), SPLITS))
        if not rest.counts.any():
            raise ValueError(f"share = {share} leaves no token to predict")
        log_lik = np.zeros(len(phis))
        for index, pi in self.proportions(seen, seed):
            some, total = rest.some(index), 0.0
            document = np.repeat(np.arange(len(index)), np.diff(some.starts))
            for i, phi in enumerate(phis):
                total = total + np.einsum("ek,ke->e", pi[i, document], phi[:, some.words])
                log = np.log(np.maximum(total / (i + 1), np.finfo(np.float32).tiny))
                log_lik[i] += some.counts @ log
        return np.exp(-log_lik / rest.counts.sum())

    def proportions(self, documents: Corpus, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (document numbers, E π) batch by batch; E π is (draws, documents, topics)."""
        n = min(BATCH, len(documents))
        sweeps = self.n_burn_in, self.n_samples
        expect = topic_proportions(room(documents.lengths, n), self.alpha, *sweeps)
        rows = documents.rows()
        keys = stream(checks.seed(seed), TOPICS).bit_generator
        for start in range(0, len(documents), n):
            index = np.arange(start, start + n) % len(documents)  # the last batch is filled up
            some = [tf.constant(rows[name][index]) for name in ("words", "counts")]
            found = []
            for phi in self.draws["phi"]:
                key = keys.random_raw(1).view(np.int32)
                found.append(expect(tf.constant(phi), *some, tf.constant(key)).numpy())
            left = len(documents) - start
            yield index[:left], np.stack(found)[:, :left]


@lru_cache
def topic_proportions(
    space: Room, alpha: float, n_burn_in: int, n_samples: int
) -> Callable[..., tf.Tensor]:
    """Compile a function that returns the expected proportions of topics in some documents."""

    @tf.function(jit_compile=True, autograph=False)
    def expect(phi: tf.Tensor, words: tf.Tensor, counts: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
        sweeps = n_burn_in, n_samples
        found = expected_counts(phi, words, counts, alpha, key, space, *sweeps)
        return mean_proportions(found.documents, alpha)

    return expect


def fit_lda(
    counts: Any,
    vocab: Sequence[str] | None = None,
    n_topics: int = 20,
    sampler: str = "scir",
    *,
    stepsize: float | Callable[[int], float] | None = None,
    alpha: float = 0.1,
    beta: float = 0.1,
    minibatch_size: int | float = 50,
    n_iters: int = 500,
    burn_in: int = 500,
    thin: int = 10,
    n_burn_in: int = 20,
    n_samples: int = 40,
    start: np.ndarray | None = None,
    refresh_every: int | None = None,
    refresh_size: int | None = None,
    seed: int | None = None,
    verbose: bool = True,
) -> TopicModel:
    """Draw the topics of a corpus by latent Dirichlet allocation.

    A topic is a distribution φ_k ~ Dirichlet(β) over words. A document has proportions of topics
    π ~ Dirichlet(α). Each of its tokens has a topic z ~ π and a word w ~ φ_z. In each iteration,
    the topics of the tokens in a minibatch of n of the D documents are drawn by Gibbs sampling,
    given φ. Their expected counts give the parameters â = β + (D/n) Σ E n_kw of the Dirichlet
    posterior towards which φ moves.

    Parameters
    ----------
    counts : sparse or dense matrix, or path
        How often each word (column) occurs in each document (row): a matrix of SciPy or NumPy, or a
        file in the format of UCI's bags of words or of LDA-C, gzipped or not. Each document must
        have words: keep those by `counts[np.ravel(counts.sum(axis=1)) > 0]`.
    vocab : sequence of str, optional
        The words.
    n_topics : int
        The number of topics.
    sampler : {"scir", "scircv", "sgrld"}
        The sampler of the topics: see the functions of these names. "scircv" counts each minibatch
        twice, with the chain's topics and with those of the last renewal, because only then are its
        control variates right for expected counts. So its iterations take twice as long as those of
        "scir". It removes much of the noise of minibatches from the posterior widths of frequent
        words, but does not predict better than "scir" in the same time.
    stepsize : float or function, optional
        The step size or a schedule. By default decay(0.5, 10, 0.5), for "sgrld" decay(0.01, 1000,
        0.6).
    alpha : float
        Parameter of the Dirichlet prior of the topics in a document. If it is small, a document has
        few topics.
    beta : float
        Parameter of the Dirichlet prior of the words in a topic. The samplers call it `alpha`.
    minibatch_size : int or float
        Documents in a minibatch: a count, or a proportion of all documents if below 1.
    n_iters : int
        Iterations after `burn_in`.
    burn_in : int
        Iterations at the start, whose draws are not kept: the topics form in them.
    thin : int
        Keep every `thin`-th draw of the topics. Each has n_topics × words numbers.
    n_burn_in : int
        Sweeps of Gibbs sampling over a minibatch in each iteration, before counts are averaged.
    n_samples : int
        Sweeps over which counts are averaged. The papers use 200 sweeps. The defaults are lower,
        which is enough: the noise that remains is small beside that of minibatches.
    start : array of (n_topics, words), optional
        Starting values of the topics. By default each is like a few random documents.
    refresh_every : int, optional
        For "scircv": the number of iterations after which the parameters of the posterior are
        estimated again. By default 100.
    refresh_size : int, optional
        For "scircv": the number of documents from which they are estimated. By default as many as
        are read between two estimates, or, if that is less, as many whole minibatches as the corpus
        has. Control variates are used while the step size is above about
        2 minibatch_size / refresh_size.
    seed : int, optional
        Fixes every random number: same seed, same draws.
    verbose : bool
        Show progress, on the standard error stream.

    Returns
    -------
    TopicModel
        The draws, with methods for top words, the topics of documents, and perplexities.

    Examples
    --------
    >>> import numpy as np, sgmcmc
    >>> rng = np.random.default_rng(1)
    >>> fruit = rng.multinomial(40, [0.4, 0.4, 0.1, 0.1, 0, 0], 50)
    >>> tools = rng.multinomial(40, [0, 0, 0.1, 0.1, 0.4, 0.4], 50)
    >>> words = ["apple", "pear", "the", "a", "saw", "hammer"]
    >>> model = sgmcmc.fit_lda(
    ...     np.concatenate([fruit, tools]), words, 2, minibatch_size=10, n_iters=200, burn_in=200,
    ...     seed=1, verbose=False,
    ... )
    >>> sorted(sorted(top) for top in model.top_words(2))
    [['apple', 'pear'], ['hammer', 'saw']]
    """
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler must be one of {list(SAMPLERS)}, not {sampler!r}")
    dynamics, estimator, step = SAMPLERS[sampler]
    n_topics, seed = checks.whole("n_topics", n_topics), checks.seed(seed)
    if n_topics < 2:
        raise ValueError("n_topics must be at least 2, not 1")
    n_burn_in = checks.whole("n_burn_in", n_burn_in, at_least=0)
    n_samples = checks.whole("n_samples", n_samples)
    alpha = checks.number("alpha", alpha, above=0)
    words = None if vocab is None else vocabulary(vocab)
    documents = corpus("counts", counts, None if words is None else len(words))
    n_iters, burn_in, thin = checks.run_lengths(n_iters, burn_in, thin)
    n = checks.minibatch_size(minibatch_size, len(documents))
    shape = n_topics, documents.n_words
    if start is not None:
        start = checks.like_params("start", start, np.empty(shape, np.float32), ())
    else:
        start = some_documents(documents, n_topics, stream(seed, STARTS))
    beta = checks.number("beta", beta, above=0)
    start = Simplex(beta).check("start", start)
    if sampler == "scircv":
        every = 100 if refresh_every is None else refresh_every
        every = checks.whole("refresh_every", every)
        size = min(every, len(documents) // n) * n if refresh_size is None else refresh_size
        renewal = {"refresh_every": every, "refresh_size": size}
    elif refresh_every is not None or refresh_size is not None:
        raise ValueError('refresh_every and refresh_size are for sampler="scircv" alone')
    else:
        renewal = {}
    space = room(documents.lengths, n)

    def expected(params: dict, data: dict, key: tf.Tensor) -> dict:
        phi, sweeps = params["phi"], (n_burn_in, n_samples)
        found = expected_counts(phi, data["words"], data["counts"], alpha, key, space, *sweeps)
        return {"phi": found.words}

    made = sample_setup(
        dynamics(alpha=beta, counts=expected),
        None,
        documents.rows(),
        {"phi": start},
        step if stepsize is None else stepsize,
        minibatch_size=n,
        gradient=estimator(**renewal),
        seed=seed,
        verbose=verbose,
    )
    try:
        draws = run(made, n_iters, burn_in=burn_in, thin=thin, verbose=verbose)
    finally:
        made.feeder.close()
    draws.settings["sampler"] = sampler
    return TopicModel(draws, words, alpha, n_burn_in, n_samples)


def vocabulary(vocab: Sequence[str]) -> np.ndarray:
    """Check the words, and return them as an array."""
    words = np.asarray(vocab)
    if words.dtype == object and all(isinstance(word, str) for word in words.flat):
        words = words.astype(str)
    if words.ndim != 1 or words.dtype.kind != "U":
        raise TypeError(f"vocab must be a list of words, not {checks.described(vocab)}")
    return words


def some_documents(documents: Corpus, n_topics: int, rng: np.random.Generator) -> np.ndarray:
    """Make topics to start from: each is like a few random documents, mixed with all of them."""
    W = documents.n_words
    every = np.bincount(documents.words, documents.counts, W)
    start = np.empty((n_topics, W), np.float32)
    for topic in start:
        few = documents.some(rng.integers(0, len(documents), FEW))
        own = np.bincount(few.words, few.counts, W)
        topic[:] = own / own.sum() + (every + 1) / (every.sum() + W)
    return start / start.sum(axis=1, keepdims=True)
