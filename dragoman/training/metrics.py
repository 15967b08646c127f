"""What a run records and shows: `metrics.jsonl`, TensorBoard, and progress on stderr."""

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from torch.utils.tensorboard import SummaryWriter

from dragoman.folder import METRICS_FILE, read_records
from dragoman.runtime.console import NowAndThen, say, silence
from dragoman.runtime.files import not_saved, write_atomically

_SECONDS_BETWEEN_LINES = 10.0


class Recorder:
    """Records a run's numbers in its folder and shows them: on a terminal as a live display, otherwise as lines."""

    def __init__(self, folder: Path | None, step: int = 0, validated: bool = False) -> None:
        """Open the records of the run in a folder; None records and shows nothing.

        What a run that resumes after this step will do again is removed: later steps, and its validation if not done.
        """
        self._folder, self._live = folder, False
        if folder is None:
            return
        self._path = folder / METRICS_FILE
        with self._saving():
            kept = [json.dumps(line) + "\n" for line in read_records(folder) if self._place(line) <= (step, validated)]
            write_atomically(self._path, "".join(kept).encode())
            self._metrics = self._path.open("a", encoding="utf-8")
            # TensorBoard forgets what earlier files contain from purge_step on.
            self._tensorboard = SummaryWriter(folder / "tensorboard", purge_step=step + 1)
        self._console = Console(stderr=True, highlight=False)
        self._live = self._console.is_terminal
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), TaskProgressColumn())
        self._progress = Progress(*columns, TextColumn("{task.fields[status]}"), console=self._console, transient=True)
        self._task = self._progress.add_task("training", total=1.0, status="")
        if self._live:
            self._display(self._progress.start)
        self._report_sometimes = NowAndThen(self.say, _SECONDS_BETWEEN_LINES)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *error: object) -> None:
        if self._folder is None:
            return
        if self._live:
            self._display(self._progress.stop)
        with suppress(OSError):  # every record was flushed when it was written
            self._metrics.close()
            self._tensorboard.close()

    def record(self, step: int, values: Mapping[str, float], others: Mapping[str, Any] | None = None) -> None:
        """Write numbers, by TensorBoard tag, to metrics.jsonl (null for NaN) and TensorBoard; others to the former."""
        if self._folder is None:
            return
        finite = {tag: value if math.isfinite(value) else None for tag, value in values.items()}
        with self._saving():
            self._metrics.write(json.dumps({"step": step} | finite | dict(others or {})) + "\n")
            self._metrics.flush()
            for tag, value in values.items():
                self._tensorboard.add_scalar(tag, value, step)
            self._tensorboard.flush()

    def show(self, step: int, status: str, done: float) -> None:
        """Show a step, and which part of the run is done (0 to 1; 0 if the run has no limit)."""
        if self._live:
            shown = {"description": f"step {step:,}", "status": status, "completed": done}
            self._display(self._progress.update, self._task, **shown)
        elif self._folder:
            self._report_sometimes(f"step {step:,}  {status}")

    def say(self, line: str) -> None:
        """Print one line on stderr."""
        if self._live:
            self._display(self._console.print, line, markup=False, emoji=False)
        elif self._folder:
            say(line)

    def _display(self, action: Callable[..., None], *given: Any, **settings: Any) -> None:
        """Do something on the terminal; keep working without a display when it is closed."""
        try:
            action(*given, **settings)
        except OSError:
            silence(sys.stderr)

    def _place(self, record: Mapping[str, Any]) -> tuple[int, bool]:
        return record["step"], any(tag.startswith(("valid/", "health/")) for tag in record)  # of a validation

    @contextmanager
    def _saving(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise not_saved(self._path, error, "what was recorded before is intact") from None
