"""The verbs that show how the model works: inspect and figures."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from dragoman.cli.options import FiguresConfig, InspectConfig
from dragoman.exported import not_for_reports
from dragoman.figures import attention
from dragoman.figures.gallery import TranslatorMaps, save_figure, save_gallery
from dragoman.figures.style import new_figure, styled
from dragoman.inference.translator import Translator
from dragoman.inspection import evidence
from dragoman.inspection.record import Inspection
from dragoman.inspection.terminal import render_text
from dragoman.runtime.console import say
from dragoman.runtime.device import choose_device, use_bf16
from dragoman.runtime.files import make_folder, prepare_reports, write_atomically

_PAGE = "inspection.html"


def inspect(config: InspectConfig) -> int:
    """Open one translation: as a page, as text, as arrays or as figures; returns the exit code."""
    out = config.out or ("" if config.text or config.json or config.npz or config.png else _PAGE)
    prepare_reports({"--out": out, "--json": config.json, "--npz": config.npz}, not_for_reports(Path(config.folder)))
    page, record, arrays = (Path(name) if name else None for name in (out, config.json, config.npz))
    if config.png:
        make_folder(Path(config.png))
    inspection = _inspected(config)
    if page:
        write_atomically(page, inspection.to_html().encode())
        _report([page])
    if record:
        inspection.save_json(record)
        _report([record])
    if arrays:
        inspection.save_npz(arrays)
        _report([arrays])
    if config.png:
        _report(save_attention(inspection, Path(config.png)))
    if config.text:  # last: its reader may go away
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(render_text(inspection, shutil.get_terminal_size().columns, color))
    return 0


def _inspected(config: InspectConfig) -> Inspection:
    """Translate as `translate` would, and say where it would not."""
    device = choose_device(config.device)
    translator = Translator.load(config.folder, device, autocast=use_bf16(config.precision, device))
    inspection = evidence.inspect(translator, config.sentence, config, config.translation, config.alignment_layer)
    if config.long == "split" and len(inspection.source_pieces) > translator.longest_source:
        say(
            f"the sentence has {len(inspection.source_pieces):,} subwords, more than any in training "
            f"({translator.longest_source:,}): translate would split it and translate its parts"
        )
    return inspection


def figures(config: FiguresConfig) -> int:
    """Draw the pictures into a folder; returns the exit code."""
    maps = None
    if config.model:
        maps = maps_of(evidence.inspect(Translator.load(config.model), config.sentence))
    _report(save_gallery(Path(config.out), (config.format,), config.dpi, maps))
    return 0


def maps_of(inspection: Inspection) -> TranslatorMaps:
    """An inspection's attention, labelled, as the figures take it."""
    source = inspection.labels(inspection.source_pieces, 0)
    return TranslatorMaps(inspection.maps, source, *map(inspection.labels, (inspection.inputs, inspection.outputs)))


def save_attention(inspection: Inspection, out: Path) -> list[Path]:
    """Draw every attention block, a PNG each with a map for every head, and one overview.

    Args:
        inspection: what dragoman.inspect returned.
        out: the folder; made if need be.

    Returns:
        The files.

    Raises:
        DragomanError: a file can't be written.
    """
    make_folder(out)
    maps = maps_of(inspection)
    paths = []
    for name, weights in inspection.maps.items():
        queries, keys = maps.labels(name)
        with styled():
            figure = new_figure(attention.attention_heads_size(len(weights), queries, keys))
            attention.attention_heads(figure, weights, queries, keys, attention.block_in_words(name))
        paths.append(out / f"{name}.png")
        save_figure(figure, paths[-1])
    with styled():
        heads = max(len(weights) for weights in inspection.maps.values())
        figure = new_figure(attention.attention_overview_size(len(inspection.maps), heads))
        attention.attention_overview(figure, inspection.maps)
    paths.append(out / "overview.png")
    save_figure(figure, paths[-1])
    return paths


def _report(written: list[Path]) -> None:
    for path in written:
        say(f"wrote {path}")
