"""What a hypothesis may contain.

Shapes: B sentences, N hypotheses, T tokens so far, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.config import EOS, SearchConfig
from dragoman.inference.hypotheses import NEVER_WRITTEN

Rule = Callable[[Tensor, Tensor, Sequence[int]], Tensor]
"""(logits (N, V), tokens so far (N, T), sentences (B)) -> logits (N, V), with -inf where a token may not follow; may
change its input. The sentences are places in the batch; each has the N / B hypotheses that stand side by side.

The remaining tokens are not normalised again: a hypothesis keeps the probability that the model gave it.
"""


def forbid_specials(logits: Tensor, tokens: Tensor, sentences: Sequence[int]) -> Tensor:
    """Never write <pad>, <unk> or <s>."""
    logits[:, list(NEVER_WRITTEN)] = -float("inf")
    return logits


@dataclass(frozen=True)
class MinLength:
    """Do not end before this many tokens, not counting the end."""

    length: int

    def __call__(self, logits: Tensor, tokens: Tensor, sentences: Sequence[int]) -> Tensor:
        if tokens.size(1) < self.length:
            logits[:, EOS] = -float("inf")
        return logits


@dataclass(frozen=True)
class Once:
    """Write each placeholder of a sentence exactly once, and no other: the first symbols, as many as it needs.

    Where a translation would end without one, the symbol takes the place of the end, and its probability. The limits
    are in tokens, the end not counted.
    """

    symbols: Sequence[int]
    needed: Sequence[int]
    limits: Sequence[int]

    def __call__(self, logits: Tensor, tokens: Tensor, sentences: Sequence[int]) -> Tensor:
        symbols, needed, limits = (
            torch.tensor(x, device=logits.device) for x in (self.symbols, self.needed, self.limits)
        )
        rows = torch.tensor(sentences, device=logits.device).repeat_interleave(len(logits) // len(sentences))
        written = (tokens[:, :, None] == symbols).any(dim=1)  # (N, number of symbols)
        missing = (torch.arange(len(symbols), device=logits.device) < needed[rows, None]) & ~written
        logits[:, symbols] = logits[:, symbols].masked_fill(~missing, -float("inf"))
        count, room = missing.sum(dim=1), limits[rows] - tokens.size(1)
        due = ((count > 0) & (room > 0)).nonzero().squeeze(1)
        first = symbols[missing[due].int().argmax(dim=1)]
        best = torch.maximum(logits[due, first], logits[due, EOS])
        logits[due, EOS] = -float("inf")
        logits[due[count[due] >= room[due]]] = -float("inf")  # nothing else fits
        logits[due, first] = best
        return logits


@dataclass(frozen=True)
class Begin:
    """Start each translation with a given text, in any subwords that spell it."""

    written: Sequence[str]
    """What each subword writes (SubwordModel.written)."""
    beginnings: Sequence[str]
    """The text for each sentence, spelt in the same way; empty where nothing is forced."""
    whole: bool = False
    """Whether a word must end where the text ends."""

    def __call__(self, logits: Tensor, tokens: Tensor, sentences: Sequence[int]) -> Tensor:
        if tokens.size(1) > max(map(len, self.beginnings)):
            return logits
        width, fitting = len(logits) // len(sentences), dict[str, list[int]]()
        for row, ids in enumerate(tokens.tolist()):
            beginning, length = self.beginnings[sentences[row // width]], sum(len(self.written[i]) for i in ids)
            rest = beginning[length:]
            if rest or (self.whole and 0 < length == len(beginning)):
                if rest not in fitting:
                    fitting[rest] = [i for i, text in enumerate(self.written) if self._fits(text, rest)]
                    fitting[rest] += [] if rest else [EOS]
                kept = logits[row, fitting[rest]]
                logits[row] = -float("inf")
                logits[row, fitting[rest]] = kept
        return logits

    def _fits(self, text: str, rest: str) -> bool:
        """Whether a subword that writes this text may come where this rest of the beginning is missing."""
        if not text or not text.startswith(rest):
            return bool(text) and rest.startswith(text)
        following = text[len(rest) :].encode("latin-1", "replace").decode("utf-8", "replace")
        return not (self.whole and following[:1].isalnum())


@dataclass(frozen=True)
class Sample:
    """Draw the next token of each hypothesis at random and forbid all others; the beam is 1.

    The tokens with the top_k greatest logits compete, of these the fewest with a probability of top_p (Holtzman et al.,
    2020), each with a chance in proportion to its probability to the power of 1 / temperature. The draws for a sentence
    come from a generator of its own, on the CPU, so they do not depend on the other sentences.
    """

    config: SearchConfig
    generators: Sequence[torch.Generator]

    def __call__(self, logits: Tensor, tokens: Tensor, sentences: Sequence[int]) -> Tensor:
        scaled, config = logits.float(), self.config
        if config.top_k:
            least = scaled.topk(min(config.top_k, scaled.size(1)), dim=1).values[:, -1:]
            scaled = scaled.masked_fill(scaled < least, -float("inf"))
        if config.top_p < 1:
            probabilities, order = scaled.softmax(dim=1).sort(dim=1, descending=True, stable=True)
            before = probabilities.cumsum(dim=1) - probabilities
            scaled = scaled.masked_fill((before >= config.top_p).gather(1, order.argsort(dim=1)), -float("inf"))
        # The first of exponential waiting times with these rates comes from each token with its probability.
        times = [torch.empty(scaled.size(1)).exponential_(generator=self.generators[i]) for i in sentences]
        waits = torch.stack(times).to(logits.device)
        drawn = ((scaled / config.sampling).softmax(dim=1) / waits).argmax(dim=1, keepdim=True)
        return torch.full_like(logits, -float("inf")).scatter(1, drawn, logits.gather(1, drawn))


def rules_of(config: SearchConfig, seeds: Sequence[int]) -> list[Rule]:
    """The rules that a search follows, in order; each sentence has a seed for what is drawn."""
    draws = [Sample(config, [torch.Generator().manual_seed(seed) for seed in seeds])] if config.sampling else []
    return [forbid_specials, MinLength(config.min_length), *draws]
