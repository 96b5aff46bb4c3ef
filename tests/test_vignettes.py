"""The vignettes run, and the pages that are kept of them are theirs."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VIGNETTES = ROOT / "vignettes"
SCRIPTS = sorted(p for p in VIGNETTES.rglob("*.py") if p.read_text().startswith("# %%"))
NEED_DATA = {"covertype": "covtype", "mnist": "mnist"}


def name(path):
    return str(path.relative_to(VIGNETTES).with_suffix(""))


def data_for(script):
    """The folder of the raw files, where the script wants any."""
    wanted = {
        folder
        for folder in NEED_DATA.items()
        if f'get_dataset("{folder[0]}")' in script.read_text()
        or ("setting." in script.read_text() and f"setting.{folder[0]}(" in script.read_text())
    }
    local = Path(os.environ.get("SGMCMC_DATA_DIR") or ROOT.parent / "shared" / "data")
    for dataset, folder in wanted:
        if not (local / folder).is_dir():
            pytest.skip(f"the raw files of {dataset} are not here: let SGMCMC_DATA_DIR name them")
    return local


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=name)
def test_it_runs_from_top_to_bottom(script, tmp_path):
    kept = {p: p.read_bytes() for p in VIGNETTES.rglob("*.png")}
    settings = {
        **{"SGMCMC_QUICK": "1", "SGMCMC_DATA_DIR": str(data_for(script)), "MPLBACKEND": "Agg"},
        **{"PYTHONWARNINGS": "error::sgmcmc.ModeNotFound"},
    }
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir()), "it left files behind"
    assert {p: p.read_bytes() for p in VIGNETTES.rglob("*.png")} == kept, "it changed pictures"


def code(script):
    """The cells of code."""
    cells = re.split(r"(?m)^# %%", script.read_text())
    return [cell.strip() for cell in cells if cell.strip() and not cell.startswith(" [markdown]")]


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.parent == VIGNETTES], ids=name)
def test_the_page_is_of_this_script(script):
    page = (VIGNETTES / "pages" / f"{script.stem}.md").read_text()
    shown = [block.strip() for block in re.findall(r"(?s)```python\n(.*?)```", page)]
    assert shown == code(script), f"run: python vignettes/render.py {script.stem}"
    assert "Traceback" not in page


def test_the_reference_is_up_to_date():
    reference = runpy.run_path(str(VIGNETTES / "api_reference.py"))
    assert reference["page"]() == reference["PAGE"].read_text(), (
        "run: python vignettes/api_reference.py"
    )


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *VIGNETTES.rglob("*.md")], ids=lambda p: p.stem
)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_public_docstring_has_an_example():
    import sgmcmc

    for public in sgmcmc.__all__:
        assert ">>>" in getattr(sgmcmc, public).__doc__, public
    for method in (sgmcmc.Draws.summary, sgmcmc.Draws.to_arviz):
        assert ">>>" in method.__doc__, method
