# %% [markdown]
# # A hierarchical model: five hundred groups
#
# Customers of five hundred shops answer yes or no. Each shop has a rate of its own, and we want
# to know how much the rates differ. Such models are where stochastic gradient MCMC most often
# goes wrong unnoticed: the log posterior has no mode worth the name, so that control variates
# centred on it, and step sizes chosen there, are of no use. This page shows what happens, how to
# see it, and how to do it right. The answer is compared with that of NUTS on all rows.

# %%
import os
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf
import tensorflow_probability as tfp

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
n_iters = 1000 if QUICK else 20_000
J = 500


def simulated(rows_of_a_group, seed=0):
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(J), rows_of_a_group)
    effect = 0.3 + 0.7 * rng.normal(size=J)
    y = rng.random(len(group)) < 1 / (1 + np.exp(-effect[group]))
    return {"group": group.astype("int32"), "y": y.astype("float32")}


dataset = simulated(40)
print(f"{len(dataset['y']):,} rows, {J} groups; the sd of groups is .70")

# %% [markdown]
# ## Two ways to write it
#
# The logit of group j is aⱼ, with aⱼ ~ N(μ, τ²). In the *centred* form, the aⱼ are parameters. In
# the *non-centred* form, the parameters are zⱼ ~ N(0, 1), and aⱼ = μ + τzⱼ. Both are the same
# model. We give μ a N(0, 5²) prior, and τ a half-normal one. `constrain` could keep τ
# positive; here we write log τ, as it is the one parameter to look at, and the Jacobian is
# the `+ params["log_tau"]`.


# %%
def bernoulli(logits, y):
    return tf.reduce_sum(y * logits - tf.nn.softplus(logits))


def hyperprior(params):
    tau = tf.exp(params["log_tau"])
    return -(params["mu"] ** 2) / 50 - tau**2 / 2 + params["log_tau"]


def centred_log_lik(params, data):
    return bernoulli(tf.gather(params["a"], data["group"]), data["y"])


def centred_log_prior(params):
    z = (params["a"] - params["mu"]) / tf.exp(params["log_tau"])
    return hyperprior(params) - tf.reduce_sum(z**2) / 2 - J * params["log_tau"]


def noncentred_log_lik(params, data):
    a = params["mu"] + tf.exp(params["log_tau"]) * params["z"]
    return bernoulli(tf.gather(a, data["group"]), data["y"])


def noncentred_log_prior(params):
    return hyperprior(params) - tf.reduce_sum(params["z"] ** 2) / 2


centred = {"log_lik": centred_log_lik, "log_prior": centred_log_prior}
noncentred = {"log_lik": noncentred_log_lik, "log_prior": noncentred_log_prior}
start = {"mu": 0.0, "log_tau": 0.0}
params_of = {"a": {**start, "a": np.zeros(J)}, "z": {**start, "z": np.zeros(J)}}


# %% [markdown]
# ## The answer, by NUTS
#
# NUTS looks at all rows for each of its gradients. For 20,000 rows that is still possible.


# %%
def nuts(data, count):
    data = {name: tf.constant(array) for name, array in data.items()}

    def log_posterior(mu, log_tau, z):
        params = {"mu": mu, "log_tau": log_tau, "z": z}
        return noncentred_log_lik(params, data) + noncentred_log_prior(params)

    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
        tfp.mcmc.NoUTurnSampler(log_posterior, step_size=0.05), count // 4
    )

    @tf.function(jit_compile=True)
    def run():
        return tfp.mcmc.sample_chain(
            num_results=count,
            num_burnin_steps=count // 3,
            current_state=[tf.constant(0.0), tf.constant(0.0), tf.zeros(J)],
            kernel=kernel,
            trace_fn=None,
            seed=(1, 2),
        )

    mu, log_tau, _ = (x.numpy() for x in run())
    return sgmcmc.Draws({"mu": mu, "log_tau": log_tau}, {}, {"n_chains": None})


def line(name, draws, seconds=None):
    found = sgmcmc.Draws(
        {"mu": draws["mu"], "tau": np.exp(draws["log_tau"])}, {}, {"n_chains": None}
    ).summary()
    (mu, tau), (mu_sd, tau_sd), ess = found["mean"], found["sd"], found["ess"]
    took = "" if seconds is None else f", {seconds:4.1f} s"
    return (
        f"{name:34} μ {mu:.3f} ± {mu_sd:.3f}, τ {tau:.3f} ± {tau_sd:.3f}; "
        f"effective draws {ess[0]:,.0f} and {ess[1]:,.0f}{took}"
    )


began = time.perf_counter()
exact = nuts(dataset, 100 if QUICK else 2000)
print(line("NUTS, all rows", exact, time.perf_counter() - began))

# %% [markdown]
# ## What goes wrong
#
# `sgldcv` searches for the mode of the log posterior of *all* parameters together. In the
# non-centred form there is one, but at a value of τ that the posterior hardly ever has. With so
# many zⱼ that all can be a little too small at once, a large τ fits better than a right one.

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    wrong = sgmcmc.sgldcv(
        **noncentred,
        dataset=dataset,
        params=params_of["z"],
        stepsize=2e-5,
        minibatch_size=500,
        n_iters=10 * n_iters,
        thin=10,
        seed=1,
        verbose=False,
    )
print(f"τ at the mode: {np.exp(wrong.settings['mode']['log_tau']):.2f}")
print(line("sgldcv, non-centred", wrong))
for warning in caught:
    print(warning.message)

# %% [markdown]
# The draws of τ start there, and creep towards the right value. So far from its centre, a control
# variate adds noise instead of removing it, and only tiny steps are possible. The run has warned
# of it. `diagnose` says more:

# %%
for finding in sgmcmc.diagnose(wrong).findings:
    print("-", finding)

# %% [markdown]
# In the centred form there is no mode at all: with all aⱼ equal, the density grows without bound
# as τ goes to 0. Step sizes, which are chosen at the mode, are then refused.

# %%
try:
    sgmcmc.sghmccv_setup(
        **centred,
        dataset=dataset,
        params=params_of["a"],
        minibatch_size=500,
        seed=1,
        verbose=False,
    )
except ValueError as error:
    print(error)

# %% [markdown]
# ## What to do: a short run without control variates
#
# Plain `sghmc` needs no mode. It needs a step size. The sizes of the parameters are easy to
# guess: a group with 40 rows knows its logit to about ±.3; μ and log τ are known to about
# 1/√500. We pass these as scales by `precondition=`, so that one step size suits all. The noise of
# a minibatch of n from N rows then calls for a step of about .02 n/N, small enough to lose
# nothing but time.

# %%
scales = {"mu": 0.04, "log_tau": 0.04, "a": 0.3}
common = {"dataset": dataset, "minibatch_size": 500, "alpha": 0.3, "verbose": False}

began = time.perf_counter()
pilot = sgmcmc.sghmc(
    **centred,
    **common,
    params=params_of["a"],
    stepsize=5e-4,
    precondition=scales,
    n_iters=n_iters,
    burn_in=n_iters // 4,
    seed=1,
)
print(line("sghmc, centred", pilot, time.perf_counter() - began))

# %% [markdown]
# It is right, but has few effective draws. We use them for two things: their mean is a point in the
# middle of the posterior, where control variates can be centred, and their standard deviations are
# the scales.
#
# ## Control variates at the mean of the draws
#
# Control variates are exact for *any* centre. The noise that they leave depends on how far the
# draws are from it. So pass `mode=` a typical point. The step may now be forty times as large.

# %%
centre = {name: pilot[name].mean(axis=0) for name in pilot}
spread = {name: pilot[name].std(axis=0).mean() for name in pilot}

began = time.perf_counter()
draws = sgmcmc.sghmccv(
    **centred,
    **common,
    params=params_of["a"],
    stepsize=0.02,
    precondition=spread,
    mode=centre,
    n_iters=n_iters,
    burn_in=n_iters // 10,
    seed=2,
)
print(line("sghmccv, at the pilot's mean", draws, time.perf_counter() - began))
print(line("NUTS, all rows", exact))
print(sgmcmc.diagnose(draws).findings or "no findings")

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
tau = np.exp(wrong["log_tau"])
axes[0].plot(tau, color="tab:red", lw=0.8, label="sgldcv, centred on the joint mode")
axes[0].plot(np.exp(draws["log_tau"]), color="tab:blue", lw=0.4, label="sghmccv, on the mean")
axes[0].set(xlabel="draw (sgldcv: of ten iterations)", ylabel="τ", yscale="log")
axes[0].set(title="The sd of groups", xticks=[0, n_iters // 2, n_iters])
axes[0].set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
axes[0].minorticks_off()
axes[0].legend()
bins = np.linspace(0.6, 0.86, 40)
for found, name, style in (
    (draws, "sghmccv", {"alpha": 0.5, "color": "tab:blue"}),
    (exact, "NUTS", {"histtype": "step", "color": "black", "lw": 1.5}),
):
    axes[1].hist(np.exp(found["log_tau"]), bins, density=True, label=name, **style)
axes[1].set(xlabel="τ", title="Its posterior", yticks=[])
axes[1].legend()
fig.tight_layout()

# %% [markdown]
# ## Few rows in a group
#
# With 40 rows each, the data tell the aⱼ well, and the centred form is the better one. With four
# rows each they do not. Then the aⱼ depend strongly on τ, and errors that are small for each of 500
# parameters add up for τ: steps that make the aⱼ slightly too wide make τ too large, in the
# centred form, and zⱼ that are slightly too wide make τ too small in the other. Here are both
# forms, with control variates at the mean of their own short run, for three step sizes; and
# `baoab`, whose error is of second order:

# %%
few = simulated(4)
exact = nuts(few, 100 if QUICK else 4000)
lines, found = [line("NUTS", exact)], {}
for form, model, name in (("centred", centred, "a"), ("non-centred", noncentred, "z")):
    options = {
        **model,
        "dataset": few,
        "params": params_of[name],
        "precondition": {"mu": 0.05, "log_tau": 0.15, name: 0.6 if name == "a" else 0.9},
        "minibatch_size": 200,
        "alpha": 0.3,
        "verbose": False,
    }
    pilot = sgmcmc.sghmc(**options, stepsize=1e-3, n_iters=n_iters, burn_in=n_iters // 4, seed=1)
    centre = {k: pilot[k].mean(axis=0) for k in pilot}
    at_mean = sgmcmc.ControlVariate(mode=centre)
    for sampler, more in ((sgmcmc.sghmc, {"L": 5}), (sgmcmc.baoab, {"thin": 5})):
        for stepsize in (0.03, 0.01, 0.003):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sgmcmc.TrustWarning)
                made = sampler(
                    **options,
                    **more,
                    stepsize=stepsize,
                    gradient=at_mean,
                    n_iters=2 * n_iters * more.get("thin", 1),
                    burn_in=n_iters // 4 * more.get("thin", 1),
                    seed=3,
                )
            lines.append(line(f"{form}, {sampler.__name__}, ε = {stepsize}", made))
            found[form, sampler.__name__, stepsize] = np.exp(made["log_tau"]).mean()
print("\n".join(lines))

# %%
fig, axes = plt.subplots(figsize=(6, 3.4))
for (form, colour), (sampler, style) in [
    (f, s)
    for f in (("centred", "tab:blue"), ("non-centred", "tab:orange"))
    for s in (("sghmc", "o-"), ("baoab", "s--"))
]:
    steps = [0.003, 0.01, 0.03]
    means = [found[form, sampler, h] for h in steps]
    axes.semilogx(steps, means, style, color=colour, label=f"{form}, {sampler}")
axes.axhline(np.exp(exact["log_tau"]).mean(), color="black", lw=1, label="NUTS")
axes.set(xlabel="step size ε (posterior variances about 1)", ylabel="mean of τ")
axes.set_xticks(steps, [str(h) for h in steps])
axes.minorticks_off()
axes.legend(fontsize=8)
fig.tight_layout()

# %% [markdown]
# The two forms err on opposite sides, and meet at the right value as the step becomes smaller. So
# a second run in the other form, or with half the step (`diagnose(draws, halve=True)`), shows
# whether to trust τ. Effective draws and R̂ do not show it: they are best where the error is
# largest.
#
# ## In short
#
# - **Do not centre control variates on a joint mode** of a hierarchical model, and do not leave
#   the step size to the package: what it needs to know is at that mode.
# - **Run plain `sghmc` first**, with scales from common sense, and centre control variates on the
#   mean of its draws.
# - **Centred, if groups have many rows; non-centred, if they have few.** If in doubt, do both.
# - **Look at τ for two step sizes.** The small errors of all other parameters add up in it.
# - If NUTS on all rows is fast enough, as here: take NUTS. This page is for the time when the
#   twenty thousand rows have become twenty million.
