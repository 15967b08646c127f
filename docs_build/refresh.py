"""Rewrite what is generated in the pages: links to lines of code, excerpts, tables and lists from the code.

In *.md and docs/*.md, outside of fenced code,

    [`causal_mask`](../dragoman/model/masks.py#L1)                         gets the line of this definition
    [what it says](../tests/test_config.py#L1 "test_name")                 gets the line of what the title names
    [`tril`](../dragoman/model/masks.py#L1 "causal_mask @ tril")           gets the first line in it with this text
    <!-- code: dragoman/model/masks.py causal_mask @ torch.ones … tril --> gets these lines of code, from one text to
                                                                           the other, down to <!-- end of code -->
    <!-- options -->                                                       gets what `_generated` lists under this mark,
                                                                           down to <!-- end of options -->

A name or text that the code doesn't have is an error. Run it after each change of the code; a test fails otherwise.
`--pictures` also draws docs/figures again, with the fonts of the machine; docs_build/demo_pictures.py draws those of a
trained model.
"""

from __future__ import annotations

import base64
import io
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import drawings
from option_lists import presets, verbs
from PIL import Image
from symbols import ROOT, UnknownSymbol, line_of, source_lines
from table_3 import table_3

from dragoman.figures.gallery import GALLERY, save_gallery

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.S | re.M)

_LINK = re.compile(
    r'\[(`[^`\n]+`|[^\[\]]*)\]\(((?:\.\./)?((?:dragoman|learn|tests)/[\w/]+\.py))#L\d+(?:\s+"([^"]*)")?\)'
)
_CODE = re.compile(r"(<!-- code: (\S+) (.*?) -->\n).*?(<!-- end of code -->)", re.S)

_CELL = re.compile(
    r'M (\S+) (\S+)\nL (\S+) \2\nL \3 (\S+)\nL \1 \4\n(?:L \1 \2|z)\n" clip-path="url\(#\w+\)" '
    r'style="(fill: [^;"]+)(?:; stroke: (#\w+); stroke-width: ([\d.]+))?"'
)
"""A cell of a table as Matplotlib writes it."""


def refreshed(text: str) -> str:
    """Return a page with everything generated as it should be now.

    Raises:
        UnknownSymbol: the page names something that the code doesn't have.
    """
    for mark, generate in _generated().items():
        between = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)", re.S)
        text = between.sub(lambda match: f"{match[1]}\n{generate()}\n\n{match[2]}", text)  # noqa: B023
    text = _CODE.sub(lambda match: f"{match[1]}\n{_excerpt(match[2], match[3])}\n\n{match[4]}", text)
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [_LINK.sub(_link, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join(parts) + _LINK.sub(_link, text[end:])


def _generated() -> dict[str, Callable[[], str]]:
    return {"options": verbs, "presets": presets, "table 3": table_3, "pictures": _pictures}


def _link(match: re.Match[str]) -> str:
    text, target, file, title = match.groups()
    line = line_of(file, title or text.strip("`"))
    return f"[{text}]({target}#L{line}" + (f' "{title}")' if title else ")")


def _excerpt(file: str, what: str) -> str:
    """Return the source lines from the first text to the last, and a link to them."""
    symbol, _, texts = what.partition(" @ ")
    first, _, last = texts.partition(" … ")
    start = line_of(file, f"{symbol} @ {first}" if first else symbol)
    end = line_of(file, f"{symbol} @ {last}") if last else start
    lines = source_lines(file)[start - 1 : end]
    if not lines:
        raise UnknownSymbol(f"{file}: {what}: the last line is before the first")
    code = re.sub(r"  # type: ignore\S*", "", textwrap.dedent("\n".join(lines)))
    return f"```python\n{code}\n```\n\n[{file.removeprefix('dragoman/')}](../{file}#L{start}-L{end})"


def _pictures() -> str:
    """Return a section for each picture."""
    return "\n\n".join(
        f"## {entry.title}\n\n{entry.caption}\n\n![{entry.title}](figures/{name}.svg)\n\n"
        f"Drawn by [`{entry.draw.__name__}`](../{entry.draw.__module__.replace('.', '/')}.py#L1)."
        for name, entry in GALLERY.items()
    )


def draw_pictures() -> None:
    """Draw every picture into docs/figures, small."""
    for path in save_gallery(DOCS / "figures", "svg", dpi=150):
        make_small(path)
    drawings.main()


def make_small(path: Path) -> None:
    """Rewrite a picture with coordinates to a tenth of a point, short cells, and maps in 64 colours."""
    text = re.sub(r"(scale\(\S+|\d\d\.\d|\.\d\d)\d*", r"\1", path.read_text(encoding="utf-8"))
    text = re.sub(r"(?<=data:image/png;base64,)[^\"]+", _in_64_colours, text)
    path.write_text(_CELL.sub(_short_cell, re.sub(r"\s*\n\s*(<!--.*?-->\s*)?", "\n", text)), encoding="utf-8")


def _short_cell(cell: re.Match[str]) -> str:
    x, y, right, bottom, fill, stroke, width = cell.groups()
    line = f'" stroke="{stroke}" stroke-width="{width}' if stroke else ""
    return f'M{x} {y}H{right}V{bottom}H{x}z" fill="{fill.removeprefix("fill: ")}{line}"'


def _in_64_colours(png: re.Match[str]) -> str:
    content = io.BytesIO()
    Image.open(io.BytesIO(base64.b64decode(png[0]))).convert("RGB").quantize(64).save(content, "png", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


def main() -> None:
    """Rewrite the pages that are not as they should be, and name them."""
    if "--pictures" in sys.argv[1:]:
        draw_pictures()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        try:
            new = refreshed(text)
        except UnknownSymbol as error:
            sys.exit(f"{page.relative_to(ROOT)}: {error}")
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"rewrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
