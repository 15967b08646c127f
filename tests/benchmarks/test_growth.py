"""The benchmark of how cost grows: what it measures must be what it says, in a form that is soon done."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import growth
from processors import ExactLength, random_ids, random_model

from dragoman.config import EOS, SearchConfig
from dragoman.inference.engine import Engine
from dragoman.inference.rules import NEVER_WRITTEN
from dragoman.inference.search import search

CPU = torch.device("cpu")


def test_with_and_without_a_cache_the_same_is_written() -> None:
    engine = Engine(random_model(growth.QUICK.work).eval(), CPU, False)
    sources = random_ids(growth.QUICK.work, 3).tolist()
    with_cache = engine.search(sources, SearchConfig(), ExactLength(6))
    with torch.inference_mode():
        state = growth.Prefixes(engine.model, torch.tensor(sources))
        without = search(state.step, state, [6] * 3, SearchConfig(), [NEVER_WRITTEN, ExactLength(6)])
    for (one, *_), (other, *_) in zip(with_cache, without, strict=True):
        assert one.tokens == other.tokens
        assert len(one.tokens) == 6
        assert one.log_prob == pytest.approx(other.log_prob, rel=1e-5)


def test_a_hypothesis_ends_neither_sooner_nor_later_than_it_should() -> None:
    scores, exact = torch.zeros(1, 9), ExactLength(2)
    assert exact(scores.clone(), torch.zeros(1, 1, dtype=torch.long)).isfinite().tolist() == [
        [token != EOS for token in range(9)]
    ]
    assert exact(scores.clone(), torch.zeros(1, 2, dtype=torch.long)).isfinite().tolist() == [
        [token == EOS for token in range(9)]
    ]


def test_the_exponent_is_that_of_the_growth() -> None:
    assert growth.exponent({16: 1.0, 64: 4.0, 32: 2.5}) == pytest.approx(1.0)
    assert growth.exponent({2: 3.0, 8: 48.0}) == pytest.approx(2.0)


@pytest.mark.slow
@pytest.mark.parametrize("part", growth.PARTS)
def test_every_part_can_be_measured(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = growth.RESULT.read_bytes() if growth.RESULT.is_file() else None
    growth.main(["--quick", part])
    found = json.loads(capsys.readouterr().out)[part]
    if part == "decoding":
        for way in ("with_cache", "without_cache"):
            assert set(found[f"milliseconds_a_subword_{way}"]) == {"4", "8"}
            assert math.isfinite(found[f"total_time_grows_as_length_to_the_{way}"])
    elif part == "text":
        row = found["600 pairs"]
        assert row["preparation_seconds"]["all"] > 0
        assert 0 < row["peak_own_mib_training"] < row["peak_resident_mib_training"]
        assert row["seconds_a_step"] > 0
    else:
        assert set(found["seconds_of"]) == set(growth.STAGES)
        assert all(seconds > 0 for seconds in found["seconds_of"].values())
    assert (growth.RESULT.read_bytes() if growth.RESULT.is_file() else None) == before
