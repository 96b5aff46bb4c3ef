"""A sampler: a pure step on a state, run in compiled blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from . import tree
from .cores import one_at_a_time
from .dynamics import Dynamics
from .engine import Engine, tracker
from .estimators import Centre, Posterior
from .minibatch import START, Feeder
from .programs import programs_of
from .progress import Progress

CALL_SECONDS = 0.1  # about how long compiled code may go on before Ctrl-C is heard


class State(NamedTuple):
    """All that a chain needs to go on, with its seed."""

    chain: Any
    iteration: int


class ChainDiverged(FloatingPointError):
    """The chain left the finite numbers at `iteration`; `draws` holds what came before.

    Examples
    --------
    >>> import numpy as np, sgmcmc, tensorflow as tf
    >>> def log_lik(params, data):
    ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
    >>> dataset, far_too_large = {"x": np.linspace(-1, 3, 1000)}, 0.1
    >>> try:
    ...     sgmcmc.sgld(log_lik, dataset, {"mean": 1.0}, far_too_large, seed=1, verbose=False)
    ... except sgmcmc.ChainDiverged as error:
    ...     print(str(error).split(" at ")[0])
    ...     draws = error.draws
    the log posterior became NaN or infinite
    >>> bool(np.isfinite(draws["mean"]).all())
    True
    """

    iteration: int
    draws: Any = None


class Collector(Protocol):
    """Takes the draws of a run, a block at a time; the same block twice does no harm."""

    def add(self, at: int, draws: Mapping[str, Any]) -> None:
        """Draws at, at + 1, ... of the run, each (draws, chains, ...)."""


class Sampler:
    """One or many chains of a sampler, where they stand.

    A sampler runs in one thread at a time, and in the process that made it: it cannot be copied or
    pickled. See the README on threads and processes.

    Attributes
    ----------
    params : dict of tf.Variable
        The parameters now, in the form in which they were given; a function of the user's that
        reads them sees each `step`. To be read: assigning to them does not move the chain.
    state : State
        The chains, and how many iterations are behind them.
    mode : dict of arrays, or None
        The point on which control variates are centred: the mode that was found, or given.
    settings : dict
        The arguments that made it, `mode` among them.

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
        model: Posterior,
        estimator: Any,
        estimator_state: Any,
        dynamics: Dynamics,
        theta: Any,
        feeder: Feeder,
        n_chains: int | None,
        jit: bool = True,
        settings: Mapping[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        self.model, self.estimator, self.dynamics = model, estimator, dynamics
        self.estimator_state, self.feeder, self.n_chains = estimator_state, feeder, n_chains
        source = feeder.source
        self.engine = Engine(
            *(model, estimator, dynamics, source.N, feeder.n, source.row_bytes, feeder.size),
            *(feeder.chains, feeder.dtype, n_chains is not None),
        )
        self.jit, self.settings, self.verbose = jit, dict(settings or {}), verbose
        self.running = threading.Lock()
        first = [h(0) if callable(h) else h for h in feeder.stepsize]
        noise = np.stack([feeder.noise(START, 0, c, 1)[0, 0] for c in range(feeder.chains)])
        chain = dynamics.start(theta, tf.constant(noise), self.engine.per_parameter(theta, first))
        self.state = State(chain, 0)
        self.params = tree.map(tf.Variable, self.engine.shown(dynamics.position(chain)))
        self.surveys: dict[tuple[int, int], Callable] = {}
        if estimator.renews:
            self.renew()
        constants = self.engine.constants
        self.program = model.programs.compiled(("advance", constants), self.engine.advance, jit)
        self.followed: tuple[Mapping | None, Callable | None] = None, None

    def __repr__(self) -> str:
        shapes = zip(tree.names(self.params), tree.leaves(self.params))
        listed = ", ".join(f"{name} {tuple(x.shape)}" for name, x in shapes)
        name = self.settings.get("sampler", type(self.dynamics).__name__)
        return f"Sampler({listed}; {name}, after {self.state.iteration:,} iterations)"

    @property
    def mode(self) -> Any:
        """The point on which control variates are centred; None without them."""
        centre = self.estimator_state
        return tree.map(lambda x: x.numpy(), centre.params) if isinstance(centre, Centre) else None

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Sampler cannot be copied or pickled: it holds threads and compiled code. Make "
            "another by its *_setup, with the arguments and seed of this one, in the process that "
            "is to run it. The Draws that sgmcmc.run returns can be pickled"
        )

    def renew(self) -> None:
        """Let the estimator look at the data again, from where the chains stand."""
        theta = self.dynamics.position(self.state.chain)

        def count(rows: dict[str, np.ndarray], key: np.ndarray) -> Any:
            shape = tree.leaves(rows)[0].shape[:2]
            if shape not in self.surveys:
                left_over = len(self.surveys) > 0  # rows that are soon looked at without XLA
                jit = self.jit and (self.model.keyed or not left_over)
                purpose = "survey", self.engine.constants
                self.surveys[shape] = self.model.programs.compiled(purpose, self.engine.survey, jit)
            return self.surveys[shape](theta, *tree.map(tf.constant, (rows, key)))

        self.estimator_state = self.estimator.renew(
            self.model, theta, self.feeder, self.state.iteration, count
        )

    @one_at_a_time
    def run(
        self,
        n_iters: int,
        collectors: Iterable[Collector] = (),
        keep: Iterable[str] = (),
        burn_in: int = 0,
        thin: int = 1,
        track: Mapping[str, Callable] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Go on by burn_in + n_iters iterations; every thin-th of the last n_iters is collected.

        Of the parameters, collectors get those to `keep`. A call of the compiled program ends with
        its block, or after about CALL_SECONDS.
        """
        size, began = self.feeder.size, self.state.iteration
        kept_from, end = began + burn_in, began + burn_in + n_iters
        if track and track != self.followed[0]:
            programs = programs_of(*track.values())
            self.followed = track, programs.compiled(tuple(track), tracker(track), self.jit)
        follow = self.followed[1] if track else None
        pace, most, theta = 1, max(1, (end - began) // 10), None
        try:
            while self.state.iteration < end:
                j, first = divmod(self.state.iteration, size)
                last = min(first + pace, size, end - j * size)
                every = self.estimator.every
                if every:
                    past = self.state.iteration % every
                    last = min(last, first + every - past)
                    if past == 0 and self.state.iteration > 0:
                        self.renew()
                block = self.feeder.block(j, end)
                self.feeder.ask_schedules(j, first, last)
                arguments = self.state.chain, self.estimator_state, block
                clock = time.perf_counter()
                stop, chain, now, draws = self.program(*arguments, tf.constant([first, last]))
                seconds = (time.perf_counter() - clock) / (last - first)
                pace = max(1, min(2 * pace, most, int(CALL_SECONDS / seconds)))

                stop = int(stop)
                low = max(first, kept_from - j * size)
                low += -(j * size + low - kept_from + 1) % thin
                if collectors:
                    wanted = {**draws, "params": {k: draws["params"][k] for k in keep}}
                    kept = cut(wanted, slice(low, stop, thin))
                    if follow:
                        tracked = follow(draws["params"], tf.constant([low, stop, thin]))
                        kept["track"] = cut(tracked, slice(low, stop, thin))
                    for collector in collectors:
                        collector.add((j * size + low - kept_from) // thin, kept)
                if stop < last:
                    steps = block.stepsize.numpy()[stop]
                    raise self.diverged(cut(draws, slice(stop, stop + 1)), j * size + stop, steps)
                self.state, theta = State(chain, j * size + stop), now
                if progress and progress.verbose:
                    trace = draws.get("log_posterior")
                    value = None if trace is None else float(np.mean(trace.numpy()[stop - 1]))
                    progress.update(self.state.iteration - began, value)
        finally:
            if theta is not None:
                tree.map(assign, self.params, theta)

    def diverged(self, draw: dict[str, Any], iteration: int, steps: np.ndarray) -> ChainDiverged:
        """The error that says which parameter diverged, when, and what to try."""
        what, name = "the log posterior", ""
        parts = [
            dict(zip(tree.names(part), tree.leaves(part)))
            for part in draw.values()
            if isinstance(part, dict)
        ]
        for i, each in enumerate(tree.names(self.params)):
            if not all(np.isfinite(part.get(each, 0)).all() for part in parts):
                what, name, steps = f"the parameter {each!r}", each, steps[[i]]
                break
        if iteration == 0:
            error = ChainDiverged(
                f"{what} is NaN or infinite after the first step: log_lik or log_prior is not "
                "finite where the chain starts, or for some rows of dataset, or stepsize is far "
                "too large"
            )
            error.iteration = iteration
            return error
        error = ChainDiverged(
            f"{what} became NaN or infinite at iteration {iteration} with stepsize "
            f"{' or '.join(f'{h:.3g}' for h in np.unique(steps))}. {self.dynamics.advice(name)}. "
            "Else see that log_lik and log_prior are finite wherever the chain may go. The draws "
            "before are in the exception's .draws"
        )
        error.iteration = iteration
        return error


def cut(nest: Any, span: slice) -> Any:
    """Some entries along the first axis, as NumPy arrays."""
    return tree.map(lambda x: x.numpy()[span], nest)


def assign(variable: tf.Variable, value: tf.Tensor) -> None:
    """A third of the cost of `variable.assign`."""
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
