"""Preparing a run's text: made once, made again when something changes, never half."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from dragoman.config import (
    CleaningConfig,
    DragomanError,
    ModelConfig,
    TextConfig,
    TrainConfig,
    ValidationConfig,
)
from dragoman.text import preparation
from dragoman.text.corpus import Pair, read_pairs
from dragoman.text.findings import Finding
from dragoman.text.preparation import PreparedText, prepare_text
from dragoman.text.reasons import Flag, Severity
from dragoman.text.subword import Vocabulary

ANIMALS = {"cat": "Katze", "dog": "Hündin", "cow": "Kuh", "bee": "Biene", "hen": "Henne", "owl": "Eule"}
VERBS = {"sees": "sieht", "hears": "hört", "likes": "mag", "seeks": "sucht"}


def sentences() -> list[Pair]:
    return [
        (f"the {a} {verb} the {b} .", f"die {ANIMALS[a]} {VERBS[verb]} die {ANIMALS[b]} .")
        for a in ANIMALS
        for verb in VERBS
        for b in ANIMALS
    ]


def write_text(prefix: Path, pairs: list[Pair]) -> str:
    for side, language in enumerate(("en", "de")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        prefix.with_name(f"{prefix.name}.{language}").write_text(text, encoding="utf-8")
    return str(prefix)


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    pairs = sentences()
    return TrainConfig(
        source="en",
        target="de",
        train=[write_text(tmp_path / "train", pairs[8:])],
        valid=[write_text(tmp_path / "valid", [*pairs[:8], ("", "leer")])],
        out=str(tmp_path / "out"),
        text=TextConfig(vocab_size=320),
    )


def snapshot(config: TrainConfig) -> dict[str, int]:
    """Every prepared file and when it was written."""
    return {str(path): path.stat().st_mtime_ns for path in (Path(config.out) / "data").rglob("*") if path.is_file()}


def decoded(prepared: PreparedText) -> list[Pair]:
    store, vocabulary = prepared.train, prepared.vocabulary
    sources = vocabulary.source.decode([store.source(i).tolist() for i in range(len(store))])
    targets = vocabulary.target.decode([store.target(i).tolist() for i in range(len(store))])
    return list(zip(sources, targets, strict=True))


def test_the_training_text_comes_out_as_it_went_in(config: TrainConfig) -> None:
    assert decoded(prepare_text(config)) == sentences()[8:]


def test_the_validation_pairs_are_the_raw_text_without_empty_sides(config: TrainConfig) -> None:
    prepared = prepare_text(config)
    assert prepared.valid_pairs == sentences()[:8]
    assert len(prepared.valid) == 8


def test_no_more_validation_pairs_are_translated_than_asked_for(config: TrainConfig) -> None:
    prepared = prepare_text(replace(config, validation=ValidationConfig(max_lines=3)))
    assert prepared.valid_pairs == sentences()[:3]
    assert len(prepared.valid) == 8


def test_nothing_is_made_again_when_nothing_changed(config: TrainConfig) -> None:
    first = decoded(prepare_text(config))
    before = snapshot(config)
    assert decoded(prepare_text(config)) == first
    assert snapshot(config) == before


def test_settings_that_do_not_concern_the_text_change_nothing(config: TrainConfig) -> None:
    prepare_text(config)
    before = snapshot(config)
    prepare_text(replace(config, max_steps=7, model=ModelConfig(d_model=64), device="cpu"))
    assert snapshot(config) == before


@pytest.mark.parametrize("change", [{"vocab_size": 310}, {"subwords": "unigram"}, {"max_length": 100}])
def test_text_is_prepared_again_when_its_settings_change(change: dict[str, object], config: TrainConfig) -> None:
    prepare_text(config)
    before = snapshot(config)
    prepare_text(replace(config, text=replace(config.text, **change)))  # type: ignore[arg-type]
    after = snapshot(config)
    assert after.keys() == before.keys()
    assert all(after[path] != before[path] for path in before)


@pytest.mark.parametrize("name", ["train", "valid"])
def test_text_is_prepared_again_when_it_changes(name: str, config: TrainConfig, tmp_path: Path) -> None:
    old = prepare_text(config)
    prints = {"train": old.train.report.fingerprint, "valid": old.valid.report.fingerprint}
    others = {"train": sentences()[20:], "valid": sentences()[:4]}[name]
    write_text(tmp_path / name, [("a new sentence", "ein neuer Satz"), *others])
    new = prepare_text(config)
    changed = {"train": new.train.report.fingerprint, "valid": new.valid.report.fingerprint}
    assert {key for key in prints if prints[key] != changed[key]} == {name}


def test_another_text_of_the_same_size_and_another_time_is_noticed(config: TrainConfig, tmp_path: Path) -> None:
    prepare_text(config)
    path = tmp_path / "train.de"
    path.write_text(path.read_text().replace("Eule", "Ente"))
    os.utime(path, ns=(1, 1))
    assert any("Ente" in target for _, target in decoded(prepare_text(config)))


def test_preparing_is_deterministic(config: TrainConfig, tmp_path: Path) -> None:
    other = replace(config, out=str(tmp_path / "other"))
    first, second = prepare_text(config), prepare_text(other)
    assert first.vocabulary.files() == second.vocabulary.files()
    assert first.train.report == second.train.report


def test_subwords_can_be_learnt_from_a_sample(config: TrainConfig) -> None:
    lines: list[str] = []
    prepared = prepare_text(replace(config, text=TextConfig(vocab_size=300, sample_lines=40)), lines.append)
    assert "learning subwords from 20 pairs" in lines
    assert decoded(prepared) == sentences()[8:]


def test_separate_vocabularies_are_kept_and_found_again(config: TrainConfig) -> None:
    separate = replace(
        config,
        text=TextConfig(vocab_size=300, vocabulary="separate"),
        model=ModelConfig(share_embeddings=False),
    )
    assert not prepare_text(separate).vocabulary.joint
    assert not prepare_text(separate).vocabulary.joint
    assert prepare_text(config).vocabulary.joint


# ---- what people are told


def test_a_text_that_was_prepared_for_other_subwords_is_prepared_again(config: TrainConfig, tmp_path: Path) -> None:
    places = [Path(config.out, "data"), tmp_path / "one", tmp_path / "two"]
    sizes = [config.text.vocab_size, 310, 300]
    kinds: list[Literal["joint", "separate"]] = ["joint", "joint", "separate"]
    for place, size, kind in zip(places[1:], sizes[1:], kinds[1:], strict=True):
        text = replace(config.text, vocab_size=size, vocabulary=kind)
        model = replace(config.model, share_embeddings=False)
        prepare_text(replace(config, out=str(place), text=text, model=model))
    one, two = (Vocabulary.load(place / "data") for place in places[1:])
    own = prepare_text(config).vocabulary
    for kept_to in (one, two, None, two, one, None):
        found = prepare_text(config, vocabulary=kept_to)
        assert found.vocabulary.files() == Vocabulary.load(places[0]).files() == (kept_to or own).files()
        before = snapshot(config)
        prepare_text(config, vocabulary=kept_to)
        assert snapshot(config) == before


def test_a_vocabulary_larger_than_the_text_supports_is_reported(config: TrainConfig) -> None:
    lines: list[str] = []
    prepared = prepare_text(replace(config, text=TextConfig(vocab_size=20_000)), lines.append)
    (line,) = [line for line in lines if "supports" in line]
    assert f"{len(prepared.vocabulary.source):,}" in line
    assert "20,000" in line


def test_a_vocabulary_of_the_size_asked_for_is_no_news(config: TrainConfig) -> None:
    lines: list[str] = []
    prepare_text(config, lines.append)
    assert not any("supports" in line for line in lines)


def test_what_was_left_out_is_reported_again_when_nothing_is_made_again(config: TrainConfig) -> None:
    for _ in range(2):
        lines: list[str] = []
        prepare_text(config, lines.append)
        assert any("1 with an empty side" in line for line in lines)


# ---- holding out


@pytest.fixture
def without_valid(config: TrainConfig, tmp_path: Path) -> TrainConfig:
    """Each source sentence with two translations."""
    pairs = sentences()
    write_text(tmp_path / "train", [*pairs, *((source, target + " !") for source, target in pairs)])
    return replace(config, valid=[])


def held_out(config: TrainConfig) -> list[Pair]:
    return list(read_pairs([str(Path(config.out) / "heldout")], "en", "de"))


def test_without_validation_text_some_sentences_are_held_out_with_all_their_translations(
    without_valid: TrainConfig,
) -> None:
    prepared = prepare_text(without_valid)
    held, trained = held_out(without_valid), decoded(prepared)
    assert held
    assert not {source for source, _ in held} & {source for source, _ in trained}
    everything = read_pairs(without_valid.train, "en", "de")
    assert sorted([*held, *trained]) == sorted(everything)
    assert prepared.valid_pairs == held
    assert len(prepared.valid) == len(held)


def test_only_a_small_part_is_held_out(without_valid: TrainConfig) -> None:
    prepared = prepare_text(without_valid)
    assert 0 < len(prepared.valid) < 0.15 * len(prepared.train)


def test_the_same_sentences_are_held_out_every_time(without_valid: TrainConfig, tmp_path: Path) -> None:
    prepare_text(without_valid)
    first = held_out(without_valid)
    other = replace(without_valid, out=str(tmp_path / "other"), seed=99)
    prepare_text(other)
    assert held_out(other) == first


def test_people_are_told_where_the_held_out_pairs_are(without_valid: TrainConfig) -> None:
    lines: list[str] = []
    prepare_text(without_valid, lines.append)
    assert any(str(Path(without_valid.out) / "heldout") in line for line in lines)


def test_a_text_too_small_to_hold_anything_out_asks_for_a_validation_text(
    without_valid: TrainConfig, tmp_path: Path
) -> None:
    write_text(tmp_path / "train", [("one sentence", "ein Satz")])
    with pytest.raises(DragomanError, match="--valid"):
        prepare_text(without_valid)


# ---- bad text


def make_invalid(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace("Hündin".encode(), b"H\xfcndin", 1))


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
        prepare_text(config)
    assert snapshot(config) == {}
    assert not list(Path(config.out).rglob("*.partial"))


@pytest.mark.parametrize("name", ["train", "valid"])
def test_text_that_turned_bad_is_an_error_until_it_is_good_again(
    name: str, config: TrainConfig, tmp_path: Path
) -> None:
    first = decoded(prepare_text(config))
    path = tmp_path / f"{name}.de"
    good = path.read_bytes()
    make_shorter(path)
    for _ in range(2):
        with pytest.raises(DragomanError, match=name):
            prepare_text(config)
    path.write_bytes(good)
    assert decoded(prepare_text(config)) == first


def test_a_damaged_store_is_made_again_once_it_is_deleted_as_advised(config: TrainConfig) -> None:
    first = decoded(prepare_text(config))
    store = Path(config.out) / "data" / "train"
    for path in store.iterdir():
        path.unlink()
    store.rmdir()
    assert decoded(prepare_text(config)) == first


# ---- cleaning


def found(reason: str, severity: Severity, count: int = 1, **more: Any) -> Finding:
    """A finding in the training text."""
    rest = {"text": "training", "share": 0.5, "unit": "lines", "examples": (), "advice": "Look."} | more
    return Finding(reason=reason, severity=severity, count=count, **rest)


@dataclass
class Doctor:
    """Says what it is told to say."""

    flags: Mapping[int, Flag] = field(default_factory=dict)
    """What is wrong with some pairs, by number."""
    findings: list[Finding] = field(default_factory=list)
    usable: bool = True
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def examine(
        self,
        train: list[str],
        source: str,
        target: str,
        valid: list[str],
        test: list[str],
        progress: Callable[[int, int], None],
    ) -> Any:
        self.asked.append((train, source, target, valid, test))
        pairs = sum(1 for _ in read_pairs(train, source, target)) if self.usable else 1

        @dataclass
        class Diagnosis:
            flags: NDArray[np.uint16]
            pairs: int
            findings: list[Finding]
            usable: bool

            def to_dict(self) -> dict[str, Any]:
                return {"says": "größer", "pairs": self.pairs}

        progress(0, 0)  # while they are still counted
        progress(pairs, pairs)
        flags = np.zeros(pairs, np.uint16)
        for number, flag in self.flags.items():
            flags[number] = flag
        return Diagnosis(flags, pairs, self.findings, self.usable)


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> Doctor:
    pretended = Doctor()
    monkeypatch.setattr(preparation, "examine_text", pretended.examine)
    return pretended


NOTHING = CleaningConfig(**{setting.name: False for setting in fields(CleaningConfig)})
FLAGS = {
    "overlap": Flag.OVERLAP,
    "duplicates": Flag.DUPLICATE,
    "near_duplicates": Flag.NEAR_DUPLICATE,
    "copies": Flag.COPY,
    "ratio": Flag.RATIO,
    "characters": Flag.CHARACTERS,
    "language": Flag.LANGUAGE,
}


def without(*numbers: int) -> list[Pair]:
    return [pair for number, pair in enumerate(sentences()[8:]) if number not in numbers]


def test_there_is_a_setting_for_every_flag_that_cleaning_can_act_on() -> None:
    assert FLAGS.keys() == {setting.name for setting in fields(CleaningConfig)}
    assert set(FLAGS.values()) == set(Flag) - {Flag.EMPTY}  # empty sides are left out anyway


@pytest.mark.parametrize("name", FLAGS)
def test_each_setting_takes_out_the_pairs_with_its_flag_and_no_other(
    name: str, doctor: Doctor, config: TrainConfig
) -> None:
    doctor.flags = dict(enumerate(Flag)) | {70: FLAGS[name] | Flag.EMPTY}
    prepared = prepare_text(replace(config, clean=replace(NOTHING, **{name: True})))
    assert decoded(prepared) == without(list(Flag).index(FLAGS[name]), 70)


def test_without_cleaning_nothing_is_taken_out(doctor: Doctor, config: TrainConfig) -> None:
    doctor.flags = dict(enumerate(Flag))
    assert decoded(prepare_text(replace(config, clean=NOTHING))) == without()


def test_only_what_would_flatter_the_scores_is_taken_out_unasked(doctor: Doctor, config: TrainConfig) -> None:
    doctor.flags = dict(enumerate(Flag))
    assert decoded(prepare_text(config)) == without(list(Flag).index(Flag.OVERLAP))


def test_flags_meet_their_pairs_across_several_texts(doctor: Doctor, config: TrainConfig, tmp_path: Path) -> None:
    pairs = sentences()[8:]
    texts = [write_text(tmp_path / "one", pairs[:50]), write_text(tmp_path / "two", pairs[50:])]
    doctor.flags = {49: Flag.COPY, 50: Flag.COPY, 60: Flag.COPY}
    clean = replace(NOTHING, copies=True)
    assert decoded(prepare_text(replace(config, train=texts, clean=clean))) == without(49, 50, 60)


def test_how_many_are_left_out_is_said_and_kept(doctor: Doctor, config: TrainConfig) -> None:
    doctor.flags = {3: Flag.COPY, 4: Flag.COPY | Flag.RATIO, 5: Flag.RATIO, 6: Flag.LANGUAGE, 7: Flag.COPY}
    config = replace(config, clean=replace(NOTHING, copies=True, ratio=True, duplicates=True))
    expected = {"copies of the source": 3, "of unlike lengths": 2}
    for _ in range(2):  # the second time, nothing is examined
        lines: list[str] = []
        prepared = prepare_text(config, lines.append)
        assert prepared.train.report.cleaned == expected
        (line,) = [line for line in lines if line.startswith("training text")]
        assert "3 copies of the source" in line
        assert "2 of unlike lengths" in line
        assert "duplicates" not in line
    assert decoded(prepared) == without(3, 4, 5, 7)
    assert len(doctor.asked) == 1


def test_where_cleaning_leaves_nothing_it_says_what_it_took(doctor: Doctor, config: TrainConfig) -> None:
    doctor.flags = dict.fromkeys(range(len(without())), Flag.DUPLICATE)
    with pytest.raises(DragomanError, match=r"cleaning leaves nothing of 136 pairs \(136 duplicates\)"):
        prepare_text(replace(config, clean=replace(NOTHING, duplicates=True)))
    assert not (Path(config.out) / "data" / "train").exists()


def test_other_cleaning_is_another_text(doctor: Doctor, config: TrainConfig) -> None:
    doctor.flags = {5: Flag.COPY}
    assert decoded(prepare_text(config)) == without()
    assert decoded(prepare_text(replace(config, clean=CleaningConfig(copies=True)))) == without(5)
    assert decoded(prepare_text(config)) == without()


def test_the_doctor_sees_all_the_texts_and_its_report_is_kept(
    doctor: Doctor, config: TrainConfig, tmp_path: Path
) -> None:
    config = replace(config, test=[write_text(tmp_path / "test", sentences()[:3])])
    prepare_text(config)
    assert doctor.asked == [(config.train, "en", "de", config.valid, config.test)]
    content = (Path(config.out) / "check.json").read_text(encoding="utf-8")
    assert json.loads(content) == {"says": "größer", "pairs": 136}
    assert "größer" in content


def test_what_the_doctor_warns_of_is_said_and_its_notes_are_not(doctor: Doctor, config: TrainConfig) -> None:
    serious = found("sides swapped", "error", 7, advice="Swap them.", detail="Both sides.", unit="pairs")
    doctor.findings = [serious, found("NUL", "warning", 1234), found("tab", "note"), found("mojibake", "warning")]
    lines: list[str] = []
    prepare_text(config, lines.append)
    assert "warning: sides swapped in the training text (7 pairs): Both sides. Swap them." in lines
    (line,) = [line for line in lines if "found in the text" in line]
    assert "NUL (1,234 lines of the training text), mojibake (1 lines of the training text);" in line
    assert str(Path(config.out) / "check.json") in line
    assert not any("tab" in line for line in lines)
    doctor.findings = [found("tab", "note")]
    lines.clear()
    prepare_text(replace(config, out=config.out + "2"), lines.append)
    assert not any("found" in line or "warning" in line for line in lines)


def test_where_examining_takes_long_people_are_told_how_far_it_is(
    config: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor, lines = Doctor(), list[str]()

    def examine(*texts: Any, progress: Callable[[int, int], None]) -> Any:
        for examined in range(0, 2_000_001, 20_000):
            progress(examined, 0)
        for examined in range(0, 2_000_001, 20_000):
            progress(examined, 2_000_000)
        return doctor.examine(*texts, progress=progress)

    monkeypatch.setattr(preparation, "examine_text", examine)
    prepare_text(config, lines.append)
    steps = ("500,000", "1,000,000", "1,500,000", "2,000,000")
    assert [line for line in lines if "examined" in line] == [f"examined {n} of 2,000,000 pairs" for n in steps]


def test_text_that_the_doctor_can_not_read_is_refused_with_the_place(
    doctor: Doctor, config: TrainConfig, tmp_path: Path
) -> None:
    doctor.usable = False
    make_invalid(tmp_path / "train.de")
    with pytest.raises(DragomanError, match=r"train\.de, line \d+, byte \d+: not UTF-8"):
        prepare_text(config)
    assert (Path(config.out) / "check.json").is_file()


def test_held_out_pairs_are_those_of_the_whole_text_and_flags_still_fit(
    doctor: Doctor, without_valid: TrainConfig
) -> None:
    everything = list(read_pairs(without_valid.train, "en", "de"))
    prepare_text(without_valid)
    held = held_out(without_valid)
    number = next(n for n, pair in enumerate(everything) if n > 50 and pair not in held)
    doctor.flags = {number: Flag.COPY}
    again = replace(without_valid, out=without_valid.out + "2", clean=CleaningConfig(copies=True))
    prepared = prepare_text(again)
    assert held_out(again) == held
    assert sorted([*held, everything[number], *decoded(prepared)]) == sorted(everything)


def test_pairs_of_the_validation_and_test_text_are_not_trained_on(config: TrainConfig, tmp_path: Path) -> None:
    pairs = sentences()
    write_text(tmp_path / "valid", pairs[8:12])
    test = write_text(tmp_path / "test", pairs[20:23])
    expected = [*pairs[12:20], *pairs[23:]]
    assert decoded(prepare_text(replace(config, test=[test]))) == expected  # what the real doctor does


# ---- a run that has begun


def changed_text(config: TrainConfig, tmp_path: Path) -> None:
    write_text(tmp_path / "train", [*sentences()[8:], ("a yak .", "ein Jak .")])


def test_a_begun_run_does_not_get_another_text_unnoticed(config: TrainConfig, tmp_path: Path) -> None:
    prepare_text(config)
    before = snapshot(config)
    changed_text(config, tmp_path)
    with pytest.raises(DragomanError) as error:
        prepare_text(config, begun=True)
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
    prepare_text(config)
    with pytest.raises(DragomanError) as error:
        prepare_text(replace(config, **change), begun=True)
    assert said in str(error.value)


def test_a_text_moved_from_one_list_to_another_is_noticed(config: TrainConfig, tmp_path: Path) -> None:
    more = write_text(tmp_path / "more", [("a yak .", "ein Jak .")])
    prepare_text(replace(config, train=[*config.train, more]))
    with pytest.raises(DragomanError, match="the list of files"):
        prepare_text(replace(config, valid=[more, *config.valid]), begun=True)


def test_an_accepted_text_is_encoded_with_the_subwords_the_model_knows(config: TrainConfig, tmp_path: Path) -> None:
    subwords = prepare_text(config).vocabulary.files()
    changed_text(config, tmp_path)
    lines: list[str] = []
    prepared = prepare_text(replace(config, accept_changes=True), lines.append, begun=True)
    assert prepared.vocabulary.files() == subwords
    assert decoded(prepared) == [*sentences()[8:], ("a yak .", "ein Jak .")]
    assert any("preparing the text again, with the subwords that the model knows" in line for line in lines)
    lines.clear()
    prepare_text(config, lines.append, begun=True)  # it is the run's text now
    assert not any("another" in line for line in lines)


def test_a_crash_while_an_accepted_text_is_prepared_does_not_cost_the_subwords(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subwords = prepare_text(config).vocabulary.files()
    changed_text(config, tmp_path)

    def crash(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(preparation, "build_store", crash)
        with pytest.raises(KeyboardInterrupt):
            prepare_text(replace(config, accept_changes=True), begun=True)
    prepared = prepare_text(replace(config, accept_changes=True), begun=True)
    assert prepared.vocabulary.files() == subwords
    assert ("a yak .", "ein Jak .") in decoded(prepared)


def test_the_same_content_under_another_name_or_date_is_no_change(config: TrainConfig, tmp_path: Path) -> None:
    first = decoded(prepare_text(config))
    before = snapshot(config)
    for language in ("en", "de"):
        os.utime(tmp_path / f"train.{language}", ns=(1, 1))
        shutil.copy(tmp_path / f"valid.{language}", tmp_path / f"copy.{language}")
    moved = replace(config, valid=[str(tmp_path / "copy")])
    assert decoded(prepare_text(moved, begun=True)) == first
    key = str(Path(config.out) / "data" / "key.json")
    after = snapshot(config)
    assert {path for path in before if before[path] != after[path]} == {key}  # it remembers the new names and dates
    settled = snapshot(config)
    prepare_text(moved, begun=True)
    assert snapshot(config) == settled


def test_files_whose_date_is_the_same_are_not_read_again(config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_text(config)
    read: list[Path] = []
    checksum = preparation.checksum
    monkeypatch.setattr(preparation, "checksum", lambda path: read.append(path) or checksum(path))
    prepare_text(config)
    assert read == []


def test_given_subwords_are_kept_to(config: TrainConfig, tmp_path: Path) -> None:
    given = prepare_text(replace(config, out=str(tmp_path / "parent"), text=TextConfig(vocab_size=310))).vocabulary
    lines: list[str] = []
    prepared = prepare_text(config, lines.append, given)
    assert prepared.vocabulary.files() == given.files()
    assert decoded(prepared) == sentences()[8:]
    assert not any("learning subwords" in line for line in lines)


@pytest.mark.parametrize("key", ["", "[]", "{}", '{"settings": {}}', "\x00\x00"])
def test_a_damaged_key_means_preparing_again(key: str, config: TrainConfig) -> None:
    first = decoded(prepare_text(config))
    (Path(config.out) / "data" / "key.json").write_text(key)
    assert decoded(prepare_text(config)) == first


# ---- monsters


MONSTER = """
import resource, sys, time
from pathlib import Path
from dragoman.config import TextConfig, TrainConfig
from dragoman.text import preparation
from dragoman.text.corpus import read_pairs
from dragoman.text.preparation import prepare_text
import numpy as np
class Diagnosis:  # what the doctor takes is its own affair
    findings, usable, pairs, flags = [], True, 301, np.zeros(301, np.uint16)
    def to_dict(self): return {}
preparation.examine_text = lambda *texts, progress: Diagnosis()
folder = Path(sys.argv[1])
before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
config = TrainConfig(source="en", target="de", train=[str(folder / "train")], valid=[str(folder / "valid")],
                     out=str(folder / "out"), text=TextConfig(vocab_size=320))
report = prepare_text(config).train.report
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


@pytest.mark.parametrize("key", [[], {"files": 1.5}, {"files": [1]}, {"files": [["a", "b", 1, "c"]]}, {"settings": 3}])
def test_a_key_that_is_damaged_counts_as_none(key: Any, config: TrainConfig) -> None:
    first = prepare_text(config)
    path = Path(config.out) / "data" / "key.json"
    good = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(good | key if isinstance(key, dict) else key), encoding="utf-8")
    again = prepare_text(config, begun=True)
    assert again.train.report == first.train.report
    assert json.loads(path.read_text(encoding="utf-8")) == good


def test_blank_text_is_named(config: TrainConfig, tmp_path: Path) -> None:
    blank = write_text(tmp_path / "blank", [(" ", " ")] * 3)
    with pytest.raises(DragomanError, match="blank"):
        prepare_text(replace(config, train=[blank]))
