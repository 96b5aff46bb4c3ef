"""The package as it is met: its import, its signatures, its documentation."""

import configparser
import inspect
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sgmcmc
from sgmcmc import describe
from sgmcmc.describe import SAMPLERS
from sgmcmc.notices import LEVEL, held_back

FUNCTIONS = [
    getattr(sgmcmc, name) for name in sgmcmc.__all__ if not inspect.isclass(getattr(sgmcmc, name))
]


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )


def test_import_is_silent_and_brings_in_nothing_heavy():
    result = python(
        "import sys, tensorflow, tensorflow_probability\n"
        "known = set(sys.modules) | sys.stdlib_module_names\n"
        "sys.stderr.write('before'); import sgmcmc; sys.stderr.write('after')\n"
        "print(*{name.split('.')[0] for name in sys.modules if name not in known})"
    )
    assert "beforeafter" in result.stderr
    assert set(result.stdout.split()) - sys.stdlib_module_names <= {"sgmcmc", "tqdm"}


@pytest.mark.slow
def test_tensorflow_starts_without_notices_and_without_pyarrow(monkeypatch):
    """Keras imports pandas if it is there, which imports pyarrow."""
    monkeypatch.delenv(LEVEL, raising=False)  # this process has set it
    started = python(
        "import sys; sys.modules['pandas'] = None\n"
        "import sgmcmc, tensorflow as tf; tf.zeros(1); print('pyarrow' in sys.modules)"
    )
    assert (started.stderr, started.stdout) == ("", "False\n")


@pytest.mark.slow
@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="it has no notices elsewhere"
)
def test_control_notices_are_shown_to_those_who_ask(monkeypatch):
    monkeypatch.setenv(LEVEL, "0")
    assert "oneDNN" in python("import sgmcmc, tensorflow as tf; tf.zeros(1)").stderr


def test_only_notices_are_left_out(capfd):
    shown = (
        "E0000 cuda_platform.cc:52] failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)",
        "W0000 something else",
        "no newline",
    )

    def start():
        with held_back():
            os.write(2, f"{shown[0]}\nI0000 oneDNN custom operations are on.\n".encode())
            os.write(2, b"E0000 failed call to cuInit: INTERNAL: UNKNOWN ERROR (303)\n")
            os.write(2, "\n".join(shown[1:]).encode())
            assert capfd.readouterr().err == ""
            raise ImportError

    with pytest.raises(ImportError):
        start()
    assert capfd.readouterr().err == "\n".join(shown)


def test_a_crash_of_the_import_says_where(monkeypatch):
    crash = (
        "import os, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'tensorflow': os.abort()\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import sgmcmc"
    )
    monkeypatch.delenv(LEVEL, raising=False)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        python(crash)
    assert "Fatal Python error: Aborted" in caught.value.stderr
    assert "notices.py" in caught.value.stderr


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_every_argument_is_typed_and_documented(function):
    for name, parameter in inspect.signature(function).parameters.items():
        assert parameter.annotation is not inspect.Parameter.empty
        assert re.search(rf"(?m)^(\*\*)?{name} : ", inspect.getdoc(function))


def test_signatures_are_those_of_the_r_package():
    assert list(inspect.signature(sgmcmc.sgldcv).parameters)[:8] == [
        "log_lik",
        "dataset",
        "params",
        "stepsize",
        "opt_stepsize",
        "log_prior",
        "minibatch_size",
        "n_iters",
    ]
    defaults = {
        "minibatch_size": 0.01,
        "n_iters": 10_000,
        "alpha": None,  # 0.01, where a step size is given
        "L": 5,
        "a": 0.01,
        "n_iters_opt": 10_000,
        "verbose": True,
    }
    for sampler in SAMPLERS.values():
        for name, parameter in inspect.signature(sampler).parameters.items():
            if parameter.default is not parameter.empty and sampler is not sgmcmc.gmc:
                assert parameter.default == defaults.get(name, parameter.default)


def test_the_stub_for_editors_is_up_to_date():
    written = (Path(describe.__file__).parent / "api.pyi").read_text()
    assert written == describe.stub(), "run: python -m sgmcmc.describe > sgmcmc/api.pyi"


def test_every_sampler_is_public_with_its_setup():
    for name in SAMPLERS:
        assert {name, f"{name}_setup"} <= set(sgmcmc.__all__)


def test_the_readme_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = (Path(__file__).parents[1] / "README.md").read_text().split("```python\n")[1:]
    exec("".join(block.split("```")[0] for block in blocks), {})
    assert "beta[0]" in capsys.readouterr().out


def test_a_call_with_wrong_names_says_which_are_right():
    with pytest.raises(TypeError, match=r"sgld\(\) has no argument 'step_size'.*'stepsize'"):
        sgmcmc.sgld(None, None, None, step_size=1)
    with pytest.raises(TypeError, match=r"sgld\(\) missing a required argument: 'params'"):
        sgmcmc.sgld(None, None)


ONE_CORE = """
import hashlib, numpy as np, sgmcmc, tensorflow as tf
draws = sgmcmc.sgld(
    lambda params, data: -tf.reduce_sum((data["x"] - params["m"]) ** 2) / 2,
    {"x": np.arange(100.0)}, {"m": 0.0}, 1e-3, minibatch_size=10, n_iters=3000, seed=1,
    verbose=False,
)
print(hashlib.sha256(draws["m"].tobytes()).hexdigest())
print(tf.config.threading.get_intra_op_parallelism_threads())
"""


@pytest.mark.slow
def test_one_core_gives_the_same_draws(monkeypatch):
    draws, threads = python(ONE_CORE).stdout.split()
    monkeypatch.setenv("SGMCMC_ONE_CORE", "1")
    assert python(ONE_CORE).stdout.split() == [draws, "1"]
    assert threads == "0"
    late = python("import tensorflow as tf; tf.zeros(1); import sgmcmc")
    assert "import sgmcmc before the first tensor" in late.stderr
    monkeypatch.setenv("SGMCMC_ONE_CORE", "yes")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        python("import sgmcmc")
    assert "SGMCMC_ONE_CORE must be 0 or 1, not 'yes'" in caught.value.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["peers", "first-call", "memory", "scaling", "simplex", "variance", "cluster"]
)
def test_benchmarks_run(what):
    """No figure is looked at: only that there is a table of them."""
    root = Path(__file__).parent.parent
    command = [sys.executable, "-m", "benchmarks", what, "--quick"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert any(f"| {row} |" in done.stdout for row in ("sgmcmc", "sgld", "worker 1"))


def test_all_packages_are_installed():
    setup = configparser.ConfigParser()
    setup.read(Path(__file__).parents[1] / "setup.cfg")
    listed = set(setup["options"]["packages"].split()) - {"sgmcmc.datasets"}
    root = Path(describe.__file__).parents[1]
    there = {".".join(f.parent.relative_to(root).parts) for f in root.glob("sgmcmc/**/__init__.py")}
    assert there - {"sgmcmc.datasets"} == listed
