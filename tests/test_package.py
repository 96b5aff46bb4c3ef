"""The package as it is met: its import, its signatures, its documentation."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import sgmcmc
from sgmcmc import signatures
from sgmcmc.signatures import SAMPLERS

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


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_every_argument_is_typed_and_documented(function):
    for name, parameter in inspect.signature(function).parameters.items():
        assert parameter.annotation is not inspect.Parameter.empty
        assert f"\n{name} : " in inspect.getdoc(function)


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
        "alpha": 0.01,
        "L": 5,
        "a": 0.01,
        "n_iters_opt": 10_000,
        "verbose": True,
    }
    for sampler in SAMPLERS.values():
        for name, parameter in inspect.signature(sampler).parameters.items():
            assert parameter.default == defaults.get(name, parameter.default)


def test_the_stub_for_editors_is_up_to_date():
    written = (Path(signatures.__file__).parent / "api.pyi").read_text()
    assert written == signatures.stub(), "run: python -m sgmcmc.signatures > sgmcmc/api.pyi"


def test_every_sampler_is_public_with_its_setup():
    for name in SAMPLERS:
        assert {name, f"{name}_setup"} <= set(sgmcmc.__all__)


def test_the_readme_runs(capsys):
    blocks = (Path(__file__).parents[1] / "README.md").read_text().split("```python\n")[1:]
    exec("".join(block.split("```")[0] for block in blocks), {})
    assert "beta[0]" in capsys.readouterr().out


def test_a_call_with_wrong_names_says_which_are_right():
    with pytest.raises(TypeError, match=r"sgld\(\) has no argument 'step_size'.*'stepsize'"):
        sgmcmc.sgld(None, None, None, step_size=1)
    with pytest.raises(TypeError, match=r"sgld\(\) missing a required argument: 'params'"):
        sgmcmc.sgld(None, None)
