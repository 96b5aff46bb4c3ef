# %% [markdown]
# # A neural network whose chain is never stored
#
# This network of 79,510 weights reads handwritten digits. Ten thousand draws of it would take 3 GB,
# and nobody needs them. We want the average prediction over the posterior, and to know whether the
# chain has settled. This page shows both ways to get them: in one call, with `track`, and step by
# step, with a running mean.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
n_iters = 100 if QUICK else 10_000

# %% [markdown]
# ## The data
#
# MNIST has 60,000 images of 28 × 28 pixels, and 10,000 more to test on. We set 5,000 of the 60,000
# aside to choose the step size, so that the test images stay unseen.

# %%
mnist = sgmcmc.get_dataset("mnist", validation=5000)
train = {name: mnist["train"][name] for name in ("X", "labels")}
validation = {name: tf.constant(mnist["validation"][name]) for name in ("X", "labels")}
test = {name: tf.constant(mnist["test"][name]) for name in ("X", "labels")}

# %% [markdown]
# ## The model
#
# One hidden layer of 100 units. Integer labels reach `log_lik` as integers. The weights have
# Gaussian priors of variance .01 and .1, the biases of variance 1. We chose these variances by the
# log loss of the validation images, in a few short runs.


# %%
def logits(params, X):
    hidden = tf.nn.relu(X @ params["in"]["weights"] + params["in"]["bias"])
    return hidden @ params["out"]["weights"] + params["out"]["bias"]


def log_lik(params, data):
    return -tf.reduce_sum(
        tf.nn.sparse_softmax_cross_entropy_with_logits(data["labels"], logits(params, data["X"]))
    )


def log_prior(params):
    squares = (
        tf.reduce_sum(params["in"]["weights"] ** 2) / 0.01
        + tf.reduce_sum(params["out"]["weights"] ** 2) / 0.1
        + tf.reduce_sum(params["in"]["bias"] ** 2)
        + tf.reduce_sum(params["out"]["bias"] ** 2)
    )
    return -squares / 2


rng = np.random.default_rng(1)
params = {  # nested dicts are allowed
    "in": {"weights": rng.normal(size=(784, 100)) / 28, "bias": np.zeros(100)},
    "out": {"weights": rng.normal(size=(100, 10)) / 10, "bias": np.zeros(10)},
}

# %% [markdown]
# Pixels at the edge are always black, so their weights have a posterior like their prior, of
# variance .01. Other weights are known far better, and the step size has to suit those. The
# gradient noise of minibatches of 500 of 55,000 rows makes it smaller still.
#
# ## In one call
#
# `track` evaluates functions of the parameters inside the run, here at every fiftieth iteration,
# and `keep=[]` keeps no parameters at all. We try some step sizes in short runs, and compare the
# log loss on the validation images.


# %%
def log_loss(params):
    return -log_lik(params, validation) / len(validation["labels"])


for stepsize in (1e-5,) if QUICK else (1e-6, 3e-6, 1e-5, 3e-5):
    tried = sgmcmc.sgld(
        log_lik=log_lik,
        dataset=train,
        params=params,
        stepsize=stepsize,
        log_prior=log_prior,
        minibatch_size=500,
        n_iters=n_iters // 2,
        thin=50,
        keep=[],
        track={"log_loss": log_loss},
        seed=1,
        verbose=False,
    )
    print(f"step size {stepsize:.0e}: log loss of the last draw {tried['log_loss'][-1]:.3f}")

# %% [markdown]
# With small steps the chain has not arrived yet; with large ones, gradient noise heats it. `1e-5`
# is a good compromise for `sgld`. We also try `sgnht`, whose friction takes out the heat of the
# gradient noise. It starts at `a`, and adapts within about a thousand iterations until the
# temperature, one number for each parameter, is 1.

# %%
chains = {
    "sgld, step size 1e-5": sgmcmc.sgld(
        log_lik=log_lik,
        dataset=train,
        params=params,
        stepsize=1e-5,
        log_prior=log_prior,
        minibatch_size=500,
        n_iters=n_iters,
        thin=50,
        keep=[],
        track={"log_loss": log_loss},
        seed=1,
        verbose=False,
    ),
    "sgnht, step size 3e-7, a = .03": sgmcmc.sgnht(
        log_lik=log_lik,
        dataset=train,
        params=params,
        stepsize=3e-7,
        log_prior=log_prior,
        minibatch_size=500,
        a=0.03,
        n_iters=n_iters,
        thin=50,
        keep=[],
        track={"log_loss": log_loss},
        seed=1,
        verbose=False,
    ),
}
iteration = 50 * np.arange(1, n_iters // 50 + 1)
fig, axes = plt.subplots(figsize=(8, 3.5))
for name, made in chains.items():
    axes.plot(iteration, made["log_loss"], label=name)
axes.set(xlabel="iteration", ylabel="log loss of a draw", title="Validation images", yscale="log")
axes.legend()
fig.tight_layout()

late = slice(n_iters // 100, None)
for layer, of_layer in chains["sgnht, step size 3e-7, a = .03"].stats["temperature"].items():
    for name, trace in of_layer.items():
        print(f"temperature of {layer}/{name}: {trace[late].mean():.2f}")

# %% [markdown]
# Each temperature is an average over all weights of a parameter, which have one friction in common.
# Weights with the noisiest gradients are hotter than that, and the others a little cooler. Judged
# by the noise of 100 minibatches, a tenth of the output weights have a temperature above 1.1, and
# the hottest one about 2.
#
# ## Step by step
#
# A single draw does not predict well: it is one network of many that fit. The average of their
# predicted *probabilities* does. `sgnht_setup` makes the sampler, and `step` advances it.
# `sampler.params` are TensorFlow variables that a `tf.function` may read. After a burn-in we
# average the predictions of every fiftieth network, and store one array of 10,000 × 10.

# %%
sampler = sgmcmc.sgnht_setup(
    log_lik=log_lik,
    dataset=train,
    params=params,
    stepsize=3e-7,
    log_prior=log_prior,
    minibatch_size=500,
    a=0.03,
    seed=2,
)


@tf.function
def predicted():
    return tf.nn.softmax(logits(sampler.params, test["X"]))


def loss_of(probabilities):
    right = probabilities[np.arange(len(probabilities)), mnist["test"]["labels"]]
    return -np.mean(np.log(right))


sgmcmc.step(sampler, n_iters // 5)
average, of_draws, of_average = 0.0, [], []
for k in range(1, n_iters // 50 + 1):
    sgmcmc.step(sampler, 50)
    now = predicted().numpy()
    average = average + (now - average) / k
    of_draws.append(loss_of(now))
    of_average.append(loss_of(average))

# %% [markdown]
# ## Comparison with Adam
#
# We train the same network in the usual way for as many minibatches, with the prior as weight
# decay:

# %%
weights = tf.nest.map_structure(lambda x: tf.Variable(x, dtype=tf.float32), params)
adam = tf.keras.optimizers.Adam(1e-3)
flat = tf.nest.flatten(weights)


@tf.function(jit_compile=True)
def gradients(X, labels):
    with tf.GradientTape() as tape:
        data = {"X": X, "labels": labels}
        loss = -log_lik(weights, data) / 500 - log_prior(weights) / 55_000
    return tape.gradient(loss, flat)


rng, adam_losses = np.random.default_rng(3), []
for k in range(1, n_iters + n_iters // 5 + 1):
    rows = rng.choice(55_000, 500, replace=False)
    adam.apply_gradients(zip(gradients(train["X"][rows], train["labels"][rows]), flat))
    if k % 50 == 0 and k > n_iters // 5:
        adam_losses.append(loss_of(tf.nn.softmax(logits(weights, test["X"])).numpy()))

fig, axes = plt.subplots(figsize=(8, 3.5))
axes.plot(iteration, adam_losses, color="tab:gray", label="Adam")
axes.plot(iteration, of_draws, color="tab:orange", label="one draw of sgnht")
axes.plot(iteration, of_average, color="tab:blue", label="average over its draws")
axes.set(
    xlabel=f"iteration after the first {n_iters // 5:,}", ylabel="log loss", title="Test images"
)
axes.set_ylim(top=1.15 * max(of_draws))
axes.legend(ncols=3, loc="upper center")
fig.tight_layout()
print(f"Adam: {adam_losses[-1]:.3f} at the end, {min(adam_losses):.3f} at its best")
print(f"one draw: {np.mean(of_draws):.3f}, the average over draws: {of_average[-1]:.3f}")

# %% [markdown]
# The average is much better than the single draws. Adam's one network still has the smaller log
# loss after so few iterations: it goes to the top of one mode, whereas draws spread around it, and
# the average is still improving. If the smallest log loss for a given time is all that you want,
# Adam serves you well.
#
# ## What the network does not know
#
# A prediction is uncertain where its entropy is large. An average over networks is also uncertain
# where they disagree. These are the eight test images with the largest entropy:

# %%
entropy = -np.sum(average * np.log(average), axis=1)
fig, axes = plt.subplots(2, 4, figsize=(8, 4.4))
for image, ax in zip(np.argsort(-entropy)[:8], axes.flat):
    first, second = np.argsort(-average[image])[:2]
    ax.imshow(mnist["test"]["X"][image].reshape(28, 28), cmap="gray_r")
    ax.set_title(
        f"{first}: {average[image, first]:.0%}, {second}: {average[image, second]:.0%}\n"
        f"labelled {mnist['test']['labels'][image]}",
        fontsize=9,
    )
    ax.axis("off")
fig.tight_layout()


def errors(prediction):
    right = prediction.argmax(1) == mnist["test"]["labels"]
    surest = np.argsort(-np.sum(prediction * np.log(prediction + 1e-30), axis=1))[:9000]
    return f"errors: {np.mean(~right):.2%} of all, {np.mean(~right[surest]):.2%} of the surest 90 %"


print("average over draws,", errors(average))
print("Adam,              ", errors(tf.nn.softmax(logits(weights, test["X"])).numpy()))

# %% [markdown]
# ## What can go wrong
#
# - **A network's posterior has countless modes**, and a chain sees the surroundings of one. It
#   gives an honest average over those, not over the whole posterior. More chains (`n_chains`) from
#   different `starts` see more.
# - **Labels as floats.** `sparse_softmax_cross_entropy_with_logits` wants integers. Integer arrays
#   of `dataset` stay integers.
# - **The log posterior still rises at the end**: the chain is still burning in. Run longer, or
#   start at weights that Adam found.
