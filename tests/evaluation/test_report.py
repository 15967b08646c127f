"""Evaluations that can be quoted: what they say of themselves, and how they are compared."""

from __future__ import annotations

import hashlib
import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman.checkpoint import AVERAGE_FACT, RUN_FACT, SETTINGS_FACT, TEXT_FACT, Direction, fingerprint
from dragoman.cli.main import main
from dragoman.config import DragomanError
from dragoman.evaluation.report import as_table, compare_runs, read_evaluation
from dragoman.evaluation.scores import paired_bootstrap
from tests.command_calls import python
from tests.evaluations import LINES, evaluation
from tests.small_models import small_model


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "en-fr"
    loaded = small_model()
    replace(loaded, direction=Direction("en", "fr")).save(folder)
    return folder


def written(path: Path, content: Any) -> str:
    path.write_text(json.dumps(content))
    return str(path)


# ---- one


def test_a_table_says_what_a_score_depends_on() -> None:
    one = evaluation()
    table = as_table(one)
    for part in ("de → en", "BLEU", "chrF2++", "nrefs:1\\|case:mixed\\|eff:no", "data/test, 12 lines", "abababab"):
        assert part in table
    for part in ("models/de-en", "010101", "beam 5", "length penalty 1.0", "| steps | 4000 |", "| seed | 1 |"):
        assert part in table
    assert all(line.startswith("| ") or line.startswith("|--") for line in table.splitlines())


def test_evaluate_writes_it_with_checksums_of_text_and_weights(
    tmp_path: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.tsv").write_text("a cat\tun chat\nthe dog\tle chien\n")
    files = {"--json": tmp_path / "scores.json", "--markdown": tmp_path / "scores.md"}
    options = [str(word) for pair in files.items() for word in pair]
    assert main(["evaluate", str(model_folder), "--test", str(tmp_path / "test.tsv"), *options]) == 0
    found = json.loads(files["--json"].read_text())
    weights = fingerprint(model_folder / "model.safetensors")
    assert found["weights"] == {"folder": str(model_folder), "sha256": weights}
    text = hashlib.sha256(b"a cat\tun chat\nthe dog\tle chien\n").hexdigest()
    assert found["text"] == {"name": str(tmp_path / "test.tsv"), "lines": 2, "sha256": text}
    assert found["languages"] == ["en", "fr"]
    assert files["--markdown"].read_text() == as_table(found)
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()] == ["BLEU", "chrF2", "chrF2++"]
    assert "tokenised" not in shown.err


def test_tokenised_text_is_scored_as_such_or_warned_of(
    tmp_path: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.tsv").write_text("a cat .\tun chat .\nthe dog , old\tle chien , vieux\n")
    arguments = ["evaluate", str(model_folder), "--test", str(tmp_path / "test.tsv")]
    assert main(arguments) == 0
    assert "looks tokenised" in capsys.readouterr().err
    assert main([*arguments, "--tokenized", "--json", str(tmp_path / "scores.json")]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("BLEU of lowercased tokens ")
    assert "tok:none" in shown.out
    assert len(shown.out.splitlines()) == 1
    assert shown.err == ""
    assert read_evaluation(str(tmp_path / "scores.json"))["tokenized"]
    (tmp_path / "test.tsv").write_text("a cat.\tUn chat.\nthe dog, old\tLe chien, vieux\n")
    assert main([*arguments, "--tokenized"]) == 0
    assert "does not look tokenised" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--json", "--markdown"])
def test_a_place_that_can_not_be_written_is_said_before_the_work(
    option: str, tmp_path: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.tsv").write_text("a cat\tun chat\n")
    (tmp_path / "file").touch()
    places = {tmp_path: (2, f"{tmp_path}: this is a folder")}
    places |= {tmp_path / "file" / "scores": (1, f"{tmp_path / 'file'}: can't be written")}
    places |= {tmp_path / "test.tsv": (2, f"{tmp_path / 'test.tsv'}: would replace the file which is read here")}
    own = model_folder / "config.json"
    places |= {own: (2, f"{own}: would replace the file which is read here")}
    for place, (code, said) in places.items():
        assert main(["evaluate", str(model_folder), "--test", str(tmp_path / "test.tsv"), option, str(place)]) == code
        told = capsys.readouterr()
        assert said in told.err
        assert told.out == ""
    assert (tmp_path / "test.tsv").read_text() == "a cat\tun chat\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here that is always full")
@pytest.mark.parametrize("verb", ["evaluate", "compare"])
def test_what_was_found_is_kept_where_it_can_not_be_printed(verb: str, tmp_path: Path, model_folder: Path) -> None:
    (tmp_path / "test.tsv").write_text("a cat\tun chat\n")
    one = written(tmp_path / "one.json", evaluation())
    words = {"evaluate": [model_folder, "--test", tmp_path / "test.tsv"], "compare": ["--system", one]}[verb]
    with Path("/dev/full").open("w") as full:
        process = python("-m", "dragoman", verb, *words, "--json", tmp_path / "new" / "kept.json", stdout=full)
        _, told = process.communicate()
    assert (process.returncode, told.decode().splitlines()[-1]) == (
        1,
        "dragoman: standard output: No space left on device",
    )
    assert json.loads((tmp_path / "new" / "kept.json").read_text())


def test_a_comparison_does_not_replace_what_it_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = written(tmp_path / "one.json", evaluation())
    before = Path(one).read_bytes()
    assert main(["compare", "--system", one, "--json", one]) == 2
    assert "would replace the file which is read here" in capsys.readouterr().err
    assert Path(one).read_bytes() == before


def test_what_computed_is_told_as_it_was_and_not_as_it_was_asked_for(tmp_path: Path, model_folder: Path) -> None:
    (tmp_path / "test.tsv").write_text("a cat\tun chat\n")
    scores = tmp_path / "scores.json"
    arguments = ["--test", str(tmp_path / "test.tsv"), "--device", "cpu", "--json", str(scores)]
    for precision in ("fp32", "bf16"):
        assert main(["evaluate", str(model_folder), *arguments, "--precision", precision]) == 0
        software = json.loads(scores.read_text())["software"]
        assert software == f"dragoman {dragoman.__version__}, torch {torch.__version__}, {precision} on cpu"
    pytest.importorskip("ctranslate2", reason="needs ctranslate2: pip install 'dragoman[ctranslate2]'")
    out = tmp_path / "exported"
    assert main(["export", str(model_folder), "--to", "ctranslate2", "--quantization", "int8", "--out", str(out)]) == 0
    assert main(["evaluate", str(out), *arguments]) == 0
    assert ", int8" in json.loads(scores.read_text())["software"]
    assert ", int8" in as_table(json.loads(scores.read_text()))


# ---- several


def test_runs_have_a_mean_and_a_spread() -> None:
    runs = [dict(evaluation(seed), tokenized=False) for seed in (1, 2, 3)]
    values = [run["scores"]["bleu"] for run in runs]
    found = compare_runs(runs)["bleu"]
    assert found == {
        "system": {
            "mean": pytest.approx(statistics.fmean(values)),
            "runs": 3,
            "standard_deviation": pytest.approx(statistics.stdev(values)),
        }
    }


def test_each_run_is_compared_with_the_one_in_its_place() -> None:
    good, bad = ([dict(evaluation(seed, share), tokenized=False) for seed in (1, 2)] for share in (0.1, 0.4))
    found = compare_runs(good, bad)
    references = LINES
    for metric, one in found.items():
        for place in range(2):
            texts = ([line["translation"] for line in side[place]["lines"]] for side in (bad, good))
            assert one["p"][place] == paired_bootstrap(*texts, references, "en")[metric].p
        assert one["system"]["mean"] > one["baseline"]["mean"]
        assert "standard_deviation" in one["baseline"]


def test_the_verb_prints_a_table_and_writes_the_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = [written(tmp_path / f"good{seed}.json", evaluation(seed, 0.1)) for seed in (1, 2)]
    bad = [written(tmp_path / f"bad{seed}.json", evaluation(seed, 0.4)) for seed in (1, 2)]
    out = tmp_path / "result.json"
    assert main(["compare", "--baseline", *bad, "--system", *good, "--json", str(out)]) == 0
    shown = capsys.readouterr().out
    kept = json.loads(out.read_text())
    result = kept["result"]
    assert [one["file"] for one in kept["system"] + kept["baseline"]] == [*good, *bad]
    assert [one["weights"]["sha256"] for one in kept["system"]] == ["01" * 32, "02" * 32]
    assert all(0 < interval < 20 for one in result.values() for interval in one["interval"])
    assert "bs:1000|seed:12345" in result["bleu"]["resampling"]
    means = [result["bleu"][side]["mean"] for side in ("baseline", "system")]
    assert "| metric | baseline | system | difference | p | 95 % interval of the system |" in shown
    assert f"| BLEU | {means[0]:.2f} ± " in shown
    assert f" (standard deviation of 2 runs) | {means[1] - means[0]:+.2f} | " in shown
    assert main(["compare", "--system", good[0]]) == 0
    scores = evaluation(1, 0.1)["scores"]
    assert f"| metric | system |\n| --- | --- |\n| BLEU | {scores['bleu']:.2f} |" in capsys.readouterr().out


def test_runs_of_different_systems_are_not_averaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, same, beam, text, settings, run, engine, mean = (evaluation(seed) for seed in (1, 1, 2, 3, 4, 5, 6, 7))
    beam["settings"]["beam"] = 1
    text["model"][TEXT_FACT] = "another"
    settings["model"][RUN_FACT] = {SETTINGS_FACT: "another"}
    run["model"][RUN_FACT] = {"steps": 8}
    run["software"] = "dragoman 0.2.0, torch 2.14.0+cu126, fp32 on cuda"
    engine["software"] = "dragoman 0.1.0, ctranslate2 4.6.0, int8_float32 on cpu"
    mean["model"][AVERAGE_FACT] = "step-1, step-2"
    everything = (first, same, beam, text, settings, run, engine, mean)
    files = [written(tmp_path / f"{n}.json", one) for n, one in enumerate(everything, start=1)]
    for other, reason in (
        (files[1], f"has the same weights as {files[0]}"),
        (files[2], "differ in: search"),
        (files[3], "differ in: training text"),
        (files[4], "differ in: training settings"),
        (files[6], "differ in: engine"),
        (files[7], "differ in: number of checkpoints averaged"),
    ):
        assert main(["compare", "--system", files[0], other]) == 1
        told = capsys.readouterr().err
        assert reason in told
        assert other in told
    assert main(["compare", "--system", files[0], files[5]]) == 0
    assert main(["compare", "--system", files[0], "--baseline", files[2]]) == 0, "systems may search otherwise"


def test_models_of_unknown_training_are_not_taken_for_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported = [evaluation(seed) for seed in (1, 2)]
    for one in imported:
        del one["model"][TEXT_FACT]
    files = [written(tmp_path / f"{n}.json", one) for n, one in enumerate(imported)]
    assert main(["compare", "--system", *files]) == 1
    assert f"{files[0]}: its model does not say how it was trained" in capsys.readouterr().err
    assert main(["compare", "--system", files[0], "--baseline", files[1]]) == 0


def test_tokenised_evaluations_compare_among_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [written(tmp_path / f"{seed}.json", evaluation(seed, tokenized=True)) for seed in (1, 2)]
    assert main(["compare", "--baseline", paths[0], "--system", paths[1]]) == 0
    assert "BLEU of lowercased tokens" in capsys.readouterr().out
    raw = written(tmp_path / "raw.json", evaluation(3))
    assert main(["compare", "--baseline", raw, "--system", paths[1]]) == 1
    assert f"{raw}: scored in another way than {paths[1]} (BLEU nrefs:1|" in capsys.readouterr().err


def test_scores_counted_otherwise_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = (evaluation(seed) for seed in (1, 2, 3))
    second["scores"]["bleu_signature"] = second["scores"]["bleu_signature"].replace("tok:13a", "tok:char")
    third["scores"]["bleu_signature"] = third["scores"]["bleu_signature"].replace("version:2", "version:1")
    fourth = evaluation(4)
    del fourth["scores"]["chrfpp"]
    files = [written(tmp_path / f"{n}.json", one) for n, one in enumerate((first, second, third, fourth), start=1)]
    for other in (files[1], files[3]):
        assert main(["compare", "--system", files[0], other]) == 1
        assert f"{other}: scored in another way than {files[0]}" in capsys.readouterr().err
    assert main(["compare", "--system", files[0], files[2]]) == 0  # versions of sacreBLEU count alike


def test_a_run_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "1.json", evaluation())
    assert main(["compare", "--system", path, path]) == 2
    assert "--system names a file twice" in capsys.readouterr().err


def test_other_texts_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = written(tmp_path / "first.json", evaluation())
    other = written(tmp_path / "other.json", evaluation(lines=LINES[:-1]))
    assert main(["compare", "--system", first, other]) == 1
    assert "evaluated on another text" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"scores": {}, "languages": ["a", "b"], "settings": {"tokenized": false}, "lines": []}',
        json.dumps(evaluation() | {"languages": []}),
        json.dumps(evaluation() | {"lines": [{"source": 1, "reference": "b", "translation": "c"}]}),
        json.dumps(evaluation() | {"scores": {"bleu": "much", "bleu_signature": "x"}}),
        json.dumps(evaluation() | {"scores": {"bleu": 10**400, "bleu_signature": "x"}}),
        json.dumps(evaluation() | {"scores": {"bleu": 30.0}}),
        json.dumps(evaluation() | {"weights": {}}),
        json.dumps(evaluation() | {"model": []}),
        "[" * 100_000,
    ],
)
def test_what_is_no_evaluation_is_named(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "it.json").write_text(content)
    assert main(["compare", "--system", str(tmp_path / "it.json")]) == 1
    assert "it.json: not what evaluate --json writes" in capsys.readouterr().err
    assert main(["compare", "--system", str(tmp_path / "none.json")]) == 1
    assert "none.json: No such file" in capsys.readouterr().err


def test_runs_without_partners_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--system", "a.json", "b.json", "--baseline", "c.json"]) == 2
    assert "need the same number of runs, not 1 and 2" in capsys.readouterr().err


def test_a_folder_in_place_of_an_evaluation_is_told_from_one(tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match=r"a folder; give the file that evaluate --json wrote$"):
        read_evaluation(str(tmp_path))
