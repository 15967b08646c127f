"""The verbs that show how the model works: inspect and figures."""

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from dragoman.cli.options import FiguresConfig, InspectConfig
from dragoman.cli.translate import load, require_one
from dragoman.figures.gallery import save_attention, save_gallery
from dragoman.folder import files_of_model
from dragoman.inference.translator import Translator
from dragoman.inspection import evidence
from dragoman.inspection.terminal import render_text
from dragoman.runtime.console import say
from dragoman.runtime.files import make_folder, prepare_reports, write_atomically

_PAGE = "inspection.html"


def inspect(config: InspectConfig) -> int:
    """Open one translation: as a page, as text, as arrays or as figures; returns the exit code."""
    out = config.out or ("" if config.text or config.json or config.npz or config.png else _PAGE)
    prepare_reports({"--out": out, "--json": config.json, "--npz": config.npz}, files_of_model(Path(config.folder)))
    if config.png:
        make_folder(Path(config.png))
    translator = load(replace(config, engine="torch"), config.folder)
    require_one(translator, "target")
    inspection = evidence.inspect(translator, config.sentence, config, config.translation, config.alignment_layer)
    if out:
        write_atomically(Path(out), inspection.to_html().encode())
    if config.json:
        inspection.save_json(Path(config.json))
    if config.npz:
        inspection.save_npz(Path(config.npz))
    pictures = save_attention(Path(config.png), inspection) if config.png else []
    for written in filter(None, [out, config.json, config.npz, *pictures]):
        say(f"wrote {written}{'; open it in a browser' * (written == out)}")
    if config.text:  # last: its reader may go away
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(render_text(inspection, shutil.get_terminal_size().columns, color))
    return 0


def figures(config: FiguresConfig) -> int:
    """Draw the pictures into a folder; returns the exit code."""
    inspection = (
        evidence.inspect(Translator.load(config.model, engine="torch"), config.sentence) if config.model else None
    )
    for path in save_gallery(Path(config.out), config.format, config.dpi, inspection):
        say(f"wrote {path}")
    return 0
