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
from operator import itemgetter
from typing import Literal

from dragoman.config import EOS, DragomanError
from dragoman.text.subwords import SubwordModel

Count = Callable[[Sequence[str]], list[int]]
"""The number of subwords of each text, the end included."""

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
_WORD, _LAST_WORD = re.compile(r"\w"), re.compile(r"[\w.]+$")
_CONTEXT = 12  # characters looked at before and after a mark
_ABBREVIATION = re.compile(
    "mrs?|ms|messrs|drs?|prof|rev|hon|ste?|mt|gen|col|capt|cpt|lt|sgt|maj|gov|sen|rep|pres|[js]r|sra|srta|dña"
    "|mm|mme|mlle|mgr|hr|fr|dott|sig|ing|mag|lic|vs|cf|approx|ca|bzw|vgl|ggf|evtl|inkl|exkl|bspw|sog|resp|env"
    "|ave?|bd|blvd|corp|inc|ltd|co|bros|dept|univ|jan|feb|apr|aug|sept?|o[ck]t|nov|de[cz]|ul|str|им|ул|тел|см|др"
)
_BEFORE_NUMBER = re.compile("nos?|nr|figs?|vol|pp?|art|abs|abb|kap|ch|sec|eq|tab|n[uú]m|pág|ст|рис")
_JOINER, _SKIN_TONES = "\u200d", "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


@dataclass(frozen=True)
class Segment:
    """A line to translate, or a part of one."""

    line: int  # its index
    ids: list[int]  # source ids, ending with EOS
    source: str = ""  # text of a part; empty for a whole line
    left_out: int = 0  # characters at the end of the line that are not translated


@dataclass(frozen=True)
class LineEncoder:
    """Turns raw lines of one language into ids, and cuts or refuses those that are too long."""

    subwords: SubwordModel
    max_length: int
    """Most subwords that the model takes, the end included."""

    def encode(self, lines: Sequence[str], names: Iterable[str]) -> list[list[int]]:
        """The ids of each raw line, with EOS; a line longer than the model takes is a DragomanError with its name."""
        found = self._encode(lines)
        for name, ids in zip(names, found, strict=True):
            if len(ids) > self.max_length:
                most = f"the model takes at most {self.max_length:,} subwords"
                raise DragomanError(f"{name} has {len(ids):,} subwords, but {most}: split it into sentences")
        return found

    def segments(
        self, lines: Sequence[str], long: Literal["split", "truncate", "error"], longest: int, first_line: int
    ) -> Iterator[Segment]:
        """What to translate of each line that is not empty, in order; long says what to do with long lines.

        "split" leaves lines of at most longest subwords whole. Messages count lines from first_line.
        """
        limit = longest if long == "split" else self.max_length
        for i, (line, ids) in enumerate(zip(lines, self._encode(lines), strict=True)):
            if len(ids) > limit:
                yield from self._parts(i, line.strip(), long, limit, f"source line {first_line + i:,}")
            elif len(ids) > 1:
                yield Segment(i, ids)

    def _parts(self, place: int, line: str, long: str, limit: int, name: str) -> Iterator[Segment]:
        """The parts of a long line, or its beginning alone; a tag at the start of the line is put before each part."""
        tag, text = self.subwords.split_tag(line)
        limit -= bool(tag)
        if long == "split":
            sources = list(split_line(text, limit, self._count))
        else:
            sources = [text if long == "error" else longest_prefix(text, limit, self._count)]
        left_out = len(text) - sum(map(len, sources))
        encoded = self.encode([tag + source.strip() for source in sources], [name] * len(sources))
        for source, ids in zip(sources, encoded, strict=True):
            if len(ids) > 1 + bool(tag):
                yield Segment(place, ids, tag + source, left_out)

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        # Hardly any training sentence begins with a tab or a no-break space: a model may make anything of one.
        return [[*ids, EOS] for ids in self.subwords.encode([line.strip() for line in lines])]

    def _count(self, texts: Sequence[str]) -> list[int]:
        return [len(ids) + 1 for ids in self.subwords.encode(texts)]


def split_line(text: str, limit: int, count: Count, kind: int = 0) -> Iterator[str]:
    """Cut a line into consecutive pieces of at most limit subwords, the end included; together they are the line.

    Every sentence is a piece of its own, however short, because models are trained on single sentences. A sentence that
    is too long is cut after clauses, a clause that is too long at spaces, and a word that is too long anywhere, each
    into few pieces of similar size. A single character is never cut, even if it has more subwords. kind is the first of
    _KINDS to cut by.
    """
    if kind == len(_KINDS):
        yield text
        return
    places = [0, *_KINDS[kind](text), len(text)]
    parts = [text[start:end] for start, end in pairwise(places) if start < end]
    for too_long, run in groupby(zip(parts, count(parts), strict=True), key=lambda sized: sized[1] > limit):
        some, sizes = zip(*run, strict=True)
        if too_long:
            for part in some:
                yield from split_line(part, limit, count, kind + 1)
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
    number = max(2, -(-(total - 1) // max(1, limit - 1)))
    ends = list(accumulate(sizes))
    groups = [int((end - size / 2) / ends[-1] * number) for end, size in zip(ends, sizes, strict=True)]
    for _, group in groupby(zip(groups, parts, sizes, strict=True), key=itemgetter(0)):
        _, some, their_sizes = zip(*group, strict=True)
        yield from _packed(some, their_sizes, limit, count)


def longest_prefix(line: str, limit: int, count: Count) -> str:
    """As much of the beginning of a line as has at most limit subwords: whole words if the first one fits."""
    for cuts in (_after_spaces, _between_letters):
        places = [*cuts(line), len(line)]
        fitting = bisect_left(places, limit + 1, key=lambda place: count([line[:place]])[0])
        if fitting:
            return line[: places[fitting - 1]]
    return ""


def _after(pattern: re.Pattern[str], text: str) -> Iterator[int]:
    return (mark.end() for mark in pattern.finditer(text))


def _after_sentences(text: str, before_small: bool = False) -> Iterator[int]:
    """Where sentences end; with before_small also before a small letter, as in text without capitals."""
    has_word, seen = False, 0
    for mark in _SENTENCE_END.finditer(text):
        has_word = has_word or _WORD.search(text, seen, mark.start()) is not None
        seen = mark.end()
        if has_word and _ends_sentence(text, mark.start(), mark.end(), before_small):
            yield mark.end()
            has_word = False


def _ends_sentence(text: str, start: int, end: int, before_small: bool) -> bool:
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


def _between_letters(text: str) -> Iterator[int]:
    """Every place that separates no letter from its accents and cuts no emoji."""
    for place, (before, after) in enumerate(pairwise(text), start=1):
        joined = _JOINER in (before, after) or after in _SKIN_TONES or unicodedata.category(after).startswith("M")
        if not joined:
            yield place


_after_spaces = partial(_after, re.compile(r"\s+"))
# From the cuts that hurt least to those that hurt most.
_KINDS: tuple[Callable[[str], Iterable[int]], ...] = (
    _after_sentences,
    partial(_after_sentences, before_small=True),
    partial(_after, _CLAUSE_END),
    _after_spaces,
    _between_letters,
    lambda text: range(1, len(text)),
)
_SENTENCE_KINDS = 2
