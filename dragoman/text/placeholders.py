"""Placeholders: what a translation repeats letter by letter, such as `{name}`, `%s`, tags, addresses and emoji.

A model never sees one. In its sentence stands a symbol, which the model has learned to copy, and the translation gets
the placeholder back in the symbol's place. Exported folders have a copy of this file.
"""

import re
from collections.abc import Sequence

SYMBOLS = tuple(f"⟦{number}⟧" for number in range(1, 10))
"""Subwords that stand for the first, second, … placeholder of a sentence."""
SYMBOL = re.compile("⟦[1-9]⟧")
_UNSPACED = r"\u0900-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef"
"""Indic to Burmese, Khmer, Chinese, Japanese and Korean characters, which may follow a placeholder without a space."""
_ONE = r"""
    \{\{[^{}]*\}\} | \$?\{[^{}\s]*\} | \$\(\w+\)  # {{ user.name }}, ${name}, {0}, $(NAME)
  | %(?:\(\w+\)|\d+\$)?[-+0\#]*\d*(?:\.\d+)?(?:hh?|ll?|z)?[diouxXeEfFgGcrs@](?!LETTER)  # %s, %(name)s, %1$.2f
  | (?<!\d)(?<!\d\s)%[A-Z_][A-Z0-9_]+(?!LETTER)  # %NAME, but not 5 %ABV; nor %5, which is 5% in Turkish
  | </?[a-zA-Z][^<>]*> | <!--[^<>]*--> | &(?:[a-zA-Z]+|\#\w+);  # <b>, </b>, &nbsp;
  | (?:https?://|www\.)[^\s<>"UNSPACED]*(?:LETTER|/)  # addresses
  | (?<!LETTER)(?<![.+-])(?:LETTER|[.+-])+@(?:LETTER|-)+(?:\.(?:LETTER|-)+)+
  | [\u2600-\u27bf\U0001f000-\U0001faff][\u200d\ufe0f\u2600-\u27bf\U0001f000-\U0001faff\U000e0020-\U000e007f]*
  | ⟦[1-9]⟧
""".replace("LETTER", r"(?:(?![UNSPACED])\w)").replace("UNSPACED", _UNSPACED)
PATTERN = rf"(?:{_ONE})(?:\s*(?:{_ONE}))*"
"""A placeholder, or several side by side; to be read with re.VERBOSE."""
_PLACEHOLDERS = re.compile(PATTERN, re.VERBOSE)
_CLUE = re.compile(r"[{%<&@⟦\u2600-\u27bf\U0001f000-\U0001faff]|://|www|\$\(")  # in every placeholder; found fast


def mask(line: str) -> tuple[str, list[str]]:
    """A line with symbols in place of its placeholders, and these.

    Placeholders side by side are one; what follows the ninth stays as it is.
    """
    placeholders: list[str] = []
    if not _CLUE.search(line):
        return line, placeholders

    def number(found: re.Match[str]) -> str:
        placeholders.append(found[0])
        return SYMBOLS[len(placeholders) - 1]

    return _PLACEHOLDERS.sub(number, line, count=len(SYMBOLS)), placeholders


def mask_target(text: str, placeholders: Sequence[str]) -> str:
    """A given translation with symbols in place of the placeholders of its source."""
    for symbol, placeholder in zip(SYMBOLS, placeholders, strict=False):
        text = text.replace(placeholder, symbol, 1)
    return text


def restore(text: str, placeholders: Sequence[str]) -> tuple[str, list[str]]:
    """A translation with its placeholders in place of symbols, and those of them that it does not have exactly once."""
    known = dict(zip(SYMBOLS, placeholders, strict=False))
    lost = [placeholder for symbol, placeholder in known.items() if text.count(symbol) != 1]
    return SYMBOL.sub(lambda symbol: known.get(symbol[0], ""), text), lost
