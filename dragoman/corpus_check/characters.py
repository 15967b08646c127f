"""Characters that have no business in a sentence, text that was decoded wrongly, markup, accents written apart."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from html.entities import html5

import numpy as np
from numpy.typing import NDArray

from dragoman.corpus_check.blocks import Side
from dragoman.corpus_check.issues import Rows, Sighting, code_point
from dragoman.corpus_check.reasons import (
    BOM_INSIDE,
    CARRIAGE_RETURN,
    CONTROL,
    INVISIBLE,
    LINE_BREAK,
    MARKUP,
    MOJIBAKE,
    NOT_NFC,
    NUL,
    PRIVATE_USE,
    READ_AS_LATIN1,
    REPLACEMENT,
    TAB,
    Reason,
)

_TABULATED = 0x20000  # beyond it, letters have no case

_SPACE, _JOINER, _DIRECTION = "space", "joiner", "direction"
_KINDS: dict[Reason | str, tuple[tuple[int, int], ...]] = {
    NUL: ((0x00, 0x00),),
    TAB: ((0x09, 0x09),),
    CARRIAGE_RETURN: ((0x0D, 0x0D),),
    LINE_BREAK: ((0x0B, 0x0C), (0x1C, 0x1E), (0x85, 0x85), (0x2028, 0x2029)),
    CONTROL: (
        *((0x01, 0x08), (0x0E, 0x1B), (0x1F, 0x1F), (0x7F, 0x7F), (0x81, 0x81), (0x8D, 0x8D), (0x8F, 0x90)),
        *((0x9D, 0x9D), (0xFDD0, 0xFDEF)),
        *((plane + 0xFFFE, plane + 0xFFFF) for plane in range(0, 0x110000, 0x10000)),
    ),
    READ_AS_LATIN1: ((0x80, 0x80), (0x82, 0x84), (0x86, 0x8C), (0x8E, 0x8E), (0x91, 0x9C), (0x9E, 0x9F)),
    REPLACEMENT: ((0xFFFD, 0xFFFD),),
    BOM_INSIDE: ((0xFEFF, 0xFEFF),),
    PRIVATE_USE: ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD)),
    INVISIBLE: ((0xAD, 0xAD), (0x034F, 0x034F), (0x2060, 0x2064), (0x206A, 0x206F), (0xFFF9, 0xFFFB)),
    _SPACE: ((0x200B, 0x200B),),
    _JOINER: ((0x200C, 0x200D),),
    _DIRECTION: ((0x061C, 0x061C), (0x200E, 0x200F), (0x202A, 0x202E), (0x2066, 0x2069)),
}
"""Ranges of code points, both ends included. The last three kinds are legitimate in some scripts."""
_KIND_LIST = list(_KINDS)

# What the bytes 0x80 to 0xBF of UTF-8 look like when read as Latin-1 or Windows-1252.
_CP1252 = "€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
_CONTINUATION = f"[\x80-\xbf{_CP1252}]"
_MOJIBAKE = re.compile(f"[Â-ß]{_CONTINUATION}|[à-ï]{_CONTINUATION}{{2}}|[ð-ô]{_CONTINUATION}{{3}}")
_QUOTES = frozenset("‚„…‹‘’“”–—›«»\xa0")

# A lone & or < is text, and so is “1 < 2 > 0”: a tag has a name of HTML's, a slash, or attributes.
_ENTITY = r"&(?:[A-Za-z][A-Za-z0-9]{1,30}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"
_HTML = (
    "a|abbr|b|big|blockquote|body|br|center|code|dd|div|dl|dt|em|font|h[1-6]|head|hr|html|i|img|input|li|link|meta|ol|"
    "option|p|pre|q|s|script|small|span|strike|strong|style|sub|sup|table|tbody|td|th|thead|title|tr|tt|u|ul"
)
_ATTRIBUTE = r"""\s+[\w:-]+\s*=\s*(?:"[^"<>\n]*"|'[^'<>\n]*'|[^\s"'<>]+)"""
_TAG = rf"<(?:/[A-Za-z][\w:-]*|[A-Za-z][\w:-]*(?:(?:{_ATTRIBUTE})+\s*/?|\s*/)|(?i:{_HTML}))>|<!--"
_MARKUP = re.compile(f"{_ENTITY}|{_TAG}")


def find_characters(side: Side, number: int, right_to_left: bool) -> Iterator[Sighting]:
    """Find the characters that should not be in the lines.

    Args:
        side: the lines.
        number: 0 for the source, 1 for the target.
        right_to_left: whether the language is written so that direction marks are no surprise.
    """
    if side.ascii and not side.text.encode().translate(None, _PLAIN):
        return
    kinds = _kind_table()[side.codes]
    positions = np.flatnonzero(kinds)
    _tell_encodings_apart(side, kinds, positions)
    for kind in sorted(set(kinds[positions].tolist())):
        reason, found = _KIND_LIST[kind - 1], positions[kinds[positions] == kind]
        if reason == _DIRECTION:
            found = found[:0] if right_to_left else found
        elif reason == _SPACE:
            found = found[~(_has_no_spaces(side.codes[found - 1]) | _has_no_spaces(side.codes[found + 1]))]
        elif reason == _JOINER:
            found = found[_joins_nothing(side.codes[found - 1], side.codes[found + 1])]
        if found.size:
            yield _sighting(reason if isinstance(reason, Reason) else INVISIBLE, side, number, found)


def find_mojibake(side: Side, number: int) -> Iterator[Sighting]:
    """Find lines whose UTF-8 was once read as Latin-1 or Windows-1252, such as "CafÃ©"; arguments as above."""
    if side.ascii:
        return
    leads = side.rare[(side.codes[side.rare] >= 0xC2) & (side.codes[side.rare] <= 0xF4)]
    leads = leads[_continuation_table()[side.codes[leads + 1]]]
    rows, places, remarks = [], [], []
    for row in side.distinct_rows(leads).tolist():
        found = _first_mojibake(side.lines[row])
        if found:
            rows.append(row)
            places.append(found.start())
            remarks.append(f"{found[0]} was {_repair(found[0])}")
    if rows:
        yield Sighting(MOJIBAKE, np.array(rows), number, places, remarks)


def find_markup(side: Side, number: int) -> Iterator[Sighting]:
    """Find lines with entities or tags of HTML, such as "&amp;" and "<br/>"; arguments as above."""
    if "&" not in side.text and "<" not in side.text:
        return
    found = [match for match in _MARKUP.finditer(side.text) if match[0][0] == "<" or _is_entity(match[0])]
    if found:
        positions = np.array([match.start() for match in found])
        rows, first = np.unique(side.rows(positions), return_index=True)
        places = (positions[first] - side.starts[rows]).tolist()
        yield Sighting(MARKUP, rows, number, places, [found[index][0][:40] for index in first.tolist()])


def _is_entity(text: str) -> bool:
    return text[1] == "#" or text[1:] in html5


def find_decomposed(side: Side, number: int) -> Iterator[Sighting]:
    """Find lines that are not in Unicode's normal form C; arguments as above."""
    if side.is_nfc:
        return
    rows = [row for row, line in enumerate(side.lines) if not unicodedata.is_normalized("NFC", line)]
    if rows:
        places = [_first_decomposed(side.lines[row]) for row in rows]
        remarks = [_name(side.lines[row], place) for row, place in zip(rows, places, strict=True)]
        yield Sighting(NOT_NFC, np.array(rows), number, places, remarks)


def composed_lines(side: Side) -> int:
    """How many lines have letters that are composed of a base and an accent, and none that are written apart."""
    if side.ascii:
        return 0
    rare = side.rare
    rows = side.distinct_rows(rare[_composed_table()[side.codes[rare]]])
    if side.is_nfc:
        return len(rows)
    return sum(unicodedata.is_normalized("NFC", side.lines[row]) for row in rows.tolist())


@cache
def folding() -> NDArray[np.int32]:
    """For each code point its lower case; 0 for digits, spaces, punctuation, symbols, control characters."""
    table = np.arange(0x110000, dtype=np.int32)
    for code in range(_TABULATED):
        character = chr(code)
        folded = character.casefold()
        dropped = unicodedata.category(character)[0] in "PSZC" or unicodedata.category(character) == "Nd"
        table[code] = 0 if dropped else ord(folded) if len(folded) == 1 else code
    table[0xE0000:] = 0  # tags, variation selectors, private use
    table[ord("\n")] = ord("\n")
    return table


def _tell_encodings_apart(side: Side, kinds: NDArray[np.uint8], positions: Rows) -> None:
    """Tell Windows-1252 read as Latin-1 from UTF-8 so read, which has such characters, too, after others.

    Args:
        side: the lines.
        kinds: of each character, as in the table; corrected in place.
        positions: of the characters that are of any kind.
    """
    suspects = positions[kinds[positions] == _number(READ_AS_LATIN1)]
    if not suspects.size:
        return
    rows = side.rows(suspects)
    disguised = [row for row in np.unique(rows).tolist() if _first_mojibake(side.lines[row])]
    kinds[suspects[np.isin(rows, disguised)]] = _number(CONTROL)
    if len(disguised) < len(np.unique(rows)):  # U+0085 is an ellipsis there, and no end of a line
        kinds[positions[side.codes[positions] == 0x85]] = _number(READ_AS_LATIN1)


def _number(kind: Reason | str) -> int:
    return _KIND_LIST.index(kind) + 1


def _sighting(reason: Reason, side: Side, number: int, positions: Rows) -> Sighting:
    """The lines of these positions, each with its first."""
    rows, first = np.unique(side.rows(positions), return_index=True)
    places = (positions[first] - side.starts[rows]).tolist()
    codes = side.codes[positions[first]].tolist()
    remarks = [f"{code_point(chr(code))} at character {place + 1}" for code, place in zip(codes, places, strict=True)]
    return Sighting(reason, rows, number, places, remarks)


def _has_no_spaces(codes: Rows) -> NDArray[np.bool_]:
    """Which characters are Thai, Lao, Burmese or Khmer, where a space without width may show the end of a word."""
    thai_lao, burmese = (codes >= 0x0E00) & (codes < 0x0F00), (codes >= 0x1000) & (codes < 0x10A0)
    return np.asarray(thai_lao | burmese | ((codes >= 0x1780) & (codes < 0x1800)))


def _joins_nothing(before: Rows, after: Rows) -> NDArray[np.bool_]:
    """Whether a joiner stands after a letter of a script that has no use for one, and before no letter of one that has.

    Emoji, Arabic and Indic scripts have; after a word in Latin letters they may put an ending of their own.
    """
    useless = (before < 0x0590) | ((before >= 0x3000) & (before < 0xA000))
    return np.asarray(useless & ((after < 0x0590) | (after >= 0x1E00)))


def _first_mojibake(line: str) -> re.Match[str] | None:
    """The first sequence that is surely UTF-8 in disguise.

    An accented letter before a quotation mark looks like one («café », “THÉ”); a single short sequence counts where it
    begins with one of the usual letters.
    """
    found = [match for match in _MOJIBAKE.finditer(line) if _plausible(line, match) and _repair(match[0])]
    return next((m for m in found if len(m[0]) > 2 or len(found) > 1 or m[0][0] in "ÂÃÄÅ"), None)


def _plausible(line: str, match: re.Match[str]) -> bool:
    """Whether a sequence is more than a letter and quotation marks after it."""
    before = line[match.start() - 1 : match.start()]
    opening = before.isupper() or before in ("", " ", "«", "“", '"', "„", "‘", "(")
    return not set(match[0][1:]) <= _QUOTES or (len(match[0]) == 2 and not opening)


def _repair(text: str) -> str:
    """What these characters were before they were decoded wrongly; empty where they are no UTF-8."""
    try:
        data = b"".join(c.encode("cp1252") if c in _CP1252 else c.encode("latin-1") for c in text)
        original = data.decode("utf-8")
    except UnicodeError:
        return ""
    return original if unicodedata.category(original[0])[0] not in "C" or original == "\ufeff" else ""


def _first_decomposed(line: str) -> int:
    """The first character that normal form C changes."""
    for place, (old, new) in enumerate(zip(line, unicodedata.normalize("NFC", line), strict=False)):
        if old != new:
            return place
    return 0


def _name(line: str, place: int) -> str:
    codes = " ".join(map(code_point, line[place : place + 2]))
    return f"{codes} at character {place + 1}"


_PLAIN = bytes([10, *range(32, 127)])


@cache
def _kind_table() -> NDArray[np.uint8]:
    """For each code point the number of its kind, from 1; 0 for what is welcome."""
    table = np.zeros(0x110000, np.uint8)
    for number, ranges in enumerate(_KINDS.values(), start=1):
        for first, last in ranges:
            table[first : last + 1] = number
    return table


@cache
def _continuation_table() -> NDArray[np.bool_]:
    table = np.zeros(0x110000, np.bool_)
    table[0x80:0xC0] = True
    table[[ord(character) for character in _CP1252]] = True
    return table


@cache
def _composed_table() -> NDArray[np.bool_]:
    """Which code points normal form D takes apart and normal form C puts together."""
    table = np.zeros(0x110000, np.bool_)
    table[0xAC00:0xD7A4] = True  # Hangul
    for code in range(0xC0, 0x3100):
        table[code] = not unicodedata.is_normalized("NFD", chr(code)) and unicodedata.is_normalized("NFC", chr(code))
    return table
