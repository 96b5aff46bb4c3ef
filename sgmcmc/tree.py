"""Small operations on nests: dicts of arrays, which may be nested."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

map = tf.nest.map_structure
leaves = tf.nest.flatten
pack = tf.nest.pack_sequence_as


def copies(*nests: Any) -> tuple:
    """Copy the dicts but not the arrays, for users' functions that change their dicts."""
    return map(lambda x: x, nests)


def each(fn: Any, *nests: Any) -> Any:
    """Evaluate fn for each entry along the first axis, one after the other, and stack the results.

    A first axis of length 1 is shared by all. Unlike in `tf.vectorized_map`, fn may draw random
    numbers and have loops.
    """
    count = max(x.shape[0] for x in leaves(nests))

    def entry(i: Any) -> Any:
        return fn(*map(lambda x: x[i if x.shape[0] > 1 else 0], nests))

    if count == 1:
        return map(lambda x: x[None], entry(0))
    traced = tf.function(entry, autograph=False).get_concrete_function(tf.TensorSpec((), tf.int32))
    like = map(lambda x: tf.TensorSpec(x.shape, x.dtype), traced.structured_outputs)
    return tf.map_fn(entry, tf.range(count), fn_output_signature=like, parallel_iterations=1)


def names(nest: Any, prefix: str = "") -> list[str]:
    """Return the path of each leaf, such as ``layer/weights``, in the order of `leaves`."""
    if not isinstance(nest, dict):
        return [prefix]
    join = f"{prefix}/" if prefix else ""
    return [path for key in sorted(nest) for path in names(nest[key], f"{join}{key}")]


def size(nest: Any) -> int:
    """Return how many numbers a nest holds."""
    return sum(math.prod(x.shape) for x in leaves(nest))


def flat(nest: Any) -> tf.Tensor:
    """Lay the numbers of each chain end to end, as (chains, total size). `split` undoes this."""
    parts = [tf.reshape(x, (x.shape[0], math.prod(x.shape[1:]))) for x in leaves(nest)]
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=-1)


def split(flat: tf.Tensor, like: Any) -> Any:
    """Cut (chains, total size) into arrays in the form of `like`, with chains as the first axis."""
    shapes = [x.shape for x in leaves(like)]
    sizes = [shape[1:].num_elements() for shape in shapes]
    parts = [flat] if len(sizes) == 1 else tf.split(flat, sizes, axis=-1)
    return pack(like, [tf.reshape(part, shape) for part, shape in zip(parts, shapes)])
