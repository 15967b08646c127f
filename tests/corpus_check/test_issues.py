"""Sightings become findings: counted, the first places kept, grave from a certain share on; hidden characters shown."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from dragoman.corpus_check.issues import Example, Tally, excerpt, visible
from dragoman.corpus_check.reasons import COPY, EMPTY, NUL, Reason

PLACES = [Example("a.en", line, ("text",)) for line in range(1, 6)]


def test_a_tally_counts_all_and_keeps_the_first_places() -> None:
    tally = Tally("training", 3)
    tally.count(NUL, 2)
    tally.show(NUL, PLACES[:2])
    assert tally.wanted(NUL) == 1
    tally.count(NUL, 3, "Something about the whole.")
    tally.show(NUL, PLACES[2:])
    (finding,) = tally.findings(50)
    assert (finding.count, finding.share, finding.examples) == (5, 0.1, tuple(PLACES[:3]))
    assert (finding.detail, finding.advice, finding.text) == ("Something about the whole.", NUL.advice, "training")
    assert json.loads(json.dumps(finding.to_dict()))["examples"][0]["line"] == 1


def test_what_was_taken_back_is_not_told() -> None:
    tally = Tally("training", 3)
    tally.count(NUL, 2)
    tally.count(NUL, -2)
    assert tally.findings(10) == []


def test_a_note_becomes_a_warning_from_its_share_on() -> None:
    grave = Reason("r", "note", "a.", grave=0.1)
    for count, severity in ((9, "note"), (10, "warning")):
        tally = Tally("training", 0)
        tally.count(grave, count)
        assert [finding.severity for finding in tally.findings(100)] == [severity]
    assert 0 < COPY.grave < EMPTY.grave < 1
    assert Reason("r", "note", "a.").grave > 1  # never


def test_details_are_as_few_as_examples() -> None:
    tally = Tally("training", 2)
    for number in range(4):
        tally.count(NUL, 1, f"Detail {number}.")
    assert tally.findings(10)[0].detail == "Detail 0. Detail 1. …"


@given(st.text())
def test_nothing_hidden_stays_hidden(text: str) -> None:
    shown = visible(text)
    assert not any(char in shown for char in "\0\r\n\x1b\x85\u2028\u200b\u202e\ufeff\ue000")
    if text.isprintable():
        assert shown == text


def test_hidden_characters_are_spelt() -> None:
    assert visible("a\0b\u2028c\u00add é 日本 \U0001f408") == "a<U+0000>b<U+2028>c<U+00AD>d é 日本 \U0001f408"


def test_an_excerpt_shows_the_place() -> None:
    line = "x" * 500 + "\0" + "y" * 500
    assert "<U+0000>" in excerpt(line, 500)
    assert "<U+0000>" not in excerpt(line)
    assert excerpt(line, 500).startswith("…x")
    assert excerpt(line).endswith("x…")
    assert len(excerpt(line)) < 200
    assert excerpt("short") == "short"
