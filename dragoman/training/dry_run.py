"""What a run will need: memory, tried before the first step; and time, from a few steps that nobody keeps.

Batches that do not fit in memory are computed in pieces.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.config import EOS, ModelConfig, TrainConfig
from dragoman.model.transformer import Transformer
from dragoman.runtime.allocator import is_out_of_memory, keep_freed_memory, limit_kernel_cache
from dragoman.runtime.console import Report
from dragoman.runtime.device import use_bf16
from dragoman.text.batches import Batch, IdPairs
from dragoman.training.data_loader import DataLoader
from dragoman.training.distributed import Processes
from dragoman.training.run_state import Progress
from dragoman.training.step import Stepper, halved

_SAMPLE = 16  # a sixteenth and an eighth of a batch tell what the whole one would take
_MARGIN = 1.5  # for what is needed beside the activations saved for the backward pass
_WARMING_UP, _STEPS, _SECONDS = 2, 20, 60.0
_SPREAD = 0.6  # standard deviation of the logarithm of synthetic lengths


# ---- memory


def fit_memory(stepper: Stepper, batches: Sequence[Batch], report: Report) -> None:
    """Find out in which pieces the largest batches fit in memory, and set stepper.piece_tokens.

    On a GPU the batch is tried, because a GPU refuses what it can't hold. On a CPU the system would rather kill the
    process, so the need is estimated from a part of the batch first.

    Args:
        stepper: of the run, before its first step.
        batches: the largest ones of the run.
        report: receives a line if batches have to be cut.

    Raises:
        DragomanError: memory is too small for a single sentence.
    """
    for batch in batches:
        whole = stepper.piece_tokens
        if stepper.device.type == "cpu":
            _estimate(stepper, batch)
        while not _fits(stepper, batch.pieces(stepper.piece_tokens)[0]):
            stepper.piece_tokens = halved(stepper.piece_tokens or batch.padded_tokens, batch.longest)
        if stepper.piece_tokens != whole:
            report(
                f"not enough memory for batches of {batch.padded_tokens:,} padded tokens: they are computed in pieces "
                f"of {stepper.piece_tokens:,}, which is slower"
            )


def _fits(stepper: Stepper, batch: Batch) -> bool:
    try:
        stepper.try_batch(batch)
        return True
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    if stepper.device.type == "cuda":  # outside the handler, which keeps the tensors of the failed attempt alive
        torch.cuda.empty_cache()
    return False


def _estimate(stepper: Stepper, batch: Batch) -> None:
    """Cut batches that would take more than the available memory."""
    available, few = available_memory(), len(batch.source) // _SAMPLE
    if available is None or not few:
        return
    saved = []
    for rows in (few, 2 * few):  # what both keep (copies of the weights) does not grow with the batch
        with saved_bytes() as count:
            if not _fits(stepper, batch.rows(0, rows)):
                return  # then there is nothing to estimate from
        saved.append(count[0])
    per_token = _MARGIN * (saved[1] - saved[0]) / (few * batch.longest)
    while (stepper.piece_tokens or batch.padded_tokens) * per_token > available:
        stepper.piece_tokens = halved(stepper.piece_tokens or batch.padded_tokens, batch.longest)


@contextmanager
def saved_bytes() -> Iterator[list[int]]:
    """Count, in the list's one number, the bytes that forward passes in this block keep for the backward pass."""
    total, seen = [0], set()

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            total[0] += storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        yield total


def available_memory() -> int | None:
    """Bytes of main memory that one process of the run may still take; None if the system does not say."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        found.append(1024 * _entry(Path("/proc/meminfo"), "MemAvailable:"))
    group = Path("/sys/fs/cgroup")
    with suppress(OSError):
        group /= Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
    for place in (group, *group.parents):  # each control group around this process may have a limit
        with suppress(OSError, ValueError, StopIteration):
            limit, used = (int((place / f"memory.{name}").read_text()) for name in ("max", "current"))
            found.append(limit - used + _entry(place / "memory.stat", "inactive_file"))
    return max(0, min(found)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if found else None


def _peak_memory(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError, ValueError, StopIteration):
        return 1024 * _entry(Path("/proc/self/status"), "VmHWM:")
    return None


def _entry(path: Path, name: str) -> int:
    """The number after a name in one of the kernel's tables."""
    return next(int(line.split()[1]) for line in path.read_text().split("\n") if line.startswith(name))


# ---- time


class SyntheticText:
    """Sentences of random subwords, of the size of a text that is not there."""

    def __init__(self, pairs: int, mean_length: float, longest: int, vocab_size: int) -> None:
        """Draw so many pairs; lengths are in subwords, of one side, EOS included."""
        generator = np.random.default_rng(0)
        mean = math.log(mean_length) - _SPREAD**2 / 2
        both = generator.normal(mean, _SPREAD, pairs)
        sides = (np.exp(both + generator.normal(0, 0.15, pairs)).round().astype(np.int64) for _ in range(2))
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
class DryRun:
    """What a run will take."""

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
    """Of the whole run; 0 if it has no limit in steps or epochs."""
    seconds_per_step: float
    memory: int | None
    """Most bytes in use, on the GPU or by this process; None if the system does not say."""
    piece_tokens: int
    """Batches are computed in pieces of at most so many padded tokens; 0: whole."""
    minutes: float
    """The run's limit in minutes; 0 if it has none."""

    def lines(self) -> list[str]:
        """The result in words."""
        rate = self.tokens_per_step / self.seconds_per_step
        found = [
            f"model: {self.parameters:,} parameters, {self.precision} on {self.device}",
            f"text: {self.pairs:,} pairs, {self.steps_per_epoch:,} steps per epoch, {self.tokens_per_step:,.0f} target "
            f"tokens per step, {self.padding:.0%} padding",
            f"memory: {'unknown' if self.memory is None else f'{self.memory / 2**30:.1f} GiB'}"
            + (f"; batches are computed in pieces of {self.piece_tokens:,} tokens" if self.piece_tokens else ""),
            f"speed: {self.seconds_per_step:.2f} seconds per step, {rate:,.0f} target tokens per second",
        ]
        if self.steps:
            seconds = self.steps * self.seconds_per_step
            epochs = self.steps / self.steps_per_epoch
            duration = timedelta(seconds=round(seconds))
            found.append(f"time: {self.steps:,} steps ({epochs:,.1f} epochs) in {duration}, without validation")
        if self.minutes:
            steps = 60 * self.minutes / self.seconds_per_step
            found.append(f"time: the run ends after {self.minutes:g} minutes, about {steps:,.0f} steps")
        return found


def dry_run(config: TrainConfig, shape: ModelConfig, text: IdPairs, device: torch.device, report: Report) -> DryRun:
    """Make some steps of a run on a model that nobody keeps.

    Args:
        config: the run.
        shape: of its model, with the sizes of the vocabularies.
        text: the training text.
        device: to train on.
        report: receives lines about the progress, and if memory is short.

    Raises:
        DragomanError: memory is too small for a single sentence.
    """
    limit_kernel_cache()
    keep_freed_memory()
    torch.manual_seed(config.seed)
    plain = replace(config, text=replace(config.text, subword_dropout=0.0))  # which takes next to no time
    model, processes, progress = Transformer(shape).to(device), Processes(), Progress()
    bf16 = use_bf16(config.precision, device)
    stepper, loader = Stepper(model, plain, bf16, processes), DataLoader(text, plain, processes)
    loader.settle_accumulation(progress)
    report("trying the largest batch")
    fit_memory(stepper, loader.largest_batches(), report)
    report(f"making up to {_WARMING_UP + _STEPS} steps")
    seconds, tokens, padded = _make_steps(stepper, loader, progress.accumulate, report)
    steps_per_epoch = math.ceil(loader.batches_per_epoch() / progress.accumulate)
    limits = [limit for limit in (config.max_steps, config.max_epochs * steps_per_epoch) if limit]
    return DryRun(
        parameters=model.num_parameters,
        device=str(device),
        precision="bf16" if bf16 else "fp32",
        pairs=len(text.source_lengths),
        steps_per_epoch=steps_per_epoch,
        tokens_per_step=float(text.target_lengths.sum()) / steps_per_epoch,
        padding=1 - tokens / padded,
        steps=min(limits, default=0),
        # The mean: batches of long and of short sentences take different times.
        seconds_per_step=statistics.fmean(seconds[_WARMING_UP:] or seconds),
        memory=_peak_memory(device),
        piece_tokens=stepper.piece_tokens,
        minutes=config.max_minutes,
    )


def _make_steps(stepper: Stepper, loader: DataLoader, accumulate: int, report: Report) -> tuple[list[float], int, int]:
    """Seconds of each step; target tokens of all of them, without padding and with it."""
    seconds: list[float] = []
    tokens = padded = 0
    for step in loader.steps(Progress(accumulate=accumulate)):
        started = time.monotonic()
        stepper.gradients(step, report)
        stepper.apply(rate=1e-9)
        if stepper.device.type == "cuda":
            torch.cuda.synchronize(stepper.device)
        seconds.append(time.monotonic() - started)
        tokens += step.num_tokens
        padded += sum(batch.target_output.size for _, batch in step.batches)
        measured = len(seconds) - _WARMING_UP
        if measured >= _STEPS or (measured > 0 and sum(seconds) > _SECONDS):
            break
    return seconds, tokens, padded
