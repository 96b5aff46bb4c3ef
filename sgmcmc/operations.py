"""Inspect the TensorFlow operations in a user's function, and refuse or warn of some."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection
from typing import Any

RANDOM = re.compile(
    r"(Random(Uniform|UniformInt|StandardNormal|Shuffle|Gamma|Poisson|PoissonV2)|TruncatedNormal"
    r"|ParameterizedTruncatedNormal|Multinomial|Rng\w+|Stateful(Standard|Truncated|Uniform|Random)"
    r"\w*)$"
)
CALLS = {"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"} | {
    *("PartitionedCall", "StatefulPartitionedCall")
}
CHOICES = {"If", "StatelessIf", "Case", "StatelessCase"}
CHECKS = {"Assert", "CheckNumerics", "CheckNumericsV2"}


def types_of(graph: Any) -> set[str]:
    """Return the types of all operations in a graph, and in the functions that it calls."""
    found = {op.type for op in graph.get_operations()}
    if found & CALLS:
        try:
            functions = graph.as_graph_def().library.function
        except ValueError:  # constants too large for a graph definition
            functions = ()
        found.update(node.op for function in functions for node in function.node_def)
    return found


def consider(name: str, types: Collection[str], jit: bool) -> None:
    """Refuse operations that cannot be compiled, and warn of those that may surprise the user."""
    if "EagerPyFunc" in types:
        raise ValueError(
            f"{name} calls tf.py_function, which runs Python at each step and cannot be compiled: "
            "it must be made of TensorFlow operations"
        )
    if any(map(RANDOM.match, types)):
        warnings.warn(
            f"{name} draws random numbers by tf.random, which `seed` does not fix: draws differ "
            "from run to run. Put the numbers into dataset, or for a fixed set of them use "
            "tf.random.stateless_normal and the like",
            stacklevel=2,
        )
    if jit and CHECKS & set(types):
        warnings.warn(
            f"{name} has assertions of tf.debugging, which compiled code leaves out: pass "
            "jit=False to have them checked at each step, or return NaN where they do not hold, as "
            "by tf.where(good, value, float('nan')), which stops the chain",
            stacklevel=2,
        )


def in_turn(types: Collection[str]) -> bool:
    """True if a function has branches, so that it cannot be evaluated for all chains at once."""
    return not CHOICES.isdisjoint(types)
