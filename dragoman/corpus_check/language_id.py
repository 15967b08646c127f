"""Which language a line is in, judged by what is usual in the corpus itself.

Two languages in one script are told apart by their letters: the probabilities of a letter after the two before it,
learned from a sample of each side (Cavnar and Trenkle, 1994, and Dunning, 1994, found that short texts suffice). Lines
of few letters are never judged, nor any line where the two sides' own lines are not clearly apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dragoman.corpus_check.blocks import BLOCK_PAIRS, Block, Side
from dragoman.corpus_check.characters import folding
from dragoman.corpus_check.languages import SCRIPTS, function_words, related, script_table, scripts_of, words_of

_Floats = NDArray[np.float64]

ENOUGH_LETTERS = 20
"""Lines with fewer letters are not judged by them."""

_SAMPLED_CHARACTERS = 1000  # of a line, at most: no line that is not called long loses any
_SYMBOLS = 64  # 0: no letter; 1 to 62: the most frequent letters; 63: all others
_USUAL_SHARE = 0.02  # of pairs in a third language, from which they are kept out of what is learned
_ROUNDS = 3  # of learning anew, at most
_PRIOR = 4.0  # how many observations the letters' frequencies alone count for, in a context of two letters
_APART = 2.5  # spreads between the two sides' lines, without which none is judged
_BEYOND = 0.65  # of the way from a usual line of the own side to one of the other
_EVIDENCE = 12.0  # least difference of log-probabilities: odds of 160,000 to 1
_FREQUENT = 0.12  # share that the frequent words of a language have in its texts, at least
_STRANGE = 2.5  # spreads below what is usual in a language that make a line strange to it
_MARKS = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code))[0] == "M")
"""Accents and vowel signs that are characters of their own: parts of words, although they are no letters."""
_WORD, _BETWEEN_WORDS = re.compile(rf"[\w{_MARKS}]+"), re.compile(rf"[^\w\s’'{_MARKS}]")


@dataclass
class Sample:
    """Pairs from all over a text of unknown length: every stride-th, in bounded memory.

    Of long lines it keeps the beginnings; of both sides of a pair the same share, so that their ratio stays.
    """

    size: int = 40_000
    """Most pairs kept."""
    pairs: list[tuple[int, str, str]] = field(default_factory=list)
    """The number of the corpus, source and target; both have text."""
    _stride: int = 1
    _seen: int = 0

    def add(self, corpus: int, block: Block) -> None:
        """Take in a block of a corpus."""
        for row in range(-self._seen % self._stride, len(block), self._stride):
            source, target = block.source[row], block.target[row]
            if (longer := max(len(source), len(target))) > _SAMPLED_CHARACTERS:
                source, target = (side[: len(side) * _SAMPLED_CHARACTERS // longer] for side in (source, target))
            if source.strip() and target.strip():
                self.pairs.append((corpus, source, target))
        self._seen += len(block)
        while len(self.pairs) > self.size:
            self.pairs = self.pairs[::2]
            self._stride *= 2

    def purified(self, codes: Sequence[str]) -> Sample:
        """The sample without pairs in a third language, if there are so many that they would seem usual."""
        some = self.pairs[:: max(1, len(self.pairs) // 2000)]
        if sum(_has_third_language(pair, codes) for pair in some) < _USUAL_SHARE * len(some):
            return self
        return Sample(self.size, [pair for pair in self.pairs if not _has_third_language(pair, codes)])

    def sides(self, corpus: int | None = None) -> Iterator[tuple[Side, Side]]:
        """The pairs in blocks; of one corpus, where its number is given."""
        chosen = [pair for pair in self.pairs if corpus in (None, pair[0])]
        for start in range(0, len(chosen), BLOCK_PAIRS):
            pairs = chosen[start : start + BLOCK_PAIRS]
            yield Side([source for _, source, _ in pairs]), Side([target for _, _, target in pairs])


@dataclass(frozen=True)
class Scores:
    """How well each line fits either language."""

    letters: NDArray[np.intp]
    """Letters of each line; (n,)."""
    fits: _Floats
    """Mean log-probability per letter as source and as target text; (2, n)."""


class Letters:
    """Tells the two languages of a corpus apart by three letters at a time."""

    def __init__(self, sample: Sample, distinct: bool = False) -> None:
        """Learn from a sample.

        Args:
            sample: pairs from all over the text.
            distinct: whether the languages are known to be different; then lines that lean to the other side's
                language are put aside and the rest is learned anew, so that many misplaced lines don't hide.
        """
        self._symbols = _alphabet(sample)
        self._tables = [np.zeros(_SYMBOLS**3, np.float32), np.zeros(_SYMBOLS**3, np.float32)]
        own = self._learn(sample, None)
        for _ in range(_ROUNDS if distinct else 0):
            if sum(int(np.count_nonzero(~rows)) for part in own for rows in part) < 0.01 * len(sample.pairs):
                break
            own = self._learn(sample, own)

    def _learn(self, sample: Sample, own: list[list[NDArray[np.bool_]]] | None) -> list[list[NDArray[np.bool_]]]:
        """Learn from all lines, or those that are in their side's own language; tell for each whether it seems so."""
        counts = np.zeros((2, _SYMBOLS**3))
        for part, sides in enumerate(sample.sides()):
            for number, side in enumerate(sides):
                triples = self._triples(side)
                chosen = triples if own is None else triples[np.repeat(own[part][number], side.sizes + 1)]
                counts[number] += np.bincount(chosen, minlength=_SYMBOLS**3)
        self._tables = [_log_probabilities(count) for count in counts]
        scores = [[self.score(side) for side in sides] for sides in sample.sides()]
        chosen_rows = [[s.letters >= ENOUGH_LETTERS for s in part] for part in scores]
        if own is not None:
            chosen_rows = [[a & b for a, b in zip(*parts, strict=True)] for parts in zip(chosen_rows, own, strict=True)]
        self._learn_spreads(scores, chosen_rows)
        return [[(s.fits[n] >= s.fits[1 - n]) | (s.letters < ENOUGH_LETTERS) for n, s in enumerate(p)] for p in scores]

    def _learn_spreads(self, scores: list[list[Scores]], chosen: list[list[NDArray[np.bool_]]]) -> None:
        """Learn how far lines of either side usually lean towards their own language, and how well they fit it."""
        self.leaning, spread, self.strange = [0.0, 0.0], [0.0, 0.0], [-np.inf, -np.inf]
        for number in range(2):
            parts = [score[number].fits[:, rows[number]] for score, rows in zip(scores, chosen, strict=True)]
            fits = np.concatenate([np.empty((2, 0)), *parts], axis=1)
            if fits.shape[1] >= 50:
                self.leaning[number], spread[number] = _robust(fits[0] - fits[1])
                centre, width = _robust(fits[number])
                self.strange[number] = centre - _STRANGE * width
        self.apart = self.leaning[0] - self.leaning[1] > _APART * max(sum(spread), 1e-9) and min(spread) > 0.0

    def score(self, side: Side) -> Scores:
        """Measure the lines of a side against both languages."""
        triples = self._triples(side)
        letters = np.add.reduceat((triples & (_SYMBOLS - 1)) > 0, side.starts, dtype=np.intp)
        sums = [np.add.reduceat(table[triples], side.starts, dtype=np.float64) for table in self._tables]
        return Scores(letters, np.stack(sums) / np.maximum(letters, 1))

    def misplaced(self, scores: Scores, number: int) -> NDArray[np.bool_]:
        """Which lines are in the language of the other side; number is 0 for source lines, 1 for target lines."""
        if not self.apart:
            return np.zeros(len(scores.letters), np.bool_)
        own, other = self.leaning[number], self.leaning[1 - number]
        beyond = (scores.fits[0] - scores.fits[1] - own) / (other - own) > _BEYOND
        evidence = scores.letters * (scores.fits[1 - number] - scores.fits[number]) > _EVIDENCE
        return np.asarray(beyond & evidence & (scores.letters >= ENOUGH_LETTERS))

    def estranged(self, scores: Scores, number: int) -> NDArray[np.bool_]:
        """Which lines fit their own language so badly that they may be in a third; number as above."""
        return np.asarray((scores.letters >= ENOUGH_LETTERS) & (scores.fits[number] < self.strange[number]))

    def _triples(self, side: Side) -> NDArray[np.intp]:
        """For each character, it and the two before as one number."""
        symbols = self._symbols[side.codes].astype(np.int32)
        triples = symbols.copy()
        triples[1:] += symbols[:-1] << 6
        triples[2:] += symbols[:-2] << 12
        return np.asarray(triples, np.intp)


def _alphabet(sample: Sample) -> NDArray[np.uint8]:
    """For each code point its symbol."""
    counts = np.zeros(0x110000, np.int64)
    lower = folding()
    for sides in sample.sides():
        for side in sides:
            counts += np.bincount(side.codes, minlength=0x110000)
    folded = np.bincount(lower, weights=counts, minlength=0x110000)
    folded[[0, ord("\n")]] = 0
    symbols = np.full(0x110000, _SYMBOLS - 1, np.uint8)
    frequent = np.argsort(-folded, kind="stable")[: _SYMBOLS - 2]
    symbols[frequent] = np.arange(1, _SYMBOLS - 1, dtype=np.uint8)
    symbols[[0, ord("\n")]] = 0
    return symbols[lower]


def _log_probabilities(counts: _Floats) -> NDArray[np.float32]:
    """The log-probability of a symbol after two others, smoothed by that after one and by that alone; flat."""
    cube = counts.reshape(_SYMBOLS, _SYMBOLS, _SYMBOLS)
    single = cube.sum(axis=(0, 1)) + 0.5
    single /= single.sum()
    double = cube.sum(axis=0) + _PRIOR * single
    double /= double.sum(axis=1, keepdims=True)
    triple = cube + _PRIOR * double
    triple /= triple.sum(axis=2, keepdims=True)
    return np.asarray(np.log(triple), np.float32).reshape(-1)


def _robust(values: _Floats) -> tuple[float, float]:
    """The median, and a standard deviation that outliers don't disturb."""
    centre = float(np.median(values))
    return centre, 1.4826 * float(np.median(np.abs(values - centre)))


@dataclass
class SideStatistics:
    """What one side of one corpus is made of."""

    scripts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(SCRIPTS) + 1, np.int64))
    """Letters of each script, by its number in script_table."""
    words: Counter[str] = field(default_factory=Counter)
    """How often each frequent word of each language was seen."""
    total: int = 0
    """Words."""

    def add(self, side: Side) -> None:
        """Take in some lines."""
        self.scripts += np.bincount(script_table()[side.codes], minlength=len(SCRIPTS) + 1)
        text = unicodedata.normalize("NFC", side.text.lower())
        words = _BETWEEN_WORDS.sub(" ", text).split()
        self.total += len(words)
        self.words.update(word for word in words if word in _KNOWN)

    def main_scripts(self, share: float = 0.05) -> frozenset[str]:
        """The scripts that have this share of the letters; empty where there are too few letters to say."""
        letters = int(self.scripts[1:].sum())
        if letters < 10 * ENOUGH_LETTERS:
            return frozenset()
        names = zip(SCRIPTS, self.scripts[1:].tolist(), strict=True)
        return frozenset(name for name, count in names if count >= share * letters)

    def language(self, code: str) -> str:
        """The language that the frequent words speak for, if it can't be the one of this code; empty otherwise."""
        best = self.likeliest()
        clear = words_of(code) and best and self._share(function_words()[best]) > 2 * self._share(words_of(code))
        return best if clear and not related(best, code) else ""

    def likeliest(self) -> str:
        """The language whose frequent words are most frequent here; empty where that says nothing."""
        best = max(function_words(), key=lambda language: self._share(function_words()[language]))
        return best if self.total >= 200 and self._share(function_words()[best]) > _FREQUENT else ""

    def _share(self, words: frozenset[str]) -> float:
        return sum(self.words[word] for word in words) / max(self.total, 1)


def foreign_language(line: str, familiar: Sequence[str]) -> str:
    """The language that a line's frequent words speak for, if it is none of the familiar ones or their kin; or empty.

    At least three different words must that are not in the familiar languages, all its words must be a quarter of the
    line, and of a familiar language there must be fewer than a third as many.
    """
    words = _WORD.findall(unicodedata.normalize("NFC", line.lower()))
    distinct = set(words)
    known = max((len(distinct & words_of(code)) for code in familiar), default=0)
    unknown = (distinct & _KNOWN).difference(*map(words_of, familiar))
    if len(unknown) < max(3, 3 * known + 1):
        return ""
    hits = {language: len(unknown & frequent) for language, frequent in function_words().items()}
    best = max(hits, key=lambda language: hits[language])
    frequent = sum(word in function_words()[best] for word in words)
    clear = hits[best] >= max(3, 3 * known + 1) and 4 * frequent >= len(words)
    return best if clear and not any(related(best, code) for code in familiar) else ""


def _has_third_language(pair: tuple[int, str, str], codes: Sequence[str]) -> bool:
    return any(foreign_language(line, codes) for line in pair[1:])


def expected_scripts(code: str, statistics: SideStatistics) -> frozenset[str]:
    """The scripts that lines of a side may be in: its language's, or where hardly any text is in them, the text's own.

    Empty where nothing is known.
    """
    known = scripts_of(code)
    return known if known and fits_scripts(known, statistics) else statistics.main_scripts()


def fits_scripts(known: frozenset[str], statistics: SideStatistics) -> bool:
    """Whether at least a third of the letters are of these scripts; also where there are too few letters to say."""
    letters = int(statistics.scripts[1:].sum())
    names = zip(SCRIPTS, statistics.scripts[1:].tolist(), strict=True)
    return letters < 10 * ENOUGH_LETTERS or 3 * sum(count for name, count in names if name in known) >= letters


_KNOWN = frozenset(word for words in function_words().values() for word in words)
