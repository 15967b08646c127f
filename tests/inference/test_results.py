from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.inference.alignment import Alignment, Units, join_alignments
from dragoman.inference.results import Part, Translation, best_combinations, join_translations

SCORES = st.lists(st.lists(st.integers(-8, 0).map(float), min_size=1, max_size=4), min_size=1, max_size=5)


@given(SCORES, st.integers(1, 12))
def test_combinations_are_those_that_brute_force_finds(scores: list[list[float]], count: int) -> None:
    everything = list(product(*(range(len(of_part)) for of_part in scores)))

    def total(choice: tuple[int, ...]) -> float:
        return sum(of_part[i] for of_part, i in zip(scores, choice, strict=True))

    expected = sorted((total(choice) for choice in everything), reverse=True)[:count]
    found = [tuple(choice) for choice in best_combinations(scores, count)]
    assert [total(choice) for choice in found] == expected
    assert len(set(found)) == len(found)
    assert set(found) <= set(everything)


WORDS: Units = ("words", "words")


def test_of_equal_combinations_the_first_candidates_come_first() -> None:
    assert best_combinations([[0.0, 0.0], [0.0, 0.0]], 3) == [[0, 0], [0, 1], [1, 0]]


def test_many_parts_are_no_trouble() -> None:
    assert best_combinations([[-1.0, -2.0]] * 20_000, 3)[0] == [0] * 20_000


def candidate(text: str, log_prob: float, score: float, subwords: list[int]) -> Translation:
    return Translation(text, log_prob, score, subwords)


def test_what_is_joined_is_the_best_of_all_parts_and_numbers_are_sums() -> None:
    first = Translation("a", -2.0, -1.0, [5], [candidate("A", -6.0, -3.0, [6])])
    second = Translation("", -1.0, -0.5, [], [candidate("b", -2.0, -0.75, [7, 8])])
    joined = join_translations(["x ", "y"], [first, second], " ", 3)
    assert [t.text for t in joined.candidates] == ["a", "a b", "A"]
    assert [t.score for t in joined.candidates] == [-1.5, -1.75, -3.5]
    assert [t.log_prob for t in joined.candidates] == [-3.0, -4.0, -7.0]
    assert [t.subwords for t in joined.candidates] == [[5], [5, 7, 8], [6]]
    assert joined.alternatives[0].parts == [Part("x ", [5]), Part("y", [7, 8])]
    assert join_translations(["x ", "y"], [first, second], "", 3).alternatives[0].text == "ab"
    assert join_translations(["x ", "y"], [first, second], " ", 1).alternatives == []


def test_links_of_parts_are_shifted_to_the_whole() -> None:
    parts = [Part("the cat ", []), Part("sat.", [])]
    alignments = [
        Alignment([(1, 0), (0, 1)], ["the", "cat"], ["chat", "le"]),
        Alignment([(0, 0)], ["sat."], ["assis."]),
    ]
    joined = join_alignments(parts, alignments, WORDS, target_spaced=True)
    assert joined.links == [(1, 0), (0, 1), (2, 2)]
    assert (joined.source, joined.target) == (["the", "cat", "sat."], ["chat", "le", "assis."])


@pytest.mark.parametrize("parts", [[Part("one super", []), Part("market two", [])]])
def test_a_word_that_was_cut_is_one_again(parts: list[Part]) -> None:
    alignments = [
        Alignment([(0, 0), (1, 1)], ["one", "super"], ["一", "超"]),
        Alignment([(0, 0), (1, 0)], ["market", "two"], ["市二"]),
    ]
    joined = join_alignments(parts, alignments, WORDS, target_spaced=True)
    assert (joined.source, joined.target) == (["one", "supermarket", "two"], ["一", "超", "市二"])
    assert joined.links == [(0, 0), (1, 1), (1, 2), (2, 2)]
    joined = join_alignments(parts, alignments, WORDS, target_spaced=False)
    assert joined.target == ["一", "超市二"]
    assert joined.links == [(0, 0), (1, 1), (2, 1)]  # two links that have become one are one
    joined = join_alignments(parts, alignments, ("subwords", "subwords"), target_spaced=False)
    assert joined.source == ["one", "super", "market", "two"]
    assert joined.links == [(0, 0), (1, 1), (2, 2), (3, 2)]


def test_a_space_at_the_beginning_of_a_part_separates_words_too() -> None:
    alignments = [Alignment([], ["a"], []), Alignment([], ["b"], [])]
    assert join_alignments([Part("a", []), Part(" b", [])], alignments, WORDS, True).source == ["a", "b"]
    assert join_alignments([Part("a", []), Part("b", [])], alignments, WORDS, True).source == ["ab"]
