"""Tests of sgmcmc."""

from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """A case of `pytest.mark.parametrize` that runs with `--all` only."""
    return pytest.param(*values, marks=pytest.mark.slow)
