"""Make keys of functions and values: functions with equal keys compile to the same program.

The key of a function has its code, and the values of everything that it refers to: its default
arguments, the variables of the functions around it, global variables, the functions that it calls,
and in turn what these refer to.
"""

from __future__ import annotations

import dis
import hashlib
import sys
from collections.abc import Hashable
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

MAX_BYTES = 16 << 20  # the most bytes of arrays that one key may refer to, and so keep in memory
PLAIN = type(None), bool, int, float, complex, str, bytes, type(...), range, slice
# Values that do not change are compared by identity
ITSELF = tf.DType, tf.TensorShape, BuiltinFunctionType, np.ufunc
LIBRARIES = sys.stdlib_module_names | {
    *("keras", "numpy", "scipy", "sgmcmc", "tensorflow", "tensorflow_probability", "tf_keras")
}


class UnknownValue(TypeError):
    """Raised for a value that cannot be compared with others."""


class Fingerprint:
    """Makes keys, and keeps a reference to every value that is compared by identity."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.seen: dict[int, int] = {}
        self.nbytes = 0

    def of(self, x: Any, names: frozenset[str] = frozenset()) -> Hashable:
        """Return the key of a value.

        The key of a module has its attributes called `names`. The key of an object has its
        attributes, if its classes are written in Python.
        """
        if isinstance(x, PLAIN):
            return type(x).__name__, repr(x)
        if isinstance(x, (np.ndarray, np.generic)):
            return self.array(x)
        if id(x) in self.seen:
            return "seen", self.seen[id(x)]
        self.seen[id(x)] = len(self.seen)
        self.kept.append(x)
        if isinstance(x, ITSELF) or is_of_library(x):
            return "itself", id(x)
        if isinstance(x, (tf.Tensor, tf.Variable)):
            self.count(x.dtype.size * (x.shape.num_elements() or 0))
            return "itself", id(x)
        if type(x) in (tuple, list):
            return type(x).__name__, tuple(map(self.of, x))
        if type(x) is dict:
            return "dict", tuple((self.of(k), self.of(v)) for k, v in x.items())
        if isinstance(x, partial):
            return "partial", self.of(x.func), self.of(x.args), self.of(x.keywords)
        if isinstance(x, MethodType):
            return "method", self.of(x.__func__), self.of(x.__self__)
        if isinstance(x, FunctionType):
            return self.function(x)
        if isinstance(x, ModuleType) and names:
            found = [(n, self.of(getattr(x, n), names)) for n in sorted(names) if hasattr(x, n)]
            return id(x), tuple(found)
        if isinstance(x, type):
            return id(x), self.members(x)
        if hasattr(x, "python_function"):  # a tf.function
            return "tf.function", self.of(x.python_function)
        if not hasattr(x, "__dict__") or not all(map(is_in_python, type(x).__mro__[:-1])):
            raise UnknownValue(type(x).__name__)
        return "object", self.of(type(x)), self.of(vars(x))

    def count(self, nbytes: int) -> None:
        """Count the bytes of arrays that are referred to, and raise an error if they are many."""
        self.nbytes += nbytes
        if self.nbytes > MAX_BYTES:
            raise UnknownValue(f"arrays of more than {MAX_BYTES} bytes")

    def array(self, x: Any) -> Hashable:
        """Return the key of an array, which has a hash of its content."""
        if x.dtype.hasobject:
            raise UnknownValue(f"array of {x.dtype}")
        self.count(x.nbytes)
        content = digest(x)
        return type(x).__name__, x.shape, x.dtype.str, content

    def function(self, f: FunctionType) -> Hashable:
        """Return the key of a function: its code, and the keys of what that refers to."""
        names, around = names_in(f.__code__), f.__globals__
        used = [(n, self.of(around[n], names)) for n in sorted(globals_in(f.__code__) & {*around})]
        imported = sorted(n for n in names if n not in around and n in sys.modules)
        used += [(n, self.of(sys.modules[n], names)) for n in imported]
        cells = tuple(self.of(content(c), names) for c in f.__closure__ or ())
        return f.__code__, tuple(used), cells, self.of(f.__defaults__), self.of(f.__kwdefaults__)

    def members(self, cls: type) -> Hashable:
        """Return the keys of a class's attributes and methods, and of its base classes."""
        below = tuple(self.of(c) for c in cls.__mro__[1:])
        found = []
        for name, x in sorted(vars(cls).items()):
            if isinstance(x, (staticmethod, classmethod)):
                x = x.__func__
            if isinstance(x, property):
                x = x.fget
            if isinstance(x, (FunctionType, np.ndarray, *PLAIN)) or not name.startswith("__"):
                found.append((name, self.of(x)))
        return tuple(found), below


def is_of_library(x: Any) -> bool:
    """True for functions, classes and modules of libraries, and for objects of TFP."""
    if type(x).__module__.startswith("tensorflow_probability."):
        return True
    if not isinstance(x, (FunctionType, type, ModuleType)):
        return False
    name = x.__name__ if isinstance(x, ModuleType) else x.__module__
    return isinstance(name, str) and name.split(".")[0] in LIBRARIES


def is_in_python(cls: type) -> bool:
    """True for classes whose objects have no other state than their attributes."""
    is_made_by_class_statement = cls.__flags__ & (1 << 9)
    return bool(is_made_by_class_statement) and not vars(cls).get("__slots__")


def inner(code: CodeType) -> list[CodeType]:
    """Return the code of the functions that are defined inside a function."""
    return [c for c in code.co_consts if isinstance(c, CodeType)]


def names_in(code: CodeType) -> frozenset[str]:
    """Return the names of all globals and attributes in code and in the functions inside it."""
    return frozenset(code.co_names).union(*map(names_in, inner(code)))


def globals_in(code: CodeType) -> set[str]:
    """Return the names of the globals that code and the functions inside it read."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    return found.union(*map(globals_in, inner(code)))


def content(cell: CellType) -> Any:
    """Return the value of a variable of the function around; None if it has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def digest(x: np.ndarray) -> str:
    """A checksum of the content of an array."""
    return hashlib.blake2b(np.ascontiguousarray(x).tobytes(), digest_size=16).hexdigest()
