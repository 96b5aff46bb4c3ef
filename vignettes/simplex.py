# %% [markdown]
# # Probabilities: samplers of the simplex
#
# Some parameters are probabilities that sum to 1: the weights of a mixture, the words of a topic,
# the proportions of categories. Often many of them are nearly 0. There, a step that adds a normal
# number fails: it leads below 0, or not near enough to 0. `scir` takes no such steps. Each
# probability moves by the exact transition of a process whose states have a Gamma distribution,
# and can come as near to 0 as the posterior says. `scircv` is the same with control variates.
# `sgrld` is the older Langevin sampler, for comparison.
#
# The first half repeats experiments of the papers that proposed these samplers (Baker, Fearnhead,
# Fox and Nemeth, 2018; Barile and Nemeth), on posteriors that are known. The second half is about
# mixtures, whose categories are not observed.

# %%
import os
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf
from scipy import special
from sgmcmc import moments

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
n_iters = 40 if QUICK else 1000
jit = not QUICK  # compiling takes longer than so few iterations

# %% [markdown]
# ## A posterior that is known
#
# A thousand observations of ten categories: 800 of the first, 100 of the second, 100 of the third
# and none of the others. With the prior Dirichlet(.1, ..., .1), the posterior of the probabilities
# ω is Dirichlet(800.1, 100.1, 100.1, .1, ..., .1).
#
# The log likelihood is written in ω itself, without a transformation. The prior is the argument
# `alpha`. From the derivative of the log likelihood, the sampler computes the counts of a
# minibatch. Scaled to all rows, and with `alpha` added, they are an estimate â of the posterior's
# parameters.
#
# On this page, minibatches are drawn independently, as in the papers. By default they are taken in
# turn from shuffled rows, which leaves less noise ([`mv_gauss`](mv_gauss.md)).

# %%
z = np.repeat(np.arange(10), [800, 100, 100, 0, 0, 0, 0, 0, 0, 0])
alpha, N = 0.1, len(z)
a = alpha + np.bincount(z, minlength=10)


def log_lik(params, data):
    counts = tf.reduce_sum(tf.one_hot(data["z"], 10), axis=0)
    return tf.reduce_sum(counts * tf.math.log(params["omega"]))


draws = sgmcmc.scir(
    log_lik=log_lik,
    dataset={"z": z},
    params={"omega": np.full(10, 0.1)},
    stepsize=0.1,
    alpha=alpha,
    minibatch_size=10,
    minibatches="independent",
    n_iters=n_iters,
    burn_in=n_iters,
    n_chains=5,
    keep_log=True,
    seed=1,
    verbose=False,
    jit=jit,
)
print(draws.summary())
mean = a / a.sum()
sd = np.sqrt(mean * (1 - mean) / (a.sum() + 1))
print("exact mean, sd:", *(f"{m:.4g}, {s:.4g};" for m, s in zip(mean[:4], sd)))

# %% [markdown]
# The means are right. The standard deviations of the three large categories are 2.4 times what
# they should be; the reason is given below. Those of the others agree with the exact ones as well
# as can be expected from chains with some hundred effective draws.
#
# ## Near zero
#
# The summary does not show the distribution of ω₅, which ranges over many powers of ten.
# `keep_log=True` has kept its logarithms. We compare them with independent draws from the
# posterior, and with `sgrld`, with the best step size of its list below.


# %%
rng = np.random.default_rng(1)


def exact_draws(a, shape):
    """log ω of independent draws; G(a) = G(a + 1) U^(1/a), of which the left side may underflow."""
    log_theta = np.log(rng.gamma(a + 1, size=(*shape, len(a))))
    log_theta += np.log(rng.random(log_theta.shape)) / a
    return log_theta - special.logsumexp(log_theta, axis=-1, keepdims=True)


colours = {"exact": "0.75", "scir": "tab:blue", "scircv": "tab:green", "sgrld": "tab:orange"}


def boxes(axes, values, outliers=True):
    drawn = axes.boxplot(
        [x.ravel() for x in values.values()],
        tick_labels=values,
        patch_artist=True,
        widths=0.6,
        showfliers=outliers,
        medianprops={"color": "black"},
        flierprops={"marker": ".", "ms": 3, "mec": "none", "mfc": "black", "alpha": 0.4},
    )
    for box, name in zip(drawn["boxes"], values):
        box.set_facecolor(colours[name.split()[0]])


exact = exact_draws(a, (5, n_iters))
langevin = sgmcmc.sgrld(
    log_lik=log_lik,
    dataset={"z": z},
    params={"omega": np.full(10, 0.1)},
    stepsize=1e-4,
    alpha=alpha,
    minibatch_size=10,
    minibatches="independent",
    n_iters=n_iters,
    burn_in=n_iters,
    n_chains=5,
    keep_log=True,
    seed=1,
    verbose=False,
    jit=jit,
)
fifth = {
    "exact": exact[..., 4],
    "scir\nh = .1": draws.stats["log_omega"][..., 4],
    "sgrld\nh = .0001": langevin.stats["log_omega"][..., 4],
}
fig, axes = plt.subplots(figsize=(6, 4))
boxes(axes, fifth)
axes.set(ylabel=r"$\log\,\omega_5$ (natural)", title="A category without observations")
fig.tight_layout()
for name, x in fifth.items():
    print(
        f"{name.split()[0]:6} quartiles of log ω₅: {np.percentile(x, [25, 50, 75]).round(1)}",
        end="",
    )
    print(f", {np.mean(x < np.median(exact[..., 4])):.1%} below the exact median")

# %% [markdown]
# This is Figure 1 of Baker et al. `scir` looks at 10 rows of 1000 at a time and still gives what
# independent draws give, down to e⁻⁸⁰. The reason is that no minibatch contains the fifth category:
# its count is known without noise, and the transition is exact. `sgrld` adds normal noise with the
# variance hθ, and so cannot come as near to 0: hardly any of its draws are below the exact median.
#
# ## How near to the posterior
#
# We want one number for all of ω. If ω is Dirichlet(a), the share of ωⱼ in ωⱼ + ... + ω_d is a Beta
# variable, independent of the other shares, and its distribution function makes it uniform
# (Rosenblatt's transform). We average the Kolmogorov-Smirnov distance from uniform over the d − 1
# shares. For 1000 independent draws it is about .027, the least that one can hope for.


# %%
def distance(log_omega, a):
    """Kolmogorov-Smirnov distance of (..., draws, d) from Dirichlet(a), a mean over shares."""
    log_omega = log_omega.astype(float)
    tail = np.logaddexp.accumulate(log_omega[..., ::-1], axis=-1)[..., ::-1]
    share = np.exp(log_omega - tail)[..., :-1]
    rest = np.exp(tail[..., 1:] - tail[..., :-1])  # 1 − share, right where that is small
    first, others = a[:-1], np.cumsum(a[::-1])[-2::-1]
    uniform = np.where(
        share < 0.5,
        special.betainc(first, others, np.minimum(share, 1)),
        special.betaincc(others, first, np.minimum(rest, 1)),
    )
    uniform, n = np.sort(uniform, axis=-2), uniform.shape[-2]
    rank = np.arange(1, n + 1)[:, None]
    return np.maximum(rank / n - uniform, uniform - (rank - 1) / n).max(axis=-2).mean(axis=-1)


# %% [markdown]
# The experiment is that of Figure 2 of the paper. Minibatches have .1 % to 50 % of the rows. There
# are two posteriors: the one above, and a dense one with about 100 observations in each category.
# We take 1000 draws after 1000 of burn-in, and for each chain the best of the step sizes in the
# thesis's table B.5.1. To try them all with one compilation, the step size is a schedule: each
# chain spends 2000 iterations at each, from the smallest to the largest. The two posteriors are two
# rows of one ω.

# %%
dense = np.repeat(np.arange(10), [112, 119, 92, 98, 95, 96, 102, 92, 91, 103])
shapes = {"sparse": a, "dense": alpha + np.bincount(dense)}

h_scir = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0]
h_sgrld = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5]
samplers = {
    "scir": (sgmcmc.scir, h_scir),
    "scircv": (sgmcmc.scircv, h_scir),
    "sgrld": (sgmcmc.sgrld, h_sgrld),
}
shares = [0.01] if QUICK else [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5]
each = 2 * n_iters
results = {case: {name: [] for name in samplers} for case in shapes}
coarse = {}  # draws with h = .5 and minibatches of 1 %
for share in shares:
    for name, (sampler, steps) in samplers.items():
        made = sampler(
            log_lik=log_lik,
            dataset={"z": np.stack([z, dense], axis=1)},
            params={"omega": np.full((2, 10), 0.1)},
            stepsize=lambda k, steps=steps: steps[k // each],
            n_iters=each * len(steps),
            minibatch_size=round(share * N),
            minibatches="independent",
            keep=[],
            alpha=alpha,
            n_chains=5,
            keep_log=True,
            seed=1,
            verbose=False,
            jit=jit,
        )
        log_omega = made.stats["log_omega"].reshape(5, len(steps), each, 2, 10)[:, :, n_iters:]
        if share == 0.01:
            coarse[f"{name} h = .5"] = log_omega[:, steps.index(0.5), :, 0]
        for i, case in enumerate(shapes):
            found = distance(log_omega[..., i, :], shapes[case])  # (chains, steps)
            results[case][name].append((found.min(axis=1), np.take(steps, found.argmin(axis=1))))

fig, panels = plt.subplots(1, 2, figsize=(9, 4.2), sharex=True, sharey=True)
for axes, (case, of_case) in zip(panels, results.items()):
    ideal = distance(exact_draws(shapes[case], (200, n_iters)), shapes[case])
    band = np.percentile(ideal, [2.5, 97.5])
    axes.axhspan(*band, color=colours["exact"], lw=0, label="exact, 95 %")
    for offset, (name, found) in zip((0.93, 1, 1.07), of_case.items()):
        best = np.array([x for x, _ in found])
        axes.plot(np.array(shares) * offset, best, ".", ms=5, color=colours[name])
        axes.plot(shares, best.mean(axis=1), lw=1.5, color=colours[name], label=name)
    axes.set(xscale="log", yscale="log", title=f"{case} posterior")
    axes.set_xlabel("share of the rows in a minibatch")
    axes.set_xticks([0.001, 0.01, 0.1, 0.5], ["0.1 %", "1 %", "10 %", "50 %"])
    axes.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5], [".02", ".05", ".1", ".2", ".5"])
    axes.minorticks_off()
panels[0].set_ylabel("Kolmogorov-Smirnov distance")
panels[1].legend()
fig.tight_layout()

for case, of_case in results.items():
    print(f"{case}, mean distance (median of the best steps)")
    print(" " * 8 + "".join(f"{share:>16.1%}" for share in shares))
    for name, found in of_case.items():
        cells = [f"{best.mean():.3f} ({np.median(h):g})" for best, h in found]
        print(f"{name:8}" + "".join(f"{cell:>16}" for cell in cells))

# %% [markdown]
# Dots are single chains, lines their means; the grey band holds 95 % of independent draws. In the
# sparse posterior, `sgrld` is .37 to .44 away whatever the minibatch: the cause is not noise, but
# its steps near zero. `scir` improves from .12 to .035 as the noise becomes less, and almost
# reaches the band of independent draws. In the dense posterior, where nothing is near
# zero, `sgrld` is a little worse than `scir`, most of all with single rows. These were the results
# of the paper.
#
# `scircv` was proposed later. It is within the band or just above it from minibatches of 1 % on
# (5 % in the dense posterior), and there its best step is 1: successive draws have little in
# common. With minibatches of 1 or 5 rows it does little better than `scir`. It uses control
# variates for the categories where Var[â]/(a − 1)² ≤ 1, and with so few rows that is the first
# category of the sparse posterior alone; all others take plain steps. With 1 %, many categories are
# close to this limit: the ratio is .91 for the second and third category of the sparse posterior,
# and near 1 for all of the dense one, where the category with 91 rows takes plain steps. The share
# of the categories that used control variates is in `stats["control_variates"]["omega"]`.
#
# These step sizes are the best for 1000 draws. The longer the chain, the smaller the best step.
#
# ## What the noise of minibatches does
#
# Why were some standard deviations too large? With step size h, the noise of a minibatch of n
# rows makes the variance of the probability of an observed category too large by the factor
#
# $$1 + \tanh(h/2)\, \frac{N}{n}\, \frac{N - n}{N - 1} \approx 1 + \frac{hN}{2n}$$
#
# which is 6, or 2.4 for the standard deviation, with h = .1 and minibatches of 1 %. For an error of
# 10 % in the variance, h = .2 n/N, here .002. As a chain needs some 2/h iterations for each
# effective draw, that makes ten passes through the data, whatever n. If this is too expensive, the
# noise itself must become less.
#
# That is what `scircv` is for. It knows a, from all rows. If the â of a minibatch is larger than
# a, it pulls θ back more strongly in proportion, so that the mode does not move. Figure 1 of
# Barile and Nemeth has a large step, h = .5, and minibatches of 10 rows. Its draws are among
# those above. We add `sgrld` with its own best step:

# %%
logs = {"exact": exact, **coarse, "sgrld h = .0001": langevin.stats["log_omega"]}
fig, panels = plt.subplots(1, 4, figsize=(11, 4.2))
for j, axes in enumerate(panels[:3]):
    boxes(axes, {name: np.exp(x[..., j]) for name, x in logs.items()}, outliers=False)
    axes.set(title=f"category {j + 1}: {round(a[j] - alpha)} rows")
    axes.set_ylabel(rf"$\omega_{j + 1}$")
boxes(panels[3], {name: x[..., 3] for name, x in logs.items()})
panels[3].set(title="category 4: no rows", ylabel=r"$\log\,\omega_4$ (natural)")
for axes in panels:
    axes.tick_params("x", rotation=90)
fig.tight_layout()
for name, x in logs.items():
    ratio = np.exp(x[..., :3]).std(axis=(0, 1)) / sd[:3]
    print(f"{name:17} sd ÷ exact sd, categories 1 to 3: {ratio.round(2)}")

# %% [markdown]
# `scir` is five times too wide in the first three categories (the formula says √25.3) and right in
# the fourth; `scircv` is 1.2 times too wide in the first three, at the same step size. In the
# fourth there is nothing to control, as its count is 0 in all minibatches, and a plain step is
# taken. `sgrld` with h = .5 is of no use. With h = .0001 it is twice too wide, and still wrong in
# the fourth.
#
# ## Moments in closed form
#
# `sgmcmc.moments` computes the mean and the variance of θ after M steps: of the process with all
# rows, of `scir`, and of the two forms of `scircv`. Here is the setting of Barile and Nemeth's
# Figure 3: a category with 150 of 1000 rows, minibatches of 100, h = .1, and a start at θ = 7.67,
# far below the mode 149.1. The dots are variances over many chains of the samplers themselves,
# which with `positive=("theta",)` return θ in place of ω.

# %%
count, n, h, theta0 = 150, 100, 0.1, 7.67
n_chains, M = 200 if QUICK else 5000, np.arange(1, 61)
var_a_hat = moments.a_hat_variance(count, N, n)
a_hat = moments.a_hat_distribution(alpha, count, N, n)
forms = {
    "scir": (sgmcmc.scir, partial(moments.scir_moments, var_a_hat=var_a_hat)),
    "scircv, main form": (
        partial(sgmcmc.scircv, form="main"),
        partial(moments.scircv_moments, a_hat=a_hat, form="main"),
    ),
    "scircv, alternative form": (sgmcmc.scircv, partial(moments.scircv_moments, a_hat=a_hat)),
}


def one_category(params, data):
    return tf.math.log(params["theta"]) * tf.reduce_sum(data["z"])


def variances(formula):
    return np.array(
        [formula(theta0=theta0, a=count + alpha, h=h, n_steps=int(m)).variance for m in M]
    )


process = variances(moments.cir_moments)
fig, axes = plt.subplots(figsize=(8, 4.5))
axes.axhline(count + alpha, color="0.6", ls="--", lw=1, label="posterior")
axes.plot(M, process, color="black", label="all rows")
print("formula (chains), M =     " + "".join(f"{m:16}" for m in (5, 20, 60)))
print("all rows                  " + "".join(f"{process[m - 1]:16.2f}" for m in (5, 20, 60)))
for seed, ((name, (sampler, formula)), colour) in enumerate(
    zip(forms.items(), ("tab:blue", "tab:olive", "tab:green"))
):
    made = sampler(
        log_lik=one_category,
        dataset={"z": (np.arange(N) < count).astype(np.float32)},
        params={"theta": theta0},
        stepsize=h,
        alpha=alpha,
        minibatch_size=n,
        minibatches="independent",
        n_iters=len(M),
        positive=("theta",),
        n_chains=n_chains,
        seed=seed,
        verbose=False,
        jit=jit,
    )
    theory, found = variances(formula), made["theta"].var(axis=0, dtype=float)
    axes.plot(M, theory, color=colour, label=name)
    axes.plot(M[4::5], found[4::5], "o", ms=4, color=colour)
    cells = [f"{theory[m - 1]:.2f} ({found[m - 1]:.1f})" for m in (5, 20, 60)]
    print(f"{name:26}" + "".join(f"{x:>16}" for x in cells))
axes.set(xlabel="step M", ylabel=r"variance of $\theta_M$")
axes.set_title(f"Formulas (lines) and {n_chains:,} chains (dots)")
axes.legend(loc="lower right")
fig.tight_layout()

# %% [markdown]
# The samplers follow their formulas: with 5000 chains, a variance has a standard error of 2 %.
# `scir` ends at 207 where 150 is right. Both forms of `scircv` follow the process with all rows,
# but not in the same way. The main form is better on the way from a bad start, and ends 6 % too
# wide. The alternative form is nearly as noisy as `scir` in the first steps, and ends within 1 % of
# the posterior. So it is the default.
#
# ## Categories that are not observed
#
# Now we draw the weights of a mixture of Gaussians whose centres are known. The component of each
# row is not known, so the likelihood sums over components: Σ log Σ ω_k p_k(x). Nothing else has
# to be written, as its derivative gives the expected counts, the responsibilities. There are six
# components with much overlap, and no row comes from the last two.

# %%
rows, centres = 10_000, np.array([-4.0, -2.0, 0.0, 2.0, 4.0, 6.0])
x = rng.normal(centres[rng.choice(6, rows, p=[0.5, 0.3, 0.15, 0.05, 0.0, 0.0])])


def mixture(params, data):
    log_p = -0.5 * (data["x"][:, None] - tf.constant(centres, tf.float32)) ** 2
    return tf.reduce_sum(tf.reduce_logsumexp(tf.math.log(params["omega"]) + log_p, axis=1))


# %% [markdown]
# For comparison, a Gibbs sampler on all rows, which draws each row's component and then ω.

# %%
density = np.exp(-0.5 * (x[:, None] - centres) ** 2)
gibbs = [np.full(6, 1 / 6)]
for _ in range(200 if QUICK else 5000):
    cumulative = np.cumsum(density * gibbs[-1], axis=1)
    component = (rng.random((rows, 1)) * cumulative[:, -1:] > cumulative).sum(axis=1)
    gibbs.append(rng.dirichlet(alpha + np.bincount(component, minlength=6)))
gibbs = np.array(gibbs[len(gibbs) // 10 :])

steps = [0.1] if QUICK else [0.03, 0.1, 0.3, 1.0]
variants = {
    "scir": (sgmcmc.scir, "o-"),
    "scircv": (sgmcmc.scircv, "s:"),
    "scircv, refreshed": (partial(sgmcmc.scircv, refresh_every=500), "s-"),
}
weights = {
    name: [
        sampler(
            log_lik=mixture,
            dataset={"x": x},
            params={"omega": np.full(6, 1 / 6)},
            stepsize=h,
            alpha=alpha,
            minibatch_size=100,
            minibatches="independent",
            n_iters=10 * n_iters,
            burn_in=n_iters,
            n_chains=4,
            seed=5,
            verbose=False,
            jit=jit,
        )["omega"].reshape(-1, 6)
        for h in steps
    ]
    for name, (sampler, _) in variants.items()
}

# %%
fig, panels = plt.subplots(1, 2, figsize=(10, 4))
i = -2 % len(steps)
shown = {
    "Gibbs, all rows": gibbs,
    f"scircv, refreshed, h = {steps[i]:g}": weights["scircv, refreshed"][i],
}
for shift, (name, omega), colour in zip((-0.1, 0.1), shown.items(), ("black", "tab:green")):
    middle, low, high = omega.mean(0), *np.percentile(omega, [2.5, 97.5], axis=0)
    panels[0].errorbar(
        x=np.arange(1, 7) + shift,
        y=middle,
        yerr=[middle - low, high - middle],
        fmt=".",
        color=colour,
        label=name,
    )
panels[0].set(xlabel="component", ylabel="weight", title="Means and 95 % intervals")
panels[0].set(yscale="log", ylim=(1e-7, 1))
for name, (_, style) in variants.items():
    ratio = [(omega.std(0) / gibbs.std(0))[:4].mean() for omega in weights[name]]
    panels[1].loglog(steps, ratio, style, color=colours[name.split(",")[0]], label=name)
    print(f"{name:18} sd ÷ sd of Gibbs, for h = {steps}: {np.round(ratio, 2)}")
panels[1].axhline(1, color="black", lw=1)
panels[1].set(xlabel="step size h", ylabel="sd ÷ sd of Gibbs", title="Components 1 to 4, mean")
panels[1].set_xticks(steps, [f"{h:g}" for h in steps])
panels[1].set_yticks([0.9, 1, 1.5, 2, 3, 5], [".9", "1", "1.5", "2", "3", "5"])
panels[1].minorticks_off()
for axes in panels:
    axes.legend()
fig.tight_layout()

# %% [markdown]
# Plain `scir` is too wide again, even at h = .03 (minibatches are 1 % of 10,000 rows). In such a
# model a depends on ω. `scircv` estimates it where the chain starts, here at equal weights, but the
# chain moves away from there. With `refresh_every=500` it estimates a again every 500 iterations,
# on all rows, and the draws are right, with a step size ten times as large. (If all rows are too
# many, `refresh_size` takes some of them. Their error adds to the variance, and control variates
# are only used where it is less than the noise that they remove.)
#
# With h = 1 the draws are 6 % too narrow, which is not an effect of noise. Responsibilities are
# averages. A step uses them in place of components that ought to be random, and the larger the
# step, the more of that randomness is lost. Let γ be the share of the information that is lost
# because the components are not known. Then the variance is
#
# $$\frac{1 + e^{-h}}{1 + e^{-h} + (1 - e^{-h})\gamma}$$
#
# of what it should be, without the noise of minibatches. So here the step size itself causes an
# error, which it does not do if categories are observed. The error is small with h ≤ .3.
#
# ## Weights and means
#
# If the centres are not known either, they are parameters of the usual kind, for `sgld`. `mixed`
# runs one chain with a sampler for each parameter, all from the same likelihood and minibatches.
# If the conditional distribution of a parameter is known, `Gibbs` takes a function that draws from
# it. Here that parameter is the precision τ of the centres' prior N(0, 1/τ), which itself has the
# prior Gamma(1, 1). The data are 10,000 rows from three components.

# %%
truth = {"omega": np.array([0.6, 0.3, 0.1]), "mu": np.array([-3.0, 0.0, 3.0])}
y = rng.normal(truth["mu"][rng.choice(3, rows, p=truth["omega"])])


def mixture_of(params, data):
    log_p = -0.5 * (data["y"][:, None] - params["mu"]) ** 2
    return tf.reduce_sum(tf.reduce_logsumexp(tf.math.log(params["omega"]) + log_p, axis=1))


def log_prior(params):  # of mu, given tau
    return -0.5 * params["tau"] * tf.reduce_sum(params["mu"] ** 2)


def draw_tau(params, data, key):
    rate = 1 + tf.reduce_sum(params["mu"] ** 2) / 2
    return sgmcmc.random.gammas(key, tf.constant(1 + 3 / 2)) / rate


made = sgmcmc.mixed(
    log_lik=mixture_of,
    dataset={"y": y},
    params={"omega": np.ones(3) / 3, "mu": [-1.0, 0.0, 1.0], "tau": 1.0},
    stepsize={"omega": 0.02, "mu": 1e-5},
    blocks={
        "omega": sgmcmc.SCIR(alpha=alpha),
        "mu": sgmcmc.SGLD(),
        "tau": sgmcmc.Gibbs(draw_tau),
    },
    log_prior=log_prior,
    minibatch_size=1000,
    minibatches="independent",
    n_iters=20 * n_iters,
    burn_in=2 * n_iters,
    n_chains=4,
    seed=6,
    verbose=False,
    jit=jit,
)
print(made.summary())
expected = np.mean(2.5 / (1 + np.sum(made["mu"] ** 2, axis=-1) / 2))
print(f"mean of τ, from the draws of mu: {expected:.4f}")

# %% [markdown]
# The weights and the centres are within two standard deviations of those that made the data, and
# the mean of τ is what its conditional distribution, Gamma(2.5, 1 + Σμ²/2), says. The `ess` of the
# smallest component's centre is below a hundred, which is low: for real use, run the chain ten
# times as long.
#
# ## What to choose
#
# - **Categories without any rows, and little else that matters**: `scir`, h = .1 to .5. Where no
#   minibatch has a count there is no noise.
# - **The width of the others matters too**: `scircv`, h = .5 or 1 where categories are observed.
#   Look at `stats["control_variates"]`, the share of the categories that use them: those with less
#   than about one row a minibatch do not, and keep all of the noise, with either sampler. Where
#   categories are latent, take h ≤ .3, with `refresh_every` a few hundred iterations, so that its
#   passes through the data cost no more than the minibatches between them.
# - **Categories with a few rows, or `scir`**: for an error of δ in the variance, take h = 2δ n/N.
#   Larger minibatches allow for larger steps, and for control variates of more categories.
# - **`sgrld`**: for comparison.
#
# ## What can go wrong
#
# - **A likelihood that is normalised inside**, such as one of ω/Σω or of a softmax, is refused: its
#   derivative does not yield counts. Write it in ω as it is.
# - **Probabilities below 1e-38** are 0 in `float32`, though not in the chain: use `keep_log=True`
#   where their logarithms matter.
# - **Several modes.** A mixture whose centres are free has all the troubles of
#   [`gauss_mixture`](gauss_mixture.md).
