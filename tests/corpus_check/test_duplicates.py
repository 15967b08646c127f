"""Duplicates: equal and nearly equal pairs have equal hashes, and are found as by a plain search."""

import string
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.corpus_check.blocks import Block, Side
from dragoman.corpus_check.duplicates import contains, find_repeats, hash_pairs, hash_text, letters_of


@given(st.lists(st.integers(0, 33), max_size=60))
def test_repeats_are_those_of_a_plain_search(values: list[int]) -> None:
    expected = [n for n, value in enumerate(values) if value and value in values[:n]]
    assert find_repeats(np.array(values, np.uint64)).tolist() == expected


@given(st.sets(st.integers(0, 50)), st.lists(st.integers(0, 50)))
def test_contains_is_membership(known: set[int], asked: list[int]) -> None:
    found = contains(np.array(sorted({0, *known}), np.uint64), np.array(asked, np.uint64))
    assert found.tolist() == [value > 0 and value in known for value in asked]


@given(
    st.lists(st.text(st.sampled_from(string.printable.replace("\n", "") + "éÉßÄä日本—…«»١٢"), max_size=8), min_size=1)
)
def test_letters_are_those_of_each_line_in_lower_case(lines: list[str]) -> None:
    expected = ["".join(c for c in line.lower() if c.isalpha()) for line in lines]
    assert letters_of(Side(lines)) == expected
    assert letters_of(Side([*lines, "é"]))[:-1] == expected  # not by the fast way for ASCII


PAIRS = [("A cat.", "Eine Katze."), ("a  cat!", "eine KATZE 2"), (" A cat. ", "Eine Katze."), ("", "leer"), ("7", "7")]


def test_keys_are_equal_for_equal_text_and_0_for_what_is_not_compared() -> None:
    keys = {name: found.tolist() for name, found in hash_pairs(Block(0, PAIRS)).items()}
    for name in ("pairs", "sources", "targets"):
        assert keys[name][0] == keys[name][2] != keys[name][1]
    assert keys["letters"][0] == keys["letters"][1] == keys["letters"][2]
    assert keys["letters"][3:] == [0, 0]  # without letters nothing is nearly the same
    assert [keys["pairs"][3], len({*keys["pairs"]})] == [0, 4]


@pytest.mark.parametrize("name", ["pairs", "letters", "sources", "targets"])
def test_keys_are_equal_however_accents_are_written(name: str) -> None:
    pairs = [("Café déjà vu", "naïf été"), ("한국어", "Ελλάδα ά"), ("cafe deja vu", "naif ete")]
    found = []
    for source, target in (("NFC", "NFC"), ("NFD", "NFC"), ("NFC", "NFD"), ("NFD", "NFD")):
        written = [(unicodedata.normalize(source, s), unicodedata.normalize(target, t)) for s, t in pairs]
        found.append(hash_pairs(Block(0, written))[name].tolist())
    assert found == [found[0]] * 4
    assert len({*found[0]}) == 3


def test_held_out_text_is_known_without_its_empty_pairs() -> None:
    held, keys = hash_text([Block(0, PAIRS)]), hash_pairs(Block(0, PAIRS))
    assert contains(held["pairs"], keys["pairs"]).tolist() == [True, True, True, False, True]
    assert contains(held["letters"], keys["letters"]).tolist() == [True, True, True, False, False]
