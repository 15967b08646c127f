"""The model folder: what was saved comes back, what is damaged is named, and a failure costs nothing."""

from __future__ import annotations

import errno
import json
import os
import pickle
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import safetensors.torch
import torch
from torch import Tensor

from dragoman.checkpoint import (
    Direction,
    ModelFolder,
    average_weights,
    checkpoint_path,
    list_checkpoints,
    load_training_state,
    load_weights,
    make_folder,
    read_weights,
    save_training_state,
    save_weights,
    write_atomically,
)
from dragoman.config import DragomanError, ModelConfig, TextConfig
from dragoman.model.transformer import Transformer
from dragoman.text.subword import Vocabulary

SIDES = (["the cat sees a dog", "a bird sings"], ["die Katze sieht einen Hund", "ein Vogel singt"])


def vocabulary(kind: str = "joint", size: int = 300) -> Vocabulary:
    return Vocabulary.learn(SIDES, TextConfig(vocab_size=size, vocabulary=kind))  # type: ignore[arg-type]


def model_folder(kind: str = "joint", seed: int = 1, **settings: Any) -> ModelFolder:
    words = vocabulary(kind)
    torch.manual_seed(seed)
    config = ModelConfig(
        d_model=8,
        d_ff=16,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        source_vocab_size=len(words.source),
        target_vocab_size=len(words.target),
        share_embeddings=words.joint,
        max_length=32,
        **settings,
    )
    facts = {"steps": 12, "note": "größer"}
    return ModelFolder(Transformer(config).eval(), words, Direction("en", "de", facts))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    model_folder().save(folder)
    return folder


def parameters(model: Transformer) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def complaint(action: Callable[[], object]) -> str:
    """The one sentence with which an action fails."""
    with pytest.raises(DragomanError) as error:
        action()
    assert "\n" not in str(error.value)
    return str(error.value)


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


def test_a_loaded_model_computes_the_same_logits(saved: Path) -> None:
    source, target = torch.randint(4, 280, (2, 7)), torch.randint(4, 280, (2, 5))
    first, second = model_folder().model, ModelFolder.load(saved).model
    assert not second.training
    assert torch.equal(first(source, target), second(source, target))


def test_tied_weights_are_tied_again_and_stored_once(saved: Path) -> None:
    model = ModelFolder.load(saved).model
    assert model.softmax.weight is model.target_embedding.weight
    assert model.source_embedding is model.target_embedding
    values = sum(weight.numel() for weight in read_weights(saved / "model.safetensors").values())
    assert values == model.num_parameters


def test_saving_again_replaces_the_model(saved: Path) -> None:
    other = model_folder(seed=2)
    other.save(saved)
    assert same(parameters(ModelFolder.load(saved).model), parameters(other.model))


def test_weights_are_saved_in_full_precision_whatever_they_were_computed_in(tmp_path: Path) -> None:
    save_weights({"w": torch.tensor([1.5, -2.0], dtype=torch.bfloat16)}, tmp_path / "w.safetensors")
    (weight,) = read_weights(tmp_path / "w.safetensors").values()
    assert weight.dtype == torch.float32
    assert weight.tolist() == [1.5, -2.0]


def test_new_facts_join_the_known_ones(saved: Path) -> None:
    folder = ModelFolder.load(saved).with_facts({"steps": 13, "bleu": 30.5})
    assert folder.direction.facts == {"steps": 13, "note": "größer", "bleu": 30.5}
    folder.save(saved)
    assert ModelFolder.load(saved).direction.facts == folder.direction.facts
    assert "30.5" in (saved / "README.md").read_text(encoding="utf-8")


def test_the_folder_holds_what_it_promises_and_nothing_else(saved: Path) -> None:
    expected = {"config.json", "model.safetensors", "sentencepiece.model", "README.md"}
    assert {path.name for path in saved.iterdir()} == expected


# ---- damage


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def cut_header(data: bytes) -> bytes:
    return data[:20]


def empty(data: bytes) -> bytes:
    return b""


def flip_length(data: bytes) -> bytes:
    return bytes([data[0] ^ 0x10]) + data[1:]


def flip_header(data: bytes) -> bytes:
    return data[:60] + bytes([data[60] ^ 0x80]) + data[61:]


def zero(data: bytes) -> bytes:
    return bytes(len(data))


def grow(data: bytes) -> bytes:
    return data + b"more"


@pytest.mark.parametrize("damage", [cut, cut_header, empty, flip_length, flip_header, zero, grow])
def test_damaged_weights_are_named(damage: Callable[[bytes], bytes], saved: Path) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    assert str(path) in complaint(lambda: ModelFolder.load(saved))


def test_a_flipped_bit_among_the_numbers_is_noticed(saved: Path) -> None:
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
    ("change", "said"),
    [
        (lambda weights: weights.pop(max(weights)), "missing"),
        (lambda weights: weights.update(extra=torch.zeros(1)), "extra is unknown"),
        (lambda weights: weights.update({max(weights): torch.zeros(3)}), r"(3,)"),
        (lambda weights: weights.clear(), "missing"),
    ],
)
def test_weights_that_do_not_fit_are_named_with_their_tensor(
    change: Callable[[dict[str, Tensor]], object], said: str, saved: Path
) -> None:
    rewrite(saved / "model.safetensors", change)
    message = complaint(lambda: ModelFolder.load(saved))
    assert str(saved / "model.safetensors") in message
    assert said in message


def test_weights_that_do_not_fit_leave_the_model_as_it_was(saved: Path) -> None:
    model = model_folder(seed=2).model
    before = {name: weight.clone() for name, weight in parameters(model).items()}
    rewrite(saved / "model.safetensors", lambda weights: weights.update({max(weights): torch.zeros(3)}))
    complaint(lambda: load_weights(model, saved / "model.safetensors"))
    assert same(parameters(model), before)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "sentencepiece.model"])
def test_a_missing_file_is_named(name: str, saved: Path) -> None:
    (saved / name).unlink()
    message = complaint(lambda: ModelFolder.load(saved))
    assert str(saved) in message
    assert name in message or "source.spm" in message


def test_a_missing_folder_and_a_file_are_no_model(saved: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", saved / "config.json"):
        assert str(path) in complaint(lambda path=path: ModelFolder.load(path))  # type: ignore[misc]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", "{}", '{"model_type": "dragoman"}', '{"model_type": "dragoman", "model": []}', "\xff"],
)
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


@pytest.mark.parametrize(
    "values",
    [
        {"d_model": 0},
        {"d_model": "wide"},
        {"dropout": 2},
        {"unheard_of": 1},
        {"num_heads": None},
        {"d_model": 8.0},
        {"activation": "tanh"},
    ],
)
def test_an_impossible_configuration_is_named(values: dict[str, Any], saved: Path) -> None:
    edit_model(saved, **values)
    try:
        message = complaint(lambda: ModelFolder.load(saved))
    except (TypeError, KeyError) as error:
        pytest.fail(f"not caught: {error!r}")
    assert str(saved / "config.json") in message


def test_weights_of_another_shape_than_the_configuration_are_named(saved: Path) -> None:
    edit_model(saved, d_model=16)
    assert str(saved / "model.safetensors") in complaint(lambda: ModelFolder.load(saved))


def test_a_subword_model_of_another_size_is_named(saved: Path) -> None:
    (saved / "sentencepiece.model").write_bytes(vocabulary(size=310).source.serialized)
    message = complaint(lambda: ModelFolder.load(saved))
    assert str(saved) in message
    assert "subword" in message


def test_a_damaged_subword_model_is_named(saved: Path) -> None:
    (saved / "sentencepiece.model").write_bytes(b"nonsense")
    assert str(saved / "sentencepiece.model") in complaint(lambda: ModelFolder.load(saved))


# ---- failures while writing


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file can grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def no_space(descriptor: int) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("room", [0, 100])
def test_a_disk_that_fills_up_leaves_the_earlier_file_and_nothing_else(room: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"before")
    with full_disk(room):
        message = complaint(lambda: write_atomically(path, b"x" * 100_000))
    assert str(path) in message
    assert contents(tmp_path) == {str(path): b"before"}


def test_what_the_disk_refuses_at_the_last_moment_leaves_the_earlier_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"before")
    monkeypatch.setattr(os, "fsync", no_space)
    assert "No space left" in complaint(lambda: write_atomically(path, b"after"))
    assert contents(tmp_path) == {str(path): b"before"}


def test_content_is_on_the_disk_before_it_takes_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    seen: list[tuple[int, bool]] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: seen.append((os.fstat(descriptor).st_size, path.exists())))
    write_atomically(path, b"12345")
    assert seen == [(5, False)]
    assert path.read_bytes() == b"12345"


def test_a_model_that_cannot_be_saved_leaves_the_earlier_one_usable(saved: Path) -> None:
    before = contents(saved)
    with full_disk(2000):
        complaint(lambda: model_folder(seed=2).save(saved))
    assert contents(saved).keys() == before.keys()
    assert same(parameters(ModelFolder.load(saved).model), parameters(model_folder().model))


def test_a_new_folder_is_no_model_before_its_weights_are_there(tmp_path: Path) -> None:
    model_folder().save_description(tmp_path / "model")
    assert "model.safetensors" in complaint(lambda: ModelFolder.load(tmp_path / "model"))


def refuse(*args: object, **kwargs: object) -> NoReturn:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in complaint(lambda: make_folder(tmp_path / "file"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: False)
        assert "read-only" in complaint(lambda: model_folder().save(tmp_path / "model"))
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert "Permission denied" in complaint(lambda: model_folder().save(tmp_path / "other"))


def test_making_a_folder_makes_its_parents_and_may_be_repeated(tmp_path: Path) -> None:
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


# ---- averages


def random_weights(path: Path, seed: int) -> Path:
    generator = torch.Generator().manual_seed(seed)
    weights = {name: torch.randn(shape, generator=generator) for name, shape in (("a", (3, 4)), ("b", (5,)))}
    save_weights(weights, path)
    return path


@pytest.fixture
def checkpoints(tmp_path: Path) -> list[Path]:
    return [random_weights(checkpoint_path(tmp_path, step), step) for step in (5, 10, 15)]


def test_the_average_is_the_arithmetic_mean(checkpoints: list[Path]) -> None:
    each = [read_weights(path) for path in checkpoints]
    average = average_weights(checkpoints)
    assert average.keys() == each[0].keys()
    for name, weight in average.items():
        torch.testing.assert_close(weight, torch.stack([weights[name] for weights in each]).mean(dim=0))


def test_the_average_does_not_depend_on_the_order(checkpoints: list[Path]) -> None:
    forwards, backwards = average_weights(checkpoints), average_weights(checkpoints[::-1])
    for name, weight in forwards.items():
        torch.testing.assert_close(weight, backwards[name], rtol=1e-7, atol=1e-8)


def test_the_average_of_one_checkpoint_or_of_equal_ones_is_that_checkpoint(checkpoints: list[Path]) -> None:
    assert same(average_weights(checkpoints[:1]), read_weights(checkpoints[0]))
    assert same(average_weights([checkpoints[0]] * 4), read_weights(checkpoints[0]))


def test_checkpoints_of_different_models_have_no_average(checkpoints: list[Path]) -> None:
    for weights in ({"a": torch.zeros(3, 4)}, {"a": torch.zeros(4, 3), "b": torch.zeros(5)}):
        save_weights(weights, checkpoints[1])
        assert str(checkpoints[1]) in complaint(lambda: average_weights(checkpoints))


def test_nothing_has_no_average() -> None:
    complaint(lambda: average_weights([]))


def test_a_damaged_checkpoint_is_named_and_not_averaged(checkpoints: list[Path]) -> None:
    checkpoints[2].write_bytes(cut(checkpoints[2].read_bytes()))
    assert str(checkpoints[2]) in complaint(lambda: average_weights(checkpoints))


def test_checkpoints_are_listed_oldest_first_and_nothing_else_is(tmp_path: Path) -> None:
    steps = [30, 4, 1000, 99_999_999]
    paths = {step: random_weights(checkpoint_path(tmp_path, step), 1) for step in steps}
    for name in ("step-0000007.safetensors.partial", "step-x.safetensors", "training_state.pt"):
        (tmp_path / "checkpoints" / name).touch()
    assert list_checkpoints(tmp_path) == [paths[step] for step in sorted(steps)]
    assert list_checkpoints(tmp_path / "nowhere") == []


# ---- the state of a run


STATE: dict[str, Any] = {
    "progress": {"step": 7, "seconds": 1.5, "finished": False},
    "facts": {"text": "größer", "list": [1, 2]},
    "weights": {"a": torch.arange(6.0).reshape(2, 3)},
    "random": torch.get_rng_state(),
}


def equal(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(value, second[key]) for key, value in first.items())
    return bool(first == second)


def test_the_state_of_a_run_comes_back_the_same(tmp_path: Path) -> None:
    assert load_training_state(tmp_path) is None
    save_training_state(tmp_path, STATE)
    assert equal(STATE, load_training_state(tmp_path))


def test_a_state_that_cannot_be_saved_leaves_the_earlier_one(tmp_path: Path) -> None:
    save_training_state(tmp_path, STATE)
    with full_disk(1000):
        message = complaint(lambda: save_training_state(tmp_path, STATE | {"more": torch.zeros(10_000)}))
    assert "training_state.pt" in message
    assert equal(STATE, load_training_state(tmp_path))
    assert not list(tmp_path.rglob("*.partial"))


def test_a_state_refused_at_the_last_moment_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_training_state(tmp_path, STATE)
    monkeypatch.setattr(os, "fsync", no_space)
    complaint(lambda: save_training_state(tmp_path, {}))
    assert equal(STATE, load_training_state(tmp_path))
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("damage", [cut, cut_header, empty, zero])
def test_a_damaged_state_is_named_with_the_way_out(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    save_training_state(tmp_path, STATE)
    path = tmp_path / "checkpoints" / "training_state.pt"
    path.write_bytes(damage(path.read_bytes()))
    message = complaint(lambda: load_training_state(tmp_path))
    assert str(path) in message
    assert "--restart" in message


class Trap:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_state_that_would_run_code_is_refused_without_running_it(tmp_path: Path) -> None:
    save_training_state(tmp_path, {})
    path = tmp_path / "checkpoints" / "training_state.pt"
    for write in (lambda: torch.save(Trap(tmp_path / "sprung"), path), lambda: path.write_bytes(trap(tmp_path))):
        write()
        complaint(lambda: load_training_state(tmp_path))
    assert not (tmp_path / "sprung").exists()


def trap(folder: Path) -> bytes:
    return pickle.dumps(Trap(folder / "sprung"), protocol=2)


def test_a_folder_keeps_its_model_while_a_copy_learns_more(saved: Path) -> None:
    folder = ModelFolder.load(saved)
    copy = replace(folder, model=model_folder(seed=2).model).with_facts({"new": 1})
    assert "new" not in folder.direction.facts
    assert not same(parameters(copy.model), parameters(folder.model))
