"""The ablation's own parts: every variant is a command, and differs from the unchanged one as its name says."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import VERBS
from dragoman.cli.parsing import parse
from dragoman.config import TrainConfig, differences

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import ablation

TEXTS = "--source en --target de --train train --valid val --out out"


def settings(name: str) -> dict[str, Any]:
    words = f"{TEXTS} {ablation.BASE} {ablation.VARIANTS[name]} --max-steps 9".split()
    config: TrainConfig = parse("train", VERBS["train"], words)
    return asdict(config)


def test_every_variant_is_another_run() -> None:
    seen = {json.dumps(settings(name), sort_keys=True) for name in ablation.VARIANTS}
    assert len(seen) == len(ablation.VARIANTS)


@pytest.mark.parametrize("name", [name for name in ablation.VARIANTS if name != "unchanged"])
def test_a_variant_changes_what_it_names_and_nothing_else(name: str) -> None:
    changes = differences(settings("unchanged"), settings(name))
    assert len(changes) == len(ablation.VARIANTS[name].split("--")) - 1  # an option that changes nothing is a mistake
    for number in re.findall(r"[\d,.]*\d", name):
        assert float(number.replace(",", "")) in _numbers(changes)


def _numbers(changes: list[str]) -> list[float]:
    return [float(word) for change in changes if (word := change.split()[-1]) != "pre"]


def test_every_search_is_another_one() -> None:
    found = [
        parse("evaluate", VERBS["evaluate"], ["out", "--test", "val", *words.split()]).length_penalty
        for words in ("", *(f"--length-penalty {alpha}" for alpha in ablation.PENALTIES))
    ]
    assert len(set(found)) == len(found) == 1 + len(ablation.PENALTIES)
    assert all(variant in ablation.VARIANTS for variant, _ in ablation.SEARCHES.values())


def test_rows_join_those_of_runs_of_the_same_kind_and_a_failure_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(self: ablation.Ablation, name: str) -> None:
        if name == "pre-norm":
            raise OSError("disk full")
        self.rows[name] = {"bleu": 30.0, "chrfpp": 50.0, "loss": 2.0, "minutes": 1.0, "options": "", "signature": "s"}

    monkeypatch.setattr(ablation.Ablation, "train", train)
    monkeypatch.setattr(ablation, "SEARCHES", {})
    monkeypatch.setattr(ablation, "RESULT", tmp_path / "ablation.json")
    for names, steps, expected in (
        (["R-Drop 1", "pre-norm"], "9", ["R-Drop 1"]),
        (["dropout 0.1"], "9", ["R-Drop 1", "dropout 0.1"]),
        (["dropout 0.1"], "8", ["R-Drop 1", "dropout 0.1"]),
    ):
        monkeypatch.setattr(sys, "argv", ["ablation.py", "data", "--only", *names, "--steps", steps])
        ablation.main()
        assert list(json.loads((tmp_path / "ablation.json").read_text())["result"]) == expected
    assert "pre-norm: disk full" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["ablation.py", "data", "--only", "dropout 0.1", "--steps", "8", "--seed", "2"])
    monkeypatch.setattr(ablation, "describe_hardware", lambda: {"processor": "another"})
    ablation.main()
    record = json.loads((tmp_path / "ablation.json").read_text())
    found = [(row["steps"], row["seed"], row["processor"] == "another") for row in record["result"]["dropout 0.1"]]
    assert found == [(8, 1, False), (8, 2, True), (9, 1, False)]
    assert len(record["hardware"]) == 2
