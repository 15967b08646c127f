"""evaluate, score and average; and what all verbs say where files are missing or damaged."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sacrebleu.metrics import BLEU

from dragoman.checkpoint import (
    AVERAGE_FACT,
    RUN_FACT,
    ModelFolder,
    average_weights,
    list_checkpoints,
    read_weights,
    save_weights,
)
from dragoman.training.run_state import list_states
from tests.command_calls import INPUT, SHORT, complaint, run, train


def test_evaluate_prints_the_scores_of_the_translations_it_writes(trained: Path, text: Path, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result = run("evaluate", trained, "--test", text / "test", *SHORT, "--json", path)
    assert result.code == 0
    content = json.loads(path.read_text(encoding="utf-8"))
    translations = [line["translation"] for line in content["lines"]]
    references = [line["reference"] for line in content["lines"]]
    assert references == (text / "test.de").read_text(encoding="utf-8").splitlines()
    expected = BLEU().corpus_score(translations, [references]).score
    assert content["scores"]["bleu"] == pytest.approx(expected)
    assert f"BLEU {expected:.2f}  {content['scores']['bleu_signature']}\n" in result.out
    assert f"chrF2 {content['scores']['chrf']:.2f}  {content['scores']['chrf_signature']}\n" in result.out
    assert content["settings"]["beam"] == 2
    sources = (text / "test.en").read_bytes()
    assert run("translate", trained, *SHORT, stdin=sources).out.splitlines() == translations


def test_score_prints_three_columns_for_each_pair(trained: Path, text: Path) -> None:
    result = run("score", trained, "--test", text / "test", "--length_penalty", 1, "--device", "cpu")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert len(rows) == 7
    for log_prob, score, tokens in rows:
        assert float(log_prob) < 0
        assert float(score) == pytest.approx(float(log_prob) / ((5 + int(tokens)) / 6), abs=1e-3)


def test_average_is_the_mean_of_the_last_checkpoints(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "averaged"
    assert run("average", trained, "--out", out, "--last", 2).code == 0
    expected = average_weights(list_checkpoints(trained)[-2:])
    assert read_weights(out / "model.safetensors").keys() == expected.keys()
    assert all(torch.equal(weight, expected[name]) for name, weight in read_weights(out / "model.safetensors").items())
    assert run("translate", out, *SHORT, stdin=INPUT).code == 0


def test_an_average_knows_the_run_that_it_is_of(trained: Path, tmp_path: Path) -> None:
    assert run("average", trained, "--last", 2, "--out", tmp_path / "mean").code == 0
    facts, of_the_run = (ModelFolder.load(folder).direction.facts for folder in (tmp_path / "mean", trained))
    assert facts[RUN_FACT] == of_the_run[RUN_FACT]
    assert facts[AVERAGE_FACT].count("step") == 2
    assert "validation" not in facts


def test_average_of_the_last_one_is_the_last_one(trained: Path, tmp_path: Path) -> None:
    assert run("average", trained, "--out", tmp_path / "last", "--last", 1).code == 0
    last = read_weights(list_checkpoints(trained)[-1])
    assert all(torch.equal(w, last[name]) for name, w in read_weights(tmp_path / "last" / "model.safetensors").items())


def test_checkpoints_of_another_model_are_not_averaged_into_this_one(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    path = list_checkpoints(tmp_path / "run")[-1]
    weights = read_weights(path)
    save_weights({f"other.{name}": weight for name, weight in weights.items()}, path)
    assert path.name in complaint(1, "average", tmp_path / "run", "--last", "1", "--out", tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


# ---- failures


@pytest.mark.parametrize("verb", ["translate", "evaluate", "score", "average"])
def test_a_missing_model_folder_is_named(verb: str, text: Path, tmp_path: Path) -> None:
    more = {"evaluate": ["--test", text / "test"], "score": ["--test", text / "test"], "average": ["--out", tmp_path]}
    assert str(tmp_path / "nowhere") in complaint(1, verb, tmp_path / "nowhere", *more.get(verb, []))


def cut_weights(folder: Path) -> Path:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    return path


def damage_subwords(folder: Path) -> Path:
    path = folder / "sentencepiece.model"
    path.write_bytes(b"nonsense")
    return path


def remove_config(folder: Path) -> Path:
    (folder / "config.json").unlink()
    return folder


@pytest.mark.parametrize("damage", [cut_weights, damage_subwords, remove_config])
def test_a_damaged_model_is_named(damage: Callable[[Path], Path], copy: Path) -> None:
    assert str(damage(copy)) in complaint(1, "translate", copy, stdin=INPUT)


def test_a_damaged_state_is_named_with_the_way_out(text: Path, copy: Path) -> None:
    states = list_states(copy)
    for path in states:
        path.write_bytes(path.read_bytes()[:1000])
    message = complaint(1, *train(text, copy, "--max_steps", 6))
    assert str(states[-1]) in message
    assert "--restart" in message


def test_missing_text_is_named_before_anything_is_trained(text: Path, tmp_path: Path) -> None:
    message = complaint(1, *train(tmp_path / "nowhere", tmp_path / "model"))
    assert str(tmp_path / "nowhere") in message


def test_an_out_folder_that_cannot_be_written_is_named(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "model"):
        assert str(out) in complaint(1, *train(text, out))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert str(tmp_path / "readonly") in complaint(1, *train(text, tmp_path / "readonly"))


@pytest.mark.parametrize(("device", "code"), [("gpu", 2), ("cuda:99", 1), ("tpu", 2), ("", 2), ("cpu:1", 2)])
def test_a_device_that_is_not_there_is_named(device: str, code: int, trained: Path) -> None:
    assert device in complaint(code, "translate", trained, "--device", device, stdin=INPUT)


@pytest.mark.parametrize(("verb", "options"), [("translate", ["/nowhere.txt"]), ("evaluate", ["--test", "/nowhere"])])
def test_a_missing_file_is_named(verb: str, options: list[str], trained: Path) -> None:
    assert "/nowhere" in complaint(1, verb, trained, *options)


def test_an_empty_test_text_has_no_score(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").touch()
    complaint(1, "evaluate", trained, "--test", tmp_path / "empty.tsv")


def test_there_is_nothing_to_evaluate_in_an_empty_text(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").touch()
    assert "empty.tsv" in complaint(1, "evaluate", trained, "--test", tmp_path / "empty.tsv")
