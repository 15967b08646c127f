"""Preparing the text of a run: made once, made again when something changes, never half, never another unnoticed."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from dragoman.config import CleaningConfig, DragomanError, ModelConfig, TextConfig, TrainConfig, ValidationConfig
from dragoman.text import preprocess
from dragoman.text.corpus import Pair, holds_out, read_pairs
from dragoman.text.preprocess import HELD_OUT_SHARE, prepare_text
from dragoman.text.subwords import Vocabulary
from tests.text.small_texts import cleaning, decoded, held_out, keep_all, sentences, snapshot, write_text


def test_what_is_prepared_is_the_text(config: TrainConfig) -> None:
    prepared = prepare_text(config, keep_all)
    assert decoded(prepared) == sentences()[8:]
    assert prepared.valid_pairs["en", "de"] == sentences()[:8]  # without empty sides
    assert len(prepared.valid) == 8
    fewer = prepare_text(replace(config, validation=ValidationConfig(max_lines=3)), keep_all)
    assert (fewer.valid_pairs["en", "de"], len(fewer.valid)) == (sentences()[:3], 8)


def test_pairs_that_cleaning_leaves_out_are_not_trained_on(config: TrainConfig, tmp_path: Path) -> None:
    pairs = sentences()[8:]
    texts = [write_text(tmp_path / "one", pairs[:50]), write_text(tmp_path / "two", pairs[50:])]
    lines: list[str] = []
    prepared = prepare_text(replace(config, train=texts), cleaning({49, 50, 60}), lines.append)
    assert decoded(prepared) == [*pairs[:49], *pairs[51:60], *pairs[61:]]
    assert prepared.train.report.cleaned == {"of no use": 3}
    assert any("3 of no use" in line for line in lines)


@pytest.mark.parametrize("sample_lines", [10_000, 20])  # all pairs, or some
def test_the_store_knows_which_pairs_are_of_which_text(sample_lines: int, config: TrainConfig, tmp_path: Path) -> None:
    texts = [*config.train, write_text(tmp_path / "more", sentences()[:5]), *config.train]
    count, settings = sum(1 for _ in read_pairs(config.train, "en", "de")), {"sample_lines": sample_lines}
    two = replace(config, train=texts, weights=[1, 2, 0.5], text=replace(config.text, placeholders=0.0, **settings))
    prepared = prepare_text(two, cleaning([0, count, count + 1]))
    first = prepared.train.report.ends[0][1]
    assert [tuple(end) for end in prepared.train.report.ends] == [(0, first), (1, first + 3), (2, 2 * first + 4)]
    assert decoded(prepared)[first : first + 3] == sentences()[2:5]
    with pytest.raises(DragomanError, match="a number for each of the 3 texts"):
        replace(two, weights=[1, 2])


def test_the_files_of_a_pattern_are_one_text(config: TrainConfig, tmp_path: Path) -> None:
    for number in (1, 2):
        for code in ("en", "de", "fr"):
            (tmp_path / f"part-{number}.{code}").write_text(f"{code} {number}\n")
    text = TextConfig(placeholders=0.0, vocab_size=300)
    run = replace(config, train=[str(tmp_path / "part-*")], target="de,fr", valid=[str(tmp_path / "part-1")], text=text)
    prepared = prepare_text(run, keep_all)
    assert [tuple(end) for end in prepared.train.report.ends] == [(0, 2), (0, 4)]
    assert [target for _, target in decoded(prepared)] == ["de 1", "de 2", "fr 1", "fr 2"]


def test_validation_pairs_may_be_as_long_as_the_model_allows(config: TrainConfig, tmp_path: Path) -> None:
    """Also longer than what is trained on; the end takes a position as well."""
    write_text(tmp_path / "train", [("a", "b"), *sentences()])
    run = replace(config, text=replace(config.text, max_length=2))
    valid = prepare_text(run, keep_all).valid
    longest = int(np.maximum(*valid.lengths).max())
    runs = [replace(run, model=ModelConfig(max_length=longest + more)) for more in (-1, 0)]
    kept = [len(prepare_text(run, keep_all).valid) for run in runs]
    assert longest > 2
    assert kept[0] < kept[1] == len(valid) == 8


def test_subwords_can_be_learnt_from_a_sample_which_is_the_same_for_all_seeds(config: TrainConfig) -> None:
    lines: list[str] = []
    text = TextConfig(placeholders=0.0, vocab_size=300, sample_lines=40)
    runs = [replace(config, text=text, seed=seed, out=f"{config.out}-{seed}") for seed in (1, 2)]
    one, other = (prepare_text(run, keep_all, lines.append) for run in runs)
    assert lines.count("learning subwords from 20 pairs") == 2
    assert decoded(one) == sentences()[8:]
    assert one.vocabulary.files() == other.vocabulary.files()


# ---- kept and made again


def test_nothing_is_made_again_unless_something_changed(config: TrainConfig) -> None:
    prepare_text(config, keep_all)
    before = snapshot(config)
    lines: list[str] = []
    prepare_text(replace(config, max_steps=7, model=ModelConfig(d_model=64), device="cpu"), keep_all, lines.append)
    assert snapshot(config) == before
    assert any("2 with an empty side" in line for line in lines)  # what was left out is said again


@pytest.mark.parametrize(
    "change",
    [
        {"text": TextConfig(310, placeholders=0.0)},
        {"text": TextConfig(320, max_length=99, placeholders=0.0)},
        {"clean": CleaningConfig(ratio=True)},
    ],
)
def test_text_is_prepared_again_when_its_settings_change(change: dict[str, Any], config: TrainConfig) -> None:
    prepare_text(config, keep_all)
    before = snapshot(config)
    prepare_text(replace(config, **change), keep_all)
    after = snapshot(config)
    assert after.keys() == before.keys()
    assert all(after[path] != before[path] for path in before)


@pytest.mark.parametrize("name", ["train", "valid"])
def test_text_is_prepared_again_when_it_changes(name: str, config: TrainConfig, tmp_path: Path) -> None:
    old = prepare_text(config, keep_all)
    prints = {"train": old.train.report.fingerprint, "valid": old.valid.report.fingerprint}
    others = {"train": sentences()[20:], "valid": sentences()[:4]}[name]
    write_text(tmp_path / name, [("a new sentence", "ein neuer Satz"), *others])
    new = prepare_text(config, keep_all)
    changed = {"train": new.train.report.fingerprint, "valid": new.valid.report.fingerprint}
    assert {key for key in prints if prints[key] != changed[key]} == {name}


def test_files_whose_date_is_the_same_are_not_read_again(config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_text(config, keep_all)
    monkeypatch.delattr(preprocess, "checksum")
    prepare_text(config, keep_all)


def test_what_is_damaged_or_gone_is_made_again(config: TrainConfig) -> None:
    first = decoded(prepare_text(config, keep_all))
    data = Path(config.out) / "data"
    key = json.loads((data / "key.json").read_text(encoding="utf-8"))
    for damage in (b"", b"[]", b"{}"):
        (data / "key.json").write_bytes(damage)
        assert decoded(prepare_text(config, keep_all)) == first
    (data / "sentencepiece.model").unlink()
    shutil.rmtree(data / "train")
    assert decoded(prepare_text(config, keep_all)) == first
    assert json.loads((data / "key.json").read_text(encoding="utf-8")) == key


def test_given_subwords_are_used_and_others_mean_preparing_again(config: TrainConfig, tmp_path: Path) -> None:
    places = [Path(config.out, "data"), tmp_path / "one", tmp_path / "two"]
    kinds: list[Literal["joint", "separate"]] = ["joint", "separate"]
    for place, size, kind in zip(places[1:], (310, 300), kinds, strict=True):
        text = replace(config.text, vocab_size=size, vocabulary=kind)
        model = replace(config.model, share_embeddings=False)
        prepare_text(replace(config, out=str(place), text=text, model=model), keep_all)
    one, two = (Vocabulary.load(place / "data") for place in places[1:])
    assert (one.joint, two.joint) == (True, False)
    own = prepare_text(config, keep_all).vocabulary
    for given in (one, two, None, two, one, None):
        found = prepare_text(config, keep_all, vocabulary=given)
        assert found.vocabulary.files() == Vocabulary.load(places[0]).files() == (given or own).files()
        assert decoded(found) == sentences()[8:]
        before = snapshot(config)
        prepare_text(config, keep_all, vocabulary=given)
        assert snapshot(config) == before


# ---- the text of a run that has begun


def changed_text(tmp_path: Path) -> list[Pair]:
    pairs = [*sentences()[8:], ("a yak .", "ein Jak .")]
    write_text(tmp_path / "train", pairs)
    return pairs


def test_a_begun_run_does_not_get_another_text_unnoticed(config: TrainConfig, tmp_path: Path) -> None:
    prepare_text(config, keep_all)
    before = snapshot(config)
    changed_text(tmp_path)
    changes = rf"{tmp_path / 'train.en'} has changed; {tmp_path / 'train.de'} has changed"
    with pytest.raises(DragomanError, match=rf"{changes}.*--accept-changes.*--restart"):
        prepare_text(config, keep_all, begun=True)
    assert snapshot(config) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"clean": CleaningConfig(copies=True)}, "clean.copies was False and is True"),
        ({"seed": 9}, "seed was 1 and is 9"),
        ({"text": TextConfig(placeholders=0.0, vocab_size=330)}, "text.vocab_size was 320 and is 330"),
        ({"valid": []}, "the list of files"),
    ],
)
def test_a_begun_run_gets_no_other_settings_unnoticed(change: dict[str, Any], said: str, config: TrainConfig) -> None:
    prepare_text(config, keep_all)
    with pytest.raises(DragomanError, match=said):
        prepare_text(replace(config, **change), keep_all, begun=True)


def test_an_accepted_text_is_encoded_with_the_subwords_the_model_knows(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subwords = prepare_text(config, keep_all).vocabulary.files()
    pairs = changed_text(tmp_path)
    accepting = replace(config, accept_changes=True, text=replace(config.text, vocab_size=330))
    with monkeypatch.context() as patch:
        patch.setattr(preprocess, "build_store", None)
        with pytest.raises(TypeError):  # a crash on the way
            prepare_text(accepting, keep_all, begun=True)
    prepared = prepare_text(accepting, keep_all, begun=True)
    assert prepared.vocabulary.files() == subwords
    assert decoded(prepared) == pairs
    prepare_text(replace(accepting, accept_changes=False), keep_all, begun=True)  # it is the run's text now


def test_the_same_content_under_another_name_or_date_is_no_change(config: TrainConfig, tmp_path: Path) -> None:
    prepare_text(config, keep_all)
    before = snapshot(config)
    for language in ("en", "de"):
        os.utime(tmp_path / f"train.{language}", ns=(1, 1))
        shutil.copy(tmp_path / f"valid.{language}", tmp_path / f"copy.{language}")
    moved = replace(config, valid=[str(tmp_path / "copy")])
    prepare_text(moved, keep_all, begun=True)
    after = snapshot(config)
    assert {path for path in before if before[path] != after[path]} == {str(Path(config.out) / "data" / "key.json")}
    prepare_text(moved, keep_all, begun=True)
    assert snapshot(config) == after


# ---- holding out


def test_without_validation_text_some_sentences_are_held_out_with_all_their_translations(
    without_valid: TrainConfig, tmp_path: Path
) -> None:
    lines: list[str] = []
    prepared = prepare_text(without_valid, keep_all, lines.append)
    held, trained = held_out(without_valid), decoded(prepared)
    everything = list(read_pairs(without_valid.train, "en", "de"))
    assert held == [pair for pair in everything if holds_out(pair[0], HELD_OUT_SHARE)]
    assert trained == [pair for pair in everything if pair not in held]
    assert 0 < len(held) < 0.15 * len(trained)
    assert prepared.valid_pairs["en", "de"] == held
    assert len(prepared.valid) == len(held)
    assert any(str(Path(without_valid.out) / "heldout") in line for line in lines)
    other = replace(without_valid, out=str(tmp_path / "other"), seed=99)
    prepare_text(other, keep_all)
    assert held_out(other) == held


def test_pairs_unfit_for_validation_are_neither_held_out_nor_trained_on(without_valid: TrainConfig) -> None:
    everything = list(read_pairs(without_valid.train, "en", "de"))
    numbers = [number for number, pair in enumerate(everything) if holds_out(pair[0], HELD_OUT_SHARE)]
    other = next(number for number in range(len(everything)) if number not in numbers)
    prepared = prepare_text(without_valid, cleaning({numbers[0]}, {numbers[1], other}))
    assert held_out(without_valid) == [everything[number] for number in numbers[2:]]
    assert decoded(prepared) == [pair for number, pair in enumerate(everything) if number not in numbers]


@pytest.mark.parametrize("lost", ["held out", "trained on"])
def test_a_text_too_small_to_hold_anything_out_asks_for_a_validation_text(
    lost: str, without_valid: TrainConfig, tmp_path: Path
) -> None:
    kept = [pair for pair in sentences() if holds_out(pair[0], HELD_OUT_SHARE) == (lost == "trained on")]
    write_text(tmp_path / "train", [*kept, ("", "leer")])
    with pytest.raises(DragomanError, match="--valid"):
        prepare_text(without_valid, keep_all)


# ---- bad text


def test_text_that_turned_bad_is_an_error_until_it_is_good_again(config: TrainConfig, tmp_path: Path) -> None:
    first = decoded(prepare_text(config, keep_all))
    for name in ("train", "valid"):
        path = tmp_path / f"{name}.de"
        good = path.read_bytes()
        path.write_bytes(good.replace("Hündin".encode(), b"H\xfcndin", 1))
        for _ in range(2):
            with pytest.raises(DragomanError, match=name):
                prepare_text(config, keep_all)
        assert not list(Path(config.out).rglob("*.partial"))
        assert not (Path(config.out) / "data" / "key.json").exists()
        path.write_bytes(good)
        assert decoded(prepare_text(config, keep_all)) == first
