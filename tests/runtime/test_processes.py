"""Work on several cores: the same as on one, and nothing stays behind."""

import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from dragoman.config import DragomanError
from dragoman.runtime.processes import map_on_cores

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no forked processes")


@pytest.fixture(autouse=True)
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The cores that there seem to be."""
    number = getattr(request, "param", 3)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(number)))
    return number


@pytest.mark.parametrize("cores", [1, 3], indirect=True)
def test_results_come_in_the_order_of_the_items(cores: int) -> None:
    def square(number: int) -> tuple[int, int]:
        time.sleep(0.01 * (number % 3))
        return number * number, os.getpid()

    for count in (0, 1, 2, 20):
        results = list(map_on_cores(square, range(count)))
        assert [result for result, _ in results] == [number * number for number in range(count)]
        processes = {process for _, process in results}
        assert (os.getpid() in processes) == (cores == 1 or count == 1) or not count
    assert len(processes) <= cores


@pytest.mark.parametrize("cores", [1, 3], indirect=True)
def test_items_are_read_only_a_few_ahead(cores: int) -> None:
    items = iter(range(1000))
    results = map_on_cores(lambda number: -number, items)
    for number in range(10):
        assert next(results) == -number
        read = 1000 - operator.length_hint(items)
        assert read - number <= 2 * cores + 1
    results.close()  # type: ignore[attr-defined]


def test_errors_of_the_function_and_of_the_items_arrive() -> None:
    def refuse(number: int) -> int:
        raise DragomanError(f"not {number}")

    def broken() -> Iterator[int]:
        yield from range(10)
        raise DragomanError("line 11")

    with pytest.raises(DragomanError, match="not 0"):
        list(map_on_cores(refuse, range(10)))
    with pytest.raises(DragomanError, match="line 11"):
        list(map_on_cores(abs, broken()))


def test_a_killed_process_is_an_error_also_where_sigterm_is_caught() -> None:
    def die(number: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL if number == 4 else 0)

    caught = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        with pytest.raises(DragomanError, match="a process was killed"):
            list(map_on_cores(die, range(10)))
    finally:
        signal.signal(signal.SIGTERM, caught)


def test_processes_end_with_a_killed_parent() -> None:
    code = """
import os, time
from dragoman.runtime.processes import map_on_cores
os.sched_getaffinity = lambda process: {0, 1, 2}
for process in map_on_cores(lambda number: time.sleep(number) or os.getpid(), [0, 0, 0, 60]):
    print(process, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        first = int(parent.stdout.readline())
        parent.kill()
        # The pipe closes when no process has it any more.
        parent.communicate(timeout=20)
    assert first != parent.pid
