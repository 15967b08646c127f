"""Ctrl-C, SIGTERM and a closed terminal stop a run after the current step, so that it can save its state."""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

_ECHO_SECONDS = 1.0  # torchrun repeats to its processes what the terminal has already sent them
_HANGUP = getattr(signal, "SIGHUP", 0)  # Windows has none


class StopRequest:
    """Within `with StopRequest() as stop:`, `stop.signal` is SIGINT or SIGTERM after one was received, before that 0.

    The first signal calls notify; another, a second later or more, interrupts at once. A hang-up counts as SIGTERM,
    unless the process ignores it (nohup), and never as a second signal, because shell and kernel send one each. Outside
    the main thread Python can't catch signals.
    """

    def __init__(self, notify: Callable[[], None] = lambda: None) -> None:
        self._notify = notify
        self.signal = 0
        self._received = 0.0
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in filter(None, (signal.SIGINT, signal.SIGTERM, _HANGUP)):
                if number != _HANGUP or signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not self.signal:
            self.signal, self._received = signal.SIGTERM if number == _HANGUP else number, time.monotonic()
            with suppress(RuntimeError):  # the signal interrupted another print
                self._notify()
        elif number != _HANGUP and time.monotonic() - self._received >= _ECHO_SECONDS:
            raise KeyboardInterrupt
