"""Lines about how far something has come."""

from __future__ import annotations

import time
from collections.abc import Callable

Report = Callable[[str], None]
"""Takes one line for people."""


class NowAndThen:
    """Passes a line on where some seconds have gone by since the last one, or since the beginning."""

    def __init__(self, report: Report, seconds: float = 5.0) -> None:
        """Begin.

        Args:
            report: takes the lines.
            seconds: between two of them, at least.
        """
        self._report, self._seconds = report, seconds
        self._told = time.monotonic()

    def __call__(self, line: str) -> None:
        """Report a line, unless it is too early for another."""
        if time.monotonic() - self._told >= self._seconds:
            self._told = time.monotonic()
            self._report(line)
