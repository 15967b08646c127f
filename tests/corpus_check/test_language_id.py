"""Recognition learns from the corpus itself, tells two languages apart, and keeps silent where it can't."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from dragoman.corpus_check.blocks import Side, read_blocks
from dragoman.corpus_check.language_id import ENOUGH_LETTERS, Letters, Sample, SideStatistics, foreign_language
from dragoman.corpus_check.pair_checks import usual_ratio
from dragoman.text.corpus import Corpus
from tests.texts_at_hand import phrasebook

ENGLISH = "Yesterday the children were playing in the garden with their old dog."
FRENCH = "Hier les enfants jouaient dans le jardin avec leur vieux chien."
GERMAN = "Gestern spielten die Kinder im Garten mit dem alten Hund, und das war schön."


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return phrasebook().train[:4000]


def sample_of(pairs: list[tuple[str, str]]) -> Sample:
    return Sample(pairs=[(0, source, target) for source, target in pairs])


def block_of(folder: Path, count: int) -> Corpus:
    paths = (folder / "a", folder / "b")
    for path in paths:
        path.write_text("".join(f"{n}\n" if n % 10 else "\n" for n in range(count)))
    return Corpus(paths, ("a", "b"))


@pytest.mark.parametrize("block_size", [7, 100, 4096])
def test_a_sample_is_spread_evenly_and_bounded(block_size: int, tmp_path: Path) -> None:
    sample = Sample(size=100)
    for block in read_blocks(block_of(tmp_path, 5000), block_size):
        sample.add(3, block)
    numbers = [int(source) for _, source, _ in sample.pairs]
    assert 40 <= len(numbers) <= 100
    assert numbers == sorted(set(numbers))
    assert all(number % 10 for number in numbers)  # empty lines are no use
    assert numbers[0] < 200
    assert numbers[-1] > 4800
    assert max(np.diff(numbers)) < 200
    assert {corpus for corpus, _, _ in sample.pairs} == {3}
    assert list(sample.sides(2)) == []


def test_a_sample_of_long_lines_keeps_their_beginnings_and_their_ratio(tmp_path: Path) -> None:
    paths = (tmp_path / "a", tmp_path / "b")
    lengths = [(20_000 + 100 * n, 30_000 + 150 * n) for n in range(50)] + [(400, 900), (30, 8_000)]
    for side, path in enumerate(paths):
        lines = (" ".join(map(str, range(pair[side])))[: pair[side]] for pair in lengths)
        path.write_text("".join(f"{line}\n" for line in lines))
    corpus = Corpus(paths, ("a", "b"))
    sample = Sample()
    for block in read_blocks(corpus):
        sample.add(0, block)
    assert len(sample.pairs) == len(lengths)
    assert max(len(side) for _, *sides in sample.pairs for side in sides) <= 1000
    for (_, *sides), whole, pair in zip(sample.pairs, corpus.read(), lengths, strict=True):
        assert [line.startswith(side) for line, side in zip(whole, sides, strict=True)] == [True, True]
        assert len(sides[0]) / len(sides[1]) == pytest.approx(pair[0] / pair[1], rel=0.25 if pair[0] < 100 else 0.01)
    assert usual_ratio(sample)[0] == pytest.approx(np.log(2 / 3), abs=0.01)


def test_letters_tell_the_languages_of_a_corpus_apart(pairs: list[tuple[str, str]]) -> None:
    letters = Letters(sample_of(pairs))
    assert letters.apart
    scores = letters.score(Side([ENGLISH, FRENCH, "short one", ""]))
    assert scores.letters.tolist() == [sum(map(str.isalpha, text)) for text in (ENGLISH, FRENCH, "short one", "")]
    assert letters.misplaced(scores, 0).tolist() == [False, True, False, False]
    assert letters.misplaced(scores, 1).tolist() == [True, False, False, False]
    strange = letters.estranged(letters.score(Side([GERMAN, pairs[0][0]])), 0)
    assert strange.tolist() == [True, False]


def test_hardly_any_line_of_its_own_corpus_is_misplaced(pairs: list[tuple[str, str]]) -> None:
    letters = Letters(sample_of(pairs))
    for number in range(2):
        scores = letters.score(Side([pair[number] for pair in phrasebook().train[4000:9000]]))
        assert letters.misplaced(scores, number).sum() == 0
        assert letters.estranged(scores, number).mean() < 0.1


def test_many_misplaced_lines_don_t_hide_one_another(pairs: list[tuple[str, str]]) -> None:
    generator = random.Random(1)
    mixed = [pair[::-1] if generator.random() < 0.4 else pair for pair in pairs]
    letters = Letters(sample_of(mixed), distinct=True)
    scores = letters.score(Side([ENGLISH, FRENCH]))
    assert letters.misplaced(scores, 0).tolist() == [False, True]
    assert letters.misplaced(scores, 1).tolist() == [True, False]


def test_one_language_on_both_sides_is_never_judged(pairs: list[tuple[str, str]]) -> None:
    sources = [source for source, _ in pairs]
    letters = Letters(sample_of(list(zip(sources[:2000], sources[2000:], strict=True))))
    assert not letters.apart
    scores = letters.score(Side(sources))
    assert not letters.misplaced(scores, 0).any()
    assert not letters.misplaced(scores, 1).any()


def test_too_little_text_is_never_judged() -> None:
    letters = Letters(sample_of([(ENGLISH, FRENCH)] * 10))
    assert not letters.misplaced(letters.score(Side([FRENCH])), 0).any()
    assert not letters.estranged(letters.score(Side([GERMAN])), 0).any()


def test_a_third_language_that_is_frequent_is_kept_out_of_the_sample(pairs: list[tuple[str, str]]) -> None:
    mixed = [(source, GERMAN if n % 4 == 0 else target) for n, (source, target) in enumerate(pairs)]
    pure = sample_of(mixed).purified(("en", "fr"))
    assert len(pure.pairs) >= 0.7 * len(mixed)
    assert all(target != GERMAN for _, _, target in pure.pairs)
    clean = sample_of(pairs)
    assert clean.purified(("en", "fr")) is clean


def test_whole_sides_are_recognised_by_their_words() -> None:
    for code, text in (("en", ENGLISH), ("fr", FRENCH), ("de", GERMAN)):
        statistics = SideStatistics()
        statistics.add(Side([text] * 20))
        assert statistics.likeliest() == code
        assert statistics.language(code) == ""
        assert statistics.language("es") == code
        assert statistics.language("xx") == ""  # nothing is known of it
        assert statistics.main_scripts() == {"Latn"}
    few = SideStatistics()
    few.add(Side([ENGLISH]))
    assert few.language("fr") == ""
    assert few.main_scripts() == frozenset()


@pytest.mark.parametrize(
    ("line", "language"),
    [
        (GERMAN, "de"),
        (ENGLISH, ""),
        (FRENCH, ""),
        ("Он сказал, что это не так, и мы все пошли на рынок.", "ru"),
        ("Jemaine de « Flight of the Conchords » enseigne les mathématiques.", ""),
        ("Un chien frisé saupoudré de neige se lèche le nez.", ""),
        ("Anna Maria Schmidt, Hans Meier und Co.", ""),
        ("12 345 678", ""),
        ("Anna Berta Carla Dora Emma Frieda Gerda und Hanna Ida Jana Klara das ist Lena Marta Nora", ""),
        ("The house and the garden: der die und", ""),
        ("", ""),
    ],
)
def test_frequent_words_speak_for_a_foreign_language(line: str, language: str) -> None:
    assert foreign_language(line, ("en", "fr")) == language


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("Tôi không biết người đó là ai và cũng không muốn biết gì về những người đã đến.", "vi"),
        ("में भी कि ने हैं तो", "hi"),  # without their vowel signs, these are no words
    ],
)
def test_words_are_the_same_however_their_accents_are_written(line: str, language: str, form: str) -> None:
    text = unicodedata.normalize(form, line)
    assert foreign_language(text, ("en", "fr")) == language
    statistics = SideStatistics()
    statistics.add(Side([text] * 50))
    assert (statistics.likeliest(), statistics.total) == (language, 50 * len(line.split()))


def test_kin_of_a_language_is_not_foreign_to_it() -> None:
    danish = "Det er ikke den, som jeg har set med en af de andre til en fest."
    assert foreign_language(danish, ("en",)) in ("da", "no", "sv")
    assert foreign_language(danish, ("en", "nb")) == ""


def test_lines_of_few_letters_are_not_judged(pairs: list[tuple[str, str]]) -> None:
    letters = Letters(sample_of(pairs))
    short = FRENCH[:18]
    assert sum(map(str.isalpha, short)) < ENOUGH_LETTERS
    assert not letters.misplaced(letters.score(Side([short])), 0).any()
