"""The proof of an export or import: both sides translate the same sentences, and their answers are compared.

Shapes: T target length, V vocabulary, N hypotheses.
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
from dragoman.interop.sample import Sample
from dragoman.runtime.console import NowAndThen, Report
from dragoman.text.subwords import SPECIALS, Vocabulary

BEAMS = (1, 4)
_TIE = 2e-3  # nats: candidates so close that another order of summation may choose the other one
_MAX_DIFFERENCE = 1e-3  # of a logit, if both sides compute in float32: 50 times what sound exports have shown
_MAX_ROUNDING = 5.0  # of a log-probability, and
_MAX_BLEU_DIFFERENCE = 2.0  # if weights are quantized: more than that is not rounding
_MAX_WRONG = 0.001  # share of the lines that may differ by more than a tie
_SPELLS_SYMBOL = re.compile(r"<unk>|<pad>|</?s>|^\s*>>.+<<")
Array = np.ndarray[Any, np.dtype[np.float32]]


class Backend(Protocol):
    """An exported model, or the one to import, run by the library that it is for."""

    name: str
    """The library and its version."""
    exact: bool
    """Whether it computes in float32, so that its answers must be the same."""
    absent: Sequence[int]
    """Target subwords that only Dragoman has: their logits are not compared."""
    renormalizes: bool
    """Whether the other probabilities add up to 1 again after it forbids a symbol."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Raw source lines to ids, each ending in EOS, by its own tokenizer."""

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """Ids, without EOS, to raw target lines, by its own tokenizer."""

    def search(self, sources: list[list[int]], beam: int, limit: int) -> list[list[int]]:
        """The most probable hypothesis of each source, without EOS; at most `limit` subwords."""

    def forced(self, source: list[int], target: list[int]) -> Array:
        """Logits (T, V) along a target that ends in EOS; log-probabilities (T) if the library tells no logits."""


class SubwordTokenizer:
    """The tokenizer of libraries that have none: the subword models in the exported folder."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Take the vocabulary of the exported folder."""
        self.vocabulary = vocabulary

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """As Backend.encode."""
        return [[*ids, EOS] for ids in self.vocabulary.source.encode(lines)]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """As Backend.decode."""
        return self.vocabulary.target.decode(sentences)


@dataclass
class Parity:
    """The result of the comparison; `parity.json` holds its fields."""

    other: str
    """The library and its version."""
    sentences: int
    text: str
    """Where the sentences are from."""
    logits: str = "logits"
    """What was compared along the translations: "logits" or "log-probabilities"."""
    largest_difference: float = 0.0
    """Between those of both sides, absolute."""
    identical: dict[str, int] = field(default_factory=dict)
    """Sentences with the same subwords, by beam."""
    endless: dict[str, int] = field(default_factory=dict)
    """Sentences whose translations reach the greatest length on both sides, as before a model has learned to end them;
    whether they are the same says nothing."""
    ties: dict[str, int] = field(default_factory=dict)
    """Sentences that differ after a choice between candidates less than 0.002 nats apart."""
    forbidden: dict[str, int] = field(default_factory=dict)
    """Sentences that differ after the search met a symbol that is never written, such as <unk>, and the other side
    renormalised the rest."""
    bleu: dict[str, list[float]] = field(default_factory=dict)
    """BLEU of Dragoman and of the other side, by beam, if there are references."""
    tokenized_alike: bool = True
    """Whether both tokenizers join all identical translations to the same text, except for spaces at its ends."""
    examples: list[dict[str, str]] = field(default_factory=list)
    """The first few sentences that differ."""
    exact: bool = True
    """Whether both sides compute in float32, so that their answers must be the same."""
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
            ended = self.sentences - self.endless[beam]
            words = f"  beam {beam}: {count:,} of {ended:,} translations identical"
            words += f" ({self.endless[beam]:,} more without an end)" if self.endless[beam] else ""
            if count < ended and self.exact:
                words += f"; {self.ties[beam]:,} of the other {ended - count:,} decided by a tie"
                words += f", {self.forbidden[beam]:,} by keeping out <unk>" if self.forbidden[beam] else ""
            bleu = self.bleu.get(beam)
            found.append(words + (f"; BLEU {bleu[0]:.2f} here, {bleu[1]:.2f} there" if bleu else ""))
        return [*found, "  passed" if self.passed else "  FAILED"]

    def passes(self) -> bool:
        """Whether both sides agree."""
        if not self.tokenized_alike:
            return False
        if not self.exact:
            near = all(abs(here - there) <= _MAX_BLEU_DIFFERENCE for here, there in self.bleu.values())
            return near and self.largest_difference < _MAX_ROUNDING
        unexplained = max(
            self.sentences - same - self.endless[beam] - self.ties[beam] - self.forbidden[beam]
            for beam, same in self.identical.items()
        )
        return self.largest_difference < _MAX_DIFFERENCE and unexplained <= _MAX_WRONG * self.sentences


def prove(
    engine: Engine,
    vocabulary: Vocabulary,
    other: Backend,
    sample: Sample,
    language: str,
    report: Report = lambda line: None,
) -> Parity:
    """Compare both sides.

    Both search with the same limits and without a length penalty: the best hypothesis is then the same, however a
    library decides when to stop.

    Args:
        engine: Dragoman's side.
        vocabulary: of Dragoman's side.
        other: the other side.
        sample: what to translate.
        language: the target language code, for BLEU.
        report: called now and then with a line about the progress.

    Raises:
        DragomanError: the sides cut a sentence into different subwords, or the other one takes no sentence.
    """
    whole = len(sample.sources)
    sample, ids = _cut_alike(vocabulary, other, sample)
    parity = Parity(other.name, len(ids), sample.name, exact=other.exact, left_out=whole - len(ids))
    for beam in BEAMS:
        ours, theirs, endless = _search_both(engine, other, ids, beam, report)
        texts, other_texts = vocabulary.target.decode(ours), other.decode(theirs)
        same = [place for place in range(len(ids)) if place not in endless and ours[place] == theirs[place]]
        differing = [place for place in range(len(ids)) if place not in endless and ours[place] != theirs[place]]
        unlike = [place for place in same if texts[place].strip() != other_texts[place].strip()]
        parity.tokenized_alike &= not unlike
        parity.identical[str(beam)], parity.endless[str(beam)] = len(same), len(endless)
        calls = [_closest_call(engine, ids[place], beam) for place in differing]
        kept_out = [call.kept_out and other.renormalizes for call in calls]
        parity.forbidden[str(beam)] = sum(kept_out)
        parity.ties[str(beam)] = sum(call.margin < _TIE and not out for call, out in zip(calls, kept_out, strict=True))
        if sample.references is not None:
            scores = [evaluate(found, sample.references, language).bleu for found in (texts, other_texts)]
            parity.bleu[str(beam)] = [round(score, 2) for score in scores]
        for place in [*unlike, *differing][: 3 - len(parity.examples)]:
            example = {"source": sample.sources[place], "here": texts[place], "there": other_texts[place]}
            parity.examples.append(example | {"beam": str(beam)})
    _compare_numbers(engine, other, ids, ours, parity, report)
    parity.passed = parity.passes()
    return parity


def _cut_alike(vocabulary: Vocabulary, other: Backend, sample: Sample) -> tuple[Sample, list[list[int]]]:
    """The sentences that both sides take, and their ids; MarianTokenizer takes none that spell its own symbols."""
    ours = [[*found, EOS] for found in vocabulary.source.encode(sample.sources)]
    taken: list[int] = []
    for place, (line, here, there) in enumerate(zip(sample.sources, ours, other.encode(sample.sources), strict=True)):
        if here == there:
            taken.append(place)
        elif not _SPELLS_SYMBOL.search(line):
            first = next((i for i, pair in enumerate(zip(here, there, strict=False)) if len({*pair}) > 1), len(here))
            parts = [" ".join(vocabulary.source.pieces(ids[first : first + 5])) for ids in (here, there)]
            raise DragomanError(
                f"the two tokenizers do not agree, so nothing was written: {line!r} continues, after {first} subwords, "
                f"with {parts[0]!r} here and {parts[1]!r} there"
            )
    if not taken:
        raise DragomanError(
            f"{sample.name}: all lines spell symbols such as {SPECIALS[1]}; pass --valid to name a text"
        )
    references = sample.references and [sample.references[place] for place in taken]
    return Sample([sample.sources[place] for place in taken], references, sample.name), [ours[place] for place in taken]


def _search_both(
    engine: Engine, other: Backend, sources: list[list[int]], beam: int, report: Report
) -> tuple[list[list[int]], list[list[int]], set[int]]:
    """The best hypotheses of both sides, and the places of those without an end.

    Sentences of one length are searched together, so that all have the same limit.
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
    return [ours[place] for place in range(len(sources))], [theirs[place] for place in range(len(sources))], endless


def _compare_numbers(
    engine: Engine, other: Backend, sources: list[list[int]], targets: list[list[int]], parity: Parity, report: Report
) -> None:
    """Set the largest difference along the translations."""
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
    """A search rule that forbids nothing and watches, for one sentence, how close the candidates were."""

    def __init__(self, beam: int) -> None:
        self.margin = math.inf
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
        unended = scores.clone()
        unended[:, EOS] = -math.inf
        first = unended.flatten().topk(min(self._beam, unended.numel())).indices % unended.size(1)
        self.kept_out |= bool(torch.isin(first, torch.tensor(NEVER_WRITTEN.tokens)).any())
        for candidates in (scores.clone(), unended):
            candidates[:, list(NEVER_WRITTEN.tokens)] = -math.inf
            best = candidates.flatten().topk(min(self._beam + 1, candidates.numel())).values
            if len(best) > self._beam:
                self.margin = min(self.margin, float(best[-2] - best[-1]))
        return logits


def _closest_call(engine: Engine, source: list[int], beam: int) -> _ClosestCall:
    """How close the choices of the search for one sentence were, the one among the finished hypotheses included."""
    watch = _ClosestCall(beam)
    found = engine.search([source], SearchConfig(beam=beam, n_best=beam, length_penalty=0.0), watch)[0]
    finals = [first.score - second.score for first, second in pairwise(found[:2])]
    watch.margin = min([watch.margin, *finals])
    return watch
