"""Topics of documents given the topics' words: Gibbs sampling in compiled code.

The model is that of latent Dirichlet allocation with its topics φ known: a document has topic
proportions π ~ Dirichlet(α), and each of its tokens a topic z ~ π and a word w ~ φ_z.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import random

CHUNK = 16  # tokens of one document that are neighbours in memory
TOKENS = 4096  # at most about as many are worked on at a time: their numbers stay in the cache
START = 10  # steps of expectation-maximisation before the first sweep
LEAST = 1e-30  # proportions are at least this: no token is without a topic


class Room(NamedTuple):
    """What is worked on at a time: so many documents, in so many chunks of CHUNK tokens."""

    documents: int
    chunks: int


class Expected(NamedTuple):
    """Expected numbers of tokens: E n_kw over all documents, and E n_dk."""

    words: tf.Tensor
    documents: tf.Tensor


class Slots(NamedTuple):
    """Tokens of some documents, in chunks: arrays of (CHUNK, chunks), or of (chunks, documents)."""

    word: tf.Tensor
    taken: tf.Tensor  # 1 where there is a token, else 0
    owner: tf.Tensor  # 1 where the chunk is of the document, else 0


def room(lengths: Any, n: int) -> Room:
    """Room for minibatches of n documents from a corpus with these numbers of tokens.

    With as many passes as minibatches of mean size take, there is room for two standard deviations
    more: few minibatches, as 1 in 40, take another pass.
    """
    chunks = -(-np.asarray(lengths) // CHUNK)
    mean, variance = chunks.mean(), chunks.var()
    passes = int(np.ceil(n * mean * CHUNK / TOKENS)) or 1
    most = (n * mean + 2 * np.sqrt(n * variance * (1 - n / len(chunks)))) / passes
    if passes == 1:
        documents = n
    else:  # where short ones come together, and where the next one does not fit
        documents, most = int(1.125 * n / passes) + 1, most + mean / 2
    most = max(int(np.ceil(most)), int(chunks.max()))
    return Room(documents, most | 1)  # odd: columns 4 KB apart would share few places in the cache


def expected_counts(
    phi: tf.Tensor,
    words: tf.Tensor,
    counts: tf.Tensor,
    alpha: tf.Tensor | float,
    key: tf.Tensor,
    room: Room,
    n_burn_in: int = 20,
    n_samples: int = 40,
) -> Expected:
    """Expected numbers of tokens by topic and word, and by document and topic, given φ.

    Sweeps alternate between the proportions of each document and the topics of all its tokens,

        π_d ~ Dirichlet(α + n_d),    P(z = k) = π_dk φ_kw / Σ_j π_dj φ_jw,

    and what is averaged over the sweeps after burn-in are these probabilities, not the topics
    drawn from them (Rao and Blackwell). Documents are in groups for which there is `room`, as many
    as the minibatch takes.

    Parameters
    ----------
    phi : tensor (K, W)
        Probabilities of the words in each topic; a factor for each word makes no difference.
    words, counts : tensors of int32, (n, width)
        The words of each document and how often they occur; 0 times where there is none.
    alpha : float or tensor (K,)
    key : tensor of int32, (2,)
        All randomness is a function of it.
    room : Room
        From `room`. A single document without room makes the answer NaN.
    n_burn_in, n_samples : int
        Sweeps before and during the average.
    """
    (K, W), n = phi.shape, words.shape[0]
    alpha = tf.reshape(tf.cast(alpha, phi.dtype), (-1, 1))
    lengths = tf.reduce_sum(counts, 1)
    ends = tf.cumsum(-(-lengths // CHUNK))
    by_word = tf.transpose(phi)

    def body(first: tf.Tensor, key: tf.Tensor, words_sum: tf.Tensor, documents: tf.Tensor) -> tuple:
        last, slots = laid_out(first, words, counts, lengths, ends, room, phi.dtype)
        likelihood = scaled(tf.gather(by_word, slots.word))
        mean, key = sweeps(likelihood, slots, alpha, key, n_burn_in, n_samples)
        mean = tf.where(last > first, mean, np.nan)
        by_token = tf.reshape(tf.transpose(mean, (1, 2, 0)), (-1, K))
        words_sum = tf.tensor_scatter_nd_add(words_sum, tf.reshape(slots.word, (-1, 1)), by_token)
        here = tf.transpose(tf.matmul(tf.reduce_sum(mean, 1), slots.owner))
        at = first + tf.range(room.documents)
        here = tf.where((at < last)[:, None] | (last == first), here, 0)
        documents = tf.tensor_scatter_nd_add(documents, tf.minimum(at, n)[:, None], here)
        return tf.maximum(last, first + 1), key, words_sum, documents

    start = 0, key, tf.zeros((W, K), phi.dtype), tf.zeros((n + 1, K), phi.dtype)
    _, _, words_sum, documents = tf.while_loop(
        lambda first, *_: first < n, body, start, parallel_iterations=1
    )
    return Expected(tf.transpose(words_sum), documents[:n])


def mean_proportions(documents: tf.Tensor, alpha: tf.Tensor | float) -> tf.Tensor:
    """E π_d from E n_dk, (documents, K), in its form: (α + E n_d) / Σ_k (α_k + E n_dk)."""
    weights = documents + alpha
    return weights / tf.reduce_sum(weights, axis=-1, keepdims=True)


def laid_out(
    first: tf.Tensor,
    words: tf.Tensor,
    counts: tf.Tensor,
    lengths: tf.Tensor,
    ends: tf.Tensor,
    room: Room,
    dtype: tf.DType,
) -> tuple[tf.Tensor, Slots]:
    """The tokens of documents first ... last − 1, as many as there is room for, and `last`.

    Document d has the chunks before ends[d] that are not those of the documents before it.
    """
    n, width = words.shape
    before = ends - -(-lengths // CHUNK)
    chunk = before[first] + tf.range(room.chunks)
    over = tf.cast(ends <= before[first] + room.chunks, tf.int32)
    last = tf.minimum(tf.reduce_sum(over), first + room.documents)
    document = tf.reduce_sum(tf.cast(ends[:, None] <= chunk, tf.int32), 0)
    here = document < last
    owner = tf.minimum(document - first, room.documents - 1)  # of empty chunks: no matter which
    owner = owner[:, None] == tf.range(room.documents)
    document = tf.minimum(document, n - 1)

    token = (chunk - tf.gather(before, document)) * CHUNK + tf.range(CHUNK)[:, None]
    taken = here & (token < tf.gather(lengths, document))
    document = tf.broadcast_to(document, token.shape)
    upto = tf.cumsum(counts, axis=1)
    pair, step = tf.zeros_like(token), 1 << width.bit_length() >> 1
    while step:  # bisection: how many of the document's words come to an end before the token
        probe = tf.minimum(pair + step, width) - 1
        passed = tf.gather_nd(upto, tf.stack([document, probe], -1)) <= token
        pair = tf.where((pair + step <= width) & passed, pair + step, pair)
        step >>= 1
    pair = tf.minimum(pair, width - 1)
    word = tf.gather_nd(words, tf.stack([document, pair], -1))
    return last, Slots(word, tf.cast(taken, dtype), tf.cast(owner, dtype))


def scaled(likelihood: tf.Tensor) -> tf.Tensor:
    """φ of each token, (CHUNK, chunks, K), with a largest value of 1; topics go to the front.

    A word that no topic has, as far as numbers go, tells nothing.
    """
    most = tf.reduce_max(likelihood, -1, keepdims=True)
    likelihood = tf.where(most == 0, tf.ones_like(likelihood), likelihood / most)
    return tf.transpose(likelihood, (2, 0, 1))


def sweeps(
    likelihood: tf.Tensor,
    slots: Slots,
    alpha: tf.Tensor,
    key: tf.Tensor,
    n_burn_in: int,
    n_samples: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The mean probabilities of each token's topics, (K, CHUNK, chunks), and the next key.

    Topics z and the uniform numbers for the next ones are carried from sweep to sweep: what a loop
    carries XLA writes to memory, and what it does not, it would compute again for each use.
    """
    K, *shape = likelihood.shape
    dtype, C = likelihood.dtype, shape[-1]

    def weights(pi: tf.Tensor) -> tf.Tensor:
        return tf.matmul(pi, slots.owner, transpose_b=True)

    def expect(i: tf.Tensor, pi: tf.Tensor, share: tf.Tensor) -> tuple:
        pi = weights(alpha + expected(pi, share))
        return i + 1, pi, slots.taken / prefix_sums(pi, likelihood)[-1]

    def expected(pi: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
        return tf.matmul(pi * tf.reduce_sum(likelihood * share, 1), slots.owner)

    def sweep(
        s: tf.Tensor, key: tf.Tensor, n: tf.Tensor, z: tf.Tensor, u: tf.Tensor, kept: tuple
    ) -> tuple:
        n += tf.matmul(in_chunks(z, slots.taken, K), slots.owner)
        pi = weights(proportions(alpha + n, key))
        sums = prefix_sums(pi, likelihood)
        at = tf.maximum(s - n_burn_in, 0)
        kept = kept[0].write(at, pi), kept[1].write(at, slots.taken / sums[-1])
        key = random.folded(key, 0)
        return s + 1, key, tf.zeros_like(n), drawn(sums, u), uniforms(key, shape, dtype), kept

    start = 0, tf.ones((K, C), dtype), slots.taken / tf.reduce_sum(likelihood, 0)
    _, pi, share = tf.while_loop(lambda i, *_: i < START, expect, start, parallel_iterations=1)
    nowhere = tf.fill(shape, tf.constant(K, dtype))  # topics of tokens that n has counted
    kept = tuple(tf.TensorArray(dtype, n_samples, element_shape=(rows, C)) for rows in (K, CHUNK))
    start = 0, key, expected(pi, share), nowhere, uniforms(key, shape, dtype), kept
    _, key, _, _, _, kept = tf.while_loop(
        lambda s, *_: s < n_burn_in + n_samples, sweep, start, parallel_iterations=1
    )
    pi, share = (x.stack() for x in kept)
    mean = tf.einsum("skc,slc->ckl", pi, share) / n_samples
    return likelihood * tf.transpose(mean, (1, 2, 0)), key


def uniforms(key: tf.Tensor, shape: list[int], dtype: tf.DType) -> tf.Tensor:
    """A uniform number for each token."""
    both = random.uniforms(key, (shape[0] // 2, shape[1]), 0, dtype)
    return tf.concat(both, 0)


def proportions(shape: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """Draws from the Dirichlet distribution of each column, but for their scale."""
    return tf.maximum(random.gammas(key, shape, 1), LEAST)


def prefix_sums(pi: tf.Tensor, likelihood: tf.Tensor) -> list[tf.Tensor]:
    """Σ_{j ≤ k} π_dj φ_jw of each token, for each k."""
    sums, total = [], 0
    for weight, column in zip(tf.unstack(pi), tf.unstack(likelihood)):
        total = total + weight * column
        sums.append(total)
    return sums


def drawn(sums: list[tf.Tensor], u: tf.Tensor) -> tf.Tensor:
    """Topics with these prefix sums, by inversion: how many of the sums are below u times all."""
    level, z = u * sums[-1], tf.zeros_like(u)
    for below in sums[:-1]:
        z += tf.cast(below < level, u.dtype)
    return z


def in_chunks(z: tf.Tensor, taken: tf.Tensor, K: int) -> tf.Tensor:
    """How many tokens of each chunk have each topic."""
    topics = tf.reshape(tf.range(K, dtype=z.dtype), (K, 1, 1))
    return tf.reduce_sum(tf.where(z == topics, taken, tf.zeros_like(taken)), 1)
