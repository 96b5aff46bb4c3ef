"""The tests' own machinery: the count of comparisons."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import numpy as np
import pytest
from tests.ztest import assert_mean, assert_rejected


@pytest.mark.parametrize("i", range(4))
def test_compares(seed, i):
    x = np.random.default_rng(seed).normal(1, 0.01, 1000)
    assert_mean(x, 1)
    assert_rejected(x, 2)
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path):
    """Runs pytest in another process on TESTS, with a budget of comparisons."""
    (tmp_path / "test_some.py").write_text(TESTS)

    def run(*options, budget=250):
        code = (
            f"import sys, pytest; sys.path.insert(0, {str(ROOT)!r})\n"
            f"from tests import ztest; ztest.BUDGET = {budget}\n"
            f"sys.exit(pytest.main(['-p', 'tests.conftest', *{options!r}]))"
        )
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )

    return run


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two processes"])
@pytest.mark.parametrize("budget", [4, 3])
def test_a_run_keeps_to_its_budget(run, options, budget):
    done = run("-k", "compares", *options, budget=budget)
    assert done.returncode == (budget < 4), done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "z-tests: 4 comparisons and 4 negative controls; the BUDGET" in done.stdout
    assert ("EXCEEDED" in done.stdout) == (budget < 4)
