"""The tables are well-formed, and English inflects as grammars say."""

import pytest

from dragoman.text import lexicon
from dragoman.text.lexicon import EnglishNoun, EnglishSubject


def test_words_reads_entries_and_marks() -> None:
    assert lexicon.words("red wine: vin rouge m,\n    shoes: chaussures fp", marked=True) == [
        ("red wine", "vin rouge", "m"),
        ("shoes", "chaussures", "fp"),
    ]
    assert lexicon.words("twice a week: deux fois par semaine") == [("twice a week", "deux fois par semaine", "")]


@pytest.mark.parametrize("table", lexicon.NOUNS.values(), ids=lexicon.NOUNS.keys())
def test_every_noun_has_a_gender(table: str) -> None:
    assert {mark for *_, mark in lexicon.words(table, marked=True)} <= {"m", "f", "mp", "fp"}


@pytest.mark.parametrize(
    "table",
    [*lexicon.NOUNS.values(), *lexicon.ADJECTIVES.values(), *lexicon.VERB_PHRASES.values(), *lexicon.PHRASES.values()],
)
def test_no_table_has_an_english_entry_twice(table: str) -> None:
    english = [entry[0] for entry in lexicon.words(table)]
    assert len(english) == len(set(english))


def test_a_noun_has_one_gender_everywhere() -> None:
    genders: dict[str, set[str]] = {}
    for table in lexicon.NOUNS.values():
        for _, noun, mark in lexicon.words(table, marked=True):
            genders.setdefault(noun, set()).add(mark)
    assert {noun: marks for noun, marks in genders.items() if len(marks) > 1} == {}


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("apple", "apples"),
        ("strawberry", "strawberries"),
        ("key", "keys"),
        ("box", "boxes"),
        ("glass", "glasses"),
        ("bus", "buses"),
        ("sandwich", "sandwiches"),
        ("knife", "knives"),
        ("child", "children"),
        ("potato", "potatoes"),
        ("photo", "photos"),
        ("glass of water", "glasses of water"),
    ],
)
def test_plurals(singular: str, plural: str) -> None:
    assert lexicon.english_plural(singular) == plural


@pytest.mark.parametrize(
    ("verb", "pronoun", "tense", "form"),
    [
        ("be", "I", "present", "am"),
        ("be", "she", "present", "is"),
        ("be", "they", "past", "were"),
        ("have", "he", "present", "has"),
        ("go", "she", "present", "goes"),
        ("do", "he", "present", "does"),
        ("wash", "she", "present", "washes"),
        ("study", "he", "present", "studies"),
        ("play", "he", "present", "plays"),
        ("play", "we", "present", "play"),
        ("can", "he", "present", "can"),
        ("study", "I", "past", "studied"),
        ("arrive", "I", "past", "arrived"),
        ("eat", "we", "past", "ate"),
    ],
)
def test_verbs(verb: str, pronoun: str, tense: str, form: str) -> None:
    assert lexicon.english_verb(verb, pronoun, tense) == form


@pytest.mark.parametrize(
    ("number", "words"),
    [(4, "four"), (12, "twelve"), (20, "twenty"), (21, "twenty-one"), (80, "eighty"), (240, "two hundred and forty")],
)
def test_cardinals(number: int, words: str) -> None:
    assert lexicon.english_cardinal(number) == words


def test_dates() -> None:
    assert lexicon.english_date(1, 5) == "the first of May"
    assert lexicon.english_date(12, 8) == "the twelfth of August"
    assert lexicon.english_date(22, 2) == "the twenty-second of February"
    assert lexicon.english_date(30, 9) == "the thirtieth of September"


def test_clock() -> None:
    assert lexicon.english_clock(3, 0) == "three o'clock"
    assert lexicon.english_clock(12, 0) == "noon"
    assert lexicon.english_clock(8, 30) == "half past eight"
    assert lexicon.english_clock(7, -15) == "a quarter to seven"
    assert lexicon.english_clock(0, 25) == "twenty-five past midnight"


def test_noun_phrases() -> None:
    apple, bread, shoes = EnglishNoun("apple"), EnglishNoun("bread", mass=True), EnglishNoun("shoes", plural=True)
    assert [f"{apple:a red}", f"{apple:some}", f"{apple:s}", f"{apple:the}"] == [
        "a red apple",
        "some apples",
        "apples",
        "the apple",
    ]
    assert [f"{bread:some}", f"{bread:s}", f"{bread:this}"] == ["some bread", "bread", "this bread"]
    assert [f"{shoes:a red}", f"{shoes:this}", f"{shoes:my}"] == ["red shoes", "these shoes", "my shoes"]
    assert [f"{apple:+cost}", f"{shoes:+cost}", f"{apple:s+be}", f"{bread:s+be}"] == ["costs", "cost", "are", "is"]


def test_clauses() -> None:
    he, they, paul = EnglishSubject("he", "he"), EnglishSubject("they", "they"), EnglishSubject("Paul", "he")
    you = EnglishSubject("Marie", "you")
    assert f"{he:like}" == "he likes"
    assert f"{he:not like}" == "he doesn't like"
    assert f"{they:past not go out}" == "they didn't go out"
    assert f"{he:not be}" == "he is not"
    assert f"{he:not can}" == "he cannot"
    assert f"{he:no longer have}" == "he no longer has"
    assert f"{paul:often be}" == "Paul is often"
    assert f"{paul:pro be}" == "he is"
    assert f"{they:ask have}" == "do they have"
    assert f"{he:ask be}" == "is he"
    assert f"{you:ask can}" == "can you"
    assert [f"{you:voc}", f"{paul:him}", f"{they:him}", f"{they:his}"] == ["Marie", "Paul", "them", "their"]


def test_surface() -> None:
    assert lexicon.english_surface("there is a orange on a table") == "There is an orange on a table"
    assert lexicon.english_surface("is there a university near a hotel?") == "Is there a university near a hotel?"
