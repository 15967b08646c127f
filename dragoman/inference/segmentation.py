"""Raw lines as segments that a model can translate: whole lines, or the parts of a line that is too long.

A long line is cut after sentences; a sentence that is too long after clauses, at spaces, or else anywhere.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby, pairwise
from typing import Literal

from dragoman.config import EOS, DragomanError
from dragoman.text.subwords import SubwordModel

Count = Callable[[Sequence[str]], list[int]]
"""The number of subwords of each text, the end included."""

WIDEST = 32
"""More characters than any subword has: SentencePiece's have 16 at most unless one asks for others."""

# Marks that end a sentence or a clause, with a space after them, and in scripts that need none.
_ENDS, _ENDS_AT_ONCE = ".!?…‽։", "。！？｡।॥؟۔።፧។៕။༎"
_PAUSES, _PAUSES_AT_ONCE = ",;:", "、，；：،؛།፣፤၊"
_CLOSING_AT_ONCE = "\"'”’»›)\\]}」』）】》〉｣"
_CLOSING = _CLOSING_AT_ONCE + "“‘«‹"  # some languages close with what others open with
_BEFORE_FIRST_WORD = "\"'“‘„‚«‹([{¿¡-–—… \t"
# A mark that needs a space is matched only where its run begins, so that a long run is read once.
_SENTENCE_END = re.compile(
    rf"(?<![{_ENDS}])[{_ENDS}]+(?:[{_CLOSING}]|\s»)*\s+"
    rf"|[{_ENDS_AT_ONCE}][{_ENDS}{_ENDS_AT_ONCE}]*[{_CLOSING_AT_ONCE}]*\s*"
)
_CLAUSE_END = re.compile(
    rf"(?<![{_PAUSES}])[{_PAUSES}]+[{_CLOSING}]*\s+"
    rf"|[{_PAUSES_AT_ONCE}]+[{_CLOSING_AT_ONCE}]*\s*"
    r"|(?<!\s)\s+(?=[–—]\s)"
)
_SPACE, _WORD, _LAST_WORD = re.compile(r"\s+"), re.compile(r"\w"), re.compile(r"[\w.]+$")
_CONTEXT = 12  # characters looked at before and after a mark
_ABBREVIATION = re.compile(
    "mrs?|ms|messrs|drs?|prof|rev|hon|ste?|mt|gen|col|capt|cpt|lt|sgt|maj|gov|sen|rep|pres|[js]r|sra|srta|dña"
    "|mm|mme|mlle|mgr|hr|fr|dott|sig|ing|mag|lic|vs|cf|approx|ca|bzw|vgl|ggf|evtl|inkl|exkl|bspw|sog|resp|env"
    "|ave?|bd|blvd|corp|inc|ltd|co|bros|dept|univ|jan|feb|apr|aug|sept?|o[ck]t|nov|de[cz]|ul|str|им|ул|тел|см|др"
)
_BEFORE_NUMBER = re.compile("nos?|nr|figs?|vol|pp?|art|abs|abb|kap|ch|sec|eq|tab|n[uú]m|pág|ст|рис")
_LONGEST_GRAPHEME = 32  # characters; a longer run of accents is cut
_JOINER, _SKIN_TONES = "\u200d", "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"

_SPLIT = "split it into sentences"


@dataclass(frozen=True)
class Segment:
    """A line to translate, or a part of one."""

    line: int
    """Index of the line."""
    ids: list[int]
    """Source ids, ending with EOS."""
    source: str = ""
    """Text of a part; empty for a whole line."""
    left_out: int = 0
    """Characters at the end of the line that are not translated."""


@dataclass(frozen=True)
class LineEncoder:
    """Turns raw lines of one language into ids, and cuts or refuses those that are too long."""

    subwords: SubwordModel
    max_length: int
    """Most subwords that the model takes, the end included."""

    def encode(self, lines: Sequence[str], names: Iterable[str], cure: str = _SPLIT) -> list[list[int]]:
        """The ids of each raw line, with EOS; names are what messages call the lines, such as "source line 1".

        Raises:
            DragomanError: a line is longer than the model takes; the message ends with the cure.
        """
        found = []
        for name, line, ids in zip(names, lines, self._encode_where_short(lines), strict=True):
            if ids is None or len(ids) > self.max_length:
                raise self._too_long(name, line, ids, cure)
            found.append(ids)
        return found

    def segments(
        self, lines: Sequence[str], long: Literal["split", "truncate", "error"], longest: int, first_line: int
    ) -> Iterator[Segment]:
        """What to translate of each line that is not empty, in order; long says what to do with long lines.

        "split" leaves lines of at most longest subwords whole. Messages count lines from first_line.
        """
        limit = longest if long == "split" else self.max_length
        for i, (line, ids) in enumerate(zip(lines, self._encode_where_short(lines), strict=True)):
            if ids is None or len(ids) > limit:
                name = f"source line {first_line + i:,}"
                if long == "error":
                    raise self._too_long(name, line, ids, _SPLIT)
                yield from self._parts(i, line, long == "truncate", limit, name)
            elif len(ids) > 1:
                yield Segment(i, ids)

    def _parts(self, place: int, line: str, truncate: bool, limit: int, name: str) -> Iterator[Segment]:
        """The parts of a long line, or its beginning alone; a tag at the start of the line is put before each part."""
        tag, line = self.subwords.split_tag(line.strip() if truncate else line)
        limit -= bool(tag)
        sources = [longest_prefix(line, limit, self._count)] if truncate else split_line(line, limit, self._count)
        for source in sources:
            (ids,) = self.encode([tag + source.strip()], [name])
            left_out = len(line) - len(source) if truncate else 0
            if left_out or len(ids) > 1 + bool(tag):
                yield Segment(place, ids, tag + source, left_out)

    def _encode_where_short(self, lines: Sequence[str]) -> list[list[int] | None]:
        """The ids of each line, with EOS; None for one with so many characters that it can't fit.

        White space around a line is removed. Hardly any training sentence begins with a tab or a no-break space, so
        a model may translate one into anything.
        """
        widest = WIDEST * self.max_length
        stripped = [line.strip() for line in lines]
        encoded = self.subwords.encode([line if len(line) <= widest else "" for line in stripped])
        return [None if len(line) > widest else [*ids, EOS] for line, ids in zip(stripped, encoded, strict=True)]

    def _too_long(self, name: str, line: str, ids: Sequence[int] | None, cure: str) -> DragomanError:
        size = f"{len(line):,} characters" if ids is None else f"{len(ids):,} subwords"
        return DragomanError(f"{name} has {size}, but the model takes at most {self.max_length:,} subwords: {cure}")

    def _count(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) + 1 for ids in self.subwords.encode(texts)]


def split_line(line: str, limit: int, count: Count) -> Iterator[str]:
    """Cut a line into consecutive pieces of at most limit subwords; together they are the line.

    Every sentence is a piece of its own, however short, because models are trained on single sentences. A sentence that
    is too long is cut after clauses, a clause that is too long at spaces, and a word that is too long anywhere, each
    into few pieces of similar size. A single character is never cut, even if it has more subwords. Only a small block
    of the line is looked at at a time: time grows in proportion to the line, memory does not grow.

    limit counts the end. Pieces keep the spaces that follow them; none is blank unless the line is.
    """
    waiting = ""
    for block in _blocks(line, WIDEST * limit):
        for piece in _pieces(block, limit, count):
            if not piece.strip() or not waiting.strip():
                waiting += piece
            else:
                yield waiting
                waiting = piece
    yield waiting


def longest_prefix(line: str, limit: int, count: Count) -> str:
    """As much of the beginning of a line as has at most limit subwords: whole words if the first one fits."""
    window = line[: WIDEST * limit]
    words = [*_after(_SPACE, window), len(window)]
    graphemes = [_grapheme_start(window, place) for place in range(1, len(window))]
    for places in (words, graphemes):
        fitting = bisect_left(places, limit + 1, key=lambda place: count([window[:place]])[0])
        if fitting and window[: places[fitting - 1]].strip():
            return window[: places[fitting - 1]]
    return ""


def _blocks(line: str, size: int) -> Iterator[str]:
    """The line in blocks of at most size characters, each cut off where it hurts least."""
    start = 0
    while len(line) - start > size:
        window = line[start : start + size]
        last = (len(parts[-1]) for cuts in _KINDS if len(parts := _parts(window, cuts)) > 1)
        end = _grapheme_start(line, start + size) if (rest := next(last, 0)) == 0 else start + size - rest
        yield line[start:end]
        start = end
    yield line[start:]


def _pieces(text: str, limit: int, count: Count, kind: int = 0) -> Iterator[str]:
    """The text, cut by this kind of cut, and by the next kind where that is not enough."""
    if kind == len(_KINDS):
        yield from _anywhere(text, limit, count)
        return
    parts = _parts(text, _KINDS[kind])
    for too_long, run in groupby(zip(parts, count(parts), strict=True), key=lambda sized: sized[1] > limit):
        some, sizes = zip(*run, strict=True)
        if too_long:
            for part in some:
                yield from _pieces(part, limit, count, kind + 1)
        elif kind < _SENTENCE_KINDS:
            yield from some
        else:
            yield from _packed(some, sizes, limit, count)


def _packed(parts: Sequence[str], sizes: Sequence[int], limit: int, count: Count) -> Iterator[str]:
    """Join parts that fit into few pieces of similar size that fit; sizes are those of the parts."""
    text = "".join(parts)
    (total,) = count([text])
    if len(parts) == 1 or total <= limit:
        yield text
        return
    number = _pieces_needed(total, limit)
    ends = list(accumulate(sizes))
    group_of = [int((end - size / 2) / ends[-1] * number) for end, size in zip(ends, sizes, strict=True)]
    groups = [list(group) for _, group in groupby(range(len(parts)), key=lambda i: group_of[i])]
    if len(groups) == 1:
        groups = [groups[0][:-1], groups[0][-1:]]
    for group in groups:
        yield from _packed([parts[i] for i in group], [sizes[i] for i in group], limit, count)


def _anywhere(text: str, limit: int, count: Count) -> Iterator[str]:
    """A text without spaces, in few pieces of similar size that fit."""
    (total,) = count([text])
    if len(text) == 1 or total <= limit:
        yield text
        return
    number = min(_pieces_needed(total, limit), len(text))
    places = [_grapheme_start(text, i * len(text) // number) for i in range(1, number)]
    for start, end in pairwise(sorted({0, *places, len(text)})):
        yield from _anywhere(text[start:end], limit, count)


def _pieces_needed(total: int, limit: int) -> int:
    return max(2, -(-(total - 1) // max(1, limit - 1)))


def _parts(text: str, cuts: Callable[[str], Iterable[int]]) -> list[str]:
    places = [0, *cuts(text), len(text)]
    return [text[start:end] for start, end in pairwise(places) if start < end]


def _after(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    return (mark.end() for mark in pattern.finditer(text))


def _after_sentences(text: str, before_small: bool = False) -> Iterator[int]:
    """Where sentences end; with before_small also before a small letter, as in text without capitals."""
    if not _WORD.search(text):
        return
    has_word, seen = False, 0
    for mark in _SENTENCE_END.finditer(text):
        has_word = has_word or _WORD.search(text, seen, mark.start()) is not None
        seen = mark.end()
        if has_word and _ends_sentence(text, mark.start(), mark.end(), before_small):
            yield mark.end()
            has_word = False


def _ends_sentence(text: str, start: int, end: int, before_small: bool) -> bool:
    """Whether the marks at start, with the spaces up to end, end a sentence."""
    if text[start] in _ENDS_AT_ONCE:
        return True
    follower = text[end : end + _CONTEXT].lstrip(_BEFORE_FIRST_WORD)[:1]
    if follower.islower() and not before_small:
        return False
    if text[start] != "." or text[start + 1] in _ENDS:
        return True
    found = _LAST_WORD.search(text[max(0, start - _CONTEXT) : start])
    word = found[0].lower() if found else ""
    initials = all(letter.isalpha() and len(letter) == 1 for letter in word.split("."))  # "J.", "z.", "e.g."
    ordinal = word.isdigit() and len(word) <= 2
    numbered = follower.isdigit() and _BEFORE_NUMBER.fullmatch(word)
    return not (initials or ordinal or numbered or _ABBREVIATION.fullmatch(word))


# From the cuts that hurt least to those that hurt most.
_KINDS: tuple[Callable[[str], Iterator[int]], ...] = (
    _after_sentences,
    partial(_after_sentences, before_small=True),
    partial(_after, _CLAUSE_END),
    partial(_after, _SPACE),
)
_SENTENCE_KINDS = 2


def _grapheme_start(text: str, place: int) -> int:
    """The last place up to this one that separates no letter from its accents and cuts no emoji; never 0."""
    for candidate in range(place, max(0, place - _LONGEST_GRAPHEME), -1):
        if candidate == len(text) or not _belong_together(text[candidate - 1], text[candidate]):
            return candidate
    return place


def _belong_together(before: str, after: str) -> bool:
    """Whether two characters are displayed as one: a letter and its accent, parts of an emoji."""
    if after < "\u0300":
        return False
    return _JOINER in (before, after) or after in _SKIN_TONES or unicodedata.category(after).startswith("M")
