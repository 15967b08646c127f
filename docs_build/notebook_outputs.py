"""Run the notebook and keep what it shows: `python docs_build/notebook_outputs.py demo`.

`demo` is the folder that `make demo` has made.
The outputs are kept without times, versions and the reader's settings; pictures have 64 colours. The page that the
inspection shows in Jupyter is left out, because the repository's page would not show it.
"""

from __future__ import annotations

import base64
import io
import shutil
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image
from symbols import ROOT

NOTEBOOK = ROOT / "notebooks" / "dragoman.ipynb"
COLOURS = 64


def fingerprint(notebook: nbformat.NotebookNode) -> str:
    """Return what tells the code of a notebook, so that outputs of other code are noticed."""
    return sha256("\0".join(cell.source for cell in notebook.cells if cell.cell_type == "code").encode()).hexdigest()


def executed(demo: Path) -> nbformat.NotebookNode:
    """Return the notebook with its outputs, run beside a copy of the demo's folder."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(demo, Path(folder, "demo"))
        place = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=1800, kernel_name="python3", resources=place, record_timing=False).execute()
    notebook.metadata.language_info = {"name": "python"}
    notebook.metadata.outputs_of = fingerprint(notebook)
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        data = output.get("data", {})
        data.pop("text/html", None)
        if "image/png" in data:
            data["image/png"] = _fewer_colours(data["image/png"])
    return notebook


def _fewer_colours(png: str) -> str:
    content = io.BytesIO()
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(content, "png", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


if __name__ == "__main__":
    nbformat.write(executed(Path(sys.argv[1])), NOTEBOOK)
