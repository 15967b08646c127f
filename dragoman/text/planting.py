"""Symbols for placeholders in training text, which has few placeholders of its own: copies of pairs get some."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from dragoman.text.corpus import Pair
from dragoman.text.languages import LETTER
from dragoman.text.placeholders import SYMBOL, SYMBOLS, mask

Spans = tuple[tuple[int, int], tuple[int, int]]
"""Start and end of a piece of the source, and those of its counterpart in the target."""
_AT_A_WORD, _AT_THE_ENDS = ("@", "@{}@"), ("@", "@{}@", "@ {}", "{} @")  # @ is for a symbol, {} for the text
_LEARNED_FROM = 16_384  # pairs, from which it is seen which words mean the same
_LIKE = 0.3  # Dice's coefficient of words that mean the same, at least
_WORD = re.compile(rf"{LETTER}{{4,}}|\d+")


def mask_pair(pair: Pair) -> Pair:
    """A training pair with symbols in place of the placeholders that each side has once."""
    (source, placeholders), target = mask(pair[0]), pair[1]
    for symbol, placeholder in zip(SYMBOLS, placeholders, strict=False):
        if target.count(placeholder) == 1:
            target = target.replace(placeholder, symbol)
        else:
            source = source.replace(symbol, placeholder)
    return source, target


class Planter:
    """Plants symbols in copies of pairs: in place of words that mean the same, around them, or at the ends."""

    def __init__(self, pairs: Sequence[Pair], share: float, seed: int) -> None:
        """Learn from pairs which words mean the same; a share of the pairs to come is copied, chosen by a seed."""
        known = pairs[:: len(pairs) // _LEARNED_FROM + 1]
        self._share, self._random = share, random.Random(seed)
        self._lines_with = [_lines_with(pair[side] for pair in known) for side in (0, 1)]

    def __call__(self, pair: Pair) -> Pair | None:
        """The copy of a pair with symbols in it, or None if this pair is not copied."""
        choose = self._random
        if choose.random() >= self._share or any(map(SYMBOL.search, pair)):
            return None
        words = self._words_alike(pair)
        chosen = choose.sample(words, min(len(words), choose.randrange(4)))
        edits = [(spans, choose.choice(_AT_A_WORD)) for spans in sorted(chosen)]
        if not edits:
            edits = [(((0, len(pair[0])), (0, len(pair[1]))), choose.choice(_AT_THE_ENDS))]
        number = choose.randrange(len(SYMBOLS) + 1 - sum(form.count("@") for _, form in edits))
        numbered = []
        for spans, form in edits:
            while "@" in form:
                form, number = form.replace("@", SYMBOLS[number], 1), number + 1
            numbered.append((spans, form))
        return _edit(pair[0], numbered, 0), _edit(pair[1], numbered, 1)

    def _words_alike(self, pair: Pair) -> list[Spans]:
        """Where words stand that each side has once and that mean the same: the best counterparts of each other."""
        sources, targets = (_places_of_words(side) for side in pair)
        likeness = {(s, t): self._likeness(s, t) for s in sources for t in targets}
        best = {s: max((likeness[s, t], t) for t in targets)[1] for s in sources if targets}
        back = {t: max((likeness[s, t], s) for s in sources)[1] for t in targets if sources}
        alike = [(s, t) for s, t in best.items() if back[t] == s and likeness[s, t] > _LIKE]
        return [(sources[s], targets[t]) for s, t in alike]

    def _likeness(self, source: str, target: str) -> float:
        """Dice's coefficient of the lines with one word and those with the other; 1 for a word spelt alike."""
        if source == target:
            return 1.0
        one, other = self._lines_with[0].get(source, 0), self._lines_with[1].get(target, 0)
        return 2 * (one & other).bit_count() / max(one.bit_count() + other.bit_count(), 1)


def _edit(text: str, edits: Sequence[tuple[Spans, str]], side: int) -> str:
    for spans, form in sorted(edits, key=lambda edit: edit[0][side], reverse=True):
        start, end = spans[side]
        text = text[:start] + form.format(text[start:end]) + text[end:]
    return text


def _places_of_words(text: str) -> dict[str, tuple[int, int]]:
    found = [(match[0], match.span()) for match in _WORD.finditer(text)]
    counts = Counter(word for word, _ in found)
    return {word: span for word, span in found if counts[word] == 1}


def _lines_with(lines: Iterable[str]) -> dict[str, int]:
    """For each word, the lines that have it, as the bits of a number."""
    found: defaultdict[str, int] = defaultdict(int)
    for place, line in enumerate(lines):
        for word in set(_WORD.findall(line)):
            found[word] |= 1 << place
    return found
