"""What a run learns about itself: loss and accuracy on the validation text, and translations of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from dragoman.model.transformer import Transformer
from dragoman.runtime.allocator import is_out_of_memory
from dragoman.text.batches import Batch, collate, plan_in_order
from dragoman.text.dataset import TokenStore
from dragoman.training.diagnostics import Health, examine_translations, unigram_loss
from dragoman.training.distributed import Processes
from dragoman.training.loss import measure


@dataclass(frozen=True)
class Validation:
    """Translations of the validation text, and what they are worth."""

    scores: dict[str, float]
    """bleu and chrf, 0 to 100."""
    signatures: dict[str, str]
    sources: Sequence[str] = ()
    references: Sequence[str] = ()
    translations: Sequence[str] = ()
    reference_ids: Sequence[Sequence[int]] = ()
    """Target subwords of each reference."""
    translation_ids: Sequence[Sequence[int]] = ()

    def health(self, forced_accuracy: float, gradient_norm: float) -> Health | None:
        """How healthy the translations are; None where there are none."""
        if not self.translations:
            return None
        return examine_translations(
            self.sources,
            self.references,
            self.translations,
            self.reference_ids,
            self.translation_ids,
            forced_accuracy,
            gradient_norm,
        )


Validate = Callable[[Transformer, bool], Validation]
"""Translates the validation text, with matrix products in bf16 or not; given by the command line, because training
knows nothing of inference."""


@dataclass(frozen=True)
class Measurement:
    """A model's scores on the validation text."""

    scores: dict[str, float]
    """loss (nats per target token, without smoothing), bleu, chrf."""
    accuracy: float
    """Share of the target tokens that are the most probable ones under teacher forcing."""
    validation: Validation = field(repr=False)


class Validator:
    """Measures models on the validation text, together with the other processes of the run."""

    def __init__(
        self, store: TokenStore, batch_tokens: int, bf16: bool, validate: Validate, processes: Processes
    ) -> None:
        """Get ready.

        Args:
            store: the validation text.
            batch_tokens: budget of one batch.
            bf16: compute matrix products in bf16.
            validate: translates the text; each process calls it.
            processes: that share the work.
        """
        self._store, self._batch_tokens, self._bf16 = store, batch_tokens, bf16
        self._validate, self._processes = validate, processes

    def measure(self, model: Transformer) -> Measurement:
        """Scores of a model."""
        loss, accuracy = self._measure_forced(model)
        validation = self._validate(model, self._bf16)
        return Measurement({"loss": loss} | validation.scores, accuracy, validation)

    def unigram_loss(self) -> float:
        """What guessing the validation text by the frequency of its subwords costs, in nats per target token."""
        return unigram_loss(np.bincount(np.concatenate([self._store.target(i) for i in range(len(self._store))])))

    @torch.no_grad()
    def _measure_forced(self, model: Transformer) -> tuple[float, float]:
        """Cross-entropy in nats per target token and accuracy, under teacher forcing."""
        model.eval()
        limit = model.config.max_length
        longest = np.maximum(self._store.source_lengths, self._store.target_lengths)
        sums = (0.0, 0.0, 0.0)
        for indices in self._processes.share(plan_in_order(longest, self._batch_tokens)):
            sums = _add(sums, self._sums(model, collate(self._store, indices, limit)))
        loss_sum, num_correct, num_tokens = self._processes.total(sums)
        return loss_sum / num_tokens, num_correct / num_tokens

    def _sums(self, model: Transformer, batch: Batch) -> _Sums:
        """Loss, right guesses and target tokens of a batch; where memory is short, of one half after the other."""
        device, sentences = next(model.parameters()).device, len(batch.source)
        try:
            ids = [torch.from_numpy(x).to(device) for x in (batch.source, batch.target_input, batch.target_output)]
            with torch.autocast(device.type, torch.bfloat16, enabled=self._bf16):
                loss, correct = measure(model, *ids)
            return float(loss), float(correct), batch.num_tokens
        except RuntimeError as error:
            if not is_out_of_memory(error) or sentences == 1:
                raise
        half = sentences // 2  # outside the handler, which holds on to the tensors of the failed attempt
        return _add(self._sums(model, batch.rows(0, half)), self._sums(model, batch.rows(half, sentences)))


_Sums = tuple[float, float, float]


def _add(first: _Sums, second: _Sums) -> _Sums:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]
