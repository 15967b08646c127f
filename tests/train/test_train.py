"""The verb `train`: its settings, one run in a folder, what it says at the end, text that changes."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from dragoman import train as train_module
from dragoman.cli.main import main
from dragoman.config import PRESETS, TrainConfig
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


def test_a_preset_is_chosen_by_text_and_machine(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_module, "choose_device", lambda name: torch.device(name))
    for small, base, device, preset in (
        (321, 999, "cuda", "tiny"),
        (320, 321, "cuda", "small"),
        (9, 320, "cuda", "base"),
        (9, 320, "cpu", "small"),
    ):
        monkeypatch.setattr(train_module, "_PAIRS_FOR_SMALL", small)
        monkeypatch.setattr(train_module, "_PAIRS_FOR_BASE", base)
        config = TrainConfig("en", "xx", [str(text / "train")], "nowhere", device=device)
        assert train_module.choose_preset(config) == preset


def test_a_run_keeps_the_preset_it_chose_and_so_does_what_is_fine_tuned_from_it(
    text: Path, tmp_path: Path, run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    def chosen(*more: object, out: str = "run", shape: Sequence[str] = SHAPE) -> str:
        ended = run(text, tmp_path / out, "--preset", "auto", "--max-steps", 1, *more, shape=shape)
        assert ended.code == 0, ended.said
        assert ("preset tiny, chosen for 320 pairs on cpu (" in ended.said) is (more == ())
        return str(settings_of(tmp_path / out)["preset"])

    assert chosen() == "tiny"
    assert settings_of(tmp_path / "run")["model"]["init_gain"] == PRESETS["tiny"]["model.init_gain"]
    monkeypatch.setattr(train_module, "_PAIRS_FOR_SMALL", 1)
    assert chosen("--max-steps", 2) == "tiny"
    assert chosen("--from", tmp_path / "run", out="tuned", shape=NO_SHAPE) == "tiny"
    assert chosen("--restart") == "small"


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
        return ended.said

    go("--max-steps", 4)
    following = f"\nnext:\n  dragoman translate {tmp_path / 'run'}\n"
    assert go("--max-steps", 4).endswith(f"\nto continue, raise --max-steps{following}")
    assert "\nfinished; " in go("--max-steps", 6)
    patient = ["--validation.patience", 1, "--accept-changes", "--optimizer.lr-scale", 1e-9, "--max-steps", 60]
    assert "\nto continue, raise --validation.patience\n" in go(*patient)
    assert "\nstopped early: no improvement in 3 validations" in go(*patient, "--validation.patience", 3)


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
