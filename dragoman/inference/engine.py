"""The model at work on ids, one batch at a time: searching for translations and scoring given ones.

Shapes: B sentences, W beam width, N = B * W hypotheses, T target length, V vocabulary.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from dragoman.config import BOS, PAD, DragomanError, SearchConfig
from dragoman.inference.alignment import Array
from dragoman.inference.hypotheses import Hypothesis, length_limits
from dragoman.inference.rules import Rule, rules_of
from dragoman.inference.search import SearchState, log_sums, search
from dragoman.model.attention import AttentionMaps
from dragoman.model.layers import LayerCache
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.text.batches import pad_right


class DecoderState:
    """What a search remembers: the decoder's cache and which source ids are real, of each hypothesis."""

    def __init__(self, model: Transformer, source: Tensor) -> None:
        """Encode source ids (B, S), padded; each sentence begins with one empty hypothesis."""
        self._model, self.source_mask = model, padding_mask(source, PAD)
        self._memory = model.encode(source, self.source_mask)
        self.layers: list[LayerCache] = model.start_cache(self._memory)

    def step(self, last: Tensor) -> Tensor:
        """Logits (N, V) of the next token after last, ids (N)."""
        return self._model.decode(last[:, None], self._memory, self.source_mask, self.layers)[:, 0]

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        """As SearchState.select. The hypotheses of a sentence have the same source, which moves only with sentences."""
        is_moved = sentences is not None or len(hypotheses) != len(self.source_mask)
        for layer in self.layers:
            layer.past.select(hypotheses)
            if is_moved:
                layer.memory_keys = layer.memory_keys.index_select(0, hypotheses)
                layer.memory_values = layer.memory_values.index_select(0, hypotheses)
        if is_moved:
            self.source_mask = self.source_mask.index_select(0, hypotheses)


class EnsembleState:
    """The states of several models, whose probabilities are averaged."""

    def __init__(self, states: Sequence[DecoderState]) -> None:
        self._states = states

    def step(self, last: Tensor) -> Tensor:
        """Logarithm of the mean probability (N, V) of the next token after last, ids (N)."""
        log_probs = torch.stack([state.step(last).float().log_softmax(dim=1) for state in self._states])
        return log_probs.logsumexp(dim=0) - math.log(len(self._states))

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        """As SearchState.select."""
        for state in self._states:
            state.select(hypotheses, sentences)


class Engine:
    """A PyTorch model that searches, and that reads given translations."""

    def __init__(
        self, model: Transformer, device: torch.device | str, autocast: bool, ensemble: Sequence[Transformer] = ()
    ) -> None:
        """Move models to the device; autocast computes their products in bf16.

        A search averages the model's probabilities and those of the ensemble, which has the same subwords.
        """
        self.model, self.config, self.device, self.autocast = model, model.config, torch.device(device), autocast
        model.to(self.device)
        self._ensemble = [other.to(self.device).eval() for other in ensemble]
        self.forced_tokens, self.aligned_tokens = 4096, 2048  # budgets of a batch of pairs; of one with all attention

    @property
    def computing(self) -> str:
        """Library, precision and device, for people: scores depend on them a little."""
        models = f", {1 + len(self._ensemble)} models" if self._ensemble else ""
        return f"torch {torch.__version__}, {'bf16' if self.autocast else 'fp32'} on {self.device.type}{models}"

    @torch.inference_mode()
    def search(
        self, sources: list[list[int]], config: SearchConfig, *more_rules: Rule, seeds: Sequence[int] = ()
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source (ids, each ending in EOS), best first; one batch.

        With config.sampling, one hypothesis is drawn for each, by its seed. more_rules are applied before the ordinary
        ones. A model that computes NaN is a DragomanError.
        """
        if config.sampling:
            config = replace(config, beam=1, n_best=1)
        limits = length_limits(sources, config, self.config.max_length)
        with self._evaluating():
            states = [DecoderState(model, self._padded(sources)) for model in (self.model, *self._ensemble)]
            start = EnsembleState(states) if self._ensemble else states[0]
            rules = [*more_rules, *rules_of(config, seeds or range(len(sources)))]
            found = search(_step, start, limits, config, rules, self.device)
        if not all(found):
            raise DragomanError("the model computes NaN: its weights are damaged or too large; take another checkpoint")
        return found

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        """The log-probability of each target given its source; ids, each ending in EOS; one batch."""
        logits, target_output = self.logits(sources, targets), self._padded(targets)
        chosen = logits.gather(2, target_output[:, :, None]).squeeze(2).float()  # (B, T)
        chosen -= log_sums(logits.flatten(0, 1)).view_as(chosen)
        return chosen.masked_fill(target_output == PAD, 0.0).cpu().double().sum(dim=1).tolist()

    @torch.inference_mode()
    def logits(self, sources: list[list[int]], targets: list[list[int]], maps: AttentionMaps | None = None) -> Tensor:
        """Logits (B, T, V) of every next token along the targets; one batch; maps take the attention weights."""
        with self._evaluating():
            return self.model(*self._teacher_forcing(sources, targets), maps)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def cross_attention(self, sources: list[list[int]], targets: list[list[int]], layer: int) -> list[Array]:
        """The weights (H, T, S) of one decoder layer along each target, padded; ids, each ending in EOS; one batch."""
        maps: AttentionMaps = {}
        with self._evaluating():
            self.model.states(*self._teacher_forcing(sources, targets), maps)
        return list(maps[f"decoder.{layer}.cross_attention"].float().cpu().numpy())

    def batch_tokens(self, config: SearchConfig) -> int:
        """Budget of one batch of a search: sentences × longest source."""
        return max(1, config.batch_tokens // config.beam)

    def _teacher_forcing(self, sources: list[list[int]], targets: list[list[int]]) -> tuple[Tensor, Tensor]:
        return self._padded(sources), self._padded([[BOS, *ids[:-1]] for ids in targets])

    def _padded(self, sentences: list[list[int]]) -> Tensor:
        return torch.from_numpy(pad_right(sentences, self.config.max_length)).to(self.device)  # (B, longest)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Dropout off, and bf16 if asked for; a model in training returns to it."""
        was_training = self.model.training
        self.model.eval()
        try:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
                yield
        finally:
            self.model.train(was_training)


def _step(last: Tensor, state: SearchState) -> tuple[Tensor, Tensor]:
    assert isinstance(state, DecoderState | EnsembleState)
    logits = state.step(last)
    return logits, log_sums(logits)
