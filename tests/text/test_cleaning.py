"""What is left out of a text, and what people are told of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dragoman.config import (
    CleaningConfig,
    DragomanError,
    TrainConfig,
)
from dragoman.corpus_check import cleaning
from dragoman.corpus_check.cleaning import clean_text
from dragoman.corpus_check.issues import Finding
from dragoman.corpus_check.reasons import Flag, Severity
from dragoman.text.corpus import Pair, read_pairs
from dragoman.text.preprocess import prepare_text
from tests.text.small_texts import decoded, held_out, make_invalid, sentences, write_text


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
    monkeypatch.setattr(cleaning, "examine_text", pretended.examine)
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
    prepared = prepare_text(replace(config, clean=replace(NOTHING, **{name: True})), clean_text)
    assert decoded(prepared) == without(list(Flag).index(FLAGS[name]), 70)


def test_without_cleaning_nothing_is_taken_out(doctor: Doctor, config: TrainConfig) -> None:
    doctor.flags = dict(enumerate(Flag))
    assert decoded(prepare_text(replace(config, clean=NOTHING), clean_text)) == without()


def test_only_what_would_flatter_the_scores_is_taken_out_unasked(doctor: Doctor, config: TrainConfig) -> None:
    doctor.flags = dict(enumerate(Flag))
    assert decoded(prepare_text(config, clean_text)) == without(list(Flag).index(Flag.OVERLAP))


def test_flags_meet_their_pairs_across_several_texts(doctor: Doctor, config: TrainConfig, tmp_path: Path) -> None:
    pairs = sentences()[8:]
    texts = [write_text(tmp_path / "one", pairs[:50]), write_text(tmp_path / "two", pairs[50:])]
    doctor.flags = {49: Flag.COPY, 50: Flag.COPY, 60: Flag.COPY}
    clean = replace(NOTHING, copies=True)
    assert decoded(prepare_text(replace(config, train=texts, clean=clean), clean_text)) == without(49, 50, 60)


def test_how_many_are_left_out_is_said_and_kept(doctor: Doctor, config: TrainConfig) -> None:
    doctor.flags = {3: Flag.COPY, 4: Flag.COPY | Flag.RATIO, 5: Flag.RATIO, 6: Flag.LANGUAGE, 7: Flag.COPY}
    config = replace(config, clean=replace(NOTHING, copies=True, ratio=True, duplicates=True))
    expected = {"copies of the source": 3, "of unlike lengths": 2}
    for _ in range(2):  # the second time, nothing is examined
        lines: list[str] = []
        prepared = prepare_text(config, clean_text, lines.append)
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
        prepare_text(replace(config, clean=replace(NOTHING, duplicates=True)), clean_text)
    assert not (Path(config.out) / "data" / "train").exists()


def test_a_training_text_that_is_also_for_validation_is_told_as_such(config: TrainConfig) -> None:
    with pytest.raises(
        DragomanError, match="give other text for --valid or --test; without --valid some pairs are held"
    ):
        prepare_text(replace(config, valid=config.train), clean_text)


def test_other_cleaning_is_another_text(doctor: Doctor, config: TrainConfig) -> None:
    doctor.flags = {5: Flag.COPY}
    assert decoded(prepare_text(config, clean_text)) == without()
    assert decoded(prepare_text(replace(config, clean=CleaningConfig(copies=True)), clean_text)) == without(5)
    assert decoded(prepare_text(config, clean_text)) == without()


def test_the_doctor_sees_all_the_texts_and_its_report_is_kept(
    doctor: Doctor, config: TrainConfig, tmp_path: Path
) -> None:
    config = replace(config, test=[write_text(tmp_path / "test", sentences()[:3])])
    prepare_text(config, clean_text)
    assert doctor.asked == [(config.train, "en", "de", config.valid, config.test)]
    content = (Path(config.out) / "check.json").read_text(encoding="utf-8")
    assert json.loads(content) == {"says": "größer", "pairs": 136}
    assert "größer" in content


def test_what_the_doctor_warns_of_is_said_and_its_notes_are_not(doctor: Doctor, config: TrainConfig) -> None:
    serious = found("sides swapped", "error", 7, advice="Swap them.", detail="Both sides.", unit="pairs")
    doctor.findings = [serious, found("NUL", "warning", 1234), found("tab", "note"), found("mojibake", "warning")]
    lines: list[str] = []
    prepare_text(config, clean_text, lines.append)
    assert "warning: sides swapped in the training text (7 pairs): Both sides. Swap them." in lines
    (line,) = [line for line in lines if "found in the text" in line]
    assert "NUL (1,234 lines of the training text), mojibake (1 line of the training text);" in line
    assert str(Path(config.out) / "check.json") in line
    assert not any("tab" in line for line in lines)
    doctor.findings = [found("tab", "note")]
    lines.clear()
    prepare_text(replace(config, out=config.out + "2"), clean_text, lines.append)
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

    monkeypatch.setattr(cleaning, "examine_text", examine)
    prepare_text(config, clean_text, lines.append)
    steps = ("500,000", "1,000,000", "1,500,000", "2,000,000")
    assert [line for line in lines if "examined" in line] == [f"examined {n} of 2,000,000 pairs" for n in steps]


def test_text_that_the_doctor_can_not_read_is_refused_with_the_place(
    doctor: Doctor, config: TrainConfig, tmp_path: Path
) -> None:
    doctor.usable = False
    make_invalid(tmp_path / "train.de")
    with pytest.raises(DragomanError, match=r"train\.de, line \d+, byte \d+: not UTF-8"):
        prepare_text(config, clean_text)
    assert (Path(config.out) / "check.json").is_file()


def test_held_out_pairs_are_those_of_the_whole_text_and_flags_still_fit(
    doctor: Doctor, without_valid: TrainConfig
) -> None:
    everything = list(read_pairs(without_valid.train, "en", "de"))
    prepare_text(without_valid, clean_text)
    held = held_out(without_valid)
    number = next(n for n, pair in enumerate(everything) if n > 50 and pair not in held)
    doctor.flags = {number: Flag.COPY}
    again = replace(without_valid, out=without_valid.out + "2", clean=CleaningConfig(copies=True))
    prepared = prepare_text(again, clean_text)
    assert held_out(again) == held
    assert sorted([*held, everything[number], *decoded(prepared)]) == sorted(everything)


def test_pairs_of_the_validation_and_test_text_are_not_trained_on(config: TrainConfig, tmp_path: Path) -> None:
    pairs = sentences()
    write_text(tmp_path / "valid", pairs[8:12])
    test = write_text(tmp_path / "test", pairs[20:23])
    expected = [*pairs[12:20], *pairs[23:]]
    assert decoded(prepare_text(replace(config, test=[test]), clean_text)) == expected  # what the real doctor does
