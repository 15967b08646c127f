"""Which scripts a language is written in, and which language a line is in.

The two languages of a corpus are told apart by the probability of a letter after the two before it, learned from the
two sides themselves (Cavnar and Trenkle, 1994; Dunning, 1994). py3langid, which knows 139 languages and takes 50 times
as long, is asked about a sample of each side, and about lines that do not look like their side.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from fontTools.unicodedata import Scripts, script_name
from numpy.typing import NDArray
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from dragoman.corpus_check.blocks import Block, Mask, Side
from dragoman.corpus_check.duplicates import folding
from dragoman.text.languages import base_code

# ---- scripts

_ENOUGH_SCRIPT_LETTERS = 200  # to say something of the scripts of a text

SCRIPTS = sorted(set(Scripts.VALUES) - {"Zyyy", "Zinh", "Zzzz"})
"""Codes of ISO 15924."""

_COMPOSITE = {"Jpan": "Hani Hira Kana", "Kore": "Hang Hani", "Hans": "Hani", "Hant": "Hani", "Hrkt": "Hira Kana"}
_NOT_LATIN = """
    Arab: ar fa ps sd ug ur ckb; Arab Latn: ku ms az; Arab Deva: ks; Arab Guru: pa; Armn: hy; Beng: as bn;
    Cyrl: ab av ba be bg ce cu cv kv mk os ru uk; Cyrl Latn: sr sh bs tk uz; Cyrl Arab Latn: kk ky tg tt; Cyrl Mong: mn;
    Deva: bh hi mr ne sa mai bho; Ethi: am ti; Geor: ka; Grek: el; Gujr: gu; Hebr: he iw yi; Hani: zh yue wuu lzh;
    Hang Hani: ko; Hani Hira Kana: ja; Khmr: km; Knda: kn; Laoo: lo; Mlym: ml; Mymr: my shn; Orya: or; Sinh: si;
    Taml: ta; Telu: te; Thaa: dv; Thai: th; Tibt: bo dz; Cans Latn: cr iu oj; Yiii: ii
"""
_LATIN = """
    aa af ak an ast ay bi bm br ca ceb ch co cs cy da de ee en eo es et eu ff fi fil fj fo fr fy ga gd gl gn gv ha ho hr
    ht hu hz ia id ie ig ik io is it jv kg ki kj kl kr kw la lb lg li ln lt lu lv mg mh mi mt na nb nd ng nl nn no nr nv
    ny oc om pl pt qu rm rn ro rw sc se sg sk sl sm sn so sq ss st su sv sw tl tn to tr ts tw ty ve vi vo wa wo xh yo za
    zu
"""


@cache
def script_table() -> NDArray[np.uint8]:
    """Return for each code point the number of its script in SCRIPTS, from 1; 0 if it is not a letter."""
    table = np.zeros(0x110000, np.uint8)
    for start, end, script in zip(Scripts.RANGES, [*Scripts.RANGES[1:], 0x110000], Scripts.VALUES, strict=True):
        if script in SCRIPTS:
            table[start:end] = SCRIPTS.index(script) + 1
    for code in np.flatnonzero(table).tolist():
        if unicodedata.category(chr(code))[0] not in "LM":
            table[code] = 0
    return table


@cache
def scripts_of(code: str) -> frozenset[str]:
    """Return the scripts of a language, or the script that its code names; empty for an unknown language."""
    for subtag in re.split(r"[-_]", code)[1:]:
        if subtag.title() in SCRIPTS or subtag.title() in _COMPOSITE:
            return frozenset(_COMPOSITE.get(subtag.title(), subtag.title()).split())
    for entry in _NOT_LATIN.split(";"):
        scripts, codes = entry.split(":")
        if base_code(code) in codes.split():
            return frozenset(scripts.split())
    return frozenset({"Latn"} if base_code(code) in _LATIN.split() else ())


def main_scripts(counts: NDArray[np.int64]) -> frozenset[str]:
    """Return the scripts that have a twentieth of the letters; none if there are too few letters."""
    letters = counts[1:].sum()
    names = [name for name, count in zip(SCRIPTS, counts[1:], strict=True) if 20 * count >= letters]
    return frozenset(names if letters >= _ENOUGH_SCRIPT_LETTERS else ())


def fits_scripts(scripts: frozenset[str], counts: NDArray[np.int64]) -> bool:
    """Whether at least a third of the letters are in these scripts, or there are too few letters to say."""
    letters, own = counts[1:].sum(), sum(counts[SCRIPTS.index(script) + 1] for script in scripts)
    return bool(letters < _ENOUGH_SCRIPT_LETTERS or 3 * own >= letters)


def names_of(scripts: Iterable[str]) -> str:
    """Return the English names of some scripts."""
    return ", ".join(sorted(script_name(script) for script in scripts))


# ---- languages of lines, by py3langid

ENOUGH_LETTERS = 20
"""Lines with fewer letters are not judged by them."""

_SURE = 0.8  # probability of a language that a line is said to be in
_FAMILIAR = 0.02  # probability of a side's own language that keeps a line from being foreign, and share of a language
_SAMPLED_LINES = 200  # of a side of a corpus


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def known_languages() -> frozenset[str]:
    """Return the codes of the languages that py3langid knows."""
    return frozenset(_identifier().labels)


def identify(line: str) -> dict[str, float]:
    """Return the probability of each known language, the most probable first."""
    return dict(_identifier().rank(line))


def foreign_language(line: str, familiar: Iterable[str]) -> str:
    """Return the language that a line is in if that is surely none of the familiar ones; otherwise nothing."""
    language, probability = _identifier().classify(line)
    if probability < _SURE or language in familiar or language == "zxx":
        return ""
    probabilities = identify(line)
    return language if sum(probabilities.get(code, 0.0) for code in familiar) < _FAMILIAR else ""


@dataclass
class Profile:
    """The scripts and languages of one side of a corpus."""

    code: str
    """The language in two letters, where it has such a code."""
    scripts: NDArray[np.int64]
    """Letters of each script, by its number in script_table."""
    probabilities: list[dict[str, float]]
    """Of each language, for a sample of the lines; empty if too few have letters."""

    @cached_property
    def languages(self) -> Counter[str]:
        """The mean probability of each language."""
        total = Counter[str]()
        for line in self.probabilities:
            total.update({language: value / len(self.probabilities) for language, value in line.items()})
        return total

    def is_confused(self, other: str) -> bool:
        """Whether py3langid often hesitates between the language of the side and another, because they are related."""
        hesitation = [min(line.get(self.code, 1.0), line.get(other, 1.0)) for line in self.probabilities]
        return sum(hesitation) > _FAMILIAR * len(hesitation)

    @property
    def main_language(self) -> str:
        """The language of most lines; empty if there is none."""
        return max(self.languages, key=self.languages.__getitem__, default="")

    @property
    def unexpected_language(self) -> str:
        """The language of most lines, if it can't be the one that the code names; otherwise empty."""
        unlike = self.code in known_languages() and self.languages[self.code] < 0.1
        return self.main_language if unlike and self.languages[self.main_language] > 0.5 else ""

    @property
    def familiar(self) -> frozenset[str]:
        """The languages that lines may be in: of an unknown language, all that py3langid takes it for."""
        if self.code in known_languages():
            return frozenset(filter(None, (self.code, self.main_language)))
        return frozenset({self.code} | {name for name, share in self.languages.items() if share >= _FAMILIAR})


def profile_side(code: str, side: Side) -> Profile:
    """Return the profile of one side of a corpus, from sampled lines."""
    scripts = script_table()[side.codes]
    lines = [side.lines[row] for row in np.flatnonzero(side.sums(scripts > 0) >= ENOUGH_LETTERS).tolist()]
    sampled = lines[:: -(-len(lines) // _SAMPLED_LINES)] if len(lines) >= ENOUGH_LETTERS else []
    counts = np.bincount(scripts, minlength=len(SCRIPTS) + 1)
    return Profile(base_code(code), counts, [identify(line) for line in sampled])


# ---- the letters of two languages

_SAMPLED_CHARACTERS = 500  # of a line
_SYMBOLS = 64  # 0: not a letter; 1 to 62: the most frequent letters; 63: all others
_THIRD_LANGUAGE_SHARE = 0.02  # of sampled pairs, from which they are kept out of what is learned
_ROUNDS = 4  # of learning, at most
_PRIOR = 4.0  # observations that the letters' frequencies alone count for, in a context of two letters
_APART = 2.5  # spreads between the two sides' lines, without which none is judged
_BEYOND = 0.65  # of the way from a usual line of the own side to one of the other
_EVIDENCE = 12.0  # least difference of log-probabilities: odds of 160,000 to 1
_STRANGE = 2.5  # spreads below the usual fit that make a line look unlike its language
_MIN_LINES = 50  # to say what is usual


@dataclass
class Sample:
    """Every n-th pair of a text of unknown length: of long ones the beginnings, in the same share of both sides."""

    size: int = 40_000
    pairs: list[tuple[int, str, str]] = field(default_factory=list)
    """The number of the corpus, source and target; both have text."""
    _stride: int = 1
    _seen: int = 0

    def add(self, corpus: int, block: Block) -> None:
        """Take in a block of a corpus."""
        for row in range(-self._seen % self._stride, len(block), self._stride):
            source, target = (side.lines[row] for side in block.sides)
            if (longer := max(len(source), len(target))) > _SAMPLED_CHARACTERS:
                source, target = (side[: len(side) * _SAMPLED_CHARACTERS // longer] for side in (source, target))
            if source.strip() and target.strip():
                self.pairs.append((corpus, source, target))
        self._seen += len(block)
        while len(self.pairs) > self.size:
            self.pairs = self.pairs[::2]
            self._stride *= 2

    def sides(self, corpus: int | None = None) -> tuple[Side, Side]:
        """Return source and target; of one corpus if its number is given."""
        chosen = [pair for pair in self.pairs if corpus in (None, pair[0])]
        return Side([source for _, source, _ in chosen]), Side([target for _, _, target in chosen])

    def without_third_language(self, familiar: frozenset[str]) -> Sample:
        """Return the sample without pairs in other languages, if there are so many that they would seem usual."""
        some = self.pairs[:: len(self.pairs) // _SAMPLED_LINES + 1]
        if sum(_is_foreign(pair, familiar) for pair in some) < _THIRD_LANGUAGE_SHARE * len(some):
            return self
        return Sample(self.size, [pair for pair in self.pairs if not _is_foreign(pair, familiar)])


def _is_foreign(pair: tuple[int, str, str], familiar: frozenset[str]) -> bool:
    return any(sum(map(str.isalpha, line)) >= ENOUGH_LETTERS and foreign_language(line, familiar) for line in pair[1:])


class Fit(NamedTuple):
    """Letters of each line, (n,), and their mean log-probability as source and as target text, (2, n)."""

    letters: NDArray[np.intp]
    means: NDArray[np.float64]


class LetterModel:
    """Tells the two languages of a corpus apart by three letters at a time."""

    def __init__(self, sample: Sample, distinct: bool = False) -> None:
        """Learn from a sample.

        If the languages are known to be distinct, lines that fit the other side better are left out and the rest is
        learned anew, so that many misplaced lines don't hide.
        """
        sides = sample.sides()
        self._symbols = _alphabet(sides)
        own = [np.ones(len(side.lines), np.bool_) for side in sides]
        for _ in range(_ROUNDS if distinct else 1):
            self._tables = [self._learn(side, rows) for side, rows in zip(sides, own, strict=True)]
            fits, learned = [self.fit(side) for side in sides], own
            own = [(f.means[n] >= f.means[1 - n]) | (f.letters < ENOUGH_LETTERS) for n, f in enumerate(fits)]
            if sum(np.count_nonzero(~rows) for rows in own) < 0.01 * len(sample.pairs):
                break
        self.leaning, self._strange, spreads = [0.0, 0.0], [-np.inf, -np.inf], [0.0, 0.0]
        for number, (fit, rows) in enumerate(zip(fits, learned, strict=True)):
            means = fit.means[:, rows & (fit.letters >= ENOUGH_LETTERS)]
            if means.shape[1] >= _MIN_LINES:
                self.leaning[number], spreads[number] = median_and_spread(means[0] - means[1])
                centre, spread = median_and_spread(means[number])
                self._strange[number] = centre - _STRANGE * spread
        self.apart = min(spreads) > 0.0 and self.leaning[0] - self.leaning[1] > _APART * sum(spreads)

    def fit(self, side: Side) -> Fit:
        """Measure the lines of a side against both languages."""
        triples = self._triples(side)
        letters = side.sums((triples & (_SYMBOLS - 1)) > 0)
        sums = [side.sums(table[triples], np.float64) for table in self._tables]
        return Fit(letters, np.stack(sums) / np.maximum(letters, 1))

    def misplaced(self, fit: Fit, number: int) -> Mask:
        """Return which lines are in the language of the other side; number is 0 for source, 1 for target lines."""
        if not self.apart:
            return np.zeros(len(fit.letters), np.bool_)
        own, other = self.leaning[number], self.leaning[1 - number]
        beyond = (fit.means[0] - fit.means[1] - own) / (other - own) > _BEYOND
        evidence = fit.letters * (fit.means[1 - number] - fit.means[number]) > _EVIDENCE
        return np.asarray(beyond & evidence & (fit.letters >= ENOUGH_LETTERS))

    def strange(self, fit: Fit, number: int) -> Mask:
        """Return which lines fit their own language so badly that they may be in a third; number as above."""
        return np.asarray((fit.letters >= ENOUGH_LETTERS) & (fit.means[number] < self._strange[number]))

    def _learn(self, side: Side, rows: Mask) -> NDArray[np.float32]:
        """Log-probabilities of a symbol after two others, smoothed by those after one and by its own; flat."""
        counts = np.bincount(self._triples(side)[np.repeat(rows, side.lengths + 1)], minlength=_SYMBOLS**3)
        cube = counts.reshape(_SYMBOLS, _SYMBOLS, _SYMBOLS).astype(np.float64)
        single = cube.sum(axis=(0, 1)) + 0.5
        single /= single.sum()
        double = cube.sum(axis=0) + _PRIOR * single
        double /= double.sum(axis=1, keepdims=True)
        triple = cube + _PRIOR * double
        triple /= triple.sum(axis=2, keepdims=True)
        return np.asarray(np.log(triple), np.float32).reshape(-1)

    def _triples(self, side: Side) -> NDArray[np.intp]:
        """Each character and the two before it as one number."""
        symbols = self._symbols[side.codes].astype(np.int32)
        triples = symbols.copy()
        triples[1:] += symbols[:-1] << 6
        triples[2:] += symbols[:-2] << 12
        return np.asarray(triples, np.intp)


def _alphabet(sides: Sequence[Side]) -> NDArray[np.uint8]:
    """The symbol of each code point."""
    counts = np.zeros(0x110000, np.int64)
    for side in sides:
        counts += np.bincount(folding()[side.codes], minlength=0x110000)
    counts[[0, ord("\n")]] = 0
    symbols = np.full(0x110000, _SYMBOLS - 1, np.uint8)
    symbols[np.argsort(-counts, kind="stable")[: _SYMBOLS - 2]] = np.arange(1, _SYMBOLS - 1, dtype=np.uint8)
    symbols[[0, ord("\n")]] = 0
    return np.asarray(symbols[folding()])


def median_and_spread(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the median, and a standard deviation that outliers don't disturb."""
    centre = float(np.median(values))
    return centre, 1.4826 * float(np.median(np.abs(values - centre)))
