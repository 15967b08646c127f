"""check, as a user calls it; download and split are tested with the datasets."""

import json
from pathlib import Path

import pytest

from tests.command_calls import complaint, run

LANGUAGES = ("--source", "en", "--target", "de")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two files; the fourth line has a NUL, the second is empty on one side."""
    (tmp_path / "t.en").write_bytes(b"A cat sleeps.\n\nA dog barks.\nA \0 bird sings.\n")
    (tmp_path / "t.de").write_bytes("Eine Katze schläft.\nLeer.\nEin Hund bellt.\nEin Vogel singt.\n".encode())
    return tmp_path / "t"


def test_check_reports_what_is_wrong_and_where(corpus: Path, tmp_path: Path) -> None:
    report = tmp_path / "made" / "report.json"
    result = run("check", *LANGUAGES, "--train", corpus, "--json", report)
    assert (result.code, result.err.endswith(f"wrote {report}\n")) == (1, True)
    assert f"{corpus}.en:4" in result.out
    assert "A <U+0000> bird sings." in result.out
    assert "\x1b" not in result.out
    content = json.loads(report.read_text(encoding="utf-8"))
    lines = {found["reason"]: [example["line"] for example in found["examples"]] for found in content["findings"]}
    assert lines == {"NUL": [4], "empty side": [2]}
    assert ".en:4" not in run("check", *LANGUAGES, "--train", corpus, "--examples", 0).out


def test_check_passes_text_without_errors(corpus: Path) -> None:
    for path in corpus.parent.glob("t.*"):
        path.write_bytes((path.read_bytes().replace(b"\0", b"") + b"\n") * 20 + b"A tab\t\n")
    result = run("check", *LANGUAGES, "--train", corpus)
    assert (result.code, "NOTE  tab" in result.out) == (0, True)
    assert result.err.endswith(f"next:\n  dragoman train {' '.join(LANGUAGES)} --train {corpus} --out models/en-de\n")


def test_check_looks_for_held_out_text(corpus: Path) -> None:
    shown = run("check", *LANGUAGES, "--train", corpus, "--valid", corpus, "--test", corpus).out
    assert "also in held-out text: training 3 pairs" in shown
    assert "in the validation and test text" in shown


def test_check_of_empty_and_of_missing_text_fails(corpus: Path) -> None:
    for language in ("en", "de"):
        Path(f"{corpus}.{language}").write_text("")
    result = run("check", *LANGUAGES, "--train", corpus)
    assert (result.code, "ERROR  no pairs" in result.out) == (1, True)
    assert "no such file" in complaint(1, "check", *LANGUAGES, "--train", "nothing")
