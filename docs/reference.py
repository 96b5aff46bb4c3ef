"""Writes `reference.md`, the reference of all that is public, from the docstrings.

python docs/reference.py
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sgmcmc

PAGE = Path(__file__).with_name("reference.md")
GROUPS = {
    "Samplers": [
        "sgld",
        "sghmc",
        "sgnht",
        "sgldcv",
        "sghmccv",
        "sgnhtcv",
        "psgld",
        "sgbarker",
        "baoab",
    ],
    "Samplers of probabilities": ["scir", "scircv", "sgrld"],
    "Samplers on manifolds": [
        "sggmc",
        "gsgnht",
        "gmc",
        "Sphere",
        "Stiefel",
        "Simplex",
        "Torus",
        "Euclidean",
        "Ball",
        "Manifold",
        "von_mises_fisher_log_prob",
    ],
    "Several samplers in one chain": [
        "mixed",
        "SCIR",
        "SGRLD",
        "SGLD",
        "SGHMC",
        "SGNHT",
        "PSGLD",
        "SGBarker",
        "BAOAB",
        "SGGMC",
        "GSGNHT",
        "GMC",
        "Gibbs",
    ],
    "Topic models": [
        "fit_lda",
        "TopicModel",
        "TopicModel.top_words",
        "TopicModel.topics",
        "TopicModel.perplexity",
        "TopicModel.perplexities",
        "tf_idf",
        "fit_sam",
        "SphericalTopicModel",
        "SphericalTopicModel.top_words",
        "SphericalTopicModel.proportions",
        "SphericalTopicModel.log_perplexity",
        "SphericalTopicModel.log_perplexities",
    ],
    "Samplers of your own": [
        "sample",
        "Dynamics",
        "Noise",
        "Estimator",
        "Estimate",
        "ControlVariate",
        "SVRG",
        "SAGA",
        "Space",
    ],
    "Step by step": ["step", "run", "get_params", "Sampler", "Sampler.save", "Report"],
    "Draws": [
        "Draws",
        "Draws.summary",
        "Draws.predict",
        "Prediction",
        "Prediction.score",
        "Draws.log_likelihood",
        "zero_variance",
        "Draws.to_arviz",
        "Draws.concatenate",
    ],
    "Draws on disk": ["load_draws", "Draws.save", "StoredArray"],
    "Trust": ["diagnose", "Diagnosis", "Diagnosis.plot", "TrustWarning"],
    "Step sizes": ["tune", "Race", "decay", "cyclical"],
    "Data outside memory": ["parquet", "stream", "Stream", "Shards"],
    "Data sets": ["get_dataset", "list_datasets"],
    "Random numbers in functions of a key": [
        "random.uniforms",
        "random.normals",
        "random.gammas",
    ],
    "Divide and conquer": [
        "combine.subposteriors",
        "combine.consensus",
        "combine.gaussian_product",
        "combine.kde_product",
        "combine.weierstrass",
    ],
    "How far draws are from others": ["kl_divergence"],
    "Stein discrepancy": ["stein.ksd", "stein.thin"],
    "Exact moments": [
        "moments.cir_moments",
        "moments.scir_moments",
        "moments.scircv_moments",
        "moments.sgrld_moments",
        "moments.a_hat_variance",
        "moments.a_hat_distribution",
    ],
    "What can be raised": ["ChainDiverged", "ModeNotFound", "TuningWarning"],
}


def page() -> str:
    """The whole page."""
    entries = {name: found(name) for names in GROUPS.values() for name in names}
    setups = [name for name in sgmcmc.__all__ if name.endswith("_setup")]
    missing = set(sgmcmc.__all__) - set(entries) - set(setups)
    if missing:
        raise ValueError(f"GROUPS lacks {sorted(missing)}")
    links = anchors(entries)
    parts = [
        "<!-- Written by docs/reference.py from the docstrings: edit those. -->",
        "# Reference",
        "Each sampler `name` has a `name_setup`, which takes the same arguments without those of "
        "the run (`n_iters`, `burn_in`, `thin`, `track`, `keep`, `keep_gradients`, `out`, "
        "`flush`), and returns a `Sampler` for `step`, `run` and `get_params`. Its `resume` is the "
        "path of a folder that `out=` or `Sampler.save` has written, from which the chains go on.",
        "\n".join(
            f"- {title}: " + ", ".join(f"[`{name}`](#{links[name]})" for name in names)
            for title, names in GROUPS.items()
        ),
    ]
    for title, names in GROUPS.items():
        parts += [f"## {title}", *(entry(name, entries[name]) for name in names)]
    return "\n\n".join(parts) + "\n"


def found(name: str) -> Any:
    """What is public under a name, which may have a dot."""
    thing = sgmcmc
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def anchors(names: Iterable[str]) -> dict[str, str]:
    """Where a code host puts the headings of these names, which may differ in case alone."""
    found: dict[str, str] = {}
    for name in names:
        plain = name.lower().replace(".", "")
        while plain in found.values():
            plain += "-1"
        found[name] = plain
    return found


def entry(name: str, thing: Any) -> str:
    """The heading, the call and the docstring."""
    call = f"```python\n{signature(name, thing)}\n```\n\n" if called(thing) else ""
    return f"### {name}\n\n{call}{markdown(inspect.getdoc(thing))}"


def called(thing: Any) -> bool:
    """Whether users call it."""
    if not inspect.isclass(thing) or thing in (sgmcmc.decay, sgmcmc.cyclical):
        return True
    return issubclass(thing, (sgmcmc.Dynamics, sgmcmc.Estimator, sgmcmc.Gibbs)) and not (
        inspect.isabstract(thing)
    )


def signature(name: str, thing: Any) -> str:
    """An argument a line, without the types, which stand with the arguments."""
    lines, starred = [], False
    for p in inspect.signature(thing).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            lines, starred = [*lines, "*"], True
        if p.name != "self":
            lines.append(p.name if p.default is p.empty else f"{p.name}={p.default!r}")
    of_object = name.split(".")[0] in ("Draws", "TopicModel")
    start = name.lower() if of_object else f"sgmcmc.{name}"
    inside = ", ".join(lines)
    if len(start) + len(inside) < 98:
        return f"{start}({inside})"
    return f"{start}(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def markdown(docstring: str) -> str:
    """A numpydoc docstring: sections in bold, entries as lists, equations and examples as code."""
    head, *sections = re.split(r"(?m)^(\S[^\n]*)\n-{3,}$\n?", docstring)
    parts = [indented_as_code(head.strip())]
    for title, body in zip(sections[::2], sections[1::2]):
        body = body.strip("\n")
        if title == "Examples":
            parts.append(f"**{title}**\n\n```pycon\n{body}\n```")
        else:
            parts.append(f"**{title}**\n\n{listed(body)}")
    return "\n\n".join(parts)


def indented_as_code(text: str) -> str:
    """Equations, which are indented, as code."""
    return "\n\n".join(
        f"```\n{inspect.cleandoc(part)}\n```" if part.startswith("    ") else part
        for part in text.split("\n\n")
    )


def listed(body: str) -> str:
    """`name : type` and an indented text, as an entry of a list."""
    entries = []
    for part in re.split(r"\n(?=\S)", body):
        first, _, text = part.partition("\n")
        name, _, kind = first.partition(" : ")
        text = " ".join(line.strip() for line in text.split("\n\n")[0].splitlines())
        more = "".join(f"\n\n{inspect.cleandoc(p)}" for p in part.split("\n\n")[1:])
        more = more.replace("\n", "\n  ")
        entries.append(f"- **`{name}`**" + (f" : {kind}" if kind else "") + f"  \n  {text}{more}")
    return "\n".join(entries)


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
