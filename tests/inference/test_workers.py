"""Work done in other processes is the work done here, and nothing of them is left."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dragoman.config import ConfigError, DragomanError
from dragoman.inference import workers as workers_module
from dragoman.inference.batching import in_batches
from dragoman.inference.workers import Workers

LENGTHS = [3, 9, 4, 12, 5, 5, 8, 1, 2, 7]
ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: …"),
    MemoryError(),
]
needs_fork = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has workers")


@pytest.fixture(autouse=True)
def _none_of_others() -> None:
    """Processes of a translator that another test left behind would be counted here."""
    assert_no_process_left()


@pytest.fixture
def no_process_left() -> Iterator[None]:
    """Nothing that was started goes on afterwards, and this process computes with as many threads as before."""
    threads = torch.get_num_threads()
    yield
    assert_no_process_left()
    assert torch.get_num_threads() == threads


def assert_no_process_left() -> None:
    gc.collect()
    end = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < end:
        time.sleep(0.02)
    assert multiprocessing.active_children() == []


def run(
    compute: Callable[[list[int]], list[Any]],
    lengths: list[int],
    batch_tokens: int,
    progress: Callable[[int], None] | None = None,
    workers: int = 2,
) -> list[Any]:
    """What a function of places finds in so many processes."""
    pool = Workers(compute, lambda: None, workers)
    return in_batches(compute, lambda batch: (batch,), lengths, batch_tokens, "take a smaller --beam", progress, pool)


class Machine:
    """Computes the squares of places, but has memory for so many sentences only."""

    def __init__(self, room: int, error: BaseException) -> None:
        self.room, self.error = room, error

    def __call__(self, batch: list[int]) -> list[int]:
        if len(batch) > self.room:
            raise self.error
        return [place**2 for place in batch]


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
        assert run(machine, lengths, batch_tokens, done.append, workers) == expected
        assert run(machine, lengths, batch_tokens, workers=1) == expected
        assert sum(done) == count
    assert run(machine, [], batch_tokens, done.append, workers) == []
    assert sum(done) == 40


@needs_fork
@pytest.mark.usefixtures("no_process_left")
def test_workers_are_other_processes_with_one_thread_each_and_all_have_something_to_do() -> None:
    done: list[int] = []
    found = run(who, LENGTHS, 100_000, done.append)
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
        found = run(who, LENGTHS, 100)
        assert torch.get_num_threads() == 2
        assert {threads for _, threads in found} == {1}
    finally:
        torch.set_num_threads(before)


def test_on_systems_other_than_linux_no_process_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "sys", SimpleNamespace(platform="darwin"))
    assert {process for process, _ in run(who, LENGTHS, 24)} == {os.getpid()}


@needs_fork
@pytest.mark.usefixtures("no_process_left")
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("room", [1, 3])
def test_workers_halve_batches_until_the_memory_suffices(room: int, error: BaseException) -> None:
    done: list[int] = []
    found = run(Machine(room, error), LENGTHS * 3, 1000, done.append)
    assert found == [place**2 for place in range(30)]
    assert sum(done) == 30
    assert max(done) <= room


@needs_fork
@pytest.mark.usefixtures("no_process_left")
def test_a_line_that_does_not_fit_into_a_workers_memory_is_an_error_that_names_the_cure() -> None:
    with pytest.raises(DragomanError, match=r"does not suffice for a line of \d+ subwords: take a smaller --beam"):
        run(Machine(0, ERRORS[1]), LENGTHS, 1000)


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
        run(Machine(0, error), LENGTHS, 24)
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
        run(fatal, LENGTHS, 12)
    assert "\n" not in str(raised.value)


@needs_fork
@pytest.mark.usefixtures("no_process_left")
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interruption_leaves_no_process_behind(error: type[BaseException]) -> None:
    def interrupt(count: int) -> None:
        raise error

    with pytest.raises(error):
        run(who, LENGTHS * 9, 12, interrupt)


@needs_fork
def test_they_have_ended_as_soon_as_nobody_has_them_any_more() -> None:
    """Python's own ending must not meet a pool that is half closed: it would print a traceback."""
    run(who, LENGTHS, 100)
    gc.collect()
    assert multiprocessing.active_children() == []
    assert not [thread for thread in threading.enumerate() if "ExecutorManager" in type(thread).__name__]


@needs_fork
def test_a_fork_does_not_end_the_workers_of_another_process() -> None:
    workers = Workers[Any](who, lambda: None, 2)
    in_batches(who, lambda batch: (batch,), LENGTHS, 100, "", workers=workers)
    child = os.fork()
    if not child:
        del workers
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(multiprocessing.active_children()) == 2
    assert in_batches(who, lambda batch: (batch,), LENGTHS, 100, "", workers=workers)


ENDLESS = """
import os, sys, time
from dragoman.inference.batching import in_batches
from dragoman.inference.workers import Workers

def compute(batch):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(float(sys.argv[1]))
    return batch

in_batches(compute, lambda batch: (batch,), [5] * 1000, 5, "", workers=Workers(compute, lambda: None, 2))
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


# ---------------------------------------------------------------------------------------------- from call to call


class Changing:
    """A function whose answer depends on a state that may change."""

    def __init__(self) -> None:
        self.state, self.factor = object(), 2

    def __call__(self, batch: list[int]) -> list[tuple[int, int]]:
        return [(os.getpid(), self.factor * place) for place in batch]

    def pool(self) -> Workers[tuple[int, int]]:
        return Workers(self, lambda: self.state, 2)

    def run(self, pool: Workers[tuple[int, int]]) -> tuple[set[int], list[int]]:
        """The processes that worked, and what they found."""
        found = in_batches(self, lambda batch: (batch,), LENGTHS, 12, "", workers=pool)
        return {process for process, _ in found}, [value for _, value in found]


@needs_fork
def test_processes_are_kept_until_the_state_changes() -> None:
    changing = Changing()
    pool = changing.pool()
    kept = set[int]()
    for _ in range(5):
        processes, values = changing.run(pool)
        kept |= processes
        assert values == [2 * place for place in range(10)]
    assert len(kept) <= 2
    assert os.getpid() not in kept
    changing.state, changing.factor = object(), 3
    processes, values = changing.run(pool)
    assert values == [3 * place for place in range(10)]
    assert not processes & kept
    assert len(multiprocessing.active_children()) == 2  # those of before have ended
    del pool
    assert_no_process_left()


@needs_fork
def test_after_an_error_the_next_call_works() -> None:
    machine = Machine(0, ValueError("once"))
    pool = Workers(machine, lambda: machine.room, 2)
    with pytest.raises(ValueError, match="once"):
        in_batches(machine, lambda batch: (batch,), LENGTHS, 12, "", workers=pool)
    machine.room = 100
    assert in_batches(machine, lambda batch: (batch,), LENGTHS, 12, "", workers=pool) == [i**2 for i in range(10)]
    del pool
    assert_no_process_left()


@needs_fork
def test_several_threads_may_share_them() -> None:
    changing = Changing()
    pool = changing.pool()
    found: list[tuple[set[int], list[int]]] = []

    def work(pool: Workers[tuple[int, int]]) -> None:
        found.append(changing.run(pool))

    threads = [threading.Thread(target=work, args=(pool,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    while threads:
        threads.pop().join(timeout=60)
    assert [values for _, values in found] == [[2 * place for place in range(10)]] * 6
    assert len(set.union(*(processes for processes, _ in found))) <= 2
    changing.run(pool)  # a thread's end is not its workers' end
    del pool
    assert_no_process_left()


@needs_fork
def test_a_fork_of_this_process_starts_its_own() -> None:
    changing = Changing()
    pool = changing.pool()
    changing.run(pool)
    processes = {child.pid for child in multiprocessing.active_children()}
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            others, values = changing.run(pool)
            os.write(writing, b"right" if not others & processes and values[9] == 18 else b"wrong")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        assert answer.read() == "right"
    os.waitpid(child, 0)
    assert changing.run(pool)[0] <= processes
    assert {child.pid for child in multiprocessing.active_children()} == processes
    del pool
    assert_no_process_left()
