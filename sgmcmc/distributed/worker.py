"""What a worker does in a round. It keeps the samplers that it has made, and their programs."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import tree
from ..divergence import ChainDiverged
from ..running import Wish, wish
from ..sampler import Sampler, State
from ..store.resuming import standing_at

KEPT = 4  # samplers of a worker that is between rounds
lock = threading.Lock()
idle: OrderedDict[tuple, list[Sampler]] = OrderedDict()


@dataclass(frozen=True)
class Recipe:
    """All that a worker needs to make the sampler of some chains, besides their state.

    `arguments` are those of the sampler `name`, and `start` and `settings` are what was found at
    its start. The run has the arguments `of_run`, and began at iteration `origin`. `token` is a
    name for all of this.
    """

    token: str
    name: str
    arguments: Mapping[str, Any]
    start: Mapping[str, Any]
    settings: Mapping[str, Any]
    of_run: Mapping[str, Any]
    origin: int


class Made(NamedTuple):
    """A sampler, and what it is to collect."""

    sampler: Sampler
    wish: Wish


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


def advance(recipe: Recipe, chains: Sequence[int], state: State, until: int) -> Round:
    """Make a round of these chains, which follow one another and stand in this state."""
    made = taken(recipe, len(chains), state)
    sampler, wish = made
    try:
        sampler.feeder.serve(chains[0])
        sampler.place(tree.map(as_tensor, state))
        gathered, error, clock = Gathered(), None, time.perf_counter()
        try:
            sampler.run(
                *(until - recipe.origin - wish.burn_in, [gathered], wish.keep, wish.burn_in),
                *(wish.thin, wish.track, None, recipe.origin, wish.keep_gradients),
            )
        except ChainDiverged as stop:
            stop.chains = tuple(chains[c] for c in stop.chains)
            error = stop
        seconds = time.perf_counter() - clock
        return Round(*gathered.all(), tree.map(as_array, sampler.state), seconds, error)
    finally:
        given_back(recipe, len(chains), made)


def taken(recipe: Recipe, count: int, state: State) -> Made:
    """Take a sampler of so many chains that is idle, or make one."""
    with lock:
        if ready := idle.get((recipe.token, count)):
            return ready.pop()
    from ..describe import ROWS

    many = {} if recipe.settings["n_chains"] is None else {"n_chains": count}
    plan = ROWS[recipe.name].plan({**recipe.arguments, **many, "verbose": False})
    start, state = tree.map(as_tensor, (recipe.start, state))
    sampler = standing_at(plan, start, recipe.settings, state)
    return Made(sampler, wish(plan.params, **recipe.of_run))


def given_back(recipe: Recipe, count: int, made: Made) -> None:
    """Keep a sampler for the next round, and forget those that were used longest ago."""
    with lock:
        key = recipe.token, count
        idle.setdefault(key, []).append(made)
        idle.move_to_end(key)
        while sum(map(len, idle.values())) > KEPT:
            oldest = next(key for key in idle if idle[key])
            idle[oldest].pop(0).sampler.feeder.close()


def as_array(x: Any) -> Any:
    """Return a tensor as an array, and all else as it is."""
    return x.numpy() if isinstance(x, tf.Tensor) else x


def as_tensor(x: Any) -> Any:
    """Return an array as a tensor, and all else as it is."""
    return tf.constant(x) if isinstance(x, np.ndarray) else x
