"""The table of issues is sound; a tally becomes findings, and a report that fits its terminal and hides nothing."""

import json
import re
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dragoman.config import CleaningConfig, TextConfig
from dragoman.corpus_check.issues import CLEANING, ISSUES, Example, Finding, Flag, Tally, excerpt, render_report

PLACES = [Example("a.en", line, ("text",)) for line in range(1, 6)]


@pytest.mark.parametrize("kind", ISSUES)
def test_advice_is_a_sentence_and_names_options_that_exist(kind: str) -> None:
    advice = Finding(kind, "training").advice
    assert advice.endswith(".")
    assert not advice.endswith("..")
    groups = {"clean": CleaningConfig, "text": TextConfig}
    for group, name in re.findall(r"--(\w+)\.([\w-]+)", advice):
        assert name.replace("-", "_") in {field.name for field in fields(groups[group])}
    named = re.findall(r"--clean\.[\w-]+", advice)
    assert len(named) == (ISSUES[kind].flag in CLEANING and ISSUES[kind].flag != Flag.OVERLAP)  # the default
    assert "--clean." not in Finding(kind, "validation").advice


def test_every_flag_has_an_issue_and_a_bit_of_a_uint16() -> None:
    assert {issue.flag for issue in ISSUES.values()} >= {*CLEANING, Flag.EMPTY}
    assert [int(flag) for flag in Flag] == [1 << bit for bit in range(len(Flag))]
    assert int(np.uint16(sum(Flag))) == sum(Flag)


def test_issues_that_stop_training_are_errors() -> None:
    assert all(issue.severity == "error" for issue in ISSUES.values() if issue.unreadable)


def test_a_tally_counts_all_and_keeps_the_first_examples() -> None:
    tally = Tally("training", 3)
    tally.add("NUL", 2, examples=PLACES[:2])
    tally.add("NUL", 3, "Something about the whole.", PLACES[2:])
    finding = tally["NUL"]
    finding.pairs = 50
    assert json.loads(json.dumps(finding.to_dict())) == {
        "reason": "NUL", "severity": "error", "text": "training", "count": 5, "share": 0.1, "unit": "lines",
        "advice": finding.advice, "detail": "Something about the whole.",
        "examples": [{"file": "a.en", "line": n, "texts": ["text"], "remark": ""} for n in (1, 2, 3)],
    }  # fmt: skip
    for number in range(4):
        tally.add("tab", 1, f"Detail {number}.")
    assert tally["tab"].detail == "Detail 0. Detail 1. Detail 2. …"


def test_a_note_becomes_a_warning_from_its_share_on() -> None:
    for count, severity in ((9, "note"), (10, "warning")):
        assert Finding("duplicate pair", "training", 100, count).severity == severity


@given(st.text(max_size=100))
def test_nothing_hidden_stays_hidden(text: str) -> None:
    shown = excerpt(text)
    assert not any(char in shown for char in "\0\r\n\x1b\x85\u2028\u200b\u202e\ufeff\ue000")
    if text.isprintable():
        assert shown == text


def test_an_excerpt_shows_the_place_and_spells_what_is_hidden() -> None:
    line = "x" * 500 + "\0" + "y" * 500
    assert "<U+0000>" in excerpt(line, 500)
    assert "<U+0000>" not in excerpt(line)
    assert excerpt(line, 500).startswith("…x")
    assert excerpt(line).endswith("x…")
    assert len(excerpt(line)) < 200
    assert excerpt("a\0b\u2028c\u00add é 日本 \U0001f408") == "a<U+0000>b<U+2028>c<U+00AD>d é 日本 \U0001f408"


# ---- the report

REMARK = "120 against 3 characters, and some more to say about that"
LONG = Finding(
    "length ratio",
    "training",
    38_000,
    1234,
    [Example("train.en", 17, ("日本語の文" * 30, "word " * 40), REMARK), Example("train.en", 18, ("a", "b"), "short")],
    ["A detail about the whole that is long enough to be broken into lines, with --clean.ratio in it."],
)
NOTE = Finding("tab", "validation", 5000, 1, [Example("valid.en", 3, ("a<U+0009>b",))])


@pytest.mark.parametrize("width", [40, 80, 132])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    report = render_report([LONG, NOTE], {"training": 38_000, "validation": 500}, width)
    assert max(cell_len(line) for line in report.split("\n") if ".en:" not in line) <= width


def test_the_report_has_all_that_a_finding_says() -> None:
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
    assert REMARK in text
    assert any(line.endswith("…") and "日本語" in line for line in lines)


def test_a_report_without_findings() -> None:
    assert render_report([], {"training": 1}) == "Examined 1 training pair: no issues found."
