"""Ctrl-C, SIGTERM and a terminal that goes away ask a run to stop."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import pytest

from dragoman.training.signals import StopRequest

BOTH = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """Signals that reach the handlers outside StopRequest, instead of ending the tests."""
    received: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        received.append(number)

    previous = {number: signal.signal(number, handler) for number in BOTH}
    yield received
    for number, old in previous.items():
        signal.signal(number, old)


@pytest.mark.parametrize("number", BOTH)
def test_a_signal_is_noted_and_interrupts_nothing(heard: list[int], number: signal.Signals) -> None:
    reached = False
    with StopRequest() as stop:
        assert stop.signal == 0
        os.kill(os.getpid(), number)
        reached = True
        assert stop.signal == number
    assert reached
    assert stop.signal == number  # still known after the run
    assert heard == []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("dragoman.training.signals.time.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("first", BOTH)
def test_a_second_ctrl_c_interrupts_at_once_unless_a_launcher_repeats_the_first(
    heard: list[int], first: signal.Signals, clock: list[float]
) -> None:
    with StopRequest() as stop:
        signal.raise_signal(first)
        for echo, pause in ((signal.SIGTERM, 0.5), (signal.SIGINT, 0.4)):  # echoes don't prolong themselves
            clock[0] += pause
            signal.raise_signal(echo)
        clock[0] += 0.1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stop.signal == first  # a run that saves on its way out still knows why
    signal.raise_signal(first)
    assert heard == [first]  # afterwards signals go where they went before


def test_outside_the_main_thread_nothing_is_caught_and_nothing_breaks() -> None:
    def run() -> object:
        with StopRequest():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(run).result() == signal.getsignal(signal.SIGTERM)


def test_a_signal_that_comes_while_something_is_printed_counts(heard: list[int]) -> None:
    def reentrant() -> None:
        raise RuntimeError("reentrant call inside <_io.BufferedWriter name='<stderr>'>")

    with StopRequest(reentrant) as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.signal == signal.SIGTERM


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no terminal hangs up here")
def test_a_terminal_that_goes_away_asks_as_sigterm_does_however_often_it_says_so(clock: list[float]) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGHUP)  # one is from the shell, and one from the kernel
            assert stop.signal == signal.SIGTERM
            clock[0] += 2.0
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no terminal hangs up here")
def test_a_run_that_was_to_outlive_its_terminal_does() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.signal == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
