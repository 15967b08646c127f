"""Which scripts a language is written in, and which language a line is in.

The two languages of a corpus are told apart by the probability of a letter after the two before it, learned from the
two sides themselves (Cavnar and Trenkle, 1994; Dunning, 1994). py3langid, which knows 139 languages and takes 50 times
as long, is asked about a sample of each side, and about lines that do not look like their side.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from fontTools.unicodedata import Scripts
from numpy.typing import NDArray
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from dragoman.corpus_check.blocks import Mask, Side
from dragoman.corpus_check.duplicates import folding
from dragoman.text.corpus import Pair
from dragoman.text.languages import base_code

ENOUGH_LETTERS = 20
"""Lines with fewer letters are not judged by their language."""

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
    return frozenset({"Latn"} if base_code(code) in known_languages() else ())


# ---- languages, by py3langid

_SURE = 0.8  # probability of a language that a line is said to be in
_FAMILIAR = 0.02  # probability of a side's own languages that keeps a line from being foreign, and share of a language
_SAMPLED_LINES = 200  # of a side


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def known_languages() -> frozenset[str]:
    """Return the codes of the languages that py3langid knows."""
    return frozenset(_identifier().labels)


def foreign_language(line: str, familiar: Iterable[str]) -> str:
    """Return the language that a line is in if that is surely none of the familiar ones; otherwise nothing."""
    language, probability = _identifier().classify(line)
    if probability < _SURE or language in familiar or language == "zxx":
        return ""
    probabilities = dict(_identifier().rank(line))
    return language if sum(probabilities.get(code, 0.0) for code in familiar) < _FAMILIAR else ""


class Profile:
    """The scripts and languages of one side of a corpus, judging by some of its lines."""

    def __init__(self, code: str, side: Side) -> None:
        self.code, letters = base_code(code), script_table()[side.codes]
        counts = np.bincount(letters, minlength=len(SCRIPTS) + 1)[1:]
        enough = counts.sum() >= _ENOUGH_SCRIPT_LETTERS
        frequent = np.flatnonzero(20 * counts >= counts.sum()).tolist() if enough else []
        self.scripts = frozenset(SCRIPTS[number] for number in frequent)
        """Those of a twentieth of the letters; none if there are too few letters."""
        rows = np.flatnonzero(side.sums(letters > 0) >= ENOUGH_LETTERS)
        rows = rows[:: len(rows) // _SAMPLED_LINES + 1] if len(rows) >= ENOUGH_LETTERS else rows[:0]
        shares, doubts = Counter[str](), Counter[str]()
        for row in rows.tolist():
            probabilities = dict(_identifier().rank(side.lines[row]))
            for language, value in probabilities.items():
                shares[language] += value / len(rows)
                doubts[language] += min(value, probabilities.get(self.code, 1.0)) / len(rows)
        main = max(shares, key=shares.__getitem__, default=self.code)
        is_unexpected = self.code in known_languages() and shares[self.code] < 0.1 and shares[main] > 0.5
        self.unexpected_language = main if is_unexpected else ""
        """The language of most lines, if it can't be the one that the code names; otherwise empty."""
        self.familiar = {self.code, main} | {name for name, share in doubts.items() if share >= _FAMILIAR}
        """The languages that lines may be in, and those that py3langid often takes for them."""


# ---- the letters of two languages

_SYMBOLS = 64  # 0: not a letter; 1 to 62: the most frequent letters; 63: all others
_FOREIGN_SHARE = 0.02  # of sampled pairs, from which they are kept out of what is learned
_CLEANED_PAIRS = 10_000  # to learn from then
_PRIOR = 4.0  # observations that the letters' frequencies alone count for, in a context of two letters
_APART = 2.5  # spreads between the two sides' lines, without which none is judged
_BEYOND = 0.65  # of the way from a usual line of the own side to one of the other
_EVIDENCE = 12.0  # least difference of log-probabilities: odds of 160,000 to 1
_STRANGE = 2.5  # spreads below the usual fit that make a line look unlike its language
_MIN_LINES = 50  # to say what is usual


class LetterModel:
    """Tells the two languages of a corpus apart by three letters at a time."""

    def __init__(self, pairs: list[Pair], familiar: Sequence[set[str]]) -> None:
        """Learn from some pairs, without those in other languages if there are so many that they would seem usual."""
        some = pairs[:: len(pairs) // _SAMPLED_LINES + 1]
        if sum(_is_foreign(pair, familiar) for pair in some) >= _FOREIGN_SHARE * len(some):
            some = pairs[:: len(pairs) // _CLEANED_PAIRS + 1]
            pairs = [pair for pair in some if not _is_foreign(pair, familiar)]
        sides = Side([source for source, _ in pairs]), Side([target for _, target in pairs])
        self._symbols = _alphabet(sides)
        self._tables = [self._learn(side) for side in sides]
        self._leaning, self._strange, spreads = [0.0, 0.0], [-np.inf, -np.inf], [0.0, 0.0]
        for number, side in enumerate(sides):
            letters, means = self._fit(side)
            means = means[:, letters >= ENOUGH_LETTERS]
            if means.shape[1] >= _MIN_LINES:
                self._leaning[number], spreads[number] = median_and_spread(means[0] - means[1])
                centre, spread = median_and_spread(means[number])
                self._strange[number] = centre - _STRANGE * spread
        self.apart = min(spreads) > 0.0 and self._leaning[0] - self._leaning[1] > _APART * sum(spreads)

    def judge(self, side: Side, number: int) -> tuple[Mask, Mask]:
        """Return which lines are in the language of the other side, and which may be in a third; number is 0 or 1.

        The latter fit their own language badly.
        """
        letters, means = self._fit(side)
        own, other = self._leaning[number], self._leaning[1 - number]
        enough = letters >= ENOUGH_LETTERS
        misplaced = np.zeros_like(enough)
        if self.apart:
            beyond = (means[0] - means[1] - own) / (other - own) > _BEYOND
            misplaced = enough & beyond & (letters * (means[1 - number] - means[number]) > _EVIDENCE)
        return misplaced, enough & ~misplaced & (means[number] < self._strange[number])

    def _fit(self, side: Side) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Letters of each line, (n,), and their mean log-probability as source and as target text, (2, n)."""
        triples = self._triples(side)
        letters = side.sums((triples & (_SYMBOLS - 1)) > 0)
        sums = [side.sums(table[triples], np.float64) for table in self._tables]
        return letters, np.stack(sums) / np.maximum(letters, 1)

    def _learn(self, side: Side) -> NDArray[np.float32]:
        """Log-probabilities of a symbol after two others, smoothed by those after one and by its own; flat."""
        cube = np.bincount(self._triples(side), minlength=_SYMBOLS**3).reshape(_SYMBOLS, _SYMBOLS, _SYMBOLS)
        smoothed = np.full(_SYMBOLS, 1 / _SYMBOLS)
        for counts in (cube.sum(axis=(0, 1)), cube.sum(axis=0), cube):
            smoothed = counts + _PRIOR * smoothed
            smoothed /= smoothed.sum(axis=-1, keepdims=True)
        return np.asarray(np.log(smoothed), np.float32).reshape(-1)

    def _triples(self, side: Side) -> NDArray[np.intp]:
        """Each character and the two before it as one number."""
        symbols = self._symbols[side.codes].astype(np.int32)
        triples = symbols.copy()
        triples[1:] += symbols[:-1] << 6
        triples[2:] += symbols[:-2] << 12
        return np.asarray(triples, np.intp)


def _is_foreign(pair: Pair, familiar: Sequence[set[str]]) -> bool:
    return any(
        sum(map(str.isalpha, line)) >= ENOUGH_LETTERS and foreign_language(line, languages)
        for line, languages in zip(pair, familiar, strict=True)
    )


def _alphabet(sides: Iterable[Side]) -> NDArray[np.uint8]:
    """The symbol of each code point."""
    counts = np.sum([np.bincount(folding()[side.codes], minlength=0x110000) for side in sides], axis=0)
    counts[[0, ord("\n")]] = 0
    symbols = np.full(0x110000, _SYMBOLS - 1, np.uint8)
    symbols[np.argsort(-counts, kind="stable")[: _SYMBOLS - 2]] = np.arange(1, _SYMBOLS - 1, dtype=np.uint8)
    symbols[[0, ord("\n")]] = 0
    return np.asarray(symbols[folding()])


def median_and_spread(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the median, and a standard deviation that outliers don't disturb."""
    centre = float(np.median(values))
    return centre, 1.4826 * float(np.median(np.abs(values - centre)))
