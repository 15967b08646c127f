"""Every number against a text in which it can be counted by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import BOS, EOS, PAD, UNK
from dragoman.training.diagnostics import Health, examine_translations, unigram_loss

SENTENCES = {
    "en": ["Two dogs run across the wet grass.", "Why is she late?", "It's 10,000 very, very old stones!"],
    "de": [
        "Zwei Hunde rennen über das nasse Gras.",
        "Warum ist sie zu spät?",
        "Es sind 10.000 sehr, sehr alte Steine!",
    ],
    "zh": ["两只狗跑过湿漉漉的草地。", "她为什么迟到了？", "一万块非常非常古老的石头！"],
    "ja": ["二匹の犬が濡れた草の上を走っている。", "彼女はなぜ遅れたのですか？", "とてもとても古い石が一万個！"],
}
LOOPS = {
    "en": " old old old",
    "de": " alte Steine, alte Steine, alte Steine,",
    "zh": "石头石头石头",
    "ja": "ですかですかですか",
}


def ids(texts: Sequence[str]) -> list[list[int]]:
    """Characters as subwords, none of them special."""
    return [[ord(character) + EOS for character in text] for text in texts]


def examine(sources: Sequence[str], references: Sequence[str], translations: Sequence[str]) -> Health:
    return examine_translations(sources, references, translations, ids(references), ids(translations), 0.5, 1.0)


def examine_ids(references: list[list[int]], translations: list[list[int]]) -> Health:
    lines = [f"{number}" for number in range(len(references))]
    return examine_translations(lines, lines, lines, references, translations, 0.75, 2.0)


def planted(translation: str, reference: str = "eins zwei drei", source: str = "one two three") -> Health:
    """One bad translation among four."""
    sources, references = [source, "a", "b", "c"], [reference, "x y", "x z", "y z"]
    return examine(sources, references, [translation, *references[1:]])


# ------------------------------------------------------------------------------------------- accuracy and length


def test_free_accuracy_counts_each_subword_as_often_as_both_have_it() -> None:
    health = examine_ids([[5, 6, 7], [8, 8, 9]], [[7, 5, 5], [8, 9, 9, 9]])
    assert health.free_accuracy == pytest.approx((2 + 2) / 6)  # 5 and 7; 8 once and 9 once
    assert health.length_ratio == pytest.approx(7 / 6)
    assert health.gap == pytest.approx(0.75 - 4 / 6)
    assert health.sentences == 2


def test_chance_accuracy_compares_with_the_references_of_other_sentences() -> None:
    health = examine_ids([[5, 6], [5, 7], [8, 9], [5, 9]], [[5, 6], [5, 7], [8, 9], [5, 9]])
    assert health.free_accuracy == 1.0
    # 5 6 with 8 9; 5 7 with 5 9; 8 9 with 5 6; 5 9 with 5 7
    assert health.chance_accuracy == pytest.approx((0 + 1 + 0 + 1) / 8)


def test_of_many_sentences_chance_is_a_mean_over_several_others() -> None:
    lines = [f"w{number}" for number in range(16)]
    wanted = [[4 + number] for number in range(16)]
    for distance, chance in ((8, 0.2), (4, 0.2), (1, 0.0)):
        written = [*wanted[distance:], *wanted[:distance]]  # what a sentence so far away wanted
        health = examine_translations(lines, lines, lines, wanted, written, 0.5, 1.0)
        assert (health.free_accuracy, health.chance_accuracy) == (0.0, pytest.approx(chance))


def test_a_sentence_written_for_every_source_is_as_good_by_chance() -> None:
    references = [[5, 6, 7], [5, 8], [9, 6, 7, 10], [11], [5, 6]]
    health = examine_ids(references, [[5, 6, 12]] * 5)
    assert health.free_accuracy == health.chance_accuracy == pytest.approx((2 + 1 + 1 + 0 + 2) / 12)


def test_special_symbols_do_not_count() -> None:
    bare = examine_ids([[5, 6, 7], [8, 9]], [[5, 6], [9]])
    dressed = examine_ids([[BOS, 5, 6, 7, EOS], [8, 9, EOS, PAD]], [[5, 6, EOS], [9, EOS, PAD, PAD]])
    assert dressed == bare


@given(st.lists(st.lists(st.integers(4, 9), max_size=12), min_size=1, max_size=8), st.randoms())
def test_order_does_not_count_and_all_right_is_one(sentences: list[list[int]], random: object) -> None:
    mixed = [random.sample(sentence, len(sentence)) for sentence in sentences]  # type: ignore[attr-defined]
    health = examine_ids(sentences, mixed)
    assert health.free_accuracy == (1.0 if any(sentences) else 0.0)
    assert health.length_ratio == (1.0 if any(sentences) else 0.0)
    assert 0.0 <= health.chance_accuracy <= 1.0


# ----------------------------------------------------------------------------------------------------- the shares


@pytest.mark.parametrize("language", SENTENCES)
def test_good_translations_show_nothing(language: str) -> None:
    sources = SENTENCES["de" if language == "en" else "en"]
    health = examine(sources, SENTENCES[language], SENTENCES[language])
    shares = (health.empty, health.identical, health.repeated, health.copied, health.unknown)
    assert shares == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert health.free_accuracy == health.length_ratio == 1.0


@pytest.mark.parametrize("language", SENTENCES)
def test_bad_translations_are_seen_in_every_script(language: str) -> None:
    references = SENTENCES[language]
    sources = SENTENCES["de" if language == "en" else "en"]
    assert examine(sources, references, [references[0] + LOOPS[language], *references[1:]]).repeated == 1 / 3
    assert examine(sources, references, [sources[0], *references[1:]]).copied == 1 / 3
    assert examine(sources, references, ["", *references[1:]]).empty == 1 / 3
    assert examine(sources, references, [references[0]] * 3).identical == 2 / 3
    assert examine(sources, references, [references[0][:5] + "\ufffd", *references[1:]]).unknown == 1 / 3


def test_white_space_is_an_empty_translation_and_no_copy_of_an_empty_source() -> None:
    health = planted(" \t", source="")
    assert (health.empty, health.copied) == (1 / 4, 0.0)
    assert planted("eins").empty == 0.0


def test_alike_are_wrong_translations_of_different_sources() -> None:
    def alike(sources: list[str], references: list[str], translations: list[str]) -> float:
        return examine(sources, references, translations).identical

    assert alike(["a", "b", "c", "d"], ["1", "2", "3", "4"], ["x", "x", "x", "y"]) == 3 / 4
    assert alike(["a", "b", "c", "d"], ["1", "2", "3", "4"], ["x", "x ", "", " x"]) == 3 / 3  # empty ones aside
    assert alike(["a", "a", "a", "b"], ["1", "1", "1", "2"], ["x", "x", "x", "y"]) == 0.0  # one source
    assert alike(["a", "b", "c", "d"], ["x", "x", "3", "4"], ["x", "x", "3", "4"]) == 0.0  # as they should be
    assert alike(["a", "b", "c", "d"], ["1", "2", "3", "4"], ["p", "q", "r", "s"]) == 0.0  # not 1/4
    assert alike(["a", "b"], ["1", "2"], ["", ""]) == 0.0


@pytest.mark.parametrize(
    ("sentence", "looping"),
    [
        ([5, 5, 5], True),
        ([5, 5], False),
        ([5, 5, 6, 5, 5], False),
        ([9, 5, 6, 5, 6, 5, 6, 9], True),
        ([5, 6, 5, 6, 5], False),  # twice and a half
        ([5, 6, 7, 5, 6, 7, 5, 6, 7], True),
        ([5, 6, 7, 5, 6, 7, 5, 6], False),
        ([5, 6, 7, 8, 11, 5, 6, 7, 8, 12, 5, 6, 7, 8], True),  # four subwords at three places
        ([5, 6, 7, 8, 11, 5, 6, 7, 8, 12, 5, 6, 7, 9], False),
        ([5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8], True),
        ([5, 6, 9, 5, 6, 10, 5, 6, 11, 5, 6], False),  # "the …, the …, the …" is no loop
        ([], False),
    ],
)
def test_loops(sentence: list[int], looping: bool) -> None:
    assert examine_ids([[20, 21]], [sentence]).repeated == looping


def test_a_loop_that_the_reference_has_too_is_none() -> None:
    assert examine_ids([[5, 5, 5, 5]], [[5, 5, 5]]).repeated == 0.0
    assert examine_ids([[5, 5, 5, 5], [6, 7]], [[6, 7], [5, 5, 5]]).repeated == 0.5  # of its own reference


def test_a_copy_is_wrong_only_where_the_reference_is_none() -> None:
    assert planted("one two  three").copied == 1 / 4
    assert planted("Berlin", reference="Berlin", source="Berlin").copied == 0.0
    assert planted("one two").copied == 0.0


@pytest.mark.parametrize("text", ["eins <unk> drei", "eins ⁇ drei", "eins \ufffd"])
def test_what_no_character_stands_for_is_unknown(text: str) -> None:
    assert planted(text).unknown == 1 / 4
    assert planted(text, reference="zwei ⁇").unknown == 0.0


def test_an_unknown_subword_leaves_no_trace_in_the_text_but_counts() -> None:
    assert examine_ids([[5, 6], [7]], [[5, UNK], [7]]).unknown == 0.5


# ------------------------------------------------------------------------------------------------ line and values

HEALTHY = Health(1000, 0.61, 0.58, 0.14, 0.984, 0.0, 0.0, 0.012, 0.001, 0.0, 0.83)


def test_the_line_says_it_all_in_short() -> None:
    assert HEALTHY.line() == "health: accuracy 61% forced, 58% free; length 0.98; gradient 0.83; 1% looping"
    assert replace(HEALTHY, repeated=0.0).line().endswith("gradient 0.83")
    sick = replace(HEALTHY, empty=0.3, identical=0.4, copied=0.2)
    assert "gradient" not in replace(HEALTHY, gradient_norm=math.nan).line()
    assert sick.line().endswith("; 40% alike, 30% empty")


@pytest.mark.parametrize("extreme", [1.0, math.nan])
def test_the_line_is_short_whatever_happens(extreme: float) -> None:
    shares = dict.fromkeys(("empty", "identical", "repeated", "copied", "unknown"), 1.0)
    worst = replace(HEALTHY, forced_accuracy=extreme, free_accuracy=1.0, length_ratio=99.999, **shares)
    for norm in (math.inf, math.nan, 123456.789, 1.5e-20):
        line = replace(worst, gradient_norm=norm).line()
        assert len(line) < 100
        assert "\n" not in line


def test_values_are_all_numbers_by_name() -> None:
    assert HEALTHY.values() == {
        "forced_accuracy": 0.61,
        "free_accuracy": 0.58,
        "chance_accuracy": 0.14,
        "accuracy_gap": pytest.approx(0.03),
        "length_ratio": 0.984,
        "empty": 0.0,
        "identical": 0.0,
        "repeated": 0.012,
        "copied": 0.001,
        "unknown": 0.0,
        "gradient_norm": 0.83,
    }
    assert all(type(value) is float for value in HEALTHY.values().values())
    assert json.loads(json.dumps(HEALTHY.values()))["length_ratio"] == 0.984


def test_there_must_be_something_to_look_at() -> None:
    with pytest.raises(ValueError, match="at least one"):
        examine([], [], [])
    with pytest.raises(ValueError, match="for each other"):
        examine(["a", "b"], ["a", "b"], ["a"])


# --------------------------------------------------------------------------------------------------- guessing


def test_guessing_costs_the_entropy_of_the_frequencies() -> None:
    assert unigram_loss([0, 3, 3, 0, 3, 3]) == pytest.approx(math.log(4))
    assert unigram_loss([2, 1, 1]) == pytest.approx(1.5 * math.log(2))
    assert unigram_loss([7]) == 0.0
