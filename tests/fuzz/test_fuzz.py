"""Thousands of damaged texts, settings and folders in short; benchmarks/fuzz.py is the long version."""

import pytest

from tests.fuzz.cases import KINDS, explore, prepared


@pytest.fixture(scope="module", autouse=True)
def _run_to_damage() -> object:
    with prepared():
        yield


@pytest.mark.parametrize("name", KINDS)
def test_what_is_damaged_is_refused_in_one_sentence_or_works(name: str) -> None:
    kind = KINDS[name]
    counts = explore(kind.case, kind.few, seed=20)
    assert counts.total() >= kind.few
    assert set(kind.outcomes) <= set(counts), f"{counts} is too one-sided to prove anything"
