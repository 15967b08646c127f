"""Results of recipes: seeds that ran on different machines come together, runs of different systems do not."""

import copy
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import recipes


def result(seed: int, bleu: float, machine: str) -> dict[str, Any]:
    """What is stored of one run."""
    run = {
        "scores": {"bleu": bleu, "bleu_signature": "nrefs:1"},
        "text": {"name": "test", "lines": 2, "sha256": "11"},
        "weights": f"weights of seed {seed}",
        "command": f"train {seed} on {machine}",
        "search": {"beam": 5},
        "training_text_sha256": "22",
        "precision": "bf16",
        "seed": seed,
        "whole_run": {"steps": 9, "minutes": 1.5, "on": machine, "settings_sha256": "33"},
    }
    scores = {"bleu": {"mean": bleu, "runs": 1}}
    result = {"scores": scores, "runs": [run]}
    return {"commands": [run["command"]], "hardware": [{"processor": machine}], "recipe": {}, "result": result}


def test_seeds_of_several_machines_come_together() -> None:
    stored = recipes.with_earlier(result(3, 42.0, "fast"), result(1, 40.0, "slow"))
    stored = recipes.with_earlier(result(2, 41.5, "fast"), stored)
    assert [run["seed"] for run in stored["result"]["runs"]] == [1, 2, 3]
    spread = stored["result"]["scores"]["bleu"]
    assert spread["runs"] == 3
    assert spread["mean"] == pytest.approx(statistics.fmean([40, 41.5, 42]))
    assert spread["standard_deviation"] == pytest.approx(statistics.stdev([40, 41.5, 42]))
    assert stored["commands"] == ["train 1 on slow", "train 2 on fast", "train 3 on fast"]
    assert stored["hardware"] == [{"processor": "slow"}, {"processor": "fast"}]


def test_a_seed_that_ran_again_takes_the_place_of_its_earlier_run() -> None:
    stored = recipes.with_earlier(result(1, 41.0, "fast"), result(1, 40.0, "slow"))
    assert stored == result(1, 41.0, "fast")


@pytest.mark.parametrize(
    "change",
    [
        {"text": {"name": "test", "lines": 2, "sha256": "12"}},
        {"search": {"beam": 4}},
        {"scores": {"bleu": 40.0, "bleu_signature": "nrefs:2"}},
        {"whole_run": {"steps": 9, "minutes": 1.5, "on": "slow", "settings_sha256": "34"}},
        {"whole_run": {"steps": 9, "on": "slow", "settings_sha256": "33", "changed_on_the_way": "x was 1"}},
    ],
)
def test_runs_of_another_system_are_left_out(change: dict[str, Any]) -> None:
    before = copy.deepcopy(result(1, 40.0, "slow"))
    before["result"]["runs"][0] |= change
    assert recipes.with_earlier(result(2, 41.0, "fast"), before) == result(2, 41.0, "fast")


def test_each_command_names_the_threads_that_its_seed_ran_with() -> None:
    def found(seed: int, processor: str) -> dict[str, Any]:
        facts = dict.fromkeys(recipes._OF_A_RUN) | {"seed": seed, "whole_run": {"on": processor}}
        search = {"beam": 5, "length_penalty": 0.6, "precision": "fp32"}
        return {"scores": {}, "text": {"name": "test"}, "weights": {"sha256": "1"}, "settings": search, "model": facts}

    runs = [found(1, "CPU, 1 thread"), found(2, "CPU, 16 threads"), found(3, "GPU")]
    names = ("recipe", "published", "train", "evaluate", "scores")
    stored = recipes.record(dict.fromkeys(names) | {"runs": runs}, "run")
    assert stored["commands"] == ["run --threads 1 --seeds 1", "run --threads 16 --seeds 2", "run --seeds 3"]
