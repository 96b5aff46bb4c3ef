"""What users give to a sampler, on its way to the workers."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from .. import checks

HERE = "dataset", "verbose"  # the data are too large to be tried, and progress is shown here
MISSING = (
    "Send the module to the workers by client.upload_file('{module}.py'), or with the functions "
    "that are in it by cloudpickle.register_pickle_by_value({module})"
)


def options(function: Any) -> dict[str, Any]:
    """Return the arguments with which `tf.function` was called, as far as they are known."""
    names = "autograph", "jit_compile", "reduce_retracing"
    known = {name: getattr(function, f"_{name}", None) for name in names}
    return {name: value for name, value in known.items() if value is not None}


def compiled(function: Callable, signature: Any, options: Mapping[str, Any]) -> Any:
    """Make a `tf.function` again."""
    return tf.function(function, input_signature=signature, **options)


def pickled(value: Any) -> bytes:
    """Return a value as bytes, for `pickle.loads`.

    Functions go by value where cloudpickle does so, and each `tf.function` without the graphs that
    it has by now, which cannot be sent.
    """
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, tf.types.experimental.PolymorphicFunction):
                return compiled, (obj.python_function, obj.input_signature, options(obj))
            return super().reducer_override(obj)

    file = io.BytesIO()
    Pickler(file).dump(value)
    return file.getvalue()


def see_pickled(arguments: Mapping[str, Any]) -> None:
    """See that arguments can be sent to workers."""
    for name, value in arguments.items():
        if name in HERE:
            continue
        try:
            pickled(value)
        except Exception as error:
            raise ValueError(
                f"{name} must be something that can be sent to workers, but pickling it fails: "
                f"{checks.summary(error)}. Let functions make themselves what cannot be sent; for "
                "data in files, pass Shards of their paths"
            ) from error


def see_unpickled(client: Any, arguments: Mapping[str, Any]) -> None:
    """See that workers have the modules that arguments need."""
    sent = {}
    for name, value in arguments.items():
        if name in HERE or isinstance(value, (np.ndarray, str, float, int, type(None))):
            continue
        try:
            sent[name] = pickled(value)
        except Exception:
            continue  # see_pickled says so, after the checks of the arguments
    for address, failed in client.run(tried, sent).items():
        for name, (why, module) in failed.items():
            raise ValueError(
                f"{name} cannot be unpickled by the worker {address}: {why}. "
                + (MISSING.format(module=module) if module else "See its packages")
            )


class Sent(dict):
    """A dict of what users give, which is pickled by `pickled`. What arrives is a plain dict."""

    def __reduce__(self) -> Any:
        return pickle.loads, (pickled(dict(self)),)


def tried(sent: Mapping[str, bytes]) -> dict[str, tuple[str, str]]:
    """Unpickle arguments, and say of those with which it fails why, and which module is missing."""
    failed = {}
    for name, value in sent.items():
        try:
            pickle.loads(value)
        except Exception as error:
            missing = isinstance(error, ModuleNotFoundError)
            failed[name] = checks.summary(error), getattr(error, "name", "") if missing else ""
    return failed
