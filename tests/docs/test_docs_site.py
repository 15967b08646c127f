"""The site: every link leads somewhere, nothing comes from elsewhere, everything is rendered."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs_build"))

import sources  # noqa: E402
import symbols  # noqa: E402

OFFLINE = """
import socket
def refuse(*_):
    raise OSError("the documentation must build without network")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from mkdocs.__main__ import cli
cli()
"""


class Page(HTMLParser):
    """What a page of the site links to, loads and offers to link to."""

    LOADS = frozenset({("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")})

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.images_without_text: list[str] = []
        self.tags: set[str] = set()
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        loads = [value for name, value in values.items() if (tag, name) in self.LOADS]
        self.loaded += loads if values.get("rel") != "canonical" else []
        self.loaded += [value for name, value in values.items() if name in ("srcset", "poster", "data")]
        if tag == "img" and not values.get("alt") and "logo" not in values.get("src", ""):
            self.images_without_text.append(values.get("src", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it, in a process that has no network."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-c", OFFLINE, "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    # 404.html is for servers: its links begin at the server's root.
    return {path: Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}


def internal(pages: dict[Path, Page]) -> Iterator[tuple[Path, str, Path, str]]:
    """(page, link, file it leads to, anchor) of everything that a page links to or loads inside the site."""
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if not parts.scheme and not parts.netloc:
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                yield path, link, target / "index.html" if target.is_dir() else target, unquote(parts.fragment)


def test_every_link_and_anchor_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    assert len(pages) > 60
    broken = []
    for path, link, target, anchor in internal(pages):
        missing = not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors)
        if missing and not link.startswith("javascript:"):
            broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_the_site_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    loaded = [(path, link) for path, page in pages.items() for link in page.loaded]
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        loaded += [(style, url) for url in re.findall(r"""(?:url\(|@import)\s*["']?([^"')\s]+)""", text)]
    for image in site.rglob("*.svg"):
        text = image.read_text(encoding="utf-8")
        loaded += [(image, url) for url in re.findall(r"""<(?:image|use)\b[^>]*href=["']([^"']+)""", text)]
    for path, page in pages.items():
        loaded += [
            (path, url) for url in re.findall(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", page.text)
        ]
        assert "mermaid" not in page.text, f"{path}: the theme would fetch a script to draw this"
    elsewhere = [f"{path.relative_to(site)}: {url}" for path, url in loaded if urlsplit(url).netloc]
    assert not elsewhere
    assert len(loaded) > 500


def test_nothing_is_left_unrendered(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        if path.relative_to(site).parts[0] == "source":
            continue
        prose = re.sub(r"<(pre|code|script|style)\b.*?</\1>", "", page.text, flags=re.S)
        marks = "[[dragoman|[[tests/|\\(|$$|arithmatex"
        for raw in marks.split("|"):
            assert raw not in prose, f"{path.relative_to(site)}: {raw}"
    assert "math" in pages[site / "paper.html"].tags
    assert "mtable" in pages[site / "paper.html"].tags


def test_every_picture_is_described(pages: dict[Path, Page]) -> None:
    assert [path.name for path, page in pages.items() if page.images_without_text] == []


def test_the_api_reference_has_what_is_public_and_nothing_else(site: Path, pages: dict[Path, Page]) -> None:
    for module in ("dragoman.model.attention", "dragoman.inference.translator", "dragoman.training.loss"):
        anchors = pages[site / sources.api_uri(module).replace(".md", ".html")].anchors
        tree = symbols.parse(ROOT / symbols.module_file(module))
        names = {node.name for node in tree.body if hasattr(node, "name")}
        assert {f"{module}.{name}" for name in names if not name.startswith("_")} <= anchors
        assert not {f"{module}.{name}" for name in names if name.startswith("_")} & anchors
    attention = pages[site / "api" / "model" / "attention.html"].text
    assert "Tensor | None" in re.sub(r"<[^>]+>", "", attention)  # types of arguments
    source = r"\.\./\.\./source/dragoman/model/attention\.py\.html#L\d+"
    assert re.search(rf'class="source-link"[^>]* href="{source}"', attention)
