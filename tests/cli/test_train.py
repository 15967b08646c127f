"""Training from the command line: what it leaves, how it stops and resumes."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from dragoman.checkpoint import ModelFolder
from dragoman.folder import list_checkpoints
from tests.command_calls import complaint, python, run, train


def checkpoint_steps(out: Path) -> list[str]:
    return [path.stem for path in list_checkpoints(out)]


def test_training_leaves_a_model_folder_with_records_and_checkpoints(text: Path, trained: Path) -> None:
    sides = [
        [(text / f"{name}.{side}").read_text().split("\n")[:-1] for side in ("en", "de")] for name in ("train", "valid")
    ]
    pairs, held_out = (list(zip(*part, strict=True)) for part in sides)
    unseen = [pair for pair in pairs if pair not in held_out]
    assert len(unseen) < len(pairs) == 60
    assert ModelFolder.load(trained).direction.facts["training_pairs"] == len(unseen)
    assert checkpoint_steps(trained) == ["step-00000002", "step-00000004"]
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "valid/loss" in line] == [2, 4]


IN_A_TERMINAL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "dragoman", *sys.argv[1:]])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no terminal hangs up here")
def test_closing_the_terminal_saves_and_the_same_command_continues(text: Path, tmp_path: Path) -> None:
    arguments = train(text, tmp_path / "model", "--validation.every", 10_000)
    terminal, its_end = os.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), its_end)
    process = python(
        "-c", IN_A_TERMINAL, *arguments, "--max_steps", 100_000, env={**os.environ, "TERM": "xterm"}, **streams
    )
    os.close(its_end)
    shown = b""
    while not re.search(rb"step [\d,]+ .*loss", shown):  # the display is live: it is written to the end
        shown += os.read(terminal, 10_000)
    os.close(terminal)
    assert process.wait(timeout=60) == 143
    result = run(*arguments)
    assert result.code == 0
    (step,) = re.findall(r"resuming after step ([\d,]+)", result.err)
    assert int(step.replace(",", "")) > 0


def test_missing_text_and_a_folder_that_cannot_be_written_are_named(text: Path, tmp_path: Path) -> None:
    assert str(tmp_path / "nowhere") in complaint(1, *train(tmp_path / "nowhere", tmp_path / "model"))
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "model"):
        assert str(out) in complaint(1, *train(text, out))
