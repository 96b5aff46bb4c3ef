"""The spherical admixture model (Reisinger et al., 2010), by samplers on the sphere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from .. import checks
from ..api import sample_setup
from ..dynamics.gsgnht import GSGNHT
from ..dynamics.sggmc import SGGMC
from ..running import run
from ..spaces.manifolds import Sphere
from ..streams import stream
from ..vonmises import log_normaliser
from .admixture import Admixture, Inner, dense, fit, least_squares
from .documents import UnitDocuments, unit_documents
from .lda import vocabulary
from .spherical_topics import SphericalTopicModel

SAMPLERS = {  # dynamics, and the heat of a step that comes from minibatches, if ε is chosen
    "gsgnht": (GSGNHT, 0.2),
    "sggmc": (SGGMC, 0.05),
}
STARTS = 112  # the purpose of a stream of random numbers
FEW = 5  # each topic starts from this many documents
SOME = 64  # documents whose gradients tell the noise of minibatches


def fit_sam(
    documents: Any,
    vocab: Sequence[str] | None = None,
    n_topics: int = 20,
    sampler: str = "gsgnht",
    *,
    stepsize: float | Callable[[int], float] | None = None,
    momentum: float = 0.1,
    L: int = 1,
    alpha: float = 10.0,
    kappa: float | None = None,
    sigma: float | None = None,
    kappa_0: float | None = None,
    minibatch_size: int | float = 100,
    n_iters: int = 1000,
    burn_in: int = 4000,
    thin: int = 20,
    n_burn_in: int = 10,
    n_samples: int = 10,
    start: np.ndarray | None = None,
    seed: int | None = None,
    verbose: bool = True,
) -> SphericalTopicModel:
    """Draw the topics of documents on a sphere by the spherical admixture model.

    Documents v are vectors of length 1, such as `tf_idf` makes of counts, and so are topics β_k.
    There is a mean μ ~ vMF(m, κ₀), where m is the direction of the mean document; topics
    β_k ~ vMF(μ, σ); proportions θ ~ Dirichlet(α) of each document; and v ~ vMF(v̄, κ), with v̄ the
    direction of Σ θ_k β_k. vMF(μ, κ) is the von Mises-Fisher distribution. Unlike those of
    `fit_lda`, topics can speak against words, by negative coordinates. μ is integrated out. In each
    iteration, proportions of the documents in a minibatch are drawn given the topics, by geodesic
    Monte Carlo. Their average gives the gradient by which the topics move on their spheres.

    Reisinger, Waters, Silverthorn and Mooney (2010), Spherical topic models, ICML; Liu, Zhu and
    Song (2016), Stochastic gradient geodesic MCMC methods, NIPS, section 4.

    Parameters
    ----------
    documents : sparse or dense matrix
        Documents (rows) with coordinates by word (columns), whose rows have length 1.
    vocab : sequence of str, optional
        The words.
    n_topics : int
        The number of topics.
    sampler : {"gsgnht", "sggmc"}
        The sampler of the topics: see the functions of these names.
    stepsize : float or function, optional
        The step ε of the sampler, or a schedule. None: at the start, minibatches add ε²σ² = .2 (for
        "sggmc" .05) to the heat of a step, which is to be 1. σ² is the variance of their noise in a
        coordinate. It grows as topics form; ε²σ² should stay below 2.
    momentum : float
        As in `sggmc`: friction times ε.
    L : int
        Steps of the sampler in an iteration, each on its own minibatch.
    alpha : float
        Parameter of the Dirichlet prior of the topics in a document.
    kappa : float, optional
        Concentration of documents. By default 6 V for V words. The paper has 3e4 for V = 5,000.
    sigma : float, optional
        Concentration of the topics around their mean. By default 2 V.
    kappa_0 : float, optional
        Concentration of the mean of the topics around the mean document. By default 2 V.
    minibatch_size : int or float
        Documents in a minibatch: a count, or a proportion of all documents if below 1.
    n_iters : int
        Iterations after `burn_in`.
    burn_in : int
        Iterations at the start, whose draws are not kept: the topics form in them.
    thin : int
        Keep every `thin`-th draw of the topics. Each has n_topics × V numbers.
    n_burn_in : int
        Trajectories for the proportions of a document in each iteration, before any is kept.
    n_samples : int
        Trajectories whose proportions are kept, and averaged over.
    start : array of (n_topics, V), optional
        Starting values of the topics. By default each is like a few random documents.
    seed : int, optional
        Fixes every random number: same seed, same draws.
    verbose : bool
        Show progress, on the standard error stream.

    Returns
    -------
    SphericalTopicModel
        The draws, with methods for top words, the topics of documents, and log-perplexities.

    Examples
    --------
    >>> import numpy as np, sgmcmc
    >>> rng = np.random.default_rng(1)
    >>> fruit = rng.multinomial(40, [0.4, 0.4, 0.1, 0.1, 0, 0], 50)
    >>> tools = rng.multinomial(40, [0, 0, 0.1, 0.1, 0.4, 0.4], 50)
    >>> words = ["apple", "pear", "the", "a", "saw", "hammer"]
    >>> model = sgmcmc.fit_sam(
    ...     sgmcmc.tf_idf(np.concatenate([fruit, tools])), words, 2, alpha=1.0, minibatch_size=20,
    ...     n_iters=200, burn_in=500, seed=1, verbose=False,
    ... )
    >>> sorted(sorted(top) for top in model.top_words(2))
    [['apple', 'pear'], ['hammer', 'saw']]
    """
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler must be one of {list(SAMPLERS)}, not {sampler!r}")
    words = None if vocab is None else vocabulary(vocab)
    given = unit_documents("documents", documents, None if words is None else len(words))
    V, seed = given.n_words, checks.seed(seed)
    n_topics = checks.whole("n_topics", n_topics)
    if n_topics < 2:
        raise ValueError("n_topics must be at least 2, not 1")
    alpha = checks.number("alpha", alpha, above=0)
    kappa = 6.0 * V if kappa is None else checks.number("kappa", kappa, above=0)
    sigma = 2.0 * V if sigma is None else checks.number("sigma", sigma, above=0)
    kappa_0 = 2.0 * V if kappa_0 is None else checks.number("kappa_0", kappa_0, above=0)
    n_iters, burn_in, thin = checks.run_lengths(n_iters, burn_in, thin)
    n = checks.minibatch_size(minibatch_size, len(given))
    inner = Inner(
        checks.whole("n_burn_in", n_burn_in, at_least=0), checks.whole("n_samples", n_samples)
    )
    if start is not None:
        start = checks.like_params("start", start, np.empty((n_topics, V), np.float32), ())
    else:
        start = some_documents(given, n_topics, stream(seed, STARTS))
    start = Sphere().check("start", start)
    mean = given.mean()
    mean = (kappa_0 * mean / np.linalg.norm(mean)).astype(np.float32)

    def log_lik(params: dict, data: dict) -> tf.Tensor:
        """Of documents whose proportions have the best fit."""
        beta = params["beta"]
        v = dense(data["words"], data["weights"], V)
        a, G = tf.matmul(v, beta, transpose_b=True), tf.matmul(beta, beta, transpose_b=True)
        cosine, _ = fit(tf.stop_gradient(least_squares(a, G)), a, G)
        return kappa * tf.reduce_sum(cosine - 1)

    def log_prior(params: dict) -> tf.Tensor:
        """Of topics, with their mean direction integrated out."""
        length = tf.norm(mean + sigma * tf.reduce_sum(params["beta"], axis=0))
        return length - log_normaliser(V, length)

    estimator, (dynamics, heat) = Admixture(kappa, alpha, inner), SAMPLERS[sampler]
    if stepsize is None:
        stepsize = float(np.sqrt(heat / noise(estimator, given, start, n, stream(seed, STARTS, 1))))
    made = sample_setup(
        dynamics(manifold=Sphere(), momentum=momentum, L=L),
        log_lik,
        given.rows(),
        {"beta": start},
        stepsize,
        log_prior,
        minibatch_size=n,
        gradient=estimator,
        seed=seed,
        verbose=verbose,
    )
    try:
        draws = run(made, n_iters, burn_in=burn_in, thin=thin, verbose=verbose)
    finally:
        made.feeder.close()
    draws.settings["sampler"] = sampler
    return SphericalTopicModel(draws, words, kappa, alpha, inner)


def noise(
    estimator: Admixture,
    documents: UnitDocuments,
    beta: np.ndarray,
    n: int,
    rng: np.random.Generator,
) -> float:
    """Return the variance of a minibatch's gradient in a coordinate, from some documents."""
    N = len(documents)
    index = rng.choice(N, min(SOME, N), replace=False)
    gradient = tf.function(estimator.on_documents, jit_compile=True, autograph=False)
    rows, each = documents.rows(), []
    for d in index:
        one = {k: tf.constant(x[np.array([d])]) for k, x in rows.items()}
        key = tf.constant(rng.integers(0, 2**31, 2), tf.int32)
        each.append(Sphere().tangent(beta, gradient(tf.constant(beta), one, key)[1]).numpy())
    variance = np.var(each, axis=0, ddof=1 if len(each) > 1 else 0).mean()
    return max(N * max(N - n, 1) / n * float(variance), 1e-12)


def some_documents(documents: UnitDocuments, n_topics: int, rng: np.random.Generator) -> np.ndarray:
    """Make topics to start from: each is like a few random documents, mixed with all of them."""
    mean = documents.mean()
    start = np.empty((n_topics, documents.n_words), np.float32)
    for topic in start:
        own = documents.dense(rng.integers(0, len(documents), FEW)).mean(axis=0)
        topic[:] = own / np.linalg.norm(own) + mean / np.linalg.norm(mean)
    return start / np.linalg.norm(start, axis=1, keepdims=True)
