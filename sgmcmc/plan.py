"""Check the arguments of a sampler (`planned`), and then set it up (`set_up`).

The parameters of `planned` are the arguments that all samplers share. `describe.py` joins them with
each sampler's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import __version__, checks, combinations, tree
from .charts import chart_of, counters_of, without_gibbs
from .cores import check_fork
from .dynamics import Dynamics
from .dynamics.geodesic import Geodesic
from .dynamics.psgld import PSGLD
from .dynamics.scir import SCIR
from .dynamics.sghmc import FRICTION
from .estimators import Estimator
from .estimators.control_variate import ControlVariate
from .estimators.gradient import Gradient
from .fingerprint import digest
from .in_order import Stream, StreamSource, of_tensorflow
from .minibatches import Strata
from .model import Model
from .operations import in_turn
from .programs import Programs, programs_of
from .progress import Report
from .source import Source
from .spaces import Space

AUTO = 500  # rows in a minibatch before its size is chosen
FEW = 2  # rows on which functions that draw random numbers are tried
PROBE_BYTES = 1 << 20  # of data, on which the model is tried before anything is compiled
GRADIENTS = {"plain": Gradient(), "control_variates": ControlVariate()}


class Plan(NamedTuple):
    """The parts of a sampler, after all arguments were checked and the model was tried."""

    model: Model
    source: Source
    n: int
    estimator: Estimator
    dynamics: Dynamics
    gibbs: Mapping[str, Callable]
    params: Any  # starting values as the user sees them
    starts: Any  # chart coordinates of each chain; None: the estimator chooses the start
    statistic: Any  # what `starting_statistic` returns
    schedule: list[Any] | None  # numbers, arrays (chains,) or functions; None: to be chosen
    precondition: Any  # a word, a matrix or its diagonal, or None
    covered: tuple[str, ...]  # the parameters that it is of
    bias: float
    rescale: bool
    is_auto: bool  # whether n is to be chosen
    temperature: float | Callable[[int], float]
    n_chains: int | None
    minibatches: str | Strata
    shared_minibatches: bool
    seed: int
    is_any_seed: bool  # whether the user left it open
    settings: dict[str, Any]
    jit: bool
    verbose: bool | Callable
    programs: Callable[[Dynamics], Programs]

    @property
    def needs_mode(self) -> bool:
        """Whether coordinates or step sizes are chosen at the mode."""
        by_counts = isinstance(self.dynamics, SCIR)
        return (self.schedule is None and not by_counts) or isinstance(self.precondition, str)


def planned(
    name: str,
    dynamics: Dynamics,
    estimator: Estimator | None,
    log_lik: Callable[[dict, dict], Any] | None,
    dataset: Mapping[str, Any] | Any,
    params: Mapping[str, Any],
    stepsize: float | Callable[[int], float] | Mapping[str, Any] | None = None,
    log_prior: Callable[[dict], Any] | None = None,
    minibatch_size: int | float | str = 0.01,
    *,
    gradient: str | Estimator = "plain",
    constrain: Mapping[str, Any] | None = None,
    precondition: str | Mapping[str, Any] | np.ndarray | None = "auto",
    bias: float = 0.05,
    rescale: bool = False,
    temperature: float | Callable[[int], float] = 1.0,
    n_chains: int | None = None,
    starts: Mapping[str, Any] | None = None,
    minibatches: str | np.ndarray = "auto",
    shared_minibatches: bool = False,
    dtype: str = "float32",
    jit: bool = True,
    seed: int | None = None,
    verbose: bool | Callable[[Report], None] = True,
) -> Plan:
    """Check the arguments, and try the model.

    Parameters
    ----------
    dynamics : Dynamics
        How the chain moves, such as `SGLD()`.
    log_lik : function of (params, data)
        The log likelihood summed over the rows of `data`, a minibatch of `dataset` with the same
        names, in TensorFlow operations.
    dataset : dict of arrays, table or stream
        The data: arrays that share their first axis, the rows; or a DataFrame, a table or a dataset
        of pyarrow, whose columns are such arrays. Floating-point numbers are converted to `dtype`;
        integers and booleans stay as they are. An `np.memmap`, or another array outside memory that
        can be sliced (of h5py, zarr, dask, ...), is read as it is needed, and so are Parquet files:
        `parquet(path, X=["a", "b"], y="y")`. `stream` has rows in the order in which they come,
        from any iterator. A `tf.data.Dataset` of rows is one, too. Arrays that need no conversion
        are not copied: do not change them while the sampler is in use.
    params : dict of arrays
        Starting values by name, of any shape. The dict may be nested.
    stepsize : float, function or dict, optional
        The step size (ε, or h for samplers of probabilities); or a schedule, a function of the
        iteration 0, 1, ... such as `decay(1e-4, tau=1000, kappa=0.55)`; or a dict of these by
        parameter. None: a step size is chosen for each direction at the mode of the log posterior,
        so that the variance of the draws is at most 1 + `bias` times the posterior's. Chains then
        start at the mode, unless there are `starts`. The choice and the effective draws to expect
        from it are in `settings["tuning"]`.
    log_prior : function of params, optional
        The log prior density up to a constant. Flat by default.
    minibatch_size : int, float, "all" or "auto"
        Rows in a minibatch: a count, or a proportion of all rows if below 1. They are drawn without
        replacement. "all": all rows. "auto", if no step size is given: the size with which most
        effective draws a second are expected. It is measured, so it differs between machines: pass
        on what is in `settings` to have the same draws.
    gradient : {"plain", "control_variates"} or Estimator
        How the gradient is estimated from a minibatch: from its rows alone; relative to the
        gradient near the mode, as in `sgldcv`; or by an estimator object, such as
        `ControlVariate(opt_stepsize=1e-5)` or one of your own.
    constrain : dict, optional
        Constraints by parameter: `"positive"`, `"unit"` (between 0 and 1), a bijector of TensorFlow
        Probability that maps to the allowed values, such as `tfp.bijectors.CorrelationCholesky()`,
        or a `Space`. `params`, draws, and the arguments of `log_lik` and `log_prior` are
        constrained values, and `log_prior` is a density of these. The sampler moves in
        unconstrained coordinates, to which step sizes refer, and adds the Jacobian itself.
    precondition : str, array, dict or None
        The coordinates in which the chain moves, and to which step sizes refer. `"hessian"`: the
        posterior has about variance 1 in all directions, by the curvature at its mode. `"fisher"`:
        the same by the covariance of the gradients of single rows. `"diagonal"`: each coordinate is
        scaled by itself. A matrix: the covariance that counts as 1, of all unconstrained
        coordinates laid end to end, their parameters in alphabetical order. A dict of scales by
        parameter. None: parameters as they are. The default is `"hessian"` if no step size is
        given, and else None. (`psgld` has scales of its own: for it, the default is None.) Chosen
        step sizes differ between directions where the posterior's variances in these coordinates
        are within a tenth of 1, and else all directions have one.
        In coordinates that are not those of single parameters, statistics by parameter and
        constants such as `alpha` belong to as many directions.
    bias : float
        If no step size is given: the share of the posterior's variance by which that of the draws
        may be wrong. The bound is exact for a Gaussian posterior.
    rescale : bool
        If no step size is given: shrink draws towards the mode by the factor by which they are
        expected to be too wide.
    temperature : float or function
        A number T, or a schedule of T, a function of the iteration 0, 1, ...: the chain samples the
        posterior to the power of 1/T. At T = 0 it climbs to a mode.
    n_chains : int, optional
        Run this many independent chains at once; all draws get a leading axis of that length.
        `tf.vectorized_map` maps `log_lik` over them: no shape may depend on the values of data or
        parameters, as with `tf.boolean_mask`. With `tf.cond`, chains are evaluated one by one.
    starts : dict of arrays, optional
        Starting values of each chain: like `params` with a leading axis of length `n_chains`.
    minibatches : {"auto", "reshuffled", "independent"} or array
        How minibatches are drawn. "reshuffled": in turn from the rows in random order, so that each
        row is looked at once in an epoch. What is noise in one step is then taken back in others of
        the same epoch, and draws are less wide. "independent": anew for each step. "auto" is
        "reshuffled", but for thermostats, and where gradient noise is estimated: these need noise
        that is independent from step to step. An array has a number for each row, such as its
        category: stratified. The rows are sorted by these numbers and cut into n equal parts, and
        each minibatch has one row of each, drawn anew. Where gradients are alike in rows with like
        numbers, little noise is left. Step sizes are still chosen as for simple random samples.
        Chains share the minibatches of an epoch, and take them in orders of their own. If there are
        only a few of these, chains are not quite independent. A copy of the data in shuffled order
        is kept in memory for fast access, up to 1 GB. Data outside memory are read and shuffled in
        parts of 32 MB, each of many pieces of 1 MB from all over the file: shuffle a sorted file
        beforehand.
    shared_minibatches : bool
        Use the same minibatches for all chains. With 4 to 32 chains, a chain's step is 2 to 6 times
        faster, but the chains are then dependent: R̂ and standard errors pooled over chains can no
        longer be trusted.
    dtype : {"float32", "float64"}
        The type of the parameters and of floating-point data. Single precision has 7 digits: a
        parameter near 10,000 that is known to .001 needs "float64", or centring.
    jit : bool
        Compile with XLA. If XLA does not know an operation, the sampler runs without XLA. XLA does
        not detect an index that is out of range, as in `tf.gather`: it takes the nearest row.
    seed : int, optional
        Fixes every random number: same seed, same draws. By default a new seed is drawn, and kept
        in the settings. A chain that starts where another one ended needs another seed, or it
        repeats the noise of the first. Draws are the same on processors of one kind, with the same
        versions of TensorFlow and NumPy. On others, vector instructions and the code that XLA
        writes for them round differently, and chains with the same seed drift apart after a while.
    verbose : bool or function
        Show progress, on the standard error stream. Or a function of a `Report`, which is called
        ten times a second with how far the run, or the search for the mode, has come.
    """
    check_fork()
    dtype, jit = checks.dtype(dtype), checks.boolean("jit", jit)
    verbose = checks.verbose("verbose", verbose)
    shared_minibatches = checks.boolean("shared_minibatches", shared_minibatches)
    is_any_seed, seed = seed is None, checks.seed(seed)
    params = checks.params(params, dtype)
    source = source_of(dataset, dtype)
    minibatches = checks.minibatches(minibatches, source.N)
    is_auto = isinstance(minibatch_size, str) and minibatch_size == "auto"
    sizes = {"auto": min(AUTO, source.N), "all": source.N}
    if isinstance(minibatch_size, str):
        minibatch_size = sizes.get(minibatch_size, minibatch_size)
    n = checks.minibatch_size(minibatch_size, source.N)
    if isinstance(dynamics, Geodesic):
        stepsize = dynamics.time_step(stepsize, source.N)
    settings = {"sampler": name, "stepsize": printable(stepsize), "N": source.N}
    settings["minibatch_size"] = n
    if estimator is None:
        settings["gradient"], estimator = printable(gradient), estimator_of(gradient)
    own = vars(dynamics), vars(estimator)
    settings |= printable({k: v for part in own for k, v in part.items()})
    if settings.get("alpha", ()) is None:
        settings["alpha"] = FRICTION
    dynamics, estimator = checks.own(dynamics, params), checks.own(estimator, params)
    estimator.check(source.N)
    chart = chart_of(constrain, dynamics, params)
    moving, gibbs = without_gibbs(dynamics)
    if "row_probabilities" in settings:
        settings["row_probabilities"] = as_setting(estimator.row_probabilities)
    is_independent = moving.white_noise or estimator.row_probabilities is not None
    if source.buffer_rows is not None:
        least = 1 if is_auto else n
        combinations.check_stream(name, moving, estimator, minibatches, least, source.buffer_rows)
        settings["buffer_size"] = source.buffer_rows
    if minibatches == "auto":
        minibatches = "independent" if is_independent else "reshuffled"
    temperature = checks.temperature(temperature, combinations.unmoved(moving))
    combinations.check(moving, gibbs, chart, estimator, temperature, minibatches, n, source.N)
    if gibbs and isinstance(stepsize, Mapping):
        stepsize = {k: h for k, h in stepsize.items() if k not in gibbs}
    moved = {k: x for k, x in params.items() if k not in gibbs}
    h = None if stepsize is None else tree.leaves(checks.stepsize(stepsize, moved))
    if n_chains is not None:
        n_chains = checks.whole("n_chains", n_chains)
    if starts is not None:
        if n_chains is None:
            raise ValueError("starts needs n_chains: how many chains are there?")
        starts = checks.like_params("starts", starts, params, (n_chains,))
        starts = chart.check_each("starts", starts, n_chains)
    params = chart.check("params", params)
    if isinstance(estimator, ControlVariate) and estimator.mode is not None:
        mode = chart.inverse(chart.check("mode", estimator.mode))
        estimator = replace(estimator, mode=mode)

    x, counters = chart.inverse(params), counters_of(moving)
    has_own_scales = isinstance(moving, (SCIR, PSGLD))
    given = stepsize is not None or has_own_scales or chart.has_manifold
    precondition = checks.precondition(precondition, given, tree.size(x))
    bias = checks.number("bias", bias, above=0, below=1)
    rescale = checks.boolean("rescale", rescale)
    combinations.check_tuning(
        *(name, moving, estimator, temperature, stepsize, precondition, rescale, is_auto),
        *(minibatches, chart, tree.size(x)),
    )
    counted = frozenset(k for c in counters for k in (params if c.names is None else c.names))
    probe = source.probe(max(1, min(n, PROBE_BYTES // source.row_bytes)))
    few, inside = tree.map(lambda a: a[:FEW], probe), tree.map(np.asarray, chart.inside(x))
    types = checks.model(log_lik, log_prior, inside, probe, {*gibbs, *counted}, jit)
    for each in counters:
        checks.counter(*each, params, few, jit)
    for k, step in gibbs.items():
        checks.gibbs_step(f"blocks[{k!r}].draw", step, params[k], params, few, jit)

    calls = tuple(each.call for each in counters)
    parts = log_lik, log_prior, chart.spaces, calls, in_turn(types)
    programs = partial(programs_of, *parts, dict(gibbs), checks.without_start(estimator))
    model = Model(chart, log_lik, log_prior, calls, counted, in_turn(types), jit, programs(moving))
    covered = tuple(k for k in moved if not any(tree.leaves(chart.has_counts[k])))
    if isinstance(precondition, str) and len(covered) < len(params):
        raise ValueError(
            f"precondition={precondition!r} needs parameters that all move by gradients of the log "
            "posterior: give a covariance or a dict of scales for those that do, or None"
        )
    settings["precondition"] = printable(precondition)
    if precondition is not None and not isinstance(precondition, str):
        precondition = checks.coordinates(precondition, {k: x[k] for k in covered})
    settings |= {
        "constrain": printable(constrain),
        "temperature": printable(temperature),
        "n_chains": n_chains,
        "minibatches": as_setting(minibatches),
        "shared_minibatches": shared_minibatches,
        "dtype": dtype.name,
        "jit": jit,
        "seed": seed,
        "versions": {
            "sgmcmc": __version__,
            "tensorflow": tf.__version__,
            "numpy": np.__version__,
        },
    }
    return Plan(
        *(model, source, n, estimator, moving, gibbs, params),
        None if starts is None else each_start(chart.inverse, starts),
        starting_statistic(model, x, probe, source.N),
        *(h, precondition, covered, bias, rescale, is_auto),
        *(temperature, n_chains, minibatches, shared_minibatches),
        *(seed, is_any_seed),
        settings,
        jit,
        verbose,
        programs,
    )


def source_of(dataset: Any, dtype: tf.DType) -> Source:
    """Return the source of rows for the argument `dataset`."""
    if isinstance(dataset, Source):  # that this package has made
        return dataset
    if isinstance(dataset, tf.data.Dataset):
        dataset = of_tensorflow(dataset)
    if isinstance(dataset, Stream):
        return StreamSource(dataset, dtype)
    return Source(checks.dataset(dataset, dtype), dtype)


def as_setting(value: Any) -> Any:
    """Return an argument that may have a number for each row, with a checksum in place of these."""
    if isinstance(value, Strata):
        value = value.order
    return f"an array ({digest(value)})" if isinstance(value, np.ndarray) else value


def estimator_of(gradient: Any) -> Estimator:
    """Return the estimator for the argument `gradient`."""
    if isinstance(gradient, Estimator):
        return gradient
    if isinstance(gradient, str) and gradient in GRADIENTS:
        return GRADIENTS[gradient]
    wanted = f"{' or '.join(map(repr, GRADIENTS))}, or an estimator such as ControlVariate()"
    if isinstance(gradient, str):
        guess = checks.nearest(gradient, GRADIENTS)
        raise ValueError(f"gradient must be {wanted}, not {gradient!r}{guess}")
    raise TypeError(f"gradient must be {wanted}, not {checks.described(gradient)}")


def starting_statistic(model: Model, x: Any, rows: Any, N: int) -> Any:
    """Estimate the gradient at the start from a few rows; return None if no parameter has counts.

    Counts are also checked at a second point: where the likelihood has its maximum, counts of a
    wrong likelihood are 0 and would pass.
    """
    is_count, count = model.chart.has_counts, len(tree.leaves(rows)[0])
    if not any(tree.leaves(is_count)):
        return None
    if model.counters:
        key, count = tf.constant([0, 0]), min(count, FEW)
        rows = tree.map(lambda a: a[:FEW], rows)
        found = checks.counts(
            lambda x, rows: model.data(x, rows, key), x, rows, is_count, drawn=True
        )
    else:
        checks.counts(model.data, model.chart.elsewhere(x), rows, is_count, drawn=False)
        found = checks.counts(model.data, x, rows, is_count, drawn=False)
    prior = tree.map(lambda a: a.numpy(), model.prior(tree.map(tf.constant, x)).gradient)
    return tree.map(lambda a, b: a + N / count * b, prior, found)


def each_start(fn: Callable, starts: Any) -> Any:
    """Apply `fn` to the starting values of each chain."""
    count = len(tree.leaves(starts)[0])
    each = [fn(tree.map(lambda a: a[c], starts)) for c in range(count)]  # noqa: B023
    return tree.map(lambda *a: np.stack(a), *each)


def printable(value: Any) -> Any:
    """Return arguments in a form that can be stored: functions and objects by their `repr`."""
    if isinstance(value, Mapping):
        return {k: printable(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (str, bool, int, float, type(None))):
        return value
    is_object = callable(value) or is_dataclass(value) or isinstance(value, Space)
    return repr(value) if is_object else value
