"""Languages: learned from the corpus itself or known to py3langid, and never judged where nothing is known."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dragoman.corpus_check.blocks import Side, in_blocks
from dragoman.corpus_check.language_id import (
    ENOUGH_LETTERS,
    SCRIPTS,
    LetterModel,
    Sample,
    foreign_language,
    identify,
    known_languages,
    main_scripts,
    profile_side,
    script_table,
    scripts_of,
)
from dragoman.corpus_check.pair_checks import usual_ratio
from dragoman.text.corpus import Corpus, Pair
from tests.texts_at_hand import phrasebook

ENGLISH = "Yesterday the children were playing in the garden with their old dog."
FRENCH = "Hier les enfants jouaient dans le jardin avec leur vieux chien."
GERMAN = "Gestern spielten die Kinder im Garten mit dem alten Hund, und das war schön."
CORPUS = Corpus((Path("a"), Path("b")), ("en", "fr"))


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return phrasebook().train[:4000]


@pytest.fixture(scope="module")
def letters(pairs: list[Pair]) -> LetterModel:
    return LetterModel(sample_of(pairs))


def sample_of(pairs: list[Pair]) -> Sample:
    return Sample(pairs=[(0, source, target) for source, target in pairs])


# ---- samples


def test_a_sample_is_spread_evenly_and_bounded() -> None:
    sample = Sample(size=100)
    lines = [f"{n}" if n % 10 else "" for n in range(50_000)]
    for block in in_blocks(CORPUS, zip(lines, lines, strict=True)):
        sample.add(3, block)
    numbers = [int(source) for _, source, _ in sample.pairs]
    assert 40 <= len(numbers) <= 100
    assert numbers == sorted(set(numbers))
    assert numbers[0] < 2000
    assert numbers[-1] > 48_000
    assert max(np.diff(numbers)) < 2000
    assert {corpus for corpus, _, _ in sample.pairs} == {3}
    assert sample.sides(2)[0].lines == []


def test_a_sample_of_long_lines_keeps_their_beginnings_and_their_ratio() -> None:
    lengths = [(20_000 + 100 * n, 30_000 + 150 * n) for n in range(50)] + [(400, 900), (30, 8_000)]
    written = [tuple(" ".join(map(str, range(length)))[:length] for length in pair) for pair in lengths]
    sample = Sample()
    for block in in_blocks(CORPUS, written):  # type: ignore[arg-type]
        sample.add(0, block)
    assert len(sample.pairs) == len(lengths)
    assert max(len(side) for _, *sides in sample.pairs for side in sides) <= 500
    for (_, *sides), whole, pair in zip(sample.pairs, written, lengths, strict=True):
        assert all(line.startswith(side) for line, side in zip(whole, sides, strict=True))
        assert len(sides[0]) / len(sides[1]) == pytest.approx(pair[0] / pair[1], rel=0.6 if pair[0] < 100 else 0.02)
    assert usual_ratio(sample)[0] == pytest.approx(np.log(2 / 3), abs=0.02)


# ---- the letters of two languages


def test_letters_tell_the_languages_of_a_corpus_apart(letters: LetterModel) -> None:
    assert letters.apart
    lines = [ENGLISH, FRENCH, FRENCH[:18], ""]
    fit = letters.fit(Side(lines))
    assert fit.letters.tolist() == [sum(map(str.isalpha, line)) for line in lines]
    assert fit.letters[2] < ENOUGH_LETTERS
    assert letters.misplaced(fit, 0).tolist() == [False, True, False, False]
    assert letters.misplaced(fit, 1).tolist() == [True, False, False, False]
    assert letters.strange(letters.fit(Side([GERMAN, phrasebook().train[0][0]])), 0).tolist() == [True, False]


def test_no_line_of_the_same_corpus_is_misplaced(letters: LetterModel) -> None:
    for number in range(2):
        fit = letters.fit(Side([pair[number] for pair in phrasebook().train[4000:9000]]))
        assert letters.misplaced(fit, number).sum() == 0
        assert letters.strange(fit, number).mean() < 0.1


def test_many_misplaced_lines_don_t_hide_one_another(pairs: list[Pair]) -> None:
    generator = random.Random(1)
    mixed = [pair[::-1] if generator.random() < 0.4 else pair for pair in pairs]
    letters = LetterModel(sample_of(mixed), distinct=True)
    fit = letters.fit(Side([ENGLISH, FRENCH]))
    assert letters.misplaced(fit, 0).tolist() == [False, True]
    assert letters.misplaced(fit, 1).tolist() == [True, False]


def test_one_language_on_both_sides_and_too_little_text_are_never_judged(pairs: list[Pair]) -> None:
    sources = [source for source, _ in pairs]
    same = list(zip(sources[:2000], sources[2000:], strict=True))
    for sample, lines in ((same, sources), ([(ENGLISH, FRENCH)] * 10, [FRENCH, GERMAN]), ([], [FRENCH])):
        letters = LetterModel(sample_of(sample))
        fit = letters.fit(Side(lines))
        assert not letters.apart
        assert not letters.misplaced(fit, 0).any()
        assert sample is same or not letters.strange(fit, 0).any()


def test_a_frequent_third_language_is_kept_out_of_the_sample(pairs: list[Pair]) -> None:
    mixed = [(source, GERMAN if n % 4 == 0 else target) for n, (source, target) in enumerate(pairs[:800])]
    pure = sample_of(mixed).without_third_language(frozenset({"en", "fr"}))
    assert len(pure.pairs) >= 0.7 * len(mixed)
    assert all(target != GERMAN for _, _, target in pure.pairs)
    clean = sample_of(pairs)
    assert clean.without_third_language(frozenset({"en", "fr"})) is clean


# ---- py3langid


@pytest.mark.parametrize(
    ("line", "language"),
    [
        (GERMAN, "de"),
        (ENGLISH, ""),
        (FRENCH, ""),
        ("Он сказал, что это не так, и мы все пошли на рынок.", "ru"),
        ("Tôi không biết người đó là ai và cũng không muốn biết gì về những người đã đến.", "vi"),
        ("Jemaine de « Flight of the Conchords » enseigne les mathématiques.", ""),
        ("Un chien frisé saupoudré de neige se lèche le nez.", ""),
        ("12 345 678", ""),
        ("", ""),
    ],
)
def test_a_line_in_a_foreign_language_is_recognised(line: str, language: str) -> None:
    assert foreign_language(line, ("en", "fr")) == language


def test_related_languages_are_not_foreign_to_each_other() -> None:
    danish = "Det er ikke den, som jeg har set med en af de andre til en fest."
    assert foreign_language(danish, ("en",)) in ("da", "no", "sv")
    assert foreign_language(danish, ("en", "no")) == ""


def test_whole_sides_are_recognised() -> None:
    for code, text in (("en", ENGLISH), ("fr", FRENCH), ("de", GERMAN)):
        for claimed, unexpected in ((code, ""), ("es", code), ("xx", "")):  # nothing is known of xx
            profile = profile_side(claimed, Side([text] * 20))
            assert (profile.main_language, profile.unexpected_language) == (code, unexpected)
            assert main_scripts(profile.scripts) == {"Latn"}
    few = profile_side("fr", Side([ENGLISH]))
    assert (few.main_language, few.unexpected_language, main_scripts(few.scripts)) == ("", "", frozenset())


SORBIAN = [
    "Wšitcy čłowjekojo su wot naroda swobodni a su jenacy po dostojnosći a prawach.",
    "Woni su z rozumom a swědomjom wobdarjeni a maja so mjez sobu w duchu bratrowstwa wobchadźeć.",
    "Kóždy ma prawo na žiwjenje, na swobodu a wěstosć swojeje wosoby, a nichtó njesmě so mučić.",
]


def test_a_language_that_py3langid_does_not_know_is_not_foreign_to_itself() -> None:
    assert "hsb" not in known_languages()
    profile = profile_side("hsb", Side(SORBIAN * 10))
    assert profile.unexpected_language == ""
    assert not any(foreign_language(line, profile.familiar) for line in SORBIAN)
    assert foreign_language(GERMAN, profile.familiar) == "de"


def test_related_languages_are_confused_and_others_are_not() -> None:
    danish = profile_side("da", Side(["Det er ikke den, som jeg har set med en af de andre til en fest."] * 30))
    assert danish.is_confused("no")
    assert not danish.is_confused("en")
    assert next(iter(identify(ENGLISH))) == "en"


# ---- scripts


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
