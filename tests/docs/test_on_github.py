"""Every page reads right on GitHub, which renders Markdown without a build."""

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dragoman.figures.gallery import GALLERY

from .commands import DOCS, ROOT

sys.path.insert(0, str(ROOT / "docs_build"))

import refresh
import symbols

GFM = MarkdownIt("commonmark").enable(["table", "strikethrough"])
SHOWN_HTML = re.compile(
    r"<!--.*?-->|<summary>[^<]*</summary>|</?(br|picture|source|img|sub|sup|kbd|details)\b[^>]*>", re.S
)
LEFTOVER = re.compile(r"\[\[|\{ ?[#.:]|^!!!|^\?\?\?|^===|\n: |<!--|-->", re.M)
MATH = re.compile(r"(?<![\\\w$])\$(?=\S)([^$]+)(?<=\S)\$")


@dataclass
class Page:
    """What GitHub makes of a page."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    """Each paragraph, heading or cell as it is written, and what is shown of it, code left out of both."""
    html: str = ""


@cache
def page(path: Path) -> Page:
    found, slugs = Page(), Counter[str]()
    tokens = GFM.parse(path.read_text(encoding="utf-8"))
    for token, before in zip(tokens, [None, *tokens], strict=False):
        if token.type == "html_block":
            found.html += token.content
        for child in token.children or []:
            found.links += [str(child.attrs[name]) for name in ("href", "src") if name in child.attrs]
            found.html += child.content * (child.type == "html_inline")
        if token.type == "inline":
            written = re.sub(r"`[^`]*`", "", token.content)
            found.texts.append((written, shown(token, "text", "softbreak")))
            if before and before.type == "heading_open":
                slug = re.sub(r"[^\w\- ]", "", shown(token, "text", "code_inline").lower()).replace(" ", "-")
                found.anchors.add(f"{slug}-{slugs[slug]}" if slugs[slug] else slug)
                slugs[slug] += 1
    found.links += re.findall(r'(?:src|srcset|href)="([^"]*)"', found.html)
    return found


def shown(token: Token, *kinds: str) -> str:
    return "".join(child.content or "\n" for child in token.children or [] if child.type in kinds)


def internal(path: Path) -> Iterator[tuple[str, Path, str]]:
    for link in page(path).links:
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme in ("https", "mailto"), link
        else:
            yield link, (path.parent / unquote(parts.path)).resolve() if parts.path else path, unquote(parts.fragment)


every_page = pytest.mark.parametrize("path", refresh.PAGES, ids=lambda path: path.name)


@every_page
def test_links_and_pictures_lead_somewhere(path: Path) -> None:
    for link, target, anchor in internal(path):
        assert target.exists(), link
        assert not anchor or target.suffix == ".py" or anchor in page(target).anchors, link


@every_page
def test_nothing_is_shown_raw_or_left_out(path: Path) -> None:
    assert SHOWN_HTML.sub("", page(path).html).strip() == ""
    assert not re.search(r"<\w+\b[^>]*\b(class|style|id)=", page(path).html)
    assert [text for _, text in page(path).texts if LEFTOVER.search(text)] == []


@every_page
def test_github_can_show_every_equation(path: Path) -> None:
    """Markdown must leave equations alone, and GitHub's renderer refuses some macros."""
    for written, text in page(path).texts:
        for equation in MATH.finditer(written):
            assert equation[0] in text, written
        assert "$$" not in written
    assert "\\operatorname" not in path.read_text(encoding="utf-8")


@every_page
def test_everything_generated_is_up_to_date(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert refresh.refreshed(text) == text, "run docs_build/refresh.py"


def test_every_picture_is_there_and_used() -> None:
    there = set((DOCS / "figures").iterdir())
    used = {target for path in refresh.PAGES for _, target, _ in internal(path) if target.parent == DOCS / "figures"}
    assert there == used
    assert sum(file.stat().st_size for file in there) < 1.6e6
    assert {file.stem for file in there if file.suffix == ".svg"} > set(GALLERY)


def test_the_paper_map_leads_to_every_file_of_the_model() -> None:
    linked = {target for _, target, _ in internal(DOCS / "paper.md")}
    assert set((ROOT / "dragoman" / "model").glob("[!_]*.py")) <= linked


@pytest.mark.parametrize(
    ("link", "line"),
    [
        ("[`causal_mask`](../dragoman/model/masks.py#L1)", "def causal_mask("),
        ("[`ModelConfig.d_model`](../dragoman/config.py#L1)", "    d_model:"),
        ('[the mask](../dragoman/model/masks.py#L1 "causal_mask @ tril")', "    return everything.tril("),
    ],
)
def test_a_link_gets_the_line_of_what_it_names(link: str, line: str) -> None:
    file, number = re.findall(r"\.\./([\w/.]+)#L(\d+)", refresh.refreshed(link))[0]
    assert symbols.source_lines(file)[int(number) - 1].startswith(line)
    assert refresh.refreshed(f"```text\n{link}\n```\n") == f"```text\n{link}\n```\n"


@pytest.mark.parametrize("gone", ["model/absent.py#L1", "model/masks.py#L1", 'model/masks.py#L1 "padding_mask @ tril"'])
def test_a_link_to_what_is_not_there_is_an_error(gone: str) -> None:
    with pytest.raises(symbols.UnknownSymbol, match=r"absent|tril"):
        refresh.refreshed(f"[`absent`](../dragoman/{gone})")


def test_the_address_of_the_repository_is_the_same_everywhere() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    address = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["repository-code"]
    owner, name = re.findall(r"^https://github\.com/([\w-]+)/(\w+)$", address)[0]
    pages = f"https://{owner}.github.io/{name}/"
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f"repo_url: {address}\n" in site
    assert f"site_url: {pages}\n" in site
    assert f'Repository = "{address}"' in project
    assert f'Documentation = "{pages}"' in project
