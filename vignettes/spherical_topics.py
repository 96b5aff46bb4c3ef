# %% [markdown]
# # Topics on a sphere
#
# Latent Dirichlet allocation counts words. The spherical admixture model takes documents as
# directions: vectors of length 1, such as tf-idf gives, in which rare words weigh more. Topics are
# directions, too, and may speak *against* words, by negative coordinates. Topics then live on a
# sphere of 4,944 dimensions, where `sggmc` and `gsgnht` move along great circles. The model is that
# of Reisinger et al. (2010), and the samplers are those of Liu, Zhu and Song (2016), section 4,
# whose figure 5 is repeated here with other documents.

# %%
import os
import time

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds

kos = sgmcmc.get_dataset("kos")
counts, vocab = kos["counts"], kos["vocab"]
share = np.asarray((counts > 0).mean(axis=0)).ravel()
moderate = (share > 0.0036) & (share < 0.12)
counts, vocab = counts[:, moderate], vocab[moderate]
if QUICK:
    counts, vocab = counts[:300, :400], vocab[:400]
counts = counts[np.asarray(counts.sum(axis=1)).ravel() > 5]
order = np.random.default_rng(1).permutation(counts.shape[0])
held_out, train = counts[order[::10]], counts[np.delete(order, np.s_[::10])]
documents = sgmcmc.tf_idf(train)
new_documents = sgmcmc.tf_idf(held_out, reference=train)
print(f"{documents.shape[0]:,} documents to learn from, {new_documents.shape[0]} held out")
print(f"{documents.shape[1]:,} words, {documents.nnz / documents.shape[0]:.0f} in a document")

# %% [markdown]
# As in the paper, words in very few or very many of the posts are left out. New documents are
# weighed by the documents that the model learns from (`reference`).
#
# ## One call
#
# Each iteration takes 100 documents. Their proportions of topics are drawn by geodesic Monte Carlo,
# given the topics, and their average gives the gradient by which the topics move. No step size is
# given: it is chosen by the noise of minibatches. There is no burn-in, as we want to see how the
# topics form.

# %%
n_topics, n_iters = (5, 40) if QUICK else (20, 12_000)
given = {"vocab": vocab, "n_topics": n_topics, "seed": 1, "verbose": False}
models, seconds = {}, {}
for sampler in ("gsgnht", "sggmc"):
    start = time.perf_counter()
    models[sampler] = sgmcmc.fit_sam(
        documents, sampler=sampler, n_iters=n_iters, burn_in=0, thin=n_iters // 20, **given
    )
    seconds[sampler] = time.perf_counter() - start
    print(models[sampler])
    draws = models[sampler].draws
    heat = draws.stats["temperature"]["beta"][-10:].mean()
    print(f"  {seconds[sampler]:.0f} s, step {draws.settings['stepsize']:.2g}, heat {heat:.2f}")

# %% [markdown]
# The heat of the topics' motion should be 1. With the friction of `sggmc`, the noise of minibatches
# makes it three times as much, even at half the step. The thermostat of `gsgnht` holds it near 1.
#
# ## Do the topics make sense?
#
# The words with the largest coordinates in the topics that have the largest share of the documents:

# %%
model = models["gsgnht"]
proportions = model.proportions(documents[: 20 if QUICK else 1000])
common = np.argsort(-proportions.mean(axis=0))[:12]
top = model.top_words(8)
for k in common:
    print(f"{proportions[:, k].mean():5.1%}  {' '.join(top[k])}")

# %% [markdown]
# And the words against which the first of them speaks:

# %%
mean = model.draws["beta"].mean(axis=0)
least = np.argsort(mean[common[0]])[:8]
print(" ".join(f"{vocab[w]} ({mean[common[0], w]:.3f})" for w in least))

# %% [markdown]
# ## All documents at once
#
# The same model by `gmc`, with all documents in each step and with a Metropolis test. Topics and
# proportions are parameters of one chain: points of spheres and of simplices. A step sees the whole
# matrix of documents. Its Metropolis test compares sums of some −10⁷, for which single precision is
# too coarse. Larger steps than these are refused.

# %%
V, kappa, alpha = documents.shape[1], model.kappa, model.alpha
m = np.asarray(documents.mean(axis=0)).ravel()
m = 2 * V * m / np.linalg.norm(m)


def log_lik(params, data):
    u = tf.gather(params["theta"], data["row"]) @ params["beta"]
    cosine = tf.reduce_sum(u * data["v"], axis=1) / tf.norm(u, axis=1)
    return kappa * tf.reduce_sum(cosine - 1)


def log_prior(params):
    """Dirichlet(α) for proportions, and topics around a mean direction that is integrated out."""
    r = tf.norm(m + 2 * V * tf.reduce_sum(params["beta"], axis=0))
    x = tf.one_hot(0, V, dtype=r.dtype)
    log_c = sgmcmc.von_mises_fisher_log_prob(x, x, r) - r
    return (alpha - 1) * tf.reduce_sum(tf.math.log(params["theta"])) - log_c


D = documents.shape[0]
steps = 4 if QUICK else 80
rng = np.random.default_rng(1)
few = [np.asarray(documents[rng.integers(0, D, 5)].mean(axis=0)) for _ in range(n_topics)]
topics = np.array([x.ravel() / np.linalg.norm(x) for x in few]) + m / (2 * V)
start_at = {
    "beta": topics / np.linalg.norm(topics, axis=1, keepdims=True),
    "theta": np.full((D, n_topics), 1 / n_topics),
}
start = time.perf_counter()
draws = sgmcmc.gmc(
    log_lik,
    {"v": documents.toarray(), "row": np.arange(D)},
    start_at,
    {"beta": 1.5e-5, "theta": 1.5e-4},
    log_prior=log_prior,
    manifold={"beta": sgmcmc.Sphere(), "theta": sgmcmc.Simplex()},
    L=10,
    n_iters=steps,
    keep=["beta"],
    thin=max(1, steps // 20),
    dtype="float64",
    seed=1,
    verbose=False,
)
seconds["gmc"] = time.perf_counter() - start
draws = sgmcmc.Draws(
    values={"beta": draws["beta"].astype("float32")}, stats=draws.stats, settings=draws.settings
)
models["gmc"] = sgmcmc.SphericalTopicModel(
    draws=draws, vocab=vocab, kappa=kappa, alpha=alpha, inner=model.inner
)
print(f"{seconds['gmc']:.0f} s for {steps} iterations")
print(f"accepted: {draws.stats['accepted'].mean():.0%}")

# %% [markdown]
# ## How well do they predict?
#
# Log-perplexity is minus the mean log density of new documents, averaged over the draws of the
# topics so far. Proportions of new documents are averaged over the prior, as in the paper. Lower is
# better.

# %%
fig, axes = plt.subplots(figsize=(7, 4.5))
for name, each in models.items():
    curve = each.log_perplexities(new_documents, n_samples=100 if QUICK else 1000)
    when = seconds[name] * np.arange(1, len(curve) + 1) / len(curve)
    axes.plot(when, curve, marker=".", label=name)
    print(f"{name:7s} {curve[-1]:8,.0f} after {seconds[name]:.0f} s")
axes.set(xlabel="seconds, compilation included", ylabel="log-perplexity of new documents")
axes.set_title("Lower is better")
axes.legend()
fig.tight_layout()

# %% [markdown]
# The samplers with minibatches go from nothing to topics in the time in which `gmc` has hardly left
# its start: it has more than 160,000 coordinates to move at once, and its test only accepts very
# short steps. The paper finds the same order. The greater heat of `sggmc` lets topics form sooner,
# but a chain that is too hot draws from a flatter law than the posterior. That curves still fall
# says that the chains have not forgotten their start. For topics that you want to rely on, run
# longer, from several seeds.
