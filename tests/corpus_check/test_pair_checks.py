"""Looking at single pairs: copies, lengths, scripts and languages, judged by what is usual."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.corpus_check.blocks import Block
from dragoman.corpus_check.issues import Sighting
from dragoman.corpus_check.language_id import LetterModel, Sample
from dragoman.corpus_check.pair_checks import (
    Usual,
    find_copies,
    find_empty,
    find_languages,
    find_lengths,
    is_sentence,
    usual_ratio,
)
from dragoman.text.corpus import Corpus
from tests.texts_at_hand import phrasebook

Pairs = list[tuple[str, str]]
LATIN, HAN = frozenset({"Latn"}), frozenset({"Hani"})


def block_of(pairs: Pairs, unreadable: set[int] | frozenset[int] = frozenset()) -> Block:
    return Block(Corpus((Path("t.en"), Path("t.fr")), ("en", "fr")), 0, pairs, unreadable)


def sample_of(pairs: Pairs) -> Sample:
    return Sample(pairs=[(0, *pair) for pair in pairs])


def found(sightings: Iterable[Sighting]) -> dict[tuple[str, int | None], list[int]]:
    rows: dict[tuple[str, int | None], list[int]] = {}
    for sighting in sightings:
        rows.setdefault((sighting.kind, sighting.side), []).append(sighting.row)
    return rows


@pytest.fixture(scope="module")
def usual() -> Usual:
    sample = sample_of(phrasebook().train[:3000])
    familiar = (frozenset({"en"}), frozenset({"fr"}))
    return Usual(("en", "fr"), familiar, (LATIN, LATIN), LetterModel(sample), *usual_ratio(sample))


SENTENCES = [
    "The cat sleeps.", "où est la gare", "Der Hund von Baskerville bellt laut", "donaudampfschifffahrtsgesellschaft",
    "今日は学校に行きました。", "这个句子没有翻译", "ฉันไปโรงเรียน", "ខ្ញុំទៅសាលារៀន", "ຂ້ອຍໄປໂຮງຮຽນ", "ကျွန်တော်ကျောင်းသွားသည်",
    "Это предложение не переведено",
]  # fmt: skip
NO_SENTENCES = [
    "Rio de Janeiro", "New York City", "Tom Jones and Mary Smith", "1998", "", "+33 6 12 34 56 78", "hello",
    "taxi service", "https://www.example.org/some/long/path", "info@example.org www.example.org", "北京", "国際連合",
    "ปารีส", "USB-C HDMI 2.1 4K",
]  # fmt: skip


def test_copies_of_sentences_are_told_from_names_and_numbers() -> None:
    assert [text for text in [*SENTENCES, *NO_SENTENCES] if is_sentence(text)] == SENTENCES


def test_copies_and_short_copies_are_two_things() -> None:
    pairs = [("a house is there", " a house is there "), ("1998", "1998"), ("", ""), ("a", "b"), ("Paris", "Paris")]
    assert found(find_copies(block_of(pairs))) == {
        ("source = target", None): [0],
        ("short source = target", None): [1, 4],
    }
    assert found(find_copies(block_of(pairs[3:4]))) == {}


def test_empty_sides_are_named_and_what_cannot_be_read_is_not_empty() -> None:
    sightings = list(find_empty(block_of([("a", ""), (" \t", "b"), ("", "\u00a0"), ("a", "b"), ("", "")], {4})))
    assert [sighting.row for sighting in sightings] == [0, 1, 2]
    assert [sighting.remark for sighting in sightings] == ["no target", "no source", "no source and no target"]


def test_the_usual_ratio_is_robust_and_short_lines_have_slack(usual: Usual) -> None:
    generator = np.random.default_rng(1)
    lengths = generator.integers(20, 200, 500)
    noise = generator.normal(1.5, 0.1, 500)
    pairs = [("x" * int(n), "y" * int(n * k)) for n, k in zip(lengths, noise, strict=True)]
    spoilt = pairs[:450] + [("x", "y" * 500)] * 50
    centre, limit = usual_ratio(sample_of(spoilt))
    assert centre == pytest.approx(-np.log(1.5), abs=0.1)
    judge = replace(usual, ratio=centre, ratio_limit=limit)
    checked = [
        ("x" * 100, "y" * 150),
        ("x" * 100, "y" * 20),
        ("x" * 20, "y" * 150),
        ("Hi", "A very good day"),
        ("x" * 9, ""),
    ]
    assert found(find_lengths(block_of(checked), judge)) == {("length ratio", None): [1, 2]}
    assert usual_ratio(Sample())[0] == 0.0


def test_long_lines_are_measured_in_characters_and_bytes(usual: Usual) -> None:
    block = block_of([("x" * 1000, "y" * 1000), ("x" * 1001, "y" * 16_385), ("日" * 5461, "日" * 5462)])
    assert found(find_lengths(block, replace(usual, ratio_limit=9.0))) == {
        ("long line", 0): [1, 2],
        ("very long line", 1): [1, 2],
    }


def test_scripts_are_judged_by_most_of_the_letters(usual: Usual) -> None:
    judge = replace(usual, codes=("en", "zh"), familiar=(frozenset({"en"}), frozenset({"zh"})), scripts=(LATIN, HAN))
    pairs = [
        ("He comes from Beijing in China.", "他来自中国北京。"),
        ("He comes from 北京 in China.", "iPhone 15 Pro Max 手机"),
        ("Он приехал из Пекина", "他来自中国北京。"),
        ("He comes from Beijing in China.", "This line was left in English."),
        ("他来自中国北京朝阳区。", "He comes from Beijing in China."),
        ("Да.", "OK"),
        ("He is in Shanghai.", "他说 the quick brown foxes 他来自中国北京朝阳区然后去了上海市中心的一家非常大的商店里"),
    ]
    assert found(find_languages(block_of(pairs), judge)) == {
        ("wrong script", 0): [2],
        ("wrong script", 1): [3],
        ("sides swapped", None): [4],
    }
    unknown = replace(judge, scripts=(frozenset(), frozenset()))
    assert not any("script" in name for name, _ in found(find_languages(block_of(pairs), unknown)))


def test_languages_in_one_script_are_judged_by_letters_and_words(usual: Usual) -> None:
    english = "This is the line that was left in English, and nobody has noticed it."
    french = "Voici la phrase qui est restée en français, et personne ne l'a remarqué."
    german = "Das ist der Satz, der auf Deutsch ist, und das ist nicht gut für die Leute."
    pairs = [(english, french), (french, english), (english, english + "!"), (french, french + "!"), (english, german)]
    pairs += [(german, french), (english, english), ("", english)]
    assert found(find_languages(block_of(pairs), usual)) == {
        ("sides swapped", None): [1],
        ("language of the other side", 1): [2],
        ("language of the other side", 0): [3],
        ("third language", 1): [4],
        ("third language", 0): [5],
    }
