"""A sampler: a pure step on a state, run in compiled blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from . import tree
from .checks import Tracked
from .cores import one_at_a_time
from .divergence import diverged
from .dynamics import Dynamics
from .engine import Chains, Engine, tracker, wanted
from .estimators import Data, Estimator
from .estimators.control_variate import Centre, probabilities_of
from .feeder import Feeder
from .minibatches import Strata
from .model import Model
from .programs import programs_of
from .progress import Progress
from .source import Source
from .streams import RENEWAL, stream

BY_PARAMETER = "params", "gradients", "coordinates"  # what collectors get of those in `keep`
CALL_SECONDS = 0.1  # about the longest call of compiled code, during which Ctrl-C is not heard


class State(NamedTuple):
    """All that is needed to continue the chains, besides the seed."""

    chain: Chains
    estimator: Any
    iteration: int


def is_by_chain(state: State) -> State:
    """Tell, for each array of the state of many chains, whether it has an axis of chains."""
    count = len(tree.leaves(state.chain)[0])

    def has_axis(x: Any) -> bool:
        return len(x.shape) > 0 and x.shape[0] == count

    shared = isinstance(state.estimator, Centre)
    estimator = tree.map(lambda x: not shared and has_axis(x), state.estimator)
    return State(tree.map(has_axis, state.chain), estimator, False)


def some_chains(state: State, chains: Sequence[int]) -> State:
    """The state of these chains alone, in this order."""
    return tree.map(
        lambda x, by_chain: tf.gather(x, chains) if by_chain else x, state, is_by_chain(state)
    )


def of_all_chains(parts: Sequence[State], by_chain: State) -> State:
    """Undo `some_chains`: put the states of some chains after one another."""

    def joined(by_chain: bool, *x: Any) -> Any:
        return tf.concat(x, axis=0) if by_chain else x[0]

    return tree.map(joined, by_chain, *parts)


class Collector(Protocol):
    """Receives the draws of a run, block by block; to receive a block twice does no harm."""

    def add(self, at: int, draws: Mapping[str, Any]) -> None:
        """Store the draws with numbers at, at + 1, ...; arrays have shape (draws, chains, ...)."""

    def done(self, sampler: Sampler) -> None:
        """Take notice that the state of the sampler is that after the draws added so far."""


class Sampler:
    """One or several chains, with their current state.

    A sampler runs in one thread at a time, and in the process that made it: it cannot be copied or
    pickled. See the README on threads and processes.

    Attributes
    ----------
    params : dict of tf.Variable
        The current parameters, in the form in which they were given. A user's function that reads
        them sees their values after each `step`. Assigning to them does not move the chain.
    state : State
        The chains, and the number of iterations so far.
    mode : dict of arrays, or None
        The point on which control variates are centred: the mode that was found, or given.
    settings : dict
        The arguments with which it was made, `mode` among them.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> sgmcmc.sgld_setup(log_lik, {"x": np.linspace(-1, 3, 1000)}, {"mean": 1.0}, 1e-4, seed=1)
    Sampler(mean (); sgld, after 0 iterations)
    """

    def __init__(
        self,
        engine: Engine,
        feeder: Feeder,
        x: Any,
        estimator_state: Any,
        settings: Mapping[str, Any],
        jit: bool = True,
        verbose: bool | Callable = True,
    ) -> None:
        """Start the chains at `x`, the chart coordinates of all parameters."""
        self.engine, self.feeder = engine, feeder
        self.settings, self.jit, self.verbose = dict(settings), jit, verbose
        self.running, self.warned, self.watched = threading.Lock(), False, 0
        self.pace = 1  # iterations of a call, by how long the last one took
        self.identity: Callable[[], dict[str, Any]] | None = None  # for stores
        given = {k: x[k] for k in engine.gibbs}
        moving = {k: x[k] for k in x if k not in given}
        first = tf.constant(feeder.steps_at(0))
        h, temperature = engine.schedule(first, moving)
        noise = engine.noise(*map(tf.constant, feeder.noise_at_start()), temperature)
        chains = Chains(engine.dynamics.init(moving, noise, h), given)
        self.state = State(chains, estimator_state, 0)
        now = engine.traced_like(chains, first)["params"]
        self.params = tree.map(tf.Variable, engine.shown(now))
        self.program = self.compiled(engine)
        self.keeping: Callable | None = None  # the program that records gradients, once it is used
        self.followed: tuple[Mapping | None, Callable | None] = None, None

    def __repr__(self) -> str:
        shapes = zip(tree.names(self.params), tree.leaves(self.params))
        listed = ", ".join(f"{name} {tuple(x.shape)}" for name, x in shapes)
        name, done = self.settings["sampler"], self.state.iteration
        return f"Sampler({listed}; {name}, after {done:,} iterations)"

    def compiled(self, engine: Engine) -> Callable:
        """The program of an engine, which is compiled when it is called first."""
        purpose = "advance", engine.constants
        return engine.model.programs.compiled(purpose, engine.advance, self.jit)

    @property
    def gradients(self) -> Engine:
        """The engine that records gradients with draws."""
        return replace(self.engine, keeps_gradients=True)

    @property
    def n_chains(self) -> int | None:
        """The number of chains that the user asked for; None for one chain without a chain axis."""
        return self.engine.chains if self.engine.many else None

    @property
    def mode(self) -> Any:
        """The point on which control variates are centred; None without them."""
        state = self.state.estimator
        if not isinstance(state, Centre):
            return None
        return tree.map(lambda x: x.numpy(), self.engine.model.chart.forward(state.x))

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Sampler cannot be copied or pickled: it holds threads and compiled code. Make "
            "another by its *_setup, with the arguments and seed of this one, in the process that "
            "is to run it. The Draws that sgmcmc.run returns can be pickled"
        )

    def place(self, state: State) -> None:
        """Put the chains into another state, such as that of a sampler like this one."""
        self.state = state
        last = tf.constant(self.feeder.steps_at(max(state.iteration - 1, 0)))
        here = self.engine.traced_like(state.chain, last)["params"]
        tree.map(assign, self.params, self.engine.shown(here))

    def save(self, path: str | Path) -> None:
        """Write where the chains stand to a folder, for the argument `resume` of a `*_setup`.

        It takes the place of what was saved there before. The chain that goes on from there is the
        one that would have been, bit for bit on processors of one kind.

        Parameters
        ----------
        path : path
            A new or empty folder, or one to which this chain was saved before.

        Examples
        --------
        >>> import numpy as np, sgmcmc, tempfile, tensorflow as tf
        >>> def log_lik(params, data):
        ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
        >>> model = log_lik, {"x": np.linspace(-1, 3, 1000)}, {"mean": 1.0}, 1e-4
        >>> sampler = sgmcmc.sgld_setup(*model, seed=1)
        >>> sgmcmc.step(sampler, 100)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sampler.save(folder + "/checkpoint")
        ...     other = sgmcmc.sgld_setup(*model, seed=1, resume=folder + "/checkpoint")
        >>> other
        Sampler(mean (); sgld, after 100 iterations)
        """
        from .store.writing import save

        save(self, path)

    def renew(self) -> None:
        """Renew the estimator's state from the data, with the chains at their current position."""
        engine, (chains, state, iteration) = self.engine, self.state
        rng = stream(self.feeder.seed, RENEWAL, iteration)
        data = Data(self.feeder.source, engine.n, rng)
        state = engine.estimator.renew(engine.model, engine.position(chains), state, data)
        self.state = State(chains, state, iteration)

    @one_at_a_time
    def run(
        self,
        n_iters: int,
        collectors: Iterable[Collector] = (),
        keep: Iterable[str] = (),
        burn_in: int = 0,
        thin: int = 1,
        track: Mapping[str, Tracked] | None = None,
        progress: Progress | None = None,
        origin: int | None = None,
        keep_gradients: bool = False,
    ) -> None:
        """Advance by burn_in + n_iters iterations, and collect every thin-th of the last n_iters.

        They count from iteration `origin`, where the run began, which may be before the present
        one. Collectors only get the parameters in `keep`. With `keep_gradients` they get the points
        at which gradients were taken, with these. A call of the compiled program ends with its
        block, or after about CALL_SECONDS.
        """
        run, to_free, affine = self.program, None, self.engine.model.chart.affine
        if keep_gradients:
            run = self.keeping = self.keeping or self.compiled(self.gradients)
            to_free = None if affine is None else affine.to_free()
        size, began = self.feeder.size, self.state.iteration if origin is None else origin
        kept_from, end = began + burn_in, began + burn_in + n_iters
        calls = {name: test.call for name, test in track.items()} if track else None
        if track and calls != self.followed[0]:
            programs = programs_of(*calls.values())
            self.followed = calls, programs.compiled(tuple(track), tracker(track), self.jit)
        follow = self.followed[1] if track else None
        most, pace, now = n_iters + burn_in, self.pace, None
        if progress and progress.verbose:
            most = max(1, most // 10)
        try:
            while self.state.iteration < end:
                j, first = divmod(self.state.iteration, size)
                last = min(first + pace, size, end - j * size)
                last = int(min(last, first + self.feeder.left(self.state.iteration)))
                every = self.engine.estimator.every
                if every:
                    past = self.state.iteration % every
                    last = min(last, first + every - past)
                    if past == 0 and self.state.iteration > 0:
                        self.renew()
                block = self.feeder.block(j, end)
                self.feeder.ask_schedules(j, first, last)
                data, span = self.feeder.data(self.state.iteration), tf.constant([first, last])
                arguments = self.engine.model.affine, data, *self.state[:2], block, span
                clock = time.perf_counter()
                stop, chains, changed, here, draws = run(*arguments)
                seconds = (time.perf_counter() - clock) / (last - first)
                pace = self.pace = max(1, min(2 * pace, most, int(CALL_SECONDS / seconds)))

                stop = int(stop)
                low = max(first, kept_from - j * size)
                low += -(j * size + low - kept_from + 1) % thin
                if collectors and (low < stop or stop < last or j * size + stop == end):
                    drawn, some = paired(draws), slice(low, stop, thin)
                    kept = cut(chosen(drawn, keep), some)
                    if to_free:
                        gradients = to_free(cut(drawn["gradients"], some))
                        kept["gradients"] = {k: gradients[k] for k in keep}
                    if follow:
                        tracked = follow(drawn["params"], tf.constant([low, stop, thin]))
                        kept["track"] = cut(tracked, some)
                    for collector in collectors:
                        collector.add((j * size + low - kept_from) // thin, kept)
                if stop < last:
                    steps = block.schedule.numpy()[stop]
                    raise diverged(
                        self.engine, cut(draws, slice(stop, stop + 1)), j * size + stop, steps
                    )
                state = changed if self.engine.estimator.carried else self.state.estimator
                self.state, now = State(chains, state, j * size + stop), here
                for collector in collectors:
                    collector.done(self)
                if progress and progress.verbose:
                    trace = draws.get("log_posterior")
                    value = None if trace is None else float(np.mean(trace.numpy()[stop - 1]))
                    progress.update(self.state.iteration - began, value)
        finally:
            if now is not None:
                tree.map(assign, self.params, now)


def paired(draws: dict[str, Any]) -> dict[str, Any]:
    """Return draws with the points of gradients in place of the parameters, if there are any."""
    rest = {name: x for name, x in draws.items() if name != "paired"}
    return {**rest, **draws.get("paired", {})}


def chosen(draws: dict[str, Any], keep: Iterable[str]) -> dict[str, Any]:
    """Return draws of the parameters in `keep` only, with all statistics."""
    names = [name for name in BY_PARAMETER if name in draws]
    return {**draws, **{name: {k: draws[name][k] for k in keep} for name in names}}


def cut(nest: Any, span: slice) -> Any:
    """Return some entries along the first axis, as NumPy arrays."""
    return tree.map(lambda x: x.numpy()[span], nest)


def assign(variable: tf.Variable, value: tf.Tensor) -> None:
    """Assign a value to a variable, at a third of the cost of `variable.assign`."""
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)


def assemble(
    model: Model,
    estimator: Estimator,
    dynamics: Dynamics,
    x: Any,
    source: Source,
    n: int,
    schedule: Sequence[float | np.ndarray | Callable[[int], float]],
    seed: int,
    *,
    estimator_state: Any = (),
    gibbs: Mapping[str, Callable] | None = None,
    temperature: float | Callable[[int], float] = 1.0,
    n_chains: int | None = None,
    minibatches: str | Strata = "independent",
    shared_minibatches: bool = False,
    settings: Mapping[str, Any] | None = None,
    jit: bool = True,
    verbose: bool | Callable = True,
) -> Sampler:
    """Make a sampler of these parts, with chains that start at chart coordinates x."""
    gibbs = dict(gibbs or {})
    tempered = callable(temperature) or temperature != 1
    columns = [*schedule, temperature] if tempered else schedule
    want = wanted(model, estimator, dynamics, gibbs, {k: x[k] for k in x if k not in gibbs})
    probabilities = probabilities_of(estimator_state)
    feeder = Feeder(
        source, n, want, columns, x, seed, shared_minibatches, minibatches, probabilities
    )
    settings = settings or {"sampler": type(dynamics).__name__}
    of_run = settings.get("n_chains") or 1  # all chains of the run, as a group rounds like them
    engine = Engine(
        *(model, estimator, dynamics, gibbs, want, tempered, source.all_rows, n, source.row_bytes),
        *(feeder.size, feeder.chains, feeder.dtype, n_chains is not None),
        copied=feeder.chains > 1 and model.has_small_matrix(of_run),
    )
    return Sampler(engine, feeder, x, estimator_state, settings, jit, verbose)
