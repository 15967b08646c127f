"""The notebook shows what its code did, and does what it says when it is run from top to bottom."""

import ast
import importlib
import os
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from .commands import ROOT

sys.path.insert(0, str(ROOT / "docs_build"))

from notebook_outputs import NOTEBOOK, fingerprint

FINISHED_DEMO = "DRAGOMAN_DEMO"  # environment variable: a folder that `dragoman demo` has made, to save its training


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_notebook_is_shown_as_its_code_left_it_and_has_no_other_traces_of_a_run() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "outputs_of": fingerprint(notebook),  # or run docs_build/notebook_outputs.py
    }
    for cell in notebook.cells:
        assert not cell.metadata
        assert re.fullmatch(r"[a-z][a-z-]+", cell.id), "a name, not the random id of an editor"
    executed = [cell.execution_count for cell in code_cells(notebook)]
    assert executed == list(range(1, len(executed) + 1))
    assert "error" not in {output.output_type for cell in code_cells(notebook) for output in cell.outputs}
    assert sum(len(image) for cell in code_cells(notebook) for image in outputs(cell, "image/png")) < 300_000
    assert not re.search(r"/(home|root|tmp|work)/", NOTEBOOK.read_text(encoding="utf-8"))


def test_what_the_notebook_imports_exists() -> None:
    imported = 0
    for cell in code_cells(nbformat.read(NOTEBOOK, as_version=4)):
        source = "\n".join(line for line in cell.source.split("\n") if not line.startswith("%"))
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dragoman":
                module = importlib.import_module(node.module or "")
                for alias in node.names:
                    if not hasattr(module, alias.name):
                        importlib.import_module(f"{node.module}.{alias.name}")
                    imported += 1
    assert imported >= 10


def outputs(cell: nbformat.NotebookNode, mime: str) -> list[str]:
    return [output.data[mime] for output in cell.outputs if mime in output.get("data", {})]


def printed(cell: nbformat.NotebookNode) -> str:
    return "".join(o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stdout")


def kinds(cell: nbformat.NotebookNode) -> set[str]:
    """What a cell shows, but for its messages, which depend on what is trained already, and the page in Jupyter."""
    return {key for o in cell.outputs for key in o.get("data", [o.get("name")])} - {"stderr", "text/html"}


def test_what_is_shown_is_what_the_text_says() -> None:
    cells = {cell.id: cell for cell in code_cells(nbformat.read(NOTEBOOK, as_version=4))}
    bleu = re.search(r"^BLEU ([\d.]+)  nrefs:1\|case:mixed", printed(cells["translate"]), re.M)
    assert bleu
    assert float(bleu[1]) >= 70.0
    candidates = re.findall(r"(-\d+\.\d{4}) +([01]\.\d{4})  (\S+)", printed(cells["candidates"]))
    assert [first for _, _, first in candidates[::3]] == ["Veux-tu", "Voulez-vous", "Voulez-vous"]
    looks = [float(weight) for weight in re.findall(r"head \d (\d\.\d\d)", printed(cells["look"]))]
    assert len(looks) == 8, "two layers of four heads"
    assert max(looks) > 0.5
    assert outputs(cells["hello"], "text/plain") == ["'Où sont les toilettes ?'"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_notebook_runs_from_top_to_bottom_and_shows_the_same_kinds_of_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))  # nobody's own settings
    (tmp_path / "work").mkdir()
    if finished := os.environ.get(FINISHED_DEMO):
        shutil.copytree(finished, tmp_path / "work" / "demo")
    committed, notebook = (nbformat.read(NOTEBOOK, as_version=4) for _ in range(2))
    place = {"metadata": {"path": str(tmp_path / "work")}}
    NotebookClient(notebook, timeout=1700, kernel_name="python3", resources=place).execute()  # raises on an error
    for shown, again in zip(code_cells(committed), code_cells(notebook), strict=True):
        assert kinds(shown) == kinds(again)
    (page,) = outputs(next(cell for cell in notebook.cells if cell.id == "inspect"), "text/html")
    assert page.startswith("<iframe srcdoc=")
