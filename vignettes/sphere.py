# %% [markdown]
# # Directions: samplers on spheres and other manifolds
#
# Some parameters are directions: a unit vector, an angle, a plane. They lie on a manifold, such as
# a circle or a sphere. A step that adds a normal number would leave it, and latitude and longitude
# have poles where they fail. `sggmc` moves along the manifold instead: on a sphere, its steps are
# arcs of great circles. `gsgnht` is the same with a thermostat. `gmc` takes all data and an
# acceptance step, so that its draws have no bias. The argument `manifold` says where a parameter
# lies: `Sphere()`, `Torus()` for angles, `Stiefel()` for matrices with orthonormal columns,
# `Simplex()`, `Ball()`, or `Euclidean()` with bounds.
#
# The first half of this page repeats the synthetic experiments of Liu, Zhu and Song (2016), who
# proposed `sggmc` and `gsgnht`. Their densities are known. The second half finds where the sun
# stood, from the shading of half a million mountain slopes.

# %%
import os
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf
from scipy import optimize

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # the tests run all this in seconds
vmf = sgmcmc.von_mises_fisher_log_prob


def circle(angle):
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)


def angle_of(x):
    return np.arctan2(x[..., 1], x[..., 0])


# %% [markdown]
# ## A circle, and noise of known size
#
# The density on the circle is proportional to exp(5 μ₁ᵀx) + 2 exp(5 μ₂ᵀx). Here μ₁ points to 60°,
# and μ₂ = −μ₁ to −120°. The second mode has twice the weight of the first.
#
# The paper adds noise with the distribution N(0, 1000 I) to each gradient. We let minibatches make
# such noise. The data are 1,000 rows whose sum is zero, and the log likelihood is their sum times
# x. So all rows together say nothing, but 10 of them do. The density above is the prior.

# %%
mu = circle(np.pi / 3)
N, n, V = 1000, 10, 1000.0

rows = np.random.default_rng(1).normal(size=(N, 2))
rows -= rows.mean(axis=0)
rows = np.linalg.qr(rows).Q * np.sqrt((N - 1) * V * n / (N * (N - n)))


def linear(params, data):
    return tf.reduce_sum(tf.linalg.matvec(data["row"], params["x"]))


def two_modes(params):
    along = 5 * tf.reduce_sum(params["x"] * mu.astype("float32"))
    return tf.reduce_logsumexp(tf.stack([along, np.log(2.0) - along]))


# %% [markdown]
# The noise of a minibatch heats the chain. If `sggmc` knows the variance V of this noise, it adds
# that much less noise of its own. The argument is `gradient_noise`. V can be a number, as here, or
# be estimated. If it is left out, V counts as 0. The thermostat of `gsgnht` needs no V: it measures
# the temperature and adapts its friction until the temperature is 1.
#
# `stepsize` is a time ε, here .01. (With a single mode it could be left out.) An iteration has
# `L = 30` steps, each with a minibatch of its own. The friction is 10, so that a step takes 10 % of
# the momentum.

# %%
n_chains, n_iters = (4, 50) if QUICK else (100, 4000)
starts = {"x": circle(np.random.default_rng(2).uniform(-np.pi, np.pi, n_chains))}
on_circle = {}
for name, sampler in {
    "sggmc, V known": partial(sgmcmc.sggmc, gradient_noise=V),
    "sggmc, V = 0": sgmcmc.sggmc,
    "gsgnht": sgmcmc.gsgnht,
}.items():
    on_circle[name] = sampler(
        log_lik=linear,
        dataset={"row": rows},
        params={"x": [1.0, 0.0]},
        stepsize=0.01,
        log_prior=two_modes,
        manifold=sgmcmc.Sphere(),
        friction=10.0,
        L=30,
        minibatch_size=n,
        minibatches="independent",
        n_iters=n_iters,
        burn_in=n_iters // 4,
        n_chains=n_chains,
        starts=starts,
        seed=1,
        verbose=False,
    )

# %% [markdown]
# A circle has one dimension, so sums over a fine grid of angles are exact for all that we need.

# %%
angles = np.linspace(-np.pi, np.pi, 3601)[:-1]


def exact(temperature=1.0):
    along = 5 * circle(angles) @ mu
    density = np.logaddexp(along, np.log(2) - along) / temperature
    density = np.exp(density - density.max())
    return density / density.sum()


def line(name, square, first, more=""):
    print(f"{name:22} {square:12.4f} {first:14.3f}{more}")


print(f"{'':22} {'E (xᵀμ₁)²':>12} {'share mode 1':>14} {'temperature':>12} {'changes':>9}")
cosine = circle(angles) @ mu
line("exact", exact() @ cosine**2, exact() @ (cosine > 0))
line("exact at temp. 1.5", exact(1.5) @ cosine**2, exact(1.5) @ (cosine > 0))
for name, draws in on_circle.items():
    found = draws["x"] @ mu
    changes = 1000 * np.mean(np.diff(found > 0, axis=1))
    heat = draws.stats["temperature"]["x"].mean()
    line(name, np.mean(found**2), np.mean(found > 0), f"{heat:13.3f} {changes:9.1f}")
xi = on_circle["gsgnht"].stats["thermostat"]["x"]
print(f"friction of gsgnht: {xi.mean():.2f}")


# %%
def degrees(x):
    """Angles from −210 to 150 degrees, so that neither mode is cut."""
    return (np.degrees(angle_of(x)) + 210) % 360 - 210


colours = dict(zip(on_circle, ("tab:blue", "tab:red", "tab:green")))
known = on_circle["sggmc, V known"]["x"]
fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), width_ratios=(1, 1.3, 1.5))
some = known[:, ::200].reshape(-1, 2)
radius = 1 + np.random.default_rng(3).uniform(-0.06, 0.06, (len(some), 1))
axes[0].plot(*(some * radius).T, ".", ms=2, alpha=0.3)
axes[0].plot(*circle(angles).T, color="black", lw=0.5)
for sign, text in ((1, "μ₁"), (-1, "μ₂")):
    axes[0].plot(*np.outer(sign * mu, [0.05, 1]), color="black", lw=1)
    axes[0].text(*(0.6 * sign * mu + [0.1, -0.1]), text, fontsize=12)
axes[0].set(aspect="equal", title="Draws, V known")
axes[0].axis("off")
for path, colour in zip(known[:2], ("tab:blue", "tab:orange")):
    axes[1].plot(degrees(path[:2000]), ".", ms=1.5, color=colour)
axes[1].set(xlabel="iteration", ylabel="angle, degrees", title="Two chains", yticks=[-120, 60])
axes[1].set_ylim(-210, 150)
order = np.argsort(degrees(circle(angles)))
for temperature, style in ((1.0, "k-"), (1.5, "k:")):
    label = "exact" if temperature == 1 else "exact, temperature 1.5"
    density = exact(temperature)[order] * len(angles) / 360
    axes[2].plot(degrees(circle(angles))[order], density, style, label=label)
for name, draws in on_circle.items():
    heights, edges = np.histogram(degrees(draws["x"]), 90, (-210, 150), density=True)
    axes[2].stairs(heights, edges, color=colours[name], label=name)
axes[2].set(xlabel="angle, degrees", ylabel="density", title="100 chains", xticks=[-120, 60])
axes[2].legend(fontsize=8)
fig.tight_layout()

# %% [markdown]
# With V known, and with the thermostat, E (xᵀμ₁)² is right to about .001. With V = 0 it is .065 too
# small. Its draws follow the exact density at temperature 1.5 (dotted), and 1.5 is what the theory
# says: noise of variance V adds εV/(2C) to the temperature, for the friction C. So where V is
# unknown and counts as 0, a smaller ε makes the error smaller. The friction of `gsgnht` has risen
# from 10 to 15, which is C + εV/2.
#
# A single chain changes its mode only about twice in 1,000 iterations. So one chain of 10,000
# iterations says little about the weights of the modes, and here we run a hundred, from everywhere
# on the circle. After a burn-in of 1,000 iterations they give the weights to within about .03. (The
# mean of (xᵀμ₁)² is the same in both modes, and one chain is enough for it.) If modes are further
# apart, no chain changes between them, and the weights are those of the starts
# ([`gauss_mixture`](gauss_mixture.md)).
#
# ## Two directions from a hundred rows
#
# The second experiment has two unknown directions v₁ and v₂ in the plane. Each row is drawn from
# one of two von Mises-Fisher distributions with κ = 20, with equal probability. The mean of the
# first is v₁, and that of the second lies halfway between v₁ and v₂. Both directions have the prior
# vMF(e₁, 20), with e₁ = (1, 0). (In the paper's formula, the second mean is v₂, and its prior is
# centred at e₂. Its figures and its appendix D are of the model that we use here.)
#
# `von_mises_fisher_log_prob` is the log density, for any dimension.

# %%
kappa, D = 20.0, 100
rng = np.random.default_rng(1)
v1, v2 = -np.pi / 24, np.pi / 8
observed = rng.vonmises(np.where(rng.random(D) < 0.5, v1, (v1 + v2) / 2), kappa)
e1 = tf.constant([1.0, 0.0])


def log_lik(params, data):
    halfway = tf.math.l2_normalize(params["v1"] + params["v2"])
    parts = tf.stack([vmf(data["x"], params["v1"], kappa), vmf(data["x"], halfway, kappa)])
    return tf.reduce_sum(tf.reduce_logsumexp(parts, axis=0) - np.log(2.0))


def log_prior(params):
    return vmf(params["v1"], e1, kappa) + vmf(params["v2"], e1, kappa)


# %% [markdown]
# Minibatches have 10 rows. With `gradient_noise="scalar"`, V is estimated in each step from the
# gradients of these 10 rows. The settings are those of the paper, which gives ε by a learning rate
# γ = Dε², and the friction by the share ρ = Cε of the momentum that a step takes. But we run 50
# chains.

# %%
n_chains, n_iters = (4, 50) if QUICK else (50, 8000)
noise = {"V estimated": "scalar", "V = 0": None}
two_directions = {}
for name, gradient_noise in noise.items():
    two_directions[name] = sgmcmc.sggmc(
        log_lik=log_lik,
        dataset={"x": circle(observed)},
        params={"v1": [1.0, 0.0], "v2": [1.0, 0.0]},
        log_prior=log_prior,
        manifold=sgmcmc.Sphere(),
        learning_rate=5e-4,
        momentum=0.1,
        L=10,
        gradient_noise=gradient_noise,
        minibatch_size=10,
        minibatches="independent",
        n_iters=n_iters,
        burn_in=n_iters // 4,
        n_chains=n_chains,
        seed=1,
        verbose=False,
    )

# %% [markdown]
# Two angles are few enough for a grid, which gives the exact posterior.

# %%
grid = np.linspace(-1.2, 1.2, 481)
first, second = np.meshgrid(grid, grid, indexing="ij")
log_posterior = kappa * (np.cos(first) + np.cos(second))
for x in observed:
    halfway = (first + second) / 2
    log_posterior += np.logaddexp(kappa * np.cos(x - first), kappa * np.cos(x - halfway))
posterior = np.exp(log_posterior - log_posterior.max())
posterior /= posterior.sum()


def report(name, a, b, weights=None):
    (aa, ab), (_, bb) = np.cov(np.ravel(a), np.ravel(b), aweights=weights)
    means = [np.average(np.ravel(each), weights=weights) for each in (a, b)]
    print(f"{name:12}{means[0]:9.3f}{means[1]:9.3f}", end="")
    print(f"{aa**0.5:9.4f}{bb**0.5:9.4f}{ab / (aa * bb) ** 0.5:9.3f}")


print(" " * 12 + "".join(f"{x:>9}" for x in ("mean v₁", "mean v₂", "sd v₁", "sd v₂", "corr.")))
report("exact", first, second, posterior.ravel())
for name, draws in two_directions.items():
    report(name, angle_of(draws["v1"]), angle_of(draws["v2"]))

estimated = two_directions["V estimated"]
drawn = [angle_of(estimated[k]) for k in ("v1", "v2")]
width = grid[1] - grid[0]
fig, axes = plt.subplots(1, 4, figsize=(12, 3.2))
for panel, x, axis, name in zip(axes, drawn, (1, 0), ("v₁", "v₂")):
    panel.hist(x.ravel(), 80, density=True, color="tab:blue", alpha=0.4, label="sggmc")
    panel.plot(grid, posterior.sum(axis) / width, color="black", label="exact")
    panel.set(xlabel=f"angle of {name}", title=f"Density of {name}", xlim=(-0.8, 0.8))
axes[0].set_xlim(-0.3, 0.3)
axes[0].legend(loc="upper left", fontsize=8)
view = {"cmap": "Blues", "vmin": 0, "vmax": posterior.max() / width**2}
axes[2].pcolormesh(grid, grid, posterior.T / width**2, **view)
axes[3].hist2d(*map(np.ravel, drawn), bins=(grid[::2], grid[::4]), density=True, **view)
for panel, title in zip(axes[2:], ("exact", "sggmc")):
    panel.contour(grid, grid, posterior.T, 4, colors="black", linewidths=0.5)
    panel.set(xlim=(-0.3, 0.3), ylim=(-0.8, 0.8), xlabel="angle of v₁", ylabel="angle of v₂")
    panel.set_title(f"Joint density, {title}")
fig.tight_layout()

# %% [markdown]
# With V estimated, the standard deviations are right to within 1 %. With V = 0 that of v₁ is 2 %
# too large. A small error is left with V, too: it is estimated for each parameter by itself,
# without the covariance between the noise of the two.
#
# ## Densities are with respect to area
#
# On a manifold, a density is with respect to its area. Without any prior, a direction is uniform on
# the sphere: equal areas have equal probability. This matters if you think in latitude and
# longitude. A ring of one degree of latitude has an area proportional to the cosine of the
# latitude, so that it is small near a pole. So a density of latitude and longitude has to be
# divided by that cosine.
#
# For example, you may believe that a latitude is N(40°, 15²), and know nothing of the longitude. We
# sample this prior with the cosine, and without. There are no data here, so we use `gmc`, which has
# no bias.


# %%
def latitude(x):
    return tf.asin(x[..., 2]) * (180 / np.pi)


def without_cosine(params):
    return -(((latitude(params["x"]) - 40) / 15) ** 2) / 2


def with_cosine(params):
    cosine = tf.norm(params["x"][:2])  # of the latitude
    return without_cosine(params) - tf.math.log(cosine)


def nothing(params, data):
    return 0 * tf.reduce_sum(data["none"])


degree = np.linspace(-20, 90, 500)
wished = np.exp(-(((degree - 40) / 15) ** 2) / 2)
fig, axes = plt.subplots(figsize=(6, 3.5))
for prior, colour in ((with_cosine, "tab:blue"), (without_cosine, "tab:red")):
    draws = sgmcmc.gmc(
        log_lik=nothing,
        dataset={"none": np.zeros(1)},
        params={"x": [0.8, 0.0, 0.6]},
        stepsize=0.1,
        log_prior=prior,
        manifold=sgmcmc.Sphere(),
        L=10,
        n_iters=20 if QUICK else 1000,
        n_chains=50,
        seed=1,
        verbose=False,
    )
    drawn = latitude(draws["x"]).numpy().ravel()
    accepted = draws.stats["accepted"].mean()
    name = prior.__name__.replace("_", " ")
    print(f"{name:15} mean {drawn.mean():.1f}, sd {drawn.std():.1f}, {accepted:.0%} accepted")
    axes.hist(drawn, 60, density=True, histtype="step", color=colour, label=name)
axes.plot(
    degree, wished / (wished.sum() * (degree[1] - degree[0])), color="black", label="N(40, 15²)"
)
axes.set(xlabel="latitude, degrees", ylabel="density")
axes.legend(loc="upper left")
fig.tight_layout()

# %% [markdown]
# ## Where did the sun stand?
#
# The data set `covertype` describes half a million plots of forest in Colorado, 30 m wide. It has
# the compass direction that the slope of each plot faces (the aspect), its steepness, and three
# indices of hillshade. These say how brightly the sun lights the slope at 9 am, at noon and at 3 pm
# on the day of the summer solstice. Nobody measured this light: a program computed it from the
# slope, and from where it was told that the sun stands. The data set does not say where that was.
# Can we find it?
#
# Let nᵢ be the unit vector that stands upright on slope i, and s the one that points to the sun.
# The usual formula for the shade is 255 sᵀnᵢ, rounded down. So we add half a unit to the index, and
# take
#
# $$y_i + \tfrac12 \sim N(255\, s^\top n_i,\ \sigma^2)$$
#
# where σ stands for rounding errors: aspect and slope are whole degrees, too. The length of s is
# known, as 255 is the light that meets a slope straight on. So s is a point of the sphere. There
# are three of them, one for each hour, in an array of shape (3, 3). There are also three σ, which
# `constrain` keeps positive.
#
# Plots without any slope are left out, as they face nowhere, and so are those in shadow.

# %%
X = sgmcmc.get_dataset("covertype")["X"]
scale = {1: 360, 2: 66, 6: 254, 7: 254, 8: 254}  # columns are divided by their largest values
aspect, slope, *shade = (np.round(X[:, j].astype(float) * top) for j, top in scale.items())
shade = np.stack(shade, axis=1)
used = (slope > 0) & (shade > 0).all(axis=1)
aspect, slope = np.radians(aspect[used]), np.radians(slope[used])
normal = np.stack(  # to the east, to the north, and upwards
    [np.sin(slope) * np.sin(aspect), np.sin(slope) * np.cos(aspect), np.cos(slope)], axis=1
)
plots = {"normal": normal, "shade": shade[used] + 0.5}
print(f"{len(normal):,} plots")


def shade_log_lik(params, data):
    expected = 255 * tf.matmul(data["normal"], params["sun"], transpose_b=True)
    z = (data["shade"] - expected) / params["sigma"]
    return -tf.reduce_sum(z**2 / 2 + tf.math.log(params["sigma"]))


def shade_log_prior(params):
    return -tf.reduce_sum(tf.math.log(params["sigma"]))


# %% [markdown]
# All three suns start overhead. `gradient="control_variates"` works on manifolds, too, and leaves
# hardly any noise here. The dict `manifold` leaves out σ, which moves in the coordinates of
# `constrain`. Without `stepsize`, each parameter gets one, by the curvature and the noise in the
# directions in which it can move at the mode. That of s is some 3 millionths of a radian, because
# half a million plots leave so little doubt. Numbers in single precision are 6e-8 apart there, so
# we take double precision.

# %%
sun = sgmcmc.sggmc(
    log_lik=shade_log_lik,
    dataset=plots,
    params={"sun": np.tile([0.0, 0.0, 1.0], (3, 1)), "sigma": np.ones(3)},
    log_prior=shade_log_prior,
    manifold={"sun": sgmcmc.Sphere()},
    constrain={"sigma": "positive"},
    momentum=0.3,
    gradient="control_variates",
    minibatch_size=1000,
    n_iters=100 if QUICK else 4000,
    burn_in=0 if QUICK else 200,
    n_chains=4,
    seed=1,
    dtype="float64",
    verbose=False,
)
print(sun.settings["tuning"]["time steps"])
print(sun.summary(names=["sun"]))

# %% [markdown]
# To check this answer, we find the best directions by nonlinear least squares in altitude and
# azimuth (the compass direction, from north by east). All rows together say no more than a 4 × 4
# matrix, the R of a QR decomposition.


# %%
def direction(angles):
    altitude, azimuth = np.radians(angles)
    level = np.cos(altitude)
    return np.array([level * np.sin(azimuth), level * np.cos(azimuth), np.sin(altitude)])


def angles_of(s):
    """Altitude and azimuth in degrees."""
    azimuth = np.degrees(np.arctan2(s[..., 0], s[..., 1])) % 360
    return np.stack([np.degrees(np.arcsin(s[..., 2])), azimuth], axis=-1)


hours = ("9 am", "noon", "3 pm")
fits = []
print(f"{'':13} {'sggmc: mean':>12} {'sd':>8} {'least squares':>14} {'se':>8}")
for j, hour in enumerate(hours):
    R = np.linalg.qr(np.c_[normal, plots["shade"][:, j]], mode="r")
    fit = optimize.least_squares(
        lambda angles, R=R: R @ [*(255 * direction(angles)), -1], [60, 180], x_scale="jac"
    )
    covariance = np.linalg.inv(fit.jac.T @ fit.jac) * 2 * fit.cost / len(normal)
    fits.append((fit.x, covariance))
    found = angles_of(sun["sun"][:, :, j])
    for i, name in enumerate(("altitude", "azimuth")):
        print(f"{hour if i == 0 else '':4} {name:8}", end="")
        print(f" {found[..., i].mean():12.4f} {found[..., i].std():8.4f}", end="")
        print(f" {fit.x[i]:14.4f} {covariance[i, i] ** 0.5:8.4f}")

# %% [markdown]
# Both methods give the same means and the same standard errors. And the answer is simple: whoever
# computed the shade gave the program whole degrees, 59° and 114°, 69° and 218°, 38° and 269°.
#
# Any function of the draws has its posterior, too. On one day, the sun moves along a circle about
# the pole of the sky. Three points are enough to find this circle. The altitude of the pole is the
# latitude of the place. The distance of the circle from the equator of the sky is the sun's
# declination, which depends on the day.

# %%
s = sun["sun"]
pole = np.cross(s[:, :, 1] - s[:, :, 0], s[:, :, 2] - s[:, :, 0])
pole *= np.sign(pole[..., 2:]) / np.linalg.norm(pole, axis=-1, keepdims=True)
place = np.degrees(np.arcsin(pole[..., 2]))
declination = np.degrees(np.arcsin(np.sum(s * pole[:, :, None], axis=-1)))[..., 0]
print(f"latitude    {place.mean():.3f} ± {place.std():.3f}")
print(f"declination {declination.mean():.3f} ± {declination.std():.3f}")

east, north, up = np.moveaxis(s, -1, 0)
phi = np.radians(place)[..., None]
hour_angle = np.arctan2(-east, up * np.cos(phi) - north * np.sin(phi))
clock = 12 + np.degrees(hour_angle) / 15
print("solar time ", *(f"{int(t)}:{t % 1 * 60:02.0f}" for t in clock.mean(axis=(0, 1))))

# %%
fig = plt.figure(figsize=(12, 3.6))
sky = fig.add_subplot(1, 4, 1, projection="polar")
sky.set(theta_zero_location="N", theta_direction=-1, rlim=(0, 90), title="The sky")
times = np.radians(15 * np.linspace(-8, 8, 200))
delta, phi = np.radians(declination.mean()), np.radians(place.mean())
path = np.stack(
    [
        -np.cos(delta) * np.sin(times),
        np.sin(delta) * np.cos(phi) - np.cos(delta) * np.cos(times) * np.sin(phi),
        np.sin(delta) * np.sin(phi) + np.cos(delta) * np.cos(times) * np.cos(phi),
    ],
    axis=-1,
)
altitude, azimuth = angles_of(path[path[:, 2] > 0]).T
sky.plot(np.radians(azimuth), 90 - altitude, color="0.6", lw=1)
for j, hour in enumerate(hours):
    altitude, azimuth = angles_of(s[:, :, j]).mean(axis=(0, 1))
    sky.plot(np.radians(azimuth), 90 - altitude, "o", color="tab:orange", ms=8)
    sky.annotate(
        hour, (np.radians(azimuth), 90 - altitude), (0, 7), textcoords="offset points", ha="center"
    )
sky.set_xticks(np.radians([0, 90, 180, 270]), ["N", "E", "S", "W"])
sky.set_yticks([30, 60], ["60°", "30°"], fontsize=7)
turn = np.linspace(0, 2 * np.pi, 200)
for j, hour in enumerate(hours):
    axes = fig.add_subplot(1, 4, j + 2)
    found = angles_of(s[:, :, j]).reshape(-1, 2)
    whole = found.mean(axis=0).round()
    axes.plot(*(1000 * (found[::4, ::-1] - whole[::-1])).T, ".", ms=1.5, alpha=0.3)
    centre, covariance = fits[j]
    ring = np.linalg.cholesky(covariance) @ circle(turn).T * np.sqrt(-2 * np.log(0.05))
    ring = 1000 * (ring + (centre - whole)[:, None])
    axes.plot(ring[1], ring[0], color="black", lw=1, label="least squares, 95 %")
    axes.plot(0, 0, "+", color="tab:red", ms=12, mew=2, label="whole degrees")
    axes.set(
        title=hour, xlabel=f"azimuth − {whole[1]:.0f}°, in .001°", xlim=(-16, 16), ylim=(-3, 3)
    )
    axes.set_ylabel(f"altitude − {whole[0]:.0f}°, in .001°")
axes.legend(loc="upper right", fontsize=8)
fig.tight_layout()

# %% [markdown]
# These are the numbers of the real sky. The declination of the sun at the summer solstice is
# 23.44°, and these forests lie between 40° and 41° north. But the real sun stands at these three
# points at 9:56, 12:56 and 15:56 of solar time there, an hour later than the labels of the data set
# say.
#
# The last three panels show the draws, in thousandths of a degree. They agree with the ellipses of
# least squares. Yet the whole degrees (red) are not always inside. With half a million rows, the
# posterior is so narrow that small errors of the model can be seen: errors of rounding are not
# normal, and they are larger on steep slopes than on flat ones. Such intervals hold for the model,
# and not for the world.
#
# ## In short
#
# - **Which sampler?** For data in minibatches, `sggmc`: with control variates if the posterior has
#   one dominant mode, and with `gradient_noise` otherwise. `gsgnht`, if you do not want to estimate
#   V. For small data, and to check the others, `gmc`. In `mixed`, `SGGMC` moves directions while
#   other samplers move the rest ([`vmf_mixture`](vmf_mixture.md)).
# - **Which step?** ε is a time, and a velocity is about 1 in each direction. So a step moves by
#   about ε, on a sphere in radians. Take a third of the smallest standard deviation, and less if
#   gradients are noisy: 2C should be above εV. `draws.stats["temperature"]` shows whether noise has
#   heated the chain.
# - **Several modes.** Chains do not cross wide valleys. Start many of them, far apart.
# - **Priors.** A flat one is uniform on the manifold. Divide a density of latitude and longitude by
#   the cosine of the latitude.
