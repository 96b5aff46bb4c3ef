"""Runs vignettes and keeps what they show as Markdown, with the pictures beside it, in `pages/`.

python vignettes/render.py                 # all of them
python vignettes/render.py mv_gauss        # or some
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbconvert import MarkdownExporter

HERE = Path(__file__).parent
PAGES = HERE / "pages"


def render(name: str) -> None:
    """Write `pages/<name>.md` and its pictures."""
    notebook = jupytext.read(HERE / f"{name}.py")
    NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
    for cell in notebook.cells:  # progress, and what libraries say as they are imported
        said = [o for o in cell.get("outputs", []) if o.get("name") == "stderr"]
        if any("ModeNotFound" in o.text for o in said):
            raise RuntimeError(f"{name}: no mode was found in the cell\n{cell.source}")
        cell.outputs = [o for o in cell.get("outputs", []) if o not in said]
    pictures = PAGES / f"{name}_files"
    shutil.rmtree(pictures, ignore_errors=True)
    pictures.mkdir(parents=True)
    text, resources = MarkdownExporter().from_notebook_node(
        notebook, {"output_files_dir": pictures.name}
    )
    for path, content in resources["outputs"].items():
        (PAGES / path).write_bytes(content)
    (PAGES / f"{name}.md").write_text(
        f"<!-- Written by vignettes/render.py from {name}.py: edit that. -->\n\n{text.strip()}\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    known = sorted({path.stem for path in HERE.glob("*.py")} - {Path(__file__).stem})
    for name in sys.argv[1:] or known:
        print(name, flush=True)
        render(name)
