"""The model folder: what was saved is loaded again, and a failure while saving loses nothing."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from dragoman.checkpoint import ModelFolder, fingerprint, read_weights, save_weights
from dragoman.folder import Direction
from tests.fuzz.faults import complaint, contents

from .small_folders import change_config, model_folder, parameters, same

# ---- save and load


@pytest.mark.parametrize("kind", ["joint", "separate"])
@pytest.mark.parametrize("settings", [{}, {"tie_softmax": False}, {"positions": "learned", "norm": "pre"}])
def test_a_saved_model_comes_back_the_same(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    folder = model_folder(kind, **settings)
    folder.save(tmp_path / "model")
    loaded = ModelFolder.load(tmp_path / "model")
    assert same(parameters(loaded.model), parameters(folder.model))
    assert loaded.vocabulary.files() == folder.vocabulary.files()
    assert loaded.direction == folder.direction
    assert loaded.model.config == folder.model.config


def test_tied_weights_are_tied_again_and_stored_once(saved: Path) -> None:
    model = ModelFolder.load(saved).model
    assert model.softmax.weight is model.target_embedding.weight
    assert model.source_embedding is model.target_embedding
    values = sum(weight.numel() for weight in read_weights(saved / "model.safetensors").values())
    assert values == model.num_parameters


def test_the_fingerprint_depends_on_the_weights_alone(saved: Path, tmp_path: Path) -> None:
    weights = read_weights(saved / "model.safetensors")
    known = fingerprint(saved / "model.safetensors")
    save_weights(dict(reversed(weights.items())), tmp_path / "again.safetensors")
    assert fingerprint(tmp_path / "again.safetensors") == known
    safetensors.torch.save_file(weights, tmp_path / "bare.safetensors")
    assert fingerprint(tmp_path / "bare.safetensors") == known
    first = next(iter(weights))
    weights[first].view(-1)[0] += 1e-6
    save_weights(weights, tmp_path / "other.safetensors")
    assert fingerprint(tmp_path / "other.safetensors") != known


def test_equal_models_are_equal_files(tmp_path: Path) -> None:
    for number in range(8):
        model_folder().save(tmp_path / str(number))
    assert len({frozenset((path.name, path.read_bytes()) for path in out.iterdir()) for out in tmp_path.iterdir()}) == 1


def test_weights_are_saved_in_float32(tmp_path: Path) -> None:
    save_weights({"w": torch.tensor([1.5, -2.0], dtype=torch.bfloat16)}, tmp_path / "w.safetensors")
    (weight,) = read_weights(tmp_path / "w.safetensors").values()
    assert weight.dtype == torch.float32
    assert weight.tolist() == [1.5, -2.0]


def test_saving_removes_the_subword_model_of_an_earlier_model(saved: Path) -> None:
    other = model_folder("separate")
    other.save(saved)
    assert {path.name for path in saved.iterdir()} == {
        "config.json", "model.safetensors", "source.spm", "target.spm", "README.md",
    }  # fmt: skip
    assert ModelFolder.load(saved).vocabulary.files() == other.vocabulary.files()


@pytest.mark.parametrize("code", ['en"); print("', "../en", "e\nn", "", "a b", "e\\n"])
def test_invalid_language_codes_are_refused(code: str, saved: Path) -> None:
    change_config(saved, source=code)
    assert "is no language code" in complaint(lambda: ModelFolder.load(saved))
    for good in ("en", "pt-BR", "zh_TW", "de.clean", "中文"):
        assert Direction(good, "x").source == good


# ---- failures while writing


def test_a_new_folder_is_no_model_before_its_weights_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.replace

    def crash(partial: Path, final: Path) -> Path:
        if final.name == "model.safetensors":
            raise KeyboardInterrupt
        return rename(partial, final)

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        model_folder().save(tmp_path / "model")
    assert (tmp_path / "model" / "config.json").is_file()
    assert "model.safetensors" in complaint(lambda: ModelFolder.load(tmp_path / "model"))


@pytest.mark.parametrize("number", range(4))
def test_a_failure_at_any_file_leaves_the_earlier_model_whole(
    number: int, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, calls = contents(saved), []

    def fail(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == number + 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    complaint(lambda: model_folder("separate", positions="learned").save(saved))
    assert contents(saved) == before


def test_the_card_shows_nested_facts_in_one_table(tmp_path: Path) -> None:
    facts = {"fine_tuned_from": {"folder": "parent", "validation": {"bleu": 9.5}}, "odd": "a|b"}
    model_folder().with_facts(facts).save(tmp_path)
    rows = [row for row in (tmp_path / "README.md").read_text(encoding="utf-8").split("\n") if row.startswith("| ")]
    assert "| fine tuned from | folder: parent<br>validation: bleu: 9.5 |" in rows
    assert "| odd | a\\|b |" in rows


def test_facts_of_version_0_1_0_come_under_their_present_names() -> None:
    facts = {
        "training text (SHA-256)": "ab",
        "fine-tuned from": {"imported from": "opus", "whole run": {"settings (SHA-256)": "cd", "minutes": 2}},
    }
    assert Direction("en", "de", facts).facts == {
        "training_text_sha256": "ab",
        "fine_tuned_from": {"imported_from": "opus", "whole_run": {"settings_sha256": "cd", "minutes": 2}},
    }
