"""Running a sampler: on for some iterations, step by step, and where it stands."""

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
from .progress import Progress
from .sampler import Sampler


class Wish(NamedTuple):
    """What is asked of a run, once its arguments were checked."""

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
    here, verbose = get_params(sampler), sampler.verbose if verbose is None else verbose
    if sampler.n_chains:
        here = tree.map(lambda x: x[0], here)
    return collect(sampler, wish(here, n_iters, burn_in, thin, track, keep, out, verbose))


def collect(sampler: Sampler, wish: Wish) -> Draws:
    """Run a sampler, and keep its draws."""
    n_iters, burn_in, thin, track, keep, out, verbose = wish
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
            memory.add(0, no_draws(sampler, keep, track))
        stop.draws = draws()  # type: ignore[union-attr]  # an attribute of our own
        raise
    return draws()


def no_draws(sampler: Sampler, keep: Any, track: Mapping[str, checks.Tracked]) -> dict[str, Any]:
    """All that a run collects, of no draws: arrays (0, chains, ...), by the sampler's state."""
    engine, schedule = sampler.engine, sampler.feeder.schedule
    like = engine.traced_like(sampler.state.chain, tf.ones(len(schedule), sampler.feeder.dtype))
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
