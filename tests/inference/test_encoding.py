"""Raw lines become ids without the space around them, or a complaint that names the line."""

from __future__ import annotations

import pytest

from dragoman.config import EOS, DragomanError, TextConfig
from dragoman.inference.encoding import LineEncoder, refuse_str
from dragoman.text.subwords import learn_subwords

LINES = [f"word{i} and {i * 7} more" for i in range(200)]
ENCODER = LineEncoder(learn_subwords(LINES, TextConfig(vocab_size=300)), "source", max_length=12)
SPACES = ["\t", "\u3000", "\xa0", " \t\u2003", "\u2028"]


@pytest.mark.parametrize("space", SPACES)
def test_space_of_any_kind_around_a_line_is_none_of_it(space: str) -> None:
    plain, spaced, blank = ENCODER.encode(["word1 and", f"{space}word1 and{space}", space], [1, 2, 3])
    assert spaced == plain
    assert blank == [EOS]


def test_space_within_a_line_stays() -> None:
    assert ENCODER.encode(["a\tb"], [1]) != ENCODER.encode(["a b"], [1])


def test_a_line_that_is_too_long_is_named_with_its_length() -> None:
    with pytest.raises(DragomanError, match=r"source line 8 has \d+ subwords, but the model takes at most 12 subwords"):
        ENCODER.encode(["word1", "word1 and " * 5], [7, 8])
    with pytest.raises(DragomanError, match="source line 7 has 10,000 characters"):
        ENCODER.encode(["x" * 10_000], [7])
    assert ENCODER.encode_where_short(["x" * 10_000, "a"])[0] is None


def test_a_str_is_no_list() -> None:
    refuse_str([["a line"], []])
    with pytest.raises(TypeError, match="a list belongs"):
        refuse_str([["a line"], "a line"])
