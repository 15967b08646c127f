"""The report fits its terminal and says everything that a finding has."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from dragoman.corpus_check.issues import Example, Finding
from dragoman.corpus_check.report import render_report

LONG = Finding(
    "length ratio",
    "warning",
    "training",
    1234,
    0.0321,
    "pairs",
    (
        Example(
            "train.en",
            17,
            ("日本語の文" * 30, "word " * 40),
            "120 against 3 characters, and some more to say about that",
        ),
        Example("train.en", 18, ("a", "b"), "short"),
    ),
    "One sentence of advice that is long enough to be broken into lines, with --clean.ratio in it.",
    "A detail about the whole.",
)
NOTE = Finding("tab", "note", "validation", 1, 0.0001, "lines", (Example("valid.en", 3, ("a<U+0009>b",)),), "Advice.")


@pytest.mark.parametrize("width", [40, 80, 132])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    report = render_report([LONG, NOTE], {"training": 38_000, "validation": 500}, width)
    assert max(map(cell_len, report.split("\n"))) <= width


def test_everything_is_said() -> None:
    lines = render_report([LONG, NOTE], {"training": 38_000, "validation": 500}, 80).split("\n")
    assert lines[0] == "Examined 38,000 training pairs, 500 validation pairs: 1 warning, 1 note."
    assert "WARNING  length ratio: training 1,234 pairs (3.2%)" in lines
    assert "NOTE  tab: validation 1 line (less than 0.1%)" in lines
    assert "    train.en:18  short" in lines
    assert "    valid.en:3" in lines
    assert "      | a<U+0009>b" in lines
    text = " ".join(" ".join(lines).split())
    assert LONG.advice in text
    assert LONG.detail in text
    assert any(line.endswith("…") and "日本語" in line for line in lines)


def test_nothing_to_say_is_said() -> None:
    assert render_report([], {"training": 1}) == "Examined 1 training pair: nothing to complain of."


def test_the_text_is_named_where_there_are_several() -> None:
    assert "NOTE  tab: 1 line" in render_report([NOTE], {"training": 5})


def test_a_share_of_all_is_not_told() -> None:
    whole = Finding("x", "error", "training", 5, 1.0, "pairs", (), "Advice.")
    assert "ERROR  x: 5 pairs\n" in render_report([whole], {"training": 5})
