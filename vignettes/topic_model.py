# %% [markdown]
# # Topics: 3,430 blog posts
#
# Latent Dirichlet allocation describes each document by a few topics, and each topic by a
# distribution over words. Almost all words are improbable in almost all topics, so thousands of
# probabilities are nearly zero, which is what `scir` was made for. Here we find the topics of the
# posts of a political blog in 2004, see how well they predict held-out words, and compare the
# samplers.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
n_topics, n_iters, seeds = (5, 20, 1) if QUICK else (50, 800, 5)

kos = sgmcmc.get_dataset("kos")
counts, vocab = kos["counts"], kos["vocab"]
if QUICK:
    counts = counts[:200]
order = np.random.default_rng(1).permutation(counts.shape[0])
held_out, train = counts[order[::10]], counts[np.delete(order, np.s_[::10])]
print(f"{train.shape[0]:,} documents to learn from, {held_out.shape[0]} held out")
print(f"{counts.shape[1]:,} words, {counts.sum():,} tokens")

# %% [markdown]
# The counts are a SciPy sparse matrix, with a row for each document. `fit_lda` also takes NumPy
# arrays, and the names of files in UCI's bag-of-words format or in that of LDA-C.
#
# ## One call
#
# Each iteration draws the topics of all tokens in 50 documents by Gibbs sampling, in compiled code.
# It then moves the word probabilities of the topics according to the expected counts.

# %%
thin = n_iters // 20
model = sgmcmc.fit_lda(
    counts=train,
    vocab=vocab,
    n_topics=n_topics,
    n_iters=n_iters,
    burn_in=0,
    thin=thin,
    seed=0,
    verbose=False,
)
print(model)

# %% [markdown]
# We keep every 40th draw of the topics, as each has 50 × 6,906 numbers. There is no burn-in, as we
# want to see how the topics form. The Dirichlet priors have the parameters `alpha`, for the topics
# in a document, and `beta`, for the words in a topic. Both are .1 by default. For the comparison
# below, we fit the model with more seeds and with the other samplers:


# %%
models = {"scir": [model], "scircv": [], "sgrld": []}
for name, fits in models.items():
    for seed in range(len(fits), seeds):
        fit = sgmcmc.fit_lda(
            counts=train,
            vocab=vocab,
            n_topics=n_topics,
            sampler=name,
            n_iters=n_iters,
            burn_in=0,
            thin=thin,
            seed=seed,
            verbose=False,
        )
        fits.append(fit)

# %% [markdown]
# ## Do the topics make sense?
#
# Here are the most probable words of the twelve topics with the largest share of these documents.
# The primaries, polls, elections to the House and the Senate, the war in Iraq: a reader of 2004
# would know what the posts are about.

# %%
proportions = model.topics(train)
common = np.argsort(-proportions.mean(axis=0))[:12]
top = model.top_words(8)
for k in common:
    print(f"{proportions[:, k].mean():5.1%}  {' '.join(top[k])}")

# %% [markdown]
# `model.topics` gives the expected proportions of topics in any documents, new ones included.
# Here are the most frequent words and the largest topics of a held-out document.

# %%
new = held_out[[0]]
words = np.argsort(-new.toarray()[0])[:10]
print("words: ", " ".join(vocab[words]))
shares = model.topics(new)[0]
for k in np.argsort(-shares)[:3]:
    print(f"{shares[k]:5.1%}  {' '.join(top[k])}")

# %% [markdown]
# ## How well do they predict?
#
# The model sees half of the tokens of each held-out document, and predicts the rest. Perplexity is
# exp(−mean log p): guessing among M equally probable words has the perplexity M. Probabilities are
# averaged over draws before the logarithm is taken. The curves show five seeds for each sampler,
# with all draws so far. The numbers below are for the later half of the draws alone.


# %%
def later(model):
    """The model without the first half of its draws."""
    phi = model.draws["phi"]
    draws = sgmcmc.Draws(
        values={"phi": phi[len(phi) // 2 :]}, stats={}, settings=model.draws.settings
    )
    return sgmcmc.TopicModel(
        draws=draws,
        vocab=model.vocab,
        alpha=model.alpha,
        n_burn_in=model.n_burn_in,
        n_samples=model.n_samples,
    )


fig, axes = plt.subplots(figsize=(7, 4.5))
for (name, fits), colour in zip(models.items(), ("tab:blue", "tab:green", "tab:orange")):
    for i, each in enumerate(fits):
        curve = each.perplexities(held_out)
        iterations = thin * np.arange(1, len(curve) + 1)
        axes.plot(iterations, curve, color=colour, lw=1, label=None if i else name)
    final = [later(each).perplexity(held_out) for each in fits]
    print(
        f"{name:7s} later half: {np.mean(final):,.0f}, from {min(final):,.0f} to {max(final):,.0f}"
    )
axes.set(xlabel="iteration, each of 50 documents", ylabel="perplexity of held-out words")
axes.set_title("Lower is better: five seeds each")
axes.legend()
fig.tight_layout()

# %% [markdown]
# `sgrld` is faster at first and ends 3 % higher than `scir`, whatever the seed. `scircv` predicts
# like `scir`, but uses 60 % more documents, as it goes through all of them every 100 iterations. It
# also counts each minibatch twice, at the chain's topics and at those of the last renewal. (With
# control variates from expected counts at the chain's own topics, the chain would stay where it
# was.) With 50 documents in a minibatch, one word in two hundred is frequent enough in a topic for
# control variates. They are for parameters that many rows inform. Leaving out the first half of the
# draws makes little difference, as the average of twice as many draws predicts better.
#
# How low can the perplexity be? With the same priors, and another tenth of the documents held out,
# a collapsed Gibbs sampler in C reaches 1,553 after 400 sweeps over all documents. `scir` reaches
# 1,593 with 2,000 minibatches of 100 documents, and `sgrld` 1,664 (`python -m benchmarks simplex`).
# KOS is small enough for such sweeps: they took a tenth of the time. `fit_lda` is for corpora that
# are too large for them.
