"""The code that is compiled: iterations of a sampler as a pure function, in TensorFlow alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import tensorflow as tf

from . import tree
from .checks import Tracked
from .dynamics import Dynamics, Noise
from .estimators import Estimate, Estimator
from .estimators.rows import row_by_row
from .feeder import Block, Wanted
from .model import Batch, Model, each_chain
from .random import folded

LARGE = 4096  # numbers of a draw
APART_BYTES = 1 << 15  # larger minibatches are copied out of their block
GIBBS, COUNTS = 1 << 10, 1 << 11  # the numbers that are folded into keys, by use


class Chains(NamedTuple):
    """The dynamics' own state, and the values of the parameters that Gibbs steps draw."""

    moving: Any
    given: dict[str, Any]


class Seen(NamedTuple):
    """The log posterior that the last inner step saw before it moved.

    If gradients are kept, with its gradient and the point of both, in chart coordinates.
    """

    value: Any
    gradient: Any = ()
    x: Any = ()


@dataclass(frozen=True)
class Engine:
    """The iterations of a sampler, made of a model, an estimator and a dynamics.

    `gibbs` has functions draw(params, rows, key) by parameter. `N` and `n` are the numbers of rows
    of the data and of a minibatch, `row_bytes` is the size of a row, and `size` the number of
    iterations in a block. `many` is True if the user sees an axis of chains. If `tempered`, the
    last column of the schedule is the temperature. If it `keeps_gradients`, it records the points
    at which gradients were taken, and the gradients. If `copied`, each chain has a copy of the
    matrix of the white coordinates.
    """

    model: Model
    estimator: Estimator
    dynamics: Dynamics
    gibbs: Mapping[str, Callable]
    wanted: Wanted
    tempered: bool
    N: int
    n: int
    row_bytes: int
    size: int
    chains: int
    dtype: Any
    many: bool
    keeps_gradients: bool = False
    copied: bool = False

    @property
    def apart(self) -> bool:
        """True if minibatches are copied out of their block before they are used."""
        return self.n * self.row_bytes > APART_BYTES

    @property
    def constants(self) -> tuple:
        """Constants of the compiled program, besides those of model, estimator and dynamics."""
        sizes = self.N, self.n, self.size, self.chains, self.dtype, self.many
        return (
            *sizes,
            self.apart,
            self.tempered,
            tuple(self.gibbs),
            self.keeps_gradients,
            self.copied,
            self.wanted.index,
        )

    def schedule(self, row: tf.Tensor, like: Any) -> tuple[Any, Any]:
        """Return step sizes, in the form of the moving parameters, and the temperature.

        A step size is one number, or an array (chains, 1, ...) that broadcasts over its parameter.
        """
        columns, by_chain = tf.unstack(row), row.shape.rank == 2
        temperature: Any = columns.pop() if self.tempered else 1.0
        h = tree.pack(like, columns)
        if by_chain:
            h = tree.map(lambda h, x: tf.reshape(h, (-1,) + (1,) * (x.shape.rank - 1)), h, like)
        return h, temperature[0] if by_chain and self.tempered else temperature

    def shown(self, nest: Any) -> Any:
        """Remove the axis of chains if the user asked for a single chain."""
        return nest if self.many else tree.map(lambda x: x[0], nest)

    def ordered(self, moving: Any, given: Mapping[str, Any]) -> Any:
        """Return all parameters, in the user's order."""
        if not given:
            return moving
        both = {**moving, **given}
        return {k: both[k] for k in self.model.chart.spaces}

    def position(self, chains: Chains) -> Any:
        """Return the point where the gradient is taken, in chart coordinates of all parameters."""
        return self.ordered(self.dynamics.position(chains.moving), chains.given)

    def noise(self, flat: Any, key: Any, temperature: Any) -> Noise:
        """Return the random numbers that the dynamics asked for, from those of the block."""
        wanted = self.wanted.noise
        nests = wanted.normals, wanted.uniforms
        if tree.leaves(nests):
            normals, uniforms = tree.split(flat, nests)
        else:
            normals, uniforms = nests
        if self.tempered:
            normals = tree.map(lambda z: tf.sqrt(temperature) * z, normals)
        return Noise(normals, uniforms, key if wanted.key is True else (), False, temperature)

    def estimate(self, chains: Chains, state: Any, batch: Batch) -> tuple[Estimate, Any]:
        """Return the estimate from a minibatch, for the moving parameters, and the new state."""
        x = self.position(chains)
        if self.dynamics.needs_rows:
            found = row_by_row(self.estimator, self.model, x, state, batch)
        else:
            found, state = self.estimator.estimate(self.model, x, state, batch)
        if self.gibbs:
            moving = {k: g for k, g in found.gradient.items() if k not in self.gibbs}
            found = found._replace(gradient=moving)
        return found, state

    def drawn(self, chains: Chains, rows: Any, key: Any) -> Chains:
        """Make the Gibbs steps, one after the other, and return the chains."""
        for i, (name, draw) in enumerate(self.gibbs.items()):
            params = self.model.params(self.position(chains))
            new = tree.each(
                lambda *each, draw=draw: draw(*tree.copies(*each)),
                *(params, rows, folded(key, GIBBS + i)),
            )
            new = tree.map(lambda x, old: tf.cast(x, old.dtype), new, chains.given[name])
            chains = chains._replace(given={**chains.given, name: new})
        return chains

    def transition(
        self,
        data: Any,
        chains: Chains,
        state: Any,
        block: Block,
        i: tf.Tensor,
        once: tf.Tensor | None,
    ) -> tuple:
        """Make one iteration, with entry i of the block. This is a pure function."""
        dynamics, carried = self.dynamics, self.estimator.carried
        like = dynamics.position(chains.moving)
        h, temperature = self.schedule(tf.gather(block.schedule, i), like)

        def inner(l: tf.Tensor, chains: Chains, changing: Any, _: tf.Tensor) -> tuple:
            here = tf.stack([i, l])
            index, flat, key = (at(x, here) for x in (block.index, block.noise, block.key))
            draws = self.model.counters or self.estimator.needs_key
            key_of_counts = folded(key, COUNTS) if draws else ()

            def update(both: tuple, rows: dict[str, tf.Tensor]) -> tuple:
                chains, changing = both
                batch = Batch(rows, self.N / self.n, index, key_of_counts)
                now = changing if carried else state
                before = self.position(chains)
                estimate, now = self.estimate(chains, now, batch)
                noise = self.noise(
                    flat, key, temperature
                )  # inside the loop, so that noise is not copied into it
                moving = dynamics.update(chains.moving, estimate, noise, h)
                chains = self.drawn(chains._replace(moving=moving), rows, key)
                return (chains, now if carried else ()), self.seen(before, estimate)

            rows = {k: tf.gather_nd(v, here) for k, v in block.rows.items()}
            if data:  # resident: the block only says where the rows are
                place = tf.gather_nd(block.place, here)
                rows = {k: tf.gather(v, place) for k, v in data.items()}
            (chains, changing), seen = self.once_apart(update, (chains, changing), rows, once)
            return l + 1, chains, changing, seen

        if self.wanted.noise.refresh:
            last = tf.stack([i, self.wanted.inner_steps])
            noise = self.noise(at(block.noise, last), at(block.key, last), temperature)
            chains = chains._replace(moving=dynamics.begin(chains.moving, noise, h))
        start = 0, chains, state if carried else (), self.unseen(chains)
        if self.wanted.inner_steps == 1:
            _, *after = inner(*start)
        else:
            _, *after = tf.while_loop(lambda l, *_: l < self.wanted.inner_steps, inner, start)
        return *after, h

    def once_apart(
        self, update: Callable, both: tuple, rows: dict[str, tf.Tensor], once: tf.Tensor | None
    ) -> tuple:
        """Run `update` in a loop of one trip, so that XLA copies the minibatch out of its block.

        Without the loop, XLA would read the block again, number by number, in each product of the
        rows with a vector. `once` is a tensor with the value 1, so that XLA does not know that
        there is only one trip, and cannot remove the loop. If it is None, there is no loop.
        """
        if once is None:
            return update(both, rows)
        one = all(x.shape[0] == 1 for x in rows.values())  # XLA sees through an axis of length 1
        rows = tree.map(lambda x: x[0], rows) if one else rows

        def trip(k: tf.Tensor, both: tuple, _: tf.Tensor, flat: dict[str, tf.Tensor]) -> tuple:
            rows = tree.map(lambda x: x[None], flat) if one else flat
            return k + 1, *update(both, rows), flat

        start = 0, both, self.unseen(both[0]), rows
        _, both, seen, _ = tf.while_loop(lambda k, *_: k < once, trip, start, parallel_iterations=1)
        return both, seen

    def seen(self, x: Any, estimate: Estimate) -> Seen:
        """Return what is recorded of the estimate at x, before the chains move on."""
        value = self.model.seen_value(x, estimate.value)
        return Seen(value, estimate.gradient, x) if self.keeps_gradients else Seen(value)

    def unseen(self, chains: Chains) -> Seen:
        """Return zeros in the form of what `seen` returns."""
        value = tf.zeros(self.chains, self.dtype)
        if not self.keeps_gradients:
            return Seen(value)
        zeros = tree.map(tf.zeros_like, self.position(chains))
        return Seen(value, zeros, zeros)

    def record(self, chains: Chains, seen: Seen, h: Any) -> dict[str, Any]:
        """Return what is recorded of an iteration: parameters as users see them, and statistics.

        If gradients are kept, `paired` has the points at which they were taken.
        """
        x, stats = self.dynamics.draw(chains.moving, h)
        x = self.model.recorded(x)
        trace = {"log_posterior": seen.value} if self.model.has_value else {}
        paired = {"paired": self.paired(seen)} if self.keeps_gradients else {}
        params = self.model.params(self.ordered(x, chains.given))
        return {"params": params, **trace, **stats, **paired}

    def paired(self, seen: Seen) -> dict[str, Any]:
        """Return a point as users see it, and the gradient there by chart coordinates.

        Its free coordinates are added if the user's values are others.
        """
        model, x = self.model, self.ordered(seen.x, {})
        found = {"params": model.params(model.recorded(x)), "gradients": seen.gradient}
        if model.chart.is_shrunk or not model.chart.same("forward"):
            found["coordinates"] = each_chain(model.chart.free, x)
        return found

    def like(self, chains: Chains, row: tf.Tensor) -> dict[str, Any]:
        """Return `record` of the chains in their current state, with a log posterior of 0."""
        h, _ = self.schedule(row, self.dynamics.position(chains.moving))
        return self.record(chains, self.unseen(chains), h)

    def behind(self, affine: tuple) -> Engine:
        """The same engine with other white coordinates."""
        return replace(self, model=self.model.behind(affine))

    def traced_like(self, chains: Chains, row: tf.Tensor) -> dict[str, Any]:
        """Evaluate `like` as a graph, traced once, for use outside compiled code."""

        def like(affine: tuple, chains: Chains, row: tf.Tensor) -> dict[str, Any]:
            return self.behind(affine).like(chains, row)

        arguments = self.model.affine, chains, row
        return self.model.programs.traced(("like", self.constants), like, *arguments)(*arguments)

    def advance(
        self,
        affine: tuple,
        data: Any,
        chains: Chains,
        state: Any,
        block: Block,
        span: tf.Tensor,
        *,
        jit: bool,
    ) -> tuple:
        """Make iterations first ... last − 1 of a block. This is the function that is compiled.

        The first result is the number of the first iteration that is not finite, or else `last`.
        """
        self = self.behind(affine)
        if self.copied:
            self = replace(self, model=self.model.with_copies(self.chains))
        first, last = tf.unstack(span)
        size, carried = self.size, self.estimator.carried
        once = tf.minimum(last - first, 1) if jit and self.apart else None
        like = self.like(chains, block.schedule[0])
        draws = [tf.TensorArray(x.dtype, size, element_shape=x.shape) for x in tree.leaves(like)]
        large = [x.shape.num_elements() >= LARGE for x in tree.leaves(like)]
        fine = [tf.TensorArray(tf.bool, size, element_shape=()) for _ in range(any(large))]

        def body(i: tf.Tensor, chains: Chains, changing: Any, draws: list, fine: list) -> tuple:
            now = changing if carried else state
            chains, changing, seen, h = self.transition(data, chains, now, block, i, once)
            draw = tree.leaves(self.record(chains, seen, h))
            # A large draw is looked at while it is in the cache, and others all at once at the end
            good = [tf.reduce_all(tf.math.is_finite(x)) for x, far in zip(draw, large) if far]
            fine = [a.write(i, tf.reduce_all(tf.stack(good))) for a in fine]
            return i + 1, chains, changing, [a.write(i, x) for a, x in zip(draws, draw)], fine

        start = first, chains, state if carried else (), draws, fine
        _, chains, changing, draws, fine = tf.while_loop(
            lambda i, *_: i < last, body, start, parallel_iterations=1
        )
        draws = [a.stack() for a in draws]
        good = [finite_rows(x) for x, far in zip(draws, large) if not far]
        each, good = tf.range(size), tf.stack(good + [a.stack() for a in fine])
        gone_wrong = (each >= first) & (each < last) & ~tf.reduce_all(good, axis=0)
        stop = tf.reduce_min(tf.where(gone_wrong, each, last))
        draws = tree.pack(like, draws)
        now = tree.map(lambda x: tf.gather(x, last - 1), draws["params"])  # bit for bit as recorded
        return stop, chains, changing, self.shown(now), draws


def at(array: Any, here: tf.Tensor) -> Any:
    """Return one entry of a part of the block; () if nobody asked for that part."""
    return () if isinstance(array, tuple) else tf.gather_nd(array, here)


def wanted(
    model: Model, estimator: Estimator, dynamics: Dynamics, gibbs: Mapping[str, Callable], x: Any
) -> Wanted:
    """Return what a block must hold besides rows and step sizes, for moving parameters at x.

    It holds row numbers if the estimator asks for them, and keys if it, the dynamics, Gibbs steps
    or functions that draw counts need them.
    """
    noise = dynamics.noise(x)
    shapes = tree.map(lambda a: tf.TensorSpec(a.shape, a.dtype), noise[:2])
    key = noise.key is True or estimator.needs_key or len(gibbs) > 0 or len(model.counters) > 0
    noise = Noise(*shapes, noise.key, noise.refresh)
    return Wanted(noise, dynamics.inner_steps, estimator.needs_index, key)


def why_no_gradients(model: Model, gibbs: Mapping[str, Callable], tempered: bool) -> str | None:
    """Return why gradients do not tell the posterior of the draws; None if they do."""
    if gibbs:
        return "some parameters are drawn by Gibbs steps"
    if model.counters or any(tree.leaves(model.chart.has_counts)):
        return "probabilities move by counts, not by gradients"
    if model.chart.has_manifold:
        return "parameters lie on a manifold"
    if tempered:
        return "the chain is tempered"
    return None


def finite_rows(x: tf.Tensor) -> tf.Tensor:
    """True for each entry along the first axis that has no NaN and no infinite value."""
    return tf.reduce_all(tf.math.is_finite(x), axis=range(1, x.shape.rank))


def tracker(track: Mapping[str, Tracked]) -> Callable:
    """Make a function of a block's draws that evaluates the test functions at every thin-th."""

    def follow(params: Any, span: tf.Tensor, *, jit: bool) -> dict[str, Any]:
        low, stop, thin = tf.unstack(span)

        def evaluate(i: tf.Tensor) -> dict[str, Any]:
            theta = tree.map(lambda x: x[i], params)
            return {
                k: each_chain(test.program, theta, in_turn=test.makes_choices)
                for k, test in track.items()
            }

        like = tf.function(evaluate, autograph=False).get_concrete_function(low).structured_outputs
        size = tree.leaves(params)[0].shape[0]
        values = [tf.TensorArray(x.dtype, size, element_shape=x.shape) for x in tree.leaves(like)]

        def body(i: tf.Tensor, values: list) -> tuple:
            return i + thin, [a.write(i, x) for a, x in zip(values, tree.leaves(evaluate(i)))]

        _, values = tf.while_loop(lambda i, _: i < stop, body, (low, values), parallel_iterations=1)
        return tree.pack(like, [a.stack() for a in values])

    return follow
