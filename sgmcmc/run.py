"""Making a sampler and running it, for any dynamics and gradient estimator.

`setup` and `run` hold the arguments that all samplers share; `signatures.py` joins them with those
that are a sampler's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from . import checks, tree
from .collect import Memory
from .cores import check_fork
from .draws import Draws
from .dynamics import LOGARITHMIC
from .engine import as_tensor
from .estimators import above_zero, posterior, tilted
from .minibatch import Feeder, Source
from .mode import find_mode
from .operations import in_turn
from .progress import Progress
from .sampler import Sampler

FEW = 2  # rows on which functions that draw random numbers are tried
PROBE_BYTES = 1 << 20  # the model is tried on so much data before anything is compiled


def setup(
    name: str,
    dynamics: Any,
    estimator: Any,
    log_lik: Callable[[dict, dict], Any] | None,
    dataset: Mapping[str, Any] | Any,
    params: Mapping[str, Any],
    stepsize: float | Callable[[int], float] | Mapping[str, Any],
    log_prior: Callable[[dict], Any] | None = None,
    minibatch_size: int | float = 0.01,
    *,
    n_chains: int | None = None,
    starts: Mapping[str, Any] | None = None,
    shared_minibatches: bool = False,
    dtype: str = "float32",
    jit: bool = True,
    seed: int | None = None,
    verbose: bool = True,
) -> Sampler:
    """Check the arguments, find the mode where one is wanted, and return the sampler.

    Parameters
    ----------
    log_lik : function of (params, data)
        The log likelihood summed over the rows of `data`, a minibatch of `dataset` with the same
        names, in TensorFlow operations.
    dataset : dict of arrays or DataFrame
        The data: any number of arrays that share their first axis, the rows; or a DataFrame, whose
        columns are such arrays. Integers and booleans stay so, floating-point numbers become
        `dtype`. An `np.memmap`, or what is not in memory but can be sliced like it (of h5py, zarr,
        ...), is read as it is needed, and arrays that fit as they are are not copied: leave them
        alone while the sampler is in use.
    params : dict of arrays
        Starting values by name, of any shape. The dict may be nested.
    stepsize : float, function or dict
        The step size, ε or, for probabilities, h; or a schedule, a function of the iteration 0, 1,
        ... such as `decay(1e-4, tau=1000, kappa=0.55)`; or a dict of either by parameter.
    log_prior : function of params, optional
        The log prior density up to a constant. Flat by default.
    minibatch_size : int or float
        Rows a minibatch: a count, or a proportion of all rows if below 1. They are drawn without
        replacement.
    n_chains : int, optional
        Run so many independent chains at once; all draws get a leading axis of that length.
        `log_lik` is mapped over them by `tf.vectorized_map`: no shape may depend on the values of
        data or parameters, as with `tf.boolean_mask`. With `tf.cond`, chains take turns instead.
    starts : dict of arrays, optional
        Starting values of each chain: like `params` with a leading axis of length `n_chains`.
    shared_minibatches : bool
        Let all chains see the same minibatches. With 4 to 32 chains, a chain's step is 2 to 6 times
        faster, but chains then move together: R̂ and errors pooled over chains can no longer be
        trusted.
    dtype : {"float32", "float64"}
        The type of the parameters and of floating-point data. Single precision has 7 digits: a
        parameter near 10,000 that is known to .001 wants "float64", or to be centred.
    jit : bool
        Compile with XLA. Where XLA does not know an operation, the sampler runs without it. XLA
        does not see an index that is out of range, as in `tf.gather`: it takes the nearest row.
    seed : int, optional
        Fixes every random number: same seed, same draws. Otherwise a new one is drawn, and kept in
        the settings. A chain that starts where another one ended needs another seed, or it meets
        the noise of the first again. Draws are the same on processors of one kind, with the same
        versions of TensorFlow and NumPy. On others, vector instructions and the code that XLA
        writes for them round differently, and chains with the same seed part after a while.
    verbose : bool
        Show progress, on the standard error stream.
    """
    check_fork()
    dtype, jit = checks.dtype(dtype), checks.boolean("jit", jit)
    verbose = checks.boolean("verbose", verbose)
    shared_minibatches = checks.boolean("shared_minibatches", shared_minibatches)
    seed = checks.seed(seed)
    params = checks.params(params, dtype)
    source = Source(checks.dataset(dataset, dtype), dtype)
    n = checks.minibatch_size(minibatch_size, source.N)
    own = printable({**vars(dynamics), **vars(estimator)})
    dynamics, estimator = checks.own(dynamics, params), checks.own(estimator, params)
    estimator.check(source.N)
    h = checks.stepsize(dynamics.steps(stepsize), params)
    if n_chains is not None:
        n_chains = checks.whole("n_chains", n_chains)
    if starts is not None:
        if n_chains is None:
            raise ValueError("starts needs n_chains: how many chains are there?")
        starts = checks.like_params("starts", starts, params, (n_chains,))
    space = dynamics.space(params)
    params = checks.on_space("params", params, space)
    if starts is not None:
        starts = checks.on_space("starts", starts, space)
    probe = source.probe(max(1, min(n, PROBE_BYTES // source.row_bytes)))
    inside = tree.map(above_zero, params, space)
    types = checks.model(log_lik, log_prior, inside, probe, dynamics.free(params), jit)
    checks.keyed_functions(dynamics.functions(), params, tree.map(lambda x: x[:FEW], probe), jit)

    model = posterior(log_lik, log_prior, dynamics, in_turn(types))
    centre = estimator.start(params, partial(find_mode, model, source, n, seed, verbose=verbose))
    if starts is None:
        starts = tree.map(lambda x: np.repeat(x[None], n_chains or 1, axis=0), centre)
    statistic = starting_statistic(model, params, probe, space, source.N)
    theta = tree.map(tf.constant, dynamics.placed(starts, statistic))
    feeder = Feeder(source, n, dynamics, theta, h, seed, shared_minibatches)
    if "mode" in own:
        own["mode"] = printable(centre)
    settings = {
        "sampler": name,
        "stepsize": printable(stepsize),
        "N": source.N,
        "minibatch_size": n,
        **own,
        "n_chains": n_chains,
        "shared_minibatches": shared_minibatches,
        "dtype": dtype.name,
        "jit": jit,
        "seed": seed,
        "versions": {k: version(k) for k in ("sgmcmc", "tensorflow", "numpy")},
    }
    return Sampler(
        model,
        estimator,
        estimator.init(model, tree.map(tf.constant, centre), source),
        dynamics,
        theta,
        feeder,
        n_chains,
        jit,
        settings,
        verbose,
    )


def starting_statistic(model: Any, params: Any, rows: Any, space: Any, N: int) -> Any:
    """What a few rows say of the counts of all, at the start; None where there are none.

    Counts are looked at elsewhere, too: a likelihood may be at its maximum where the chain starts.
    """
    if all(x not in LOGARITHMIC for x in tree.leaves(space)):
        return None
    count = len(tree.leaves(rows)[0])
    if model.keyed:
        key = tf.constant([0, 0])
        rows, count = tree.map(lambda x: x[:FEW], rows), min(count, FEW)
        counts = checks.counts(lambda p, r: model.data(p, r, key), params, rows, space, drawn=True)
    else:
        elsewhere = tree.map(lambda x, s: tilted(x).numpy() if s == "simplex" else x, params, space)
        checks.counts(model.data, elsewhere, rows, space)
        counts = checks.counts(model.data, params, rows, space)
    prior = tree.map(lambda x: x.numpy(), model.prior(tree.map(tf.constant, params)).gradient)
    return tree.map(lambda a, x: a + N / count * x, prior, counts)


def printable(value: Any) -> Any:
    """Arguments as they can be stored: functions by their names."""
    if isinstance(value, Mapping):
        return {k: printable(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return repr(value) if callable(value) or is_dataclass(value) else value


def run(
    sampler: Sampler,
    n_iters: int = 10_000,
    *,
    burn_in: int = 0,
    thin: int = 1,
    track: Mapping[str, Callable[[dict], Any]] | None = None,
    keep: list[str] | None = None,
    out: str | Path | None = None,
    verbose: bool | None = None,
) -> Draws:
    """Run a sampler on from where it stands, and return its draws.

    Parameters
    ----------
    sampler : Sampler
        What `sgld_setup` or another `*_setup` returned.
    n_iters : int
        Iterations that count, after `burn_in`.
    burn_in : int
        Iterations before those that count.
    thin : int
        Keep one draw in so many.
    track : dict of functions, optional
        Test functions of `params`, evaluated in compiled code at each draw that is kept. Their
        values are returned along with the draws, under the names given here.
    keep : list of str, optional
        The parameters whose draws are kept; `[]` for none. All by default.
    out : path, optional
        An empty or new folder: the draws go to files there and not to memory, that of `beta` to
        `params/beta.npy`, for `np.load(..., mmap_mode="r")`. What a failed run did not reach is 0.
        Their space is allocated at the start, where the system can do so.
    verbose : bool, optional
        Show progress, on the standard error stream. As in the sampler's `*_setup` by default.

    Returns
    -------
    Draws
        The draws by name, (n_iters // thin, ...), or (n_chains, n_iters // thin, ...) with
        `n_chains`; their statistics and settings.

    Raises
    ------
    ChainDiverged
        Where a number becomes NaN or infinite. The exception's `draws` are those before. So are
        those of a KeyboardInterrupt, and of any other exception that ends the run.
    OSError
        Where the disk has no room for the draws in `out`. The exception's `draws` are those before.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> dataset = {"x": np.linspace(-1, 3, 1000)}
    >>> sampler = sgmcmc.sgld_setup(log_lik, dataset, {"mean": 1.0}, 1e-4, seed=1)
    >>> draws = sgmcmc.run(
    ...     sampler, 1000, burn_in=100, thin=10, verbose=False,
    ...     track={"squared": lambda params: params["mean"] ** 2},
    ... )
    >>> draws
    Draws(mean (100,), squared (100,); sgld, seed 1)
    >>> more = sgmcmc.run(sampler, 1000, verbose=False)  # goes on from there
    >>> more["mean"].shape
    (1000,)
    """
    here = get_params(sampler)
    verbose = sampler.verbose if verbose is None else verbose
    if sampler.n_chains:
        here = tree.map(lambda x: x[0], here)
    n_iters, burn_in, thin, track, keep, out, verbose = run_arguments(
        here, n_iters, burn_in, thin, track, keep, out, verbose
    )
    began = sampler.state.iteration
    memory = Memory(n_iters // thin, sampler.n_chains, out)
    settings = {**sampler.settings, "n_iters": n_iters, "burn_in": burn_in, "thin": thin}

    def draws() -> Draws:
        stats = memory.result()
        values = {**stats.pop("params"), **stats.pop("track", {})}
        stats |= {f"log_{name}": x for name, x in stats.pop("log", {}).items()}
        return Draws(values, stats, settings)

    try:
        with Progress(burn_in + n_iters, settings["sampler"], verbose) as progress:
            sampler.run(n_iters, [memory], keep, burn_in, thin, track, progress)
    except (Exception, KeyboardInterrupt) as stop:
        if isinstance(stop, KeyboardInterrupt):  # it may come between storing and going on
            gone = sampler.state.iteration - began - burn_in
            memory.filled = min(memory.filled, max(0, gone // thin))
        if memory.arrays is None:
            memory.abandon()
            memory = Memory(0, sampler.n_chains)
            memory.add(0, no_draws(sampler, keep, track, here))
        stop.draws = draws()
        raise
    return draws()


def no_draws(sampler: Sampler, keep: Any, track: Mapping[str, Callable], here: Any) -> dict:
    """All that a run collects, of no draws: arrays (0, chains, ...), by the sampler's state."""
    chain, (chains, dtype) = sampler.state.chain, (sampler.feeder.chains, sampler.feeder.dtype)
    theta = sampler.dynamics.position(chain)
    h = sampler.engine.per_parameter(theta, [1.0] * len(tree.leaves(theta)))
    like = sampler.engine.record(chain, tf.zeros(chains, dtype), h)
    like["params"] = {k: like["params"][k] for k in keep}
    if track:
        values = {k: as_tensor(fn)(tree.map(tf.constant, here)) for k, fn in track.items()}
        like["track"] = tree.map(lambda x: tf.repeat(x[None], chains, axis=0), values)
    return tree.map(lambda x: np.empty((0, *x.shape), x.dtype.as_numpy_dtype), like)


def run_arguments(
    params: Any,
    n_iters: Any,
    burn_in: Any,
    thin: Any,
    track: Any,
    keep: Any,
    out: Any,
    verbose: Any,
) -> tuple:
    """Check the arguments of a run, and fill in those left out."""
    check_fork()  # before functions to track are tried
    return (
        *checks.run_lengths(n_iters, burn_in, thin),
        checks.track(track, params),
        checks.keep(keep, params),
        checks.folder(out),
        checks.boolean("verbose", verbose),
    )


def step(sampler: Sampler, n: int = 1) -> None:
    """Advance a sampler by n iterations; the variables `sampler.params` follow.

    Parameters
    ----------
    sampler : Sampler
        What `sgld_setup` or another `*_setup` returned.
    n : int
        How many iterations. Many small calls give the same chain as one large one, more slowly.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> dataset = {"x": np.linspace(-1, 3, 1000)}
    >>> sampler = sgmcmc.sgld_setup(log_lik, dataset, {"mean": 1.0}, 1e-4, seed=1)
    >>> @tf.function
    ... def test_function():
    ...     return sampler.params["mean"] ** 2
    >>> values = []
    >>> for _ in range(5):
    ...     sgmcmc.step(sampler, 20)
    ...     values.append(float(test_function()))
    >>> all(0 < value < 2 for value in values)
    True
    """
    check_fork()
    of_setup(sampler).run(checks.whole("n", n))


def get_params(sampler: Sampler) -> dict[str, Any]:
    """The parameters where a sampler stands, as NumPy arrays.

    Parameters
    ----------
    sampler : Sampler
        What `sgld_setup` or another `*_setup` returned.

    Returns
    -------
    dict of arrays
        In the form of the `params` that it was given, with a leading axis where there are
        `n_chains`.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> dataset = {"x": np.linspace(-1, 3, 1000)}
    >>> sampler = sgmcmc.sgld_setup(log_lik, dataset, {"mean": 1.0}, 1e-4, seed=1)
    >>> float(sgmcmc.get_params(sampler)["mean"])
    1.0
    """
    return tree.map(lambda v: v.numpy(), of_setup(sampler).params)


def of_setup(sampler: Sampler) -> Sampler:
    """A sampler, and nothing else."""
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must come from a *_setup function, not {type(sampler).__name__}")
    return sampler
