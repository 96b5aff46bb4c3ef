"""The vignettes run, and the pages that are kept of them are theirs."""

import ast
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VIGNETTES = ROOT / "vignettes"
SCRIPTS = sorted(p for p in VIGNETTES.rglob("*.py") if p.read_text("utf-8").startswith("# %%"))
RUN = """
import runpy, sys, warnings
import sgmcmc
warnings.simplefilter("error", sgmcmc.ModeNotFound)
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def name(path):
    return str(path.relative_to(VIGNETTES).with_suffix(""))


def reads_data(script):
    """Whether a script calls `get_dataset`. Figures of the thesis simulate their data in tests."""
    return re.search(r"(?m)^[^#\n]*get_dataset\(", script.read_text("utf-8")) is not None


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=name)
def test_it_runs_from_top_to_bottom(script, tmp_path, request):
    where = {}
    if reads_data(script):
        where["SGMCMC_DATA_DIR"] = request.getfixturevalue("real_data")
    kept = {p: p.read_bytes() for p in VIGNETTES.rglob("*.png")}
    done = subprocess.run(
        [sys.executable, "-c", RUN, script],
        cwd=tmp_path,
        env=os.environ | {"SGMCMC_QUICK": "1", "MPLBACKEND": "Agg"} | where,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir()), "it left files behind"
    assert {p: p.read_bytes() for p in VIGNETTES.rglob("*.png")} == kept, "it changed pictures"


def cells(script):
    """(is it text, its content) of each cell."""
    for cell in re.split(r"(?m)^# %%", script.read_text("utf-8"))[1:]:
        if cell.startswith(" [markdown]"):
            yield True, re.sub(r"(?m)^# ?", "", cell.removeprefix(" [markdown]\n")).strip()
        else:
            yield False, f"```python\n{cell.strip()}\n```"


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.parent == VIGNETTES], ids=name)
def test_the_page_is_of_this_script(script):
    page = (VIGNETTES / "pages" / f"{script.stem}.md").read_text("utf-8")
    at = 0
    for _, content in cells(script):
        found = page.find(content, at)
        assert found >= 0, f"run: python vignettes/render.py {script.stem} (for {content[:80]!r})"
        at = found
    assert page.count("```python") == sum(not text for text, _ in cells(script))
    assert "Traceback" not in page


def test_the_table_of_figure_4_6_1_has_all_step_sizes():
    """Those of the thesis's text and of its code, where they differ, and those of our own."""
    code = (VIGNETTES / "thesis" / "figure_4_6_1.py").read_text("utf-8")
    given = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(code).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
    }
    assert (given["PRINTED"]["sgnhtcv"], given["IN_CODE"]["sgnhtcv"]) == (3e-3, 1e-3)
    page = (VIGNETTES / "thesis" / "README.md").read_text("utf-8")
    section = page.split("## 4.6.1")[1].split("## 4.6.2")[0]
    for sampler in given["PRINTED"]:
        steps = {
            given[k][sampler] for k in ("PRINTED", "IN_CODE", "RETUNED") if sampler in given[k]
        }
        rows = re.findall(rf"(?m)^\| {sampler} \| (\S+) \|", section)
        assert rows == 2 * [f"{h:g}" for h in sorted(steps, reverse=True)], sampler


def test_the_reference_is_up_to_date():
    reference = runpy.run_path(str(VIGNETTES.parent / "docs" / "reference.py"))
    assert reference["page"]() == reference["PAGE"].read_text("utf-8"), (
        "run: python docs/reference.py"
    )


@pytest.mark.parametrize(
    "page", [*sorted(ROOT.glob("*.md")), *VIGNETTES.rglob("*.md")], ids=lambda p: p.stem
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_architecture_names_modules_that_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    named = set(re.findall(r"`([a-z_/]+(?:\.py|/))`", text))
    assert len(named) > 20
    missing = [name for name in named if not (ROOT / "sgmcmc" / name).exists()]
    assert not missing, "the code has changed: ARCHITECTURE.md must change with it"


def test_every_public_docstring_has_an_example():
    import sgmcmc

    for public in sgmcmc.__all__:
        assert ">>>" in getattr(sgmcmc, public).__doc__, public
    for method in (sgmcmc.Draws.summary, sgmcmc.Draws.to_arviz):
        assert ">>>" in method.__doc__, method
