"""Looking at single pairs: copies, lengths, scripts and languages, judged by what is usual."""

from collections.abc import Iterable
from copy import copy

import numpy as np
import pytest

from dragoman.corpus_check.blocks import Block
from dragoman.corpus_check.issues import Sighting
from dragoman.corpus_check.language_id import Profile
from dragoman.corpus_check.pair_checks import Usual, check_pairs, find_languages, find_lengths, is_sentence
from tests.texts_at_hand import phrasebook

LATIN, HAN = frozenset({"Latn"}), frozenset({"Hani"})


def found(sightings: Iterable[Sighting]) -> dict[tuple[str, int | None], list[int]]:
    rows: dict[tuple[str, int | None], list[int]] = {}
    for sighting in sightings:
        rows.setdefault((sighting.kind, sighting.side), []).append(sighting.row)
    return rows


def learn(pairs: list[tuple[str, str]], codes: tuple[str, str] = ("en", "fr")) -> Usual:
    profiles = [Profile(code, side) for code, side in zip(codes, Block(0, pairs).sides, strict=True)]
    return Usual(codes, [profiles], pairs)


@pytest.fixture(scope="module")
def usual() -> Usual:
    return learn(phrasebook().train[:3000])


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


def test_copies_short_copies_and_empty_sides_are_three_things(usual: Usual) -> None:
    pairs = [("a house is there", " a house is there "), ("1998", "1998"), ("", ""), ("a", "b"), (" \t", "b")]
    assert found(check_pairs(Block(0, pairs), usual)) == {
        ("source = target", None): [0],
        ("short source = target", None): [1],
        ("empty side", None): [2, 4],
        ("tab", 0): [4],
    }
    remarks = [s.remark for s in check_pairs(Block(0, [*pairs, ("a", "\u00a0")]), usual) if s.kind == "empty side"]
    assert remarks == ["no source and no target", "no source", "no target"]


def test_the_usual_ratio_is_robust_and_short_lines_have_slack() -> None:
    generator = np.random.default_rng(1)
    lengths, noise = generator.integers(20, 200, 450), generator.normal(1.5, 0.1, 450)
    pairs = [("x" * int(n), "y" * int(n * k)) for n, k in zip(lengths, noise, strict=True)]
    judge = learn([*pairs, *[("x", "y" * 500)] * 50])
    assert judge.ratio == pytest.approx(-np.log(1.5), abs=0.1)
    checked = [
        ("x" * 100, "y" * 150),
        ("x" * 100, "y" * 20),
        ("x" * 20, "y" * 150),
        ("Hi", "A good day"),
        ("x" * 9, ""),
    ]
    assert found(find_lengths(Block(0, checked), judge)) == {("length ratio", None): [1, 2]}


def test_long_lines_are_measured_in_characters_and_bytes(usual: Usual) -> None:
    block = Block(0, [("x" * 1000, "y" * 1000), ("x" * 16_000, "y" * 16_385), ("日" * 5461, "日" * 5462)])
    assert found(find_lengths(block, usual)) == {("long line", 0): [1, 2], ("very long line", 1): [1, 2]}


def test_scripts_are_judged_by_most_of_the_letters(usual: Usual) -> None:
    judge = copy(usual)
    judge.codes, judge.familiar, judge.scripts = ("en", "zh"), [{"en"}, {"zh"}], [LATIN, HAN]
    pairs = [
        ("He comes from Beijing in China.", "他来自中国北京。"),
        ("He comes from 北京 in China.", "iPhone 15 Pro Max 手机"),
        ("Он приехал из Пекина", "他来自中国北京。"),
        ("He comes from Beijing in China.", "This line was left in English."),
        ("他来自中国北京朝阳区。", "He comes from Beijing in China."),
        ("Да.", "OK"),
        ("%PRODUCTNAME %PRODUCTVERSION Writer", "%PRODUCTNAME %PRODUCTVERSION 文本"),
        ("A PowerPoint file that is encrypted can't be opened.", "不支持加载 Microsoft PowerPoint 加密的。"),
        ("He is in Shanghai.", "他说 the quick brown foxes 他来自中国北京朝阳区然后去了上海市中心的一家非常大的商店里"),
    ]
    assert found(find_languages(Block(0, pairs), judge)) == {
        ("wrong script", 0): [2],
        ("wrong script", 1): [3],
        ("sides swapped", None): [4],
    }
    judge.scripts = [frozenset(), frozenset()]
    assert not any("script" in name for name, _ in found(find_languages(Block(0, pairs), judge)))


def test_a_side_with_too_few_letters_to_know_its_language_makes_no_line_look_like_it() -> None:
    pairs = [(source, "今日は家で本を読みます。") for source, _ in phrasebook().train[:3000]]
    assert found(find_languages(Block(0, pairs), learn(pairs, ("en", "ja")))) == {}


def test_languages_in_one_script_are_judged_by_letters_and_words(usual: Usual) -> None:
    english = "This is the line that was left in English, and nobody has noticed it."
    french = "Voici la phrase qui est restée en français, et personne ne l'a remarqué."
    german = "Das ist der Satz, der auf Deutsch ist, und das ist nicht gut für die Leute."
    pairs = [(english, french), (french, english), (english, english + "!"), (french, french + "!"), (english, german)]
    pairs += [(german, french), (english, english), ("", english)]
    assert found(find_languages(Block(0, pairs), usual)) == {
        ("sides swapped", None): [1],
        ("language of the other side", 1): [2],
        ("language of the other side", 0): [3],
        ("third language", 1): [4],
        ("third language", 0): [5],
    }
