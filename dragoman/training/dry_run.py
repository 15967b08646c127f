"""What a run would take: the size of the model, the batches, memory and time, from a few steps that nobody keeps."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from dragoman.config import EOS, ModelConfig, TrainConfig
from dragoman.model.transformer import Transformer
from dragoman.runtime.allocator import keep_freed_memory, remember_fewer_products
from dragoman.runtime.console import Report
from dragoman.runtime.device import use_bf16
from dragoman.text.batches import IdPairs
from dragoman.training.data_loader import Shares
from dragoman.training.distributed import Processes
from dragoman.training.fit import fit_memory, peak_memory
from dragoman.training.metrics import clock
from dragoman.training.progress import Progress
from dragoman.training.step import Stepper

_WARMING_UP, _STEPS, _SECONDS = 2, 20, 60.0
_DAYS = 48 * 3600  # seconds that are better told in days
_SPREAD = 0.6  # standard deviation of the logarithm of imagined lengths


class ImaginedText:
    """Sentences of random subwords, as many and about as long as those of a text that is not there."""

    def __init__(self, pairs: int, mean_length: float, longest: int, vocab_size: int) -> None:
        """Imagine a text.

        Args:
            pairs: how many.
            mean_length: subwords of a sentence, on average.
            longest: no sentence has more subwords.
            vocab_size: number of subwords.
        """
        generator = np.random.default_rng(0)
        means = math.log(mean_length) - _SPREAD**2 / 2
        common = generator.normal(means, _SPREAD, pairs)
        sides = (np.exp(common + generator.normal(0, 0.15, pairs)).round().astype(np.int64) for _ in range(2))
        self.source_lengths, self.target_lengths = (side.clip(2, longest) for side in sides)
        self._words = generator.integers(EOS + 1, vocab_size, 1 << 16)

    def source(self, index: int) -> NDArray[np.integer]:
        """Ids of one source sentence, EOS included."""
        return self._sentence(index, int(self.source_lengths[index]))

    def target(self, index: int) -> NDArray[np.integer]:
        """Ids of one target sentence, EOS included, BOS not."""
        return self._sentence(index + 1, int(self.target_lengths[index]))

    def _sentence(self, index: int, length: int) -> NDArray[np.integer]:
        start = 7919 * index % (len(self._words) - length)
        return np.append(self._words[start : start + length - 1], EOS)


@dataclass(frozen=True)
class Rehearsal:
    """What came out."""

    parameters: int
    device: str
    precision: str
    pairs: int
    steps_per_epoch: int
    tokens_per_step: float
    """Target tokens, on average."""
    padding: float
    """Share of what is computed that is padding."""
    steps: int
    """Of the whole run; 0 where it has no limit in steps or epochs."""
    seconds_per_step: float
    memory: int | None
    """Most bytes in use: on the graphics card, or of this process; None where the system does not say."""
    piece_tokens: int
    """Batches are computed in pieces of at most so many padded tokens; 0: whole."""
    minutes: float
    """The run's limit in minutes; 0 where it has none."""

    def lines(self) -> list[str]:
        """The result in words."""
        rate = self.tokens_per_step / self.seconds_per_step
        found = [
            f"model: {self.parameters:,} parameters, {self.precision} on {self.device}",
            f"text: {self.pairs:,} pairs, {self.steps_per_epoch:,} steps an epoch, {self.tokens_per_step:,.0f} target "
            f"tokens a step, {self.padding:.0%} padding",
            f"memory: {'unknown' if self.memory is None else f'{self.memory / 2**30:.1f} GiB'}"
            + (f"; batches are computed in pieces of {self.piece_tokens:,} tokens" if self.piece_tokens else ""),
            f"speed: {self.seconds_per_step:.2f} seconds a step, {rate:,.0f} target tokens a second",
        ]
        if self.steps:
            seconds = self.steps * self.seconds_per_step
            epochs = self.steps / self.steps_per_epoch
            duration = f"{seconds / 86400:.1f} days" if seconds > _DAYS else clock(seconds)
            found.append(f"time: {self.steps:,} steps ({epochs:,.1f} epochs) in {duration}, without validation")
        if self.minutes:
            steps = 60 * self.minutes / self.seconds_per_step
            found.append(f"time: the run ends after {self.minutes:g} minutes, about {steps:,.0f} steps")
        return found


def rehearse(config: TrainConfig, shape: ModelConfig, text: IdPairs, device: torch.device, report: Report) -> Rehearsal:
    """Make some steps of a run on a model that nobody keeps.

    Args:
        config: the run.
        shape: of its model, with the sizes of the vocabularies.
        text: what it learns from.
        device: where.
        report: told what goes on, and when memory is short.

    Raises:
        DragomanError: memory is too short for a single sentence.
    """
    remember_fewer_products()
    keep_freed_memory()
    torch.manual_seed(config.seed)
    plain = replace(config, text=replace(config.text, subword_dropout=0.0))  # which takes next to no time
    model, processes, progress = Transformer(shape).to(device), Processes(), Progress()
    bf16 = use_bf16(config.precision, device)
    stepper, shares = Stepper(model, plain, bf16, processes), Shares(text, plain, processes)
    shares.settle(progress)
    report("trying the largest batch")
    fit_memory(stepper, shares.most_demanding(), report)
    report(f"making up to {_WARMING_UP + _STEPS} steps")
    seconds, tokens, padded = _make_steps(stepper, shares, progress.accumulate, report)
    plan = math.ceil(shares.batches_per_epoch() / progress.accumulate)
    steps = [n for n in (config.max_steps, config.max_epochs * plan) if n]
    return Rehearsal(
        parameters=model.num_parameters,
        device=str(device),
        precision="bf16" if bf16 else "fp32",
        pairs=len(text.source_lengths),
        steps_per_epoch=plan,
        tokens_per_step=float(text.target_lengths.sum()) / plan,
        padding=1 - tokens / padded,
        steps=min(steps, default=0),
        # The mean: batches of long and of short sentences take their time in turn.
        seconds_per_step=statistics.fmean(seconds[_WARMING_UP:] or seconds),
        memory=peak_memory(device),
        piece_tokens=stepper.piece_tokens,
        minutes=config.max_minutes,
    )


def _make_steps(stepper: Stepper, shares: Shares, accumulate: int, report: Report) -> tuple[list[float], int, int]:
    """Seconds of each step; target tokens of all of them, without padding and with it."""
    seconds: list[float] = []
    tokens = padded = 0
    for share in shares.following(Progress(accumulate=accumulate)):
        began = time.monotonic()
        stepper.gradients(share, report)
        stepper.apply(rate=1e-9)
        if stepper.device.type == "cuda":
            torch.cuda.synchronize(stepper.device)
        seconds.append(time.monotonic() - began)
        tokens += share.num_tokens
        padded += sum(batch.target_output.size for _, batch in share.batches)
        done = len(seconds) - _WARMING_UP
        if done >= _STEPS or (done > 0 and sum(seconds) > _SECONDS):
            break
    return seconds, tokens, padded
