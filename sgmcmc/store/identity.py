"""What two runs must have in common for one to go on with the other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import checks, tree
from ..fingerprint import digest
from ..plan import Plan
from ..source import Source

FEW = 100  # rows, on which models are compared
ROWS = 4096  # of the data, whose content is compared: at equal distances, or the first
FREE = "seed", "versions", "mode", "tuning"  # settings that are compared apart, or may differ
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # in the repr of functions, another in each process


def identity_of(plan: Plan) -> dict[str, Any]:
    """The settings of a run, the form of its parameters, and a fingerprint of its data."""
    settings = {k: plain(v) for k, v in plan.settings.items() if k not in FREE}
    if plan.schedule is None:
        settings |= {"bias": plan.bias, "rescale": plan.rescale, "auto": plan.is_auto}
    leaves = tree.leaves(plan.params)
    return {
        "settings": settings,
        "seed": plan.seed,
        "params": {k: list(x.shape) for k, x in zip(tree.names(plan.params), leaves)},
        "data": fingerprint(plan.source),
        "model": value_of(plan),
    }


def value_of(plan: Plan) -> float:
    """The log posterior of a few rows at the starting values, by which other models are noticed."""
    rows = plan.source.rows(0, min(FEW, plan.source.N))
    params, model = checks.tensors(plan.params), plan.model
    value = 0.0
    if model.log_lik is not None:
        value += float(model.log_lik(*tree.copies(params, rows)))
    if model.log_prior is not None:
        value += float(model.log_prior(*tree.copies(params)))
    return value


def plain(value: Any) -> Any:
    """A setting without what differs from process to process."""
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return ADDRESS.sub("", value) if isinstance(value, str) else value


def fingerprint(source: Source) -> dict[str, Any]:
    """Shapes and types of the data, a checksum of up to ROWS rows, and the rows of each shard."""
    found = {}
    for name, x in source.subset(source.some(ROWS)).arrays.items():
        found[name] = [x.dtype.str, list(x.shape[1:]), digest(x)]
    shards = {} if source.shards is None else {"shards": source.shards}
    return {"N": source.N, "arrays": found, **shards}


def check(old: dict[str, Any] | None, new: dict[str, Any], where: str) -> None:
    """Check that a run can go on with another one, by their identities."""
    if old is None:
        raise ValueError(
            f"resume: {where} has draws that were saved from memory, and not where their chains "
            "stand: there is nothing to go on with"
        )
    for key, what in (("params", "params have"), ("data", "dataset has"), ("settings", "")):
        for name, a, b in differences(old[key], new[key]):
            if key == "data":
                raise ValueError(
                    f"resume: {where} was made from other data: {name or 'its rows'} differs "
                    f"({a} then, {b} now)"
                )
            label = f"{what} {name!r}" if key == "params" else f"{name} is"
            raise ValueError(
                f"resume: {where} was made by other arguments: {label} {a!r} there, and {b!r} here"
            )
    if old["seed"] != new["seed"]:
        raise ValueError(
            f"resume: {where} was made with seed {old['seed']}, not {new['seed']}: give that seed, "
            "or none"
        )
    if not np.isclose(old["model"], new["model"], rtol=1e-4, atol=1e-6):
        raise ValueError(
            f"resume: log_lik or log_prior is another function than that of {where}: at params, "
            f"on the first rows, it was {old['model']:g}, and is {new['model']:g} now"
        )


def differences(old: Any, new: Any, name: str = "") -> list[tuple[str, Any, Any]]:
    """The names of entries that differ, with both values."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [] if old == new else [(name, old, new)]
    found = []
    for key in dict.fromkeys([*old, *new]):
        path = f"{name}/{key}" if name else str(key)
        found += differences(old.get(key), new.get(key), path)
    return found
