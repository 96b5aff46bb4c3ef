"""Sample the subposterior of each shard."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from .. import checks, tree
from ..checks.geodesic import is_flat
from ..describe import Row
from ..distributed.cluster import LOCAL, connected
from ..distributed.sending import Sent, see_pickled, see_unpickled
from ..distributed.shards import Sharded, Shards
from ..draws import Draws
from ..dynamics.mixed import Mixed
from ..dynamics.probabilities import Probabilities
from ..outside import read_by_slices
from ..race import row_of
from ..source import Source
from ..spaces import Chart
from ..spaces.constrained import spaces
from ..streams import SHARDS, stream
from .parts import maps_of

NOT_HERE = {
    "dataset": "give the shards instead",
    "out": "all shards would write to one folder, so save the draws of each",
    "resume": "shards run from the start",
    "keep": "the product is of the densities of all parameters together",
    "track": "compute functions of the combined draws from these",
}


def subposteriors(
    sampler: Callable[..., Draws],
    log_lik: Callable[[dict, dict], Any],
    shards: Sequence[Mapping[str, Any] | Any] | Shards,
    params: Mapping[str, Any],
    *,
    log_prior: Callable[[dict], Any] | None = None,
    seed: int | None = None,
    client: Any = None,
    **arguments: Any,
) -> list[Draws]:
    """Sample the subposterior of each shard of the data, one after the other or on a cluster.

    The subposterior of one of W shards is proportional to the likelihood of its rows times the
    prior to the power 1/W. The product of all is the posterior, and `consensus` and others make
    draws of it from these. Shards may have different numbers of rows.

    Of constrained parameters, it is the prior's density in free coordinates that is raised to 1/W,
    Jacobian included. So the product of the subposteriors is the posterior in these coordinates,
    and `consensus` must be given the same `constrain`. Parameters on manifolds are refused.

    Parameters
    ----------
    sampler : function
        A sampler of this package with a `log_prior`, such as `sgmcmc.sgldcv`.
    log_lik : function of (params, data)
        The log likelihood, as for the sampler.
    shards : list of dicts of arrays, list of DataFrames, or Shards
        The rows of each shard, with the same names. `Shards` are loaded by the workers of a
        cluster.
    params : dict of arrays
        Starting values on all shards.
    log_prior : function of params, optional
        The log prior of all data together. It is divided by W here. By default the prior is flat,
        in the user's values.
    seed : int, optional
        Fixes the draws of all shards. Each has a seed of its own, which depends on this one and on
        the number of the shard.
    client : dask.distributed.Client or str, optional
        Sample the shards on the workers of this cluster, as with `client` of the sampler. The draws
        are the same.
    arguments : keyword arguments
        Other arguments of the sampler, for all shards, such as `n_iters`.

    Returns
    -------
    list of Draws
        The draws of each shard.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> x = np.random.default_rng(1).normal(5, 1, 10_000)
    >>> shards = [{"x": part} for part in np.split(x, 4)]
    >>> parts = sgmcmc.combine.subposteriors(
    ...     sgmcmc.sgldcv, log_lik, shards, {"mean": 4.0}, n_iters=2000, seed=1, verbose=False
    ... )
    >>> draws = sgmcmc.combine.consensus(parts)
    >>> draws
    Draws(mean (2000,); consensus, seed None)
    >>> bool(abs(draws["mean"].mean() - x.mean()) < 0.005)
    True
    >>> 0.009 < float(draws["mean"].std()) < 0.011  # .01 is right
    True
    """
    check_sampler(row_of(sampler), sampler, arguments)
    seed, loaded = checks.seed(seed), shards if isinstance(shards, Shards) else None
    parts = shards_of(shards) if loaded is None else loaded.parts
    if log_prior is not None:
        checks.function("log_prior", log_prior, "of params")
    constrain = arguments.get("constrain")
    start = checks.params(params, checks.dtype(arguments.get("dtype", "float32")))
    chart = Chart(spaces(constrain, start))
    start = chart.check("params", start)
    if log_prior is not None or chart.has_jacobian:
        log_prior = partial(tempered, log_prior, chart, 1 / len(parts))
    given = {**arguments, "log_lik": log_lik, "params": params, "log_prior": log_prior}
    mark = {"of": len(parts), "constrain": maps_of(chart.spaces, start)}
    marks = [{"shard": s, **mark} for s in range(len(parts))]
    if client is None and loaded is None:
        return [subposterior(sampler, given, *each, seed) for each in zip(parts, marks)]
    if loaded is None:
        loaded = Shards([as_dict(part) for part in parts])
    given = Sent({**given, "verbose": False})
    see_pickled({**that_workers_open(loaded), **given})
    dtype = checks.dtype(arguments.get("dtype", "float32"))
    work = {s: (sampler, given, mark, seed) for s, mark in enumerate(marks)}
    with connected(LOCAL if client is None else client) as workers:
        see_unpickled(workers, given)
        with closing(Sharded(loaded, workers, dtype)) as data:
            return data.all(of_loaded, work)


def as_dict(shard: Any) -> Mapping[str, Any]:
    """Return the columns of a DataFrame by name, and a dict as it is."""
    return checks.by_column(shard) if hasattr(shard, "columns") else shard


def that_workers_open(shards: Shards) -> dict[str, Any]:
    """Return what is sent to workers before they read rows: functions, and arrays in files."""
    found = {}
    for i, part in enumerate(shards.parts):
        if callable(part):
            found[f"parts[{i}] of Shards"] = part
        elif isinstance(part, Mapping):
            files = {f"shards[{i}][{k!r}]": x for k, x in part.items() if read_by_slices(x)}
            found.update(files)
    return found


def check_sampler(row: Row, sampler: Any, arguments: Mapping[str, Any]) -> None:
    """Check that the product of what a sampler draws on shards is the posterior."""
    if sampler.__name__ != row.name:
        raise TypeError(f"sampler must be sgmcmc.{row.name}, not its *_setup")
    for name, instead in NOT_HERE.items():
        if name in arguments:
            raise TypeError(f"subposteriors() has no argument {name!r}: {instead}")
    given = arguments.get("dynamics")  # of `sample`
    kind, named = row.dynamics or type(given), row.name if row.dynamics else type(given).__name__
    if issubclass(kind, (Probabilities, Mixed)):
        raise ValueError(
            f"sampler must be one whose prior is log_prior alone, not {named}, whose own priors of "
            "probabilities, or Gibbs steps, would count once for each shard"
        )
    manifold = getattr(given, "manifold", arguments.get("manifold"))
    if manifold is not None and not is_flat(manifold):
        raise ValueError(
            f"manifold must not be {manifold!r} here: draws on manifolds cannot be combined, as "
            "their averages are not on the manifold. Sample them from all data, with "
            f"sgmcmc.{row.name}"
        )


def subposterior(
    sampler: Callable[..., Draws],
    given: dict[str, Any],
    shard: Any,
    mark: dict[str, Any],
    seed: int,
) -> Draws:
    """Sample one shard. This depends on its arguments alone, and may be done by any process."""
    own = int(stream(seed, SHARDS, mark["shard"]).integers(2**64, dtype=np.uint64))
    draws = sampler(dataset=shard, seed=own, **given)
    draws.settings["subposterior"] = mark
    return draws


def of_loaded(
    source: Source,
    sampler: Callable[..., Draws],
    given: dict[str, Any],
    mark: dict[str, Any],
    seed: int,
) -> Draws:
    """Sample a shard that a worker has loaded."""
    source.stands_for = None  # it is the whole data of its subposterior
    return subposterior(sampler, given, source, mark, seed)


def shards_of(value: Any) -> list[Any]:
    """Check that these are data sets with the same arrays."""
    if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
        raise TypeError(
            "shards must be a list with the data of each shard, dicts of arrays or DataFrames, not "
            f"{checks.described(value)}"
        )
    if len(value) < 2:
        raise ValueError(f"shards must have at least two entries, not {len(value)}")
    kinds = []
    for i, shard in enumerate(value):
        if not hasattr(shard, "columns"):
            checks.named(f"shards[{i}]", shard, "arrays, such as {'X': X, 'y': y}, or a DataFrame")
        shapes = {name: np.shape(shard[name]) for name in getattr(shard, "columns", shard)}
        kinds.append({name: shape[1:] for name, shape in shapes.items()})
        if kinds[i] != kinds[0]:
            raise ValueError(
                f"shards must have arrays with the same names, and rows of the same shapes, but "
                f"shards[{i}] has {kinds[i]}, and shards[0] {kinds[0]}"
            )
        if len({shape[:1] for shape in shapes.values()}) > 1:
            raise ValueError(
                f"the arrays of shards[{i}] must have equally many rows, not shapes {shapes}"
            )
    return list(value)


def tempered(log_prior: Callable | None, chart: Chart, power: float, params: Any) -> Any:
    """Return the log prior of a shard, whose density in free coordinates is raised to `power`.

    The sampler adds the whole log Jacobian, so that all but a share of it is taken away here.
    """
    total = 0.0 if log_prior is None else power * log_prior(params)
    if chart.has_jacobian:
        x = tree.map(lambda space, value: space.inverse(value), chart.spaces, params)
        total += (power - 1) * chart.log_jacobian(x)
    return total
