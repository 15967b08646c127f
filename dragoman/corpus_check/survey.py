"""The first look at a text: how many pairs it has, whether its two sides fit together, and what is usual in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from dragoman.corpus_check.blocks import BLOCK_PAIRS, Block, read_blocks
from dragoman.corpus_check.issues import Example, Tally
from dragoman.corpus_check.language_id import Letters, Sample, SideStatistics, expected_scripts, fits_scripts
from dragoman.corpus_check.languages import SCRIPT_NAMES, related, scripts_of, words_of
from dragoman.corpus_check.pair_checks import Usual, usual_ratio
from dragoman.corpus_check.reasons import ALL_SWAPPED, COUNTS_DIFFER, NO_PAIRS, UNEXPECTED_LANGUAGE, UNEXPECTED_SCRIPT
from dragoman.text.corpus import Corpus, Problem

Progress = Callable[[int, int], None]
"""Told how many training pairs have been examined and how many there are; 0 as long as they are still counted."""


@dataclass(frozen=True)
class Extent:
    """How much text one corpus has."""

    corpus: Corpus
    start: int
    """The number of its first pair in the whole text, from 0."""
    pairs: int
    """Its pairs; where two files differ, as many as the shorter has lines."""
    mismatch: Problem | None = None
    """That two files differ in their number of lines."""

    @property
    def sound(self) -> int:
        """How many pairs can be looked at: all, or those before the place where the two files begin to differ."""
        return min(self.pairs, self.mismatch.line - 1) if self.mismatch else self.pairs


@dataclass(frozen=True)
class Survey:
    """What the first look has shown."""

    codes: tuple[str, str]
    """The language codes of source and target."""
    extents: list[Extent]
    """The corpora of the text, in order."""
    sample: Sample
    """Pairs from all over the text."""

    @property
    def pairs(self) -> int:
        """Pairs in all."""
        return sum(extent.pairs for extent in self.extents)

    def blocks(self) -> Iterator[tuple[int, int, Block]]:
        """Read the text once more: the corpus, the number of each block's first pair in the whole text, the block."""
        for number, extent in enumerate(self.extents):
            for block in read_blocks(extent.corpus, BLOCK_PAIRS, extent.sound):
                yield number, extent.start + block.line - 1, block

    def fetch(self, wanted: Iterable[int]) -> dict[int, Example]:
        """Read some pairs again, by their numbers in the whole text."""
        missing, found = sorted(set(wanted)), {}
        for _, first, block in self.blocks() if missing else ():
            while missing and missing[0] < first + len(block):
                index = missing.pop(0)
                found[index] = block.example(index - first)
            if not missing:
                break
        return found

    @cached_property
    def usual(self) -> Usual:
        """What is usual in the text."""
        whole = SideStatistics(), SideStatistics()
        for sides in self.statistics:
            for total, part in zip(whole, sides, strict=True):
                total.scripts += part.scripts
        source, target = (expected_scripts(code, side) for code, side in zip(self.codes, whole, strict=True))
        spoken = [{side.likeliest() for side in sides} - {""} for sides in zip(*self.statistics, strict=True)]
        familiar = [(code, *sorted(languages)) for code, languages in zip(self.codes, spoken, strict=True)]
        distinct = all(map(words_of, self.codes)) and not related(*self.codes)
        letters = Letters(self.sample.purified((*familiar[0], *familiar[1])), distinct)
        return Usual(self.codes, (familiar[0], familiar[1]), (source, target), letters, *usual_ratio(self.sample))

    @cached_property
    def statistics(self) -> list[tuple[SideStatistics, SideStatistics]]:
        """What the two sides of each corpus are made of."""
        found = []
        for number in range(len(self.extents)):
            statistics = SideStatistics(), SideStatistics()
            for sides in self.sample.sides(number):
                for total, side in zip(statistics, sides, strict=True):
                    total.add(side)
            found.append(statistics)
        return found

    def report(self, tally: Tally) -> list[bool]:
        """Tell what is wrong with whole corpora; returns which of them are the wrong way round."""
        if not self.pairs:
            tally.count(NO_PAIRS, 1, f"{', '.join(_name(extent.corpus) for extent in self.extents)}: empty.")
        for extent in self.extents:
            if extent.mismatch:
                _report_difference(extent, extent.mismatch, tally)
        return [
            _report_languages(extent, sides, self.codes, tally)
            for extent, sides in zip(self.extents, self.statistics, strict=True)
        ]


def survey_text(corpora: Sequence[Corpus], codes: tuple[str, str], progress: Progress) -> Survey:
    """Count the pairs of a text and draw a sample of them.

    Args:
        corpora: where it lies.
        codes: the languages.
        progress: told now and then.

    Raises:
        DragomanError: a file is missing or damaged.
    """
    sample, extents, start = Sample(), [], 0
    for number, corpus in enumerate(corpora):
        pairs, mismatch = 0, None
        for block in read_blocks(corpus):
            sample.add(number, block)
            pairs, mismatch = pairs + len(block), block.mismatch
            progress(start + pairs, 0)
        extents.append(Extent(corpus, start, pairs, mismatch))
        start += pairs
    return Survey(codes, extents, sample)


def _name(corpus: Corpus) -> str:
    return " and ".join(map(str, corpus.paths))


def _report_difference(extent: Extent, mismatch: Problem, tally: Tally) -> None:
    detail = f"{mismatch.remark}, and only the lines before it were compared with one another."
    tally.count(COUNTS_DIFFER, mismatch.lines, detail)
    line = min(extent.sound, extent.pairs - 1)
    if line >= 0:
        whole = Extent(extent.corpus, 0, extent.pairs)
        tally.show(COUNTS_DIFFER, Survey(("", ""), [whole], Sample()).fetch([line]).values())


def _report_languages(
    extent: Extent, sides: tuple[SideStatistics, SideStatistics], codes: tuple[str, str], tally: Tally
) -> bool:
    """Tell if a corpus is in unexpected languages or scripts; returns whether it is the wrong way round."""
    name, pairs = _name(extent.corpus), extent.pairs
    known = [scripts_of(code) for code in codes]
    strange = [bool(scripts) and not fits_scripts(scripts, side) for scripts, side in zip(known, sides, strict=True)]
    if all(strange) and all(fits_scripts(known[1 - number], side) for number, side in enumerate(sides)):
        tally.count(ALL_SWAPPED, pairs, f"{name}: each side is in the script of the other language.")
        return True
    spoken = [side.language(code) for code, side in zip(codes, sides, strict=True)]
    if all(spoken) and related(spoken[0], codes[1]) and related(spoken[1], codes[0]):
        words = f"the source reads like {spoken[0]}, the target like {spoken[1]}"
        tally.count(ALL_SWAPPED, pairs, f"{name}: {words}, judging by their frequent words.")
        return True
    for number, side in enumerate(("source", "target")):
        if strange[number]:
            actual = ", ".join(sorted(SCRIPT_NAMES[script] for script in sides[number].main_scripts()))
            tally.count(UNEXPECTED_SCRIPT, pairs, f"{name}: the {side} ({codes[number]}) is mostly in {actual} script.")
        elif spoken[number]:
            words = f"the {side} ({codes[number]}) reads like {spoken[number]}, judging by its frequent words"
            tally.count(UNEXPECTED_LANGUAGE, pairs, f"{name}: {words}.")
    return False
