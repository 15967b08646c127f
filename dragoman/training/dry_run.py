"""What a run will need: memory, tried before the first step; and time, from a few steps that nobody keeps.

Batches that do not fit in memory are computed in pieces.
"""

import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dragoman.config import EOS, ModelConfig, TrainConfig
from dragoman.model.transformer import Transformer
from dragoman.runtime.allocator import keep_freed_memory, limit_kernel_cache
from dragoman.runtime.console import Report
from dragoman.runtime.device import use_bf16
from dragoman.text.batches import Batch, IdPairs
from dragoman.training.data_loader import DataLoader
from dragoman.training.distributed import Processes
from dragoman.training.run_state import Progress
from dragoman.training.step import Stepper

_SAMPLE = 16  # a sixteenth and an eighth of a batch tell what the whole one would take
_MARGIN = 1.5  # for what is needed beside the activations saved for the backward pass
_WARMING_UP, _STEPS, _SECONDS = 2, 20, 20.0
_SPREAD = 0.6  # standard deviation of the logarithm of synthetic lengths


def fit_memory(stepper: Stepper, batches: Sequence[Batch], report: Report) -> None:
    """Find out in which pieces the largest batches fit in memory, and set stepper.piece_tokens.

    On a GPU the batch is tried, because a GPU refuses what it can't hold. On a CPU the system would rather kill the
    process, so the need is estimated from a part of the batch first. Batches that have to be cut are reported.
    """
    for batch in batches:
        whole = stepper.piece_tokens
        if stepper.device.type == "cpu":
            _estimate(stepper, batch)
        while not stepper.fits(batch.pieces(stepper.piece_tokens)[0]):
            stepper.halve_pieces([batch])
        if stepper.piece_tokens != whole:
            pieces = f"they are computed in pieces of {stepper.piece_tokens:,}, which is slower"
            report(f"not enough memory for batches of {batch.padded_tokens:,} padded tokens: {pieces}")


def _estimate(stepper: Stepper, batch: Batch) -> None:
    """Cut batches that would take more than the available memory."""
    available, few = available_memory(), len(batch.source) // _SAMPLE
    if available is None or not few:
        return
    saved = []
    for rows in (few, 2 * few):  # what both keep (copies of the weights) does not grow with the batch
        with saved_bytes() as count:
            if not stepper.fits(batch.rows(0, rows)):
                return  # then there is nothing to estimate from
        saved.append(count[0])
    per_token = _MARGIN * (saved[1] - saved[0]) / (few * batch.longest)
    while (stepper.piece_tokens or batch.padded_tokens) * per_token > available:
        stepper.halve_pieces([batch])


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


class SyntheticText:
    """Sentences of random subwords, of the size of a text that is not there; lengths are of one side, with EOS."""

    def __init__(self, pairs: int, mean_length: float, longest: int, vocab_size: int) -> None:
        generator = np.random.default_rng(0)
        both = generator.normal(math.log(mean_length) - _SPREAD**2 / 2, _SPREAD, pairs)
        source, target = (np.exp(both + generator.normal(0, 0.15, pairs)).round().astype(np.int64) for _ in range(2))
        self.lengths = source.clip(2, longest), target.clip(2, longest)
        self._words = generator.integers(EOS + 1, vocab_size, longest)

    def __getitem__(self, index: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        source, target = (side[index] for side in self.lengths)
        return np.append(self._words[: source - 1], EOS), np.append(self._words[: target - 1], EOS)


def dry_run(config: TrainConfig, shape: ModelConfig, text: IdPairs, device: torch.device, report: Report) -> list[str]:
    """Make some steps of a run on a model that nobody keeps, and describe in lines what the run will take.

    The shape is that of the run's model, with the sizes of the vocabularies.
    """
    limit_kernel_cache()
    keep_freed_memory()
    torch.manual_seed(config.seed)
    model, processes, progress = Transformer(shape).to(device), Processes(), Progress()
    bf16 = use_bf16(config.precision, device)
    stepper, loader = Stepper(model, config, bf16, processes), DataLoader(text, config, processes)
    loader.settle_accumulation(progress)
    report(f"trying the largest batch, then making up to {_WARMING_UP + _STEPS} steps")
    fit_memory(stepper, loader.largest_batches(), report)
    seconds = _seconds_per_step(stepper, loader, progress, report)
    batches, tokens_of_epoch = loader.size_of_epoch()
    steps_per_epoch = math.ceil(batches / progress.accumulate)
    tokens, memory = tokens_of_epoch / steps_per_epoch, _peak_memory(device)
    lines = [
        f"model: preset {config.preset}, {model.num_parameters:,} parameters, {'bf16' if bf16 else 'fp32'} on {device}",
        f"text: {len(text.lengths[0]):,} pairs, {steps_per_epoch:,} steps per epoch, {tokens:,.0f} target tokens "
        f"per step",
        f"memory: {'unknown' if memory is None else f'{memory / 2**30:.1f} GiB'}"
        + (f"; batches are computed in pieces of {stepper.piece_tokens:,} tokens" if stepper.piece_tokens else ""),
        f"speed: {seconds:.2f} seconds per step, {tokens / seconds:,.0f} target tokens per second",
    ]
    if steps := min(filter(None, (config.max_steps, config.max_epochs * steps_per_epoch)), default=0):
        epochs, duration = steps / steps_per_epoch, timedelta(seconds=round(steps * seconds))
        lines.append(f"time: {steps:,} steps ({epochs:,.1f} epochs) in {duration}, without validation")
    if config.max_minutes:
        about = 60 * config.max_minutes / seconds
        lines.append(f"time: the run ends after {config.max_minutes:g} minutes, about {about:,.0f} steps")
    return lines


def _seconds_per_step(stepper: Stepper, loader: DataLoader, progress: Progress, report: Report) -> float:
    seconds: list[float] = []
    for step in islice(loader.steps(progress), _WARMING_UP + _STEPS):
        started = time.monotonic()
        stepper.gradients(step, report)
        stepper.apply(rate=1e-9)
        if stepper.device.type == "cuda":
            torch.cuda.synchronize(stepper.device)
        seconds.append(time.monotonic() - started)
        if len(seconds) > _WARMING_UP and sum(seconds) > _SECONDS:
            break
    return statistics.fmean(seconds[_WARMING_UP:] or seconds)
