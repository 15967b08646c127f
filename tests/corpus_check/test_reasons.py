"""The reasons: stable names, one sentence of advice that names options which exist, flags that fit their array."""

from __future__ import annotations

import re
from dataclasses import fields

import numpy as np
import pytest

from dragoman.config import CleaningConfig, TextConfig
from dragoman.corpus_check import reasons
from dragoman.corpus_check.reasons import UNREADABLE, Flag, Reason

ALL = [value for value in vars(reasons).values() if isinstance(value, Reason)]


def test_names_are_different_and_plain() -> None:
    assert len({reason.name for reason in ALL}) == len(ALL) > 30
    assert all(re.fullmatch(r"[A-Za-z0-9 =-]+", reason.name) for reason in ALL)


@pytest.mark.parametrize("reason", ALL, ids=lambda reason: reason.name)
def test_advice_is_one_sentence_about_options_that_exist(reason: Reason) -> None:
    assert reason.advice.endswith((".", ")."))
    assert ". " not in reason.advice
    groups = {"clean": CleaningConfig, "text": TextConfig}
    for group, name in re.findall(r"--(\w+)\.([\w-]+)", reason.advice):
        assert name.replace("-", "_") in {field.name for field in fields(groups[group])}


def test_cleaning_options_are_advised_for_what_they_act_on() -> None:
    options = {
        Flag.OVERLAP: "overlap",
        Flag.DUPLICATE: "duplicates",
        Flag.NEAR_DUPLICATE: "near-duplicates",
        Flag.COPY: "copies",
        Flag.RATIO: "ratio",
        Flag.CHARACTERS: "characters",
        Flag.LANGUAGE: "language",
    }
    for reason in ALL:
        named = re.findall(r"--clean\.([\w-]+)", reason.advice)
        assert named == ([options[reason.flag]] if reason.flag in options else []), reason.name
    assert {reason.flag for reason in ALL} >= {*options, Flag.EMPTY}


def test_flags_are_single_bits_of_a_uint16() -> None:
    assert [int(flag) for flag in Flag] == [1 << bit for bit in range(len(Flag))]
    assert int(np.uint16(sum(Flag))) == sum(Flag)


def test_training_stops_at_errors_of_reading() -> None:
    errors = {reason.name for reason in ALL if reason.severity == "error"}
    assert errors >= UNREADABLE
    assert all("Training stops" in r.advice or r.name == "no pairs" for r in ALL if r.name in UNREADABLE)
