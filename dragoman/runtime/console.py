"""Messages on stderr, progress lines at intervals, and cells of Markdown tables."""

import difflib
import os
import re
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TextIO

Report = Callable[[str], None]
"""Takes one line of a message."""


def say(line: str) -> None:
    """Print a line on stderr, on a terminal wrapped between words. Keep working when stderr is closed."""
    try:
        print(_in_lines(line) if sys.stderr.isatty() else line, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def command(*words: object) -> str:
    """A command to paste: this program as it was called, and its words, quoted where the shell needs it."""
    called = sys.argv[0]
    is_elsewhere = Path(called).name == "dragoman" and shutil.which("dragoman") != called  # not on the path
    program = [called if is_elsewhere else "dragoman"]
    if Path(called).parts[-2:] == ("dragoman", "__main__.py"):
        program = [sys.executable, "-m", "dragoman"]
    return shlex.join([*program, *map(str, words)])


def shorten(text: str, most: int) -> str:
    """A text cut to so many characters, the last of them an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def nearest(name: str, known: Collection[str]) -> str:
    """The end of a sentence that suggests what may have been meant; empty where nothing is near."""
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" (did you mean {found[0]}?)" if found else ""


def table_cell(value: Any) -> str:
    """A value as a cell of a Markdown table."""
    if isinstance(value, dict):
        return "<br>".join(f"{key}: {table_cell(inner)}" for key, inner in value.items())
    return str(value).replace("|", "\\|")


def silence(stream: TextIO) -> None:
    """Discard what is written to a stream, and what it still buffers."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _in_lines(text: str) -> str:
    """Wrap the lines of a text to the width of the terminal, except those with a command that people may copy."""
    wrap = textwrap.TextWrapper(shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False)
    lines = []
    for line in text.split("\n"):
        wrap.subsequent_indent = " " * (len(line) - len(line.lstrip(" ")))
        lines.append(line if re.search(r"dragoman \w+ (?!--help)\S", line) else wrap.fill(line))
    return "\n".join(lines)


class NowAndThen:
    """Passes a line on if some seconds have passed since the last one, or since the start."""

    def __init__(self, report: Report, seconds: float = 5.0) -> None:
        self._report, self._seconds = report, seconds
        self._last = time.monotonic()

    def __call__(self, line: str) -> None:
        """Report a line, unless it is too early for another."""
        if time.monotonic() - self._last >= self._seconds:
            self._last = time.monotonic()
            self._report(line)
