"""Ids in, hypotheses and probabilities out: a model at work, batch by batch.

Shapes: B sentences, W beam width, N = B * W hypotheses, S source length, T target length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from dragoman.config import BOS, PAD, ConfigError, DragomanError, ModelConfig, SearchConfig
from dragoman.inference.incremental import StepwiseDecoder, StepwiseState
from dragoman.inference.rules import NEVER_WRITTEN, MinLength, Rule
from dragoman.inference.search import Hypothesis, SearchState, log_sums, search
from dragoman.model.attention import AttentionMaps
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.text.batches import pad_right


class SearchEngine(Protocol):
    """What a Translator works with: Engine, or another library's implementation of the same model."""

    config: ModelConfig

    @property
    def computing(self) -> str:
        """What computes, and how, for people: a score depends on it a little."""

    def search(self, sources: list[list[int]], config: SearchConfig) -> list[list[Hypothesis]]:
        """As Engine.search."""

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        """As Engine.score."""

    def decoder(self) -> object:
        """What the search depends on: another object where weights have changed."""

    def batch_tokens(self, config: SearchConfig) -> int:
        """Budget of one batch of a search: sentences × longest source."""


class Engine:
    """A model that searches, and that reads given translations."""

    def __init__(self, model: Transformer, device: torch.device, autocast: bool) -> None:
        """Take a model that is on the device; autocast computes its matrix products in bf16."""
        self.model = model
        self.config = model.config
        self.device = device
        self.autocast = autocast
        self._made: tuple[tuple[list[tuple[int, int]], list[float]], StepwiseDecoder] | None = None

    @property
    def computing(self) -> str:
        """As SearchEngine.computing."""
        return f"torch {torch.__version__}, {'bf16' if self.autocast else 'fp32'} on {self.device.type}"

    @torch.inference_mode()
    def search(self, sources: list[list[int]], config: SearchConfig, *more_rules: Rule) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, best first; one batch.

        Args:
            sources: ids, each ending in EOS.
            config: beam, length penalty, …
            more_rules: applied before those that always apply.

        Raises:
            ConfigError: min_length is more than the model can write.
            DragomanError: the model computes no numbers.
        """
        with self._evaluating():
            source = self._padded(sources)
            source_mask = padding_mask(source, PAD)
            decoder = self.decoder()
            state = decoder.start(self.model.encode(source, source_mask), source_mask)
            longest = self.model.config.max_length - 1
            require_room(config, longest)
            max_lengths = [min(max(len(ids) + config.max_length, config.min_length), longest) for ids in sources]
            rules: list[Rule] = [*more_rules, NEVER_WRITTEN, MinLength(config.min_length)]

            def step(last: Tensor, state: SearchState) -> tuple[Tensor, Tensor]:
                assert isinstance(state, StepwiseState)
                logits = decoder.step(last, state)
                return logits, log_sums(logits)

            found = search(step, state, max_lengths, config, rules, self.device)
            if not all(found):
                raise DragomanError(
                    "the model computes no numbers (NaN) for a line: its weights are damaged or too large; take "
                    "another checkpoint"
                )
            return found

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        """The log-probability of each target given its source; ids, each ending in EOS; one batch."""
        logits, target_output = self.logits(sources, targets), self._padded(targets)
        chosen = logits.gather(2, target_output[:, :, None]).squeeze(2).float()  # (B, T)
        chosen -= log_sums(logits.flatten(0, 1)).view_as(chosen)  # one number for each of V
        return chosen.masked_fill(target_output == PAD, 0.0).cpu().double().sum(dim=1).tolist()

    @torch.inference_mode()
    def force(self, sources: list[list[int]], targets: list[list[int]]) -> tuple[Tensor, AttentionMaps]:
        """Log-probabilities (B, T, V) of every next token along the targets, and the attention weights; one batch."""
        maps: AttentionMaps = {}
        return self.logits(sources, targets, maps).log_softmax(dim=-1, dtype=torch.float32), maps

    @torch.inference_mode()
    def logits(self, sources: list[list[int]], targets: list[list[int]], maps: AttentionMaps | None = None) -> Tensor:
        """Logits (B, T, V) of every next token along the targets; one batch; maps take the attention weights."""
        with self._evaluating():
            return self.model(*self._teaching(sources, targets), maps)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def attention(self, sources: list[list[int]], targets: list[list[int]]) -> AttentionMaps:
        """The attention weights along the targets; one batch."""
        maps: AttentionMaps = {}
        with self._evaluating():
            self.model.states(*self._teaching(sources, targets), maps)
        return maps

    def batch_tokens(self, config: SearchConfig) -> int:
        """Budget of one batch of a search: sentences × longest source."""
        return max(1, config.batch_tokens // config.beam)

    def _teaching(self, sources: list[list[int]], targets: list[list[int]]) -> tuple[Tensor, Tensor]:
        """What teacher forcing shows the model: (B, S), (B, T)."""
        return self._padded(sources), self._padded([[BOS, *ids[:-1]] for ids in targets])

    def _padded(self, sentences: list[list[int]]) -> Tensor:
        """The sentences (B, longest); rounded up to a multiple, the length may be more than the model takes."""
        return torch.from_numpy(pad_right(sentences, self.model.config.max_length)).to(self.device)

    def decoder(self) -> StepwiseDecoder:
        """The model's decoder as it is now: made again where weights have changed since."""
        weights = [parameter.detach() for parameter in self.model.parameters()]
        # A look at one number of each, too: fused optimizers change weights without counting versions, and those made
        # in inference mode have none.
        seen = [(weight.data_ptr(), 0 if weight.is_inference() else weight._version) for weight in weights]
        numbers = torch.stack([weight.view(-1)[0].float() for weight in weights]).tolist()
        if self._made is None or self._made[0] != (seen, numbers):
            dtype = torch.bfloat16 if self.autocast else torch.float32
            self._made = (seen, numbers), StepwiseDecoder(self.model, dtype)
        return self._made[1]

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Dropout off, and bf16 where asked for; a model in training goes back to it."""
        was_training = self.model.training
        if was_training:
            self.model.eval()
        try:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
                yield
        finally:
            if was_training:
                self.model.train()


def require_room(config: SearchConfig, longest: int) -> None:
    """Raise ConfigError unless a translation of the shortest length asked for fits into the longest possible."""
    if config.min_length > longest:
        raise ConfigError(f"min_length is {config.min_length}, but the model writes at most {longest} subwords")
