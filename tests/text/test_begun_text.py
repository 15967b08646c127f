"""The text of a run that has begun: no change goes unnoticed, and an accepted one keeps the subwords."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import (
    CleaningConfig,
    DragomanError,
    TextConfig,
    TrainConfig,
)
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text import preprocess as preparation
from dragoman.text.preprocess import prepare_text
from tests.text.small_texts import decoded, sentences, snapshot, write_text


def changed_text(config: TrainConfig, tmp_path: Path) -> None:
    write_text(tmp_path / "train", [*sentences()[8:], ("a yak .", "ein Jak .")])


def test_a_begun_run_does_not_get_another_text_unnoticed(config: TrainConfig, tmp_path: Path) -> None:
    prepare_text(config, clean_text)
    before = snapshot(config)
    changed_text(config, tmp_path)
    with pytest.raises(DragomanError) as error:
        prepare_text(config, clean_text, begun=True)
    message = str(error.value)
    assert f"{tmp_path / 'train.en'} has changed" in message
    assert f"{tmp_path / 'train.de'} has changed" in message
    assert "--accept-changes" in message
    assert "--restart" in message
    assert snapshot(config) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"clean": CleaningConfig(copies=True)}, "clean.copies was False and is True"),
        ({"seed": 9}, "seed was 1 and is 9"),
        ({"text": TextConfig(vocab_size=330)}, "text.vocab_size was 320 and is 330"),
        ({"valid": []}, "the list of files"),
    ],
)
def test_nor_text_prepared_in_another_way(change: dict[str, Any], said: str, config: TrainConfig) -> None:
    prepare_text(config, clean_text)
    with pytest.raises(DragomanError) as error:
        prepare_text(replace(config, **change), clean_text, begun=True)
    assert said in str(error.value)


def test_subwords_of_a_run_stay_as_they_are_even_where_changes_are_accepted(config: TrainConfig) -> None:
    prepare_text(config, clean_text)
    changed = replace(config, accept_changes=True, text=replace(config.text, vocab_size=330))
    with pytest.raises(
        DragomanError, match=r"subwords of a run stay as they are \(text\.vocab_size was 320 and is 330\)"
    ):
        prepare_text(changed, clean_text, begun=True)
    assert prepare_text(replace(changed, text=replace(config.text, max_length=99)), clean_text, begun=True)


def test_another_file_is_told_with_the_one_that_it_replaces(config: TrainConfig, tmp_path: Path) -> None:
    prepare_text(config, clean_text)
    other = write_text(tmp_path / "other", sentences()[9:])
    with pytest.raises(DragomanError, match=r"other\.en in place of .*train\.en"):
        prepare_text(replace(config, train=[other]), clean_text, begun=True)


def test_a_text_moved_from_one_list_to_another_is_noticed(config: TrainConfig, tmp_path: Path) -> None:
    more = write_text(tmp_path / "more", [("a yak .", "ein Jak .")])
    prepare_text(replace(config, train=[*config.train, more]), clean_text)
    with pytest.raises(DragomanError, match="the list of files"):
        prepare_text(replace(config, valid=[more, *config.valid]), clean_text, begun=True)


def test_an_accepted_text_is_encoded_with_the_subwords_the_model_knows(config: TrainConfig, tmp_path: Path) -> None:
    subwords = prepare_text(config, clean_text).vocabulary.files()
    changed_text(config, tmp_path)
    lines: list[str] = []
    prepared = prepare_text(replace(config, accept_changes=True), clean_text, lines.append, begun=True)
    assert prepared.vocabulary.files() == subwords
    assert decoded(prepared) == [*sentences()[8:], ("a yak .", "ein Jak .")]
    assert any("preparing the text again, with the subwords that the model knows" in line for line in lines)
    lines.clear()
    prepare_text(config, clean_text, lines.append, begun=True)  # it is the run's text now
    assert not any("another" in line for line in lines)


def test_a_crash_while_an_accepted_text_is_prepared_does_not_cost_the_subwords(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subwords = prepare_text(config, clean_text).vocabulary.files()
    changed_text(config, tmp_path)

    def crash(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(preparation, "build_store", crash)
        with pytest.raises(KeyboardInterrupt):
            prepare_text(replace(config, accept_changes=True), clean_text, begun=True)
    prepared = prepare_text(replace(config, accept_changes=True), clean_text, begun=True)
    assert prepared.vocabulary.files() == subwords
    assert ("a yak .", "ein Jak .") in decoded(prepared)


def test_the_same_content_under_another_name_or_date_is_no_change(config: TrainConfig, tmp_path: Path) -> None:
    first = decoded(prepare_text(config, clean_text))
    before = snapshot(config)
    for language in ("en", "de"):
        os.utime(tmp_path / f"train.{language}", ns=(1, 1))
        shutil.copy(tmp_path / f"valid.{language}", tmp_path / f"copy.{language}")
    moved = replace(config, valid=[str(tmp_path / "copy")])
    assert decoded(prepare_text(moved, clean_text, begun=True)) == first
    key = str(Path(config.out) / "data" / "key.json")
    after = snapshot(config)
    assert {path for path in before if before[path] != after[path]} == {key}  # it remembers the new names and dates
    settled = snapshot(config)
    prepare_text(moved, clean_text, begun=True)
    assert snapshot(config) == settled


def test_files_whose_date_is_the_same_are_not_read_again(config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_text(config, clean_text)
    read: list[Path] = []
    checksum = preparation.checksum
    monkeypatch.setattr(preparation, "checksum", lambda path: read.append(path) or checksum(path))
    prepare_text(config, clean_text)
    assert read == []


def test_given_subwords_are_kept_to(config: TrainConfig, tmp_path: Path) -> None:
    given = prepare_text(
        replace(config, out=str(tmp_path / "parent"), text=TextConfig(vocab_size=310)), clean_text
    ).vocabulary
    lines: list[str] = []
    prepared = prepare_text(config, clean_text, lines.append, given)
    assert prepared.vocabulary.files() == given.files()
    assert decoded(prepared) == sentences()[8:]
    assert not any("learning subwords" in line for line in lines)


@pytest.mark.parametrize("key", ["", "[]", "{}", '{"settings": {}}', "\x00\x00"])
def test_a_damaged_key_means_preparing_again(key: str, config: TrainConfig) -> None:
    first = decoded(prepare_text(config, clean_text))
    (Path(config.out) / "data" / "key.json").write_text(key)
    assert decoded(prepare_text(config, clean_text)) == first


@pytest.mark.parametrize("key", [[], {"files": 1.5}, {"files": [1]}, {"files": [["a", "b", 1, "c"]]}, {"settings": 3}])
def test_a_key_that_is_damaged_counts_as_none(key: Any, config: TrainConfig) -> None:
    first = prepare_text(config, clean_text)
    path = Path(config.out) / "data" / "key.json"
    good = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(good | key if isinstance(key, dict) else key), encoding="utf-8")
    again = prepare_text(config, clean_text, begun=True)
    assert again.train.report == first.train.report
    assert json.loads(path.read_text(encoding="utf-8")) == good
