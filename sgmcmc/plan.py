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

from . import __version__, checks, tree
from .cores import check_fork
from .dynamics import Dynamics
from .dynamics.mixed import Mixed
from .dynamics.probabilities import MovesByCounts
from .estimators import Data, Estimator
from .estimators.control_variate import ControlVariate
from .estimators.gradient import Gradient
from .gibbs import Gibbs
from .mode import find_mode
from .model import Model
from .operations import in_turn
from .programs import programs_of
from .sampler import Sampler, assemble
from .source import Source
from .spaces import Chart, Space
from .spaces.constrained import spaces
from .streams import RENEWAL, stream

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
    schedule: list[float | Callable[[int], float]]
    temperature: float | Callable[[int], float]
    n_chains: int | None
    shared_minibatches: bool
    seed: int
    settings: dict[str, Any]
    jit: bool
    verbose: bool


def planned(
    name: str,
    dynamics: Dynamics,
    estimator: Estimator | None,
    log_lik: Callable[[dict, dict], Any] | None,
    dataset: Mapping[str, Any] | Any,
    params: Mapping[str, Any],
    stepsize: float | Callable[[int], float] | Mapping[str, Any],
    log_prior: Callable[[dict], Any] | None = None,
    minibatch_size: int | float = 0.01,
    *,
    gradient: str | Estimator = "plain",
    constrain: Mapping[str, Any] | None = None,
    temperature: float | Callable[[int], float] = 1.0,
    n_chains: int | None = None,
    starts: Mapping[str, Any] | None = None,
    shared_minibatches: bool = False,
    dtype: str = "float32",
    jit: bool = True,
    seed: int | None = None,
    verbose: bool = True,
) -> Plan:
    """Check the arguments, and try the model.

    Parameters
    ----------
    dynamics : Dynamics
        How the chain moves, such as `SGLD()`.
    log_lik : function of (params, data)
        The log likelihood summed over the rows of `data`, a minibatch of `dataset` with the same
        names, in TensorFlow operations.
    dataset : dict of arrays or DataFrame
        The data: arrays that share their first axis, the rows; or a DataFrame, whose columns are
        such arrays. Floating-point numbers are converted to `dtype`; integers and booleans stay as
        they are. An `np.memmap`, or another array outside memory that can be sliced (of h5py,
        zarr, ...), is read as it is needed. Arrays that need no conversion are not copied: do not
        change them while the sampler is in use.
    params : dict of arrays
        Starting values by name, of any shape. The dict may be nested.
    stepsize : float, function or dict
        The step size (ε, or h for samplers of probabilities); or a schedule, a function of the
        iteration 0, 1, ... such as `decay(1e-4, tau=1000, kappa=0.55)`; or a dict of these by
        parameter.
    log_prior : function of params, optional
        The log prior density up to a constant. Flat by default.
    minibatch_size : int or float
        Rows in a minibatch: a count, or a proportion of all rows if below 1. They are drawn without
        replacement.
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
    temperature : float or function
        A number T, or a schedule of T, a function of the iteration 0, 1, ...: the chain samples the
        posterior to the power of 1/T. At T = 0 it climbs to a mode.
    n_chains : int, optional
        Run this many independent chains at once; all draws get a leading axis of that length.
        `tf.vectorized_map` maps `log_lik` over them: no shape may depend on the values of data or
        parameters, as with `tf.boolean_mask`. With `tf.cond`, chains are evaluated one by one.
    starts : dict of arrays, optional
        Starting values of each chain: like `params` with a leading axis of length `n_chains`.
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
    settings = {"sampler": name, "stepsize": printable(stepsize), "N": source.N}
    settings["minibatch_size"] = n
    if estimator is None:
        settings["gradient"], estimator = printable(gradient), estimator_of(gradient)
    own = vars(dynamics), vars(estimator)
    settings |= printable({k: v for part in own for k, v in part.items()})
    dynamics, estimator = checks.own(dynamics, params), checks.own(estimator, params)
    estimator.check(source.N)
    chart = chart_of(constrain, dynamics, params)
    moving, gibbs = without_gibbs(dynamics)
    temperature = checks.temperature(temperature)
    check_parts(moving, gibbs, chart, estimator, temperature)
    if gibbs and isinstance(stepsize, Mapping):
        stepsize = {k: h for k, h in stepsize.items() if k not in gibbs}
    h = checks.stepsize(stepsize, {k: x for k, x in params.items() if k not in gibbs})
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

    x, counters = chart.inverse(params), moves_by_counts(moving).counters()
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
    programs = programs_of(*parts, moving, dict(gibbs), checks.without_start(estimator))
    model = Model(chart, log_lik, log_prior, calls, counted, in_turn(types), jit, programs)
    settings |= {
        "constrain": printable(constrain),
        "temperature": printable(temperature),
        "n_chains": n_chains,
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
        *(tree.leaves(h), temperature, n_chains, shared_minibatches),
        *(seed, settings, jit, verbose),
    )


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


class NoCounts:
    """Takes the place of a dynamics that moves no parameter by counts."""

    def spaces(self, params: Any) -> Any:
        return {}

    def counters(self) -> list:
        return []


def moves_by_counts(dynamics: Dynamics) -> MovesByCounts:
    """Return the dynamics if it defines spaces for its parameters, otherwise `NoCounts()`."""
    return dynamics if isinstance(dynamics, MovesByCounts) else NoCounts()


def without_gibbs(dynamics: Dynamics) -> tuple[Dynamics, dict[str, Callable]]:
    """Split a dynamics into that of the moving parameters, and the functions of Gibbs steps."""
    if not isinstance(dynamics, Mixed):
        return dynamics, {}
    gibbs = {k: b.draw for k, b in dynamics.blocks.items() if isinstance(b, Gibbs)}
    return Mixed({k: b for k, b in dynamics.blocks.items() if k not in gibbs}), gibbs


def chart_of(constrain: Any, dynamics: Dynamics, params: Any) -> Chart:
    """Return the spaces of all parameters: those of the dynamics, and those of `constrain`."""
    own = moves_by_counts(without_gibbs(dynamics)[0]).spaces(params)
    given = spaces(constrain, params)
    for name in constrain or {}:
        if name in own:
            raise ValueError(
                f"constrain names {name!r}, which its sampler moves in a space of its own: leave "
                "it out of constrain"
            )
        if name in without_gibbs(dynamics)[1]:
            raise ValueError(
                f"constrain names {name!r}, which a Gibbs step draws: what its function returns is "
                "taken as it is, so leave it out of constrain"
            )
    return Chart({k: own.get(k, given[k]) for k in params})


def check_parts(
    dynamics: Dynamics, gibbs: Any, chart: Chart, estimator: Estimator, temperature: Any
) -> None:
    """Check that the parts of a sampler can be combined."""
    by_counts = any(tree.leaves(chart.has_counts))
    if isinstance(estimator, ControlVariate) and (gibbs or by_counts):
        raise ValueError(
            "gradient='control_variates' needs parameters that all move by gradients of the log "
            "posterior, but some are probabilities, or drawn by Gibbs steps: take 'plain', or "
            "scircv for probabilities"
        )
    if by_counts and temperature != 1:
        raise ValueError(
            "temperature must be 1 with probabilities that move by counts, as in SCIR and SGRLD"
        )


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


def set_up(plan: Plan) -> Sampler:
    """Find the mode if the estimator needs it, and make the sampler."""
    model, source, n, estimator = plan.model, plan.source, plan.n, plan.estimator
    search = partial(find_mode, model, source, n, plan.seed, verbose=plan.verbose)
    mode = estimator.start(model.chart.inverse(plan.params), search)
    x = plan.starts
    if x is None:
        x = tree.map(lambda a: np.repeat(a[None], plan.n_chains or 1, axis=0), mode.x)
    if plan.statistic is not None:
        x = each_start(lambda x: model.chart.place(x, plan.statistic), x)
    x = tree.map(tf.constant, x)
    data, settings = Data(source, n, stream(plan.seed, RENEWAL)), dict(plan.settings)
    state = estimator.init(model, x, data, mode)
    if "mode" in settings:
        seen = tree.map(np.asarray, model.chart.forward(mode.x))
        settings["mode"] = printable(seen)
    return assemble(
        *(model, estimator, plan.dynamics, x, source, n, plan.schedule, plan.seed),
        estimator_state=state,
        gibbs=plan.gibbs,
        temperature=plan.temperature,
        n_chains=plan.n_chains,
        shared_minibatches=plan.shared_minibatches,
        settings=settings,
        jit=plan.jit,
        verbose=plan.verbose,
    )


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
