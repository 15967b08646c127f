"""Ctrl-C and SIGTERM ask a run to stop after the present step, so that it can save first."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType


class StopRequest:
    """Within `with StopRequest() as stop:`, `stop.signal` is the number of the signal received, or 0.

    A second signal interrupts at once. Outside the main thread nothing is caught, because Python can't there.
    """

    def __init__(self, echo: float = 0.0) -> None:
        """Begin with no request.

        Args:
            echo: seconds within which a second signal is still the first one; torchrun passes on what the terminal
                has already sent to every process.
        """
        self._echo = echo
        self.signal = 0
        self._received = 0.0
        self._previous: dict[int, object] = {}

    def __enter__(self) -> StopRequest:
        """Listen."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop listening."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.signal and time.monotonic() - self._received >= self._echo:
            raise KeyboardInterrupt
        if not self.signal:
            self.signal, self._received = number, time.monotonic()
