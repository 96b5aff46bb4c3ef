"""A sampler: a pure step on a state, run in compiled blocks."""

from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from . import checks, tree
from .cores import one_at_a_time
from .dynamics import COUNTS, Dynamics
from .estimators import Posterior, each_chain, on_rows
from .minibatch import START, Batch, Block, Feeder
from .progress import Progress
from .random import folded

APART_BYTES = 1 << 15  # a minibatch that is worth copying out of its block
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
    settings : dict
        The arguments that made it.

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
        self.jit, self.settings, self.verbose = jit, dict(settings or {}), verbose
        self.running = threading.Lock()
        first = [h(0) if callable(h) else h for h in feeder.stepsize]
        noise = np.stack([feeder.noise(START, 0, c, 1)[0, 0] for c in range(feeder.chains)])
        chain = dynamics.start(theta, tf.constant(noise), self.per_parameter(theta, first))
        self.state = State(chain, 0)
        self.params = tree.map(tf.Variable, self.shown(dynamics.position(chain)))
        self.surveys: dict[tuple[int, int], Callable] = {}
        if estimator.renews:
            self.renew()
        self.program = compiled(self.advance, jit)
        self.followed: tuple[Mapping | None, Callable | None] = None, None

    def __repr__(self) -> str:
        shapes = zip(tree.names(self.params), tree.leaves(self.params))
        listed = ", ".join(f"{name} {tuple(x.shape)}" for name, x in shapes)
        name = self.settings.get("sampler", type(self.dynamics).__name__)
        return f"Sampler({listed}; {name}, after {self.state.iteration:,} iterations)"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Sampler cannot be copied or pickled: it holds threads and compiled code. Make "
            "another by its *_setup, with the arguments and seed of this one, in the process that "
            "is to run it. The Draws that sgmcmc.run returns can be pickled"
        )

    @staticmethod
    def per_parameter(theta: Any, h: Iterable) -> Any:
        """Step sizes in the form of the parameters."""
        dtype = tree.leaves(theta)[0].dtype
        return tree.pack(theta, [tf.convert_to_tensor(x, dtype) for x in h])

    def shown(self, theta: Any) -> Any:
        """Without the axis of chains, where the user asked for none."""
        return theta if self.n_chains else tree.map(lambda x: x[0], theta)

    def transition(
        self, chain: Any, estimator_state: Any, block: Block, i: tf.Tensor, once: tf.Tensor | None
    ) -> tuple:
        """One iteration, with row i of the block: a pure function."""
        dynamics, feeder = self.dynamics, self.feeder
        h = self.per_parameter(dynamics.position(chain), tf.unstack(tf.gather(block.stepsize, i)))

        def inner(l: tf.Tensor, chain: Any, _: tf.Tensor) -> tuple:
            here = tf.stack([i, l])
            noise = tf.gather_nd(block.noise, here)

            def update(chain: Any, rows: dict[str, tf.Tensor]) -> tuple:
                key = folded(noise, COUNTS) if self.model.keyed else None
                batch = Batch(rows, feeder.source.N / feeder.n, key)
                estimate = self.estimator.estimate(
                    self.model, dynamics.position(chain), estimator_state, batch
                )
                chain = dynamics.update(chain, estimate.gradient, noise, h)
                chain = dynamics.finish(chain, rows, noise)
                return chain, estimate.value

            rows = {k: tf.gather_nd(v, here) for k, v in block.rows.items()}
            return l + 1, *apart(update, chain, rows, once)

        chain = dynamics.begin(chain, block.noise[i, -1], h)
        start = 0, chain, tf.zeros(feeder.chains, feeder.dtype)
        if dynamics.inner_steps == 1:
            _, chain, value = inner(*start)
        else:
            _, chain, value = tf.while_loop(lambda l, *_: l < dynamics.inner_steps, inner, start)
        return chain, value, h

    def record(self, chain: Any, value: tf.Tensor, h: Any) -> dict[str, Any]:
        """What is kept of an iteration."""
        trace = {"log_posterior": value} if self.model.has_value else {}
        report = self.dynamics.report(chain, h)
        return {"params": self.dynamics.position(chain), **trace, **report}

    def renew(self) -> None:
        """Let the estimator look at the data again, from where the chains stand."""
        theta = self.dynamics.position(self.state.chain)

        def count(rows: dict[str, np.ndarray], key: np.ndarray) -> Any:
            shape = tree.leaves(rows)[0].shape[:2]
            if shape not in self.surveys:
                left_over = len(self.surveys) > 0  # rows that are soon looked at without XLA
                jit = self.jit and (self.model.keyed or not left_over)
                self.surveys[shape] = compiled(self.survey, jit)
            return self.surveys[shape](theta, *tree.map(tf.constant, (rows, key)))

        self.estimator_state = self.estimator.renew(
            self.model, theta, self.feeder, self.state.iteration, count
        )

    def survey(self, theta: Any, rows: dict[str, tf.Tensor], key: tf.Tensor, *, jit: bool) -> Any:
        """What each of some groups of rows says: (groups, chains, ...)."""
        groups, chains = (tree.leaves(x)[0].shape[0] for x in (rows, theta))
        if groups > 1:
            rows = tree.map(lambda x: tf.repeat(x, chains, axis=0), rows)
            theta = tree.map(lambda x: tf.tile(x, (groups, *[1] * (x.shape.rank - 1))), theta)
        found = on_rows(self.model, theta, Batch(rows, 1.0, key)).gradient
        return tree.map(lambda x: tf.reshape(x, (groups, chains, *x.shape[1:])), found)

    def advance(
        self, chain: Any, estimator_state: Any, block: Block, span: tf.Tensor, *, jit: bool
    ) -> tuple:
        """Iterations first ... last − 1 of a block, which is what is compiled.

        The first thing returned is the number of the first that is not finite, or `last`.
        """
        first, last = tf.unstack(span)
        size, large = self.feeder.size, self.feeder.n * self.feeder.source.row_bytes > APART_BYTES
        once = tf.minimum(last - first, 1) if jit and large else None
        h = self.per_parameter(self.dynamics.position(chain), tf.unstack(block.stepsize[0]))
        like = self.record(chain, tf.zeros(self.feeder.chains, self.feeder.dtype), h)
        draws = [tf.TensorArray(x.dtype, size, element_shape=x.shape) for x in tree.leaves(like)]

        def body(i: tf.Tensor, chain: Any, draws: list) -> tuple:
            chain, value, h = self.transition(chain, estimator_state, block, i, once)
            draw = tree.leaves(self.record(chain, value, h))
            return i + 1, chain, [a.write(i, x) for a, x in zip(draws, draw)]

        _, chain, draws = tf.while_loop(
            lambda i, *_: i < last, body, (first, chain, draws), parallel_iterations=1
        )
        draws = [a.stack() for a in draws]
        each, good = tf.range(size), tf.stack([finite_rows(x) for x in draws])
        gone_wrong = (each >= first) & (each < last) & ~tf.reduce_all(good, axis=0)
        stop = tf.reduce_min(tf.where(gone_wrong, each, last))
        draws = tree.pack(like, draws)
        now = tree.map(lambda x: tf.gather(x, last - 1), draws["params"])  # equal to the last bit
        return stop, chain, self.shown(now), draws

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
            self.followed = track, compiled(tracker(track), self.jit)
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


def apart(
    update: Callable, chain: Any, rows: dict[str, tf.Tensor], once: tf.Tensor | None
) -> tuple:
    """update(chain, rows), with rows that XLA copies out of their block first, given `once`: 1.

    It would otherwise read the block anew, number by number, for each product of the rows with a
    vector. It does not see through a loop, not even of one trip if it cannot know that.
    """
    if once is None:
        return update(chain, rows)
    one = all(x.shape[0] == 1 for x in rows.values())  # XLA sees through an axis of length 1
    rows = tree.map(lambda x: x[0], rows) if one else rows

    def trip(k: tf.Tensor, chain: Any, _: tf.Tensor, flat: dict[str, tf.Tensor]) -> tuple:
        rows = tree.map(lambda x: x[None], flat) if one else flat
        return k + 1, *update(chain, rows), flat

    leaf = tree.leaves(chain)[0]
    start = 0, chain, tf.zeros(leaf.shape[0], leaf.dtype), rows
    _, chain, value, _ = tf.while_loop(lambda k, *_: k < once, trip, start, parallel_iterations=1)
    return chain, value


def cut(nest: Any, span: slice) -> Any:
    """Some entries along the first axis, as NumPy arrays."""
    return tree.map(lambda x: x.numpy()[span], nest)


def finite_rows(x: tf.Tensor) -> tf.Tensor:
    """Whether there is no NaN and no infinite value, for each entry along the first axis."""
    return tf.reduce_all(tf.math.is_finite(x), axis=range(1, x.shape.rank))


def assign(variable: tf.Variable, value: tf.Tensor) -> None:
    """A third of the cost of `variable.assign`."""
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)


def as_tensor(fn: Callable) -> Callable:
    """A test function whose lists, too, are one array."""
    return lambda params: tf.convert_to_tensor(fn(*tree.copies(params)))


def tracker(track: Mapping[str, Callable]) -> Callable:
    """A function of all draws of a block that evaluates the test functions at every thin-th."""

    def follow(params: Any, span: tf.Tensor, *, jit: bool) -> dict[str, Any]:
        low, stop, thin = tf.unstack(span)

        def evaluate(i: tf.Tensor) -> dict[str, Any]:
            theta = tree.map(lambda x: x[i], params)
            return {k: each_chain(as_tensor(fn), theta) for k, fn in track.items()}

        like = tf.function(evaluate, autograph=False).get_concrete_function(low).structured_outputs
        size = tree.leaves(params)[0].shape[0]
        values = [tf.TensorArray(x.dtype, size, element_shape=x.shape) for x in tree.leaves(like)]

        def body(i: tf.Tensor, values: list) -> tuple:
            return i + thin, [a.write(i, x) for a, x in zip(values, tree.leaves(evaluate(i)))]

        _, values = tf.while_loop(lambda i, _: i < stop, body, (low, values), parallel_iterations=1)
        return tree.pack(like, [a.stack() for a in values])

    return follow


def compiled(fn: Callable, jit: bool) -> Callable:
    """Compile a function of tensors once: by XLA, or where XLA refuses by TensorFlow alone.

    A flat list of arguments costs 35 µs a call, nested ones 105.
    """
    program = None

    def call(*arguments: Any) -> Any:
        nonlocal program, jit
        leaves = tree.leaves(arguments)
        first = program is None
        if first:
            program = trace(arguments, leaves)
        try:
            return program(*leaves)
        except tf.errors.OpError as error:
            if not (jit and first):
                raise ValueError(f"the model raised {checks.summary(error)}") from error
            jit, program = False, None
            result = call(*arguments)
            warnings.warn(
                f"XLA cannot compile {refused(error)}: this model runs without it, at about half "
                "the speed",
                stacklevel=2,
            )
            return result

    def trace(arguments: Any, leaves: list) -> Callable:
        like = tree.map(lambda _: 0, arguments)
        return tf.function(
            lambda *leaves: fn(*tree.pack(like, leaves), jit=jit),
            jit_compile=jit,
            autograph=False,
        ).get_concrete_function(*leaves)

    return call


def refused(error: tf.errors.OpError) -> str:
    """The operation that XLA's error is about."""
    found = re.search(r"XLA_[CG]PU_JIT: (\w+)", str(error))
    return f"the operation {found[1]}" if found else f"it ({str(error).splitlines()[0]})"
