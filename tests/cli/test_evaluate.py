"""evaluate, score and average; and what verbs say about models, devices and texts that they can't use."""

import json
import shutil
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU

from dragoman.checkpoint import ModelFolder
from dragoman.folder import AVERAGE_FACT, RUN_FACT
from dragoman.inference.translator import Translator
from tests.cli.conftest import LONG, small_folder
from tests.command_calls import INPUT, SHORT, complaint, run


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


def test_evaluation_splits_long_lines(tmp_path: Path, model: Path) -> None:
    (tmp_path / "test.tsv").write_text(f"a cat\tun chat\n{LONG}\tle chat\n")
    words = ["evaluate", model, "--test", tmp_path / "test.tsv", "--json", tmp_path / "scores.json", "--device", "cpu"]
    run(*words)
    written = json.loads((tmp_path / "scores.json").read_text())
    expected = Translator(small_folder()).translate(["a cat", LONG])
    assert [line["translation"] for line in written["lines"]] == [translation.text for translation in expected]


def test_evaluating_what_the_model_has_seen_is_warned_about(tmp_path: Path, model: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.tsv").write_text("a cat\tun chat\n")
    settings = {name: [str(tmp_path / f"{name}.tsv")] for name in ("train", "valid", "test")}
    (model / "train.yaml").write_text(json.dumps(settings))
    for name in settings:
        warned = "trained or chosen with this text" in run("evaluate", model, "--test", tmp_path / f"{name}.tsv").err
        assert warned is (name != "test")


# ---- score


def test_score_prints_three_columns_for_each_pair(trained: Path, text: Path) -> None:
    result = run("score", trained, "--test", text / "test", "--length_penalty", 1, "--device", "cpu")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert len(rows) == 7
    for log_prob, score, tokens in rows:
        assert float(log_prob) < 0
        assert float(score) == pytest.approx(float(log_prob) / ((5 + int(tokens)) / 6), abs=1e-3)


def test_what_score_refuses_is_named_with_its_text_and_line(model: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text(f"a\tb\na\tb\n{LONG}\tb\n")
    message = complaint(1, "score", model, "--test", tmp_path / "pairs.tsv", "--device", "cpu")
    assert "pairs.tsv: source line 3 has" in message


# ---- average


def test_an_average_knows_the_run_that_it_is_of(trained: Path, tmp_path: Path) -> None:
    assert run("average", trained, "--last", 2, "--out", tmp_path / "mean").code == 0
    facts, of_the_run = (ModelFolder.load(folder).direction.facts for folder in (tmp_path / "mean", trained))
    assert facts[RUN_FACT] == of_the_run[RUN_FACT]
    assert facts[AVERAGE_FACT].count("step") == 2
    assert "validation" not in facts
    assert run("translate", tmp_path / "mean", *SHORT, stdin=INPUT).code == 0


# ---- compare --runs


def test_runs_are_shown_on_one_page(trained: Path, tmp_path: Path) -> None:
    again = Path(shutil.copytree(trained, tmp_path / trained.name))
    both, one = tmp_path / "both.html", again / "report.html"
    assert run("compare", "--runs", trained, again, "--out", both).code == 0
    assert "Training runs, compared" in both.read_text(encoding="utf-8")
    written = one.read_bytes()
    assert run("compare", "--runs", again, "--out", one).code == 0
    assert one.read_bytes() == written, "the page of a run is made of what is in its folder"


def test_a_page_of_runs_replaces_nothing_and_tells_what_is_no_run(copy: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert "would replace the file" in complaint(2, "compare", "--runs", copy, "--out", copy / "config.json")
    assert "has no metrics.jsonl" in complaint(1, "compare", "--runs", copy, tmp_path / "nowhere", "--out", page)
    (copy / "metrics.jsonl").write_text('{"step": 1, "valid/loss": "a"}')
    assert "records are damaged" in complaint(1, "compare", "--runs", copy, "--out", page)
    assert not page.exists()
    for words in ([], ["--runs", copy], ["--system", "a", "--runs", copy, "--out", page], ["--out", page]):
        assert "--runs" in complaint(2, "compare", *words)


# ---- what can't be used


@pytest.mark.parametrize("verb", ["translate", "evaluate", "score", "average"])
def test_a_missing_model_folder_is_named(verb: str, text: Path, tmp_path: Path) -> None:
    more = {"evaluate": ["--test", text / "test"], "score": ["--test", text / "test"], "average": ["--out", tmp_path]}
    assert str(tmp_path / "nowhere") in complaint(1, verb, tmp_path / "nowhere", *more.get(verb, []))


@pytest.mark.parametrize(("device", "code"), [("gpu", 2), ("cuda:99", 1), ("tpu", 2), ("", 2), ("cpu:1", 2)])
def test_a_device_that_is_not_there_is_named(device: str, code: int, trained: Path) -> None:
    assert device in complaint(code, "translate", trained, "--device", device, stdin=INPUT)


@pytest.mark.parametrize(("verb", "options"), [("translate", ["/nowhere.txt"]), ("evaluate", ["--test", "/nowhere"])])
def test_a_missing_file_is_named(verb: str, options: list[str], trained: Path) -> None:
    assert "/nowhere" in complaint(1, verb, trained, *options)
