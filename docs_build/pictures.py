"""The pictures: drawn by the code while the site is built, as figures/NAME.svg, and a page that shows them all.

Any page may show one: `![what there is to see](figures/causal-mask.svg)`. The reader gets it on paper, also where the
page is dark, and by itself after a click.
"""

from __future__ import annotations

import functools
import html
import re
import tempfile
from pathlib import Path

from example import inspection
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from dragoman.figures.gallery import GALLERY, gallery, save_gallery

_MARK = "<!-- pictures -->"
_IMAGE = re.compile(r'<img\b[^>]*? src="([^"]*figures/[^"]+\.svg)"[^>]*>')


@functools.cache
def drawn() -> dict[str, bytes]:
    """Every picture as SVG, by name; drawn once in a process."""
    with tempfile.TemporaryDirectory() as folder:
        return {path.stem: path.read_bytes() for path in save_gallery(Path(folder), "svg", inspection=inspection())}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures to the site."""
    for name, content in drawn().items():
        files.append(File.generated(config, f"figures/{name}.svg", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show all of them where a page asks for it."""
    return markdown.replace(_MARK, _all_pictures()) if _MARK in markdown else markdown


def _all_pictures() -> str:
    sections = []
    for name, entry in gallery(inspection()).items():
        alt = html.escape(f"{entry.title}. {entry.caption}", quote=True)
        sections.append(f"## {entry.title} {{ #{name} }}\n\n{entry.caption}\n\n![{alt}](figures/{name}.svg)")
        if name in GALLERY:  # the others are drawn from a translation
            sections.append(f"[[{entry.draw.__module__}:{entry.draw.__name__} @ def ]]\n{{ .below-code }}")
    return "\n\n".join(sections)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put every picture on paper, and link it to itself."""
    return _IMAGE.sub(lambda image: f'<a class="picture" href="{image[1]}">{image[0]}</a>', content)
