"""Compile functions, and share the programs between calls with equal models and shapes."""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock
from typing import Any

import tensorflow as tf

from . import checks, tree
from .fingerprint import Fingerprint, UnknownValue

MODELS = 32  # the programs of this many models are kept

known: OrderedDict[Hashable, tuple[Programs, list]] = OrderedDict()
lock = Lock()


class Programs(dict):
    """The programs of one model, by their purpose and the shapes of their arguments."""

    def traced(self, purpose: Hashable, fn: Callable, *arguments: Any) -> Callable:
        """Return `fn` as a TensorFlow graph for arguments of these shapes."""
        key = purpose, signature(arguments)
        if key not in self:
            program = tf.function(fn, autograph=False)
            self[key] = program.get_concrete_function(*arguments)
        return self[key]

    def compiled(self, purpose: Hashable, fn: Callable, jit: bool) -> Callable:
        """Return `fn(*arguments, jit=...)`, which is compiled for the shapes of its first call."""
        program = None

        def call(*arguments: Any) -> Any:
            nonlocal program
            if program is not None:
                return program(*arguments)
            key = purpose, jit, signature(arguments)
            made = self.get(key) or compiled(fn, jit)
            result = made(*arguments)
            program = self[key] = made
            return result

        return call


def programs_of(*parts: Any) -> Programs:
    """Return the programs of a model made of these parts, shared with an earlier equal model."""
    keys = Fingerprint()
    try:
        key = keys.of(parts)
    except (UnknownValue, RecursionError):
        return Programs()
    with lock:
        if key not in known:
            known[key] = Programs(), keys.kept
        known.move_to_end(key)
        while len(known) > MODELS:
            known.popitem(last=False)
        return known[key][0]


def signature(arguments: Any) -> Hashable:
    """Return the form, shapes and types of a nest of arrays, as a key."""
    leaves = tuple((tuple(x.shape), x.dtype) for x in tree.leaves(arguments))
    return repr(tree.map(lambda _: 0, arguments)), leaves


def compiled(fn: Callable, jit: bool) -> Callable:
    """Compile a function of tensors once, by XLA, or without it if XLA cannot compile it.

    The program takes a flat list of tensors: such a call costs 35 µs, one with nests 105.
    """
    program = None

    def call(*arguments: Any) -> Any:
        nonlocal program, jit, fn
        leaves = tree.leaves(arguments)
        first = fn is not None
        if first:
            program = trace(fn, arguments, leaves, jit)
        try:
            with nullcontext() if jit else sums_as_they_are():
                result = program(*leaves)
        except tf.errors.OpError as error:
            if not (jit and first):
                raise ValueError(f"the model raised {checks.summary(error)}") from error
            jit = False
            result = call(*arguments)
            warnings.warn(
                f"XLA cannot compile {refused(error)}: this model runs without it, at about half "
                "the speed",
                stacklevel=2,
            )
        fn = None  # release it: it may refer to the data, which the program does not
        return result

    return call


@contextmanager
def sums_as_they_are() -> Iterator[None]:
    """Keep TensorFlow from joining sums of several terms in the functions that are called inside.

    If a program's arguments are large, another of its optimizers then replaces such a sum by one
    that adds up in place, which fails in loops (AlreadyExistsError of a tmp_var).
    """
    options = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({**options, "arithmetic_optimization": False})
    try:
        yield
    finally:
        old = options.get("arithmetic_optimization", True)
        tf.config.optimizer.set_experimental_options({"arithmetic_optimization": old})


def trace(fn: Callable, arguments: Any, leaves: list, jit: bool) -> Callable:
    """Trace a function of leaves, which puts them back into nests and calls `fn` with those."""
    like = tree.map(lambda _: 0, arguments)
    return tf.function(
        lambda *leaves: fn(*tree.pack(like, leaves), jit=jit),
        jit_compile=jit,
        autograph=False,
    ).get_concrete_function(*leaves)


def refused(error: tf.errors.OpError) -> str:
    """Return the operation that an error of XLA is about."""
    found = re.search(r"XLA_[CG]PU_JIT: (\w+)", str(error))
    return f"the operation {found[1]}" if found else f"it ({str(error).splitlines()[0]})"
