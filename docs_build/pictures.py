"""The pictures: the build draws them as figures/NAME.svg, and a page shows them all.

Any page may show one: `![description](figures/causal-mask.svg)`. Pictures have a white background, also in dark mode,
and open on their own after a click.
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
    """Draw every picture as SVG, once per process; returns them by name."""
    with tempfile.TemporaryDirectory() as folder:
        return {path.stem: path.read_bytes() for path in save_gallery(Path(folder), "svg", inspection=inspection())}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures to the site."""
    for name, content in drawn().items():
        files.append(File.generated(config, f"figures/{name}.svg", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert all pictures at their mark."""
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
    """Give every picture a background, and a link to its file."""
    return _IMAGE.sub(lambda image: f'<a class="picture" href="{image[1]}">{image[0]}</a>', content)
