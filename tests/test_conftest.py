"""The tests' own machinery: seeds that repeat a run, the count of comparisons, new samplers."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from . import ztest

ROOT = Path(__file__).parents[1]
TESTS = """
import numpy as np
import pytest
from sgmcmc.checks import values
from tests.ztest import assert_mean, assert_rejected


@pytest.fixture(scope="module")
def shared(module_seed):
    return module_seed


@pytest.mark.slow
def test_fails(shared, seed):
    pytest.fail(f"seeds: {shared} {seed} {values.seed(None)} {values.seed(None)}")


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


def test_a_failure_says_how_to_repeat_it(run):
    def seeds(done):
        return re.search(r"Failed: seeds: (\d+) (\d+) (\d+) (\d+)", done.stdout).groups()

    first = run("--all", "-k", "fails")
    assert first.returncode == 1
    assert len(set(seeds(first))) == 4
    again = re.search(r"(?m)^pytest (--all --seed \d+ test_some.py::test_fails)$", first.stdout)
    assert seeds(first) == seeds(run(*again[1].split()))


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "two processes"])
def test_a_run_that_exceeds_its_budget_fails(run, options):
    done = run("-k", "compares", *options, budget=3)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "z-tests: 4 comparisons and 4 negative controls; the BUDGET" in done.stdout
    assert "EXCEEDED" in done.stdout


@pytest.mark.parametrize("count", [1, 4])
def test_cube_roots_of_squares_have_their_mean(count, seed):
    squares = np.random.default_rng(seed).normal(size=(4000, count)) ** 2
    ztest.assert_squares(3 * squares.mean(axis=1), 3.0, count, detect=0.4)
    with pytest.raises(AssertionError, match="is not"):
        ztest.assert_squares(1.6 * squares.mean(axis=1), 1.0, count, detect=0.4)


def test_a_new_sampler_is_in_the_short_run():
    """All tests of test_common.py that run for `sgld` run for a row that nobody has heard of."""
    code = (
        "import sys, pytest, sgmcmc\n"
        "from sgmcmc.describe import public\n"
        "sgmcmc.new, sgmcmc.new_setup = public('new', sgmcmc.SGLD)\n"
        "sys.exit(pytest.main(['tests/test_common.py', '--collect-only', '-q']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tests = re.findall(r"(?m)^\S+::(\w+)\[(sgld|new)\b(.*)\]$", done.stdout)
    new = {(test, rest) for test, name, rest in tests if name == "new"}
    assert new == {(test, rest) for test, name, rest in tests if name == "sgld"}
    assert len(new) > 10
