"""What a run says: a live display or plain lines on stderr, `metrics.jsonl`, and TensorBoard."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from torch.utils.tensorboard import SummaryWriter

from dragoman.checkpoint import METRICS_FILE, write_atomically

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
        self._forget(after_step)
        self._metrics = self._path.open("a", encoding="utf-8")
        self._tensorboard = SummaryWriter(folder / _TENSORBOARD_FOLDER, purge_step=after_step + 1)
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
        self._last_line = time.monotonic()

    def __enter__(self) -> Recorder:
        """Start the live display, on a terminal."""
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the display and close the records."""
        if self._live:
            self._progress.stop()
        self._metrics.close()
        self._tensorboard.close()

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Write numbers, by TensorBoard tag, to metrics.jsonl (null where JSON has no such number) and TensorBoard."""
        finite = {tag: value if math.isfinite(value) else None for tag, value in values.items()}
        self._metrics.write(json.dumps({"step": step} | finite) + "\n")
        self._metrics.flush()
        for tag, value in values.items():
            self._tensorboard.add_scalar(tag, value, step)

    def show(self, step: int, status: str, done: float) -> None:
        """Show how it goes: on the live display, or as a line every few seconds.

        Args:
            step: number of the step.
            status: loss, speed, …
            done: part of the run that is done, 0 to 1; 0 where nobody knows.
        """
        if self._live:
            self._progress.update(self._task, description=f"step {step:,}", status=status, completed=done)
        elif time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            print(f"step {step:,}  {status}", file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        """Print one line for people."""
        if self._live:
            self._console.print(line, markup=False)
        else:
            print(line, file=sys.stderr, flush=True)

    def _forget(self, after_step: int) -> None:
        if not self._path.is_file():
            return
        kept = []
        for line in self._path.read_text(encoding="utf-8").split("\n"):
            try:
                if json.loads(line)["step"] <= after_step:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError):
                continue  # cut short by a crash
        write_atomically(self._path, "".join(kept).encode())
