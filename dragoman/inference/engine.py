"""Ids in, hypotheses and probabilities out: a model at work, batch by batch.

Shapes: B sentences, W beam width, N = B * W hypotheses, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from dragoman.config import BOS, PAD, ConfigError, DragomanError, SearchConfig
from dragoman.inference.rules import NEVER_WRITTEN, MinLength, Rule
from dragoman.inference.search import Hypothesis, SearchState, search
from dragoman.model.attention import AttentionMaps
from dragoman.model.layers import DecoderCache
from dragoman.model.masks import padding_mask
from dragoman.model.memory import is_out_of_memory
from dragoman.model.transformer import Transformer
from dragoman.text.batches import pad_right, plan_in_order

Result = TypeVar("Result")


class TransformerState:
    """What the model remembers during the search: memory, mask and cache."""

    def __init__(self, memory: Tensor, source_mask: Tensor, cache: DecoderCache) -> None:
        """memory (B, S, D), source_mask (B, 1, 1, S)."""
        self.memory = memory
        self.source_mask = source_mask
        self.cache = cache

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        """Keep these hypotheses (N',) and sentences (B',), in this order."""
        self.cache.select_hypotheses(hypotheses)
        if sentences is not None:
            self.cache.select_sentences(sentences)
            self.memory = self.memory.index_select(0, sentences)
            self.source_mask = self.source_mask.index_select(0, sentences)


class Engine:
    """A model that searches, and that reads given translations."""

    def __init__(self, model: Transformer, device: torch.device, autocast: bool) -> None:
        """Take a model that is on the device; autocast computes its matrix products in bf16."""
        self.model = model
        self.device = device
        self.autocast = autocast

    @torch.inference_mode()
    def search(self, sources: list[list[int]], config: SearchConfig, *more_rules: Rule) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, best first; one batch.

        Args:
            sources: ids, each ending in EOS.
            config: beam, length penalty, …
            more_rules: beside those that always apply.

        Raises:
            ConfigError: min_length is more than the model can write.
            DragomanError: the model computes no numbers.
        """
        with self._evaluating():
            source = self._padded(sources)
            source_mask = padding_mask(source, PAD)
            memory = self.model.encode(source, source_mask)
            state = TransformerState(memory, source_mask, self.model.start_cache(memory))
            longest = self.model.config.max_length - 1
            _require_room(config, longest)
            max_lengths = [min(max(len(ids) + config.max_length, config.min_length), longest) for ids in sources]
            rules: list[Rule] = [NEVER_WRITTEN, MinLength(config.min_length), *more_rules]
            found = search(self._step, state, max_lengths, config, rules, self.device)
            if not all(found):
                raise DragomanError(
                    "the model computes no numbers (NaN) for a line: its weights are damaged or too large; take "
                    "another checkpoint"
                )
            return found

    def _step(self, last: Tensor, state: SearchState) -> Tensor:
        assert isinstance(state, TransformerState)
        logits = self.model.decode(last[:, None], state.memory, state.source_mask, state.cache)
        return logits[:, -1].log_softmax(dim=-1, dtype=torch.float32)  # (N, V)

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        """The log-probability of each target given its source; ids, each ending in EOS; one batch."""
        log_probs, _ = self.force(sources, targets, need_maps=False)
        target_output = self._padded(targets)
        chosen = log_probs.gather(2, target_output[:, :, None]).squeeze(2)  # (B, T)
        return chosen.masked_fill(target_output == PAD, 0.0).double().sum(dim=1).tolist()

    @torch.inference_mode()
    def force(
        self, sources: list[list[int]], targets: list[list[int]], need_maps: bool = True
    ) -> tuple[Tensor, AttentionMaps]:
        """Log-probabilities (B, T, V) of every next token along the targets, and the attention weights; one batch."""
        with self._evaluating():
            source = self._padded(sources)
            target_input = self._padded([[BOS, *ids[:-1]] for ids in targets])
            maps: AttentionMaps = {}
            logits = self.model(source, target_input, maps if need_maps else None)
            return logits.log_softmax(dim=-1, dtype=torch.float32), maps

    def _padded(self, sentences: list[list[int]]) -> Tensor:
        """The sentences (B, longest); rounded up to a multiple, the length may be more than the model takes."""
        return torch.from_numpy(pad_right(sentences, self.model.config.max_length)).to(self.device)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Dropout off, and bf16 where asked for; a model in training goes back to it."""
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
                yield
        finally:
            self.model.train(was_training)


def in_batches(
    compute: Callable[[list[int]], Sequence[Result]],
    lengths: Sequence[int],
    batch_tokens: int,
    cure: str,
    progress: Callable[[int], None] | None = None,
) -> list[Result]:
    """Compute something for every sentence; sentences of similar length go together.

    Where the memory does not suffice for a batch, it and those that wait are halved.

    Args:
        compute: the results of some sentences, given their places in lengths.
        lengths: of the sentences, in subwords.
        batch_tokens: budget of one batch: sentences × longest.
        cure: what helps when the memory does not suffice for one sentence alone.
        progress: called with the number of sentences that each batch had.

    Returns:
        The results, in the order of the lengths.

    Raises:
        DragomanError: the memory does not suffice for one sentence.
    """
    results: dict[int, Result] = {}
    waiting = [batch.tolist() for batch in plan_in_order(np.array(lengths, dtype=np.int64), batch_tokens)][::-1]
    while waiting:
        batch = waiting.pop()
        found = _unless_out_of_memory(compute, batch)
        if found is not None:
            results.update(zip(batch, found, strict=True))
            if progress is not None:
                progress(len(batch))
        elif len(batch) == 1:
            raise DragomanError(f"the memory does not suffice for a line of {lengths[batch[0]]:,} subwords: {cure}")
        else:
            waiting = [half for whole in (*waiting, batch) for half in _halves(whole)]
    return [results[place] for place in range(len(lengths))]


def _unless_out_of_memory(
    compute: Callable[[list[int]], Sequence[Result]], batch: list[int]
) -> Sequence[Result] | None:
    try:
        return compute(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    torch.cuda.empty_cache()  # after the except block, which holds on to what was computed so far
    return None


def _halves(batch: list[int]) -> list[list[int]]:
    """The shorter sentences and the longer ones: batches wait in the order in which they are taken from the end."""
    middle = -(-len(batch) // 2)
    return [half for half in (batch[middle:], batch[:middle]) if half]


def _require_room(config: SearchConfig, longest: int) -> None:
    if config.min_length > longest:
        raise ConfigError(f"min_length is {config.min_length}, but the model writes at most {longest} subwords")
