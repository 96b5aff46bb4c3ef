"""Run a sampler, advance it step by step, and read its parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import checks, tree
from .collect import Memory
from .cores import check_fork
from .draws import Draws
from .engine import why_no_gradients
from .model import Model
from .progress import Progress, Report
from .sampler import Sampler, chosen, paired
from .store import identity, record
from .store.writing import Store, by_kind
from .watch import watch


class Wish(NamedTuple):
    """The arguments of a run, after they were checked."""

    n_iters: int
    burn_in: int
    thin: int
    track: Mapping[str, checks.Tracked]
    keep: list[str]
    keep_gradients: bool
    out: Path | None
    resume: bool
    flush: float
    verbose: bool | Callable


def run(
    sampler: Sampler,
    n_iters: int = 10_000,
    *,
    burn_in: int = 0,
    thin: int = 1,
    track: Mapping[str, Callable[[dict], Any]] | None = None,
    keep: list[str] | None = None,
    keep_gradients: bool = False,
    out: str | Path | None = None,
    resume: bool = False,
    flush: float = 30.0,
    verbose: bool | Callable[[Report], None] | None = None,
) -> Draws:
    """Run a sampler from its current state, and return the draws.

    Parameters
    ----------
    sampler : Sampler
        What `sgld_setup` or another `*_setup` returned.
    n_iters : int
        Iterations after `burn_in`.
    burn_in : int
        Iterations at the start, whose draws are not kept.
    thin : int
        Keep every `thin`-th draw.
    track : dict of functions, optional
        Test functions of `params`, evaluated in compiled code at each draw that is kept. Their
        values are returned along with the draws, under the names given here.
    keep : list of str, optional
        The parameters whose draws are kept; `[]` for none. All by default.
    keep_gradients : bool
        Keep with each draw the estimate of the gradient of the log posterior there, for
        `zero_variance`, as `draws.stats["gradients"]`. A draw is then the point at which the last
        step began, one step before what is kept otherwise. Not for parameters that move by counts
        or Gibbs steps, nor on manifolds.
    out : path, optional
        A new or empty folder, such as "chain.zarr", to which draws go as they come, instead of
        memory. `load_draws`, xarray and ArviZ read it, also while the run goes on (the latter two
        need zarr: `pip install 'sgmcmc[store]'`).
    resume : bool
        Go on with the run in `out`, if there is one: the chain is the one that would have been, had
        it never stopped. Of a sampler that goes step by step, append to its draws in `out`.
    flush : float
        After this many seconds, the draws in `out` and the state of the chains are committed: they
        survive whatever happens then. They are committed as well at the end, and where the run is
        interrupted or fails.
    verbose : bool or function, optional
        Show progress, on the standard error stream. Or a function of a `Report`, which is called
        ten times a second with how far the run has come. By default as in the sampler's `*_setup`.

    Returns
    -------
    Draws
        The draws by name, of shape (n_iters // thin, ...), or (n_chains, n_iters // thin, ...) with
        `n_chains`; with their statistics and settings.

    Raises
    ------
    ChainDiverged
        If a number becomes NaN or infinite. The exception's attribute `draws` has the draws before.
        A KeyboardInterrupt, and any other exception that ends the run, has it too.
    OSError
        If the disk does not take the draws in `out`. The exception's `draws` has those before.

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
    here, verbose = get_params(sampler), sampler.verbose if verbose is None else verbose
    if sampler.n_chains:
        here = tree.map(lambda x: x[0], here)
    of_draws = track, keep, keep_gradients
    wished = wish(here, n_iters, burn_in, thin, *of_draws, out, resume, flush, verbose)
    engine = sampler.engine
    check_gradients(wished, engine.model, engine.gibbs, engine.tempered)
    return collect(sampler, wished, appended_to(sampler, wished))


class Part(NamedTuple):
    """A run that goes on with another one.

    It began at iteration `origin`, and the store with this record has `base` draws from before.
    """

    origin: int
    base: int
    known: dict[str, Any]


def appended_to(sampler: Sampler, wish: Wish) -> Part | None:
    """The store to which a sampler that goes step by step appends; None if it is a new one."""
    known = stored(wish)
    if known is None:
        return None
    identity.check(known["identity"], sampler.identity(), str(wish.out))
    if known["iteration"] != sampler.state.iteration:
        raise ValueError(
            f"out: {str(wish.out)!r} ends at iteration {known['iteration']:,}, and the sampler is "
            f"at {sampler.state.iteration:,}: make it by *_setup(..., resume={str(wish.out)!r})"
        )
    return Part(sampler.state.iteration, known["draws"], known)


def stored(wish: Wish) -> dict[str, Any] | None:
    """The record of the store in `out`, if there is one to go on with."""
    known = None if wish.out is None else record.read(wish.out)
    if known is not None and not wish.resume:
        raise ValueError(
            f"out: {str(wish.out)!r} has {known['draws']:,} draws of a run already: pass "
            "resume=True to go on with it, or another path"
        )
    return known


def collect(
    sampler: Sampler,
    wish: Wish,
    part: Part | None = None,
    watched: bool = True,
    advance: Callable | None = None,
) -> Draws:
    """Run a sampler, and return its draws. Warn of doubtful ones, if they are to be `watched`.

    `advance` takes the place of `sampler.run`, if chains run elsewhere.
    """
    n_iters, burn_in, thin, track, keep, keep_gradients, out, _, flush, verbose = wish
    lengths = {"n_iters": n_iters, "burn_in": burn_in, "thin": thin}
    settings = {**sampler.settings, **lengths}
    origin = sampler.state.iteration if part is None else part.origin
    base = 0 if part is None else part.base
    collector: Memory | Store = Memory(n_iters // thin, sampler.n_chains)
    try:
        if out is not None:
            run = {"origin": origin, "base": base, **lengths}
            known = None if part is None else part.known
            collector = Store(out, sampler, settings, run, flush, known)
            if part is not None:
                collector.expect(list(by_kind(no_draws(sampler, wish))))
        done = sampler.state.iteration - origin
        with Progress(burn_in + n_iters, settings["sampler"], verbose, done) as progress:
            span = burn_in, thin, track, progress, origin
            (advance or sampler.run)(n_iters, [collector], keep, *span, keep_gradients)
            collector.end(sampler)
    except (Exception, KeyboardInterrupt) as stop:
        if isinstance(stop, KeyboardInterrupt):  # may come before the state is updated
            gone = sampler.state.iteration - origin - burn_in
            collector.forget_after(max(0, gone // thin))
        if collector.is_empty:
            collector.add(0, no_draws(sampler, wish))
        with contextlib.suppress(OSError):  # which the user is told already
            collector.end(sampler, complete=False)
        stop.draws = collector.draws(sampler, settings)  # type: ignore[union-attr]  # our own
        raise
    finally:
        collector.close()
    found = collector.draws(sampler, settings)
    if watched and not (part is not None and part.known["complete"]):
        watch(sampler, found)
    return found


def no_draws(sampler: Sampler, wish: Wish) -> dict[str, Any]:
    """Return all that a run collects, but without draws: arrays of shape (0, chains, ...)."""
    engine, steps = sampler.engine, sampler.feeder.steps_at(None)
    if wish.keep_gradients:
        engine = sampler.gradients
    like = paired(engine.traced_like(sampler.state.chain, tf.ones_like(steps)))
    here = tree.map(lambda x: x[0], like["params"])
    like = chosen(like, wish.keep)
    if wish.track:
        values = {k: test.program(here) for k, test in wish.track.items()}
        like["track"] = tree.map(lambda x: tf.repeat(x[None], engine.chains, axis=0), values)
    return tree.map(lambda x: np.empty((0, *x.shape), x.dtype.as_numpy_dtype), like)


def wish(
    params: Any,
    n_iters: Any,
    burn_in: Any,
    thin: Any,
    track: Any,
    keep: Any,
    keep_gradients: Any,
    out: Any,
    resume: Any,
    flush: Any,
    verbose: Any,
) -> Wish:
    """Check the arguments of a run, and fill in those left out."""
    check_fork()  # before functions to track are tried
    resume = checks.boolean("resume", resume)
    if resume and out is None:
        raise ValueError("resume=True needs out: the folder of the run to go on with")
    return Wish(
        *checks.run_lengths(n_iters, burn_in, thin),
        checks.track(track, params),
        checks.keep(keep, params),
        checks.boolean("keep_gradients", keep_gradients),
        checks.store("out", out),
        resume,
        checks.number("flush", flush, above=0),
        checks.verbose("verbose", verbose),
    )


def check_gradients(
    wish: Wish, model: Model, gibbs: Mapping[str, Callable], tempered: bool
) -> None:
    """Check that gradients can be kept, if they are to be."""
    if not wish.keep_gradients:
        return
    why = why_no_gradients(model, gibbs, tempered)
    if why is not None:
        raise ValueError(f"keep_gradients must be False with this sampler, where {why}")
    if not wish.keep:
        raise ValueError("keep_gradients=True needs parameters to keep, and keep has none")


def step(sampler: Sampler, n: int = 1) -> None:
    """Advance a sampler by n iterations, and update the variables `sampler.params`.

    Parameters
    ----------
    sampler : Sampler
        What `sgld_setup` or another `*_setup` returned.
    n : int
        The number of iterations. Many small calls give the same chain as one large one, but slower.

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
    """Return the current parameters of a sampler, as NumPy arrays.

    Parameters
    ----------
    sampler : Sampler
        What `sgld_setup` or another `*_setup` returned.

    Returns
    -------
    dict of arrays
        In the form of the sampler's argument `params`, with a leading axis of chains if `n_chains`
        was given.

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
    """Check that this is a sampler, and return it."""
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must come from a *_setup function, not {type(sampler).__name__}")
    return sampler
