"""Beam search: the one decode loop (section 6.1). Greedy search is a beam of 1.

Shapes: B sentences, W beam width, N = B * W hypotheses (those of a sentence side by side), T tokens so far,
V vocabulary.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from dragoman.config import BOS, EOS, SearchConfig
from dragoman.inference.hypotheses import Hypothesis, length_penalty
from dragoman.inference.rules import Rule

_IMPOSSIBLE = -float("inf")
_CACHED = 2**16  # logits that a core's cache holds, with room for what is made of them


class SearchState(Protocol):
    """What a step function remembers about the hypotheses."""

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        """Keep these hypotheses (N',), in this order and perhaps repeated, and these sentences (B'), None for all."""


Step = Callable[[Tensor, SearchState], tuple[Tensor, Tensor]]
"""(last tokens (N,), state) -> logits (N, V) of the next token, and their log_sums (N,); moves the state on by one
position. Log-probabilities are the difference, which is computed only for a few tokens."""


@dataclass
class _Beam:
    """The sentences that are still searched, with their hypotheses."""

    width: int
    sentences: list[int]  # (B) which input each row of the beam translates
    limits: list[int]  # (B) most tokens, the end included
    scores: Tensor  # (B, W) log-probabilities so far
    tokens: Tensor  # (N, T)


def search(
    step: Step,
    state: SearchState,
    max_lengths: Sequence[int],
    config: SearchConfig,
    rules: Sequence[Rule] = (),
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """Find each sentence's n best hypotheses, those with the best scores, log P / lp; best first.

    Each step considers the 2 W best continuations of a sentence. Those of the first W that end are finished
    hypotheses; the best W of the others are continued. A sentence leaves the batch as soon as no open hypothesis can
    still reach the n best finished ones: log-probabilities only fall, so none can end with more than its present one
    divided by the penalty at the greatest length. Once W hypotheses have finished, the sentence leaves when none would
    beat the best of them by ending at the next step; with a beam of 1, which is greedy search, at once. Equal scores
    are ordered by hypothesis and token.

    The first step gets one BOS for each of the B sentences, on device. max_lengths (B) are the most tokens for each,
    not counting the end. The rules are applied to the logits in turn.
    """
    finished: list[list[Hypothesis]] = [[] for _ in max_lengths]
    beam = _Beam(
        width=1,
        sentences=list(range(len(max_lengths))),
        limits=[length + 1 for length in max_lengths],
        scores=torch.zeros(len(max_lengths), 1, device=device),
        tokens=torch.empty(len(max_lengths), 0, dtype=torch.long, device=device),
    )
    last = torch.full((len(max_lengths),), BOS, dtype=torch.long, device=device)
    while beam.sentences:
        logits, totals = step(last, state)
        logits = _ending_at_limit(beam, logits)
        for rule in rules:
            logits = rule(logits, beam.tokens, beam.sentences)
        scores, parents, tokens = _best_continuations(beam, logits, totals, 2 * config.beam)
        ends = (tokens == EOS) & (scores > _IMPOSSIBLE)
        _finish(beam, finished, scores, parents, ends[:, : config.beam], config.length_penalty)
        scores, order = scores.masked_fill(tokens == EOS, _IMPOSSIBLE).sort(dim=1, descending=True, stable=True)
        scores, order = scores[:, : config.beam], order[:, : config.beam]
        parents, tokens = parents.gather(1, order), tokens.gather(1, order)
        last = _advance(beam, state, finished, config, (scores, parents, tokens))
    return [sorted(hypotheses, key=lambda h: -h.score)[: config.n_best] for hypotheses in finished]


def log_sums(logits: Tensor) -> Tensor:
    """log Σ exp of each row of logits (N, V), which the logarithm of the softmax subtracts; (N,), in float32."""
    rows = max(1, _CACHED // logits.size(1)) if logits.device.type == "cpu" else len(logits)
    return torch.cat([block.float().logsumexp(dim=1) for block in torch.split(logits, rows)])


def _ending_at_limit(beam: _Beam, logits: Tensor) -> Tensor:
    """The logits (N, V), with nothing but the end where nothing else fits."""
    at_limit = [length == beam.tokens.size(1) + 1 for length in beam.limits]
    if any(at_limit):
        full = torch.tensor(at_limit, device=logits.device).repeat_interleave(beam.width)
        ends = logits[full, EOS]
        logits = logits.masked_fill(full[:, None], _IMPOSSIBLE)
        logits[full, EOS] = ends
    return logits


def _best_continuations(beam: _Beam, logits: Tensor, totals: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of each sentence: scores, parent hypotheses and tokens, (B, count) each."""
    batch, vocabulary = len(beam.sentences), logits.size(1)
    sums = (beam.scores - totals.view(batch, -1))[:, :, None] + logits.view(batch, beam.width, -1)  # (B, W, V)
    scores, flat = _stable_topk(sums.view(batch, -1), count)
    return scores, flat // vocabulary, flat % vocabulary


def _stable_topk(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The greatest values of each row, best first, and their columns; of equal values the first ones."""
    count = min(count, values.size(1))
    best, columns = values.topk(count, dim=1)
    last = best[:, -1:]
    tied = (last[:, 0] > _IMPOSSIBLE) & ((values >= last).sum(dim=1) > count)
    if tied.any():  # topk returns any of the values that are equal to the last one
        above, equal = values[tied] > last[tied], values[tied] == last[tied]
        kept = above | (equal & (equal.cumsum(dim=1) <= count - above.sum(dim=1, keepdim=True)))
        columns[tied] = kept.nonzero()[:, 1].view(-1, count)
    columns = columns.sort(dim=1).values
    best, order = values.gather(1, columns).sort(dim=1, descending=True, stable=True)
    return best, columns.gather(1, order)


def _finish(
    beam: _Beam, finished: list[list[Hypothesis]], scores: Tensor, parents: Tensor, ends: Tensor, alpha: float
) -> None:
    """Collect the continuations that end their hypothesis."""
    if not ends.any():
        return
    penalty = length_penalty(beam.tokens.size(1) + 1, alpha)
    rows, ranks = ends.nonzero(as_tuple=True)
    hypotheses = beam.tokens[rows * beam.width + parents[rows, ranks]].tolist()
    for row, log_prob, tokens in zip(rows.tolist(), scores[rows, ranks].tolist(), hypotheses, strict=True):
        finished[beam.sentences[row]].append(Hypothesis(tokens, log_prob, log_prob / penalty))


def _advance(
    beam: _Beam,
    state: SearchState,
    finished: list[list[Hypothesis]],
    config: SearchConfig,
    continuations: tuple[Tensor, Tensor, Tensor],
) -> Tensor:
    """Move the beam on to the continuations (B, W each) and drop finished sentences; return the last tokens."""
    scores, parents, tokens = continuations
    best = scores[:, 0].tolist()
    staying = [row for row in range(len(best)) if not _is_done(beam, row, best[row], finished, config)]
    rows = torch.tensor(staying, dtype=torch.long, device=scores.device)
    hypotheses = (rows[:, None] * beam.width + parents[rows]).reshape(-1)  # (B' * W)
    last = tokens[rows].reshape(-1)
    beam.width = scores.size(1)
    beam.sentences = [beam.sentences[row] for row in staying]
    beam.limits = [beam.limits[row] for row in staying]
    beam.scores = scores[rows]
    beam.tokens = torch.cat((beam.tokens[hypotheses], last[:, None]), dim=1)
    if staying:
        state.select(hypotheses, None if len(staying) == len(best) else rows)
    return last


def _is_done(beam: _Beam, row: int, best: float, finished: list[list[Hypothesis]], config: SearchConfig) -> bool:
    """Whether a sentence's search is over; best is the log-probability of its best open hypothesis."""
    hypotheses = finished[beam.sentences[row]]
    if best == _IMPOSSIBLE or math.isnan(best):
        return True
    if len(hypotheses) < config.n_best:
        return False
    # Counting finished hypotheses is not enough: a confident model fills a beam with hopeless endings. And the best
    # hypothesis must not depend on how many are asked for.
    if config.beam == 1:
        return True
    full = len(hypotheses) >= config.beam
    rank, length = (1, beam.tokens.size(1) + 2) if full else (config.n_best, beam.limits[row])
    reachable = best / length_penalty(length, config.length_penalty)
    return sorted(h.score for h in hypotheses)[-rank] >= reachable
