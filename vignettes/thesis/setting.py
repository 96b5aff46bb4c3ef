"""Shared by the figures: models, data, lengths of runs, tables, and the style of pictures."""

import io
import os
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import sgmcmc
import tensorflow as tf
import tensorflow_probability as tfp

QUICK = os.environ.get("SGMCMC_QUICK") == "1"  # tiny: the tests run all this in seconds
PLAIN, CV = ("sgld", "sghmc", "sgnht"), ("sgldcv", "sghmccv", "sgnhtcv")
COLOURS = {
    "sgld": "#E69F00",
    "sghmc": "#56B4E9",
    "sgnht": "#009E73",
    "sgldcv": "#D55E00",
    "sghmccv": "#0072B2",
    "sgnhtcv": "#CC79A7",
    "NUTS": "#222222",
}

plt.style.use(Path(__file__).parents[1] / "figures.mplstyle")


# Runs


def sampler(name):
    """Return a sampler of the package, without output, as in the thesis."""
    rate = {"thermostat_rate": "stepsize"} if "sgnht" in name else {}
    of_the_thesis = {"minibatches": "independent", **rate}
    return partial(getattr(sgmcmc, name), verbose=False, jit=not QUICK, **of_the_thesis)


def lengths(name):
    """Return n_iters and burn_in of section 4.6. SGHMC, with five minibatches each, has a fifth."""
    n = 20 if QUICK else 2_000 if "sghmc" in name else 10_000
    return n, 0 if name in CV else n


class Run(NamedTuple):
    """How well the draws of a sampler predict test rows."""

    name: str
    stepsize: float
    single: np.ndarray  # log loss of every tenth draw
    mean: np.ndarray  # log loss of the mean prediction of the draws so far
    temperature: dict
    seconds: float

    def plot(self, axis, losses):
        """Plot losses against the thousands of minibatches seen."""
        thousands = np.arange(1, len(losses) + 1) * (0.05 if "sghmc" in self.name else 0.01)
        axis.plot(thousands, losses, color=COLOURS[self.name], lw=1, label=self.name)
        axis.set(xlabel="minibatches seen, thousands")


def runs(printed, retuned, **model):
    """Run each sampler with the thesis's step size, and with a retuned one if there is one."""
    both = [
        (name, stepsize)
        for name in (*PLAIN, *CV)
        for stepsize in (printed[name], retuned.get(name))
        if stepsize and not (QUICK and name in retuned and stepsize == printed[name])
    ]
    return [run(name, stepsize, **model) for name, stepsize in both]


def run(name, stepsize, log_p, log_prior, train, test, start, search):
    """Run as in sections 4.6.2 and 4.6.3; `search` has the arguments that find the centre."""
    n_iters, burn_in = lengths(name)
    began = time.perf_counter()
    draws = sampler(name)(
        log_lik=summed(log_p),
        dataset=train,
        params=start,
        stepsize=stepsize,
        log_prior=log_prior,
        minibatch_size=500,
        n_iters=n_iters,
        burn_in=burn_in,
        thin=10,
        keep=[],
        track={"log_p": lambda params: log_p(params, test)},
        seed=1,
        **(search if name in CV else {}),
    )
    seconds, temperature = time.perf_counter() - began, draws.stats.get("temperature", {})
    return Run(name, stepsize, *losses(draws["log_p"]), temperature, seconds)


def nuts(log_density, starts, n_iters, n_adapt, step_size, seed):
    """Return draws (n_iters, *starts.shape) of TFP's NUTS, in double precision and with XLA."""
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
        tfp.mcmc.NoUTurnSampler(log_density, step_size=np.float64(step_size)),
        num_adaptation_steps=n_adapt,
    )

    def sample():
        return tfp.mcmc.sample_chain(
            n_iters,
            tf.constant(starts, tf.float64),
            kernel=kernel,
            num_burnin_steps=n_adapt,
            trace_fn=None,
            seed=seed,
        )

    return tf.function(sample, jit_compile=True).get_concrete_function()().numpy()


# Models: the log likelihood of each row


def summed(log_p):
    """Return the log likelihood for the samplers, a sum over rows."""
    return lambda params, data: tf.reduce_sum(log_p(params, data))


def logistic(params, data):
    """Return log p(y | x) of each row in logistic regression."""
    logits = tf.linalg.matvec(data["X"], params["beta"]) + params["bias"]
    return -tf.nn.sigmoid_cross_entropy_with_logits(labels=data["y"], logits=logits)


def laplace(params):
    """Return the log density of independent Laplace(0, 1) priors, up to a constant."""
    return -tf.reduce_sum(tf.abs(params["beta"])) - tf.abs(params["bias"])


def losses(log_p):
    """Return the log losses of each draw and of the mean prediction so far, from (draws, rows)."""
    log_p = np.asarray(log_p, float)
    draws = np.arange(1, len(log_p) + 1)
    return -log_p.mean(axis=1), np.log(draws) - np.logaddexp.accumulate(log_p).mean(axis=1)


# Data


def split(data, order, n):
    """Return all but the first n rows in this order, and those n as tensors."""
    return (
        {k: v[order[n:]] for k, v in data.items()},
        {k: tf.constant(v[order[:n]]) for k, v in data.items()},
    )


def covertype(seed):
    """Return the rows for training, and 10,000 random ones for tests."""
    if QUICK:
        rng = np.random.default_rng(0)
        X = rng.random((100_000, 54), np.float32)
        y = rng.random(100_000) < 1 / (1 + np.exp(2 * (X[:, 1] - X[:, 0])))
        data, n = {"X": X, "y": y.astype(np.float32)}, 1_000
    else:
        data, n = sgmcmc.get_dataset("covertype"), 10_000
    return split(data, np.random.default_rng(seed).permutation(len(data["y"])), n)


def mnist():
    """Return 55,000 images for training, 5,000 for validation, 10,000 for tests."""
    if QUICK:
        rng = np.random.default_rng(0)
        y = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 2_000)]
        X = rng.random((2_000, 784), np.float32)
        data, test, n = {"X": X, "y": y}, {"X": X[:500], "y": y[:500]}, 500
    else:
        found = sgmcmc.get_dataset("mnist")
        data, test = ({k: found[part][k] for k in ("X", "y")} for part in ("train", "test"))
        n = 5_000
    train, validation = split(data, np.roll(np.arange(len(data["y"])), n), n)
    return train, validation, {k: tf.constant(v) for k, v in test.items()}


# Results


def judge(runs, printed, heat_of, best, rival):
    """Print a table of runs: log losses, also less the rival's, and a parameter's temperature."""
    table(
        [
            *("sampler", "ε", "single draws, mean", "range", "mean prediction", f"less {rival}'s"),
            *(f"temperature of {heat_of}", "seconds"),
        ],
        [
            [
                run.name,
                f"{run.stepsize:g}" + ("" if run.stepsize == printed[run.name] else ", retuned"),
                f"{run.single.mean():.4f}",
                f"{run.single.min():.4f} – {run.single.max():.4f}",
                f"{run.mean[-1]:.4f}",
                f"{run.mean[-1] - best:+.4f}",
                f"{run.temperature[heat_of].mean():.3g}" if run.temperature else "",
                f"{run.seconds:.1f}",
            ]
            for run in runs
        ],
    )


def table(head, rows):
    """Print a Markdown table."""
    print(f"\n| {' | '.join(head)} |\n|---|{'---:|' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    print(flush=True)


def spread(x, form=".3f"):
    """Format the median and the range."""
    return f"{np.median(x):{form}} ({np.min(x):{form}} – {np.max(x):{form}})"


def save(figure, name):
    """Write the picture beside this file; a quick run draws it but does not keep it."""
    figure.savefig(io.BytesIO() if QUICK else Path(__file__).parent / f"{name}.png", format="png")
    plt.close(figure)
