"""Training that begins with a model (--from)."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.checkpoint import ModelFolder
from dragoman.cli.main import main
from dragoman.config import FINE_TUNING
from tests.training.small_runs import last_weights, records, same, write_corpus

from .running import NO_SHAPE, Ended, arguments, complaint, facts_of, kept, settings_of


@pytest.fixture(scope="module")
def other_text(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another text in the same languages, with the same validation text."""
    folder = tmp_path_factory.mktemp("other")
    write_corpus(folder, train=550, valid=0)
    for language in ("en", "xx"):
        path = folder / f"train.{language}"
        path.write_text("".join(line + "\n" for line in path.read_text().split("\n")[350:-1]))
        shutil.copy(text / f"valid.{language}", folder)
    return folder


def test_fine_tuning_begins_with_the_parents_weights_and_subwords(
    parent: Path, other_text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    out = tmp_path / "tuned"
    ended = run(other_text, out, "--from", parent, "--max-steps", 5, "--validation.every", 5, shape=NO_SHAPE)
    assert ended.code == 0
    found = {name: value for step, name, value in records(out, "valid/") if step == 0}
    expected = facts_of(parent)["validation"]
    assert {name: found[f"valid/{name}"] for name in expected} == pytest.approx(expected, abs=1e-4)
    assert expected["chrf"] > 0
    assert (out / "sentencepiece.model").read_bytes() == (parent / "sentencepiece.model").read_bytes()
    assert ModelFolder.load(out).model.config.shape() == ModelFolder.load(parent).model.config.shape()
    assert not same(last_weights(out), kept(parent))


def test_fine_tuning_has_defaults_of_its_own(parent: Path, other_text: Path, tmp_path: Path) -> None:
    plain = ["train", "--source", "en", "--target", "xx", "--device", "cpu", "--max-steps", "1", "--log-every", "1"]
    plain += ["--train", str(other_text / "train"), "--valid", str(other_text / "valid"), "--from", str(parent)]
    assert main([*plain, "--out", str(tmp_path / "plain")]) == 0
    settings = settings_of(tmp_path / "plain")
    for name, value in FINE_TUNING.items():
        group, field = name.split(".")
        assert settings[group][field] == value
    assert settings["from"] == str(parent)
    (rate,) = [value for _, _, value in records(tmp_path / "plain", "train/lr")]
    assert rate == pytest.approx(FINE_TUNING["optimizer.peak_lr"] / FINE_TUNING["optimizer.warmup_steps"])
    more = ["--optimizer.peak-lr", "0.01", "--model.dropout", "0.4", "--out", str(tmp_path / "own")]
    assert main([*plain, *more]) == 0
    assert settings_of(tmp_path / "own")["optimizer"]["peak_lr"] == 0.01
    assert settings_of(tmp_path / "own")["model"]["dropout"] == 0.4  # no part of the shape
    assert settings_of(tmp_path / "own")["model"]["d_model"] == 16


def test_its_origin_is_known(parent: Path, other_text: Path, tmp_path: Path, run: Callable[..., Ended]) -> None:
    assert run(other_text, tmp_path / "one", "--from", parent, "--max-steps", 2, shape=NO_SHAPE).code == 0
    origin = facts_of(tmp_path / "one")["fine_tuned_from"]
    assert origin == {"folder": parent.name} | facts_of(parent)
    assert facts_of(tmp_path / "one")["training_pairs"] != facts_of(parent)["training_pairs"]
    longest = facts_of(tmp_path / "one")["longest_training_side"]
    assert longest >= facts_of(parent)["longest_training_side"]
    card = (tmp_path / "one" / "README.md").read_text(encoding="utf-8")
    assert f"folder: {parent.name}" in card
    assert str(parent) not in card, "where it is, is nobody else's business"


def test_what_fine_tuning_makes_worse_is_left_as_it_was(
    parent: Path, other_text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    wild = ["--optimizer.peak-lr", 0.5, "--optimizer.warmup-steps", 1, "--validation.every", 3]
    more = [*wild, "--validation.metric", "loss", "--validation.keep-last", 1]
    ended = run(other_text, tmp_path / "one", "--from", parent, "--max-steps", 6, *more, shape=NO_SHAPE)
    assert ended.code == 0
    losses = {step: value for step, _, value in records(tmp_path / "one", "valid/loss")}
    assert losses[0] < min(losses[3], losses[6])
    assert same(kept(tmp_path / "one"), kept(parent))


def test_a_fine_tuning_goes_on_without_its_parent(
    parent: Path, other_text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    copy = Path(shutil.copytree(parent, tmp_path / "copy"))
    more = ["--from", copy, "--validation.every", 2]
    assert run(other_text, tmp_path / "one", *more, "--max-steps", 2, shape=NO_SHAPE).code == 0
    origin = facts_of(tmp_path / "one")["fine_tuned_from"]
    assert run(other_text, tmp_path / "two", *more, "--max-steps", 4, shape=NO_SHAPE).code == 0
    (copy / "model.safetensors").unlink()
    assert run(other_text, tmp_path / "one", *more, "--max-steps", 4, shape=NO_SHAPE).code == 0
    assert same(last_weights(tmp_path / "one"), last_weights(tmp_path / "two"))
    for fact in ("fine_tuned_from", "longest_training_side"):
        assert facts_of(tmp_path / "one")[fact] == facts_of(tmp_path / "two")[fact]
    assert facts_of(tmp_path / "one")["fine_tuned_from"] == origin


def test_only_the_first_process_rehearses(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert main(arguments(text, tmp_path / "out", "--max-steps", 5, "--dry-run")) == 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model.d-model", 32], "keeps its shape (d_model was 16 and is 32)"),
        (["--model.norm", "pre"], "norm was post and is pre"),
        (["--target", "yy", "--source", "en"], "translates en to xx; fine-tuning keeps the languages"),
    ],
)
def test_fine_tuning_into_another_kind_of_model_is_refused(
    more: list[object], said: str, parent: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    write_corpus(tmp_path)
    for path in tmp_path.glob("*.xx"):
        shutil.copy(path, path.with_suffix(".yy"))
    ended = run(tmp_path, tmp_path / "one", "--from", parent, "--max-steps", 2, *more, shape=NO_SHAPE)
    assert said in complaint(ended)
    assert str(parent) in complaint(ended)


def test_a_parent_that_is_missing_or_damaged_is_named(
    parent: Path, text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    nowhere = tmp_path / "nowhere"
    assert str(nowhere) in complaint(run(text, tmp_path / "one", "--from", nowhere, "--max-steps", 2))
    copy = Path(shutil.copytree(parent, tmp_path / "copy"))
    (copy / "model.safetensors").write_bytes((copy / "model.safetensors").read_bytes()[:-100])
    message = complaint(run(text, tmp_path / "one", "--from", copy, "--max-steps", 2, shape=NO_SHAPE))
    assert str(copy / "model.safetensors") in message
