"""Clean text to plant faults in."""

import pytest

from dragoman.corpus_check.blocks import Side
from dragoman.corpus_check.duplicates import letters_of
from dragoman.text.corpus import Pair
from tests.texts_at_hand import phrasebook


@pytest.fixture(scope="module")
def clean() -> list[Pair]:
    """Two thousand English and French sentences without any fault."""
    pairs: dict[tuple[str, ...], Pair] = {}
    for pair in phrasebook().train:
        if min(map(len, pair)) >= 25:
            pairs.setdefault(tuple(letters_of(Side(list(pair)))), pair)
    return list(pairs.values())[:2000]
