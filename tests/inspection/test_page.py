import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from dragoman.inspection.page import render
from dragoman.inspection.record import Inspection

from .records import an_inspection

HOSTILE = [
    "<script>window.hacked=1</script>",
    "</script><script>window.hacked=1</script>",
    "</SCRIPT ><img src=x onerror=window.hacked=1>",
    "<!-- <script>",
    "]]></title></style><style>body{display:none}</style>",
    "\"'><svg onload=window.hacked=1>",
    "&lt;b&gt; &amp; &#60;",
    "{{RECORD}} {{SCRIPT}} \\g<0> \\1",
    "line\u2028separator\u2029paragraph",
    "\u202eright to left\u202c \u2066isolate",
    "half of a pair: \ud83d",
]


def inspection(words: list[str], layers: int = 1, heads: int = 2) -> Inspection:
    """A translation of a sentence into itself."""
    pieces = ["▁" + word for word in words]
    return an_inspection(pieces, pieces, layers, heads)


class Page(HTMLParser):
    """What a browser would make of a page: its tags, and the text in them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self._inside = attributes.get("id") or attributes.get("type") or tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        self.texts[self._inside] = self.texts.get(self._inside, "") + data


def page_of(record: dict[str, Any]) -> str:
    return render("page.html", {"record": record})


def policy(page: Page) -> str:
    (content,) = (a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert content
    return content


@pytest.mark.parametrize("text", ["Where is it?", *HOSTILE])
def test_the_record_comes_back_as_it_went_in(text: str) -> None:
    data = inspection([text, "quiet"]).to_dict()
    page = Page(page_of(data))
    assert json.loads(page.texts["record"]) == json.loads(json.dumps(data))


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup_wherever_it_stands(text: str) -> None:
    harmless, hostile = (inspection([word, "quiet"]) for word in ("loud", text))
    data = hostile.to_dict()
    data["languages"] = [text, text]
    data["facts"][text] = text
    page = Page(page_of(data))
    assert page.tags == Page(page_of(harmless.to_dict())).tags
    assert page.texts["title"] == f"{data['source']} → {data['target']}"
    assert page.texts["source-text"] == data["source"]


def test_even_unprepared_text_cannot_leave_its_script() -> None:
    data = inspection(["loud"]).to_dict()
    for text in HOSTILE:
        data["source_labels"][0] = data["candidates"][0]["text"] = data["tree"][0]["label"] = text  # not made visible
        record = Page(page_of(data)).texts["record"]
        assert json.loads(record)["source_labels"][0] == text
        assert not set(record) & set("<>&\u2028\u2029\u202e")


def test_nothing_comes_from_elsewhere() -> None:
    html = page_of(inspection(["a"]).to_dict())
    page = Page(html)
    linked = [a[name] or "" for _, a in page.tags for name in ("src", "href", "action", "srcset", "data") if name in a]
    assert linked  # the sections
    assert all(link.startswith("#") for link in linked)
    assert not re.search(r"@import|url\(", page.texts["style"])
    assert not {tag for tag, _ in page.tags} & {"link", "img", "iframe", "object", "embed", "base", "form"}
    assert "default-src 'none'" in policy(page)


def test_the_policy_allows_this_program_and_this_style_and_no_other() -> None:
    page = Page(page_of(inspection(["</script>"]).to_dict()))
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.texts[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}';" in policy(page)
    assert "unsafe" not in policy(page)
    assert not [name for _, a in page.tags for name in a if name.startswith("on") or name == "style"]


def test_the_program_never_makes_markup_or_code_from_text() -> None:
    program = Page(page_of(inspection(["a"]).to_dict())).texts["script"]
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|\.srcdoc|fetch\("
    assert not re.search(sinks, program)


def test_numbers_that_json_lacks_become_null() -> None:
    data = an_inspection(["▁a"], ["▁b"], log_prob=-math.inf, score=math.nan).to_dict()
    record = json.loads(Page(page_of(data)).texts["record"])
    assert record["log_prob"] is record["score"] is None


def test_sixty_subwords_through_the_base_model_stay_below_three_megabytes() -> None:
    large = inspection(["subword"] * 59, layers=6, heads=8)
    assert len(large.maps) == 18
    assert len(large.to_html().encode()) < 3_000_000
