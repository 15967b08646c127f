"""How the parent and a worker process talk: one JSON object a line, a request on stdin, its answer on stdout.

A worker imports nothing of Dragoman unless it is Dragoman's, so that it runs in whatever environment its peer needs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Any, Protocol

Message = dict[str, Any]
_GRACE = 10.0  # seconds


class PeerError(Exception):
    """A competitor that can't take part; the message is one sentence."""


class Session(Protocol):
    """A loaded model, ready to be measured."""

    facts: Message
    """What there is to know about it before it is measured."""

    def measure(self, request: Message) -> Message:
        """Do what the request says, and tell how long it took."""


class Worker:
    """A worker process, seen from the parent."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start the process.

        Args:
            name: for messages.
            command: of the process, which calls `serve`.
            environment: its variables, beside those of this process.
            log: where its stderr goes.

        Raises:
            PeerError: there is no such program.
        """
        self.name = name
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("w") as errors:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env={**os.environ, **environment},
                    text=True,
                )
        except OSError as error:
            raise PeerError(f"{name} is left out: {command[0]} does not start ({error.strerror})") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout

    def ask(self, request: Message, seconds: float) -> Message:
        """Send a request and wait for its answer.

        Raises:
            PeerError: the worker failed, ended, or took longer than this.
        """
        timer = Timer(seconds, self._process.kill)
        timer.start()
        try:
            self._to.write(json.dumps(request) + "\n")
            self._to.flush()
            line = self._from.readline()
        except OSError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            raise PeerError(f"{self.name} is left out: {self._last_words()} (see {self._log})")
        answer: Message = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name} is left out: {answer['error']} (see {self._log})")
        return answer

    def close(self) -> None:
        """End the process; one that has ended already may be closed, too."""
        with suppress(OSError):  # it has ended, and what it was sent can't be delivered
            self._to.close()
        try:
            self._process.wait(timeout=_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._from.close()

    def _last_words(self) -> str:
        """The last line of the log: of a traceback, the one that names the error."""
        self._process.wait()
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        if self._process.returncode < 0:
            return f"ended by signal {-self._process.returncode}"
        return lines[-1].strip() if lines else f"ended with status {self._process.returncode}"

    def __enter__(self) -> Worker:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close."""
        self.close()


def serve(prepare: Callable[[Message], Session]) -> None:
    """A worker's whole life: prepare what the first request says, then measure whenever asked, until stdin ends.

    Whatever libraries print goes to stderr: only answers may go to stdout.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    session: Session | None = None
    for line in sys.stdin:
        try:
            if session is None:
                session = prepare(json.loads(line))
                answer = session.facts
            else:
                answer = session.measure(json.loads(line))
        except Exception as error:  # whatever it is, the parent must hear of it
            traceback.print_exc()
            first = (str(error).strip().splitlines() or [""])[0]
            answer = {"error": f"{type(error).__name__}: {first}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
