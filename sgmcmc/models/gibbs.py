"""Gibbs sampling, in compiled code, of the topics in documents when the topics are known.

The model is latent Dirichlet allocation with known topics φ. A document has topic proportions
π ~ Dirichlet(α). Each of its tokens has a topic z ~ π and a word w ~ φ_z.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import random

CHUNK = 16  # the tokens of a document are stored in chunks of this size
TOKENS = 4096  # about the number of tokens worked on at a time, so that they fit into the cache
START = 10  # steps of expectation-maximisation before the first sweep
LEAST = 1e-30  # proportions are at least this, so that each token has a topic


class Room(NamedTuple):
    """The size of the buffers of one pass: the most documents, and chunks of CHUNK tokens."""

    documents: int
    chunks: int


class Expected(NamedTuple):
    """Expected numbers of tokens: E n_kw, over all documents of a minibatch, and E n_dk."""

    words: tf.Tensor
    documents: tf.Tensor


class Slots(NamedTuple):
    """The tokens of some documents, in chunks.

    `word` and `taken` have shape (CHUNK, chunks), `owner` (chunks, documents).
    """

    word: tf.Tensor
    taken: tf.Tensor  # 1 where there is a token, 0 in places that are left empty
    owner: tf.Tensor  # 1 if the chunk belongs to the document, otherwise 0


def room(lengths: Any, n: int) -> Room:
    """Choose the buffer sizes for minibatches of n documents, given all documents' token counts.

    The number of passes is what a minibatch of mean size needs. The buffers have room for two
    standard deviations more, so that about 1 in 40 minibatches needs another pass.
    """
    chunks = -(-np.asarray(lengths) // CHUNK)
    mean, variance = chunks.mean(), chunks.var()
    passes = int(np.ceil(n * mean * CHUNK / TOKENS)) or 1
    most = (n * mean + 2 * np.sqrt(n * variance * (1 - n / len(chunks)))) / passes
    if passes == 1:
        documents = n
    else:  # allow for many short documents in one pass, and for a last one that does not fit
        documents, most = int(1.125 * n / passes) + 1, most + mean / 2
    most = max(int(np.ceil(most)), int(chunks.max()))
    return Room(documents, most | 1)  # an odd number, as columns 4 KB apart collide in the cache


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
    """Estimate how many tokens each topic has, by word and by document, given the topics φ.

    Sweeps alternate between the proportions of each document and the topics of all its tokens,

        π_d ~ Dirichlet(α + n_d),    P(z = k) = π_dk φ_kw / Σ_j π_dj φ_jw.

    The average over the sweeps after burn-in is of these probabilities, and not of the topics drawn
    from them (Rao and Blackwell). The documents of a minibatch are worked on in groups, each as
    large as there is `room` for.

    Parameters
    ----------
    phi : tensor (K, W)
        The probabilities of the words in each topic. A factor for each word makes no difference.
    words, counts : tensors of int32, (n, width)
        The words of each document and their counts. Places that are left empty have the count 0.
    alpha : float or tensor (K,)
        The parameter of the Dirichlet prior of the proportions.
    key : tensor of int32, (2,)
        Fixes all random numbers.
    room : Room
        What the function `room` returns. A document that does not fit makes the result NaN.
    n_burn_in, n_samples : int
        The numbers of sweeps before the average and in it.
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
    """Return E π_d = (α + E n_d) / Σ_k (α_k + E n_dk) from E n_dk; both are (documents, K)."""
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
    """Lay out the tokens of documents first ... last − 1, as many as there is room for.

    Returns `last` and the tokens. Document d has the chunks from ends[d − 1] to ends[d] − 1.
    """
    n, width = words.shape
    before = ends - -(-lengths // CHUNK)
    chunk = before[first] + tf.range(room.chunks)
    over = tf.cast(ends <= before[first] + room.chunks, tf.int32)
    last = tf.minimum(tf.reduce_sum(over), first + room.documents)
    document = tf.reduce_sum(tf.cast(ends[:, None] <= chunk, tf.int32), 0)
    here = document < last
    owner = tf.minimum(document - first, room.documents - 1)  # empty chunks may have any owner
    owner = owner[:, None] == tf.range(room.documents)
    document = tf.minimum(document, n - 1)

    token = (chunk - tf.gather(before, document)) * CHUNK + tf.range(CHUNK)[:, None]
    taken = here & (token < tf.gather(lengths, document))
    document = tf.broadcast_to(document, token.shape)
    upto = tf.cumsum(counts, axis=1)
    pair, step = tf.zeros_like(token), 1 << width.bit_length() >> 1
    while step:  # find the token's word by bisection, among the document's cumulative counts
        probe = tf.minimum(pair + step, width) - 1
        passed = tf.gather_nd(upto, tf.stack([document, probe], -1)) <= token
        pair = tf.where((pair + step <= width) & passed, pair + step, pair)
        step >>= 1
    pair = tf.minimum(pair, width - 1)
    word = tf.gather_nd(words, tf.stack([document, pair], -1))
    return last, Slots(word, tf.cast(taken, dtype), tf.cast(owner, dtype))


def scaled(likelihood: tf.Tensor) -> tf.Tensor:
    """Scale φ of each token to a largest value of 1, and move its last axis, topics, to the front.

    If all topics have probability 0 for a word, in floating-point numbers, that word counts as
    equally probable in all.
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
    """Return the mean probabilities of each token's topics, (K, CHUNK, chunks), and the next key.

    The loop carries the topics z, and the uniform numbers from which the next ones are drawn. XLA
    writes what a loop carries to memory; other values it would compute again at each use.
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
    nowhere = tf.fill(shape, tf.constant(K, dtype))  # no topic, as the first n has all tokens
    kept = tuple(tf.TensorArray(dtype, n_samples, element_shape=(rows, C)) for rows in (K, CHUNK))
    start = 0, key, expected(pi, share), nowhere, uniforms(key, shape, dtype), kept
    _, key, _, _, _, kept = tf.while_loop(
        lambda s, *_: s < n_burn_in + n_samples, sweep, start, parallel_iterations=1
    )
    pi, share = (x.stack() for x in kept)
    mean = tf.einsum("skc,slc->ckl", pi, share) / n_samples
    return likelihood * tf.transpose(mean, (1, 2, 0)), key


def uniforms(key: tf.Tensor, shape: list[int], dtype: tf.DType) -> tf.Tensor:
    """Draw a uniform number for each token."""
    both = random.uniforms(key, (shape[0] // 2, shape[1]), 0, dtype)
    return tf.concat(both, 0)


def proportions(shape: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """Draw from the Dirichlet distribution of each column, without dividing by the sum."""
    return tf.maximum(random.gammas(key, shape, 1), LEAST)


def prefix_sums(pi: tf.Tensor, likelihood: tf.Tensor) -> list[tf.Tensor]:
    """Return Σ_{j ≤ k} π_dj φ_jw of each token, for each k."""
    sums, total = [], 0
    for weight, column in zip(tf.unstack(pi), tf.unstack(likelihood)):
        total = total + weight * column
        sums.append(total)
    return sums


def drawn(sums: list[tf.Tensor], u: tf.Tensor) -> tf.Tensor:
    """Draw topics by inversion: count the prefix sums that are below u times the whole sum."""
    level, z = u * sums[-1], tf.zeros_like(u)
    for below in sums[:-1]:
        z += tf.cast(below < level, u.dtype)
    return z


def in_chunks(z: tf.Tensor, taken: tf.Tensor, K: int) -> tf.Tensor:
    """Count the tokens of each topic in each chunk."""
    topics = tf.reshape(tf.range(K, dtype=z.dtype), (K, 1, 1))
    return tf.reduce_sum(tf.where(z == topics, taken, tf.zeros_like(taken)), 1)
