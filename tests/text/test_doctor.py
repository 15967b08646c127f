"""The corpus doctor: every planted fault is found in its place and nothing else; clean text is left in peace."""

from __future__ import annotations

import csv
import errno
import gzip
import json
import os
import random
import tempfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from texts_at_hand import data_at_hand, phrasebook

from dragoman.config import DragomanError
from dragoman.text.blocks import Side
from dragoman.text.corpus import Pair, read_pairs
from dragoman.text.doctor import Diagnosis, examine_text
from dragoman.text.findings import Finding
from dragoman.text.reasons import Flag
from dragoman.text.repeats import essence

PLACE = 700
GERMAN = "Der Mann ist mit dem Hund und der Frau auf die Straße gegangen, und das ist nicht gut für sie."
LONG_ENGLISH = "This is the line that was left in English, and nobody has noticed it so far."
LONG_FRENCH = "Voici la phrase qui est restée en français, et personne ne s'en est aperçu jusqu'ici."


@pytest.fixture(scope="module")
def clean() -> list[Pair]:
    """Two thousand English and French sentences without any fault."""
    pairs: dict[tuple[str, ...], Pair] = {}
    for pair in phrasebook().train:
        if min(map(len, pair)) >= 25:
            pairs.setdefault(tuple(essence(Side(list(pair)))), pair)
    return list(pairs.values())[:2000]


def save(folder: Path, pairs: Iterable[Pair], name: str = "train") -> str:
    pairs = list(pairs)
    for side, language in enumerate(("en", "fr")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (folder / f"{name}.{language}").write_bytes(text.encode())
    return str(folder / name)


def examine(train: str | list[str], valid: str = "", test: str = "", examples: int = 3) -> Diagnosis:
    texts = [train] if isinstance(train, str) else train
    return examine_text(texts, "en", "fr", [valid] if valid else [], [test] if test else [], examples)


def only(diagnosis: Diagnosis) -> Finding:
    """The one thing that is wrong."""
    assert len(diagnosis.findings) == 1, [(f.reason, f.count) for f in diagnosis.findings]
    return diagnosis.findings[0]


def places(finding: Finding) -> list[tuple[str, int]]:
    return [(Path(example.file).name, example.line) for example in finding.examples]


def replaced(pairs: list[Pair], *changes: tuple[int, Pair]) -> list[Pair]:
    return [dict(changes).get(number, pair) for number, pair in enumerate(pairs)]


def test_clean_text_has_no_findings(clean: list[Pair], tmp_path: Path) -> None:
    diagnosis = examine(save(tmp_path, clean))
    assert diagnosis.findings == []
    assert diagnosis.usable
    assert diagnosis.pairs == len(diagnosis.flags) == len(clean)
    assert not diagnosis.flags.any()
    assert diagnosis.flags.dtype == np.uint16


Change = Callable[[Pair], Pair]
FAULTS: dict[str, tuple[Change, str, int | None, Flag]] = {
    "nul": (lambda p: (p[0][:5] + "\0" + p[0][5:], p[1]), "NUL", 0, Flag.CHARACTERS),
    "bell": (lambda p: (p[0], p[1] + "\a"), "control character", 1, Flag.CHARACTERS),
    "c1": (lambda p: (p[0], "\x81" + p[1]), "control character", 1, Flag.CHARACTERS),
    "cp1252": (lambda p: (p[0], "\x91" + p[1]), "Windows-1252 read as Latin-1", 1, Flag.CHARACTERS),
    "cp1252 too": (lambda p: (p[0] + "\x85 it\x92s", p[1]), "Windows-1252 read as Latin-1", 0, Flag.CHARACTERS),
    "entity": (lambda p: (p[0], p[1] + " R&amp;B"), "HTML entities or tags", 1, Flag(0)),
    "tag": (lambda p: (f"<i>{p[0]}</i>", p[1]), "HTML entities or tags", 0, Flag(0)),
    "noncharacter": (lambda p: (p[0] + "\uffff", p[1]), "control character", 0, Flag.CHARACTERS),
    "return": (lambda p: (p[0][:5] + "\r" + p[0][5:], p[1]), "carriage return inside", 0, Flag.CHARACTERS),
    "u2028": (lambda p: (p[0][:5] + "\u2028" + p[0][5:], p[1]), "exotic line break", 0, Flag.CHARACTERS),
    "u0085": (lambda p: (p[0], p[1][:5] + "\x85" + p[1][5:]), "exotic line break", 1, Flag.CHARACTERS),
    "form feed": (lambda p: (p[0][:5] + "\f" + p[0][5:], p[1]), "exotic line break", 0, Flag.CHARACTERS),
    "bom": (lambda p: (p[0], "\ufeff" + p[1]), "byte-order mark inside", 1, Flag.CHARACTERS),
    "lost letter": (lambda p: (p[0], p[1][:8] + "\ufffd" + p[1][8:]), "replacement character", 1, Flag.CHARACTERS),
    "mojibake": (lambda p: (p[0], p[1] + " CafÃ©."), "wrong encoding", 1, Flag.CHARACTERS),
    "quotes": (lambda p: (p[0] + " donâ€™t", p[1]), "wrong encoding", 0, Flag.CHARACTERS),
    "private": (lambda p: (p[0] + " \ue001", p[1]), "private-use character", 0, Flag.CHARACTERS),
    "zero width": (lambda p: (p[0][:5] + "\u200b" + p[0][5:], p[1]), "invisible character", 0, Flag(0)),
    "direction": (lambda p: (p[0], p[1] + "\u200f"), "invisible character", 1, Flag(0)),
    "tab": (lambda p: (p[0][:5] + "\t" + p[0][5:], p[1]), "tab", 0, Flag(0)),
    "no source": (lambda p: ("", p[1]), "empty side", None, Flag.EMPTY),
    "blank target": (lambda p: (p[0], " \u3000 "), "empty side", None, Flag.EMPTY),
    "nothing": (lambda p: ("", ""), "empty side", None, Flag.EMPTY),
    "copy": (lambda p: (p[0], p[0]), "source = target", None, Flag.COPY),
    "short copy": (lambda p: ("Rio de Janeiro, 1998", "Rio de Janeiro, 1998"), "short source = target", None, Flag(0)),
    "too short": (lambda p: (p[0] * 4, p[1][:6]), "length ratio", None, Flag.RATIO),
    "swapped": (lambda p: (LONG_FRENCH, LONG_ENGLISH), "sides swapped", None, Flag.LANGUAGE),
    "untranslated": (lambda p: (p[0] * 2, LONG_ENGLISH), "language of the other side", 1, Flag.LANGUAGE),
    "wrong source": (lambda p: (LONG_FRENCH, p[1] * 2), "language of the other side", 0, Flag.LANGUAGE),
    "third": (lambda p: (p[0] * 2, GERMAN), "third language", 1, Flag.LANGUAGE),
    "cyrillic": (lambda p: (p[0], "Где находится ближайшая станция?"), "wrong script", 1, Flag.LANGUAGE),
    "han": (lambda p: ("最近的车站在哪里请告诉我", p[1]), "wrong script", 0, Flag.LANGUAGE),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_in_its_place_and_nothing_else(fault: str, clean: list[Pair], tmp_path: Path) -> None:
    change, reason, side, flag = FAULTS[fault]
    diagnosis = examine(save(tmp_path, replaced(clean, (PLACE, change(clean[PLACE])))))
    finding = only(diagnosis)
    assert (finding.reason, finding.count, finding.text) == (reason, 1, "training")
    assert finding.share == pytest.approx(1 / len(clean))
    assert places(finding) == [("train.fr" if side == 1 else "train.en", PLACE + 1)]
    assert len(finding.examples[0].texts) == (2 if side is None else 1)
    assert np.flatnonzero(diagnosis.flags).tolist() == ([PLACE] if flag else [])
    assert diagnosis.flags[PLACE] == flag


@pytest.mark.parametrize(("text", "reason"), [("word " * 300, "long line"), ("word " * 4000, "very long line")])
def test_long_lines_are_told_by_how_long(text: str, reason: str, clean: list[Pair], tmp_path: Path) -> None:
    finding = only(examine(save(tmp_path, replaced(clean, (PLACE, (text, text.replace("word", "mots")))))))
    assert (finding.reason, finding.count) == (reason, 2)
    assert places(finding) == [("train.en", PLACE + 1), ("train.fr", PLACE + 1)]


def test_decomposed_text_is_told_and_mixed_text_counted(clean: list[Pair], tmp_path: Path) -> None:
    accented = next(n for n, pair in enumerate(clean) if n > 50 and "é" in pair[1])
    apart = (clean[accented][0], clean[accented][1].replace("é", "e\u0301"))
    finding = only(examine(save(tmp_path, replaced(clean, (accented, apart)))))
    assert (finding.reason, finding.count) == ("NFC and NFD mixed", 1)
    assert places(finding) == [("train.fr", accented + 1)]
    composed = sum(any(c in pair[1] for c in "àâçéèêëîïôùûüÀÂÇÉÈÊŒ" if c != "Œ") for pair in clean)
    assert f"1 lines have letters that NFC replaces, {composed - 1:,} such as" in finding.detail
    plain = [(source, "".join(c for c in target if ord(c) < 128)) for source, target in clean]
    finding = only(examine(save(tmp_path, replaced(plain, (9, (plain[9][0], plain[9][1] + " e\u0301"))))))
    assert (finding.reason, finding.severity, places(finding)) == ("not in NFC", "note", [("train.fr", 10)])


def test_text_apart_on_one_side_is_told_beside_mixed_text_on_the_other(clean: list[Pair], tmp_path: Path) -> None:
    accented = next(n for n, pair in enumerate(clean) if n > 50 and "é" in pair[1])
    pairs = [(f"{source} caf\u0065\u0301", target) for source, target in clean]
    pairs[accented] = (pairs[accented][0], unicodedata.normalize("NFD", pairs[accented][1]))
    found = {finding.reason: finding for finding in examine(save(tmp_path, pairs)).findings}
    assert found["NFC and NFD mixed"].count == 1
    assert places(found["NFC and NFD mixed"]) in ([("train.fr", accented + 1)], [])
    assert found["not in NFC"].count == len(clean)
    assert found["not in NFC"].severity == "warning"
    assert {name for name, _ in places(found["not in NFC"])} == {"train.en"}


def test_duplicates_are_flagged_from_the_second_on(clean: list[Pair], tmp_path: Path) -> None:
    pairs = replaced(clean, (1500, clean[3]), (1600, (clean[3][0] + " ", clean[3][1])), (1700, clean[8]))
    diagnosis = examine(save(tmp_path, pairs))
    finding = only(diagnosis)
    assert (finding.reason, finding.count) == ("duplicate pair", 3)
    assert [(e.line, e.remark) for e in finding.examples] == [
        (1501, "same as line 4"), (1601, "same as line 4"), (1701, "same as line 9"),
    ]  # fmt: skip
    assert np.flatnonzero(diagnosis.flags).tolist() == [1500, 1600, 1700]
    assert set(diagnosis.flags[diagnosis.flags > 0].tolist()) == {int(Flag.DUPLICATE)}


def test_near_duplicates_differ_in_case_digits_and_punctuation_alone(clean: list[Pair], tmp_path: Path) -> None:
    source, target = clean[3]
    near = (source.upper() + " – 12!", f"« {target.lower()} »")
    diagnosis = examine(save(tmp_path, replaced(clean, (1500, near))))
    finding = only(diagnosis)
    assert (finding.reason, finding.count) == ("near-duplicate pair", 1)
    assert (finding.examples[0].line, finding.examples[0].remark) == (1501, "like line 4")
    assert np.flatnonzero(diagnosis.flags).tolist() == [1500]
    assert diagnosis.flags[1500] == Flag.NEAR_DUPLICATE
    numbers = replaced(clean, (5, ("12.", "12.")), (6, ("13 …", "13 …")))
    assert [f.reason for f in examine(save(tmp_path, numbers)).findings] == ["short source = target"]


def test_test_text_that_is_validation_text_is_told(clean: list[Pair], tmp_path: Path) -> None:
    train, valid = save(tmp_path, clean[:1600]), save(tmp_path, clean[1600:1800], "valid")
    test = save(tmp_path, [*clean[1800:], clean[1700]], "test")
    found = only(examine(train, valid, test))
    assert (found.reason, found.text, found.severity) == ("also in validation text", "test", "warning")
    assert places(found) == [("test.en", len(clean) - 1800 + 1)]
    (same,) = [f for f in examine(train, valid, valid).findings if f.reason == "also in validation text"]
    assert (same.count, same.severity) == (200, "error")


def test_what_is_held_out_is_found_in_the_training_text(clean: list[Pair], tmp_path: Path) -> None:
    train, valid, test = clean[:1600], clean[1600:1800], clean[1800:]
    other = ("Something quite different is said here.", "On dit ici quelque chose de tout autre.")
    planted = replaced(
        train,
        (10, (valid[5][0], valid[5][1] + " ")),
        (20, test[7]),
        (30, (valid[9][0].upper(), valid[9][1])),
        (40, (test[3][0], other[1])),
        (50, (other[0], test[3][1])),
    )
    diagnosis = examine(save(tmp_path, planted), save(tmp_path, valid, "valid"), save(tmp_path, test, "test"))
    found = {f.reason: (f.severity, [(e.line, e.remark) for e in f.examples]) for f in diagnosis.findings}
    assert found == {
        "also in held-out text": ("warning", [(11, "in the validation text"), (21, "in the test text")]),
        "almost in held-out text": ("note", [(31, "in the validation text")]),
        "source in held-out text": ("note", [(41, "in the test text")]),
        "target in held-out text": ("note", [(51, "in the test text")]),
    }
    assert np.flatnonzero(diagnosis.flags).tolist() == [10, 20]
    assert set(diagnosis.flags[[10, 20]].tolist()) == {int(Flag.OVERLAP)}
    assert diagnosis.held_out == {"validation": 200, "test": 200}


def test_faults_of_validation_text_are_told_as_such(clean: list[Pair], tmp_path: Path) -> None:
    valid = replaced(clean[1500:], (17, (LONG_FRENCH, LONG_ENGLISH)))
    diagnosis = examine(save(tmp_path, clean[:1500]), save(tmp_path, valid, "valid"))
    finding = only(diagnosis)
    assert (finding.text, finding.reason, places(finding)) == ("validation", "sides swapped", [("valid.en", 18)])
    assert not diagnosis.flags.any()


def test_a_text_the_wrong_way_round_is_told_once(clean: list[Pair], tmp_path: Path) -> None:
    turned = [(target, source) for source, target in clean]
    finding = only(examine(save(tmp_path, turned)))
    assert (finding.reason, finding.severity, finding.text) == ("text the wrong way round", "error", "training")
    finding = only(examine(save(tmp_path, clean[:1000]), save(tmp_path, turned[1000:], "valid")))
    assert (finding.reason, finding.text, finding.count) == ("text the wrong way round", "validation", 1000)


def test_a_validation_text_the_wrong_way_round_is_told_without_known_words(clean: list[Pair], tmp_path: Path) -> None:
    for name, pairs in (("train", clean[:1500]), ("valid", [(t, s) for s, t in clean[1500:]])):
        for side, language in enumerate(("xx", "yy")):
            (tmp_path / f"{name}.{language}").write_text("".join(p[side] + "\n" for p in pairs))
    diagnosis = examine_text([str(tmp_path / "train")], "xx", "yy", [str(tmp_path / "valid")])
    finding = only(diagnosis)
    assert (finding.reason, finding.text) == ("text the wrong way round", "validation")


def test_misplaced_lines_are_found_however_many(clean: list[Pair], tmp_path: Path) -> None:
    generator = random.Random(4)
    rows = sorted(generator.sample(range(len(clean)), int(0.4 * len(clean))))
    turned = [(t, s) if n in set(rows) else (s, t) for n, (s, t) in enumerate(clean)]
    diagnosis = examine(save(tmp_path, turned))
    flagged = set(np.flatnonzero(diagnosis.flags & Flag.LANGUAGE).tolist())
    assert len(flagged & set(rows)) > 0.9 * len(rows)
    assert flagged <= set(rows)
    counts = {finding.reason: finding.count for finding in diagnosis.findings}
    assert counts["sides swapped"] + counts.get("language of the other side", 0) == len(flagged)
    assert "text the wrong way round" not in counts  # not most of it is


def test_one_side_in_an_unexpected_language_or_script(clean: list[Pair], tmp_path: Path) -> None:
    path = save(tmp_path, clean)
    for name in ("train.de", "train.ru", "train.sr-Cyrl"):
        os.link(f"{path}.fr", tmp_path / name)
    for code, reason in (("de", "unexpected language"), ("ru", "unexpected script"), ("sr-Cyrl", "unexpected script")):
        finding = only(examine_text([path], "en", code))
        assert (finding.reason, finding.severity) == (reason, "warning")
        assert f"the target ({code})" in finding.detail


def test_line_counts_that_differ_with_the_place(clean: list[Pair], tmp_path: Path) -> None:
    path = save(tmp_path, replaced(clean, (20, ("", clean[20][1])), (1990, ("", clean[1990][1]))))
    lines = (tmp_path / "train.fr").read_text().split("\n")
    (tmp_path / "train.fr").write_text("\n".join(lines[:1200] + lines[1201:]))
    diagnosis = examine(path)
    findings = {finding.reason: finding for finding in diagnosis.findings}
    assert set(findings) == {"line counts differ", "empty side"}
    assert not diagnosis.usable
    assert findings["line counts differ"].severity == "error"
    near = findings["line counts differ"].examples[0].line
    assert abs(near - 1201) <= 3
    assert f"line {near:,}" in findings["line counts differ"].detail
    assert findings["empty side"].count == 1  # beyond the place, nothing is compared
    assert diagnosis.pairs == len(diagnosis.flags) == len(clean) - 1


@pytest.mark.parametrize("shift", [1, -1, 4])
def test_sides_that_slip_are_found_with_the_lines(shift: int, clean: list[Pair], tmp_path: Path) -> None:
    targets = [target for _, target in clean]
    start, end = 600, 1400
    extra = [f"Une phrase de trop, la numéro {n} de la série." for n in range(abs(shift))]
    if shift > 0:
        slipped = targets[:start] + extra + targets[start : end - shift] + targets[end:]
    else:
        slipped = targets[:start] + targets[start - shift : end] + extra + targets[end:]
    finding = only(examine(save(tmp_path, zip((s for s, _ in clean), slipped, strict=True))))
    assert (finding.reason, finding.severity) == ("out of step", "error")
    assert abs(finding.examples[0].line - 1 - start) <= 10
    assert abs(finding.count - (end - start)) <= 20
    assert ("further down" if shift > 0 else "further up") in finding.detail


def test_bytes_that_are_not_utf8_are_told_and_passed_over(clean: list[Pair], tmp_path: Path) -> None:
    path = save(tmp_path, replaced(clean, (900, ("", ""))))
    lines = (tmp_path / "train.fr").read_bytes().split(b"\n")
    lines[PLACE] = "déjà vu".encode("latin-1")
    (tmp_path / "train.fr").write_bytes(b"\n".join(lines))
    diagnosis = examine(path)
    found = {f.reason: (f.count, places(f)) for f in diagnosis.findings}
    assert found == {"not UTF-8": (1, [("train.fr", PLACE + 1)]), "empty side": (1, [("train.en", 901)])}
    assert diagnosis.findings[0].examples[0].remark == "byte 2 is 0xE9, after “d”"
    assert diagnosis.findings[0].examples[0].texts == ()
    assert not diagnosis.usable


def test_marks_and_line_ends_that_reading_drops_are_notes(clean: list[Pair], tmp_path: Path) -> None:
    path = save(tmp_path, clean)
    data = (tmp_path / "train.en").read_bytes()
    (tmp_path / "train.en").write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
    diagnosis = examine(path)
    assert {f.reason: (f.severity, f.count) for f in diagnosis.findings} == {
        "byte-order mark": ("note", 1), "Windows line ends": ("note", len(clean)),
    }  # fmt: skip
    assert not diagnosis.flags.any()


def test_rows_that_are_no_pairs(clean: list[Pair], tmp_path: Path) -> None:
    rows = [f"{s}\t{t}\tCC-BY" for s, t in clean]
    rows[10], rows[20], rows[30] = "no tab here", rows[20] + "\tmore", "\t".join(clean[30])
    (tmp_path / "train.tsv").write_text("".join(row + "\n" for row in rows))
    diagnosis = examine(str(tmp_path / "train.tsv"))
    assert {f.reason: (f.count, [e.line for e in f.examples]) for f in diagnosis.findings} == {
        "row without a tab": (1, [11]), "odd number of columns": (2, [21, 31]),
    }  # fmt: skip
    assert not diagnosis.usable
    objects = [json.dumps({"translation": {"en": s, "fr": t}}) for s, t in clean]
    objects[5], objects[6] = '{"translation": {"en": "a"}}', '{"translation": {"en": "\\ud800", "fr": "b"}}'
    (tmp_path / "train.jsonl").write_text("\n".join(objects))
    finding = only(examine(str(tmp_path / "train.jsonl")))
    assert (finding.reason, [e.line for e in finding.examples]) == ("unreadable JSON", [6, 7])


def test_a_spreadsheet_s_quoting_is_told(clean: list[Pair], tmp_path: Path) -> None:
    pairs = replaced(clean, (11, (f'She said: "{clean[11][0]}"', clean[11][1])))
    with (tmp_path / "train.tsv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, "excel-tab", lineterminator="\n").writerows(pairs)
    finding = only(examine(str(tmp_path / "train.tsv")))
    assert (finding.reason, finding.count, finding.severity) == ("spreadsheet quoting", 1, "warning")
    assert places(finding) == [("train.tsv", 12)]


def test_a_file_that_is_no_text_is_the_one_finding(clean: list[Pair], tmp_path: Path) -> None:
    path = save(tmp_path, clean)
    (tmp_path / "valid.tsv").write_bytes("".join(f"{s}\t{t}\n" for s, t in clean).encode("utf-16-le"))
    ids = "".join(f"{n}\t{s}\t{n}\t{t}\n" for n, (s, t) in enumerate(clean))
    (tmp_path / "ids.tsv").write_text(ids)
    for train, valid, reason, text, said in (
        (path, str(tmp_path / "valid.tsv"), "not UTF-8 but UTF-16", "validation", "iconv -f utf-16le -t utf-8"),
        (f"{path}.en", path, "unknown form", "training", f"name their prefix instead: {path}"),
        (str(tmp_path / "ids.tsv"), path, "unknown form", "training", "cut -f 2,4"),
    ):
        diagnosis = examine(train, valid)
        finding = only(diagnosis)
        assert (finding.reason, finding.severity, finding.text) == (reason, "error", text)
        assert said in finding.detail
        assert not diagnosis.usable


def test_zeros_in_many_lines_are_an_error(clean: list[Pair], tmp_path: Path) -> None:
    diagnosis = examine(save(tmp_path, [(s.replace(" ", "\0", 1), t) for s, t in clean]))
    assert [(f.reason, f.severity) for f in diagnosis.findings if f.reason == "NUL"] == [("NUL", "error")]


def test_two_sides_that_are_mostly_the_same_are_told_once(clean: list[Pair], tmp_path: Path) -> None:
    other = save(tmp_path, replaced(clean, (3, (clean[3][0], clean[3][0]))), "other")
    same = save(tmp_path, [(s, s) if n % 5 else (s, t) for n, (s, t) in enumerate(clean)], "same")
    diagnosis = examine([other, same])
    found = {f.reason: f for f in diagnosis.findings}
    assert (found["both sides the same"].severity, found["both sides the same"].count) == ("error", 1600)
    assert "same.en and" in found["both sides the same"].detail
    assert places(found["source = target"]) == [("other.en", 4)]
    assert np.count_nonzero(diagnosis.flags & Flag.COPY) > 1500, "cleaning still sees them"


def test_the_form_that_json_must_have_is_told_with_the_languages(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"en": "A sentence.", "fr": "Une phrase."}\n{"eng": "A", "fra": "B"}\n')
    finding = only(examine(str(tmp_path / "t.jsonl")))
    assert '{"en": "…", "fr": "…"}' in finding.detail


@pytest.mark.parametrize("kind", ["prefix", "gz", "tsv", "jsonl"])
def test_several_corpora_in_a_row_in_any_format(kind: str, clean: list[Pair], tmp_path: Path) -> None:
    first = save(tmp_path, replaced(clean[:1000], (7, ("", "x"))), "first")
    second = replaced(clean[1000:], (11, ("a\0b " + clean[1011][0], clean[1011][1])), (500, clean[3]))
    if kind == "tsv":
        (tmp_path / "second.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in second))
        text = str(tmp_path / "second.tsv")
    elif kind == "jsonl":
        rows = (json.dumps({"translation": {"fr": t, "en": s}}) for s, t in second)
        (tmp_path / "second.jsonl").write_text("".join(row + "\n" for row in rows))
        text = str(tmp_path / "second.jsonl")
    else:
        text = save(tmp_path, second, "second")
        for language in ("en", "fr") if kind == "gz" else ():
            plain = tmp_path / f"second.{language}"
            (tmp_path / f"second.{language}.gz").write_bytes(gzip.compress(plain.read_bytes()))
            plain.unlink()
    diagnosis = examine([first, text])
    found = {f.reason: [(Path(e.file).name.split(".")[0], e.line) for e in f.examples] for f in diagnosis.findings}
    assert found == {"empty side": [("first", 8)], "NUL": [("second", 12)], "duplicate pair": [("second", 501)]}
    pairs = list(read_pairs([first, text], "en", "fr"))
    assert len(diagnosis.flags) == len(pairs)
    flagged = {row: int(diagnosis.flags[row]) for row in np.flatnonzero(diagnosis.flags).tolist()}
    assert flagged == {7: Flag.EMPTY, 1011: Flag.CHARACTERS, 1500: Flag.DUPLICATE}
    assert "\0" in pairs[1011][0]
    assert f"{tmp_path / 'first'}.en, line 4" in str(diagnosis.to_dict())


words = st.sampled_from(["a", "B", "b", "c 1", "c 2", "", " "])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(words, words), max_size=40), st.lists(st.tuples(words, words), max_size=5), st.integers(1, 5))
def test_repeats_and_overlaps_are_those_of_a_plain_search(train: list[Pair], valid: list[Pair], partition: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("dragoman.text.repeats.PARTITION", partition)
        diagnosis = examine(save(Path(folder), train), save(Path(folder), valid, "valid") if valid else "")
    exact: set[Pair] = set()
    near: set[tuple[str, ...]] = set()
    held = {(s.strip(), t.strip()) for s, t in valid}
    for (s, t), flags in zip(train, diagnosis.flags.tolist(), strict=True):
        pair = (s.strip(), t.strip())
        whole = all(pair)
        letters = tuple("".join(filter(str.isalpha, side.lower())) for side in pair)
        assert bool(flags & Flag.EMPTY) == (not whole)
        assert bool(flags & Flag.DUPLICATE) == (whole and pair in exact)
        assert bool(flags & Flag.NEAR_DUPLICATE) == (whole and letters in near and pair not in exact)
        assert bool(flags & Flag.OVERLAP) == (whole and pair in held)
        if whole:
            exact.add(pair)
            near.add(letters)


@settings(max_examples=120, deadline=None)
@given(
    st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode)),
    st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode)),
    st.sampled_from(
        [("t.en", "t.fr", "t"), ("t.tsv", "", "t.tsv"), ("t.jsonl", "", "t.jsonl"), ("t.en.gz", "t.fr.gz", "t")]
    ),
)  # fmt: skip
def test_any_bytes_are_examined_or_refused_in_a_sentence(one: bytes, two: bytes, names: tuple[str, str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in zip(filter(None, names[:2]), (one, two), strict=False):
            (Path(folder) / name).write_bytes(data)
        text = str(Path(folder) / names[2])
        try:
            diagnosis = examine_text([text], "en", "fr", [text])
        except DragomanError as error:
            sentence = str(error)
            diagnosis = None
        if not diagnosis:
            assert "\n" not in sentence
            return
        try:
            pairs = len(list(read_pairs([text], "en", "fr")))
        except DragomanError:
            assert not diagnosis.usable
        else:
            assert diagnosis.usable == bool(pairs)
            assert len(diagnosis.flags) == pairs
        assert all(len(line) <= 80 or folder in line for line in diagnosis.describe(80).split("\n"))
        json.dumps(diagnosis.to_dict())


def test_empty_text_and_missing_text(tmp_path: Path) -> None:
    diagnosis = examine(save(tmp_path, []))
    finding = only(diagnosis)
    assert (finding.reason, finding.severity, diagnosis.usable, diagnosis.pairs) == ("no pairs", "error", False, 0)
    with pytest.raises(DragomanError, match="no such file"):
        examine(str(tmp_path / "elsewhere"))


def test_examples_are_as_many_as_asked_for_and_the_first(clean: list[Pair], tmp_path: Path) -> None:
    path = save(tmp_path, [(s + "\a", t) if n % 100 == 0 else (s, t) for n, (s, t) in enumerate(clean)])
    for examples in (0, 2, 50):
        finding = only(examine(path, examples=examples))
        assert finding.count == 20
        assert [line for _, line in places(finding)] == [100 * n + 1 for n in range(min(20, examples))]


def test_progress_is_told_first_without_and_then_with_the_total(clean: list[Pair], tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    examine_text([save(tmp_path, clean)] * 5, "en", "fr", progress=lambda done, total: told.append((done, total)))
    counting = [done for done, total in told if not total]
    looking = [(done, total) for done, total in told if total]
    assert counting == sorted(counting)
    assert counting[-1] == 10_000
    assert looking == sorted(looking)
    assert looking[-1] == (10_000, 10_000)


def test_the_dictionary_has_all_that_the_report_says(clean: list[Pair], tmp_path: Path) -> None:
    content = examine(save(tmp_path, replaced(clean, (PLACE, ("a\0b", ""))))).to_dict()
    assert content["pairs"] == {"training": 2000}
    assert content["usable"] is True
    assert content["flagged"] == {
        "empty": 1, "overlap": 0, "duplicate": 0, "near_duplicate": 0,
        "copy": 0, "ratio": 0, "characters": 1, "language": 0,
    }  # fmt: skip
    (nul,) = (f for f in content["findings"] if f["reason"] == "NUL")
    assert nul["severity"] == "warning"
    assert nul["examples"] == (
        {
            "file": str(tmp_path / "train.en"),
            "line": PLACE + 1,
            "texts": ("a<U+0000>b",),
            "remark": "U+0000 at character 2",
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize(("target", "pairs"), list(product(["de", "fr"], [29_000])))
def test_multi30k_is_clean(target: str, pairs: int) -> None:
    folder = data_at_hand("multi30k/raw")
    diagnosis = examine_text([str(folder / "train")], "en", target, [str(folder / "test_2016_flickr")])
    assert diagnosis.pairs == pairs
    assert [f for f in diagnosis.findings if f.severity != "note"] == []


@pytest.mark.slow
def test_tatoeba_is_clean_although_it_is_sorted_by_length(tmp_path: Path) -> None:
    archive = data_at_hand("tatoeba/fra-eng.zip")
    with zipfile.ZipFile(archive) as files:
        rows = files.read("fra-eng/fra.txt").decode().split("\n")[:-1]
    (tmp_path / "fra.tsv").write_text("".join(f"{row}\tCC-BY\n" for row in rows))
    diagnosis = examine(str(tmp_path / "fra.tsv"))
    assert diagnosis.pairs == len(rows) == 167_130
    assert [f for f in diagnosis.findings if f.severity != "note"] == []


def test_the_phrasebook_that_the_package_ships_is_clean(tmp_path: Path) -> None:
    book = phrasebook()
    paths = [save(tmp_path, pairs, name) for name, pairs in vars(book).items()]
    assert [f for f in examine(*paths).findings if f.severity != "note"] == []


def test_temporary_files_that_find_no_room_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for language in ("en", "de"):
        (tmp_path / f"a.{language}").write_text("A sentence.\n")

    def no_room(descriptor: int, start: int, size: int) -> None:
        assert (start, size) == (0, 2)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", no_room, raising=False)
    with pytest.raises(DragomanError, match=f"^{tempfile.gettempdir()}: .*No space left.*TMPDIR"):
        examine_text([str(tmp_path / "a")], "en", "de")
