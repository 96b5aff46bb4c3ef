"""Compiled programs, which calls with the same model and shapes share."""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

import tensorflow as tf

from . import checks, tree
from .fingerprint import Fingerprint, UnknownValue

MODELS = 32  # whose programs are kept

known: OrderedDict[Hashable, tuple[Programs, list]] = OrderedDict()
lock = Lock()


class Programs(dict):
    """The programs of one model, by what they are for and the shapes of their arguments."""

    def traced(self, purpose: Hashable, fn: Callable, *arguments: Any) -> Callable:
        """`fn` as a TensorFlow graph for arguments like these."""
        key = purpose, signature(arguments)
        if key not in self:
            program = tf.function(fn, autograph=False)
            self[key] = program.get_concrete_function(*arguments)
        return self[key]

    def compiled(self, purpose: Hashable, fn: Callable, jit: bool) -> Callable:
        """`fn(*arguments, jit=...)` compiled for arguments like those of the first call."""
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
    """The programs of these functions and values: those of an equal model, if there was one."""
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
    """The form, shapes and types of a nest of arrays."""
    leaves = tuple((tuple(x.shape), x.dtype) for x in tree.leaves(arguments))
    return repr(tree.map(lambda _: 0, arguments)), leaves


def compiled(fn: Callable, jit: bool) -> Callable:
    """Compile a function of tensors once: by XLA, or where XLA refuses by TensorFlow alone.

    A flat list of arguments costs 35 µs a call, nested ones 105.
    """
    program = None

    def call(*arguments: Any) -> Any:
        nonlocal program, jit, fn
        leaves = tree.leaves(arguments)
        first = fn is not None
        if first:
            program = trace(fn, arguments, leaves, jit)
        try:
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
        fn = None  # it holds the data, which the program does not
        return result

    return call


def trace(fn: Callable, arguments: Any, leaves: list, jit: bool) -> Callable:
    """A function of leaves that calls `fn` with the nests that they come from."""
    like = tree.map(lambda _: 0, arguments)
    return tf.function(
        lambda *leaves: fn(*tree.pack(like, leaves), jit=jit),
        jit_compile=jit,
        autograph=False,
    ).get_concrete_function(*leaves)


def refused(error: tf.errors.OpError) -> str:
    """The operation that XLA's error is about."""
    found = re.search(r"XLA_[CG]PU_JIT: (\w+)", str(error))
    return f"the operation {found[1]}" if found else f"it ({str(error).splitlines()[0]})"
