from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from dragoman.inference.alignment import Alignment, join_alignments
from dragoman.inference.results import Part, Translation, best_combinations, join_translations
from dragoman.inference.segmentation import Segment

SCORES = st.lists(st.lists(st.integers(-8, 0).map(float), min_size=1, max_size=4), min_size=1, max_size=5)


def places_of_best(scores: list[list[float]], count: int) -> list[tuple[int, ...]]:
    candidates = [[Translation(f"{i}", score=one) for i, one in enumerate(of_part)] for of_part in scores]
    return [tuple(int(one.text) for one in chosen) for chosen in best_combinations(candidates, count)]


@given(SCORES, st.integers(1, 12))
def test_combinations_are_those_that_brute_force_finds(scores: list[list[float]], count: int) -> None:
    everything = list(product(*(range(len(of_part)) for of_part in scores)))

    def total(choice: tuple[int, ...]) -> float:
        return sum(of_part[i] for of_part, i in zip(scores, choice, strict=True))

    expected = sorted((total(choice) for choice in everything), reverse=True)[:count]
    found = places_of_best(scores, count)
    assert [total(choice) for choice in found] == expected
    assert len(set(found)) == len(found)
    assert set(found) <= set(everything)


def test_of_equal_combinations_the_first_candidates_come_first() -> None:
    assert places_of_best([[0.0, 0.0], [0.0, 0.0]], 3) == [(0, 0), (0, 1), (1, 0)]


def test_what_is_joined_is_the_best_of_all_parts_and_numbers_are_sums() -> None:
    first = Segment(0, [], "x "), [Translation("a", -2.0, -1.0, [5]), Translation("A", -6.0, -3.0, [6])]
    second = Segment(0, [], "y"), [Translation("", -1.0, -0.5, []), Translation("b", -2.0, -0.75, [7, 8])]
    joined = join_translations([first, second], " ", 3)
    assert [t.text for t in joined.candidates] == ["a", "a b", "A"]
    assert [t.score for t in joined.candidates] == [-1.5, -1.75, -3.5]
    assert [t.log_prob for t in joined.candidates] == [-3.0, -4.0, -7.0]
    assert [t.subwords for t in joined.candidates] == [[5], [5, 7, 8], [6]]
    assert joined.alternatives[0].parts == [Part("x ", [5]), Part("y", [7, 8])]
    assert join_translations([first, second], "", 3).alternatives[0].text == "ab"
    assert join_translations([first, second], " ", 1).alternatives == []


def test_links_of_parts_are_shifted_to_the_whole_and_a_word_that_was_cut_is_one_again() -> None:
    parts = [Part("one super", []), Part("market two ", []), Part("three", [])]
    alignments = [
        Alignment([(1, 0), (0, 1)], ["one", "super"], ["un", "super"]),
        Alignment([(0, 0), (1, 0)], ["market", "two"], ["marché"]),
        Alignment([(0, 0)], ["three"], ["trois"]),
    ]
    joined = join_alignments(parts, alignments, "words", tagged=False)
    assert (joined.source, joined.target) == (
        ["one", "supermarket", "two", "three"],
        ["un", "super", "marché", "trois"],
    )
    assert joined.links == [(1, 0), (0, 1), (1, 2), (2, 2), (3, 3)]
    joined = join_alignments(parts, alignments, "subwords", tagged=False)
    assert joined.source == ["one", "super", "market", "two", "three"]
    assert joined.links == [(1, 0), (0, 1), (2, 2), (3, 2), (4, 3)]
    spaced = [Part("a", []), Part(" b", [])]
    assert join_alignments(spaced, [Alignment([], ["a"], []), Alignment([], ["b"], [])], "words", False).source == [
        "a",
        "b",
    ]
