"""Where a line that is too long for the model is cut: after sentences, clauses, spaces, or else anywhere."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise

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
# Marks that need a space are looked for only where their run begins, so that a long run is read once.
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
_LOOK = 12  # characters looked at before and after a mark
_ABBREVIATION = re.compile(
    "mrs?|ms|messrs|drs?|prof|rev|hon|ste?|mt|gen|col|capt|cpt|lt|sgt|maj|gov|sen|rep|pres|[js]r|sra|srta|dña"
    "|mm|mme|mlle|mgr|hr|fr|dott|sig|ing|mag|lic|vs|cf|approx|ca|bzw|vgl|ggf|evtl|inkl|exkl|bspw|sog|resp|env"
    "|ave?|bd|blvd|corp|inc|ltd|co|bros|dept|univ|jan|feb|apr|aug|sept?|o[ck]t|nov|de[cz]|ul|str|им|ул|тел|см|др"
)
_BEFORE_NUMBER = re.compile("nos?|nr|figs?|vol|pp?|art|abs|abb|kap|ch|sec|eq|tab|n[uú]m|pág|ст|рис")
_LONGEST_GRAPHEME = 32  # characters; more are no letter with its accents but a prank
_JOINER, _SKIN_TONES = "\u200d", "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


def split_line(line: str, limit: int, count: Count) -> Iterator[str]:
    """Cut a line into pieces of at most so many subwords, one after the other; together they are the line.

    Every sentence is a piece of its own, however short, for models are trained on single sentences. One that is too
    long itself is cut after clauses, a clause that is too long at spaces, a word that is too long anywhere, each into
    few pieces of similar size. A single character is never cut, even if it has more subwords. Only a small block of
    the line is looked at at a time, so that a line of any length costs time in proportion and no memory.

    Args:
        line: raw text.
        limit: most subwords of a piece, the end included.
        count: tells the number of subwords.

    Yields:
        Pieces with the spaces that follow them; none is blank unless the line is.
    """
    waiting = ""
    for block in _blocks(line, WIDEST * limit):
        for piece in _pieces(block, limit, count):
            if _is_blank(piece) or _is_blank(waiting):
                waiting += piece
            else:
                yield waiting
                waiting = piece
    yield waiting


def longest_prefix(line: str, limit: int, count: Count) -> str:
    """As much of the beginning of a line as has at most so many subwords: whole words, if the first one fits.

    Args:
        line: raw text, of any length.
        limit: most subwords, the end included.
        count: tells the number of subwords.
    """
    window = line[: WIDEST * limit]
    words = [*_after_spaces(window), len(window)]
    graphemes = [_grapheme_start(window, place) for place in range(1, len(window))]
    for places in (words, graphemes):
        fitting = bisect_left(places, limit + 1, key=lambda place: count([window[:place]])[0])
        if fitting and not _is_blank(window[: places[fitting - 1]]):
            return window[: places[fitting - 1]]
    return ""


def squeeze(text: str) -> str:
    """The text with single spaces, as subword models see it."""
    return re.sub(" {2,}", " ", text).strip(" ")


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _blocks(line: str, size: int) -> Iterator[str]:
    """The line in blocks of at most so many characters, each cut off where it hurts least."""
    start = 0
    while len(line) - start > size:
        window = line[start : start + size]
        last = (len(parts[-1]) for cuts in _KINDS if len(parts := _parts(window, cuts)) > 1)
        end = _grapheme_start(line, start + size) if (rest := next(last, 0)) == 0 else start + size - rest
        yield line[start:end]
        start = end
    yield line[start:]


def _pieces(text: str, limit: int, count: Count, kind: int = 0) -> Iterator[str]:
    """The text, cut by this kind of cuts, and where that is not enough by the next."""
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
    """Parts that fit, put together to few pieces of similar size that fit; sizes are the parts' own."""
    text = "".join(parts)
    (total,) = count([text])
    if len(parts) == 1 or total <= limit:
        yield text
        return
    number = _pieces_needed(total, limit)
    ends = list(accumulate(sizes))
    group_of = [
        min(number - 1, int((end - size / 2) / ends[-1] * number)) for end, size in zip(ends, sizes, strict=True)
    ]
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


def _after_sentences(text: str, before_small: bool = False) -> Iterator[int]:
    if not _WORD.search(text):
        return
    worded, seen = False, 0
    for mark in _SENTENCE_END.finditer(text):
        worded = worded or _WORD.search(text, seen, mark.start()) is not None
        seen = mark.end()
        if worded and _ends_sentence(text, mark.start(), mark.end(), before_small):
            yield mark.end()
            worded = False


def _ends_sentence(text: str, start: int, end: int, before_small: bool) -> bool:
    """Whether the marks from start, with the spaces until end, end a sentence."""
    if text[start] in _ENDS_AT_ONCE:
        return True
    follower = text[end : end + _LOOK].lstrip(_BEFORE_FIRST_WORD)[:1]
    if follower.islower() and not before_small:
        return False
    if text[start] != "." or text[start + 1] in _ENDS:
        return True
    found = _LAST_WORD.search(text[max(0, start - _LOOK) : start])
    word = found[0].lower() if found else ""
    initials = all(letter.isalpha() and len(letter) == 1 for letter in word.split("."))  # "J.", "z.", "e.g."
    ordinal = word.isdigit() and len(word) <= 2
    numbered = follower.isdigit() and _BEFORE_NUMBER.fullmatch(word)
    return not (initials or ordinal or numbered or _ABBREVIATION.fullmatch(word))


def _after_sentences_or_so(text: str) -> Iterator[int]:
    """Also where a small letter follows: after an abbreviation that is not known, or in text without capitals."""
    return _after_sentences(text, before_small=True)


def _after_clauses(text: str) -> Iterator[int]:
    return (mark.end() for mark in _CLAUSE_END.finditer(text))


def _after_spaces(text: str) -> Iterator[int]:
    return (mark.end() for mark in _SPACE.finditer(text))


# From the cuts that hurt least to those that hurt most.
_KINDS = (_after_sentences, _after_sentences_or_so, _after_clauses, _after_spaces)
_SENTENCE_KINDS = 2


def _grapheme_start(text: str, place: int) -> int:
    """The last place up to this one that parts no letter from its accents, and no emoji; never 0."""
    for candidate in range(place, max(0, place - _LONGEST_GRAPHEME), -1):
        if candidate == len(text) or not _belong_together(text[candidate - 1], text[candidate]):
            return candidate
    return place


def _belong_together(before: str, after: str) -> bool:
    """Whether two characters are seen as one: a letter and its accent, parts of an emoji."""
    if after < "\u0300":
        return False
    return _JOINER in (before, after) or after in _SKIN_TONES or unicodedata.category(after).startswith("M")
