"""The benchmark of how cost grows: what it measures must be what it says, in a form that is soon done."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

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


def test_phases_are_told_apart_by_what_a_run_says() -> None:
    lines = [(1.0, "examining the training text"), (3.0, "learning subwords from 9 pairs"), (3.5, "encoded 7 of 9")]
    lines += [(7.0, "encoding 9 pairs"), (8.0, "training text: 9 pairs"), (8.1, "training 5 parameters on cpu")]
    assert growth.phases(lines) == {"examining": 2.0, "learning subwords": 4.0, "encoding": 1.0, "all": 7.0}


def test_a_process_is_watched_to_its_end() -> None:
    program = "import sys, time; x = bytearray(2**26); print('said', file=sys.stderr); time.sleep(0.5)"
    watched = growth.Watched([sys.executable, "-c", program])
    assert [line for _, line in watched.lines] == ["said"]
    assert 64 < watched.own_mib <= watched.resident_mib < 300
    with pytest.raises(RuntimeError, match="alas"):
        growth.Watched([sys.executable, "-c", "import sys; sys.exit('alas')"])


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
