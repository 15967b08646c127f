"""Loss and accuracy of a model on the validation text, and its translations of it."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

import numpy as np
import torch

from dragoman.model.transformer import Transformer
from dragoman.runtime.console import shorten
from dragoman.text.batches import collate, plan_in_order
from dragoman.text.planting import mask_pair
from dragoman.text.preprocess import PreparedText
from dragoman.training.diagnostics import Observation, diagnose, examine_translations, unigram_loss
from dragoman.training.distributed import Processes
from dragoman.training.loss import measure
from dragoman.training.metrics import Recorder
from dragoman.training.run_state import Progress

_SAMPLES, _SAMPLE_LENGTH = 3, 200  # translations shown at each validation, and characters of each


@dataclass(frozen=True)
class Validation:
    """A model's scores on the validation text, and its translations of it."""

    scores: dict[str, float]  # bleu and chrf, 0 to 100; from Validator.measure also loss, in nats per target token
    signatures: dict[str, str]
    translations: Sequence[tuple[str, Sequence[int]]]  # text and ids
    accuracy: float = math.nan  # share of the target tokens that are the most probable ones under teacher forcing


Validate = Callable[[Transformer, bool], Validation]
"""Translates the validation text, in bf16 or not; train.py provides it, because training does not import inference."""


class Validator:
    """Measures models on the validation text, together with the other processes of the run."""

    def __init__(
        self, text: PreparedText, batch_tokens: int, bf16: bool, validate: Validate, processes: Processes
    ) -> None:
        self._store, self._batch_tokens, self._bf16 = text.valid, batch_tokens, bf16
        self._pairs = list(chain.from_iterable(text.valid_pairs.values()))
        as_written = map(mask_pair, self._pairs) if text.vocabulary.has_symbols else self._pairs
        self._reference_ids = text.vocabulary.target.encode([reference for _, reference in as_written])
        targets = np.concatenate([text.valid[i][1] for i in range(len(text.valid))])
        self._unigram_loss = unigram_loss(np.bincount(targets))
        self._validate, self._processes = validate, processes
        self.observations: list[Observation] = []

    def measure(self, model: Transformer, piece_tokens: int = 0) -> Validation:
        """Translate with a model, and score its translations and its predictions.

        If training computes batches in pieces of so many tokens, so does this.
        """
        loss, accuracy = self._measure_forced(model, piece_tokens or self._batch_tokens)
        translated = self._validate(model, self._bf16)
        return replace(translated, scores={"loss": loss} | translated.scores, accuracy=accuracy)

    def examine(self, measured: Validation, progress: Progress, warmup_steps: int, recorder: Recorder) -> None:
        """Record and report how healthy the translations are, what is wrong if anything is, and some examples."""
        sources, references = zip(*self._pairs, strict=True)
        texts, ids = zip(*measured.translations, strict=True)
        norm = statistics.median(progress.norms) if progress.norms else math.nan
        health = examine_translations(sources, references, texts, self._reference_ids, ids, measured.accuracy, norm)
        self.observations.append(
            Observation(
                step=progress.step,
                train_loss=statistics.fmean(progress.losses) if progress.losses else math.nan,
                valid_loss=measured.scores["loss"],
                unigram_loss=self._unigram_loss,
                health=health,
                skipped=progress.skipped_since,
            )
        )
        problem = diagnose(self.observations, warmup_steps) or ""
        first = islice(zip(sources, references, texts, strict=True), _SAMPLES)
        samples = [[shorten(text, _SAMPLE_LENGTH) for text in sample] for sample in first]
        others = {"seconds": round(progress.seconds, 2), "warning": problem, "samples": samples}
        recorder.record(progress.step, {f"health/{name}": value for name, value in health.values().items()}, others)
        recorder.say(f"    {health.line()}")
        if problem:
            recorder.say(f"    warning: {problem}")
        for source, reference, translation in samples:
            recorder.say(f"    {source}\n    → {translation}\n    = {reference}")

    def _measure_forced(self, model: Transformer, batch_tokens: int) -> tuple[float, float]:
        """Cross-entropy in nats per target token, and accuracy, under teacher forcing."""
        model.eval()
        device, sums = next(model.parameters()).device, np.zeros(3)
        longest = np.maximum(*self._store.lengths).tolist()
        for indices in self._processes.shard(plan_in_order(longest, batch_tokens)):
            batch = collate(self._store, indices, model.config.max_length)
            ids = [torch.from_numpy(x).to(device) for x in (batch.source, batch.target_input, batch.target_output)]
            with torch.autocast(device.type, torch.bfloat16, enabled=self._bf16):
                loss, correct = measure(model, *ids)
            sums += [float(loss), float(correct), batch.num_tokens]
        loss_sum, num_correct, num_tokens = self._processes.all_reduce(sums.tolist())
        return loss_sum / num_tokens, num_correct / num_tokens
