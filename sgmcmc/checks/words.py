"""Parts of error messages."""

from __future__ import annotations

import difflib
import re
from typing import Any

DECORATIONS = re.compile(r"\{\{function_node .*?\}\} | for '\{\{node .*|\s*\[\[\{\{.*|\s*\[Op:.*")


def summary(error: BaseException) -> str:
    """Return an error in one line, without TensorFlow's decorations."""
    lines = DECORATIONS.sub("", str(error)).strip().split("\n")
    text = lines[-1 if lines[0] in ("in user code:", "Graph execution error:") else 0].strip()
    kind = type(error).__name__
    return f"{kind}: {text.removeprefix(f'{kind}: ')}".removesuffix(": ")


def described(value: Any) -> str:
    """Describe a value that was given instead of what is allowed."""
    if getattr(value, "shape", ()):
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"


def nearest(name: Any, known: Any) -> str:
    """Return a guess at the name that was meant, in brackets, or an empty text."""
    close = difflib.get_close_matches(str(name), [str(k) for k in known], 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
