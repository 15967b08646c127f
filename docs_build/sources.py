"""Source code in the site: a page for every file, and links to it from every [[reference]] and every API entry.

In Markdown, outside of code blocks,

    [[dragoman.model.masks:causal_mask]]                            the name and its line
    [[dragoman.model.masks:causal_mask @ tril]]                     only the line of that text
    [[show dragoman.model.masks:causal_mask @ torch.ones … tril]]   the lines themselves, from one text to the other
    [[tests/model/test_masks.py::test_several_ids]]                 the test in words, and its line

Names link to the API reference, lines to the source.

Lines that consist only of references to tests become a list of the tests for the statement before them. A reference
that can't be resolved is a warning, which fails the strict build.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority, get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from symbols import PACKAGE, ROOT, Place, UnknownSymbol, forget, module_file, modules, resolve

log = get_plugin_logger("sources")

REFERENCE = re.compile(r"\[\[((?:show )?(?:dragoman\b|tests/)[^\n]*?)\]\](?!\])")
_TESTS = re.compile(r"(?:^\[\[tests/[^\n]*\]\]\n)+", re.M)
_FENCE = re.compile(r"^ *(```|~~~).*?^ *\1", re.S | re.M)
_HEADING = re.compile(r'<h\d id="(dragoman\.[\w.]+)" class="doc doc-heading">')


def source_uri(file: str) -> str:
    """Return the page that shows a file."""
    return f"source/{file}.md"


def on_pre_build(config: MkDocsConfig) -> None:
    """Clear the cache of an earlier build."""
    forget()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file of the package and every test file that a page names."""
    shown = {module_file(module) for module in modules()}
    for file in files.documentation_pages():
        for reference in REFERENCE.findall(_text(file)):
            if reference.startswith("tests/"):
                shown.add(reference.partition("::")[0])
    for name in sorted(shown):
        if (ROOT / name).is_file():
            files.append(File.generated(config, source_uri(name), content=_source_page(name)))
    return files


def _text(file: File) -> str:
    return Path(file.abs_src_path).read_text(encoding="utf-8") if file.abs_src_path else ""


def _source_page(name: str) -> str:
    """Return the highlighted source of a file, with an anchor L1, L2, … for every line."""
    formatter = HtmlFormatter(linenos="inline", linespans="L", wrapcode=True, cssclass="highlight source")
    code = highlight((ROOT / name).read_text(encoding="utf-8"), PythonLexer(stripnl=False), formatter)
    code = re.sub(r'id="L-(\d+)"', r'id="L\1"', code)
    code = re.sub(r'(id="L(\d+)"><span class="linenos">)( *)\d+(</span>)', r'\1\3<a href="#L\2">\2</a>\4', code)
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    reference = f"[API reference]({'../' * name.count('/')}../{api_uri(module)})\n\n" if has_api(module) else ""
    about = f"---\ntitle: {name}\nsearch:\n  exclude: true\nhide: [navigation, toc]\n---\n\n"
    return f"{about}# {as_code(name)}\n\n{reference}{code}\n"


def as_code(name: str) -> str:
    """Return a path or a dotted name as code that may wrap after slashes and dots."""
    breakable = re.sub(r"([/.])", r"\1<wbr>", name)
    return f"<code>{breakable}</code>"


def has_api(module: str) -> bool:
    """Whether the API reference has a page for a module; of packages only the top one has."""
    if module.endswith("__main__"):
        return False
    return module == PACKAGE or (module in modules() and module_file(module) == f"{module.replace('.', '/')}.py")


def api_uri(module: str) -> str:
    """Return the page of the API reference that describes a module."""
    return f"api/{module.removeprefix(PACKAGE + '.').replace('.', '/')}.md"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the [[references]] outside of fenced code."""

    def replace(match: re.Match[str]) -> str:
        try:
            return _link(match[1], "../" * page.file.src_uri.count("/"))
        except UnknownSymbol as error:
            log.warning("%s: %s", page.file.src_uri, error)
            return f"`{match[1]}`"

    markdown = _TESTS.sub(lambda match: _as_list(match[0]), markdown)
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [REFERENCE.sub(replace, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join(parts) + REFERENCE.sub(replace, markdown[end:])


def _as_list(lines: str) -> str:
    items = "".join(f"- {line}\n" for line in lines.splitlines())
    return f'<div class="tests" markdown>\n\n{items}\n</div>\n'


def _link(reference: str, up: str) -> str:
    if reference.startswith("show "):
        return _excerpt(reference.removeprefix("show "), up)
    place = resolve(reference)
    line = _line_link(place, up)
    if " @ " in reference:
        return line
    if reference.startswith("tests/"):
        return f"{place.name.removeprefix('test_').replace('_', ' ')} {line}"
    target = up + api_uri(place.module) + (f"#{place.module}.{place.name}" if place.name else "")
    name = f"`{place.name or place.module}`"
    return (f"[{name}]({target})" if place.is_public else name) + f" {line}"


def _line_link(place: Place, up: str) -> str:
    return f"[{_short(place)}]({up}{source_uri(place.file)}#L{place.line}){{ .line }}"


def _excerpt(reference: str, up: str) -> str:
    """Return the source lines from the first text to the last."""
    symbol, _, texts = reference.partition(" @ ")
    first, _, last = texts.partition(" … ")
    start = resolve(f"{symbol} @ {first}" if first else symbol)
    end = resolve(f"{symbol} @ {last}").line if last else start.line
    lines = (ROOT / start.file).read_text(encoding="utf-8").split("\n")[start.line - 1 : end]
    if not lines:
        raise UnknownSymbol(f"{reference}: the last line is before the first")
    code = re.sub(r"  # type: ignore\S*", "", textwrap.dedent("\n".join(lines)))
    return f"""``` {{ .python linenums="{start.line}" }}\n{code}\n```\n\n{_line_link(start, up)}\n{{ .below-code }}"""


def _short(place: Place) -> str:
    return f"{place.file.removeprefix(PACKAGE + '/')}:{place.line}"


@event_priority(-50)  # after the API reference has been added
def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give every entry of the API reference a link to its source."""
    return _HEADING.sub(lambda match: match[0] + _source_link(match[1], page), content)


def _source_link(dotted: str, page: Page) -> str:
    known = set(modules())
    parts = dotted.split(".")
    module = next(".".join(parts[:n]) for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in known)
    name = dotted.removeprefix(module).removeprefix(".")
    try:
        place = resolve(f"{module}:{name}" if name else module)
    except UnknownSymbol:  # an attribute that is set in a method
        return ""
    url = get_relative_url(source_uri(place.file).removesuffix(".md") + ".html", page.file.url)
    return f'<a class="source-link" data-search-exclude href="{url}#L{place.line}">source</a>'
