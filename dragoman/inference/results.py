"""What a translator returns, and how the translations of a long line's parts become one."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from dragoman.inference.hypotheses import length_penalty
from dragoman.inference.segmentation import Segment


@dataclass(frozen=True)
class Part:
    """A part of a line that was translated by itself."""

    source: str
    """Its text, with the spaces around it."""
    subwords: list[int]
    """Target ids of its translation, without BOS and EOS."""


@dataclass(frozen=True)
class Translation:
    """A translated line; of a line in parts, the numbers are sums over them, and the subwords are all of theirs."""

    text: str
    log_prob: float = 0.0
    """Natural logarithm of the probability of its subwords and the end."""
    score: float = 0.0
    """log_prob divided by the length penalty, which the search maximises."""
    subwords: list[int] = field(default_factory=list)
    """Target ids, without BOS and EOS."""
    alternatives: "list[Translation]" = field(default_factory=list)
    """The next best translations, best first, if n_best asks for them."""
    parts: list[Part] = field(default_factory=list)
    """What was translated if the line was split; otherwise empty."""
    lost: list[str] = field(default_factory=list)
    """Placeholders of the line that the translation does not have exactly once."""

    @property
    def candidates(self) -> "list[Translation]":
        """Itself and its alternatives."""
        return [self, *self.alternatives]


@dataclass(frozen=True)
class PairScore:
    """How probable the model finds a given translation."""

    log_prob: float
    """Natural logarithm of P(target | source), the end of the sentence included."""
    num_tokens: int
    """Target subwords, the end included."""

    def score(self, alpha: float) -> float:
        """log_prob divided by the length penalty."""
        return self.log_prob / length_penalty(self.num_tokens, alpha)


def join_translations(
    found: Sequence[tuple[Segment, list[Translation]]], gap: str, n_best: int, drawn: bool = False
) -> Translation:
    """The translation of a line from what was found for each segment, best first, with the n best combinations.

    Of what was drawn, the first translations of all segments belong together, then the second ones, and so on. Between
    translations stands the space after the part of the source, or else the gap; nothing if the gap is empty.
    """
    if len(found) == 1 and not found[0][0].source:
        best, *others = found[0][1]
        return replace(best, alternatives=others) if others else best
    segments, candidates = [segment for segment, _ in found], [of_part for _, of_part in found]
    gaps = [gap and (s.source[len(s.source.rstrip()) :] or gap) for s in segments]
    joined = []
    for chosen in zip(*candidates, strict=True) if drawn and found else best_combinations(candidates, n_best):
        joined.append(
            Translation(
                text="".join([s for p, gap in zip(chosen, gaps, strict=True) if p.text for s in (p.text, gap)][:-1]),
                log_prob=sum((part.log_prob for part in chosen), 0.0),
                score=sum((part.score for part in chosen), 0.0),
                subwords=[subword for part in chosen for subword in part.subwords],
                parts=[Part(s.source, found.subwords) for s, found in zip(segments, chosen, strict=True) if s.source],
                lost=[placeholder for part in chosen for placeholder in part.lost],
            )
        )
    return replace(joined[0], alternatives=joined[1:])


def best_combinations(candidates: Sequence[Sequence[Translation]], count: int) -> list[tuple[Translation, ...]]:
    """The combinations of one candidate from each part with the greatest sums of scores, greatest first.

    Exact: the beginning of one of the n best combinations is among the n best beginnings. Of equal sums the one with
    the better beginning comes first. The result is fewer than count if there are no more.
    """
    best: list[tuple[float, tuple[Translation, ...]]] = [(0.0, ())]  # with -sum of scores
    for of_part in candidates:
        longer = ((loss - one.score, (*choice, one)) for loss, choice in best for one in of_part)
        best = heapq.nsmallest(count, longer, key=itemgetter(0))
    return [choice for _, choice in best]
