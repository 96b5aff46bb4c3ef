"""Make the public functions of each sampler, with signature and docstring, from its parts.

Each argument is documented once: those that all samplers share in `planned` and `run`, a sampler's
own in the fields of its dataclasses. This module joins them into one signature and one docstring,
for `help` and notebooks. `stub` writes the signatures for editors and type checkers to `api.pyi`:

    python -m sgmcmc.describe > sgmcmc/api.pyi
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import Parameter, Signature
from typing import Any

from . import checks
from .assembly import set_up
from .distributed.shards import Shards
from .draws import Draws
from .dynamics import Dynamics
from .estimators.control_variate import ControlVariate
from .examples import example
from .plan import Plan, planned
from .running import check_gradients, collect, run, wish
from .sampler import Sampler
from .store.resuming import continued, from_checkpoint, resumed

FIRST = ("log_lik", "dataset", "params", "stepsize")  # a sampler's own positional arguments follow
RESUME = Parameter(
    "resume", Parameter.KEYWORD_ONLY, default=None, annotation="str | Path | None"
)  # of a *_setup
OF_RESUME = """resume : path, optional
    A folder that `out=` or `Sampler.save` has written: the chains go on from there, as if they had
    never stopped. The mode is not searched for again. All other arguments must be the same."""
CLIENT = Parameter("client", Parameter.KEYWORD_ONLY, default=None, annotation="Any")  # of a run
OF_CLIENT = """client : dask.distributed.Client, str, optional
    Run the chains on the workers of this Dask cluster: a client, the address of a scheduler, or
    `"local"` for workers on this machine, one for each core. Have two chains or more for each
    worker: chains go to workers in groups of at least two. The draws are those of this machine, as
    are the store in `out` and the progress. What a lost worker was at is done again, and workers
    that join later get some of the chains. In a script, `"local"` needs `if __name__ ==
    "__main__":` above the call, as each worker imports the script.
    Workers unpickle what they are sent: use clusters of your own, with TLS on foreign networks.
    This wants `pip install 'sgmcmc[dask]'`."""
HIDDEN = ("name", "estimator", "sampler")  # arguments of `planned` and `run` that users do not see
SAMPLERS: dict[str, Callable[..., Draws]] = {}
ROWS: dict[str, Row] = {}  # by the name of the sampler


@dataclass(frozen=True)
class Row:
    """One sampler: its parts, and what its documentation shows.

    If `dynamics` is None, the sampler has an argument `dynamics`; if `estimator` is None, it has an
    argument `gradient`. `without` names shared arguments that this sampler does not have, and
    `fixed` has the values of others that it does not show. The
    example in its documentation uses `model`, one of the MODELS. `call` has the step size and the
    sampler's own arguments.
    """

    name: str
    dynamics: type[Dynamics] | None
    estimator: type | None = None
    without: tuple[str, ...] = ()
    call: str = "stepsize=1e-5"
    model: str = "normal"
    text: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def own_fields(self) -> list[Field]:
        """Return the dataclass fields that are the sampler's own arguments."""
        return [f for part in (self.dynamics, self.estimator) if part for f in fields(part)]

    def hidden(self) -> set[str]:
        """Return the names of the shared arguments that this sampler does not have."""
        fixed = ["dynamics"] * (self.dynamics is not None)
        fixed += ["gradient"] * (self.estimator is not None)
        return {*HIDDEN, *self.without, *self.fixed, *fixed}

    def plan(self, arguments: dict[str, Any]) -> Plan:
        """Check the arguments of a call, and return the parts of its sampler."""
        arguments.pop("resume", None)  # which is for the state of the sampler
        dynamics, estimator = (
            part(**{f.name: arguments.pop(f.name) for f in fields(part)}) if part else None
            for part in (self.dynamics, self.estimator)
        )
        name = self.name
        if dynamics is None:
            dynamics = arguments.pop("dynamics")
            if not isinstance(dynamics, Dynamics):
                raise TypeError(
                    "dynamics must be one, such as SGLD(), or an object of your own subclass of "
                    f"sgmcmc.Dynamics, not {checks.described(dynamics)}"
                )
            name = type(dynamics).__name__
        return planned(name, dynamics, estimator, **arguments, **self.fixed)


def public(*args: Any, **kwargs: Any) -> tuple[Callable[..., Draws], Callable[..., Sampler]]:
    """Make a sampler and its `*_setup` from the fields of a `Row`, and add it to SAMPLERS."""
    row = Row(*args, **kwargs)

    def sampler_setup(*args: Any, **kwargs: Any) -> Sampler:
        arguments = bound(sampler_setup, args, kwargs)
        if isinstance(arguments["dataset"], Shards):
            raise ValueError(
                f"dataset must not be Shards for {row.name}_setup, whose steps are made here: call "
                f"{row.name}(..., client=...)"
            )
        path, plan = arguments["resume"], row.plan(arguments)
        return set_up(plan) if path is None else from_checkpoint(plan, path)

    def sampler(*args: Any, **kwargs: Any) -> Draws:
        arguments = bound(sampler, args, kwargs)
        client, is_sharded = arguments.pop("client"), isinstance(arguments["dataset"], Shards)
        if client is None and not is_sharded:
            return drawn(row, arguments)
        from .distributed.cluster import LOCAL, connected

        with connected(LOCAL if client is None else client) as workers:
            return drawn(row, arguments, workers)

    for function, name, has_run in (
        (sampler, row.name, True),
        (sampler_setup, f"{row.name}_setup", False),
    ):
        function.__name__ = function.__qualname__ = name
        function.__module__ = f"{__package__}.api"
        function.__signature__ = signature(row, has_run)  # type: ignore[union-attr]  # `inspect` reads it
        function.__doc__ = docstring(name, row, has_run)
    SAMPLERS[row.name], ROWS[row.name] = sampler, row
    return sampler, sampler_setup


def drawn(row: Row, arguments: dict[str, Any], workers: Any = None) -> Draws:
    """Make a sampler, run it, here or on the workers of a cluster, and return its draws."""
    of_run = {k: arguments[k] for k in inspect.signature(wish).parameters if k != "params"}
    of_plan = {k: v for k, v in arguments.items() if k not in of_run or k == "verbose"}
    if workers is None:
        return sampled(row, of_plan, of_run)
    from .distributed import Spread, Visits

    kind = Visits if isinstance(of_plan["dataset"], Shards) else Spread
    with closing(kind(workers, row.name, of_plan, of_run)) as elsewhere:
        return sampled(row, dict(elsewhere.arguments), of_run, elsewhere)


def sampled(
    row: Row, of_plan: dict[str, Any], of_run: dict[str, Any], elsewhere: Any = None
) -> Draws:
    """Make a sampler by its arguments, and run it by those of the run, here or elsewhere."""
    plan = row.plan(of_plan)
    wished = wish(plan.params, **of_run)
    tempered = callable(plan.temperature) or plan.temperature != 1
    check_gradients(wished, plan.model, plan.gibbs, tempered)
    if elsewhere is not None:
        elsewhere.prepare(plan)
    plan, part = continued(plan, wished)
    if part is None:
        made = set_up(plan, wished.burn_in + wished.n_iters)
    else:
        made = resumed(plan, wished.out, part.known)
    try:
        advance = None if elsewhere is None else elsewhere.instead_of(plan, made)
        return collect(made, wished, part, advance=advance)
    finally:
        made.feeder.close()


def bound(function: Callable, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return all arguments of a call by name. An unknown name is an error with a guess."""
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


def signature(row: Row, has_run: bool) -> Signature:
    """Return the signature: positional arguments in the R package's order, then keyword-only."""
    of_plan = inspect.signature(planned).parameters
    of_run = inspect.signature(run).parameters if has_run else {}
    shared = {k: p for k, p in {**of_run, **of_plan}.items() if k not in row.hidden()}
    order = [k for k in (*of_plan, *of_run) if k in shared]
    own: dict[bool, list[Parameter]] = {True: [], False: []}
    for f in row.own_fields():
        positional = f.metadata["positional"]
        kind = Parameter.POSITIONAL_OR_KEYWORD if positional else Parameter.KEYWORD_ONLY
        default = Parameter.empty if f.default is MISSING else f.default
        own[positional].append(Parameter(f.name, kind, default=default, annotation=f.type))
    if any(p.default is Parameter.empty for p in own[True]):
        shared["stepsize"] = shared["stepsize"].replace(default=Parameter.empty)
    unique = [shared[k] for k in dict.fromkeys(order)] + [CLIENT if has_run else RESUME]
    ordered = [p for p in unique if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    by_name = [p for p in unique if p.kind is Parameter.KEYWORD_ONLY]
    first = len(FIRST) + (row.dynamics is None)
    return Signature(
        [*ordered[:first], *own[True], *ordered[first:], *own[False], *by_name],
        return_annotation="Draws" if has_run else "Sampler",
    )


def docstring(name: str, row: Row, has_run: bool) -> str:
    """Join the docstrings of the parts, with the parameters in the order of the signature."""
    entries = {**described_parameters(run), **described_parameters(planned)}
    if has_run:
        entries["client"] = OF_CLIENT
    else:
        entries["resume"] = OF_RESUME
    for f in row.own_fields():
        default = {None: ", optional", MISSING: ""}.get(f.default, f", default {f.default!r}")
        kind = f.type.removesuffix(" | None")
        entries[f.name] = f"{f.name} : {kind}{default}\n" + textwrap.indent(
            textwrap.fill(f.metadata["doc"], 92), "    "
        )
    about = inspect.getdoc(row.dynamics) if row.dynamics else inspect.cleandoc(row.text)
    what, _, equation = about.partition("\n")
    equation = without_examples(equation)
    title, more = what.rstrip("."), []
    if row.estimator is ControlVariate:
        title += " with control variates"
        more = [without_examples(inspect.getdoc(ControlVariate))]
    if has_run:
        ending = "\n\n".join(section(run, s) for s in ("Returns", "Raises"))
    else:
        title += ", to be run step by step"
        ending = "Returns\n-------\nSampler\n    For `step`, `run` and `get_params`."
    listed = "\n".join(entries[p] for p in signature(row, has_run).parameters)
    return "\n\n".join(
        [
            f"{title}.",
            equation.strip(),
            *more,
            f"Parameters\n----------\n{listed}",
            ending,
            example(name, row, has_run),
        ]
    )


def without_examples(text: str) -> str:
    """Return a docstring up to its first section."""
    return re.split(r"\n\n\S+\n---", text)[0]


def section(function: Callable, title: str) -> str:
    """Return one section of a numpydoc docstring."""
    found = re.search(rf"{title}\n-+\n.*?(?=\n\n\S|\Z)", inspect.getdoc(function), re.S)
    return found[0]


def described_parameters(function: Callable) -> dict[str, str]:
    """Return the entries of the section Parameters, by name."""
    listed = section(function, "Parameters").split("\n", 2)[2]
    return {e.split(" ", 1)[0]: e for e in re.split(r"\n(?=\S)", listed)}


def stub() -> str:
    """Return the text of `api.pyi`."""
    from . import api

    lines = [
        '"""Written by `python -m sgmcmc.describe`: the signatures of `api.py`, for editors."""',
        "",
        "from collections.abc import Callable, Mapping",
        "from pathlib import Path",
        "from typing import Any",
        "",
        "import numpy as np",
        "",
        "from .draws import Draws",
        "from .dynamics import Dynamics",
        "from .estimators import Estimator",
        "from .progress import Report",
        "from .sampler import Sampler",
        "from .spaces.manifolds import Manifold",
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
    from sgmcmc import describe

    print(describe.stub(), end="")
