"""Options of pytest, and fixtures that all tests share.

    pytest             the short run: all but the long statistical tests
    pytest --all       everything
    pytest --seed N    repeat a run with its random numbers

Tests must pass for any seed. Each run draws one, and gives each test a seed that depends on it and
on the test's name. Reports of failures say how to repeat the test with the same numbers.
"""

import os
import shlex
import zlib
from pathlib import Path

import numpy as np
import pytest

from sgmcmc import programs
from sgmcmc.checks import values

from . import ztest


def pytest_addoption(parser):
    group = parser.getgroup("sgmcmc")
    group.addoption("--all", action="store_true", help="run the slow tests, too")
    group.addoption("--seed", type=int, help="the seed of a former run, to have it again")


def pytest_configure(config):
    if config.option.all:
        config.option.markexpr = ""  # setup.cfg has "not slow"
    if config.option.seed is None:
        config.option.seed = int(np.random.SeedSequence().generate_state(1)[0])
    if hasattr(config, "workerinput"):  # a process of pytest-xdist
        config.option.seed = config.workerinput["seed"]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config):
    return f"seed: {config.option.seed}"


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Add the comparisons that a process of pytest-xdist has made."""
    for kind, count in getattr(node, "workeroutput", {}).get("made", {}).items():
        ztest.made[kind] += count


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["made"] = ztest.made
    elif ztest.made["comparisons"] > ztest.BUDGET and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    if any(ztest.made.values()):
        compared, controls = ztest.made.values()
        too_many = compared > ztest.BUDGET
        terminalreporter.write_line(
            f"z-tests: {compared} comparisons and {controls} negative controls; the BUDGET in "
            f"tests/ztest.py is {ztest.BUDGET} comparisons" + ", which is EXCEEDED" * too_many,
            red=too_many,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed:
        slow = "--all " if item.get_closest_marker("slow") else ""
        again = f"pytest {slow}--seed {item.config.option.seed} {shlex.quote(item.nodeid)}"
        report.sections.append(("The same test again", again))
    return report


def seeds(node):
    """A stream of seeds for a test or a file of tests, by the seed of the run and its name."""
    name = zlib.crc32(node.nodeid.encode())
    return np.random.SeedSequence([node.config.option.seed, name])


@pytest.fixture
def seed(request):
    """The seed of a test."""
    return int(seeds(request.node).generate_state(1)[0])


@pytest.fixture(scope="module")
def module_seed(request):
    """The seed of what the tests of a file share."""
    return int(seeds(request.node).generate_state(1)[0])


@pytest.fixture(autouse=True)
def seeds_of_unseeded_samplers(request, monkeypatch):
    """Samplers that are given no seed would draw one from the system's entropy."""
    stream = np.random.default_rng(seeds(request.node).spawn(1)[0])
    monkeypatch.setattr(values, "any_seed", lambda: int(stream.integers(2**64, dtype=np.uint64)))


@pytest.fixture(scope="session")
def real_data():
    """The folder of the raw files of data sets. Tests do not download them."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = os.environ.get("SGMCMC_DATA_DIR") or str(beside)
    if not Path(folder).is_dir():
        pytest.skip(
            f"needs the raw files of data sets, and there is no folder {folder}: set the "
            "environment variable SGMCMC_DATA_DIR to the folder that has them"
        )
    return folder


@pytest.fixture(autouse=True)
def fresh_programs():
    """Tests that change the package's functions must not see programs made before."""
    programs.known.clear()
