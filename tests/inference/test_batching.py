"""Batches computed in this process or in others: the same results, errors that arrive, and nothing left behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.config import ConfigError, DragomanError, SearchConfig
from dragoman.inference import batching
from dragoman.inference.batching import Workers, in_batches
from dragoman.inference.translator import Translator
from tests.inference.small_translators import LINES, SENTENCES, build, close, texts, with_facts

LENGTHS = [3, 9, 4, 12, 5, 5, 8, 1, 2, 7]
SQUARES = [place**2 for place in range(10)]
needs_fork = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has workers")


@pytest.fixture(autouse=True)
def _three_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "available_cores", lambda: 3)


@pytest.fixture(autouse=True)
def _no_process_left() -> Iterator[None]:
    """No worker outlives the test, and this process computes with as many threads as before."""
    assert_no_process_left()  # of a translator that another test left behind
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


def run(
    compute: Callable[[list[int]], list[Any]] | Workers[Any],
    lengths: list[int] = LENGTHS,
    batch_tokens: int = 12,
    workers: int = 1,
    progress: Callable[[list[int]], object] = list,
) -> list[Any]:
    """What a function of places finds."""
    pool = compute if isinstance(compute, Workers) else Workers(compute, workers)
    return in_batches(pool, lambda batch: (batch,), lengths, batch_tokens, progress)


def who(batch: list[int]) -> list[tuple[int, int]]:
    """The process that computes and its threads; slowly enough that others get something to do."""
    time.sleep(0.03)
    return [(os.getpid(), torch.get_num_threads())] * len(batch)


# ---- batches


def test_results_come_in_order_and_batches_keep_to_the_budget() -> None:
    machine, done = Machine(100, MemoryError()), list[int]()
    assert run(machine, LENGTHS, 24, progress=done.extend) == SQUARES
    assert all(len(batch) * max(LENGTHS[i] for i in batch) <= 24 for batch in machine.tried)
    assert sorted(done) == list(range(10))
    assert run(machine, [], 24) == []


@pytest.mark.parametrize(
    ("room", "error"),
    [(1, torch.OutOfMemoryError("CUDA out of memory")), (3, RuntimeError("can't allocate memory")), (3, MemoryError())],
)
def test_batches_are_halved_until_they_fit_in_memory(room: int, error: BaseException) -> None:
    machine, done = Machine(room, error), list[int]()
    assert run(machine, LENGTHS, 1000, progress=done.extend) == SQUARES
    assert sorted(done) == list(range(10))
    lengths = [LENGTHS[batch[0]] for batch in machine.tried if len(batch) <= room]
    assert lengths == sorted(lengths, reverse=True)


@needs_fork
@pytest.mark.parametrize("workers", [1, 2])
def test_one_line_that_does_not_fit_in_memory_is_an_error_that_names_the_cure(workers: int) -> None:
    with pytest.raises(DragomanError, match=r"out of memory on a line of \d+ subwords: .* a smaller --beam"):
        run(Machine(0, MemoryError()), LENGTHS, 1000, workers)


# ---- processes


@needs_fork
@pytest.mark.parametrize(("workers", "batch_tokens"), [(2, 1), (2, 100_000), (3, 24)])
def test_several_workers_find_what_one_finds_in_the_same_order(workers: int, batch_tokens: int) -> None:
    done: list[int] = []
    assert run(Machine(100, MemoryError()), LENGTHS, batch_tokens, workers, done.extend) == SQUARES
    assert sorted(done) == list(range(10))
    assert run(Machine(2, MemoryError()), LENGTHS, batch_tokens, workers) == SQUARES


@needs_fork
def test_workers_are_other_processes_with_one_thread_each_and_all_have_something_to_do() -> None:
    torch.set_num_threads(2)
    try:
        found = run(who, LENGTHS, 100_000, workers=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert {threads for _, threads in found} == {1}
    assert len({process for process, _ in found} - {os.getpid()}) == 2


@needs_fork
@pytest.mark.parametrize(("asked", "batches", "started"), [(30, 10, 3), (2**31, 2, 2), (2, 10, 2)])
def test_there_are_no_more_workers_than_cores_or_batches(asked: int, batches: int, started: int) -> None:
    pool = Workers[Any](who, asked)
    run(pool, [5] * batches, 5)
    assert len(multiprocessing.active_children()) == started
    run(pool, LENGTHS, 1)
    assert len(multiprocessing.active_children()) == min(asked, 3)  # a longer text starts those that are missing
    del pool


@needs_fork
@pytest.mark.parametrize(("lengths", "workers"), [(LENGTHS, 1), ([500], 2), ([], 2)])
def test_for_one_worker_or_one_batch_no_process_is_started(lengths: list[int], workers: int) -> None:
    assert {process for process, _ in run(who, lengths, 100, workers)} <= {os.getpid()}


@needs_fork
@pytest.mark.parametrize(
    "error", [RuntimeError("shapes cannot be multiplied"), ConfigError("min_length is 30"), ValueError("97 positions")]
)
@pytest.mark.parametrize("workers", [1, 2])
def test_errors_arrive_as_they_are_and_the_next_call_works(error: Exception, workers: int) -> None:
    machine = Machine(0, error)
    pool = Workers(machine, workers)
    with pytest.raises(type(error), match=str(error)):
        run(pool, LENGTHS, 24)
    machine.room = 100
    assert run(pool) == SQUARES


@needs_fork
def test_a_worker_that_is_killed_is_one_error_and_not_a_wait_for_ever() -> None:
    def fatal(batch: list[int]) -> list[int]:
        if 9 in batch:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    with pytest.raises(DragomanError, match=r"a worker was killed.*--workers 1$"):
        run(fatal, workers=2)


@needs_fork
def test_an_interruption_leaves_no_process_behind() -> None:
    def interrupt(batch: list[int]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(who, LENGTHS * 3, 12, 2, interrupt)


ENDLESS = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which background jobs of scripts ignore
from dragoman.inference import batching
from dragoman.inference.batching import Workers, in_batches

def compute(batch):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(float(sys.argv[1]))
    return batch

batching.available_cores = lambda: 2
in_batches(Workers(compute, 2), lambda batch: (batch,), [5] * 1000, 5)
"""


@needs_fork
@pytest.mark.parametrize(
    ("sent", "to_all", "seconds"),
    [(signal.SIGINT, True, 0.2), (signal.SIGKILL, False, 60.0)],
    ids=["Ctrl-C", "SIGKILL"],
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


# ---- processes that are kept from call to call


class Changing:
    """A function whose answer depends on a state that may change."""

    def __init__(self) -> None:
        self.state, self.factor = object(), 2

    def __call__(self, batch: list[int]) -> list[tuple[int, int]]:
        return [(os.getpid(), self.factor * place) for place in batch]

    def pool(self) -> Workers[tuple[int, int]]:
        return Workers(self, 2, lambda: self.state)


def processes_and_values(pool: Workers[tuple[int, int]]) -> tuple[set[int], list[int]]:
    found = run(pool)
    return {process for process, _ in found}, [value for _, value in found]


@needs_fork
def test_processes_are_kept_until_the_state_changes() -> None:
    changing = Changing()
    pool = changing.pool()
    kept = set[int]()
    for _ in range(3):
        processes, values = processes_and_values(pool)
        kept |= processes
        assert values == [2 * place for place in range(10)]
    assert len(kept) <= 2
    changing.state, changing.factor = object(), 3
    processes, values = processes_and_values(pool)
    assert values == [3 * place for place in range(10)]
    assert not processes & kept
    assert len(multiprocessing.active_children()) == 2  # those of before have ended


@needs_fork
def test_several_threads_may_share_them() -> None:
    pool = Changing().pool()
    found: list[tuple[set[int], list[int]]] = []
    threads = [threading.Thread(target=lambda: found.append(processes_and_values(pool))) for _ in range(4)]
    for thread in threads:
        thread.start()
    while threads:
        threads.pop().join(timeout=60)
    assert [values for _, values in found] == [[2 * place for place in range(10)]] * 4
    assert len(set.union(*(processes for processes, _ in found))) <= 2
    processes_and_values(pool)  # a thread's end is not its workers' end


# ---- translators


def of_two(translator: Translator) -> Translator:
    """The same translator with two processes."""
    return Translator(translator.folder, workers=2)


@needs_fork
def test_several_workers_translate_score_and_align_as_one_does() -> None:
    translator = with_facts(build(), longest_training_side=30)
    lines = ["", LINES[3], " ".join(SENTENCES), "  ", *LINES[:20], LINES[8]]
    two = of_two(translator)
    for config in (SearchConfig(), SearchConfig(beam=2, n_best=2, batch_tokens=150)):
        done: list[int] = []
        expected, found = translator.translate(lines, config), two.translate(lines, config, done.append)
        for one, other in zip(found, expected, strict=True):
            close(one, other)
            assert [c.subwords for c in one.candidates] == [c.subwords for c in other.candidates]
        assert sum(done) == sum(bool(line.strip()) for line in lines)
    assert two.align(lines, found) == translator.align(lines, expected)
    pairs = [(line, line) for line in LINES[:9]]
    assert two.score(pairs) == translator.score(pairs)
    assert two.translate([""]) == translator.translate([""])


@needs_fork
def test_workers_see_weights_that_changed_after_the_translator_was_made() -> None:
    translator = of_two(build())
    before = translator.translate(LINES[:8])
    with torch.no_grad():
        for parameter in translator.model.decoder.parameters():
            parameter.mul_(-1.0)
    after = translator.translate(LINES[:8])
    assert texts(after) != texts(before)
    assert texts(after) == texts(Translator(translator.folder).translate(LINES[:8]))
