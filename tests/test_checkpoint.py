"""The model folder: what was saved comes back, what is damaged is named, and a failure costs nothing."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import safetensors.torch
import torch
from faults import complaint, contents, cut, cut_header, empty, full_disk, grow, zero
from torch import Tensor

from dragoman.checkpoint import (
    AVERAGE_FACT,
    Direction,
    ModelFolder,
    average_weights,
    checkpoint_path,
    fingerprint,
    list_checkpoints,
    put_weights,
    read_weights,
    refuse_to_overwrite,
    remove_run,
    save_weights,
)
from dragoman.config import ModelConfig, TextConfig
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


def test_the_fingerprint_is_that_of_the_numbers_and_not_of_the_file(saved: Path, tmp_path: Path) -> None:
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


def test_subwords_of_an_earlier_model_go_with_it(saved: Path) -> None:
    other = model_folder("separate")
    other.save(saved)
    assert {path.name for path in saved.iterdir()} == {
        "config.json", "model.safetensors", "source.spm", "target.spm", "README.md",
    }  # fmt: skip
    assert ModelFolder.load(saved).vocabulary.files() == other.vocabulary.files()


def test_subwords_that_the_model_was_not_saved_with_are_refused(tmp_path: Path) -> None:
    """As after a copy over an earlier model."""
    folder = model_folder("separate")
    folder.save(tmp_path)
    joint = tmp_path / "sentencepiece.model"
    joint.write_bytes(folder.vocabulary.source.serialized)
    assert "sentencepiece.model: of another model" in complaint(lambda: ModelFolder.load(tmp_path))
    joint.unlink()
    assert ModelFolder.load(tmp_path).vocabulary.files() == folder.vocabulary.files()


@pytest.mark.parametrize("code", ['en"); print("', "../en", "e\nn", "", "a b", "e\\n"])
def test_what_is_no_language_code_is_refused(code: str, saved: Path) -> None:
    change_config(saved, source=code)
    assert "is no language code" in complaint(lambda: ModelFolder.load(saved))
    for good in ("en", "pt-BR", "zh_TW", "de.clean", "中文"):
        assert Direction(good, "x").source == good


# ---- damage


def flip_length(data: bytes) -> bytes:
    return bytes([data[0] ^ 0x10]) + data[1:]


def flip_header(data: bytes) -> bytes:
    return data[:60] + bytes([data[60] ^ 0x80]) + data[61:]


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


def put_into(model: Transformer, path: Path) -> None:
    put_weights(model, read_weights(path), path)


def test_weights_in_bf16_are_read_but_not_taken_for_ours(saved: Path) -> None:
    path = saved / "model.safetensors"
    halves = {name: weight.bfloat16() for name, weight in read_weights(path).items()}
    safetensors.torch.save_file(halves, path)
    assert {weight.dtype for weight in read_weights(path).values()} == {torch.bfloat16}
    assert len(fingerprint(path)) == 64
    safetensors.torch.save_file(halves, path, metadata={"sha256": fingerprint(path)})
    assert "its checksum differs" in complaint(lambda: read_weights(path))


def test_weights_that_do_not_fit_leave_the_model_as_it_was(saved: Path) -> None:
    model = model_folder(seed=2).model
    before = {name: weight.clone() for name, weight in parameters(model).items()}
    rewrite(saved / "model.safetensors", lambda weights: weights.update({max(weights): torch.zeros(3)}))
    complaint(lambda: put_into(model, saved / "model.safetensors"))
    assert same(parameters(model), before)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_no_numbers_are_refused_and_the_model_stays_as_it_was(value: float, saved: Path) -> None:
    model = model_folder(seed=2).model
    before = {name: weight.clone() for name, weight in parameters(model).items()}
    name = max(before)
    rewrite(saved / "model.safetensors", lambda weights: weights[name].view(-1)[0].fill_(value))
    message = complaint(lambda: put_into(model, saved / "model.safetensors"))
    assert str(saved / "model.safetensors") in message
    assert name in message
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


@pytest.mark.parametrize("change", [{"source": 3}, {"target": None}, {"facts": []}, {"facts": "text"}], ids=str)
def test_a_configuration_with_values_of_the_wrong_kind_is_named(change: dict[str, Any], saved: Path) -> None:
    settings = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(settings | change))
    assert str(saved / "config.json") in complaint(lambda: ModelFolder.load(saved))


def test_a_configuration_that_can_not_be_read_is_named(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", refuse)
    message = complaint(lambda: ModelFolder.load(saved))
    assert str(saved / "config.json") in message
    assert "Permission denied" in message


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


def test_a_model_that_cannot_be_saved_leaves_the_earlier_one_usable(saved: Path) -> None:
    before = contents(saved)
    with full_disk(2000):
        complaint(lambda: model_folder(seed=2).save(saved))
    assert contents(saved).keys() == before.keys()
    assert same(parameters(ModelFolder.load(saved).model), parameters(model_folder().model))


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
def test_a_failure_at_any_file_leaves_the_model_of_another_shape_whole(
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


def refuse(*args: object, **kwargs: object) -> NoReturn:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in complaint(lambda: model_folder().save(tmp_path / "file"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: False)
        assert "read-only" in complaint(lambda: model_folder().save(tmp_path / "model"))
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert "Permission denied" in complaint(lambda: model_folder().save(tmp_path / "other"))


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


@pytest.mark.parametrize("name", ["train.yaml", ".lock", "checkpoints", "sentencepiece.model", "source.spm"])
def test_an_average_is_not_saved_among_the_files_of_a_run_that_is_not_done(name: str, tmp_path: Path) -> None:
    refuse_to_overwrite(tmp_path)
    (tmp_path / name).touch()
    assert f"already has {name}; choose another --out" in complaint(lambda: refuse_to_overwrite(tmp_path))


def test_an_average_takes_the_place_of_an_average_only(saved: Path) -> None:
    assert "already has model.safetensors and config.json" in complaint(lambda: refuse_to_overwrite(saved))
    ModelFolder.load(saved).with_facts({AVERAGE_FACT: "step-00000010"}).save(saved)
    refuse_to_overwrite(saved)
    (saved / "model.safetensors").unlink()
    refuse_to_overwrite(saved)  # its saving was interrupted


def test_checkpoints_are_listed_oldest_first_and_nothing_else_is(tmp_path: Path) -> None:
    steps = [30, 4, 1000, 99_999_999]
    paths = {step: random_weights(checkpoint_path(tmp_path, step), 1) for step in steps}
    for name in ("step-0000007.safetensors.partial", "step-x.safetensors", "state-000001-0123456789abcdef.pt"):
        (tmp_path / "checkpoints" / name).touch()
    assert list_checkpoints(tmp_path) == [paths[step] for step in sorted(steps)]
    assert list_checkpoints(tmp_path / "nowhere") == []


def test_a_folder_keeps_its_model_while_a_copy_learns_more(saved: Path) -> None:
    folder = ModelFolder.load(saved)
    copy = replace(folder, model=model_folder(seed=2).model).with_facts({"new": 1})
    assert "new" not in folder.direction.facts
    assert not same(parameters(copy.model), parameters(folder.model))


def test_the_card_tells_facts_within_facts_without_breaking_its_table(tmp_path: Path) -> None:
    facts = {"fine-tuned from": {"folder": "parent", "validation": {"bleu": 9.5}}, "odd": "a|b"}
    model_folder().with_facts(facts).save(tmp_path)
    rows = [row for row in (tmp_path / "README.md").read_text(encoding="utf-8").split("\n") if row.startswith("| ")]
    assert "| fine-tuned from | folder: parent<br>validation: bleu: 9.5 |" in rows
    assert "| odd | a\\|b |" in rows


# ---- beginning again


def test_removing_a_run_leaves_what_is_not_its_own(saved: Path) -> None:
    for name in ("data/train/store.json", "tensorboard/events", "checkpoints/state-000001-0123456789abcdef.pt"):
        (saved / name).parent.mkdir(parents=True, exist_ok=True)
        (saved / name).touch()
    for name in ("metrics.jsonl", "train.yaml", "check.json", "heldout.en", "heldout.de"):
        (saved / name).touch()
    for name in ("train.en", "notes.txt", "mine/model.safetensors"):
        (saved / name).parent.mkdir(exist_ok=True)
        (saved / name).write_text("precious")
    remove_run(saved)
    assert {str(path.relative_to(saved)) for path in saved.rglob("*") if path.is_file()} == {
        "train.en",
        "notes.txt",
        "mine/model.safetensors",
    }
    remove_run(saved)  # nothing is left to remove


# ---- models that are damaged, or not what they say


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    shape = {name: changes.pop(name) for name in list(changes) if name in settings["model"]}
    path.write_text(json.dumps(settings | changes | {"model": settings["model"] | shape}), encoding="utf-8")


def test_weights_read_as_another_type_are_noticed_although_their_bytes_are_the_same(saved: Path) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"F32"', b'"I32"', 1))
    assert "damaged" in complaint(lambda: read_weights(path))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(value: float, tmp_path: Path) -> None:
    folder = model_folder()
    with torch.no_grad():
        next(folder.model.parameters())[0, 0] = value
    folder.save(tmp_path / "model")
    assert "no numbers" in complaint(lambda: ModelFolder.load(tmp_path / "model"))


@pytest.mark.parametrize("data", [b"[" * 100_000, b"\xff", b"[]", b"null"])
def test_a_configuration_that_is_none_is_named(data: bytes, saved: Path) -> None:
    (saved / "config.json").write_bytes(data)
    assert "config.json" in complaint(lambda: ModelFolder.load(saved))


@pytest.mark.parametrize("changes", [{"target": 1}, {"source": None}, {"facts": [1]}, {"facts": None}])
def test_languages_are_text_and_facts_a_mapping(changes: dict[str, Any], saved: Path) -> None:
    change_config(saved, **changes)
    assert "config.json" in complaint(lambda: ModelFolder.load(saved))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["num_encoder_layers", "num_decoder_layers", "d_ff", "d_model", "max_length"])
def test_a_configuration_of_a_gigantic_model_costs_neither_time_nor_memory(name: str, saved: Path) -> None:
    change_config(saved, **{name: 10**12})
    assert "config.json" in complaint(lambda: ModelFolder.load(saved))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("length", [10**8, 10**30])
def test_a_table_of_positions_beyond_all_memory_is_not_made(length: int, saved: Path) -> None:
    change_config(saved, max_length=length)
    assert "beyond all memory" in complaint(lambda: ModelFolder.load(saved))


def test_subwords_of_another_model_of_the_same_size_are_noticed(saved: Path) -> None:
    others = Vocabulary.learn((SIDES[1], SIDES[0]), TextConfig(vocab_size=300, subwords="unigram"))
    (saved / "sentencepiece.model").write_bytes(others.source.serialized)
    assert "sentencepiece.model: damaged, or of another model" in complaint(lambda: ModelFolder.load(saved))


def test_a_folder_without_checksums_is_none_the_worse(saved: Path) -> None:
    path = saved / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    del settings["checksums"]
    path.write_text(json.dumps(settings), encoding="utf-8")
    assert same(parameters(ModelFolder.load(saved).model), parameters(model_folder().model))


def test_a_configuration_that_cannot_be_read_is_named(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **settings: object) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "read_text", broken)
    assert "config.json" in complaint(lambda: ModelFolder.load(saved))
