"""What a pair alone shows, knowing what is usual in its text: empty sides, copies, lengths, scripts and languages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from fontTools.unicodedata import script_horizontal_direction
from numpy.typing import NDArray

from dragoman.corpus_check.blocks import Block, Mask, Side
from dragoman.corpus_check.characters import find_characters
from dragoman.corpus_check.issues import Sighting
from dragoman.corpus_check.language_id import (
    SCRIPTS,
    LetterModel,
    Sample,
    foreign_language,
    median_and_spread,
    names_of,
    script_table,
)

_LONG_CHARACTERS = 1000
_TOO_LONG_BYTES = 16_384  # SentencePiece skips longer lines when it learns subwords
_SLACK = 12  # characters added to both lengths, so that short lines may differ more
_LEAST_RATIO = math.log(2.5)
_RATIO_SPREADS = 6.0
_FOREIGN_LETTERS = 8  # of another script, that a line in that script has at least; of Latin, twice as many
_COPIED_WORDS = 3
_COPIED_LETTERS = 15
_WITHOUT_SPACES = ("Hani", "Hira", "Kana", "Thai", "Laoo", "Khmr", "Mymr")  # a letter of these counts as three


@dataclass(frozen=True)
class Usual:
    """What is usual in the training text."""

    codes: tuple[str, str]
    """The language codes of source and target."""
    familiar: tuple[frozenset[str], frozenset[str]]
    """The languages, in two letters, that lines of each side may be in."""
    scripts: tuple[frozenset[str], frozenset[str]]
    """The scripts of each side; empty if unknown."""
    letters: LetterModel
    ratio: float
    """The usual logarithm of source length over target length."""
    ratio_limit: float
    """How far a pair may be from it."""


def usual_ratio(sample: Sample) -> tuple[float, float]:
    """Return the usual log-ratio of the sides' lengths, and how far from it is too far: median and deviation."""
    ratios = _log_ratios(*sample.sides()) if sample.pairs else np.zeros(1)
    centre, spread = median_and_spread(ratios)
    return centre, max(_LEAST_RATIO, _RATIO_SPREADS * spread)


def check_pairs(block: Block, usual: Usual) -> Iterator[Sighting]:
    """Run all checks of single pairs."""
    yield from find_empty(block)
    for number, side in enumerate(block.sides):
        right_to_left = any(script_horizontal_direction(script) == "RTL" for script in usual.scripts[number])
        yield from find_characters(side, number, right_to_left)
    yield from find_copies(block)
    yield from find_lengths(block, usual)
    yield from find_languages(block, usual)


def find_empty(block: Block) -> Iterator[Sighting]:
    """Find pairs without text on one side or both."""
    empty = ~block.has_text
    empty[block.unreadable] = False
    for row in np.flatnonzero(empty).tolist():
        missing = [name for name, lines in zip(("source", "target"), block.stripped, strict=True) if not lines[row]]
        yield Sighting("empty side", row, remark=f"no {' and no '.join(missing)}")


def find_copies(block: Block) -> Iterator[Sighting]:
    """Find pairs with the same text twice: sentences, and names, numbers and the like."""
    for row, (source, target) in enumerate(zip(*block.stripped, strict=True)):
        if source == target and source:
            yield Sighting("source = target" if is_sentence(source) else "short source = target", row)


def is_sentence(text: str) -> bool:
    """Whether one would expect the translation of a text to differ from it.

    It needs three words with letters, two of which begin in lower case or in a script without capitals; or such a word
    of more than 15 letters, or more than 5 in a script without spaces. Addresses (https://…, a@b) don't count.
    """
    words = [word for word in text.split() if not re.search(r"[@/\\_]|\w\.\w", word)]
    bare = [word.strip("\"'“”„«»¿¡([{-–") for word in words]
    lower = [word for word in bare if word[:1].isalpha() and not (word[0].isupper() or word[0].istitle())]
    spelt = sum(any(map(str.isalpha, word)) for word in words)
    longest = max((sum(_weight(letter) for letter in word if letter.isalpha()) for word in lower), default=0)
    return (spelt >= _COPIED_WORDS and len(lower) >= 2) or longest > _COPIED_LETTERS


def _weight(letter: str) -> int:
    script = script_table()[ord(letter)]
    return 3 if script and SCRIPTS[script - 1] in _WITHOUT_SPACES else 1


def find_lengths(block: Block, usual: Usual) -> Iterator[Sighting]:
    """Find pairs whose sides differ too much in length, and lines that are too long."""
    source, target = block.sides
    far = np.abs(_log_ratios(source, target) - usual.ratio) > usual.ratio_limit
    for row in np.flatnonzero(far & block.has_text).tolist():
        remark = f"{source.lengths[row]:,} against {target.lengths[row]:,} characters"
        yield Sighting("length ratio", row, remark=remark)
    for number, side in enumerate(block.sides):
        for row in np.flatnonzero(side.lengths > _LONG_CHARACTERS).tolist():
            kind = "very long line" if len(side.lines[row].encode()) > _TOO_LONG_BYTES else "long line"
            yield Sighting(kind, row, number, remark=f"{side.lengths[row]:,} characters")


def _log_ratios(source: Side, target: Side) -> NDArray[np.float64]:
    return np.asarray(np.log((source.lengths + _SLACK) / (target.lengths + _SLACK)), np.float64)


def find_languages(block: Block, usual: Usual) -> Iterator[Sighting]:
    """Find lines in a wrong script, in the language of the other side or in a third one, and swapped pairs."""
    wrong = [_wrong_scripts(block, number, usual.scripts[number]) for number in range(2)]
    judged = block.has_text.copy()
    judged[[*wrong[0], *wrong[1]]] = False
    placed, third = zip(*(_judge_letters(block, number, judged, usual) for number in range(2)), strict=True)
    both = wrong[0].keys() & wrong[1].keys()
    swapped = {row for row in both if wrong[0][row] in usual.scripts[1] and wrong[1][row] in usual.scripts[0]}
    swapped |= placed[0] & placed[1]
    for row in sorted(swapped):
        yield Sighting("sides swapped", row)
    for number in range(2):
        for row, script in wrong[number].items():
            if row not in swapped:
                yield Sighting("wrong script", row, number, remark=f"in {names_of([script])} script")
        other = dict.fromkeys(sorted(placed[number] - swapped), usual.codes[1 - number])
        for kind, languages in (("language of the other side", other), ("third language", third[number])):
            for row, language in languages.items():
                if block.stripped[0][row] != block.stripped[1][row]:  # copies are found elsewhere
                    yield Sighting(kind, row, number, remark=f"looks like {language}")


def _judge_letters(block: Block, number: int, judged: Mask, usual: Usual) -> tuple[set[int], dict[int, str]]:
    """The lines of a side that are in the language of the other, and those in a third language, with that language."""
    side, fit = block.sides[number], usual.letters.fit(block.sides[number])
    share_script = not all(usual.scripts) or usual.scripts[0] & usual.scripts[1]
    misplaced = usual.letters.misplaced(fit, number) & judged & bool(share_script)
    placed, third = set(np.flatnonzero(misplaced).tolist()), dict[int, str]()
    for row in np.flatnonzero(usual.letters.strange(fit, number) & judged & ~misplaced).tolist():
        language = foreign_language(side.lines[row], usual.familiar[number])
        if language in usual.familiar[1 - number]:
            placed.add(row)
        elif language:
            third[row] = language
    return placed, third


def _wrong_scripts(block: Block, number: int, expected: frozenset[str]) -> dict[int, str]:
    """The lines of a side that are mostly in another script than expected, with that script.

    Names in Latin letters occur in all languages, so it takes more of them.
    """
    side = block.sides[number]
    if not expected or (side.ascii and "Latn" in expected):
        return {}
    counts = side.sums(_foreign_table(expected)[side.codes])
    found = {}
    for row in np.flatnonzero((counts >= _FOREIGN_LETTERS) & block.has_text).tolist():
        letters = script_table()[[ord(character) for character in side.lines[row]]]
        tally = np.bincount(letters[letters > 0], minlength=len(SCRIPTS) + 1)
        foreign = [name for name in SCRIPTS if name not in expected]
        script = max(foreign, key=lambda name: tally[SCRIPTS.index(name) + 1])
        enough = 2 * _FOREIGN_LETTERS if script == "Latn" else _FOREIGN_LETTERS
        if 2 * counts[row] > tally.sum() and counts[row] >= enough:
            found[row] = script
    return found


@cache
def _foreign_table(expected: frozenset[str]) -> Mask:
    """Whether each code point is a letter of another script."""
    foreign = np.array([False, *(script not in expected for script in SCRIPTS)])
    return np.asarray(foreign[script_table()])
