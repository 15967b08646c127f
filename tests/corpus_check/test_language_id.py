"""Languages: learned from the corpus itself or known to py3langid, and never judged where nothing is known."""

import random

import numpy as np
import pytest

from dragoman.corpus_check.blocks import Sample, Side, in_blocks
from dragoman.corpus_check.language_id import (
    SCRIPTS,
    LetterModel,
    Profile,
    foreign_language,
    known_languages,
    script_table,
    scripts_of,
)
from dragoman.text.corpus import Pair
from tests.texts_at_hand import phrasebook

ENGLISH = "Yesterday the children were playing in the garden with their old dog."
FRENCH = "Hier les enfants jouaient dans le jardin avec leur vieux chien."
GERMAN = "Gestern spielten die Kinder im Garten mit dem alten Hund, und das war schön."
FAMILIAR = ({"en"}, {"fr"})


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return phrasebook().train[:4000]


@pytest.fixture(scope="module")
def letters(pairs: list[Pair]) -> LetterModel:
    return LetterModel(pairs, FAMILIAR)


def judge(letters: LetterModel, lines: list[str], side: int) -> list[str]:
    """What each line seems to be."""
    misplaced, strange = letters.judge(Side(lines), side)
    return ["other" if m else "third" if s else "" for m, s in zip(misplaced, strange, strict=True)]


# ---- samples


def test_a_sample_is_spread_evenly_and_bounded() -> None:
    sample = Sample(size=100)
    lines = [f"{n}" if n % 10 else "" for n in range(50_000)]
    for block in in_blocks(zip(lines, lines, strict=True)):
        sample.add(3, block)
    numbers = [int(source) for source, _ in sample.pairs(3)]
    assert 40 <= len(numbers) <= 100
    assert numbers[0] < 2000
    assert numbers[-1] > 48_000
    assert 0 < min(np.diff(numbers)) <= max(np.diff(numbers)) < 2000
    assert (sample.pairs(2), sample.pairs()) == ([], sample.pairs(3))


def test_a_sample_of_long_lines_keeps_their_beginnings_and_their_ratio() -> None:
    lengths = [(20_000 + 100 * n, 30_000 + 150 * n) for n in range(50)] + [(400, 900), (30, 8_000)]
    written = [(" ".join(map(str, range(one)))[:one], " ".join(map(str, range(two)))[:two]) for one, two in lengths]
    sample = Sample()
    for block in in_blocks(written):
        sample.add(0, block)
    for sampled, whole in zip(sample.pairs(), written, strict=True):
        assert max(map(len, sampled)) <= 500
        assert all(line.startswith(side) for line, side in zip(whole, sampled, strict=True))
        assert len(sampled[0]) / len(sampled[1]) == pytest.approx(len(whole[0]) / len(whole[1]), abs=0.01)


# ---- the letters of two languages


def test_letters_tell_the_languages_of_a_corpus_apart(letters: LetterModel) -> None:
    assert judge(letters, [ENGLISH, FRENCH, FRENCH[:18], GERMAN, ""], 0) == ["", "other", "", "third", ""]
    assert judge(letters, [ENGLISH, FRENCH, ENGLISH[:18]], 1) == ["other", "", ""]


def test_no_line_of_the_same_corpus_is_misplaced(letters: LetterModel) -> None:
    for number in range(2):
        found = judge(letters, [pair[number] for pair in phrasebook().train[4000:9000]], number)
        assert found.count("other") == 0
        assert found.count("third") < 0.1 * len(found)


def test_many_lines_in_other_languages_don_t_hide_one_another(pairs: list[Pair]) -> None:
    generator = random.Random(1)
    swapped = [pair[::-1] if generator.random() < 0.4 else pair for pair in pairs]
    third = [(source, GERMAN if n % 4 == 0 else target) for n, (source, target) in enumerate(pairs)]
    for mixed in (swapped, third):
        letters = LetterModel(mixed, FAMILIAR)
        assert judge(letters, [ENGLISH, FRENCH, GERMAN], 0) == ["", "other", "third"]


def test_one_language_on_both_sides_and_too_little_text_are_never_judged(pairs: list[Pair]) -> None:
    sources = [source for source, _ in pairs]
    same = list(zip(sources[:2000], sources[2000:], strict=True))
    assert "other" not in judge(LetterModel(same, FAMILIAR), sources, 0)
    for few in ([(ENGLISH, FRENCH)] * 10, []):
        assert judge(LetterModel(few, FAMILIAR), [FRENCH, GERMAN], 0) == ["", ""]


# ---- py3langid


@pytest.mark.parametrize(
    ("line", "language"),
    [
        (GERMAN, "de"),
        (ENGLISH, ""),
        (FRENCH, ""),
        ("Он сказал, что это не так, и мы все пошли на рынок.", "ru"),
        ("Jemaine de « Flight of the Conchords » enseigne les mathématiques.", ""),
        ("12 345 678", ""),
        ("", ""),
    ],
)
def test_a_line_in_a_foreign_language_is_recognised(line: str, language: str) -> None:
    assert foreign_language(line, ("en", "fr")) == language


def test_whole_sides_are_recognised() -> None:
    for code, text in (("en", ENGLISH), ("fr", FRENCH), ("de", GERMAN)):
        for claimed, unexpected in ((code, ""), ("es", code), ("xx", "")):  # nothing is known of xx
            profile = Profile(claimed, Side([text] * 20))
            assert code in profile.familiar
            assert (profile.unexpected_language, profile.scripts) == (unexpected, {"Latn"})
    few = Profile("fr", Side([ENGLISH]))
    assert (few.unexpected_language, few.scripts) == ("", frozenset())


SORBIAN = [
    "Wšitcy čłowjekojo su wot naroda swobodni a su jenacy po dostojnosći a prawach.",
    "Woni su z rozumom a swědomjom wobdarjeni a maja so mjez sobu w duchu bratrowstwa wobchadźeć.",
    "Kóždy ma prawo na žiwjenje, na swobodu a wěstosć swojeje wosoby, a nichtó njesmě so mučić.",
]


def test_a_language_that_py3langid_does_not_know_is_not_foreign_to_itself() -> None:
    assert "hsb" not in known_languages()
    profile = Profile("hsb", Side(SORBIAN * 10))
    assert profile.unexpected_language == ""
    assert not any(foreign_language(line, profile.familiar) for line in SORBIAN)
    assert foreign_language(GERMAN, profile.familiar) == "de"


def test_related_languages_are_not_foreign_to_each_other() -> None:
    danish = "Det er ikke den, som jeg har set med en af de andre til en fest."
    familiar = Profile("da", Side([danish] * 30)).familiar
    assert "no" in familiar
    assert "en" not in familiar
    assert foreign_language(danish, ("en",)) in ("da", "no", "sv")
    assert foreign_language(danish, ("en", "no")) == ""


# ---- scripts


@pytest.mark.parametrize(
    ("code", "scripts"),
    [
        ("en", "Latn"), ("pt_BR", "Latn"), ("ru", "Cyrl"), ("sr", "Cyrl Latn"), ("sr-Latn", "Latn"), ("rus", "Cyrl"),
        ("sr_Cyrl", "Cyrl"), ("zh-Hant", "Hani"), ("zh-CN", "Hani"), ("ja", "Hani Hira Kana"), ("ko-KR", "Hang Hani"),
        ("eng_Latn", "Latn"), ("az-Arab", "Arab"), ("EN", "Latn"), ("xx", ""), ("am", "Ethi"), ("iu-cans", "Cans"),
    ],
)  # fmt: skip
def test_a_code_says_its_scripts(code: str, scripts: str) -> None:
    assert scripts_of(code) == frozenset(scripts.split())


def test_letters_belong_to_their_script_and_other_characters_to_none() -> None:
    for text, script in (
        ("aÉßﬁ", "Latn"),
        ("Жђ", "Cyrl"),
        ("कि", "Deva"),
        ("日", "Hani"),
        ("ひ", "Hira"),
        ("한", "Hang"),
    ):
        assert {SCRIPTS[number - 1] for number in script_table()[[ord(c) for c in text]].tolist()} == {script}
    assert not script_table()[[ord(character) for character in " 0123456789.,;!?«»“”–…×÷€。、！१"]].any()
