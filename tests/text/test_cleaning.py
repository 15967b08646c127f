"""What cleaning leaves out of the text of a run, and what people are told of the check."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dragoman.config import CleaningConfig, DragomanError, TrainConfig
from dragoman.corpus_check import blocks, cleaning
from dragoman.corpus_check.cleaning import clean_text
from dragoman.corpus_check.issues import Finding, Flag
from dragoman.runtime.console import Report
from dragoman.text import dataset
from dragoman.text.corpus import read_pairs
from dragoman.text.preprocess import prepare_text
from tests.text.small_texts import decoded, held_out, sentences, write_text

NOTHING = CleaningConfig(**{setting.name: False for setting in fields(CleaningConfig)})


@dataclass
class Check:
    """Stands in for the corpus check and finds what it is told to find."""

    flags: dict[int, Flag] = field(default_factory=dict)
    """By number of the pair."""
    findings: list[Any] = field(default_factory=list)
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def __call__(self, train: list[str], *more: Any, report: Report) -> Any:
        self.calls.append((train, *more))
        flags = np.zeros(sum(1 for _ in read_pairs(train, *more[:2])), np.uint16)
        for number, flag in self.flags.items():
            flags[number] = flag
        return SimpleNamespace(
            flags=flags, pairs=len(flags), findings=self.findings, usable=True, to_dict=lambda: {"found": "größer"}
        )


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> Check:
    pretended = Check()
    monkeypatch.setattr(cleaning, "examine_text", pretended)
    return pretended


def left_out(config: TrainConfig) -> list[int]:
    return np.flatnonzero(clean_text(config, lambda line: None).left_out).tolist()  # type: ignore[no-any-return]


def test_every_setting_leaves_out_the_pairs_with_its_flag_and_no_others(check: Check, config: TrainConfig) -> None:
    check.flags = dict(enumerate(Flag)) | {70: Flag.COPY | Flag.EMPTY, 71: Flag.COPY | Flag.RATIO}
    flags = {
        "overlap": Flag.OVERLAP,
        "duplicates": Flag.DUPLICATE,
        "near_duplicates": Flag.NEAR_DUPLICATE,
        "copies": Flag.COPY,
        "ratio": Flag.RATIO,
        "characters": Flag.CHARACTERS,
        "language": Flag.LANGUAGE,
    }
    assert flags.keys() == {setting.name for setting in fields(CleaningConfig)}
    assert set(flags.values()) == set(Flag) - {Flag.EMPTY}  # empty sides are always left out
    for name, flag in flags.items():
        expected = [number for number, found in check.flags.items() if found & flag]
        assert left_out(replace(config, clean=replace(NOTHING, **{name: True}))) == expected
    assert left_out(replace(config, clean=NOTHING)) == []
    assert left_out(config) == [list(Flag).index(Flag.OVERLAP)]  # only what would flatter the scores


def test_the_report_counts_what_is_left_out_by_reason(check: Check, config: TrainConfig) -> None:
    check.flags = {3: Flag.COPY, 4: Flag.COPY | Flag.RATIO, 5: Flag.RATIO, 6: Flag.LANGUAGE, 7: Flag.COPY}
    config = replace(config, clean=replace(NOTHING, copies=True, ratio=True, duplicates=True))
    for _ in range(2):  # the second time, nothing is checked
        lines: list[str] = []
        prepared = prepare_text(config, clean_text, lines.append)
        assert prepared.train.report.cleaned == {"copies of the source": 3, "of unlike lengths": 1}
        assert any("3 copies of the source, 1 of unlike lengths" in line for line in lines)
    assert decoded(prepared) == [pair for number, pair in enumerate(sentences()[8:]) if number not in (3, 4, 5, 7)]
    assert len(check.calls) == 1


def test_flagged_pairs_are_not_held_out_for_validation_although_cleaning_lets_them_pass(
    check: Check, without_valid: TrainConfig
) -> None:
    prepare_text(without_valid, clean_text)
    held, everything = held_out(without_valid), list(read_pairs(without_valid.train, "en", "de"))
    flags = (Flag.DUPLICATE, Flag.EMPTY, Flag.OVERLAP, Flag.COPY)
    check.flags = {everything.index(pair): flag for pair, flag in zip(held, flags, strict=False)}
    again = replace(without_valid, out=without_valid.out + "2", clean=NOTHING)
    prepare_text(again, clean_text)
    assert held_out(again) == held[3:]


def test_an_error_counts_what_was_left_out_if_nothing_is_left(check: Check, config: TrainConfig) -> None:
    check.flags = dict.fromkeys(range(136), Flag.DUPLICATE)
    with pytest.raises(DragomanError, match=r"nothing of 136 pairs \(136 duplicates\); give other text, for --valid"):
        left_out(replace(config, clean=replace(NOTHING, duplicates=True)))


def test_the_check_reads_all_texts_and_its_result_is_kept(check: Check, config: TrainConfig, tmp_path: Path) -> None:
    config = replace(config, test=[write_text(tmp_path / "test", sentences()[:3])])
    left_out(config)
    assert check.calls == [(config.train, "en", "de", config.valid, config.test)]
    content = (Path(config.out) / "check.json").read_text(encoding="utf-8")
    assert json.loads(content) == {"found": "größer"}
    assert "größer" in content


def test_errors_and_warnings_are_reported_and_notes_are_not(check: Check, config: TrainConfig) -> None:
    swapped = Finding("text the wrong way round", "training", 7, 7, details=["Both sides."])
    nul, tab, bell = Finding("NUL", "training", 99_999, 1234), Finding("tab", "test", 9, 1), "control character"
    check.findings = [swapped, nul, tab, Finding(bell, "training", 9, 1)]
    lines: list[str] = []
    clean_text(config, lines.append)
    where = Path(config.out) / "check.json"
    warnings = f"NUL (1,234 lines of the training text), {bell} (1 line of the training text)"
    assert lines[1:] == [
        "warning: text the wrong way round in the training text (7 pairs): Both sides. "
        "Swap the files or columns, or --source and --target.",
        f"found in the text: {warnings}; see {where}",
    ]


def shorter(path: Path) -> str:
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]), encoding="utf-8")
    return r"has \d+ lines but .* has \d+"


def not_utf8(path: Path) -> str:
    path.write_bytes(path.read_bytes().replace("ö".encode(), b"\xf6", 1).replace("ü".encode(), b"\xfc", 1))
    return r"line \d+, byte \d+: not UTF-8"


def empty(path: Path) -> str:
    path.write_text("")
    path.with_suffix(".en").write_text("")
    return "no sentence pair; the .* text is empty"


@pytest.mark.parametrize("damage", [shorter, not_utf8, empty])
@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_broken_text_stops_the_run_before_anything_is_learned(
    name: str, damage: Callable[[Path], str], config: TrainConfig, tmp_path: Path
) -> None:
    config = replace(config, test=[write_text(tmp_path / "test", sentences()[:30])])
    reason = damage(tmp_path / f"{name}.de")
    with pytest.raises(DragomanError, match=rf"{name}.*{reason}"):
        prepare_text(config, clean_text)
    assert not list((Path(config.out) / "data").iterdir())
    assert (Path(config.out) / "check.json").is_file()


def test_pairs_of_the_validation_and_test_text_are_not_trained_on(config: TrainConfig, tmp_path: Path) -> None:
    pairs = sentences()
    write_text(tmp_path / "valid", pairs[8:12])
    test = write_text(tmp_path / "test", pairs[20:23])
    expected = [*pairs[12:20], *pairs[23:]]
    assert decoded(prepare_text(replace(config, test=[test]), clean_text)) == expected


def test_repeated_and_faulty_pairs_are_not_held_out(without_valid: TrainConfig, tmp_path: Path) -> None:
    prepare_text(without_valid, clean_text)
    held, everything = held_out(without_valid), list(read_pairs(without_valid.train, "en", "de"))
    odd = [(held[0][0], held[0][1] + "\ufffd"), (held[1][0], "ja " * 60), (held[2][0], held[2][0])]
    write_text(tmp_path / "train", [*odd, *everything, held[0], (held[1][0], "")])
    clean = CleaningConfig(characters=True, ratio=True, copies=True)
    again = replace(without_valid, out=without_valid.out + "2", clean=clean)
    prepared = prepare_text(again, clean_text)
    assert held_out(again) == held
    assert decoded(prepared) == [pair for pair in everything if pair not in held]


def test_the_processors_cores_make_no_difference(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = sentences()
    write_text(tmp_path / "train", [*pairs, pairs[3], ("a", ""), (pairs[4][0], "ja " * 60)])
    monkeypatch.setattr(blocks, "_BLOCK_PAIRS", 20)
    monkeypatch.setattr(dataset, "_CHUNK", 20)
    made = []
    for cores in (1, 3):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process, cores=cores: set(range(cores)), raising=False)
        run = replace(config, out=f"{config.out}{cores}", text=replace(config.text, placeholders=0.3))
        assert prepare_text(run, clean_text).train.report.planted > 10
        files = [path for path in sorted(Path(run.out).rglob("*")) if path.is_file() and path.name != "key.json"]
        made.append([(path.name, path.read_bytes()) for path in files])
    assert made[0] == made[1]
    assert b'"duplicate pair"' in dict(made[0])["check.json"]
