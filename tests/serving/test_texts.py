import asyncio

from hypothesis import given
from hypothesis import strategies as st

from dragoman.config import SearchConfig
from dragoman.serving.batching import Batcher, Wanted
from dragoman.serving.texts import Answer, translate_texts
from tests.serving.fakes import Upside

BATCHERS = [Batcher(Upside(), SearchConfig()), Batcher(Upside("de", "fr"), SearchConfig())]


def translate(*texts: str, wanted: Wanted = Wanted(), hops: int = 1) -> list[Answer]:  # noqa: B008
    return asyncio.run(translate_texts(BATCHERS[:hops], texts, wanted))


@given(st.lists(st.text("ab \t\r\n", max_size=20), max_size=3))
def test_line_breaks_and_the_spaces_around_lines_stay(texts: list[str]) -> None:
    there = [answer.text for answer in translate(*texts, hops=2)]  # twice backwards
    squeezed = [[" ".join(part.split()) for part in text.upper().splitlines()] for text in texts]
    assert [[" ".join(part.split()) for part in text.splitlines()] for text in there] == squeezed
    for text, found in zip(texts, there, strict=True):
        assert [c for c in found if c in "\r\n"] == [c for c in text if c in "\r\n"]
        for line, same in zip(text.splitlines(), found.splitlines(), strict=True):
            assert same[: len(same) - len(same.lstrip())] == line[: len(line) - len(line.lstrip())]
            assert len(same) - len(same.rstrip()) == len(line) - len(line.rstrip())


def test_without_a_model_a_text_stays_as_it_is() -> None:
    assert translate(" a\n b", hops=0) == [Answer(" a\n b")]


def test_alternatives_change_the_line_that_costs_least() -> None:
    (answer,) = translate("a b\n\nc", wanted=Wanted(3))
    texts = [answer.text, *(other.text for other in answer.alternatives)]
    assert texts == ["B A\n\nC", "B A\n\nC!", "B A!\n\nC"]
    assert [answer.score, *(other.score for other in answer.alternatives)] == [-3.0, -4.0, -4.0]


def test_the_alignment_is_that_of_the_whole_text() -> None:
    (answer,) = translate("a b\n c", wanted=Wanted(alignment=True))
    assert answer.alignment
    assert answer.alignment.source == ["a", "b", "c"]
    assert answer.alignment.target == ["B", "A", "C"]
    assert answer.alignment.links == [(1, 0), (0, 1), (2, 2)]


def test_two_translations_after_each_other_are_aligned_through_the_words_between() -> None:
    (answer,) = translate("a b\n c", wanted=Wanted(2, alignment=True), hops=2)
    assert answer.text == "A B\n C"
    assert answer.alignment
    assert answer.alignment.links == [(0, 0), (1, 1), (2, 2)]
    assert answer.score == -4.0
    assert [other.text for other in answer.alternatives] == ["A B\n C!"]
