"""Damaged models are named and never half loaded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from dragoman.checkpoint import ModelFolder, fingerprint, put_weights, read_weights
from dragoman.config import TextConfig
from dragoman.text.subwords import Vocabulary
from tests.fuzz.faults import complaint, cut, cut_header, empty, grow, zero

from .small_folders import SIDES, change_config, model_folder, parameters, same, vocabulary


def flip_length(data: bytes) -> bytes:
    return bytes([data[0] ^ 0x10]) + data[1:]


def flip_header(data: bytes) -> bytes:
    return data[:60] + bytes([data[60] ^ 0x80]) + data[61:]


@pytest.mark.parametrize("damage", [cut, cut_header, empty, flip_length, flip_header, zero, grow])
def test_damaged_weights_are_named(damage: Callable[[bytes], bytes], saved: Path) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    assert str(path) in complaint(lambda: ModelFolder.load(saved))


def test_a_flipped_bit_in_the_weights_is_noticed(saved: Path) -> None:
    path = saved / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1000] ^= 0x40
    path.write_bytes(data)
    assert str(path) in complaint(lambda: ModelFolder.load(saved))


def rewrite(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    weights = safetensors.torch.load_file(path)
    change(weights)
    safetensors.torch.save_file(weights, path)


@pytest.mark.parametrize(
    "change",
    [
        lambda weights: weights.pop(max(weights)),
        lambda weights: weights.update({"softmaxx": torch.zeros(1)}),
        lambda weights: weights.update({max(weights): torch.zeros(3)}),
        lambda weights: weights.update({max(weights): weights[max(weights)].int()}),
        lambda weights: weights[max(weights)].view(-1)[0].fill_(float("nan")),
        lambda weights: weights[max(weights)].view(-1)[0].fill_(float("-inf")),
    ],
)
def test_weights_that_do_not_fit_are_named_with_their_tensor_and_not_taken(
    change: Callable[[dict[str, Tensor]], object], saved: Path
) -> None:
    path, model = saved / "model.safetensors", model_folder(seed=2).model
    before = {name: weight.clone() for name, weight in parameters(model).items()}
    names = {f"tensor {max(before)} is", "tensor softmaxx is"}
    rewrite(path, change)
    message = complaint(lambda: put_weights(model, read_weights(path), path))
    assert str(path) in message
    assert any(name in message for name in names)
    assert same(parameters(model), before)


def test_weights_in_bf16_are_read_unless_they_claim_our_checksum(saved: Path) -> None:
    path = saved / "model.safetensors"
    halves = {name: weight.bfloat16() for name, weight in read_weights(path).items()}
    safetensors.torch.save_file(halves, path)
    assert {weight.dtype for weight in read_weights(path).values()} == {torch.bfloat16}
    assert len(fingerprint(path)) == 64
    safetensors.torch.save_file(halves, path, metadata={"sha256": fingerprint(path)})
    assert "its checksum differs" in complaint(lambda: read_weights(path))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "sentencepiece.model"])
def test_a_missing_file_is_named(name: str, saved: Path) -> None:
    (saved / name).unlink()
    message = complaint(lambda: ModelFolder.load(saved))
    assert str(saved) in message
    assert name in message or "source.spm" in message


def test_a_missing_folder_and_a_file_are_no_model(saved: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", saved / "config.json"):
        assert str(path) in complaint(lambda path=path: ModelFolder.load(path))  # type: ignore[misc]


@pytest.mark.parametrize("content", ["", "[" * 100_000, "[]", "{}", '{"model_type": "dragoman", "model": []}', "\xff"])
def test_a_damaged_configuration_is_named(content: str, saved: Path) -> None:
    (saved / "config.json").write_bytes(content.encode("latin-1"))
    assert str(saved / "config.json") in complaint(lambda: ModelFolder.load(saved))


def test_the_configuration_of_another_kind_of_model_is_named(saved: Path) -> None:
    (saved / "config.json").write_text('{"model_type": "marian", "d_model": 512}')
    assert "marian" in complaint(lambda: ModelFolder.load(saved))


def edit_model(folder: Path, **values: Any) -> None:
    settings = json.loads((folder / "config.json").read_text())
    settings["model"] |= values
    (folder / "config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("values", [{"d_model": 0}, {"unheard_of": 1}, {"d_model": 8.0}, {"activation": "tanh"}])
def test_an_impossible_configuration_is_named(values: dict[str, Any], saved: Path) -> None:
    edit_model(saved, **values)
    assert str(saved / "config.json") in complaint(lambda: ModelFolder.load(saved))


def test_a_subword_model_of_another_size_is_named(saved: Path) -> None:
    (saved / "sentencepiece.model").write_bytes(vocabulary(size=310).source.serialized)
    message = complaint(lambda: ModelFolder.load(saved))
    assert str(saved) in message
    assert "subword" in message


def test_a_damaged_subword_model_is_named(saved: Path) -> None:
    (saved / "sentencepiece.model").write_bytes(b"nonsense")
    assert str(saved / "sentencepiece.model") in complaint(lambda: ModelFolder.load(saved))


@pytest.mark.parametrize("changes", [{"target": 1}, {"source": None}, {"facts": [1]}, {"facts": None}])
def test_languages_must_be_text_and_facts_a_mapping(changes: dict[str, Any], saved: Path) -> None:
    change_config(saved, **changes)
    assert "config.json" in complaint(lambda: ModelFolder.load(saved))


def test_subwords_of_another_model_of_the_same_size_are_noticed(saved: Path) -> None:
    others = Vocabulary.learn((SIDES[1], SIDES[0]), TextConfig(vocab_size=300, subwords="unigram"))
    (saved / "sentencepiece.model").write_bytes(others.source.serialized)
    assert "sentencepiece.model: damaged, or of another model" in complaint(lambda: ModelFolder.load(saved))


def test_an_old_folder_without_checksums_is_read(saved: Path) -> None:
    path = saved / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    del settings["checksums"]
    path.write_text(json.dumps(settings), encoding="utf-8")
    assert same(parameters(ModelFolder.load(saved).model), parameters(model_folder().model))
