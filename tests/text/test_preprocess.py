"""Preparing a run's text: made once, made again when something changes, never half."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from dragoman.config import (
    DragomanError,
    ModelConfig,
    TextConfig,
    TrainConfig,
    ValidationConfig,
)
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text.corpus import Pair, read_pairs
from dragoman.text.preprocess import prepare_text
from dragoman.text.subwords import Vocabulary
from tests.text.small_texts import decoded, held_out, make_invalid, sentences, snapshot, write_text


def test_the_training_text_comes_out_as_it_went_in(config: TrainConfig) -> None:
    assert decoded(prepare_text(config, clean_text)) == sentences()[8:]


def test_the_validation_pairs_are_the_raw_text_without_empty_sides(config: TrainConfig) -> None:
    prepared = prepare_text(config, clean_text)
    assert prepared.valid_pairs == sentences()[:8]
    assert len(prepared.valid) == 8


def test_no_more_validation_pairs_are_translated_than_asked_for(config: TrainConfig) -> None:
    prepared = prepare_text(replace(config, validation=ValidationConfig(max_lines=3)), clean_text)
    assert prepared.valid_pairs == sentences()[:3]
    assert len(prepared.valid) == 8


def test_nothing_is_made_again_when_nothing_changed(config: TrainConfig) -> None:
    first = decoded(prepare_text(config, clean_text))
    before = snapshot(config)
    assert decoded(prepare_text(config, clean_text)) == first
    assert snapshot(config) == before


def test_settings_that_do_not_concern_the_text_change_nothing(config: TrainConfig) -> None:
    prepare_text(config, clean_text)
    before = snapshot(config)
    prepare_text(replace(config, max_steps=7, model=ModelConfig(d_model=64), device="cpu"), clean_text)
    assert snapshot(config) == before


def test_validation_pairs_are_those_that_the_model_has_positions_for(config: TrainConfig, tmp_path: Path) -> None:
    """Longer ones than are trained on, too; the end takes a position as well."""
    write_text(tmp_path / "train", [("a", "b"), *sentences()])
    run = replace(config, text=replace(config.text, max_length=2))
    valid = prepare_text(run, clean_text).valid
    longest = int(np.maximum(valid.source_lengths, valid.target_lengths).max())
    kept = [
        len(prepare_text(replace(run, model=ModelConfig(max_length=longest + more)), clean_text).valid)
        for more in (-1, 0)
    ]
    assert longest > 2
    assert kept[0] < kept[1] == len(valid) == 8


@pytest.mark.parametrize("change", [{"vocab_size": 310}, {"subwords": "unigram"}, {"max_length": 100}])
def test_text_is_prepared_again_when_its_settings_change(change: dict[str, object], config: TrainConfig) -> None:
    prepare_text(config, clean_text)
    before = snapshot(config)
    prepare_text(replace(config, text=replace(config.text, **change)), clean_text)  # type: ignore[arg-type]
    after = snapshot(config)
    assert after.keys() == before.keys()
    assert all(after[path] != before[path] for path in before)


@pytest.mark.parametrize("name", ["train", "valid"])
def test_text_is_prepared_again_when_it_changes(name: str, config: TrainConfig, tmp_path: Path) -> None:
    old = prepare_text(config, clean_text)
    prints = {"train": old.train.report.fingerprint, "valid": old.valid.report.fingerprint}
    others = {"train": sentences()[20:], "valid": sentences()[:4]}[name]
    write_text(tmp_path / name, [("a new sentence", "ein neuer Satz"), *others])
    new = prepare_text(config, clean_text)
    changed = {"train": new.train.report.fingerprint, "valid": new.valid.report.fingerprint}
    assert {key for key in prints if prints[key] != changed[key]} == {name}


def test_another_text_of_the_same_size_and_another_time_is_noticed(config: TrainConfig, tmp_path: Path) -> None:
    prepare_text(config, clean_text)
    path = tmp_path / "train.de"
    path.write_text(path.read_text().replace("Eule", "Ente"))
    os.utime(path, ns=(1, 1))
    assert any("Ente" in target for _, target in decoded(prepare_text(config, clean_text)))


def test_preparing_is_deterministic(config: TrainConfig, tmp_path: Path) -> None:
    other = replace(config, out=str(tmp_path / "other"))
    first, second = prepare_text(config, clean_text), prepare_text(other, clean_text)
    assert first.vocabulary.files() == second.vocabulary.files()
    assert first.train.report == second.train.report


def test_subwords_can_be_learnt_from_a_sample(config: TrainConfig) -> None:
    lines: list[str] = []
    prepared = prepare_text(replace(config, text=TextConfig(vocab_size=300, sample_lines=40)), clean_text, lines.append)
    assert "learning subwords from 20 pairs" in lines
    assert decoded(prepared) == sentences()[8:]


def test_separate_vocabularies_are_kept_and_found_again(config: TrainConfig) -> None:
    separate = replace(
        config,
        text=TextConfig(vocab_size=300, vocabulary="separate"),
        model=ModelConfig(share_embeddings=False),
    )
    assert not prepare_text(separate, clean_text).vocabulary.joint
    assert not prepare_text(separate, clean_text).vocabulary.joint
    assert prepare_text(config, clean_text).vocabulary.joint


# ---- what people are told


def test_a_text_that_was_prepared_for_other_subwords_is_prepared_again(config: TrainConfig, tmp_path: Path) -> None:
    places = [Path(config.out, "data"), tmp_path / "one", tmp_path / "two"]
    sizes = [config.text.vocab_size, 310, 300]
    kinds: list[Literal["joint", "separate"]] = ["joint", "joint", "separate"]
    for place, size, kind in zip(places[1:], sizes[1:], kinds[1:], strict=True):
        text = replace(config.text, vocab_size=size, vocabulary=kind)
        model = replace(config.model, share_embeddings=False)
        prepare_text(replace(config, out=str(place), text=text, model=model), clean_text)
    one, two = (Vocabulary.load(place / "data") for place in places[1:])
    own = prepare_text(config, clean_text).vocabulary
    for kept_to in (one, two, None, two, one, None):
        found = prepare_text(config, clean_text, vocabulary=kept_to)
        assert found.vocabulary.files() == Vocabulary.load(places[0]).files() == (kept_to or own).files()
        before = snapshot(config)
        prepare_text(config, clean_text, vocabulary=kept_to)
        assert snapshot(config) == before


def test_a_vocabulary_larger_than_the_text_supports_is_reported(config: TrainConfig) -> None:
    lines: list[str] = []
    prepared = prepare_text(replace(config, text=TextConfig(vocab_size=20_000)), clean_text, lines.append)
    (line,) = [line for line in lines if "supports" in line]
    assert f"{len(prepared.vocabulary.source):,}" in line
    assert "20,000" in line


def test_a_vocabulary_of_the_size_asked_for_is_no_news(config: TrainConfig) -> None:
    lines: list[str] = []
    prepare_text(config, clean_text, lines.append)
    assert not any("supports" in line for line in lines)


def test_what_was_left_out_is_reported_again_when_nothing_is_made_again(config: TrainConfig) -> None:
    for _ in range(2):
        lines: list[str] = []
        prepare_text(config, clean_text, lines.append)
        assert any("2 with an empty side" in line for line in lines)


# ---- holding out


def test_without_validation_text_some_sentences_are_held_out_with_all_their_translations(
    without_valid: TrainConfig,
) -> None:
    prepared = prepare_text(without_valid, clean_text)
    held, trained = held_out(without_valid), decoded(prepared)
    assert held
    assert not {source for source, _ in held} & {source for source, _ in trained}
    everything = read_pairs(without_valid.train, "en", "de")
    assert sorted([*held, *trained]) == sorted(everything)
    assert prepared.valid_pairs == held
    assert len(prepared.valid) == len(held)


def test_only_a_small_part_is_held_out(without_valid: TrainConfig) -> None:
    prepared = prepare_text(without_valid, clean_text)
    assert 0 < len(prepared.valid) < 0.15 * len(prepared.train)


def test_the_same_sentences_are_held_out_every_time(without_valid: TrainConfig, tmp_path: Path) -> None:
    prepare_text(without_valid, clean_text)
    first = held_out(without_valid)
    other = replace(without_valid, out=str(tmp_path / "other"), seed=99)
    prepare_text(other, clean_text)
    assert held_out(other) == first


def test_people_are_told_where_the_held_out_pairs_are(without_valid: TrainConfig) -> None:
    lines: list[str] = []
    prepare_text(without_valid, clean_text, lines.append)
    assert any(str(Path(without_valid.out) / "heldout") in line for line in lines)


def test_a_text_too_small_to_hold_anything_out_asks_for_a_validation_text(
    without_valid: TrainConfig, tmp_path: Path
) -> None:
    write_text(tmp_path / "train", [("one sentence", "ein Satz")])
    with pytest.raises(DragomanError, match="--valid"):
        prepare_text(without_valid, clean_text)


# ---- bad text


def make_shorter(path: Path) -> None:
    path.write_text("".join(line + "\n" for line in path.read_text().split("\n")[5:-1]))


def make_empty(path: Path) -> None:
    path.write_text("")
    path.with_suffix(".en").write_text("")


@pytest.mark.parametrize("damage", [make_invalid, make_shorter, make_empty, Path.unlink])
def test_bad_training_text_leaves_nothing_half_written(
    damage: Callable[[Path], None], config: TrainConfig, tmp_path: Path
) -> None:
    damage(tmp_path / "train.de")
    with pytest.raises(DragomanError, match="train"):
        prepare_text(config, clean_text)
    assert snapshot(config) == {}
    assert not list(Path(config.out).rglob("*.partial"))


@pytest.mark.parametrize("name", ["train", "valid"])
def test_text_that_turned_bad_is_an_error_until_it_is_good_again(
    name: str, config: TrainConfig, tmp_path: Path
) -> None:
    first = decoded(prepare_text(config, clean_text))
    path = tmp_path / f"{name}.de"
    good = path.read_bytes()
    make_shorter(path)
    for _ in range(2):
        with pytest.raises(DragomanError, match=name):
            prepare_text(config, clean_text)
    path.write_bytes(good)
    assert decoded(prepare_text(config, clean_text)) == first


def test_a_damaged_store_is_made_again_once_it_is_deleted_as_advised(config: TrainConfig) -> None:
    first = decoded(prepare_text(config, clean_text))
    store = Path(config.out) / "data" / "train"
    for path in store.iterdir():
        path.unlink()
    store.rmdir()
    assert decoded(prepare_text(config, clean_text)) == first


# ---- monsters


MONSTER = """
import resource, sys, time
from pathlib import Path
from dragoman.config import TextConfig, TrainConfig
from dragoman.text.preprocess import Cleaning, prepare_text
import numpy as np
nothing = np.zeros(301, bool)
def clean(config, report): return Cleaning(nothing, nothing, {})
folder = Path(sys.argv[1])
before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
config = TrainConfig(source="en", target="de", train=[str(folder / "train")], valid=[str(folder / "valid")],
                     out=str(folder / "out"), text=TextConfig(vocab_size=320))
report = prepare_text(config, clean).train.report
print(report.pairs, report.too_long, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before,
      time.process_time() - started)
"""


@pytest.mark.parametrize("monster", [("word " * 10_000_000, "kurz"), ("x" * 50_000_000, "y" * 50_000_000)])
def test_a_line_of_fifty_megabytes_takes_neither_long_nor_much_memory(monster: Pair, tmp_path: Path) -> None:
    pairs = (sentences() * 3)[:300]
    write_text(tmp_path / "train", [*pairs[:100], monster, *pairs[100:]])
    write_text(tmp_path / "valid", sentences()[:8])
    command = [sys.executable, "-c", MONSTER, str(tmp_path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    kept, too_long, kilobytes, seconds = map(float, output.split())
    assert (kept, too_long) == (300, 1)
    assert kilobytes < 8 * sum(map(len, monster)) / 1024  # it is there a few times at once, but never in pieces
    assert seconds < 10


def test_blank_text_is_named(config: TrainConfig, tmp_path: Path) -> None:
    blank = write_text(tmp_path / "blank", [(" ", " ")] * 3)
    with pytest.raises(DragomanError, match="blank"):
        prepare_text(replace(config, train=[blank]), clean_text)
