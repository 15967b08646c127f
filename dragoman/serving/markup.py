"""HTML: each paragraph is translated as one text, and tags are put around the words that theirs became.

A word of a translation gets the tags of the source word it is aligned to; an element whose words part is repeated.
Elements that are no text to translate stay before the word that followed them. Those with text of their own, such as
code, travel as placeholders, if the model knows placeholders.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile

from bs4 import BeautifulSoup, ParserRejectedMarkup
from bs4.dammit import EntitySubstitution
from bs4.element import NavigableString, PageElement, Tag
from bs4.formatter import HTMLFormatter

from dragoman.config import DragomanError
from dragoman.serving.texts import Answer

_FORMATTING = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "ins", "label",
    "mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u",
}  # fmt: skip
_KEPT_IN_TEXT = {
    "audio", "canvas", "code", "img", "input", "kbd", "math", "object", "samp", "svg", "var", "video", "wbr",
}  # fmt: skip
_LEFT_ALONE = _KEPT_IN_TEXT | {"noscript", "pre", "script", "style", "template", "textarea"}
_AS_WRITTEN = HTMLFormatter(
    EntitySubstitution.substitute_xml, void_element_close_prefix="", empty_attributes_are_booleans=True
)
_PLACEHOLDER = re.compile(r"\{#~(\d+)\}")  # unlike what stands in documents
_EDGES = re.compile(r"([^\w{$]*)(.*?)([^\w}]*)", re.DOTALL)  # punctuation, word, punctuation

Path = tuple[Tag, ...]
"""The formatting elements around a piece of text, outermost first."""


@dataclass
class _Paragraph:
    """Neighbours in a document that are one text."""

    nodes: list[PageElement]
    text: str = ""
    paths: list[Path] = field(default_factory=list)  # of each character of the text
    kept: list[Tag] = field(default_factory=list)  # what {#~0}, {#~1}, … stand for
    places: dict[int, int] = field(default_factory=dict)  # in the text, of those that it has no placeholder for


async def translate_markup(
    documents: Sequence[str], translate: Callable[[list[str]], Awaitable[list[Answer]]], has_symbols: bool
) -> list[str]:
    """Translate HTML documents or fragments.

    Args:
        documents: HTML.
        translate: translates plain texts and aligns their words.
        has_symbols: whether it keeps placeholders such as {#0}.

    Raises:
        DragomanError: a document can't be parsed, or is nested too deeply.
    """

    def read() -> tuple[list[BeautifulSoup], list[_Paragraph]]:
        soups = [BeautifulSoup(document, "html.parser") for document in documents]
        return soups, [paragraph for soup in soups for paragraph in _paragraphs(soup, has_symbols)]

    def write() -> list[str]:
        for paragraph, answer in zip(paragraphs, answers, strict=True):
            _put(paragraph, answer)
        return [soup.decode(formatter=_AS_WRITTEN) for soup in soups]

    try:  # in threads: other requests are answered meanwhile
        soups, paragraphs = await asyncio.to_thread(read)
        answers = await translate([paragraph.text for paragraph in paragraphs])
        return await asyncio.to_thread(write)
    except (ParserRejectedMarkup, RecursionError):
        raise DragomanError("the HTML can't be parsed") from None


# ---- reading


def _is_left_alone(tag: Tag) -> bool:
    return tag.name in _LEFT_ALONE or tag.get("translate") == "no" or "notranslate" in tag.get_attribute_list("class")


def _is_in_text(node: PageElement) -> bool:
    """Whether a node is part of a line of text, with everything in it."""
    if isinstance(node, Tag):
        return node.name in _FORMATTING | _KEPT_IN_TEXT and (
            _is_left_alone(node) or all(map(_is_in_text, node.children))
        )
    return type(node) is NavigableString  # its subclasses are comments and the like


def _has_text(node: PageElement) -> bool:
    return bool(node.get_text().strip()) and not (isinstance(node, Tag) and _is_left_alone(node))


def _paragraphs(element: Tag, has_symbols: bool) -> Iterator[_Paragraph]:
    """The paragraphs with text to translate in an element, in order."""
    for in_text, group in groupby(list(element.children), _is_in_text):
        nodes = list(group)
        if in_text:
            start, end = (len([*takewhile(lambda node: not _has_text(node), some)]) for some in (nodes, nodes[::-1]))
            paragraph = _Paragraph(nodes[start : len(nodes) - end])
            for node in paragraph.nodes:
                _read(paragraph, node, (), has_symbols)
            if paragraph.nodes:
                yield paragraph
        else:
            for node in nodes:
                if isinstance(node, Tag) and not _is_left_alone(node):
                    yield from _paragraphs(node, has_symbols)


def _read(paragraph: _Paragraph, node: PageElement, path: Path, has_symbols: bool) -> None:
    """Append the text of a node, in which white space counts as one space, to that of a paragraph."""
    if isinstance(node, Tag) and _has_text(node):
        for child in node.children:
            _read(paragraph, child, (*path, node), has_symbols)
        return
    if isinstance(node, Tag):
        text = f"{{#~{len(paragraph.kept)}}}" if has_symbols and node.get_text().strip() else ""
        if not text:
            paragraph.places[len(paragraph.kept)] = len(paragraph.text)
        paragraph.kept.append(node)
    else:
        text = re.sub(r"\s+", " ", str(node))
        text = text[1:] if paragraph.text.endswith(" ") and text.startswith(" ") else text
    paragraph.text += text
    paragraph.paths += [path] * len(text)


# ---- writing


def _put(paragraph: _Paragraph, answer: Answer) -> None:
    """Put the translation of a paragraph in its place."""
    parent = paragraph.nodes[0].parent
    assert parent is not None
    place = parent.index(paragraph.nodes[0])
    for node in paragraph.nodes:
        node.extract()
    root, missing = Tag(name="root"), dict(enumerate(paragraph.kept))
    stack: list[tuple[Tag | None, Tag]] = [(None, root)]  # open elements of the source, and those made for them
    used: set[int] = set()
    for text, path in _pieces(paragraph, answer):
        depth = 0
        while depth < min(len(path), len(stack) - 1) and path[depth] is stack[1 + depth][0]:
            depth += 1
        del stack[1 + depth :]
        for tag in path[depth:]:
            made = Tag(name=tag.name, attrs={k: v for k, v in tag.attrs.items() if k != "id" or id(tag) not in used})
            used.add(id(tag))
            stack[-1][1].append(made)
            stack.append((tag, made))
        for i, part in enumerate(_PLACEHOLDER.split(text)):  # at odd places are numbers
            if i % 2 == 0:
                stack[-1][1].append(NavigableString(part))
            elif (kept := missing.pop(int(part), None)) is not None:
                stack[-1][1].append(kept.extract())
    for kept in missing.values():  # lost by a model that has no symbols for placeholders
        root.append(kept.extract())
    for offset, node in enumerate(list(root.contents)):
        parent.insert(place + offset, node.extract())


def _pieces(paragraph: _Paragraph, answer: Answer) -> Iterator[tuple[str, Path]]:
    """The translation in pieces, with the elements around each."""
    alignment = answer.alignment
    if alignment is None or not alignment.links or not (paragraph.places or any(paragraph.paths)):
        yield answer.text, ()
        return
    sources = _spans(alignment.source, paragraph.text)
    linked = {target: source for source, target in alignment.links}
    _link_anchors(paragraph, sources, linked)
    standing: dict[int, list[int]] = {}  # what stands before each word of the translation; at -1, in the end
    for kept, place in paragraph.places.items():
        following = sum(stop <= place for _, stop in sources)
        standing.setdefault(_nearest(linked, following) if following < len(sources) else -1, []).append(kept)
    end = 0
    before: Path = ()
    for number, (start, stop) in enumerate(_spans(alignment.target, answer.text)):
        dressed = [(answer.text[start:stop], before)]
        if number in linked:
            dressed = list(_dress(answer.text[start:stop], paragraph, sources[linked[number]])) or dressed
        yield answer.text[end:start], tuple(a for a, b in zip(before, dressed[0][1], strict=False) if a is b)
        yield "".join(f"{{#~{kept}}}" for kept in standing.get(number, ())), dressed[0][1]
        yield from dressed
        end, before = stop, dressed[-1][1]
    yield "".join(f"{{#~{kept}}}" for kept in standing.get(-1, ())), before
    yield answer.text[end:], ()


def _spans(words: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Where each word stands in a text that has them in this order, whatever their case."""
    spans, end, text = [], 0, text.replace("İ", "i").lower()  # the only letter that becomes two
    for word in words:
        start = max(text.find(word.replace("İ", "i").lower(), end), end)
        end = min(start + len(word), len(text))
        spans.append((start, end))
    return spans


def _dress(word: str, paragraph: _Paragraph, source: tuple[int, int]) -> Iterator[tuple[str, Path]]:
    """A word of the translation with the elements around its source word; punctuation has those of punctuation."""
    start, stop = source
    before, core, after = (len(part) for part in _edges(paragraph.text[start:stop]))
    inner = _path(paragraph, start + before)
    opening = _path(paragraph, start) if before else inner
    closing = _path(paragraph, stop - 1) if after and core else inner
    lead, middle, trail = _edges(word)
    for text, path in (("", ()), (lead, opening if middle else closing), (middle, inner), (trail, closing)):
        if text:
            yield text, path


def _edges(word: str) -> tuple[str, str, str]:
    found = _EDGES.fullmatch(word)
    assert found
    return found[1], found[2], found[3]


def _path(paragraph: _Paragraph, place: int) -> Path:
    return paragraph.paths[min(place, len(paragraph.paths) - 1)]


def _link_anchors(paragraph: _Paragraph, sources: Sequence[tuple[int, int]], linked: dict[int, int]) -> None:
    """Link the nearest word of the translation to each hyperlink that no word comes from."""
    inside: dict[int, list[int]] = {}  # source words of each hyperlink
    for word, (start, stop) in enumerate(sources):
        for tag in {id(tag): tag for path in paragraph.paths[start:stop] for tag in path if tag.name == "a"}:
            inside.setdefault(tag, []).append(word)
    for words in inside.values():
        if not {*words} & {*linked.values()}:
            linked[_nearest(linked, words[0])] = words[0]


def _nearest(linked: dict[int, int], source: int) -> int:
    """The first word of the translation that comes from a source word, or from the nearest one that has any."""
    return min(linked, key=lambda target: (abs(linked[target] - source), target))
