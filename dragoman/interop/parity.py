"""The proof of an export or import: both sides translate the same sentences, and their answers are compared.

Shapes: T target length, V vocabulary, N hypotheses.
"""

import math
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.checkpoint import ModelFolder
from dragoman.config import EOS, HELD_OUT, DragomanError, SearchConfig
from dragoman.evaluation.scores import evaluate
from dragoman.folder import run_settings
from dragoman.inference.engine import Engine
from dragoman.inference.hypotheses import NEVER_WRITTEN, length_limits
from dragoman.runtime.console import NowAndThen, say
from dragoman.text.corpus import read_pairs
from dragoman.text.subwords import SPECIALS, Vocabulary

BEAMS = (1, 4)
_TIE = 2e-3  # nats: candidates so close that another order of summation may choose the other one
_MAX_DIFFERENCE = 1e-3  # of a logit, if both sides compute in float32: 50 times what sound exports have shown
_MAX_ROUNDING = 5.0  # of a log-probability, and
_MAX_BLEU_DIFFERENCE = 2.0  # if weights are quantized: more than that is not rounding
_MAX_WRONG = 0.001  # share of the lines that may differ by more than a tie
_SPELLS_SYMBOL = re.compile(r"<unk>|<pad>|</?s>|^\s*>>.+<<")
_RANDOM_LENGTHS = (3, 20)  # subwords of a random line
_TRIES_PER_LINE = 100
_SENTENCES_AT_ONCE = 16
_MORE_THAN_SOURCE = 20  # subwords that a translation may have: far more have those without an end, which say nothing
Array = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class Sample:
    """The sentences of a proof, and where they are from."""

    sources: list[str]
    references: list[str] | None
    name: str


def choose_sample(loaded: ModelFolder, folder: Path, texts: Sequence[str], count: int) -> Sample:
    """At most `count` sentences that fit the model: of the texts, of its run's validation text, or random subwords."""
    texts, most = texts or _validation_text(folder), loaded.model.config.max_length - 1
    if not texts:
        say("no text to compare on, so the proof uses random subwords; pass --valid to name a text")
        return Sample(random_lines(loaded.vocabulary, count, most), None, "random subwords")
    pairs = read_pairs(texts, loaded.direction.source, loaded.direction.target)
    usable = (
        (source, target)
        for source, target in pairs
        if source.strip() and target.strip() and len(loaded.vocabulary.source.encode([source])[0]) < most
    )
    if not (found := list(islice(usable, count))):
        raise DragomanError(f"{', '.join(texts)}: no sentences that the model could translate")
    names = ", ".join(Path(text).name for text in texts)  # stands on the card, so without folders
    return Sample([source for source, _ in found], [target for _, target in found], names)


def _validation_text(folder: Path) -> list[str]:
    """The validation text of the run that trained the model; empty if it cannot be found."""
    try:
        settings = run_settings(folder)
        texts = [str(text) for text in settings["valid"] or [folder / HELD_OUT]]
        next(read_pairs(texts, settings["source"], settings["target"]))
    except (OSError, ValueError, KeyError, TypeError, StopIteration, DragomanError):
        return []
    return texts


def random_lines(vocabulary: Vocabulary, count: int, most: int) -> list[str]:
    """Lines of fewer than `most` random subwords, the same ones in every call; maybe fewer lines than `count`."""
    draw, source = random.Random(1), vocabulary.source
    every = range(len(SPECIALS), len(source))
    texts = source.decode([[token] for token in every])
    known = [token for token, text in zip(every, texts, strict=True) if text.strip() and _is_printable(text)]
    shortest, longest = (min(length, max(1, most - 1)) for length in _RANDOM_LENGTHS)
    drawn = (draw.choices(known, k=draw.randint(shortest, longest)) for _ in range(_TRIES_PER_LINE * count))
    lines = (" ".join(source.decode([tokens])[0].split()) for tokens in drawn)
    usable = (line for line in lines if line and _is_printable(line) and len(source.encode([line])[0]) < most)
    return list(islice(usable, count))


def _is_printable(text: str) -> bool:
    return text.isprintable() and "\ufffd" not in text  # a subword may be part of a character


class Backend(ABC):
    """An exported model, or the one to import, run by the library that it is for."""

    name: str  # of the library, with its version
    vocabulary: Vocabulary  # in the folder, for libraries that have no tokenizer of their own
    exact: bool = True  # whether it computes in float32, so that its answers must be the same
    absent: Sequence[int] = ()  # target subwords that only Dragoman has: their logits are not compared
    renormalizes: bool = False  # whether the other probabilities add up to 1 again after it forbids a symbol

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Raw source lines to ids, each ending in EOS."""
        return [[*ids, EOS] for ids in self.vocabulary.source.encode(lines)]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """Ids, without EOS, to raw target lines."""
        return self.vocabulary.target.decode(sentences)

    @abstractmethod
    def search(self, sources: list[list[int]], beam: int, limits: list[int]) -> list[list[int]]:
        """The most probable hypothesis of each source, without EOS and of at most so many subwords."""

    @abstractmethod
    def forced(self, source: list[int], target: list[int]) -> Array:
        """Logits (T, V) along a target that ends in EOS; log-probabilities (T) if the library tells no logits."""


@dataclass
class Parity:
    """The result of the comparison; `parity.json` holds its fields. Sentences are counted by beam."""

    other: str  # name of the library, with its version
    sentences: int
    text: str  # where the sentences are from
    logits: str = "logits"  # or "log-probabilities": what was compared along the translations
    largest_difference: float = 0.0  # between those of both sides, absolute
    identical: dict[str, int] = field(default_factory=dict)
    endless: dict[str, int] = field(default_factory=dict)  # both sides reach the greatest length, which says nothing
    ties: dict[str, int] = field(default_factory=dict)  # differ after a choice less than 0.002 nats apart
    forbidden: dict[str, int] = field(default_factory=dict)  # differ as the other side renormalised what <unk> left
    bleu: dict[str, list[float]] = field(default_factory=dict)  # of Dragoman and the other side
    tokenized_alike: bool = True  # both join all identical translations alike, except for spaces at their ends
    examples: list[dict[str, str]] = field(default_factory=list)  # the first few sentences that differ
    exact: bool = True  # as Backend.exact
    left_out: int = 0  # lines that spell a symbol such as <unk>, which the other tokenizer takes for the symbol itself
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


def prove(loaded: ModelFolder, other: Backend, sample: Sample) -> Parity:
    """Compare Dragoman's side with another one.

    Both search with the same limits and without a length penalty: the best hypothesis is then the same, however a
    library decides when to stop. Tokenizers that do not agree are a DragomanError.
    """
    engine = Engine(loaded.model, loaded.model.softmax.weight.device, autocast=False)
    whole, vocabulary = len(sample.sources), loaded.vocabulary
    sample, ids = _cut_alike(vocabulary, other, sample)
    parity = Parity(other.name, len(ids), sample.name, exact=other.exact, left_out=whole - len(ids))
    for beam in BEAMS:
        ours, theirs, endless = _search_both(engine, other, ids, beam)
        texts, other_texts = vocabulary.target.decode(ours), other.decode(theirs)
        ended = [place for place in range(len(ids)) if place not in endless]
        same = [place for place in ended if ours[place] == theirs[place]]
        differing = [place for place in ended if ours[place] != theirs[place]]
        # Libraries show bytes that are not UTF-8 differently.
        readable = [place for place in same if "\ufffd" not in texts[place]]
        unlike = [place for place in readable if texts[place].strip() != other_texts[place].strip()]
        parity.tokenized_alike &= not unlike
        parity.identical[str(beam)], parity.endless[str(beam)] = len(same), len(endless)
        calls = [_closest_call(engine, ids[place], beam) for place in differing if other.exact]
        kept_out = [call.kept_out and other.renormalizes for call in calls]
        parity.forbidden[str(beam)] = sum(kept_out)
        parity.ties[str(beam)] = sum(call.margin < _TIE and not out for call, out in zip(calls, kept_out, strict=True))
        if sample.references is not None:
            scores = (evaluate(found, sample.references, loaded.direction.target) for found in (texts, other_texts))
            parity.bleu[str(beam)] = [round(score["bleu"], 2) for score in scores]
        for place in [*unlike, *differing][: 3 - len(parity.examples)]:
            example = {"source": sample.sources[place], "here": texts[place], "there": other_texts[place]}
            parity.examples.append(example | {"beam": str(beam)})
    _compare_numbers(engine, other, ids, ours, parity)
    parity.passed = parity.passes()
    return parity


def _cut_alike(vocabulary: Vocabulary, other: Backend, sample: Sample) -> tuple[Sample, list[list[int]]]:
    """The sentences that both sides take (MarianTokenizer: none with its own symbols), and ids, shortest first."""
    ours = [[*found, EOS] for found in vocabulary.source.encode(sample.sources)]
    taken: list[int] = []
    for place, (line, here, there) in enumerate(zip(sample.sources, ours, other.encode(sample.sources), strict=True)):
        if here == there:
            taken.append(place)
        elif not _SPELLS_SYMBOL.search(line):
            raise DragomanError(f"the two tokenizers do not agree on {line!r}, so nothing was written")
    if not taken:
        raise DragomanError(f"{sample.name}: no lines that both sides can take; pass --valid to name a text")
    taken.sort(key=lambda place: len(ours[place]))
    references = sample.references and [sample.references[place] for place in taken]
    return Sample([sample.sources[place] for place in taken], references, sample.name), [ours[place] for place in taken]


def _search_both(
    engine: Engine, other: Backend, sources: list[list[int]], beam: int
) -> tuple[list[list[int]], list[list[int]], set[int]]:
    """The best hypotheses of both sides for sources sorted by length, and the places of those without an end."""
    ours: list[list[int]] = []
    theirs: list[list[int]] = []
    config = SearchConfig(beam=beam, length_penalty=0.0, max_length=_MORE_THAN_SOURCE)
    limits = length_limits(sources, config, engine.config.max_length)
    report = NowAndThen(say)
    for start in range(0, len(sources), _SENTENCES_AT_ONCE):
        batch = slice(start, start + _SENTENCES_AT_ONCE)
        ours += [found[0].tokens for found in engine.search(sources[batch], config)]
        theirs += other.search(sources[batch], beam, limits[batch])
        report(f"  beam {beam}: {len(ours):,} of {len(sources):,} sentences")
    both = zip(ours, theirs, limits, strict=True)
    endless = {place for place, (here, there, limit) in enumerate(both) if min(len(here), len(there)) >= limit}
    return ours, theirs, endless


def _compare_numbers(
    engine: Engine, other: Backend, sources: list[list[int]], targets: list[list[int]], parity: Parity
) -> None:
    """Set the largest difference along the translations."""
    report = NowAndThen(say)
    ended = [[*target, EOS] for target in targets]
    for start in range(0, len(sources), _SENTENCES_AT_ONCE):
        report(f"  numbers along the translations: {start:,} of {len(sources):,} sentences")
        batch = slice(start, start + _SENTENCES_AT_ONCE)
        logits = engine.logits(sources[batch], ended[batch]).cpu()
        for source, target, padded in zip(sources[batch], ended[batch], logits, strict=True):
            there, here = other.forced(source, target), padded[: len(target)]
            if there.ndim == 1:
                parity.logits = "log-probabilities"
                here = here.log_softmax(dim=1).gather(1, torch.tensor(target)[:, None])[:, 0]
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

    def __call__(self, logits: Tensor, tokens: Tensor, sentences: Sequence[int]) -> Tensor:
        """Look at the hypotheses (N, T) and what may follow them (N, V); returns the logits as they are."""
        hypotheses = [tuple(row) for row in tokens.tolist()]
        before = [self._scores[h[:-1]][h[-1]] if h else torch.zeros(()) for h in hypotheses]
        scores = torch.stack(before).cpu()[:, None] + logits.float().log_softmax(dim=1).cpu()  # (N, V)
        self._scores = dict(zip(hypotheses, scores, strict=True))
        unended = scores.clone()
        unended[:, EOS] = -math.inf
        first = unended.flatten().topk(min(self._beam, unended.numel())).indices % unended.size(1)
        self.kept_out |= bool(torch.isin(first, torch.tensor(NEVER_WRITTEN)).any())
        for candidates in (scores.clone(), unended):
            candidates[:, list(NEVER_WRITTEN)] = -math.inf
            best = candidates.flatten().topk(min(self._beam + 1, candidates.numel())).values
            if len(best) > self._beam:
                self.margin = min(self.margin, float(best[-2] - best[-1]))
        return logits


def _closest_call(engine: Engine, source: list[int], beam: int) -> _ClosestCall:
    """How close the choices of the search for one sentence were, also that among the finished hypotheses."""
    watch = _ClosestCall(beam)
    found = engine.search([source], SearchConfig(beam=beam, n_best=beam, length_penalty=0.0), watch)[0]
    finals = [first.score - second.score for first, second in pairwise(found[:2])]
    watch.margin = min([watch.margin, *finals])
    return watch
