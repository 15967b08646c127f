"""What a pair alone shows, knowing what is usual in its text: empty sides, copies, lengths, scripts and languages."""

import math
import re
from collections.abc import Iterator, Sequence

import numpy as np
from fontTools.unicodedata import script_name
from numpy.typing import NDArray

from dragoman.corpus_check.blocks import Block, Side
from dragoman.corpus_check.characters import find_characters
from dragoman.corpus_check.issues import Sighting
from dragoman.corpus_check.language_id import (
    SCRIPTS,
    LetterModel,
    Profile,
    foreign_language,
    median_and_spread,
    script_table,
    scripts_of,
)
from dragoman.text.corpus import Pair
from dragoman.text.placeholders import mask

_LONG_CHARACTERS = 1000
_TOO_LONG_BYTES = 16_384  # SentencePiece skips longer lines when it learns subwords
_SLACK = 12  # characters added to both lengths, so that short lines may differ more
_LEAST_RATIO, _RATIO_SPREADS = math.log(2.5), 6.0
_FOREIGN_LETTERS = 8  # of another script, that a line in that script has at least; of Latin, twice as many
_COPIED_WORDS, _COPIED_LETTERS = 3, 15
_WITHOUT_SPACES = ("Hani", "Hira", "Kana", "Thai", "Laoo", "Khmr", "Mymr")  # a letter of these counts as three
_WEIGHTS = np.array([1, *(3 if script in _WITHOUT_SPACES else 2 if script == "Hang" else 1 for script in SCRIPTS)])


class Usual:
    """What is usual in the training text."""

    def __init__(self, codes: tuple[str, str], profiles: Sequence[Sequence[Profile]], pairs: list[Pair]) -> None:
        """Learn it from the language codes, the profiles of both sides of all corpora, and some pairs."""
        self.codes = codes
        sides = list(zip(*profiles, strict=True))
        self.familiar = [set[str]().union(*(profile.familiar for profile in side)) for side in sides]
        """The languages, in two letters, that lines of each side may be in."""
        self.scripts = list(map(scripts_of, codes))
        """The scripts of each side; empty if unknown."""
        for number, side in enumerate(sides):
            found = frozenset[str]().union(*(profile.scripts for profile in side))
            self.scripts[number] = found if found and not found & self.scripts[number] else self.scripts[number]
        self.letters = LetterModel(pairs, self.familiar)
        ratios = _log_ratios(*(side.lengths for side in Block(0, pairs or [("", "")]).sides))
        self.ratio, spread = median_and_spread(ratios)
        """The usual logarithm of source length over target length."""
        self.ratio_limit = max(_LEAST_RATIO, _RATIO_SPREADS * spread)
        """How far a pair may be from it."""


def _log_ratios(source: NDArray[np.intp], target: NDArray[np.intp]) -> NDArray[np.float64]:
    return np.asarray(np.log((source + _SLACK) / (target + _SLACK)), np.float64)


def check_pairs(block: Block, usual: Usual) -> Iterator[Sighting]:
    """Run all checks of single pairs."""
    for row in np.flatnonzero(~block.has_text).tolist():
        missing = [name for name, side in zip(("source", "target"), block.sides, strict=True) if not side.stripped[row]]
        yield Sighting("empty side", row, remark=f"no {' and no '.join(missing)}")
    for number, side in enumerate(block.sides):
        yield from find_characters(side, number)
    for row, (source, target) in enumerate(zip(*(side.stripped for side in block.sides), strict=True)):
        if source == target and source:
            yield Sighting("source = target" if is_sentence(source) else "short source = target", row)
    yield from find_lengths(block, usual)
    yield from find_languages(block, usual)


def is_sentence(text: str) -> bool:
    """Whether one would expect the translation of a text to differ from it.

    It needs three words with letters, two of which begin in lower case or in a script without capitals; or such a word
    of more than 15 letters, or more than 5 in a script without spaces. Addresses (https://…, a@b) don't count.
    """
    words = [word for word in text.split() if not re.search(r"[@/\\_]|\w\.\w", word)]
    bare = [word.strip("\"'“”„«»¿¡([{-–") for word in words]
    lower = [word for word in bare if word[:1].isalpha() and not (word[0].isupper() or word[0].istitle())]
    spelt = sum(any(map(str.isalpha, word)) for word in words)
    longest = max((_WEIGHTS[script_table()[[ord(c) for c in word if c.isalpha()]]].sum() for word in lower), default=0)
    return (spelt >= _COPIED_WORDS and len(lower) >= 2) or bool(longest > _COPIED_LETTERS)


def find_lengths(block: Block, usual: Usual) -> Iterator[Sighting]:
    """Find pairs whose sides differ too much in length, and lines that are too long."""
    source, target = (side.lengths for side in block.sides)
    far = np.abs(_log_ratios(source, target) - usual.ratio) > usual.ratio_limit
    for row in np.flatnonzero(far & block.has_text).tolist():
        yield Sighting("length ratio", row, remark=f"{source[row]:,} against {target[row]:,} characters")
    for number, side in enumerate(block.sides):
        for row in np.flatnonzero(side.lengths > _LONG_CHARACTERS).tolist():
            kind = "very long line" if len(side.lines[row].encode()) > _TOO_LONG_BYTES else "long line"
            yield Sighting(kind, row, number, remark=f"{side.lengths[row]:,} characters")


def find_languages(block: Block, usual: Usual) -> Iterator[Sighting]:
    """Find lines in a wrong script, in the language of the other side or in a third one, and swapped pairs."""
    wrong = [_wrong_scripts(side, usual.scripts[number]) for number, side in enumerate(block.sides)]
    judged = block.has_text.copy()
    judged[[*wrong[0], *wrong[1]]] = False
    share_script = not all(usual.scripts) or bool(usual.scripts[0] & usual.scripts[1])
    sightings, misplaced = list[Sighting](), list[set[int]]()
    for number, side in enumerate(block.sides):
        other = 1 - number
        misplaced.append({row for row, script in wrong[number].items() if script in usual.scripts[other]})
        for row, script in wrong[number].items():
            sightings.append(Sighting("wrong script", row, number, remark=f"in {script_name(script)} script"))
        nearer, strange = usual.letters.judge(side, number)
        for row in np.flatnonzero(judged & (strange | (nearer & share_script))).tolist():
            language = "" if nearer[row] else foreign_language(side.lines[row], usual.familiar[number])
            if nearer[row] or language in usual.familiar[other]:
                kind, language = "language of the other side", usual.codes[other]
                misplaced[number].add(row)
            else:
                kind = "third language"
            if language and side.stripped[row] != block.sides[other].stripped[row]:  # copies are found elsewhere
                sightings.append(Sighting(kind, row, number, remark=f"looks like {language}"))
    swapped = misplaced[0] & misplaced[1]
    yield from (Sighting("sides swapped", row) for row in sorted(swapped))
    yield from (sighting for sighting in sightings if sighting.row not in swapped)


def _wrong_scripts(side: Side, expected: frozenset[str]) -> dict[int, str]:
    """The lines that are mostly in another script than expected, with that script.

    Names in Latin letters occur in all languages, so it takes more of them.
    """
    if not expected or (side.text.isascii() and "Latn" in expected):
        return {}
    is_own = np.array([True, *(script in expected for script in SCRIPTS)])
    foreign = side.sums(~is_own[script_table()[side.codes]])
    found = {}
    for row in np.flatnonzero(foreign >= _FOREIGN_LETTERS).tolist():
        letters = script_table()[list(map(ord, mask(side.lines[row])[0]))]  # placeholders are in no language
        counts = np.bincount(letters, minlength=len(is_own))
        own, others = (counts * _WEIGHTS)[is_own][1:].sum(), np.where(is_own, 0, counts)
        script = SCRIPTS[int(others.argmax()) - 1]
        enough = 2 * _FOREIGN_LETTERS if script == "Latn" else _FOREIGN_LETTERS
        if others.sum() > own and others.sum() >= enough:
            found[row] = script
    return found
