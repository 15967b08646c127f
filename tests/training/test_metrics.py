"""The records of a run: JSON lines, and a resumed run forgets what it does again."""

import io
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import rich.console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer import event_file_writer

from dragoman.folder import METRICS_FILE
from dragoman.training import metrics as recorder
from dragoman.training.metrics import Recorder
from tests.fuzz.faults import complaint, no_space


@pytest.fixture(autouse=True)
def _event_files_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard sorts files by name: of one process and one second, .10 would stand before .9."""
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(1000))


def record_steps(folder: Path, steps: range, after_step: int = 0, run: str = "first") -> None:
    with Recorder(folder, after_step) as records:
        for step in steps:
            records.record(step, {"train/loss": step / 2, f"train/{run}": 1.0})


def recorded(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / METRICS_FILE).read_text().splitlines()]


@pytest.mark.parametrize("rest", ['{"step": 3, "train/lo', "\x00\x00\x00"])
def test_a_half_written_last_line_is_dropped(rest: str, tmp_path: Path) -> None:
    record_steps(tmp_path, range(1, 3))
    with (tmp_path / METRICS_FILE).open("a") as file:
        file.write(rest)
    record_steps(tmp_path, range(3, 5), after_step=2)
    assert [line["step"] for line in recorded(tmp_path)] == [1, 2, 3, 4]


def test_a_resumed_run_keeps_earlier_steps_and_forgets_later_ones(tmp_path: Path) -> None:
    record_steps(tmp_path, range(1, 7))
    record_steps(tmp_path, range(5, 8), after_step=4, run="second")
    assert [line["step"] for line in recorded(tmp_path)] == [1, 2, 3, 4, 5, 6, 7]
    assert ["train/first" in line for line in recorded(tmp_path)] == [True] * 4 + [False] * 3
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(s, s / 2) for s in range(1, 8)]


def test_lines_are_strict_json_even_where_a_number_is_not_finite(tmp_path: Path) -> None:
    with Recorder(tmp_path) as records:
        records.record(1, {"train/loss": math.nan, "train/lr": math.inf})
    assert recorded(tmp_path) == [{"step": 1, "train/loss": None, "train/lr": None}]


def test_a_terminal_shows_translations_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(
        recorder,
        "Console",
        lambda stderr, **settings: rich.console.Console(file=shown, force_terminal=True, **settings),
    )
    with Recorder(tmp_path) as records:
        assert records._live
        records.say("    12:100:5 :smile: [bold]a[/bold]")
    assert "    12:100:5 :smile: [bold]a[/bold]" in shown.getvalue()


def test_without_a_terminal_progress_is_a_line_every_few_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("dragoman.runtime.console.time.monotonic", lambda: clock[0])
    with Recorder(tmp_path) as records:
        for step in range(1, 101):  # a second each
            clock[0] += 1.0
            records.show(step, "loss 1.0", step / 100)
    lines = capsys.readouterr().err.strip().splitlines()
    assert 5 <= len(lines) <= 20
    assert all("loss 1.0" in line for line in lines)


@pytest.mark.parametrize("place", [METRICS_FILE, "tensorboard"])
def test_a_full_disk_is_an_error_in_one_sentence(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with Recorder(tmp_path) as records:
        records.record(1, {"train/loss": 0.5})
        if place == METRICS_FILE:
            with open("/dev/full", "w") as full:
                os.dup2(full.fileno(), records._metrics.fileno())
        else:
            monkeypatch.setattr(records._tensorboard, "flush", lambda: no_space(0))
        assert METRICS_FILE in complaint(lambda: records.record(2, {"train/loss": 0.5}))
    assert "Traceback" not in capfd.readouterr().err
    assert recorded(tmp_path)[0] == {"step": 1, "train/loss": 0.5}


def test_validations_of_the_step_at_which_a_run_resumes_are_kept_only_if_they_are_done(tmp_path: Path) -> None:
    for validated in (True, False):
        with Recorder(tmp_path) as records:
            for step in (1, 2):
                records.record(step, {"train/loss": step / 2})
                records.record(step, {"valid/loss": step / 4})
                records.record(step, {"health/empty": 0.0})
        with Recorder(tmp_path, 2, validated):
            kept = recorded(tmp_path)
        assert [line["step"] for line in kept] == [1, 1, 1, 2, 2, 2] if validated else [1, 1, 1, 2]
