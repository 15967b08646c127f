"""Characters that should not be in a line, mojibake, markup, and accents apart from their letters."""

import re
from collections.abc import Iterator
from html.entities import html5

import ftfy

from dragoman.corpus_check.blocks import Side
from dragoman.corpus_check.issues import Sighting, code_point

# Emoji, Arabic and Indic scripts have joiners, also before an ending of their own after a word in Latin letters. In
# Thai, Lao, Burmese and Khmer, a space without width can end a word.
_USELESS_JOINER = r"(?<![\u0590-\u2fff\ua000-\U0010ffff])[\u200c\u200d](?![\u0590-\u1dff])"
_USELESS_SPACE = r"(?<![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])\u200b(?![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff])"
_DIRECTION = r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_RIGHT_TO_LEFT = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")  # letters that direction marks belong with
_ODD = {
    "NUL": r"\0",
    "tab": r"\t",
    "carriage return inside": r"\r",
    "exotic line break": r"[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]",
    "Windows-1252 read as Latin-1": r"[\x80\x82-\x84\x86-\x8c\x8e\x91-\x9c\x9e\x9f]",
    "control character": r"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(rf"\U{plane:04x}fffe\U{plane:04x}ffff" for plane in range(17))
    + "]",
    "replacement character": r"\ufffd",
    "byte-order mark inside": r"\ufeff",
    "private-use character": r"[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]",
    "invisible character": (
        rf"[\xad\u034f\u2060-\u2064\u206a-\u206f\ufff9-\ufffb]|{_DIRECTION}|{_USELESS_JOINER}|{_USELESS_SPACE}"
    ),
}
_ANY_ODD = re.compile("|".join(f"({pattern})" for pattern in _ODD.values()))

# Two bytes of UTF-8 read as Latin-1 or Windows-1252. ftfy, which takes 10 µs a line, decides about lines with them.
_MOJIBAKE = re.compile("[\xc2-\xf4][\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]")

# A lone & or < is text, and so is "1 < 2 > 0". A tag has a name of HTML's, a slash or attributes.
_ENTITY = r"&(?:[A-Za-z][A-Za-z0-9]{1,30}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"
_HTML = (
    "a|abbr|b|big|blockquote|body|br|center|code|dd|div|dl|dt|em|font|h[1-6]|head|hr|html|i|img|input|li|link|meta|ol|"
    "option|p|pre|q|s|script|small|span|strike|strong|style|sub|sup|table|tbody|td|th|thead|title|tr|tt|u|ul"
)
_ATTRIBUTE = r"""\s+[\w:-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>]+)"""
_TAG = rf"<(?:/[A-Za-z][\w:-]*|[A-Za-z][\w:-]*(?:(?:{_ATTRIBUTE})+\s*/?|\s*/)|(?i:{_HTML}))>|<!--"
_MARKUP = re.compile(f"{_ENTITY}|{_TAG}")


def find_characters(side: Side, number: int) -> Iterator[Sighting]:
    """Find lines with characters, encodings or markup that should not be in text, on side 0 or 1."""
    for row, line in enumerate(side.lines):
        mojibake = None if line.isascii() else _find_mojibake(line)
        if mojibake:
            yield Sighting("wrong encoding", row, number, *mojibake)
        if not line.isprintable() or "\ufffd" in line:
            for kind, place in _find_odd(line, mojibake is not None).items():
                yield Sighting(kind, row, number, place, f"{code_point(line[place])} at character {place + 1}")
        if "&" in line or "<" in line:
            markup = (m for m in _MARKUP.finditer(line) if m[0][0] == "<" or m[0][1] == "#" or m[0][1:] in html5)
            if found := next(markup, None):
                yield Sighting("HTML entities or tags", row, number, found.start(), found[0][:40])
    for row, (line, composed) in enumerate(zip(side.lines, side.composed, strict=True)):
        if line != composed:
            place = next((n for n, (a, b) in enumerate(zip(line, composed, strict=False)) if a != b), 0)
            codes = " ".join(map(code_point, line[place : place + 2]))
            yield Sighting("not in NFC", row, number, place, f"{codes} at character {place + 1}")


def _find_odd(line: str, has_mojibake: bool) -> dict[str, int]:
    """The first place of each kind of character that should not be there."""
    found: dict[str, int] = {}
    for match in _ANY_ODD.finditer(line):
        is_explained = has_mojibake and "\x80" <= match[0] <= "\x9f"
        if not is_explained and not (re.match(_DIRECTION, match[0]) and _RIGHT_TO_LEFT.search(line)):
            found.setdefault(list(_ODD)[(match.lastindex or 1) - 1], match.start())
    if "Windows-1252 read as Latin-1" in found and line[found.get("exotic line break", 0)] == "\x85":
        del found["exotic line break"]  # an ellipsis, and not the end of a line
    return found


def _find_mojibake(line: str) -> tuple[int, str] | None:
    """The place of UTF-8 that was read as Latin-1 or Windows-1252, such as "CafÃ©", and what it was."""
    found = _MOJIBAKE.search(line)
    if found and ftfy.badness.is_bad(line) and len(fixed := ftfy.fix_encoding(line)) < len(line):
        place = found.start()
        return place, f"{line[place : place + 12]} was {fixed[place : place + 8]}"
    return None
