"""What a run says: a live display or plain lines on stderr, `metrics.jsonl`, and TensorBoard."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from dragoman.checkpoint import METRICS_FILE
from dragoman.runtime.console import NowAndThen, say, silence
from dragoman.runtime.files import not_saved, write_atomically

_TENSORBOARD_FOLDER = "tensorboard"
_SECONDS_BETWEEN_LINES = 10.0


class Recorder:
    """Records a run's numbers under its folder and shows them to whoever watches."""

    def __init__(self, folder: Path, after_step: int = 0) -> None:
        """Open the records.

        Args:
            folder: of the run.
            after_step: forget what was recorded beyond this step; a resumed run does those steps again.
        """
        self._path = folder / METRICS_FILE
        with self._saving():
            self._forget(after_step)
            self._metrics = self._path.open("a", encoding="utf-8")
            self._tensorboard = _Events(folder / _TENSORBOARD_FOLDER, after_step + 1)
        self._console = Console(stderr=True, highlight=False)
        self._live = self._console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[status]}"),
            console=self._console,
            transient=True,
        )
        self._task = self._progress.add_task("training", total=1.0, status="")
        self._tell = NowAndThen(self.say, _SECONDS_BETWEEN_LINES)

    def __enter__(self) -> Recorder:
        """Start the live display, on a terminal."""
        if self._live:
            with _on_terminal():
                self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the display and close the records."""
        if self._live:
            with _on_terminal():
                self._progress.stop()
        for file in (self._metrics, self._tensorboard):
            with suppress(OSError):  # every record was flushed when it was written
                file.close()

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Write numbers, by TensorBoard tag, to metrics.jsonl (null where JSON has no such number) and TensorBoard."""
        finite = {tag: value if math.isfinite(value) else None for tag, value in values.items()}
        with self._saving():
            self._metrics.write(json.dumps({"step": step} | finite) + "\n")
            self._metrics.flush()
            self._tensorboard.record(step, values)

    def show(self, step: int, status: str, done: float) -> None:
        """Show how it goes: on the live display, or as a line every few seconds.

        Args:
            step: number of the step.
            status: loss, speed, …
            done: part of the run that is done, 0 to 1; 0 where nobody knows.
        """
        if self._live:
            with _on_terminal():
                self._progress.update(self._task, description=f"step {step:,}", status=status, completed=done)
        else:
            self._tell(f"step {step:,}  {status}")

    def say(self, line: str) -> None:
        """Print one line for people."""
        if self._live:
            with _on_terminal():
                self._console.print(line, markup=False, emoji=False)
        else:
            say(line)

    @contextmanager
    def _saving(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise not_saved(self._path, error, "what was recorded before is intact") from None

    def _forget(self, after_step: int) -> None:
        if not self._path.is_file():
            return
        kept = []
        for line in self._path.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                if json.loads(line)["step"] <= after_step:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # cut short by a crash
        write_atomically(self._path, "".join(kept).encode())


@contextmanager
def _on_terminal() -> Iterator[None]:
    """Go on without a display where the terminal is gone."""
    try:
        yield
    except OSError:
        silence(sys.stderr)


class _Events:
    """TensorBoard's file of a run.

    Written at once, and not by a thread as SummaryWriter does: that one could tell nobody that the disk is full.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        """Begin a file; TensorBoard forgets what earlier ones have from this step on."""
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns() // 1000}.{socket.gethostname()}.{os.getpid()}"
        self._file = (folder / name).open("wb")
        self._writer = RecordWriter(self._file)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        start = SessionLog(status=SessionLog.START)
        self._write(Event(wall_time=time.time(), step=first_step, session_log=start))

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Write numbers, by tag."""
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._write(Event(wall_time=time.time(), step=step, summary=summary))

    def _write(self, event: Event) -> None:
        self._writer.write(event.SerializeToString())
        self._writer.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()


class SilentRecorder(Recorder):
    """Records and shows nothing: for all processes of a run but the first."""

    def __init__(self) -> None:
        """Open nothing."""

    def __enter__(self) -> SilentRecorder:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End."""

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Write nothing."""

    def show(self, step: int, status: str, done: float) -> None:
        """Show nothing."""

    def say(self, line: str) -> None:
        """Print nothing."""


def clock(seconds: float) -> str:
    """A duration as 4:05 or 1:04:05."""
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}" if minutes >= 60 else f"{minutes}:{seconds:02d}"
