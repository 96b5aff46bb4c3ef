"""The public functions of a sampler, put together from its parts.

Arguments are written once: those that all samplers share in `setup` and `run`, a sampler's own in
the fields of its dataclasses. Here they become one signature and one docstring, for `help` and
notebooks; `stub` writes the same for editors and type checkers into `api.pyi`:

    python -m sgmcmc.signatures > sgmcmc/api.pyi
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from inspect import Parameter, Signature
from typing import Any

from . import checks
from .draws import Draws
from .run import run, run_arguments, setup
from .sampler import Sampler

FIRST = ("log_lik", "dataset", "params", "stepsize")  # then a sampler's own positional arguments
SAMPLERS: dict[str, Callable[..., Draws]] = {}


def public(
    name: str, dynamics: type, estimator: type
) -> tuple[Callable[..., Draws], Callable[..., Sampler]]:
    """The sampler and its `*_setup`, entered in the table of all samplers."""

    def make_sampler(arguments: dict[str, Any]) -> Sampler:
        own = [
            part(**{f.name: arguments.pop(f.name) for f in fields(part)})
            for part in (dynamics, estimator)
        ]
        return setup(name, *own, **arguments)

    def sampler_setup(*args: Any, **kwargs: Any) -> Sampler:
        return make_sampler(bound(sampler_setup, args, kwargs))

    def sampler(*args: Any, **kwargs: Any) -> Draws:
        arguments = bound(sampler, args, kwargs)
        of_run = {k: arguments[k] for k in inspect.signature(run_arguments).parameters}
        of_run["params"] = checks.params(of_run["params"], checks.dtype(arguments["dtype"]))
        run_arguments(**of_run)
        del of_run["params"]
        made = make_sampler(
            {k: v for k, v in arguments.items() if k not in of_run or k == "verbose"}
        )
        try:
            return run(made, **of_run)
        finally:
            made.feeder.close()

    for function, full_name, has_run in (
        (sampler, name, True),
        (sampler_setup, f"{name}_setup", False),
    ):
        function.__name__ = function.__qualname__ = full_name
        function.__module__ = f"{__package__}.api"
        function.__signature__ = signature(dynamics, estimator, has_run)
        function.__doc__ = docstring(full_name, dynamics, estimator, has_run)
    SAMPLERS[name] = sampler
    return sampler, sampler_setup


def bound(function: Callable, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments of a call by name, with a guess where a name is unknown."""
    known = inspect.signature(function)
    for name in kwargs:
        if name not in known.parameters:
            raise TypeError(
                f"{function.__name__}() has no argument {name!r}"
                f"{checks.nearest(name, known.parameters)}"
            )
    try:
        arguments = known.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}() {error}") from None
    arguments.apply_defaults()
    return arguments.arguments


def own_fields(dynamics: type, estimator: type) -> list[Field]:
    """The fields that are a sampler's own arguments."""
    return [*fields(dynamics), *fields(estimator)]


def signature(dynamics: type, estimator: type, has_run: bool) -> Signature:
    """All arguments: positional ones in the R package's order, then those by name alone."""
    parts = [p for f in (setup, run) for p in list(inspect.signature(f).parameters.values())]
    shared: dict[str, Parameter] = {}
    for p in parts:
        if p.name not in ("name", "dynamics", "estimator", "sampler", *dynamics.without):
            shared.setdefault(p.name, p)
    if not has_run:
        of_setup = inspect.signature(setup).parameters
        shared = {k: p for k, p in shared.items() if k in of_setup}
    own = {True: [], False: []}
    for f in own_fields(dynamics, estimator):
        positional = f.metadata["positional"]
        kind = Parameter.POSITIONAL_OR_KEYWORD if positional else Parameter.KEYWORD_ONLY
        default = Parameter.empty if f.default is MISSING else f.default
        own[positional].append(Parameter(f.name, kind, default=default, annotation=f.type))
    ordered = [p for p in shared.values() if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    by_name = [p for p in shared.values() if p.kind is Parameter.KEYWORD_ONLY]
    result = "Draws" if has_run else "Sampler"
    return Signature(
        [*ordered[: len(FIRST)], *own[True], *ordered[len(FIRST) :], *own[False], *by_name],
        return_annotation=result,
    )


def docstring(name: str, dynamics: type, estimator: type, has_run: bool) -> str:
    """The parts' docstrings, and the parameters in the order of the signature."""
    entries = {**described_parameters(run), **described_parameters(setup)}
    for f in own_fields(dynamics, estimator):
        default = {None: ", optional", MISSING: ""}.get(f.default, f", default {f.default!r}")
        kind = f.type.removesuffix(" | None")
        entries[f.name] = f"{f.name} : {kind}{default}\n" + textwrap.indent(
            textwrap.fill(f.metadata["doc"], 92), "    "
        )
    what, _, equation = inspect.getdoc(dynamics).partition("\n")
    equation = re.split(r"\n\n\S+\n---", equation)[0]
    title = what.rstrip(".") + estimator.suffix
    if has_run:
        ending = "\n\n".join(section(run, s) for s in ("Returns", "Raises"))
    else:
        title += ", to be run step by step"
        ending = "Returns\n-------\nSampler\n    For `step`, `run` and `get_params`."
    listed = "\n".join(entries[p] for p in signature(dynamics, estimator, has_run).parameters)
    return "\n\n".join(
        [
            f"{title}.",
            equation.strip(),
            *([inspect.getdoc(estimator)] if estimator.suffix else []),
            f"Parameters\n----------\n{listed}",
            ending,
            example(name, dynamics, has_run),
        ]
    )


MODELS = {
    "normal": (
        """\
        >>> def log_lik(params, data):
        ...     return -tf.reduce_sum((data["x"] - params["mean"]) ** 2) / 2
        >>> dataset = {"x": np.random.default_rng(1).normal(5, 1, 10_000)}
        """,
        'log_lik, dataset, {"mean": 4.9}',
        """\
        >>> draws["mean"].shape
        (2000,)
        >>> abs(float(draws["mean"].mean()) - 5) < 0.05
        True
        >>> 0.005 < float(draws["mean"].std()) < 0.02  # .01 is right
        True""",
        """\
        >>> abs(float(sgmcmc.get_params(sampler)["mean"]) - 5) < 0.1
        True""",
    ),
    "categories": (
        """\
        >>> def log_lik(params, data):
        ...     return tf.reduce_sum(tf.math.log(tf.gather(params["omega"], data["z"])))
        >>> z = np.random.default_rng(1).choice(4, 10_000, p=[0.7, 0.2, 0.1, 0])
        >>> dataset = {"z": z}
        """,
        'log_lik, dataset, {"omega": np.full(4, 0.25)}',
        """\
        >>> draws["omega"].shape
        (2000, 4)
        >>> bool(np.abs(draws["omega"].mean(axis=0) - [0.7, 0.2, 0.1, 0]).max() < 0.02)
        True""",
        """\
        >>> bool(abs(sgmcmc.get_params(sampler)["omega"].sum() - 1) < 1e-5)
        True""",
    ),
    "mixed": (
        """\
        >>> def log_lik(params, data):
        ...     error = data["x"] - tf.gather(params["mu"], data["z"])
        ...     share = tf.math.log(tf.gather(params["omega"], data["z"]))
        ...     return tf.reduce_sum(share - error**2 / 2)
        >>> rng = np.random.default_rng(1)
        >>> z = rng.choice(3, 10_000, p=[0.7, 0.2, 0.1])
        >>> dataset = {"z": z, "x": z + rng.normal(size=10_000)}
        """,
        'log_lik, dataset, {"omega": np.full(3, 1 / 3), "mu": np.zeros(3)}',
        """\
        >>> bool(np.abs(draws["omega"].mean(axis=0) - [0.7, 0.2, 0.1]).max() < 0.02)
        True
        >>> bool(np.abs(draws["mu"].mean(axis=0) - [0, 1, 2]).max() < 0.2)
        True""",
        """\
        >>> bool(np.abs(sgmcmc.get_params(sampler)["mu"] - [0, 1, 2]).max() < 0.5)
        True""",
    ),
}


def example(name: str, dynamics: type, has_run: bool) -> str:
    """A few lines with a small model, as a session that doctest runs."""
    model, first, seen, after = MODELS[dynamics.example_model]
    made = "draws" if has_run else "sampler"
    call = (
        "minibatch_size=0.1",
        *(["n_iters=2000", "burn_in=500"] if has_run else []),
        "seed=1",
        "verbose=False",
    )
    then = seen if has_run else ">>> sgmcmc.step(sampler, 1000)\n" + textwrap.dedent(after)
    return "\n".join(
        [
            "Examples",
            "--------",
            ">>> import numpy as np, sgmcmc, tensorflow as tf",
            textwrap.dedent(model).rstrip(),
            f">>> {made} = sgmcmc.{name}(",
            f"...     {first}, {dynamics.example},",
            f"...     {', '.join(call)},",
            "... )",
            textwrap.dedent(then),
        ]
    )


def section(function: Callable, title: str) -> str:
    """One section of a numpydoc docstring."""
    found = re.search(rf"{title}\n-+\n.*?(?=\n\n\S|\Z)", inspect.getdoc(function), re.S)
    return found[0]


def described_parameters(function: Callable) -> dict[str, str]:
    """The entries of the section Parameters, by name."""
    listed = section(function, "Parameters").split("\n", 2)[2]
    return {e.split(" ", 1)[0]: e for e in re.split(r"\n(?=\S)", listed)}


def stub() -> str:
    """The text of `api.pyi`."""
    from . import api

    lines = [
        '"""Written by `python -m sgmcmc.signatures`: the signatures of `api.py`, for editors."""',
        "",
        "from collections.abc import Callable, Mapping",
        "from pathlib import Path",
        "from typing import Any",
        "",
        "from .draws import Draws",
        "from .sampler import Sampler",
        "",
    ]
    for name in SAMPLERS:
        for function in (getattr(api, name), getattr(api, f"{name}_setup")):
            known = inspect.signature(function)
            lines.append(f"def {function.__name__}(")
            starred = False
            for p in known.parameters.values():
                if p.kind is Parameter.KEYWORD_ONLY and not starred:
                    starred = True
                    lines.append("    *,")
                default = "" if p.default is Parameter.empty else f" = {p.default!r}"
                lines.append(f"    {p.name}: {p.annotation}{default},")
            lines.append(f") -> {known.return_annotation}: ...")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from sgmcmc import signatures

    print(signatures.stub(), end="")
