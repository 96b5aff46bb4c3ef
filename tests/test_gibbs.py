"""Expected topics of documents, compared with sums over all assignments of topics to tokens.

Copies of a document are independent replications. Each copy has its own words in the vocabulary if
the counts of words are compared. False alarms and power are those of `ztest`.
"""

import functools
import itertools
import math

import numpy as np
import pytest
import tensorflow as tf

from sgmcmc.models import gibbs

from . import slow
from .ztest import assert_mean, assert_rejected

PHI = np.array([[0.5, 0.2, 0.2, 0.1], [0.1, 0.5, 0.1, 0.3], [0.1, 0.1, 0.3, 0.5]], np.float32)
ALPHA = np.array([0.9, 0.6, 1.2], np.float32)
K, W, COPIES = 3, 4, 8000
DOCUMENT = np.array([2, 1, 0, 2])  # how often each word occurs
SEVERAL_PASSES = gibbs.Room(1000, 1000)


def exact(counts, alpha=ALPHA, phi=PHI):
    """Return E n_kw given the words, from a sum with the proportions π integrated out."""
    tokens, expected, total = np.repeat(np.arange(W), counts), np.zeros((K, W)), 0
    for z in itertools.product(range(K), repeat=len(tokens)):
        n = np.bincount(z, minlength=K)
        weight = math.prod(float(phi[k, w]) for k, w in zip(z, tokens))
        weight *= math.prod(math.gamma(a + m) / math.gamma(a) for a, m in zip(alpha, n))
        np.add.at(expected, (z, tokens), weight)
        total += weight
    return expected / total


@functools.cache
def program(room, sweeps):
    """Compiled once for each room and number of sweeps."""
    return tf.function(by_hand(room, sweeps), jit_compile=True, autograph=False)


def in_graph(room, sweeps):
    return tf.function(by_hand(room, sweeps), autograph=False)


def by_hand(room, sweeps):
    """Without any compilation, for short runs."""
    return lambda *given: gibbs.expected_counts(*given, room, *sweeps)


def run(words, counts, phi, room, alpha=0.1, seed=1, sweeps=(20, 20), compiled=program):
    """E n_kw and E n_dk."""
    alpha = np.broadcast_to(np.float32(alpha), len(phi))
    given = phi, np.int32(words), np.int32(counts), alpha, np.int32([seed, 7])
    return [x.numpy() for x in compiled(room, sweeps)(*map(tf.constant, given))]


def replicated(counts=DOCUMENT, room=SEVERAL_PASSES, **options):
    """E n_kw (COPIES, K, W) and E n_dk (COPIES, K) of independent copies of a document."""
    words = np.arange(COPIES * W).reshape(COPIES, W)
    options = {"alpha": ALPHA, **options}
    counts = np.tile(counts, (COPIES, 1))
    by_word, by_document = run(words, counts, np.tile(PHI, COPIES), room, **options)
    return by_word.reshape(K, COPIES, W).transpose(1, 0, 2), by_document


@pytest.mark.parametrize(
    ("counts", "compiled"),
    [(DOCUMENT, program), (np.array([1, 4, 1, 2]), program), slow(DOCUMENT, in_graph)],
    ids=["xla", "xla, longer", "graph"],
)
def test_counts_have_the_exact_expectation(counts, compiled):
    expected = exact(counts)
    by_word, by_document = replicated(counts, compiled=compiled)
    for k in range(K):
        assert_mean(by_document[:, k], expected[k].sum(), 0.04)
        for w in counts.nonzero()[0]:
            assert_mean(by_word[:, k, w], expected[k, w], 0.06)


def test_control_another_alpha():
    _, by_document = replicated(alpha=np.ones(3))
    assert_rejected(by_document[:, 0], exact(DOCUMENT)[0].sum())


def test_control_words_that_occur_twice_taken_once():
    by_word, _ = replicated(np.minimum(DOCUMENT, 1))
    assert_rejected(2 * by_word[:, 0, 0], exact(DOCUMENT)[0, 0])


def test_control_inversion_off_by_one(monkeypatch):
    right = gibbs.drawn
    monkeypatch.setattr(gibbs, "drawn", lambda sums, u: tf.minimum(right(sums, u) + 1, K - 1))
    _, by_document = replicated(sweeps=(3, 3), compiled=by_hand)
    assert_rejected(by_document[:, 0], exact(DOCUMENT)[0].sum())


def test_bias_goes_with_burn_in(monkeypatch):
    monkeypatch.setattr(gibbs, "START", 0)
    first = exact(DOCUMENT)[0].sum()
    biased, better = (
        replicated(sweeps=(burn_in, 1), compiled=by_hand)[1][:, 0] for burn_in in (0, 8)
    )
    assert_rejected(biased, first)
    assert_mean(better, first, 0.1)


def test_mean_proportions_are_exact_for_one_token():
    shares = ALPHA * PHI[:, 1] / (ALPHA @ PHI[:, 1])  # of its topics
    exactly = (ALPHA + shares) / (ALPHA.sum() + 1)
    _, by_document = replicated(np.array([0, 1, 0, 0]))
    for k, share in enumerate(gibbs.mean_proportions(by_document, ALPHA).numpy().T):
        assert_mean(share, exactly[k], 0.04)


@pytest.fixture
def corpus():
    rng = np.random.default_rng(3)
    words = np.array([rng.permutation(50)[:20] for _ in range(20)])
    counts = rng.poisson(rng.choice([0, 0.3, 2], (20, 20)))  # zeros anywhere
    counts[[0, 7, 19]] = 0
    return words, counts, rng.dirichlet(np.ones(50), 5).astype(np.float32)


@pytest.mark.parametrize("room", [(20, 100), (20, 9), (3, 100), (1, 5)])
def test_each_token_is_counted_once(corpus, room):
    words, counts, phi = corpus
    by_word, by_document = run(
        words, counts, phi, gibbs.Room(*room), sweeps=(1, 2), compiled=by_hand
    )
    of_word = np.bincount(words.reshape(-1), counts.reshape(-1), 50)
    np.testing.assert_allclose(by_word.sum(axis=0), of_word, rtol=1e-4)
    np.testing.assert_allclose(by_document.sum(axis=1), counts.sum(axis=1), rtol=1e-4)


def test_a_document_without_room_makes_the_answer_nan(corpus):
    words, counts, phi = corpus
    chunks = -(-counts.sum(axis=1) // gibbs.CHUNK)
    by_word, _ = run(
        words, counts, phi, gibbs.Room(20, int(chunks.max()) - 1), sweeps=(1, 1), compiled=by_hand
    )
    assert np.isnan(by_word).any()


def test_probabilities_that_are_zero_or_nearly():
    phi = np.zeros((3, 5), np.float32)
    phi[0, 0], phi[1, 1], phi[:2, 2] = 1e-37, 1e-37, [1e-37, 3e-37]  # words 3 and 4: none
    words, counts = np.array([[0, 1, 2, 3]] * 30), np.array([[1, 1, 2, 1]] * 30)
    by_word, _ = run(words, counts, phi, gibbs.Room(30, 30), 0.01, sweeps=(5, 5), compiled=by_hand)
    np.testing.assert_allclose(by_word.sum(axis=0), [30, 30, 60, 30, 0], rtol=1e-4)
    np.testing.assert_allclose(by_word[[0, 1, 2], [0, 1, 2]], [30, 30, 0], rtol=1e-4)


def test_a_factor_for_each_word_makes_no_difference(corpus):
    words, counts, phi = corpus
    factors = 2.0 ** np.random.default_rng(1).integers(-20, 20, 50).astype(np.float32)
    room = gibbs.room(counts.sum(axis=1), 20)
    (one, _), (other, _) = (
        run(words, counts, p, room, sweeps=(2, 2), compiled=by_hand) for p in (phi, phi * factors)
    )
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_room_is_enough_for_most_minibatches():
    rng = np.random.default_rng(1)
    lengths = rng.geometric(1 / 100, 2000)
    chunks = -(-lengths // gibbs.CHUNK)
    room = gibbs.room(lengths, 20)
    sizes = np.array([rng.choice(chunks, 20, False).sum() for _ in range(2000)])
    assert room.documents == 20
    assert 0.94 < (sizes <= room.chunks).mean() < 0.995
    assert gibbs.room(lengths[:20], 20) == (20, chunks[:20].sum() | 1)
    assert gibbs.room(lengths, 2000).chunks * gibbs.CHUNK < 2 * gibbs.TOKENS
