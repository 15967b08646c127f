"""Results for every sentence, whatever the batches, the memory and the processes that compute them."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from dragoman.config import ConfigError, DragomanError
from dragoman.inference import batching
from dragoman.inference.batching import in_batches

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


def test_results_come_in_order_and_batches_keep_to_the_budget() -> None:
    machine, done = Machine(100, MemoryError()), list[int]()
    assert in_batches(machine, LENGTHS, 24, "", done.append) == [i**2 for i in range(10)]
    assert all(len(batch) * max(LENGTHS[i] for i in batch) <= 24 for batch in machine.tried)
    assert sum(done) == 10
    assert in_batches(machine, [], 24, "") == []


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("room", [1, 3, 9])
def test_batches_are_halved_until_the_memory_suffices(room: int, error: BaseException) -> None:
    machine, done = Machine(room, error), list[int]()
    assert in_batches(machine, LENGTHS, 1000, "", done.append) == [i**2 for i in range(10)]
    assert sorted(place for batch in machine.tried if len(batch) <= room for place in batch) == list(range(10))
    assert sum(done) == 10
    lengths = [LENGTHS[batch[0]] for batch in machine.tried if len(batch) <= room]
    assert lengths == sorted(lengths, reverse=True)


def test_batches_that_wait_are_halved_too() -> None:
    machine = Machine(10, MemoryError())
    assert in_batches(machine, [8] * 80, 160, "") == [i**2 for i in range(80)]
    assert sum(len(batch) > 10 for batch in machine.tried) == 1  # the failure is not met again and again


def test_one_line_that_does_not_fit_is_an_error_that_names_the_cure() -> None:
    with pytest.raises(DragomanError, match=r"does not suffice for a line of 12 subwords: take a smaller --beam"):
        in_batches(Machine(0, ERRORS[1]), LENGTHS, 1000, "take a smaller --beam")


def test_other_errors_are_not_hidden() -> None:
    machine = Machine(0, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="shapes"):
        in_batches(machine, LENGTHS, 1000, "")
    assert len(machine.tried) == 1


# ---------------------------------------------------------------------------------------------- several processes

needs_fork = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has workers")


@pytest.fixture
def no_process_left() -> Iterator[None]:
    """Nothing that was started goes on afterwards, and this process computes with as many threads as before."""
    threads = torch.get_num_threads()
    yield
    assert multiprocessing.active_children() == []
    assert torch.get_num_threads() == threads


def who(batch: list[int]) -> list[tuple[int, int]]:
    """Which process computes, and with how many threads; slowly enough that others get something to do."""
    time.sleep(0.05)
    return [(os.getpid(), torch.get_num_threads())] * len(batch)


@needs_fork
@pytest.mark.usefixtures("no_process_left")
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("batch_tokens", [1, 24, 100_000])
def test_several_workers_find_what_one_finds_in_the_same_order(workers: int, batch_tokens: int) -> None:
    for count in (1, 2, 5, 40):
        lengths = random.Random(count).choices(range(1, 30), k=count)
        machine, done = Machine(100, MemoryError()), list[int]()
        expected = [place**2 for place in range(count)]
        assert in_batches(machine, lengths, batch_tokens, "", done.append, workers) == expected
        assert in_batches(machine, lengths, batch_tokens, "") == expected
        assert sum(done) == count
    assert in_batches(machine, [], batch_tokens, "", done.append, workers) == []
    assert sum(done) == 40


@needs_fork
@pytest.mark.usefixtures("no_process_left")
def test_workers_are_other_processes_with_one_thread_each_and_all_have_something_to_do() -> None:
    done: list[int] = []
    found = in_batches(who, LENGTHS, 100_000, "", done.append, workers=2)
    assert len(done) >= 2  # in one batch there would be nothing for the second worker
    assert {threads for _, threads in found} == {1}
    assert os.getpid() not in {process for process, _ in found}
    assert len({process for process, _ in found}) == 2


@needs_fork
@pytest.mark.usefixtures("no_process_left")
def test_this_process_keeps_its_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = in_batches(who, LENGTHS, 100, "", workers=2)
        assert torch.get_num_threads() == 2
        assert {threads for _, threads in found} == {1}
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("lengths", "workers"), [(LENGTHS, 1), ([500], 2), ([], 2)])
def test_for_one_worker_or_one_batch_no_process_is_started(lengths: list[int], workers: int) -> None:
    found = in_batches(who, lengths, 100, "", workers=workers)
    assert found == [(os.getpid(), torch.get_num_threads())] * len(lengths)


def test_on_systems_other_than_linux_no_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "sys", SimpleNamespace(platform="darwin"))
    assert {process for process, _ in in_batches(who, LENGTHS, 24, "", workers=2)} == {os.getpid()}


@needs_fork
@pytest.mark.usefixtures("no_process_left")
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("room", [1, 3])
def test_workers_halve_batches_until_the_memory_suffices(room: int, error: BaseException) -> None:
    done: list[int] = []
    found = in_batches(Machine(room, error), LENGTHS * 3, 1000, "", done.append, workers=2)
    assert found == [place**2 for place in range(30)]
    assert sum(done) == 30
    assert max(done) <= room


@needs_fork
@pytest.mark.usefixtures("no_process_left")
def test_a_line_that_does_not_fit_into_a_workers_memory_is_an_error_that_names_the_cure() -> None:
    with pytest.raises(DragomanError, match=r"does not suffice for a line of \d+ subwords: take a smaller --beam"):
        in_batches(Machine(0, ERRORS[1]), LENGTHS, 1000, "take a smaller --beam", workers=2)


@needs_fork
@pytest.mark.usefixtures("no_process_left")
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        ConfigError("min_length is 30, but the model writes at most 29 subwords"),
        DragomanError("the model computes no numbers (NaN) for a line"),
        ValueError("97 positions, but the model takes at most 96"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_a_worker_arrive_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        in_batches(Machine(0, error), LENGTHS, 24, "", workers=2)
    assert str(raised.value) == str(error)
    assert type(raised.value) is type(error)


@needs_fork
@pytest.mark.usefixtures("no_process_left")
@pytest.mark.parametrize("victim", [0, 9])
def test_a_worker_that_is_killed_is_one_error_and_not_a_wait_for_ever(victim: int) -> None:
    def fatal(batch: list[int]) -> list[int]:
        if victim in batch:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    with pytest.raises(DragomanError, match=r"process .* was killed.*--workers 1") as raised:
        in_batches(fatal, LENGTHS, 12, "", workers=2)
    assert "\n" not in str(raised.value)


@needs_fork
@pytest.mark.usefixtures("no_process_left")
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interruption_leaves_no_process_behind(error: type[BaseException]) -> None:
    def interrupt(count: int) -> None:
        raise error

    with pytest.raises(error):
        in_batches(who, LENGTHS * 9, 12, "", interrupt, workers=2)


ENDLESS = """
import os, sys, time
from dragoman.inference.batching import in_batches

def compute(batch):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(float(sys.argv[1]))
    return batch

in_batches(compute, [5] * 1000, 5, "", workers=2)
"""


@needs_fork
@pytest.mark.parametrize(
    ("sent", "to_all", "seconds"),
    [(signal.SIGINT, True, 0.2), (signal.SIGINT, False, 0.2), (signal.SIGKILL, False, 60.0)],
    ids=["Ctrl-C", "SIGINT", "SIGKILL"],
)
def test_workers_end_with_the_process_they_work_for(sent: int, to_all: bool, seconds: float) -> None:
    arguments = [sys.executable, "-c", ENDLESS, str(seconds)]
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        begun: set[str] = set()
        while len(begun) < 2:
            begun.add(process.stdout.readline())
        assert "" not in begun
        if to_all:  # as a terminal does
            os.killpg(process.pid, sent)
        else:
            process.send_signal(sent)
        process.wait(timeout=30)
        end = time.monotonic() + 10
        while (alive := is_alive(process.pid)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not alive
        assert process.stderr is not None
        errors = process.stderr.read()
        assert errors.count("Traceback") <= 1, errors  # this process' own
        assert ("KeyboardInterrupt" in errors) == (sent == signal.SIGINT)
    finally:
        if is_alive(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def is_alive(group: int) -> bool:
    """Whether any process of a group still runs; one that has ended may wait for long until somebody notices."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                return True
    return False
