"""Glossaries: which terms a translation lacks, where they go, and what is left as it was."""

import re
from pathlib import Path

import pytest

from dragoman.config import ConfigError, SearchConfig
from dragoman.inference.alignment import Alignment
from dragoman.inference.glossary import Glossary
from dragoman.inference.translator import EngineName, Translator
from tests.small_models import LINES, small_model

TERMS = {"dog": "Hund", "red dog": "Rotfuchs", "C++": "C++", "meeting": "Versammlung"}


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("A dog!", "Ein Köter!", [(range(1, 2), "Hund")]),
        ("A dog!", "Zwei Hunde!", []),
        ("A dog!", "Eine Hundehütte!", [(range(1, 2), "Hund")]),
        ('A (dog) or "a dog"', "Köter", [(range(1, 2), "Hund"), (range(4, 5), "Hund")]),
        ("A dog!", "Ein Schäferhund!", [(range(1, 2), "Hund")]),
        ("Dog meetings", "Köter treffen sich", [(range(1), "Hund")]),
        ("the old red dog", "der alte Hund", [(range(2, 4), "Rotfuchs")]),
        ("the meeting", "VERSAMMLUNGEN", []),
        ("the meeting", "die Versammlung", []),
        ("I like C++, dog.", "Ich mag das.", [(range(2, 3), "C++"), (range(3, 4), "Hund")]),
        ("dogged, hotdog", "", []),
        ("A RED DOG, MEETING", "EIN ROTFUCHS", [(range(3, 4), "Versammlung")]),
        ("A DOG", "EIN KÖTER", [(range(1, 2), "Hund")]),
        ("A DOG barks", "Ein Köter bellt", []),
    ],
)
def test_terms_are_whole_words_and_may_be_inflected_in_the_translation(
    source: str, translation: str, expected: list[tuple[range, str]]
) -> None:
    assert Glossary(TERMS, "en", "de").missing(source, translation) == expected


def test_vowel_signs_are_parts_of_words() -> None:
    glossary = Glossary({"पान": "betel leaf", "राज": "secret"}, "hi", "en")
    assert glossary.missing("राजा पानी पाता है।", "") == []
    assert [term for _, term in glossary.missing("वह पान। राज", "")] == ["betel leaf", "secret"]


@pytest.mark.parametrize(
    ("source", "target", "links", "expected"),
    [
        ("I see the dog.", "Ich sehe den Köter.", [(0, 0), (1, 1), (3, 2), (3, 3)], "Ich sehe den Hund"),
        ("Dogs see a dog", "Er sieht „Köter“.", [(1, 1), (3, 2)], "Er sieht „Hund"),
        ("A dog in a meeting", "Treffen mit Köter", [(4, 0), (1, 2)], "Versammlung"),
        ("dog meeting", "köter treffen", [(0, 0), (1, 1)], "Hund"),
        ("A dog.", "Ja.", [(0, 0)], ""),
        ("A dog.", "Der Hund.", [(0, 0), (1, 1)], ""),
    ],
)
def test_the_beginning_ends_in_the_first_missing_term_in_place_of_what_is_linked_to_it(
    source: str, target: str, links: list[tuple[int, int]], expected: str
) -> None:
    alignment = Alignment(links, source.split(), target.split())
    assert Glossary(TERMS, "en", "de").beginning(source, alignment) == expected


@pytest.mark.parametrize("engine", ["torch", "ctranslate2"])
def test_terms_come_out_and_other_lines_stay_as_they_are(engine: EngineName, tmp_path: Path) -> None:
    small_model(symbols=True).save(tmp_path)
    plain = Translator.load(tmp_path, "cpu", engine)
    translator = plain.with_glossary({"cat": "Kater", "sees": "erspäht"})
    lines = ["the cat sees {x}", "", "a dog likes a bird", "{{ x y z }} the cat sees", *LINES[:20]]
    before, found = plain.translate(lines), translator.translate(lines, SearchConfig(n_best=2))
    honoured = 0
    for line, old, new in zip(lines, before, found, strict=True):
        lacking = [term for source, term in (("cat", "Kater"), ("sees", "erspäht")) if source in line.split()]
        if lacking:
            words = re.findall(r"\w+", new.text.casefold())
            written = [term.casefold() in words for term in lacking]  # as a whole word
            assert [term in new.lost for term in lacking] == [not found for found in written]
            honoured += sum(written)
        else:
            assert (new.text, new.lost) == (old.text, old.lost)
    assert "{x}" in found[0].text
    assert found[3].text.count("{{ x y z }}") == found[3].text.count("Kater") == 1
    assert honoured >= 3


def test_glossaries_are_for_languages_with_spaces_between_words() -> None:
    with pytest.raises(ConfigError, match="words, which zh is written without"):
        Glossary(TERMS, "en", "zh")
    with pytest.raises(ConfigError, match="words, which en,ja is written without"):
        Glossary(TERMS, "en,ja", "de")
    with pytest.raises(ConfigError, match="a term or its translation is empty"):
        Glossary({"a": " "}, "en", "de")
    assert Glossary({}, "en", "de").missing("a", "b") == []
