"""Results for every sentence, whatever the batches and the memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dragoman.config import DragomanError
from dragoman.inference.batching import in_batches
from dragoman.inference.workers import Workers

LENGTHS = [3, 9, 4, 12, 5, 5, 8, 1, 2, 7]
ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: …"),
    MemoryError(),
]


class Machine:
    """Computes the squares of places, but has memory for so many sentences only."""

    def __init__(self, room: int, error: BaseException) -> None:
        self.room, self.error = room, error
        self.tried: list[list[int]] = []

    def __call__(self, batch: list[int]) -> list[int]:
        self.tried.append(batch)
        if len(batch) > self.room:
            raise self.error
        return [place**2 for place in batch]


def run(
    compute: Callable[[list[int]], list[Any]],
    lengths: list[int],
    batch_tokens: int,
    cure: str = "",
    progress: Callable[[int], None] | None = None,
    workers: int = 0,
) -> list[Any]:
    """What a function of places finds; with workers in as many processes."""
    pool = Workers(compute, lambda: None, workers) if workers else None
    return in_batches(compute, lambda batch: (batch,), lengths, batch_tokens, cure, progress, pool)


def test_results_come_in_order_and_batches_keep_to_the_budget() -> None:
    machine, done = Machine(100, MemoryError()), list[int]()
    assert run(machine, LENGTHS, 24, "", done.append) == [i**2 for i in range(10)]
    assert all(len(batch) * max(LENGTHS[i] for i in batch) <= 24 for batch in machine.tried)
    assert sum(done) == 10
    assert run(machine, [], 24) == []


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("room", [1, 3, 9])
def test_batches_are_halved_until_the_memory_suffices(room: int, error: BaseException) -> None:
    machine, done = Machine(room, error), list[int]()
    assert run(machine, LENGTHS, 1000, "", done.append) == [i**2 for i in range(10)]
    assert sorted(place for batch in machine.tried if len(batch) <= room for place in batch) == list(range(10))
    assert sum(done) == 10
    lengths = [LENGTHS[batch[0]] for batch in machine.tried if len(batch) <= room]
    assert lengths == sorted(lengths, reverse=True)


def test_batches_that_wait_are_halved_too() -> None:
    machine = Machine(10, MemoryError())
    assert run(machine, [8] * 80, 160) == [i**2 for i in range(80)]
    assert sum(len(batch) > 10 for batch in machine.tried) == 1  # the failure is not met again and again


def test_one_line_that_does_not_fit_is_an_error_that_names_the_cure() -> None:
    with pytest.raises(DragomanError, match=r"does not suffice for a line of 12 subwords: take a smaller --beam"):
        run(Machine(0, ERRORS[1]), LENGTHS, 1000, "take a smaller --beam")


def test_other_errors_are_not_hidden() -> None:
    machine = Machine(0, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="shapes"):
        run(machine, LENGTHS, 1000)
    assert len(machine.tried) == 1


def who(batch: list[int]) -> list[int]:
    """Which process computes."""
    return [os.getpid()] * len(batch)


@pytest.mark.parametrize(("lengths", "workers"), [(LENGTHS, 0), (LENGTHS, 1), ([500], 2), ([], 2)])
def test_for_one_worker_or_one_batch_no_process_is_started(lengths: list[int], workers: int) -> None:
    assert run(who, lengths, 100, workers=workers) == [os.getpid()] * len(lengths)
