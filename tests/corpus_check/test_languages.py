"""The tables of scripts and frequent words agree with Unicode, with themselves, and with how codes are written."""

from __future__ import annotations

import sys
import unicodedata
from itertools import combinations, pairwise

import numpy as np
import pytest

from dragoman.corpus_check.languages import (
    RIGHT_TO_LEFT,
    SCRIPT_NAMES,
    SCRIPTS,
    function_words,
    related,
    script_table,
    scripts_of,
    words_of,
)
from dragoman.text.languages import base_code

# How Unicode's names of letters begin, by script.
NAMES = {
    "Latn": "LATIN", "Grek": "GREEK", "Cyrl": "CYRILLIC", "Armn": "ARMENIAN", "Hebr": "HEBREW", "Arab": "ARABIC",
    "Deva": "DEVANAGARI", "Beng": "BENGALI", "Thai": "THAI", "Geor": "GEORGIAN", "Hang": "HANGUL", "Hira": "HIRAGANA",
    "Kana": "KATAKANA", "Hani": "CJK UNIFIED", "Ethi": "ETHIOPIC", "Khmr": "KHMER", "Taml": "TAMIL", "Mymr": "MYANMAR",
}  # fmt: skip


def test_scripts_have_names_and_no_letter_in_common() -> None:
    assert set(SCRIPT_NAMES) == set(SCRIPTS)
    assert set(SCRIPTS) >= RIGHT_TO_LEFT
    ranges = sorted(r for ranges in SCRIPTS.values() for r in ranges)
    assert all(first <= last for first, last in ranges)
    assert all(a[1] < b[0] for a, b in pairwise(ranges))


@pytest.mark.parametrize("script", NAMES)
def test_letters_are_in_the_script_that_unicode_names(script: str) -> None:
    number = list(SCRIPTS).index(script) + 1
    letters = [
        code
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code))[0] == "L"
        and unicodedata.name(chr(code), "").startswith(NAMES[script] + " ")
        and "MATHEMATICAL" not in unicodedata.name(chr(code))
    ]
    found = script_table()[letters]
    assert np.mean(found == number) > 0.8  # rare extensions may be missing,
    assert not np.any((found > 0) & (found != number))  # but never are they another script's
    assert np.mean(found[:80] == number) > 0.95


def test_digits_and_punctuation_belong_to_no_script() -> None:
    assert not script_table()[[ord(character) for character in " 0123456789.,;!?«»“”–…×÷€。、！"]].any()


@pytest.mark.parametrize(
    ("code", "scripts"),
    [
        ("en", "Latn"), ("de-AT", "Latn"), ("pt_BR", "Latn"), ("ru", "Cyrl"), ("sr", "Cyrl Latn"), ("sr-Latn", "Latn"),
        ("sr_Cyrl", "Cyrl"), ("zh", "Hani"), ("zh-Hant", "Hani"), ("zh-CN", "Hani"), ("ja", "Hani Hira Kana"),
        ("ko-KR", "Hang Hani"), ("eng_Latn", "Latn"), ("rus", "Cyrl"), ("az-Arab", "Arab"), ("EN", "Latn"), ("xx", ""),
        ("ur", "Arab"), ("am", "Ethi"), ("iu-cans", "Cans"),
    ],
)  # fmt: skip
def test_a_code_says_its_scripts(code: str, scripts: str) -> None:
    assert scripts_of(code) == frozenset(scripts.split())


def test_frequent_words_are_in_their_languages_script() -> None:
    assert len(function_words()) >= 35
    for code, words in function_words().items():
        allowed = {list(SCRIPTS).index(script) + 1 for script in scripts_of(code)}
        assert len(words) >= 15, code
        assert words == {word.lower() for word in words}
        assert all(int(script_table()[ord(char)]) in {*allowed, 0} for word in words for char in word), code


def test_languages_with_many_words_in_common_are_kin() -> None:
    for (one, words), (other, others) in combinations(function_words().items(), 2):
        if len(words & others) > 0.5 * min(len(words), len(others)):
            assert related(one, other), (one, other)
    assert related("en", "en-GB")
    assert related("nb", "da")
    assert not related("en", "de")
    assert not related("fr", "es")


def test_codes_of_three_letters_are_those_of_two() -> None:
    assert (base_code("deu"), base_code("zh-Hant"), base_code("PT_br"), base_code("xyz")) == ("de", "zh", "pt", "xyz")
    assert words_of("deu_Latn") == words_of("de") == function_words()["de"]
    assert words_of("nb") == words_of("no")
    assert words_of("xx") == frozenset()
