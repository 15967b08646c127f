"""Ctrl-C, SIGTERM and a terminal that is closed ask a run to stop after the present step, so that it can save first."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType

_HANGUP = getattr(signal, "SIGHUP", 0)  # Windows has none


class StopRequest:
    """Within `with StopRequest() as stop:`, `stop.signal` is SIGINT or SIGTERM once one was received, or else 0.

    A second one interrupts at once. A hang-up counts as SIGTERM, unless it was to be ignored (nohup), and never as a
    second signal, because shell and kernel send one each. Outside the main thread nothing is caught, because Python
    can't there.
    """

    def __init__(self, tell: Callable[[], None] = lambda: None, echo: float = 0.0) -> None:
        """Begin with no request.

        Args:
            tell: called at the first signal; a step may take long.
            echo: seconds within which a second signal is still the first one; torchrun passes on what the terminal
                has already sent to every process.
        """
        self._tell, self._echo = tell, echo
        self.signal = 0
        self._received = 0.0
        self._previous: dict[int, object] = {}

    def __enter__(self) -> StopRequest:
        """Listen."""
        if threading.current_thread() is threading.main_thread():
            for number in filter(None, (signal.SIGINT, signal.SIGTERM, _HANGUP)):
                if number != _HANGUP or signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop listening."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not self.signal:
            self.signal, self._received = signal.SIGTERM if number == _HANGUP else number, time.monotonic()
            with suppress(RuntimeError):  # the signal came while something else was printed
                self._tell()
        elif number != _HANGUP and time.monotonic() - self._received >= self._echo:
            raise KeyboardInterrupt
