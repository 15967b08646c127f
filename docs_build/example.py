"""An example sentence, translated and inspected, if `make demo` has trained a translator."""

from __future__ import annotations

import functools

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from symbols import ROOT

from dragoman.config import DragomanError
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from dragoman.inspection.record import Inspection

log = get_plugin_logger("example")

MODEL = ROOT / "demo" / "en-fr"
SENTENCE = "Where is the station, please, madam?"
_PAGE, _MARK = "inspection.html", "<!-- example -->"


@functools.cache
def inspection() -> Inspection | None:
    """Return the inspection of the sentence by the demo's translator; None if there is none."""
    if not (MODEL / "model.safetensors").is_file():
        return None
    try:
        return inspect(Translator.load(MODEL), SENTENCE)
    except DragomanError as error:  # a folder of another version of Dragoman
        log.info("no example: %s", error)
        return None


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page that `dragoman inspect` would write."""
    if found := inspection():
        files.append(File.generated(config, _PAGE, content=found.to_html()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the example at its mark."""
    example = (
        f'<iframe class="example" src="{_PAGE}" title="An inspection" loading="lazy"></iframe>\n\n'
        f"[The same page by itself]({_PAGE}){{ .below-code }}"
    )
    return markdown.replace(_MARK, example if inspection() else "")
