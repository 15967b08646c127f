"""Batches: results in order, within the budget, and smaller where memory runs out."""

import pytest
import torch

from dragoman.config import DragomanError
from dragoman.inference.batching import in_batches

LENGTHS = [3, 9, 4, 12, 5, 5, 8, 1, 2, 7]
SQUARES = [place**2 for place in range(10)]


class Machine:
    """Computes the squares of places, but has memory for a few sentences only."""

    def __init__(self, room: int, error: BaseException) -> None:
        self.room, self.error = room, error
        self.tried: list[list[int]] = []

    def __call__(self, batch: list[int]) -> list[int]:
        self.tried.append(batch)
        if len(batch) > self.room:
            raise self.error
        return [place**2 for place in batch]


def test_results_come_in_order_and_batches_keep_to_the_budget() -> None:
    machine, done = Machine(100, MemoryError()), list[int]()
    assert in_batches(machine, LENGTHS, 24, done.extend) == SQUARES
    assert all(len(batch) * max(LENGTHS[i] for i in batch) <= 24 for batch in machine.tried)
    assert sorted(done) == list(range(10))
    assert in_batches(machine, [], 24) == []


@pytest.mark.parametrize(
    ("room", "error"),
    [(1, torch.OutOfMemoryError("CUDA out of memory")), (3, RuntimeError("can't allocate memory")), (3, MemoryError())],
)
def test_batches_are_halved_until_they_fit_in_memory(room: int, error: BaseException) -> None:
    machine, done = Machine(room, error), list[int]()
    assert in_batches(machine, LENGTHS, 1000, done.extend) == SQUARES
    assert sorted(done) == list(range(10))
    lengths = [LENGTHS[batch[0]] for batch in machine.tried if len(batch) <= room]
    assert lengths == sorted(lengths, reverse=True)


def test_one_line_that_does_not_fit_in_memory_is_an_error_that_names_the_cure() -> None:
    with pytest.raises(DragomanError, match=r"12 subwords.*smaller beam"):
        in_batches(Machine(0, MemoryError()), LENGTHS, 1000)


def test_other_errors_arrive_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="broken"):
        in_batches(Machine(0, RuntimeError("broken")), LENGTHS, 1000)
