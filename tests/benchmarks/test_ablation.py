"""The ablation's own parts: every variant is a command, and differs from the unchanged one as its name says."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.options import EvaluateConfig
from dragoman.cli.parsing import TRAIN, Verb, parse
from dragoman.config import TrainConfig, differences

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import ablation

TEXTS = "--source en --target de --train train --valid val --out out"


def settings(name: str) -> dict[str, Any]:
    words = f"{TEXTS} {ablation.BASE} {ablation.VARIANTS[name]} --max-steps 9".split()
    config: TrainConfig = parse("train", TRAIN, words)
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
    verb = Verb(EvaluateConfig, "dragoman.cli.translate")
    found = [
        parse("evaluate", verb, ["out", "--test", "val", *words.split()]).length_penalty
        for words in ("", *(f"--length-penalty {alpha}" for alpha in ablation.PENALTIES))
    ]
    assert len(set(found)) == len(found) == 1 + len(ablation.PENALTIES)
    assert all(variant in ablation.VARIANTS for variant, _ in ablation.SEARCHES.values())


def test_runs_are_trained_scored_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[str] = []

    def pretend(self: ablation.Ablation, command: str, out: Path) -> None:
        commands.append(command)
        (out / "seconds.txt").write_text("60\n30\n")
        if command.startswith("evaluate"):
            bleu = 30.0 + 2 * ("R-Drop" in str(out)) + ("penalty 1 --json" in command)
            model = {"precision": "bf16", "validation": {"loss": 2.0}}
            scores = {"bleu": bleu, "chrfpp": 50.0, "bleu_signature": "signed"}
            Path(command.split()[-1]).write_text(json.dumps({"scores": scores, "model": model}))

    monkeypatch.setattr(ablation.Ablation, "_run", pretend)
    monkeypatch.setattr(ablation, "describe_hardware", lambda: {"processor": "this one"})
    monkeypatch.setattr(ablation, "RESULT", tmp_path / "ablation.json")
    words = [
        "ablation.py",
        "data",
        "--only",
        "unchanged",
        "R-Drop 1",
        "--steps",
        "9",
        "--at-once",
        "1",
        "--work",
        str(tmp_path),
    ]
    monkeypatch.setattr(sys, "argv", words)
    ablation.main()
    assert sum(command.startswith("train") for command in commands) == 2
    assert sum(command.startswith("evaluate") for command in commands) == 2 + 2 * len(ablation.PENALTIES)
    assert not any("test_2016" in command for command in commands)
    table = capsys.readouterr().out
    assert "| R-Drop 1 | 9 | 1 | 32.00 | 50.00 | 2.000 | 2 | this one | `--optimizer.r-drop 1` |" in table
    options = "`--optimizer.r-drop 1 --length-penalty 1`"
    assert f"| R-Drop 1, length penalty 1 | 9 | 1 | 33.00 | 50.00 | 2.000 |  | this one | {options} |" in table
    record = json.loads((tmp_path / "ablation.json").read_text())
    assert record["command"] == "python benchmarks/ablation.py DATA --steps STEPS --seed SEED --at-once 1"
    commands.clear()
    ablation.main()
    assert all(command.startswith("train") for command in commands)  # which says that the run has finished


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


def test_where_nothing_succeeds_there_is_an_empty_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: ablation.Ablation, name: str) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(ablation.Ablation, "train", fail)
    monkeypatch.setattr(ablation, "RESULT", tmp_path / "ablation.json")
    monkeypatch.setattr(sys, "argv", ["ablation.py", "data", "--only", "R-Drop 1"])
    ablation.main()
    assert "R-Drop 1: disk full" in capsys.readouterr().err
