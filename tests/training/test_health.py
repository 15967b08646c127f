"""Every number against a text in which it can be counted by hand."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dragoman.config import BOS, EOS, PAD
from dragoman.training.diagnostics import Health, examine_translations, unigram_loss

SENTENCES = {
    "en": ["Two dogs run across the wet grass.", "Why is she late?", "It's 10,000 very, very old stones!"],
    "zh": ["两只狗跑过湿漉漉的草地。", "她为什么迟到了？", "一万块非常非常古老的石头！"],
}
LOOPS = {"en": " old old old", "zh": "石头石头石头"}


def ids(texts: Sequence[str]) -> list[list[int]]:
    """Characters as subwords, none of them special."""
    return [[ord(character) + EOS for character in text] for text in texts]


def examine(sources: Sequence[str], references: Sequence[str], translations: Sequence[str]) -> Health:
    return examine_translations(sources, references, translations, ids(references), ids(translations), 0.5, 1.0)


def examine_ids(references: list[list[int]], translations: list[list[int]]) -> Health:
    lines = [f"{number}" for number in range(len(references))]
    return examine_translations(lines, lines, lines, references, translations, 0.75, 2.0)


# ------------------------------------------------------------------------------------------- accuracy and length


def test_free_accuracy_counts_each_subword_as_often_as_both_have_it() -> None:
    health = examine_ids([[5, 6, 7], [8, 8, 9]], [[7, 5, 5], [8, 9, 9, 9]])
    assert health.free_accuracy == pytest.approx((2 + 2) / 6)  # 5 and 7; 8 once and 9 once
    assert health.length_ratio == pytest.approx(7 / 6)
    assert health.values()["accuracy_gap"] == pytest.approx(0.75 - 4 / 6)
    assert health.sentences == 2


def test_chance_accuracy_compares_with_the_references_of_other_sentences() -> None:
    health = examine_ids([[5, 6], [5, 7], [8, 9], [5, 9]], [[5, 6], [5, 7], [8, 9], [5, 9]])
    assert health.free_accuracy == 1.0
    # 5 6 with 8 9; 5 7 with 5 9; 8 9 with 5 6; 5 9 with 5 7
    assert health.chance_accuracy == pytest.approx((0 + 1 + 0 + 1) / 8)


def test_special_symbols_do_not_count() -> None:
    bare = examine_ids([[5, 6, 7], [8, 9]], [[5, 6], [9]])
    dressed = examine_ids([[BOS, 5, 6, 7, EOS], [8, 9, EOS, PAD]], [[5, 6, EOS], [9, EOS, PAD, PAD]])
    assert dressed == bare


# ----------------------------------------------------------------------------------------------------- the shares


@pytest.mark.parametrize("language", SENTENCES)
def test_bad_translations_are_seen_in_every_script(language: str) -> None:
    references = SENTENCES[language]
    sources = SENTENCES["zh" if language == "en" else "en"]
    assert examine(sources, references, [references[0] + LOOPS[language], *references[1:]]).repeated == 1 / 3
    assert examine(sources, references, [sources[0], *references[1:]]).copied == 1 / 3
    assert examine(sources, references, ["", *references[1:]]).empty == 1 / 3
    assert examine(sources, references, [references[0]] * 3).identical == 2 / 3
    assert examine(sources, references, [references[0][:5] + "\ufffd", *references[1:]]).unknown == 1 / 3


def test_alike_are_wrong_translations_of_different_sources() -> None:
    def alike(sources: list[str], references: list[str], translations: list[str]) -> float:
        return examine(sources, references, translations).identical

    assert alike(["a", "b", "c", "d"], ["1", "2", "3", "4"], ["x", "x", "x", "y"]) == 3 / 4
    assert alike(["a", "b", "c", "d"], ["1", "2", "3", "4"], ["x", "x ", "", " x"]) == 3 / 3  # empty ones aside
    assert alike(["a", "a", "a", "b"], ["1", "1", "1", "2"], ["x", "x", "x", "y"]) == 0.0  # one source
    assert alike(["a", "b", "c", "d"], ["x", "x", "3", "4"], ["x", "x", "3", "4"]) == 0.0  # as they should be
    assert alike(["a", "b", "c", "d"], ["1", "2", "3", "4"], ["p", "q", "r", "s"]) == 0.0  # not 1/4


@pytest.mark.parametrize(
    ("sentence", "looping"),
    [
        ([5, 5, 5], True),
        ([5, 5, 6, 5, 5], False),
        ([9, 5, 6, 5, 6, 5, 6, 9], True),
        ([5, 6, 5, 6, 5], False),  # twice and a half
        ([5, 6, 7, 5, 6, 7, 5, 6, 7], True),
        ([5, 6, 7, 8, 11, 5, 6, 7, 8, 12, 5, 6, 7, 8], True),  # four subwords at three places
        ([5, 6, 7, 8, 11, 5, 6, 7, 8, 12, 5, 6, 7, 9], False),
        ([5, 6, 9, 5, 6, 10, 5, 6, 11, 5, 6], False),  # "the …, the …, the …" is no loop
        ([], False),
    ],
)
def test_loops(sentence: list[int], looping: bool) -> None:
    assert examine_ids([[20, 21]], [sentence]).repeated == looping


def test_a_loop_that_the_reference_has_too_is_none() -> None:
    assert examine_ids([[5, 5, 5, 5]], [[5, 5, 5]]).repeated == 0.0
    assert examine_ids([[5, 5, 5, 5], [6, 7]], [[6, 7], [5, 5, 5]]).repeated == 0.5  # of its own reference


@pytest.mark.parametrize("text", ["eins <unk> drei", "eins ⁇ drei", "eins \ufffd"])
def test_what_no_character_stands_for_is_unknown(text: str) -> None:
    assert examine(["a", "b"], ["x", "y"], [text, "y"]).unknown == 1 / 2
    assert examine(["a", "b"], ["zwei ⁇", "y"], [text, "y"]).unknown == 0.0


# ------------------------------------------------------------------------------------------------ line and values

HEALTHY = Health(1000, 0.61, 0.58, 0.14, 0.984, 0.0, 0.0, 0.012, 0.001, 0.0, 0.83)


def test_the_line_says_it_all_in_short() -> None:
    assert HEALTHY.line() == "health: accuracy 61% forced, 58% free; length 0.98; gradient 0.83; 1% looping"
    assert replace(HEALTHY, repeated=0.0).line().endswith("gradient 0.83")
    sick = replace(HEALTHY, empty=0.3, identical=0.4, copied=0.2)
    assert "gradient" not in replace(HEALTHY, gradient_norm=math.nan).line()
    assert sick.line().endswith("; 30% empty, 40% alike, 1% looping, 20% copied")


# --------------------------------------------------------------------------------------------------- guessing


def test_guessing_costs_the_entropy_of_the_frequencies() -> None:
    assert unigram_loss([0, 3, 3, 0, 3, 3]) == pytest.approx(math.log(4))
    assert unigram_loss([2, 1, 1]) == pytest.approx(1.5 * math.log(2))
    assert unigram_loss([7]) == 0.0
