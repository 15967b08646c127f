"""The verb `train`: its settings, one run in a folder, what it says at the end, text that changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman import train as train_module
from dragoman.cli.main import main
from tests.training.small_runs import records, same, write_corpus

from .running import NO_SHAPE, SHAPE, Ended, complaint, kept, settings_of

# ---- settings


def test_the_saved_settings_can_be_read_again(text: Path, tmp_path: Path, run: Callable[..., Ended]) -> None:
    assert run(text, tmp_path / "run", "--max-steps", 1).code == 0
    settings = settings_of(tmp_path / "run")
    assert settings["model"]["d_model"] == 16
    assert settings["max_steps"] == 1
    assert "source_vocab_size" not in settings["model"]
    assert main(["train", "--config", str(tmp_path / "run" / "train.yaml"), "--out", str(tmp_path / "again")]) == 0
    settings["out"] = str(tmp_path / "again")
    assert settings_of(tmp_path / "again") == settings
    assert same(kept(tmp_path / "run"), kept(tmp_path / "again"))


def test_restart_removes_the_run_and_nothing_else(tmp_path: Path, run: Callable[..., Ended]) -> None:
    write_corpus(tmp_path)
    before = (tmp_path / "train.en").read_text()
    assert run(tmp_path, tmp_path, "--max-steps", 1).code == 0
    assert run(tmp_path, tmp_path, "--max-steps", 1, "--restart", "true", "--seed", 2).code == 0
    assert (tmp_path / "train.en").read_text() == before
    assert settings_of(tmp_path)["seed"] == 2


def test_a_restart_that_can_not_begin_leaves_the_run_as_it_was(
    text: Path, parent: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    out = tmp_path / "run"
    assert run(text, out, "--max-steps", 1).code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for wrong in (["--test", tmp_path / "nothing"], ["--from", tmp_path], ["--from", parent, "--source", "xx"]):
        shape = SHAPE if wrong[0] == "--test" else NO_SHAPE
        assert run(text, out, "--restart", "true", *wrong, shape=shape).code != 0
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_dry_run_leaves_the_run_that_is_there(text: Path, tmp_path: Path, run: Callable[..., Ended]) -> None:
    out = tmp_path / "run"
    assert run(text, out, "--max-steps", 1).code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    ended = run(text, out, "--restart", "--dry-run", "--seed", 9)
    assert "contains a run, which --dry-run does not remove: try --restart in another --out" in complaint(ended, 2)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


# ---- what is said


def test_a_model_that_is_far_too_large_for_its_text_is_told_as_such(
    text: Path, tmp_path: Path, run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_module, "_LARGE_MODEL", 1000)
    few = "pairs are few for a model of"
    assert few in run(text, tmp_path / "run", "--max-steps", 1).said
    assert few not in run(text, tmp_path / "run", "--max-steps", 2).said  # once is enough
    monkeypatch.setattr(train_module, "_FEW_PAIRS", 10)
    assert few not in run(text, tmp_path / "more", "--max-steps", 1).said


@pytest.mark.parametrize("leave", [KeyboardInterrupt, SystemExit(143)], ids=["Ctrl-C", "SIGTERM"])
def test_who_stops_a_run_before_its_first_step_hears_that_nothing_is_lost(
    leave: BaseException, text: Path, tmp_path: Path, run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        raise leave

    code = 143 if isinstance(leave, SystemExit) else 130
    stopped = "stopped; the same command resumes from the last saved state, or starts again\n"
    with monkeypatch.context() as patch:
        patch.setattr(train_module, "prepare_text", interrupted)
        ended = run(text, tmp_path / "run", "--max-steps", 1)
    assert (ended.code, ended.said) == (code, stopped)
    assert run(text, tmp_path / "run", "--max-steps", 1).code == 0
    with monkeypatch.context() as patch:
        patch.setattr(train_module, "prepare_text", interrupted)
        ended = run(text, tmp_path / "run", "--max-steps", 2)
    assert (ended.code, ended.said) == (code, stopped)
    assert "resuming after step 1" in run(text, tmp_path / "run", "--max-steps", 2).said


def test_a_finished_run_says_how_it_goes_on(text: Path, tmp_path: Path, run: Callable[..., Ended]) -> None:
    def go(*more: object) -> str:
        ended = run(text, tmp_path / "run", "--optimizer.warmup-steps", 2, "--validation.every", 2, *more)
        assert ended.code == 0, ended.said
        return ended.said.rstrip("\n").split("\n")[-1]

    go("--max-steps", 4)
    assert go("--max-steps", 4) == "to continue, raise --max-steps"
    assert go("--max-steps", 6).startswith("finished")
    patient = ["--validation.patience", 1, "--accept-changes", "--optimizer.lr-scale", 1e-9, "--max-steps", 60]
    assert go(*patient) == "to continue, raise --validation.patience"
    assert go(*patient, "--validation.patience", 3).startswith("stopped early: no improvement in 3 validations")


# ---- text that changes


@pytest.fixture
def begun(text: Path, tmp_path: Path, run: Callable[..., Ended]) -> Path:
    """A text of its own and a run that has seen some of it."""
    for path in text.iterdir():
        shutil.copy(path, tmp_path)
    assert run(tmp_path, tmp_path / "run", "--max-steps", 3).code == 0
    return tmp_path


def test_a_changed_text_is_refused_by_name_or_keeps_the_subwords(begun: Path, run: Callable[..., Ended]) -> None:
    out = begun / "run"
    subwords = (out / "sentencepiece.model").read_bytes()
    for language in ("en", "xx"):
        with (begun / f"train.{language}").open("a") as file:
            file.write("a new sentence\n")
    message = complaint(run(begun, out, "--max-steps", 6))
    assert f"{begun / 'train.en'} has changed" in message
    assert "--accept-changes" in message
    ended = run(begun, out, "--max-steps", 6, "--accept-changes")
    assert ended.code == 0
    assert "resuming after step 3" in ended.said
    assert (out / "sentencepiece.model").read_bytes() == subwords
    assert [step for step, *_ in records(out, "train/loss")] == list(range(1, 7))
    assert run(begun, out, "--max-steps", 7).code == 0  # accepted once and for all
