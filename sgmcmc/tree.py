"""Small operations over parameters: dicts of arrays, which may be nested."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

map = tf.nest.map_structure
leaves = tf.nest.flatten
pack = tf.nest.pack_sequence_as


def copies(*nests: Any) -> tuple:
    """Dicts of the same leaves, for users' functions that change theirs."""
    return map(lambda x: x, nests)


def each(fn: Any, *nests: Any) -> Any:
    """The values of fn at each entry along the first axis, in turn; an axis of length 1 is shared.

    Unlike `tf.vectorized_map` this takes random numbers, and loops in fn.
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
    """The path of each leaf, such as ``layer/weights``, in the order of `leaves`."""
    if not isinstance(nest, dict):
        return [prefix]
    join = f"{prefix}/" if prefix else ""
    return [path for key in sorted(nest) for path in names(nest[key], f"{join}{key}")]


def size(nest: Any) -> int:
    """How many numbers a nest holds."""
    return sum(math.prod(x.shape) for x in leaves(nest))


def flat(nest: Any) -> tf.Tensor:
    """The numbers of each chain laid end to end: what `split` cuts."""
    parts = [tf.reshape(x, (x.shape[0], math.prod(x.shape[1:]))) for x in leaves(nest)]
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=-1)


def split(flat: tf.Tensor, like: Any) -> Any:
    """Cut (chains, total size) into the shapes of `like`, whose first axis is the chains."""
    shapes = [x.shape for x in leaves(like)]
    sizes = [shape[1:].num_elements() for shape in shapes]
    parts = [flat] if len(sizes) == 1 else tf.split(flat, sizes, axis=-1)
    return pack(like, [tf.reshape(part, shape) for part, shape in zip(parts, shapes)])
