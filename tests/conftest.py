"""Fixtures that all tests share."""

import numpy as np
import pytest

from sgmcmc import programs


@pytest.fixture
def seed():
    """A fresh seed: tests must pass for any. It is shown where a test fails."""
    value = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"seed = {value}")
    return value


@pytest.fixture(autouse=True)
def fresh_programs():
    """Tests that change the package's functions must not see programs made before."""
    programs.known.clear()
