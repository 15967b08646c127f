"""Memory that fits: before the first step the largest batches are tried, and cut into pieces if they must be."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch import Tensor

from dragoman.runtime.allocator import is_out_of_memory
from dragoman.runtime.console import Report
from dragoman.text.batches import Batch
from dragoman.training.step import Stepper, halved

_SAMPLE = 16  # a sixteenth of a batch, and an eighth, tell what the whole one would take
_MARGIN = 1.5  # activations saved for the backward pass, and what passes by on the way


def fit_memory(stepper: Stepper, batches: Sequence[Batch], report: Report) -> None:
    """Find out in which pieces the largest batches can be computed, and set stepper.piece_tokens.

    A graphics card refuses what it can't hold, so the batch is tried. The system of a CPU rather ends the process, so
    there the need is estimated from a part of the batch first.

    Args:
        stepper: of the run, before its first step.
        batches: the most demanding ones of the run.
        report: told what was found.

    Raises:
        DragomanError: memory is too short for a single sentence.
    """
    for batch in batches:
        whole = stepper.piece_tokens
        if stepper.device.type == "cpu":
            _estimate(stepper, batch)
        while not _fits(stepper, batch.pieces(stepper.piece_tokens)[0]):
            stepper.piece_tokens = halved(stepper.piece_tokens or batch.padded_tokens, batch.longest)
        if stepper.piece_tokens != whole:
            report(
                f"memory is short for batches of {batch.padded_tokens:,} padded tokens: they are computed in pieces "
                f"of {stepper.piece_tokens:,}, which takes longer"
            )


def _fits(stepper: Stepper, batch: Batch) -> bool:
    try:
        stepper.try_out(batch)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    else:
        return True
    if stepper.device.type == "cuda":
        torch.cuda.empty_cache()
    return False


def _estimate(stepper: Stepper, batch: Batch) -> None:
    """Cut batches that would take more than the memory there is."""
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
    """Counts, in the list's one number, the bytes that forward passes in this block keep for the backward pass."""
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
    """Bytes of main memory that one process of the run may still take; None where the system does not say."""
    found = []
    with suppress(OSError, ValueError, StopIteration):
        found.append(1024 * _entry(Path("/proc/meminfo"), "MemAvailable:"))
    for group in _control_groups():
        with suppress(OSError, ValueError, StopIteration):  # a control group without a limit
            limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
            found.append(limit - used + _entry(group / "memory.stat", "inactive_file"))
    return max(0, min(found)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if found else None


def peak_memory(device: torch.device) -> int | None:
    """Most bytes that were in use: on a graphics card, or by this process; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError, ValueError, StopIteration):
        return 1024 * _entry(Path("/proc/self/status"), "VmHWM:")
    return None


def _control_groups() -> list[Path]:
    """The control group of this process and those around it, each of which may have a limit."""
    root, name = Path("/sys/fs/cgroup"), ""
    with suppress(OSError):
        lines = Path("/proc/self/cgroup").read_text().split("\n")
        name = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    own = root / name
    return [own, *(parent for parent in own.parents if parent == root or root in parent.parents)]


def _entry(path: Path, name: str) -> int:
    """The number after a name in one of the kernel's tables."""
    return next(int(line.split()[1]) for line in path.read_text().split("\n") if line.startswith(name))
