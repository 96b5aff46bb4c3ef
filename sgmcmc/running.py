"""Run a sampler, advance it step by step, and read its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from . import checks, tree
from .collect import Memory
from .cores import check_fork
from .draws import Draws
from .origin import Origin
from .progress import Progress
from .sampler import Sampler
from .watch import watch


class Wish(NamedTuple):
    """The arguments of a run, after they were checked."""

    n_iters: int
    burn_in: int
    thin: int
    track: Mapping[str, checks.Tracked]
    keep: list[str]
    out: Path | None
    verbose: bool


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
    out : path, optional
        An empty or new folder. The draws are stored in files there instead of memory: those of
        `beta` in `params/beta.npy`, for `np.load(..., mmap_mode="r")`. Disk space is allocated at
        the start, if the system can do so. Draws that a failed run did not reach are 0 there.
    verbose : bool, optional
        Show progress, on the standard error stream. By default as in the sampler's `*_setup`.

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
        If the disk has no room for the draws in `out`. The exception's `draws` has those before.

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
    return collect(sampler, wish(here, n_iters, burn_in, thin, track, keep, out, verbose))


def collect(sampler: Sampler, wish: Wish, watched: bool = True) -> Draws:
    """Run a sampler, and return its draws. Warn of doubtful ones, if they are to be `watched`."""
    n_iters, burn_in, thin, track, keep, out, verbose = wish
    began = sampler.state.iteration
    memory = Memory(n_iters // thin, sampler.n_chains, out)
    settings = {**sampler.settings, "n_iters": n_iters, "burn_in": burn_in, "thin": thin}

    def draws() -> Draws:
        stats = memory.result()
        values = {**stats.pop("params"), **stats.pop("track", {})}
        stats |= {f"log_{name}": x for name, x in stats.pop("log", {}).items()}
        found = Draws(values, stats, settings)
        found._origin = Origin.of(sampler)
        return found

    try:
        with Progress(burn_in + n_iters, settings["sampler"], verbose) as progress:
            sampler.run(n_iters, [memory], keep, burn_in, thin, track, progress)
    except (Exception, KeyboardInterrupt) as stop:
        if isinstance(stop, KeyboardInterrupt):  # may come before the state is updated
            gone = sampler.state.iteration - began - burn_in
            memory.filled = min(memory.filled, max(0, gone // thin))
        if memory.arrays is None:
            memory.abandon()
            memory = Memory(0, sampler.n_chains)
            memory.add(0, no_draws(sampler, keep, track))
        stop.draws = draws()  # type: ignore[union-attr]  # an attribute of our own
        raise
    found = draws()
    if watched:
        watch(sampler, found)
    return found


def no_draws(sampler: Sampler, keep: Any, track: Mapping[str, checks.Tracked]) -> dict[str, Any]:
    """Return all that a run collects, but without draws: arrays of shape (0, chains, ...)."""
    engine, steps = sampler.engine, sampler.feeder.steps_at(None)
    like = engine.traced_like(sampler.state.chain, tf.ones_like(steps))
    here = tree.map(lambda x: x[0], like["params"])
    like["params"] = {k: like["params"][k] for k in keep}
    if track:
        values = {k: test.program(here) for k, test in track.items()}
        like["track"] = tree.map(lambda x: tf.repeat(x[None], engine.chains, axis=0), values)
    return tree.map(lambda x: np.empty((0, *x.shape), x.dtype.as_numpy_dtype), like)


def wish(
    params: Any,
    n_iters: Any,
    burn_in: Any,
    thin: Any,
    track: Any,
    keep: Any,
    out: Any,
    verbose: Any,
) -> Wish:
    """Check the arguments of a run, and fill in those left out."""
    check_fork()  # before functions to track are tried
    return Wish(
        *checks.run_lengths(n_iters, burn_in, thin),
        checks.track(track, params),
        checks.keep(keep, params),
        checks.folder(out),
        checks.boolean("verbose", verbose),
    )


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
