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
import growth_report
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


def test_the_tables_say_what_was_measured() -> None:
    text = {
        "preset": "tiny",
        "steps": 30,
        "100,000 pairs": {
            "preparation_seconds": {"all": 7.16},
            "preparation_microseconds_a_pair": 71.6,
            "peak_resident_mib_with_preparation": 963,
            "peak_resident_mib_training": 1410,
            "seconds_a_step": 0.2334,
        },
    }
    decoding = {
        "precision": "bf16",
        "sentences_at_once": 16,
        "beam": 4,
        "milliseconds_a_subword_with_cache": {"16": 5.111, "256": 6.74},
        "milliseconds_a_subword_without_cache": {"16": 18.407},
        "total_time_grows_as_length_to_the_with_cache": 1.1,
        "total_time_grows_as_length_to_the_without_cache": 1.73,
    }
    start = {"seconds_of": {"python": 0.02}, "seconds_to_first_translation": 1.473}
    record = {"result": {"decoding": decoding, "text": text, "start": start}}
    assert growth_report.is_growth(record)
    assert not growth_report.is_processors(record)
    page = growth_report.growth_tables(record)
    for row in (
        "| 16 | 5.11 | 18.41 |",
        "| 256 | 6.74 |  |",
        "| total time ~ length to the power of (between the lengths) | 1.1 (16 to 256) | 1.73 (16 to 16) |",
        "| 100,000 pairs | 7.2 | 72 | 963 | 1,410 | 0.233 |",
        "| the command, all in all | 1.47 |",
    ):
        assert row in page.splitlines()


def test_a_processor_for_which_auto_chose_the_slower_one_is_told() -> None:
    row = {
        "auto": "fp32",
        "milliseconds_to_choose": 404.6,
        "training_tokens_per_second": {"fp32": 3163.0, "bf16": 48.53},
        "translating_sentences_per_second": {"fp32": 119.2, "bf16": 26.3},
        "auto_was_faster": {"training": True, "translating": False},
    }
    record = {"result": {"threads": 2, "preset": "small", "length": 20, "AVX2": row}}
    assert growth_report.is_processors(record)
    assert "| AVX2 | 3,163 | 49 | 119 | 26 | fp32 | 405 | no |" in growth_report.processors_table(record).splitlines()
