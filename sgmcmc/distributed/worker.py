"""What a worker does in a round. It keeps the samplers that it has made, and their programs."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import checks, tree
from ..divergence import ChainDiverged
from ..estimators import Estimator
from ..plan import Plan
from ..running import Wish, wish
from ..sampler import Sampler, State
from ..source import Source
from ..store.resuming import standing_at
from .cluster import other_versions
from .sending import Sent

KEPT_BYTES = 64 << 20  # of a worker's samplers, each of which has rows in shuffled order
lock = threading.Lock()
idle: OrderedDict[tuple, list[Made]] = OrderedDict()
ended: set[str] = set()  # the tokens of runs


@dataclass(frozen=True)
class Recipe:
    """What a worker needs to make a sampler, besides the state of its chains.

    `arguments` are those of the sampler `name`; if the data are in shards, without them. `token` is
    a name for all of this. What follows is there once the run begins: what was found at the start,
    the settings, the arguments of the run, and the iteration at which it began. `fixed` is the
    state of the estimator, if the state that travels is without it, as no iteration changes it.
    """

    token: str
    name: str
    arguments: Mapping[str, Any]
    start: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None
    of_run: Mapping[str, Any] | None = None
    origin: int = 0
    fixed: Any = None

    def __reduce__(self) -> Any:
        arguments = dict(self.arguments)
        data = {k: arguments.pop(k) for k in ("dataset",) if k in arguments}
        return remade, (Sent({**vars(self), "arguments": arguments}), data)


def remade(fields: Mapping[str, Any], data: Mapping[str, Any]) -> Recipe:
    """Make a recipe that was sent. Its data are apart, as they are not copied when pickled."""
    return Recipe(**{**fields, "arguments": {**fields["arguments"], **data}})


class File(NamedTuple):
    """A memory map, which each worker opens for itself."""

    filename: str
    dtype: Any
    shape: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, x: Any) -> Any:
        """Return the file in place of a memory map of the whole of one, and all else as it is."""
        if not (
            isinstance(x, np.memmap) and isinstance(x.base, mmap.mmap) and x.flags.c_contiguous
        ):
            return x
        return cls(str(x.filename), x.dtype, x.shape, x.offset)

    def open(self, name: str) -> np.memmap:
        """Open the file of the array with this name."""
        try:
            return np.memmap(self.filename, self.dtype, "r", self.offset, self.shape)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"dataset[{name!r}] is in a file that the worker {here()} cannot open: "
                f"{checks.summary(error)}. Workers open memory maps themselves: put the file where "
                f"all of them find it as {self.filename!r}, or pass the array in memory"
            ) from None


class Made(NamedTuple):
    """A sampler, and what it is to collect."""

    sampler: Sampler
    wish: Wish

    @property
    def nbytes(self) -> int:
        """Of rows and random numbers."""
        return self.sampler.feeder.nbytes


class Round(NamedTuple):
    """What a round made: draws (draws, chains, ...) from number `at` on, and the chains' state."""

    at: int
    draws: Any
    state: State
    seconds: float
    error: ChainDiverged | None = None


class Gathered:
    """A collector of the draws of a round."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.parts: list[Any] = []

    def add(self, at: int, draws: Mapping[str, Any]) -> None:
        """Keep draws."""
        if self.at is None:
            self.at = at
        self.parts.append(draws)

    def done(self, sampler: Sampler) -> None:
        """There is nothing to do."""

    def all(self) -> tuple[int, Any]:
        """Return the number of the first draw, and all draws."""
        return self.at, tree.map(lambda *x: np.concatenate(x), *self.parts) if self.parts else None


def advance(
    recipe: Recipe,
    chains: Sequence[int],
    state: State,
    until: int,
    source: Source | None = None,
    number: int = 0,
    estimator: Estimator | None = None,
) -> Round:
    """Make a round of these chains, which follow one another and stand in this state.

    If the data are in shards, `source` is the one with this number, and `estimator` may take the
    place of that of the plan.
    """
    key = recipe.token, len(chains), number, estimator is not None
    made = taken(key)
    is_new = made is None
    if recipe.fixed is not None:
        state = state._replace(estimator=recipe.fixed)
    made = made or new(key, recipe, state, source, estimator)
    sampler, wish = made
    make_room(made)
    try:
        sampler.feeder.serve(chains[0])
        sampler.place(tree.map(as_tensor, state))
        gathered, error, clock = Gathered(), None, time.perf_counter()
        try:
            count = until - recipe.origin - wish.burn_in
            span = wish.burn_in, wish.thin, wish.track, None, recipe.origin
            sampler.run(count, [gathered], wish.keep, *span, wish.keep_gradients)
        except ChainDiverged as stop:
            stop.chains = tuple(chains[c] for c in stop.chains)
            error = stop
        seconds = time.perf_counter() - clock
        after = sampler.state
        if recipe.fixed is not None:
            after = after._replace(estimator=())
        return Round(*gathered.all(), tree.map(as_array, after), seconds, error)
    finally:
        given_back(key, made)
        if is_new:  # its program was compiled
            give_memory_back()


def taken(key: tuple) -> Made | None:
    """Take a sampler that is idle, if there is one."""
    with lock:
        ready = idle.pop(key, [])
        if len(ready) > 1:
            idle[key] = ready[1:]
        return ready[0] if ready else None


def new(
    key: tuple, recipe: Recipe, state: State, source: Source | None, estimator: Estimator | None
) -> Made:
    """Make a sampler of so many chains."""
    give_memory_back()  # that of the search for the mode
    _, count, number, _ = key
    many = {} if recipe.settings["n_chains"] is None else {"n_chains": count}
    plan = plan_of(recipe, source, **many)
    wanted, found = (settings["versions"] for settings in (recipe.settings, plan.settings))
    if found != wanted:  # of a worker that has joined late
        raise RuntimeError(other_versions(here(), wanted, f"has {found}"))
    if source is not None:
        plan = plan._replace(seed=plan.seed + (number + 2) * 2**64)
    if estimator is not None:
        plan = plan._replace(estimator=estimator)
    start, state = tree.map(as_tensor, (recipe.start, state))
    sampler = standing_at(plan, start, recipe.settings, state)
    return Made(sampler, wish(plan.params, **recipe.of_run))


def plan_of(recipe: Recipe, source: Source | None, **more: Any) -> Plan:
    """Return the plan of a sampler, for all data or for a shard."""
    from ..describe import ROWS

    data: Any = source
    if source is None:
        arrays = recipe.arguments["dataset"]
        data = {k: x.open(k) if isinstance(x, File) else x for k, x in arrays.items()}
    return ROWS[recipe.name].plan({**recipe.arguments, **more, "dataset": data, "verbose": False})


def given_back(key: tuple, made: Made) -> None:
    """Keep a sampler for the next round, if its run has not been interrupted meanwhile."""
    with lock:
        if key[0] in ended:
            made.sampler.feeder.close()
        else:
            idle.setdefault(key, []).append(made)
            idle.move_to_end(key)


def make_room(made: Made) -> None:
    """Forget the samplers that were used longest ago, as far as this one needs their memory."""
    with lock:
        while idle and made.nbytes + sum(m.nbytes for ms in idle.values() for m in ms) > KEPT_BYTES:
            for old in idle.popitem(last=False)[1]:
                old.sampler.feeder.close()


async def forget(token: str) -> None:
    """Forget the samplers of a run, which has ended."""
    ended.add(token)
    close(lambda key, _: key[0] == token)
    give_memory_back()


def let_go(source: Source) -> None:
    """Forget the samplers of a shard, which is at home elsewhere now."""
    close(lambda _, made: made.sampler.feeder.source is source)


def close(is_old: Callable[[tuple, Made], bool]) -> None:
    """Forget idle samplers."""
    with lock:
        for key in [key for key, ready in idle.items() if is_old(key, ready[0])]:
            for old in idle.pop(key):
                old.sampler.feeder.close()


def give_memory_back() -> None:
    """Return what was freed to the system, on Linux: 50 MB after programs were compiled."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def here() -> str:
    """Return the address of this worker."""
    from distributed import get_worker

    return get_worker().address


def as_array(x: Any) -> Any:
    """Return a tensor as an array, and all else as it is."""
    return x.numpy() if isinstance(x, tf.Tensor) else x


def as_tensor(x: Any) -> Any:
    """Return an array as a tensor, and all else as it is."""
    return tf.constant(x) if isinstance(x, (np.ndarray, np.generic)) else x
