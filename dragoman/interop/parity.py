"""The proof of an export or import: the same sentences through both sides, and what they answered.

Shapes: T target length, V vocabulary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dragoman.config import EOS, DragomanError, SearchConfig
from dragoman.evaluation.scores import evaluate
from dragoman.inference.engine import Engine
from dragoman.inference.rules import NEVER_WRITTEN
from dragoman.runtime.console import NowAndThen, Report
from dragoman.text.subwords import SPECIALS, Vocabulary

PARITY_FILE = "parity.json"
BEAMS = (1, 4)
_TIE = 2e-3  # nats: candidates so close that two orders of summation may tell them apart either way
# Of a logit, where both sides compute in float32: some 50 times what sound exports of every kind have shown.
_LARGEST_DIFFERENCE = 1e-3
# Where weights are quantized; more than that is no rounding.
_LARGEST_BLEU_DIFFERENCE, _LARGEST_ROUNDING = 2.0, 5.0
_MOST_WRONG = 0.001  # of the lines may differ by more than a tie
_SPELLS_SYMBOL = re.compile(r"<unk>|<pad>|</?s>|^\s*>>.+<<")
Array = np.ndarray[Any, np.dtype[np.float32]]


class OtherSide(Protocol):
    """An exported model, or the one that was imported, behind the library that it is for."""

    name: str
    """The library and its version."""
    exact: bool
    """Whether it computes in float32, so that its answers are to be the same."""
    absent: Sequence[int]
    """Target subwords that only Dragoman has: their logits are not compared."""
    normalizes: bool
    """Whether, where it keeps from writing a symbol, the probabilities of what is left add up to 1 again."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Raw source lines to ids, each ending in EOS, by its own tokenizer."""

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """Ids, without EOS, to raw target lines, by its own tokenizer."""

    def search(self, sources: list[list[int]], beam: int, limit: int) -> list[list[int]]:
        """The best hypothesis of each source by log-probability, without EOS; at most so many subwords."""

    def forced(self, source: list[int], target: list[int]) -> Array:
        """Logits (T, V) along a target that ends in EOS; or, where they are not told, its log-probabilities (T)."""


@dataclass
class Parity:
    """What came out."""

    other: str
    """The library and its version."""
    sentences: int
    text: str
    """Where the sentences are from."""
    logits: str
    """What was compared along the translations: "logits" or "log-probabilities"."""
    largest_difference: float
    """Between those of both sides, absolute."""
    identical: dict[str, int] = field(default_factory=dict)
    """Sentences with the same subwords, by beam."""
    endless: dict[str, int] = field(default_factory=dict)
    """Sentences for which neither side found an end, as before a model has learnt to end them; their translations are
    as long as they may be, and whether these are the same says nothing."""
    ties: dict[str, int] = field(default_factory=dict)
    """Sentences with others, where the search had to choose between candidates less than 0.002 nats apart."""
    forbidden: dict[str, int] = field(default_factory=dict)
    """Sentences with others, where the search came upon a symbol that is never written, as <unk>, and the other side
    normalises what is left."""
    bleu: dict[str, list[float]] = field(default_factory=dict)
    """BLEU of this side and of the other, by beam; where there are references."""
    tokenized_alike: bool = True
    """Whether both tokenizers put all translations together alike, but for spaces at their ends."""
    examples: list[dict[str, str]] = field(default_factory=list)
    """The first few sentences that differ."""
    exact: bool = True
    """Whether both sides compute in float32, so that their answers are to be the same."""
    left_out: int = 0
    """Lines that spell a symbol such as <unk>, which the other tokenizer takes for the symbol itself."""
    passed: bool = False

    def lines(self) -> list[str]:
        """The result in words."""
        left_out = f"; without {self.left_out:,} that spell symbols such as <unk>" if self.left_out else ""
        found = [
            f"parity with {self.other} on {self.sentences:,} sentences ({self.text}{left_out}):",
            f"  {self.logits}: largest difference {self.largest_difference:.1e}",
        ]
        for beam, count in self.identical.items():
            ended, tied = self.sentences - self.endless[beam], self.ties[beam]
            rest = ended - count
            words = f"  beam {beam}: {count:,} of {ended:,} translations identical"
            words += f" ({self.endless[beam]:,} more without an end)" if ended < self.sentences else ""
            if rest and self.exact:
                words += f"; {tied:,} of the other {rest:,} decided by a tie"
                words += f", {self.forbidden[beam]:,} by keeping out <unk>" if self.forbidden[beam] else ""
            bleu = self.bleu.get(beam)
            found.append(words + (f"; BLEU {bleu[0]:.2f} here, {bleu[1]:.2f} there" if bleu else ""))
        return [*found, "  passed" if self.passed else "  FAILED"]


@dataclass(frozen=True)
class Sample:
    """The sentences of a proof."""

    sources: list[str]
    references: list[str] | None
    name: str
    """Where they are from."""


def prove(
    engine: Engine,
    vocabulary: Vocabulary,
    other: OtherSide,
    sample: Sample,
    language: str,
    report: Report = lambda line: None,
) -> Parity:
    """Compare both sides.

    Both search with the same limits and without a length penalty: then the best hypothesis is the same however a
    library decides when to stop.

    Args:
        engine: Dragoman's side.
        vocabulary: of Dragoman's side.
        other: the other side.
        sample: what to translate.
        language: the target language code, for BLEU.
        report: told now and then how far it is.

    Raises:
        DragomanError: both sides cut a sentence into other subwords, or one of them can take none.
    """
    whole = len(sample.sources)
    sample, ids = _cut_alike(vocabulary, other, sample)
    parity = Parity(other.name, len(ids), sample.name, "logits", 0.0, exact=other.exact, left_out=whole - len(ids))
    for beam in BEAMS:
        ours, there, endless = _search_both(engine, other, ids, beam, report)
        texts, other_texts = vocabulary.target.decode(ours), other.decode(there)
        ended = [place for place in range(len(ids)) if place not in endless]
        same = [place for place in ended if ours[place] == there[place]]
        differing = [place for place in ended if ours[place] != there[place]]
        unlike = [i for i in same if texts[i].strip() != other_texts[i].strip()]  # Marian's have no spaces there
        parity.tokenized_alike &= not unlike
        parity.identical[str(beam)], parity.endless[str(beam)] = len(same), len(endless)
        calls = [_closest_call(engine, ids[place], beam) for place in differing]
        kept_out = [call.kept_out and other.normalizes for call in calls]
        parity.forbidden[str(beam)] = sum(kept_out)
        parity.ties[str(beam)] = sum(call.margin < _TIE and not out for call, out in zip(calls, kept_out, strict=True))
        if sample.references is not None:
            scores = [evaluate(found, sample.references, language).bleu for found in (texts, other_texts)]
            parity.bleu[str(beam)] = [round(score, 2) for score in scores]
        for place in [*unlike, *differing][: 3 - len(parity.examples)]:
            example = {"source": sample.sources[place], "here": texts[place], "there": other_texts[place]}
            parity.examples.append(example | {"beam": str(beam)})
    _compare_numbers(engine, other, ids, ours, parity, report)
    parity.passed = _passes(parity)
    return parity


def _cut_alike(vocabulary: Vocabulary, other: OtherSide, sample: Sample) -> tuple[Sample, list[list[int]]]:
    """The sentences that both sides can take, and their ids; MarianTokenizer takes none that spell its own symbols."""
    ours = [[*found, EOS] for found in vocabulary.source.encode(sample.sources)]
    taken: list[int] = []
    for place, (line, here, there) in enumerate(zip(sample.sources, ours, other.encode(sample.sources), strict=True)):
        if here == there:
            taken.append(place)
        elif not _SPELLS_SYMBOL.search(line):
            first = next((i for i, (one, two) in enumerate(zip(here, there, strict=False)) if one != two), len(here))
            parts = [" ".join(vocabulary.source.pieces(ids[first : first + 5])) for ids in (here, there)]
            raise DragomanError(
                f"the two tokenizers do not agree, so nothing was written: {line!r} goes on, after {first} subwords, "
                f"with {parts[0]!r} here and {parts[1]!r} there"
            )
    if not taken:
        raise DragomanError(f"{sample.name}: all lines spell symbols such as {SPECIALS[1]}; name a text with --valid")
    references = sample.references and [sample.references[place] for place in taken]
    return Sample([sample.sources[place] for place in taken], references, sample.name), [ours[place] for place in taken]


def _search_both(
    engine: Engine, other: OtherSide, sources: list[list[int]], beam: int, report: Report
) -> tuple[list[list[int]], list[list[int]], set[int]]:
    """The best hypotheses of both sides, and the places of those without an end.

    Sentences of one length go together, so that all have the same limit.
    """
    ours: dict[int, list[int]] = {}
    theirs: dict[int, list[int]] = {}
    endless: set[int] = set()
    config = SearchConfig(beam=beam, length_penalty=0.0)
    tell = NowAndThen(report)
    for length in sorted({len(source) for source in sources}):
        places = [place for place, source in enumerate(sources) if len(source) == length]
        batch = [sources[place] for place in places]
        limit = min(length + config.max_length, engine.config.max_length - 1)
        ours.update(zip(places, (found[0].tokens for found in engine.search(batch, config)), strict=True))
        theirs.update(zip(places, other.search(batch, beam, limit), strict=True))
        endless |= {place for place in places if min(len(ours[place]), len(theirs[place])) >= limit}
        tell(f"  beam {beam}: {len(ours):,} of {len(sources):,} sentences")
    everyone = range(len(sources))
    return [ours[place] for place in everyone], [theirs[place] for place in everyone], endless


def _compare_numbers(
    engine: Engine, other: OtherSide, sources: list[list[int]], targets: list[list[int]], parity: Parity, report: Report
) -> None:
    """The largest difference along the translations."""
    tell = NowAndThen(report)
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        tell(f"  numbers along the translations: {number:,} of {len(sources):,} sentences")
        there = other.forced(source, [*target, EOS])
        here = engine.logits([source], [[*target, EOS]])[0, : len(target) + 1].cpu()  # without padding
        if there.ndim == 1:
            parity.logits = "log-probabilities"
            chosen = torch.tensor([*target, EOS])[:, None]
            here = here.log_softmax(dim=1).gather(1, chosen)[:, 0]
        differences = (here - torch.from_numpy(there)).abs().nan_to_num(nan=math.inf)
        if there.ndim == 2:
            differences[:, list(other.absent)] = 0.0
        parity.largest_difference = max(parity.largest_difference, float(differences.max()))


class _ClosestCall:
    """A rule that forbids nothing and watches, for one sentence, by how little candidates were told apart."""

    def __init__(self, beam: int) -> None:
        """Begin with nothing seen."""
        self.margin = float("inf")
        """Smallest difference, in nats, between a candidate that a step took and one that it left out."""
        self.kept_out = False
        """Whether a symbol that is never written would have been taken."""
        self._beam = beam
        self._scores: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """Look at the hypotheses (N, T) and what may follow them (N, V); returns the logits as they are."""
        hypotheses = [tuple(row) for row in tokens.tolist()]
        before = [self._scores[h[:-1]][h[-1]] if h else torch.zeros(()) for h in hypotheses]
        scores = torch.stack(before).cpu()[:, None] + logits.float().log_softmax(dim=1).cpu()  # (N, V)
        self._scores = dict(zip(hypotheses, scores, strict=True))
        going_on = scores.clone()
        going_on[:, EOS] = -math.inf
        first = going_on.flatten().topk(min(self._beam, going_on.numel())).indices % going_on.size(1)
        self.kept_out |= bool(torch.isin(first, torch.tensor(NEVER_WRITTEN.tokens)).any())
        for candidates in (scores.clone(), going_on):
            candidates[:, list(NEVER_WRITTEN.tokens)] = -math.inf
            best = candidates.flatten().topk(min(self._beam + 1, candidates.numel())).values
            if len(best) > self._beam:
                self.margin = min(self.margin, float(best[-2] - best[-1]))
        return logits


def _closest_call(engine: Engine, source: list[int], beam: int) -> _ClosestCall:
    """How the search for one sentence took one candidate and left another."""
    watch = _ClosestCall(beam)
    found = engine.search([source], SearchConfig(beam=beam, n_best=beam, length_penalty=0.0), watch)[0]
    finals = [first.score - second.score for first, second in pairwise(found[:2])]
    watch.margin = min([watch.margin, *finals])
    return watch


def _passes(parity: Parity) -> bool:
    if not parity.tokenized_alike:
        return False
    if not parity.exact:
        near = all(abs(here - there) <= _LARGEST_BLEU_DIFFERENCE for here, there in parity.bleu.values())
        return near and parity.largest_difference < _LARGEST_ROUNDING
    unexplained = max(
        parity.sentences - same - parity.endless[beam] - parity.ties[beam] - parity.forbidden[beam]
        for beam, same in parity.identical.items()
    )
    return parity.largest_difference < _LARGEST_DIFFERENCE and unexplained <= _MOST_WRONG * parity.sentences
