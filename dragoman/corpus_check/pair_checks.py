"""Everything that can be said about a pair by looking at it alone, knowing what is usual in its text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dragoman.corpus_check.blocks import Block, Side
from dragoman.corpus_check.characters import find_characters, find_decomposed, find_markup, find_mojibake
from dragoman.corpus_check.issues import Sighting
from dragoman.corpus_check.language_id import Letters, Sample, foreign_language
from dragoman.corpus_check.languages import RIGHT_TO_LEFT, SCRIPT_NAMES, SCRIPTS, related, script_table
from dragoman.corpus_check.reasons import (
    COPY,
    EMPTY,
    LONG,
    OTHER_SIDE,
    RATIO,
    SHORT_COPY,
    SWAPPED,
    THIRD_LANGUAGE,
    TOO_LONG,
    WRONG_SCRIPT,
    Reason,
)

Check = Callable[[Block], Iterator[Sighting]]
"""Looks for one kind of fault in a block."""

LONG_CHARACTERS = 1000
TOO_LONG_BYTES = 16_384
"""SentencePiece skips longer lines when it learns subwords."""

_SLACK = 12  # characters added to both lengths, so that short lines may differ more
_LEAST_RATIO = math.log(2.5)
_RATIO_SPREADS = 6.0
_FOREIGN_LETTERS = 8  # of another script, that a line must have to be in it
_COPIED_WORDS = 3
_COPIED_LETTERS = 15
_WITHOUT_SPACES = ("Hani", "Hira", "Kana", "Thai", "Laoo", "Khmr", "Mymr")  # a letter of these counts as three


@dataclass(frozen=True)
class Usual:
    """What is usual in the training text."""

    codes: tuple[str, str]
    """The language codes of source and target."""
    familiar: tuple[tuple[str, ...], tuple[str, ...]]
    """For each side its code, and the languages that it seems to be in over whole corpora."""
    scripts: tuple[frozenset[str], frozenset[str]]
    """The scripts that each side is written in; empty where not known."""
    letters: Letters
    """Tells the two languages apart."""
    ratio: float
    """The usual logarithm of source length over target length."""
    ratio_limit: float
    """How far a pair may be from it."""

    @property
    def share_script(self) -> bool:
        """Whether letters have to tell the languages apart, because scripts don't."""
        return not all(self.scripts) or bool(self.scripts[0] & self.scripts[1])


def usual_ratio(sample: Sample) -> tuple[float, float]:
    """The usual log-ratio of the sides' lengths, and how far from it is too far: median and median deviation."""
    ratios = np.concatenate([_log_ratios(source, target) for source, target in sample.sides()] or [np.zeros(1)])
    centre = float(np.median(ratios))
    spread = 1.4826 * float(np.median(np.abs(ratios - centre)))
    return centre, max(_LEAST_RATIO, _RATIO_SPREADS * spread)


def checks_of(usual: Usual) -> list[Check]:
    """All the checks of this module, ready for use."""
    return [
        find_empty,
        lambda block: find_odd_characters(block, usual),
        find_copies,
        lambda block: find_lengths(block, usual),
        lambda block: find_languages(block, usual),
    ]


def find_empty(block: Block) -> Iterator[Sighting]:
    """Find pairs without text on one side or both."""
    empty = ~block.whole
    empty[list(block.unreadable)] = False
    if empty.any():
        rows = np.flatnonzero(empty)
        missing = [[name for name, side in zip(("source", "target"), block.stripped, strict=True) if not side[row]]
                   for row in rows.tolist()]  # fmt: skip
        yield Sighting(EMPTY, rows, remarks=[f"no {' and no '.join(names)}" for names in missing])


def find_odd_characters(block: Block, usual: Usual) -> Iterator[Sighting]:
    """Find control characters, wrong encodings, markup and decomposed letters on both sides."""
    for number, side in enumerate(block.sides):
        right_to_left = bool(usual.scripts[number] & RIGHT_TO_LEFT)
        yield from find_characters(side, number, right_to_left)
        yield from find_mojibake(side, number)
        yield from find_markup(side, number)
        yield from find_decomposed(side, number)


def find_copies(block: Block) -> Iterator[Sighting]:
    """Find pairs with twice the same text: such that one would translate, and names, numbers and the like."""
    sources, targets = block.stripped
    same = [row for row, (source, target) in enumerate(zip(sources, targets, strict=True)) if source == target]
    rows = np.array([row for row in same if sources[row]], np.intp)
    copied = np.array([is_sentence(sources[row]) for row in rows.tolist()], np.bool_)
    if copied.any():
        yield Sighting(COPY, rows[copied])
    if not copied.all():
        yield Sighting(SHORT_COPY, rows[~copied])


def is_sentence(text: str) -> bool:
    """Whether one would expect a translation of this text to differ from it.

    So if it has three words of letters, two of which begin in lower case or in a script without capitals, or a run of
    more than 15 such letters, or more than 5 in a script without spaces. Addresses (https://…, a@b) don't count.
    """
    words = [word for word in text.split() if not re.search(r"[@/\\_]|\w\.\w", word)]
    lower = [
        word for word in (word.strip("\"'“”„«»¿¡([{-–") for word in words) if word[:1].isalpha() and not _titled(word)
    ]
    spelt = [word for word in words if any(map(str.isalpha, word))]
    longest = max((sum(map(_weight, filter(str.isalpha, word))) for word in lower), default=0)
    return (len(spelt) >= _COPIED_WORDS and len(lower) >= 2) or longest > _COPIED_LETTERS


def _weight(letter: str) -> int:
    script = script_table()[ord(letter)]
    return 3 if script and list(SCRIPTS)[script - 1] in _WITHOUT_SPACES else 1


def _titled(word: str) -> bool:
    return word[0].isupper() or word[0].istitle()


def find_lengths(block: Block, usual: Usual) -> Iterator[Sighting]:
    """Find pairs whose sides differ too much in length, and lines that are too long."""
    source, target = block.sides
    far = np.abs(_log_ratios(source, target) - usual.ratio) > usual.ratio_limit
    rows = np.flatnonzero(far & block.whole)
    if rows.size:
        lengths = zip(source.lengths[rows].tolist(), target.lengths[rows].tolist(), strict=True)
        yield Sighting(RATIO, rows, remarks=[f"{a:,} against {b:,} characters" for a, b in lengths])
    for number, side in enumerate(block.sides):
        long = np.flatnonzero(side.lengths > LONG_CHARACTERS)
        if long.size:
            sizes = np.array([len(side.lines[row].encode()) for row in long.tolist()])
            for reason, chosen in ((LONG, sizes <= TOO_LONG_BYTES), (TOO_LONG, sizes > TOO_LONG_BYTES)):
                if chosen.any():
                    remarks = [f"{n:,} characters" for n in side.lengths[long[chosen]].tolist()]
                    yield Sighting(reason, long[chosen], number, remarks=remarks)


def _log_ratios(source: Side, target: Side) -> NDArray[np.float64]:
    return np.asarray(np.log((source.lengths + _SLACK) / (target.lengths + _SLACK)), np.float64)


def find_languages(block: Block, usual: Usual) -> Iterator[Sighting]:
    """Find lines in a wrong script, in the language of the other side, or in a third one, and swapped pairs."""
    wrong, scripts = zip(*(_wrong_scripts(side, usual.scripts[n]) for n, side in enumerate(block.sides)), strict=True)
    judged = block.whole & ~wrong[0] & ~wrong[1]
    placed, third = zip(*(_judge_letters(block, number, judged, usual) for number in range(2)), strict=True)
    swapped = (placed[0] & placed[1]) | _swapped_scripts(block, usual, wrong, scripts)
    if swapped.any():
        yield Sighting(SWAPPED, np.flatnonzero(swapped))
    same = np.fromiter(map(str.__eq__, *block.stripped), np.bool_, len(block))
    for number in range(2):
        found = {row: f"in {SCRIPT_NAMES[script]} script" for row, script in scripts[number].items()}
        yield from _sightings(WRONG_SCRIPT, wrong[number] & ~swapped & block.whole, number, found)
        languages = dict.fromkeys(range(len(block)), f"looks like {usual.codes[1 - number]}")
        yield from _sightings(OTHER_SIDE, placed[number] & ~swapped & ~same, number, languages)
        strange = np.isin(np.arange(len(block)), list(third[number]))
        yield from _sightings(THIRD_LANGUAGE, strange & ~same, number, third[number])


def _sightings(reason: Reason, mask: NDArray[np.bool_], number: int, remarks: dict[int, str]) -> Iterator[Sighting]:
    if mask.any():
        rows = np.flatnonzero(mask)
        yield Sighting(reason, rows, number, remarks=[remarks[row] for row in rows.tolist()])


def _judge_letters(
    block: Block, number: int, judged: NDArray[np.bool_], usual: Usual
) -> tuple[NDArray[np.bool_], dict[int, str]]:
    """Which lines of a side are in the language of the other, and which are in a third language.

    Letters decide; about lines that are strange to their own language, frequent words may, too.
    """
    side = block.sides[number]
    scores = usual.letters.score(side)
    placed = usual.letters.misplaced(scores, number) & judged & usual.share_script
    third: dict[int, str] = {}
    for row in np.flatnonzero(usual.letters.estranged(scores, number) & judged & ~placed).tolist():
        language = foreign_language(side.lines[row], usual.familiar[number])
        if language and any(related(language, code) for code in usual.familiar[1 - number]):
            placed[row] = True
        elif language:
            third[row] = f"looks like {language}"
    return placed, third


def _wrong_scripts(side: Side, expected: frozenset[str]) -> tuple[NDArray[np.bool_], dict[int, str]]:
    """Which lines are mostly in another script than expected, and in which.

    Latin is at home everywhere, in names; it takes more of it to say that a line is in Latin script.
    """
    wrong = np.zeros(len(side.lines), np.bool_)
    found: dict[int, str] = {}
    if not expected or (side.ascii and "Latn" in expected):
        return wrong, found
    own = [number for number, name in enumerate(SCRIPTS, start=1) if name in expected]
    foreign = np.flatnonzero(_foreign_table(expected)[side.codes])
    counts = np.bincount(side.rows(foreign), minlength=len(side.lines))
    for row in np.flatnonzero(counts >= _FOREIGN_LETTERS).tolist():
        line = script_table()[side.codes[side.starts[row] : side.ends[row]]]
        tally = np.bincount(line[line > 0], minlength=len(SCRIPTS) + 1)
        tally[own] = 0
        script = list(SCRIPTS)[int(tally.argmax()) - 1]
        enough = 2 * _FOREIGN_LETTERS if script == "Latn" else _FOREIGN_LETTERS
        if 2 * counts[row] > np.count_nonzero(line) and counts[row] >= enough:
            wrong[row], found[row] = True, script
    return wrong, found


@cache
def _foreign_table(expected: frozenset[str]) -> NDArray[np.bool_]:
    """Which code points are letters of other scripts."""
    foreign = np.array([False, *(name not in expected for name in SCRIPTS)])
    return np.asarray(foreign[script_table()])


def _swapped_scripts(
    block: Block, usual: Usual, wrong: tuple[NDArray[np.bool_], ...], scripts: tuple[dict[int, str], ...]
) -> NDArray[np.bool_]:
    """Which pairs have each side in the script of the other."""
    swapped = np.zeros(len(block), np.bool_)
    for row in np.flatnonzero(wrong[0] & wrong[1]).tolist():
        swapped[row] = scripts[0][row] in usual.scripts[1] and scripts[1][row] in usual.scripts[0]
    return swapped
