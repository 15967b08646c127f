"""Training from the command line: what it leaves, how it stops and continues."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.checkpoint import ModelFolder, list_checkpoints, read_weights
from tests.command_calls import complaint, python, run, train


def checkpoint_steps(out: Path) -> list[str]:
    return [path.stem for path in list_checkpoints(out)]


def same_weights(first: Path, second: Path) -> bool:
    ours, others = (read_weights(folder / "model.safetensors") for folder in (first, second))
    return ours.keys() == others.keys() and all(torch.equal(ours[name], others[name]) for name in ours)


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


def test_a_finished_run_says_so_and_changes_nothing(text: Path, copy: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*") if path.is_file()}
    result = run(*train(text, copy))
    assert (result.code, result.out) == (0, "")
    assert "already finished" in result.err
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*") if path.is_file()} == before


def test_a_finished_run_given_more_room_goes_on(text: Path, copy: Path) -> None:
    result = run(*train(text, copy, "--max_steps", 6))
    assert result.code == 0
    assert "resuming after step 4" in result.err
    assert checkpoint_steps(copy)[-1] == "step-00000006"


def test_the_same_command_gives_the_same_model(text: Path, trained: Path, tmp_path: Path) -> None:
    assert run(*train(text, tmp_path / "again")).code == 0
    assert same_weights(tmp_path / "again", trained)
    assert run(*train(text, tmp_path / "other", "--seed", 2)).code == 0
    assert not same_weights(tmp_path / "other", trained)


def test_a_restart_begins_again(text: Path, copy: Path, trained: Path) -> None:
    result = run(*train(text, copy, "--restart", "true"))
    assert result.code == 0
    assert "resuming" not in result.err
    assert same_weights(copy, trained)


def test_a_switch_may_stand_alone(text: Path, copy: Path, trained: Path) -> None:
    result = run(*train(text, copy, "--restart", "--max_minutes", 9))
    assert result.code == 0
    assert "resuming" not in result.err
    assert same_weights(copy, trained)


def test_without_validation_text_some_pairs_are_held_out(text: Path, tmp_path: Path) -> None:
    arguments = train(text, tmp_path / "model")
    at = arguments.index("--valid")
    del arguments[at : at + 2]
    assert run(*arguments).code == 0
    assert (tmp_path / "model" / "heldout.en").read_text()


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let SIGTERM arrive during a step of training; 0 stops that."""
    from dragoman.training.trainer import Trainer

    train_step = Trainer._train_step

    def stop_at(step: int) -> None:
        def stopping(self: Trainer, share: Any) -> None:
            if self.progress.step == step - 1:
                signal.raise_signal(signal.SIGTERM)
            train_step(self, share)

        monkeypatch.setattr(Trainer, "_train_step", stopping)

    return stop_at


def test_a_run_without_a_model_yet_is_no_strange_folder(
    text: Path, tmp_path: Path, stop_at: Callable[[int], None]
) -> None:
    stop_at(1)
    assert run(*train(text, tmp_path / "young")).code == 143
    assert "has no model yet; continue its training run" in complaint(1, "translate", tmp_path / "young")
    assert "that has validated its model" in complaint(1, "average", tmp_path / "young", "--out", tmp_path / "mean")


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_an_interrupted_run_ends_as_if_it_had_not_been(
    step: int, stop_at: Callable[[int], None], text: Path, trained: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    stop_at(step)
    result = run(*train(text, out))
    assert result.code == 143
    assert f"stopped after step {step}" in result.err
    stop_at(0)
    result = run(*train(text, out))
    assert result.code == 0
    assert f"resuming after step {step}" in result.err
    assert checkpoint_steps(out) == checkpoint_steps(trained)
    assert same_weights(out, trained)


def test_a_run_stopped_at_its_last_step_still_leaves_a_model(
    stop_at: Callable[[int], None], text: Path, tmp_path: Path
) -> None:
    arguments = train(text, tmp_path / "model", "--validation.every", 4)
    stop_at(4)
    assert run(*arguments).code == 143
    stop_at(0)
    assert run(*arguments).code == 0
    assert ModelFolder.load(tmp_path / "model").direction.facts["steps"] == 4


def test_sigterm_saves_and_the_same_command_continues(text: Path, tmp_path: Path) -> None:
    arguments = train(text, tmp_path / "model", "--validation.every", 10_000)
    process = python("-m", "dragoman", *arguments, "--max_steps", 100_000)
    assert process.stderr
    for line in process.stderr:
        if b"training" in line and b"parameters" in line:
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1].decode()
    assert process.returncode == 143, said
    assert "Traceback" not in said
    (step,) = re.findall(r"stopped after step ([\d,]+)", said)
    result = run(*arguments, "--max_steps", int(step.replace(",", "")) + 1)
    assert result.code == 0
    assert f"resuming after step {step}" in result.err


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


def test_a_model_does_not_go_on_with_the_subwords_of_another_text(copy: Path, text: Path, tmp_path: Path) -> None:
    for language, word, other in (("en", "cat", "cow"), ("de", "Katze", "Kuhle")):
        shutil.copy(text / f"valid.{language}", tmp_path)
        changed = (text / f"train.{language}").read_text().replace(word, other)
        (tmp_path / f"train.{language}").write_text(changed)
    assert "--restart" in complaint(1, *train(tmp_path, copy, "--max_steps", 6))


@pytest.mark.parametrize("option", ["--model.d_model=32", "--model.num_encoder_layers=2", "--model.tie_softmax=false"])
def test_a_model_does_not_go_on_in_another_shape(option: str, text: Path, copy: Path, trained: Path) -> None:
    assert "--restart" in complaint(1, *train(text, copy, option, "--max_steps", 6))
    assert same_weights(copy, trained)


@pytest.mark.parametrize("option", ["--model.num_heads=4", "--model.activation=gelu", "--model.positions=halves"])
def test_a_model_does_not_go_on_as_another_of_the_same_shape(option: str, text: Path, copy: Path) -> None:
    assert "--restart" in complaint(1, *train(text, copy, option, "--max_steps", 6))
