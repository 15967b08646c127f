"""What whole corpora show: languages, scripts, the place where two files go apart; and in how few readings."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.corpus_check.check import examine_text
from dragoman.text.corpus import Corpus, Pair
from tests.corpus_check.diagnoses import save
from tests.texts_at_hand import phrasebook

PAIRS = phrasebook().train[:6000]
RUSSIAN = "Где находится ближайшая станция метро?"


def details(*texts: str, codes: tuple[str, str] = ("en", "fr")) -> dict[str, str]:
    return {finding.reason: finding.detail for finding in examine_text(texts, *codes).findings if finding.detail}


def write(folder: Path, codes: tuple[str, str], pairs: list[Pair]) -> str:
    for side, code in enumerate(codes):
        (folder / f"text.{code}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return str(folder / "text")


def turned(pairs: list[Pair]) -> list[Pair]:
    return [(target, source) for source, target in pairs]


def test_one_of_two_corpora_the_wrong_way_round_is_named(tmp_path: Path) -> None:
    good, bad = save(tmp_path, PAIRS[:3000], "good"), save(tmp_path, turned(PAIRS[3000:]), "bad")
    detail = details(good, bad)["text the wrong way round"]
    assert "bad.en" in detail
    assert "good.en" not in detail


def test_sides_in_one_another_s_script_are_the_wrong_way_round(tmp_path: Path) -> None:
    text = write(tmp_path, ("en", "ru"), [(RUSSIAN, source) for source, _ in PAIRS[:300]])
    assert list(details(text, codes=("en", "ru"))) == ["text the wrong way round"]


def test_the_script_of_an_unknown_language_is_learned(tmp_path: Path) -> None:
    pairs = [(source, f"{RUSSIAN} {number}") for number, (source, _) in enumerate(PAIRS[:300])]
    pairs[7] = (pairs[7][0], "This line is in English and was not translated.")
    diagnosis = examine_text([write(tmp_path, ("xx", "yy"), pairs)], "xx", "yy")
    scripts = [finding for finding in diagnosis.findings if "script" in finding.reason]
    assert [(finding.reason, finding.count) for finding in scripts] == [("wrong script", 1)]


def slipping(stretches: int) -> list[Pair]:
    """Stretches of 2,000 lines; every other one lacks a target line at its beginning and has one more at its end."""
    chance = random.Random(1)
    words = [chance.randint(2, 40) for _ in range(2000 * stretches)]
    targets = [f"{n} " + "Wort " * count for n, count in enumerate(words)]
    for start in range(2000, len(words), 4000):
        targets.insert(start + 1999, targets.pop(start))
    return [(f"{n} " + "word " * count, target) for n, (count, target) in enumerate(zip(words, targets, strict=True))]


def test_the_text_is_not_read_once_more_for_every_slip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[int] = []
    read = Corpus.read

    def counted(corpus: Corpus, *callback: Any) -> Iterator[Pair]:
        readings.append(1)
        return read(corpus, *callback)

    monkeypatch.setattr(Corpus, "read", counted)
    found = []
    for stretches in (2, 12):
        text = write(tmp_path, ("en", "de"), slipping(stretches))
        readings.clear()
        diagnosis = examine_text([text], "en", "de")
        (finding,) = [finding for finding in diagnosis.findings if finding.reason == "out of step"]
        found.append((finding.count // 1900, len(finding.examples), len(readings)))
    (few, _, once), (many, shown, again) = found
    assert (few, many, shown) == (1, 6, 3)
    assert once == again
    assert [example.line // 2000 for example in finding.examples] == [1, 3, 5]
