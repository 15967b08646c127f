"""What the doctor says of scripts that write otherwise than Latin does is true of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.corpus_check.check import Diagnosis, examine_text


def examine(folder: Path, pairs: list[tuple[str, str]], source: str, target: str) -> Diagnosis:
    for side, language in enumerate((source, target)):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"text.{language}").write_text(text, encoding="utf-8")
    return examine_text([str(folder / "text")], source, target)


@pytest.mark.parametrize(
    ("language", "line"), [("bn", "ব\u09dc বাড়িটি"), ("hi", "\u0958लम मेज़ पर है"), ("el", "5 k\u2126 είναι")]
)
def test_letters_that_normal_form_c_takes_apart_are_not_said_to_be_apart(
    language: str, line: str, tmp_path: Path
) -> None:
    diagnosis = examine(tmp_path, [("It is there.", line)] * 2 + [("Here.", "কো")], "en", language)
    found = {finding.reason: f"{finding.detail} {finding.advice}" for finding in diagnosis.findings}
    (words,) = (words for reason, words in found.items() if "NFC" in reason)
    assert "apart" not in words
    assert "accent" not in words
    assert "the one that NFC replaces" in words or "letters that NFC replaces" in words
