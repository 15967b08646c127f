"""Source code in the site: a page for every file that is linked to, and links to it from every API entry."""

from __future__ import annotations

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from symbols import PACKAGE, ROOT, UnknownSymbol, line_of, module_file, modules

_LINK = re.compile(r"\]\(\.\./((?:dragoman|learn|tests)/[\w/]+\.py)(#L\d+)?(?:-L\d+)?")
_NOTEBOOK = re.compile(r"\]\(\.\./((?:learn|notebooks)/\w+\.ipynb)\)")
_HEADING = re.compile(r'<h\d id="(dragoman\.[\w.]+)" class="doc doc-heading">')


def source_uri(file: str) -> str:
    """Return the page that shows a file."""
    return f"source/{file}.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file of the package and every test file that a page links to."""
    pages = [file.content_string for file in files.documentation_pages() if file.src_uri.count("/") == 0]
    linked = {match[1] for page in pages for match in _LINK.finditer(page)}
    for name in sorted({module_file(module) for module in modules()} | linked):
        if (ROOT / name).is_file():
            files.append(File.generated(config, source_uri(name), content=_source_page(name)))
    return files


def _source_page(name: str) -> str:
    """Return the page of a file without its source, which Markdown would only be slow to read."""
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    reference = f"[API reference]({'../' * name.count('/')}../{api_uri(module)})\n\n" if has_api(module) else ""
    about = f"---\ntitle: {name}\nsearch:\n  exclude: true\nhide: [navigation, toc]\n---\n\n"
    return f"{about}# {as_code(name)}\n\n{reference}"


def _highlighted(name: str) -> str:
    """Return the highlighted source of a file, with an anchor L1, L2, … for every line."""
    formatter = HtmlFormatter(linenos="inline", linespans="L", wrapcode=True, cssclass="highlight source")
    code = highlight((ROOT / name).read_text(encoding="utf-8"), PythonLexer(stripnl=False), formatter)
    code = re.sub(r'id="L-(\d+)"', r'id="L\1"', code)
    return re.sub(r'(id="L(\d+)"><span class="linenos">)( *)\d+(</span>)', r'\1\3<a href="#L\2">\2</a>\4', code)


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
    """Lead links to files of the repository to their pages, and links to notebooks to the repository."""
    markdown = _NOTEBOOK.sub(rf"]({config.repo_url}/blob/main/\1)", markdown)
    return _LINK.sub(lambda match: f"]({source_uri(match[1])}{match[2] or ''}", markdown)


@event_priority(-50)  # after the API reference has been added
def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give every entry of the API reference a link to its source, and the pages of sources their source."""
    if page.file.src_uri.startswith("source/"):
        code = _highlighted(page.file.src_uri.removeprefix("source/").removesuffix(".md"))
        # MkDocs checks links against the anchors that it has read in Markdown.
        page.present_anchor_ids = {*(page.present_anchor_ids or ()), *re.findall(r'id="(L\d+)"', code)}
        return f"{content}\n{code}"
    return _HEADING.sub(lambda match: match[0] + _source_link(match[1], page), content)


def _source_link(dotted: str, page: Page) -> str:
    known = set(modules())
    parts = dotted.split(".")
    module = next(".".join(parts[:n]) for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in known)
    name = dotted.removeprefix(module).removeprefix(".")
    file = module_file(module)
    try:
        line = line_of(file, name)
    except UnknownSymbol:  # an attribute that is set in a method
        return ""
    url = get_relative_url(source_uri(file).removesuffix(".md") + ".html", page.file.url)
    return f'<a class="source-link" data-search-exclude href="{url}#L{line}">source</a>'


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Keep the theme from asking GitHub for the stars of the repository: a page loads nothing from elsewhere."""
    return output.replace(' data-md-component="source"', "")
