"""The corpus doctor: every planted fault is found in its place and nothing else; clean text is left in peace."""

import os
import random
import tempfile
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.corpus_check.check import examine_text
from dragoman.corpus_check.issues import Flag
from dragoman.text.corpus import Pair
from tests.corpus_check.diagnoses import PLACE, examine, only, places, replaced, save
from tests.texts_at_hand import data_at_hand, phrasebook

GERMAN = "Der Mann ist mit dem Hund und der Frau auf die Straße gegangen, und das ist nicht gut für sie."
LONG_ENGLISH = "This is the line that was left in English, and nobody has noticed it so far."
LONG_FRENCH = "Voici la phrase qui est restée en français, et personne ne s'en est aperçu jusqu'ici."


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


def test_every_planted_fault_is_found_in_its_place_and_nothing_else(clean: list[Pair], tmp_path: Path) -> None:
    rows = {100 + 40 * number: FAULTS[name] for number, name in enumerate(FAULTS)}
    planted = replaced(clean, *((row, change(clean[row])) for row, (change, *_) in rows.items()))
    diagnosis = examine(save(tmp_path, planted), examples=50)
    places_of = {finding.reason: zip(places(finding), finding.examples, strict=True) for finding in diagnosis.findings}
    found = {(reason, *place): len(e.texts) for reason, examples in places_of.items() for place, e in examples}
    expected = {(reason, "train.fr" if side == 1 else "train.en", row + 1): 2 if side is None else 1
                for row, (_, reason, side, _) in rows.items()}  # fmt: skip
    assert found == expected
    assert sum(finding.count for finding in diagnosis.findings) == len(FAULTS)
    flagged = {row: Flag(int(diagnosis.flags[row])) for row in np.flatnonzero(diagnosis.flags).tolist()}
    assert flagged == {row: flag for row, (*_, flag) in rows.items() if flag}


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


def test_two_sides_that_are_mostly_the_same_are_told_once(clean: list[Pair], tmp_path: Path) -> None:
    other = save(tmp_path, replaced(clean, (3, (clean[3][0], clean[3][0]))), "other")
    same = save(tmp_path, [(s, s) if n % 5 else (s, t) for n, (s, t) in enumerate(clean)], "same")
    diagnosis = examine([other, same])
    found = {f.reason: f for f in diagnosis.findings}
    assert (found["both sides the same"].severity, found["both sides the same"].count) == ("error", 1600)
    assert "same.en and" in found["both sides the same"].detail
    assert places(found["source = target"]) == [("other.en", 4)]
    assert np.count_nonzero(diagnosis.flags & Flag.COPY) > 1500, "cleaning still sees them"


words = st.sampled_from(["a", "B", "b", "c 1", "c 2", "", " "])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(words, words), max_size=40), st.lists(st.tuples(words, words), max_size=5))
def test_repeats_and_overlaps_are_those_of_a_plain_search(train: list[Pair], valid: list[Pair]) -> None:
    with tempfile.TemporaryDirectory() as folder:
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


def test_examples_are_as_many_as_asked_for_and_the_first(clean: list[Pair], tmp_path: Path) -> None:
    path = save(tmp_path, [(s + "\a", t) if n % 100 == 0 else (s, t) for n, (s, t) in enumerate(clean)])
    for examples in (0, 2, 50):
        finding = only(examine(path, examples=examples))
        assert finding.count == 20
        assert [line for _, line in places(finding)] == [100 * n + 1 for n in range(min(20, examples))]


def test_progress_is_told_first_without_and_then_with_the_total(clean: list[Pair], tmp_path: Path) -> None:
    told: list[str] = []
    examine_text([save(tmp_path, clean)] * 5, "en", "fr", report=told.append)
    assert told == [
        *(f"counted {2000 * n:,} pairs of the training text" for n in range(1, 6)),
        *(f"examined {2000 * n:,} of 10,000 pairs of the training text" for n in range(1, 6)),
    ]


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
    assert nul["examples"] == [
        {
            "file": str(tmp_path / "train.en"),
            "line": PLACE + 1,
            "texts": ("a<U+0000>b",),
            "remark": "U+0000 at character 2",
        }
    ]


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
    book = book._replace(test=book.test + book.everyday)
    paths = [save(tmp_path, getattr(book, name), name) for name in ("train", "valid", "test")]
    assert [f for f in examine(*paths).findings if f.severity != "note"] == []
