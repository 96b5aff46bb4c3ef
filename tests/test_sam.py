"""The spherical admixture model: its parts against quadrature and NumPy, and topics that are known.

False alarms and power are those of `ztest`.
"""

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse, stats
from scipy.integrate import quad
from scipy.special import logsumexp

import sgmcmc
from sgmcmc.models import admixture, sam
from sgmcmc.models.admixture import Admixture, Inner, draw_proportions
from sgmcmc.models.documents import unit_documents
from sgmcmc.vonmises import log_normaliser

from .ztest import assert_mean, assert_rejected

KAPPA, ALPHA, V = 30.0, 1.5, 4
BETA = np.array([[0.8, 0.6, 0, 0], [0.2, -0.4, 0.4, 0.8]], np.float32)
DOCUMENT = np.array([0.6, 0.0, 0.48, 0.64], np.float32)


def cosine(t, beta=BETA, v=DOCUMENT):
    u = t * beta[0] + (1 - t) * beta[1]
    return u @ v / np.linalg.norm(u)


def density(t, beta=BETA, alpha=ALPHA):
    """That of the first of two proportions, given the document, without its constant."""
    return np.exp(KAPPA * (cosine(t, beta) - 1)) * (t * (1 - t)) ** (alpha - 1)


def exact(of, beta=BETA, alpha=ALPHA):
    total = quad(density, 0, 1, (beta, alpha))[0]
    return quad(lambda t: of(t) * density(t, beta, alpha), 0, 1)[0] / total


def drawn(copies, inner, seed, alpha=ALPHA):
    a = np.tile(BETA @ DOCUMENT, (copies, 1)).astype(np.float32)
    key = tf.constant([seed % 2**31, 1], tf.int32)
    program = tf.function(draw_proportions, jit_compile=True, autograph=False)
    theta, taken = program(tf.constant(a), tf.constant(BETA @ BETA.T), KAPPA, alpha, key, inner)
    return theta.numpy().astype(float), float(taken)


def test_proportions_given_topics(seed):
    """Mean and square of the first proportion, of many copies of one document."""
    theta, taken = drawn(512, Inner(50, 200), seed)
    assert theta.sum(axis=2) == pytest.approx(1, abs=1e-5)
    assert 0.5 < taken < 0.95
    first = theta[..., 0].mean(axis=0)
    assert_mean(first, exact(lambda t: t), detect=0.02)
    assert_mean((theta[..., 0] ** 2).mean(axis=0), exact(lambda t: t**2), detect=0.03)
    assert_rejected(first, exact(lambda t: t, alpha=ALPHA - 0.5))  # without the map's Jacobian


def test_the_gradient_by_topics(seed):
    """That of log ∫ p(v, θ | β) dθ, on which its average over keys lies."""
    estimator = Admixture(KAPPA, ALPHA, Inner(20, 20))
    rows = {"words": tf.range(V)[None], "weights": tf.constant(DOCUMENT[None])}
    program = tf.function(estimator.on_documents, jit_compile=True, autograph=False)
    found = [
        program(tf.constant(BETA), rows, tf.constant([seed % 2**31, i], tf.int32))[1].numpy()
        for i in range(500)
    ]

    def log_likelihood(beta):
        return np.log(quad(density, 0, 1, (beta, ALPHA))[0])

    slope = np.zeros_like(BETA, float)
    for k, w in np.ndindex(slope.shape):
        ends = []
        for sign in (1, -1):
            beta = BETA.astype(float)
            beta[k, w] += sign * 1e-4
            ends.append(log_likelihood(beta))
        slope[k, w] = (ends[0] - ends[1]) / 2e-4
    along = np.einsum("ikw,kw->i", np.array(found, float), slope)
    assert_mean(along, np.sum(slope**2), detect=0.1)
    assert_rejected(along, 0.9 * np.sum(slope**2))
    across = np.einsum("ikw,kw->i", np.array(found, float), np.roll(slope, 1, axis=1))
    size = np.sum(slope**2)
    assert_mean(across + size, np.sum(slope * np.roll(slope, 1, axis=1)) + size, detect=0.1)


def test_tf_idf(seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.7, (40, 12))
    counts[:, 0] = 1  # in all documents
    counts = counts[(counts[:, 1:] > 0).sum(axis=1) > 1]
    weights = counts * np.log(np.maximum(len(counts) / (1 + (counts > 0).sum(axis=0)), 1))
    found = sgmcmc.tf_idf(counts)
    wanted = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    np.testing.assert_allclose(found.toarray(), wanted, atol=1e-6)
    new = sgmcmc.tf_idf(counts[:5] * 2, reference=counts)
    np.testing.assert_allclose(new.toarray(), wanted[:5], atol=1e-6)


def test_log_perplexity_is_that_of_the_paper(seed):
    """−(1/D) Σ log (1/M) Σₘ (1/n) Σ vMF(v | v̄(βₘ, θ)), with θ from the prior."""
    rng = np.random.default_rng(seed)
    betas = rng.normal(size=(3, 2, V)).astype(np.float32)
    betas /= np.linalg.norm(betas, axis=2, keepdims=True)
    draws = sgmcmc.Draws({"beta": betas}, {}, {"sampler": "by hand"})
    model = sgmcmc.SphericalTopicModel(draws, None, KAPPA, ALPHA, (5, 5, 5))
    documents = rng.normal(size=(7, V))
    documents /= np.linalg.norm(documents, axis=1, keepdims=True)
    log_c = float(log_normaliser(V, tf.constant(KAPPA, tf.float64))) - KAPPA
    each = []
    prior = stats.beta(ALPHA, ALPHA)
    for beta in betas.astype(float):
        of_v = [
            quad(lambda t, v=v, b=beta: np.exp(KAPPA * cosine(t, b, v)) * prior.pdf(t), 0, 1)[0]
            for v in documents
        ]
        each.append(np.log(of_v) + log_c)
    log_mean = logsumexp(each, axis=0) - np.log(3)
    found = model.log_perplexities(documents, 200_000, seed=seed)
    assert found[-1] == pytest.approx(-log_mean.mean(), abs=0.05)
    assert found[0] == pytest.approx(-np.mean(each[0]), abs=0.05)
    assert model.log_perplexity(sparse.csr_array(documents), 200_000, seed) == found[-1]


def planted(seed, D=300, W=60):
    """Documents of four topics, each of which has words of its own."""
    rng = np.random.default_rng(seed)
    phi = np.full((4, W), 0.1)
    for k, topic in enumerate(phi):
        topic[10 * k : 10 * k + 10] = 3
    phi /= phi.sum(axis=1, keepdims=True)
    share = rng.dirichlet(np.full(4, 0.3), D)
    return np.array([rng.multinomial(80, p @ phi) for p in share]), share


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["gsgnht", "sggmc"])
def test_topics_that_are_known(sampler, seed):
    counts, share = planted(seed)
    documents = sgmcmc.tf_idf(counts)
    given = {"alpha": 0.5, "n_iters": 200, "burn_in": 1500, "minibatch_size": 50, "seed": seed}
    model = sgmcmc.fit_sam(documents[:250], None, 4, sampler, verbose=False, **given)
    assert np.abs(np.linalg.norm(model.draws["beta"], axis=2) - 1).max() < 1e-5
    groups = [np.bincount(np.array(top) // 10, minlength=6) for top in model.top_words(8)]
    assert sorted(np.argmax(groups, axis=1)) == [0, 1, 2, 3]
    assert np.max(groups, axis=1).min() >= 7
    order = np.argmax(groups, axis=1)
    found = model.proportions(documents[250:])
    assert np.corrcoef(found.ravel(), share[250:, order].ravel())[0, 1] > 0.8
    at_start = model.log_perplexities(documents[250:], 300)
    mixed = sgmcmc.SphericalTopicModel(
        sgmcmc.Draws({"beta": documents[:4].toarray()[None]}, {}, {"sampler": "none"}),
        *(None, model.kappa, model.alpha, model.inner),
    )
    assert at_start[-1] < mixed.log_perplexity(documents[250:], 300)
    assert "4 topics of 60 words" in repr(model)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"documents": np.eye(3) * 2}, "rows of length 1, but the length of row 0 is 2.*tf_idf"),
        ({"documents": np.zeros((0, 3))}, "must have documents"),
        ({"documents": "kos"}, "sparse or dense matrix"),
        ({"vocab": ["a", "b"]}, "must have 2 columns"),
        ({"sampler": "gmc"}, "sampler must be one of .'gsgnht', 'sggmc'."),
        ({"n_topics": 1}, "at least 2"),
        ({"kappa": -1}, "kappa must be a finite number above 0"),
        ({"start": np.zeros((2, 3))}, "start has no nearest point"),
        ({"n_samples": 0}, "n_samples must be a positive whole number"),
    ],
)
def test_bad_arguments(more, message):
    given = {"documents": np.eye(3), "n_topics": 2, "minibatch_size": 2, "verbose": False, **more}
    with pytest.raises((ValueError, TypeError), match=message):
        sgmcmc.fit_sam(**given)


def test_documents_without_weight():
    with pytest.raises(ValueError, match="document 0 has only words that are in nearly all"):
        sgmcmc.tf_idf([[1, 0], [1, 1]])


def test_sparse_and_dense_documents_are_the_same(seed):
    counts, _ = planted(seed, D=30)
    documents = sgmcmc.tf_idf(counts)
    one, other = (unit_documents("documents", x) for x in (documents, documents.toarray()))
    np.testing.assert_array_equal(one.dense(np.arange(30)), other.dense(np.arange(30)))
    rows = {k: tf.constant(x[np.arange(5)]) for k, x in one.rows().items()}
    whole = admixture.dense(rows["words"], rows["weights"], 60).numpy()
    np.testing.assert_array_equal(whole, one.dense(np.arange(5)))
    mean = sam.some_documents(one, 3, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(mean, axis=1), 1, rtol=1e-5)
