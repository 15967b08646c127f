"""What comes out of a translator, and how the translations of a long line's parts become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dragoman.inference.alignment import Alignment, Units
from dragoman.inference.rules import LengthPenalty
from dragoman.text.subwords import SubwordModel


@dataclass(frozen=True)
class Part:
    """A stretch of a line that was translated by itself."""

    source: str
    """The stretch, with the spaces around it."""
    subwords: list[int]
    """Target ids of its translation, without BOS and EOS."""


@dataclass(frozen=True)
class Translation:
    """A translated line. An empty line translates to an empty line with log-probability 0."""

    text: str
    log_prob: float = 0.0
    """Natural logarithm of the probability of its subwords and the end; of a line in parts, the sum of the parts'."""
    score: float = 0.0
    """log_prob divided by the length penalty; what the search maximises. Of a line in parts, the sum of the parts'."""
    subwords: list[int] = field(default_factory=list)
    """Target ids, without BOS and EOS; of a line in parts, one part's after the other."""
    alternatives: list[Translation] = field(default_factory=list)
    """The next best translations, best first, where n_best asks for them."""
    parts: list[Part] = field(default_factory=list)
    """What was translated, where it was not the line as a whole: its parts if it was split, its beginning if it was
    cut off."""
    left_out: int = 0
    """Characters at the end of the line that were cut off and not translated."""

    @property
    def candidates(self) -> list[Translation]:
        """Itself and its alternatives."""
        return [self, *self.alternatives]


@dataclass(frozen=True)
class PairScore:
    """What the model thinks of a given translation."""

    log_prob: float
    """Natural logarithm of P(target | source), the end of the sentence included."""
    num_tokens: int
    """Target subwords, the end included."""

    def score(self, length_penalty: float) -> float:
        """log_prob divided by the length penalty, as the search does."""
        return self.log_prob / LengthPenalty(length_penalty)(self.num_tokens)


def with_subwords(translations: Sequence[Translation | str], subwords: SubwordModel) -> list[Translation]:
    """Translations that were found, as they are, and given ones with the subwords into which their text is cut."""
    found = [Translation(one) if isinstance(one, str) else one for one in translations]
    given = subwords.encode(["" if one.subwords or one.parts else one.text.strip() for one in found])
    return [replace(one, subwords=ids) if ids else one for one, ids in zip(found, given, strict=True)]


def join_translations(
    sources: Sequence[str], translations: Sequence[Translation], separator: str, n_best: int
) -> Translation:
    """The translation of a line from those of its parts, with the n best combinations of the parts' candidates.

    Args:
        sources: the parts of the line, in order.
        translations: of each part, with its alternatives.
        separator: what stands between the parts' translations, where they are not empty.
        n_best: translations wanted, the best one included.
    """
    candidates = [translation.candidates for translation in translations]
    best = best_combinations([[candidate.score for candidate in of_one] for of_one in candidates], n_best)
    first, *others = (
        _join(sources, [of_one[i] for of_one, i in zip(candidates, choice, strict=True)], separator) for choice in best
    )
    return replace(first, alternatives=others)


def _join(sources: Sequence[str], chosen: Sequence[Translation], separator: str) -> Translation:
    return Translation(
        text=separator.join(part.text for part in chosen if part.text),
        log_prob=sum(part.log_prob for part in chosen),
        score=sum(part.score for part in chosen),
        subwords=[subword for part in chosen for subword in part.subwords],
        parts=[Part(source, part.subwords) for source, part in zip(sources, chosen, strict=True)],
    )


def best_combinations(scores: Sequence[Sequence[float]], count: int) -> list[list[int]]:
    """The combinations of one candidate from each part with the greatest sums of scores, greatest first.

    Exact: the beginning of one of the n best combinations is among the n best beginnings. Of equal sums the one with
    the earlier candidates comes first.

    Args:
        scores: of each part's candidates.
        count: combinations wanted; fewer come back where there are no more.

    Returns:
        For each combination the place of every part's candidate.
    """
    totals = [0.0]
    choices: list[list[tuple[int, int]]] = []  # of every part: (place of the beginning, place of the candidate)
    for candidates in scores:
        sums = [
            (-total - score, beginning, candidate)
            for beginning, total in enumerate(totals)
            for candidate, score in enumerate(candidates)
        ]
        best = sorted(sums)[:count]
        totals = [-negative for negative, _, _ in best]
        choices.append([(beginning, candidate) for _, beginning, candidate in best])
    return [_trace(choices, place) for place in range(len(totals))]


def _trace(choices: Sequence[Sequence[tuple[int, int]]], place: int) -> list[int]:
    """The candidates of the combination that stands in this place at the end."""
    combination = []
    for of_part in reversed(choices):
        place, candidate = of_part[place]
        combination.append(candidate)
    return combination[::-1]


def join_alignments(
    parts: Sequence[Part], alignments: Sequence[Alignment], units: Units, target_spaced: bool
) -> Alignment:
    """The alignment of a whole line from those of its parts.

    Args:
        parts: of the line, in order.
        alignments: of each part.
        units: of source and target, what they link. A word that a cut goes through becomes one again.
        target_spaced: whether a space stands between the translations of two parts.
    """
    links: dict[tuple[int, int], None] = {}
    source: list[str] = []
    target: list[str] = []
    spaced = True
    for part, alignment in zip(parts, alignments, strict=True):
        spaced = spaced or part.source[:1].isspace() or units[0] == "subwords"
        sources_before = _append(source, alignment.source, spaced)
        targets_before = _append(target, alignment.target, target_spaced or units[1] == "subwords")
        links |= {(s + sources_before, t + targets_before): None for s, t in alignment.links}
        spaced = part.source[-1:].isspace()
    return Alignment(list(links), source, target)


def _append(words: list[str], more: Sequence[str], spaced: bool) -> int:
    """Append a part's words, the first one to the last one if no space is between; returns the place of the first."""
    if words and more and not spaced:
        words[-1] += more[0]
        words += more[1:]
        return len(words) - len(more)
    words += more
    return len(words) - len(more)
