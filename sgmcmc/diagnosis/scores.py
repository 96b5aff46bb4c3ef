"""Gradients of the log posterior at draws: exact ones, and those by which the chain moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .. import tree
from ..checks import summary
from ..engine import why_no_gradients
from ..estimators import Estimator
from ..estimators.control_variate import Centre, ControlVariate
from ..minibatches import Strata, Stratified
from ..model import Batch, Model
from ..origin import Origin
from ..programs import Programs
from ..streams import without_replacement
from .evidence import Evidence

BUDGET = 1 << 25  # rows that are looked at for exact gradients, over all draws
AT_ONCE = 1 << 20  # rows, times draws, in one call
BYTES = 32 << 20  # of the rows in one call
MOST = 4000  # draws of which gradients are computed
DRAWS = 256  # draws in one call


class Scores(NamedTuple):
    """Gradients at every so many draws.

    `x` are those draws and `exact` the gradients of the log posterior there, both as (chains, m, p)
    in free coordinates. If `is_full`, they are from all rows, and else unbiased estimates. `moved`
    are the gradients by which the sampler would have moved, each from a minibatch, in the
    coordinates of the chain; None if it cannot be asked. `steps` are its step sizes there, and
    `matrix` the map from these coordinates to free ones, or its diagonal.
    """

    x: np.ndarray
    at: np.ndarray
    exact: np.ndarray
    is_full: bool
    moved: np.ndarray | None
    steps: np.ndarray | None
    matrix: np.ndarray

    @property
    def noise(self) -> np.ndarray | None:
        """The noise of the sampler's gradients, in the coordinates of the chain."""
        return None if self.moved is None else self.moved - self.pulled_back(self.exact)

    def pulled_back(self, gradient: np.ndarray) -> np.ndarray:
        """A gradient in the coordinates of the chain, given that in free coordinates."""
        return gradient * self.matrix if self.matrix.ndim == 1 else gradient @ self.matrix

    def in_free(self, gradient: np.ndarray) -> np.ndarray:
        """Undo `pulled_back`."""
        if self.matrix.ndim == 1:
            return gradient / self.matrix
        flat = gradient.reshape(-1, gradient.shape[-1])
        return np.linalg.solve(self.matrix.T, flat.T).T.reshape(gradient.shape)


def why_no_scores(origin: Origin) -> str | None:
    """Return why gradients say nothing of these draws; None if they do."""
    engine = origin.engine
    found = why_no_gradients(engine.model, engine.gibbs, engine.tempered)
    return why_no_data(origin) if found is None else found


def why_no_data(origin: Origin) -> str | None:
    """Return why rows cannot be read any more; None if they can."""
    try:
        origin.source.rows(0, 1)
    except Exception as error:  # of any kind: a file or the client of a cluster was closed
        return (
            f"the data cannot be read any more ({summary(error)}): call diagnose before you close "
            "their file or the client of their cluster"
        )
    return None


def scores_of(evidence: Evidence, rng: np.random.Generator) -> Scores:
    """Evaluate gradients at draws that are equally far apart."""
    origin = evidence.origin
    engine, source = origin.engine, origin.source
    chains, n, p = evidence.x.shape
    most = max(1, min(n, MOST // chains))
    at = np.unique(np.linspace(0, n - 1, most).round().astype(int))
    x = evidence.x[:, at]
    flat = x.reshape(-1, p)
    model = replace(
        engine.model, chart=replace(engine.model.chart, affine=None), programs=Programs()
    )
    like = tree.map(lambda a: a.shape[1:], like_of(origin))
    rows = BUDGET // len(flat)
    is_full = rows >= source.N
    if is_full:
        exact = full_gradients(model, origin, flat, like)
    else:
        n_rows = int(min(source.N, max(rows, engine.n)))
        centre = nest(flat.mean(axis=0)[None], like, engine.dtype)
        centre = tree.map(lambda a: a[0], centre)
        found = model.on_all(centre, source)
        state = Centre(centre, tree.map(lambda a: tf.constant(a, engine.dtype), found))
        exact = estimates(model, origin, ControlVariate(), state, flat, like, n_rows, rng)
    matrix = matrix_of(origin, p)
    moved = None
    if can_be_asked(origin):
        affine = engine.model.chart.affine
        away = flat if affine is None else flat - centre_of(origin, p)
        w = away / matrix if matrix.ndim == 1 else np.linalg.solve(matrix, away.T).T
        same = replace(engine.model, programs=Programs())
        arguments = same, origin, engine.estimator, origin.estimator, w, like, engine.n, rng
        moved = estimates(*arguments, origin.strata).reshape(x.shape)
    return Scores(x, at, exact.reshape(x.shape), is_full, moved, steps_of(origin), matrix)


def can_be_asked(origin: Origin) -> bool:
    """Whether the estimator can be evaluated at any draw, given a minibatch alone."""
    estimator = origin.engine.estimator
    if estimator.carried or estimator.every or estimator.needs_index or estimator.needs_key:
        return False
    chains, state = origin.engine.chains, origin.estimator
    if chains == 1 or isinstance(state, Centre):
        return True
    return all(np.shape(x)[:1] != (chains,) for x in tree.leaves(state))


def like_of(origin: Origin) -> Any:
    """The position of the chains."""
    return origin.engine.position(origin.chains)


def nest(flat: np.ndarray, shapes: Any, dtype: Any) -> Any:
    """Rows of numbers laid end to end, as a nest of tensors with a leading axis."""
    like = tree.pack(
        shapes_as_leaves(shapes),
        [tf.TensorSpec((len(flat), *s)) for s in tree.leaves(shapes_as_leaves(shapes))],
    )
    return tree.split(tf.constant(flat, dtype), like)


def shapes_as_leaves(shapes: Any) -> Any:
    """Keep shapes whole where nests are walked."""
    if isinstance(shapes, dict):
        return {k: shapes_as_leaves(v) for k, v in shapes.items()}
    return tf.TensorShape(shapes)


def full_gradients(model: Model, origin: Origin, x: np.ndarray, like: Any) -> np.ndarray:
    """The gradient of the log posterior at each of some points, from all rows."""
    engine, source = origin.engine, origin.source
    size = min(DRAWS, len(x))
    nbytes = max(1, min(BYTES, AT_ONCE // size * source.row_bytes))
    found = np.empty_like(x)

    def of_data(point: Any, rows: Any) -> tf.Tensor:
        return tree.flat(model.each_chain(model.data, point, tree.map(lambda a: a[None], rows))[1])

    def of_prior(point: Any) -> tf.Tensor:
        return tree.flat(model.each_chain(model.prior, point)[1])

    for part, count in parts(x, size):
        point = nest(part, like, engine.dtype)
        total = np.zeros_like(part)
        if model.has_prior:
            total += model.programs.traced("prior", of_prior, point)(point).numpy()
        for rows in source.pieces(nbytes):
            total += model.programs.traced("data", of_data, point, rows)(point, rows).numpy()
        found[count] = total[: len(found[count])]
    return found


def estimates(
    model: Model,
    origin: Origin,
    estimator: Estimator,
    state: Any,
    x: np.ndarray,
    like: Any,
    n: int,
    rng: np.random.Generator,
    strata: Strata | None = None,
) -> np.ndarray:
    """What an estimator says of the gradient at each of some points, each by its own minibatch."""
    engine, source = origin.engine, origin.source
    size = min(DRAWS, len(x), AT_ONCE // n, BYTES // (n * source.row_bytes))
    size = max(1, size)
    found = np.empty_like(x)

    def estimate(state: Any, point: Any, rows: Any) -> tf.Tensor:
        batch = Batch(rows, source.N / n)
        return tree.flat(estimator.estimate(model, point, state, batch)[0].gradient)

    for part, count in parts(x, size):
        point = nest(part, like, engine.dtype)
        index = minibatches(rng, source.N, n, size, strata)
        rows = {k: np.empty(s, source.dtypes[k]) for k, s in source.shapes(size, n).items()}
        source.gather(index, rows)
        given = state, point, tree.map(tf.constant, rows)
        g = model.programs.traced("estimate", estimate, *given)(*given).numpy()
        found[count] = g[: len(found[count])]
    return found


def minibatches(
    rng: np.random.Generator, N: int, n: int, count: int, strata: Strata | None
) -> np.ndarray:
    """The rows of minibatches, (count, n): one of each stratum, or else simple random samples."""
    if strata is None:
        return without_replacement(rng, N, n, count)
    return Stratified(strata.order, n, int(rng.integers(1 << 63))).rows(0, count, 0)


def parts(x: np.ndarray, size: int) -> list[tuple[np.ndarray, slice]]:
    """Blocks of one size, the last filled up with the first points."""
    found = []
    for start in range(0, len(x), size):
        part = x[start : start + size]
        whole = part if len(part) == size else np.concatenate([part, x[: size - len(part)]])
        found.append((whole, slice(start, start + len(part))))
    return found


def steps_of(origin: Origin) -> np.ndarray | None:
    """The step size of each coordinate of the chain; None if they change from step to step."""
    leaves = tree.leaves(like_of(origin))
    if any(callable(h) for h in origin.schedule):
        return None
    sizes = [int(np.prod(a.shape[1:])) for a in leaves]
    return np.repeat(np.array(origin.schedule, float), sizes)


def covered(origin: Origin) -> np.ndarray:
    """Which coordinates the affine map covers."""
    names = origin.engine.model.chart.affine.names
    position = like_of(origin)
    sizes = {k: tree.size(x) // tree.leaves(x)[0].shape[0] for k, x in position.items()}
    return np.repeat([k in names for k in sorted(sizes)], [sizes[k] for k in sorted(sizes)])


def matrix_of(origin: Origin, p: int) -> np.ndarray:
    """The map from coordinates of the chain to free ones, or its diagonal."""
    affine = origin.engine.model.chart.affine
    if affine is None:
        return np.ones(p)
    L, here = np.asarray(affine.matrix, float), covered(origin)
    if L.ndim == 1:
        found = np.ones(p)
        found[here] = L
        return found
    found = np.eye(p)
    found[np.ix_(here, here)] = L
    return found


def centre_of(origin: Origin, p: int) -> np.ndarray:
    """The free coordinates where those of the chain are 0."""
    found = np.zeros(p)
    found[covered(origin)] = np.asarray(origin.engine.model.chart.affine.centre, float)
    return found
