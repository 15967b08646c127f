"""Evaluations that can be quoted: what they say about themselves, and how they are compared."""

import errno
import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman.checkpoint import fingerprint
from dragoman.cli.main import main
from dragoman.config import DragomanError
from dragoman.evaluation.report import as_table, read_evaluation
from dragoman.evaluation.scores import paired_bootstrap
from dragoman.folder import (
    AVERAGE_FACT,
    CHANGES_FACT,
    EXPORT_FILE,
    RUN_FACT,
    SETTINGS_FACT,
    TEXT_FACT,
    Direction,
    describe,
)
from dragoman.interop import ctranslate2
from tests.evaluations import LINES, evaluation
from tests.small_models import small_model


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "en-fr"
    replace(small_model(), direction=Direction("en", "fr")).save(folder)
    return folder


@pytest.fixture
def test_text(tmp_path: Path) -> Path:
    (tmp_path / "test.tsv").write_text("a cat\tun chat\nthe dog\tle chien\n")
    return tmp_path / "test.tsv"


def written(path: Path, content: Any) -> str:
    path.write_text(json.dumps(content))
    return str(path)


# ---- one


def test_a_table_says_what_a_score_depends_on() -> None:
    table = as_table(evaluation())
    for part in ("de → en", "BLEU", "chrF2++", "nrefs:1\\|case:mixed\\|eff:no", "data/test, 12 lines", "abababab"):
        assert part in table
    for part in ("models/de-en", "010101", "beam 5", "length penalty 1.0", "| steps | 4000 |", "| seed | 1 |"):
        assert part in table
    assert all(line.startswith("| ") or line.startswith("|--") for line in table.splitlines())


def test_evaluate_writes_it_with_checksums_of_text_and_weights(
    tmp_path: Path, model_folder: Path, test_text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"--json": tmp_path / "scores.json", "--markdown": tmp_path / "scores.md"}
    options = [str(word) for pair in files.items() for word in pair]
    for precision in ("bf16", "fp32"):
        arguments = ["--test", str(test_text), "--device", "cpu", "--engine", "torch"]
        arguments += ["--precision", precision, *options]
        assert main(["evaluate", str(model_folder), *arguments]) == 0
        found = json.loads(files["--json"].read_text())
        assert found["software"] == f"dragoman {dragoman.__version__}, torch {torch.__version__}, {precision} on cpu"
    weights = fingerprint(model_folder / "model.safetensors")
    assert found["weights"] == {"folder": str(model_folder), "sha256": weights}
    text = hashlib.sha256(b"a cat\tun chat\nthe dog\tle chien\n").hexdigest()
    assert found["text"] == {"name": str(test_text), "lines": 2, "sha256": text}
    assert found["languages"] == ["en", "fr"]
    assert files["--markdown"].read_text() == as_table(found)
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines()] == 2 * ["BLEU", "chrF2", "chrF2++"]
    assert "tokenised" not in shown.err


def test_an_exported_model_says_how_its_weights_are_stored(tmp_path: Path, test_text: Path) -> None:
    loaded, out = replace(small_model(), direction=Direction("en", "fr")), tmp_path / "exported"
    out.mkdir()
    ctranslate2.write_model(loaded, out, "int8")
    (out / EXPORT_FILE).write_bytes(describe(loaded.direction, loaded.model.config, "ctranslate2", out))
    scores = tmp_path / "scores.json"
    assert main(["evaluate", str(out), "--test", str(test_text), "--device", "cpu", "--json", str(scores)]) == 0
    assert ", int8" in json.loads(scores.read_text())["software"]
    assert ", int8" in as_table(json.loads(scores.read_text()))


def test_tokenised_text_is_scored_as_such_or_warned_of(
    tmp_path: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.tsv").write_text("a cat .\tun chat .\nthe dog , old\tle chien , vieux\n")
    arguments = ["evaluate", str(model_folder), "--test", str(tmp_path / "test.tsv"), "--max-length", "3"]
    assert main(arguments) == 0
    assert "looks tokenised" in capsys.readouterr().err
    assert main([*arguments, "--tokenized", "--json", str(tmp_path / "scores.json")]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("BLEU of lowercased tokens ")
    assert "tok:none" in shown.out
    assert len(shown.out.splitlines()) == 1
    assert "tokenised" not in shown.err
    assert read_evaluation(str(tmp_path / "scores.json"))["settings"]["tokenized"]
    (tmp_path / "test.tsv").write_text("a cat.\tUn chat.\nthe dog, old\tLe chien, vieux\n")
    assert main([*arguments, "--tokenized"]) == 0
    assert "does not look tokenised" in capsys.readouterr().err


def test_a_place_that_can_not_be_written_is_said_before_the_work(
    tmp_path: Path, model_folder: Path, test_text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    one = written(tmp_path / "one.json", evaluation())
    evaluate = ["evaluate", str(model_folder), "--test", str(test_text)]
    read = "would replace the file which is read here"
    for words, place, code, message in (
        ([*evaluate, "--json"], tmp_path, 2, "this is a folder"),
        ([*evaluate, "--markdown"], tmp_path / "file" / "scores", 1, "can't be written"),
        ([*evaluate, "--markdown"], test_text, 2, read),
        ([*evaluate, "--json"], model_folder / "config.json", 2, read),
        (["compare", "--system", one, "--json"], Path(one), 2, read),
    ):
        before = place.read_bytes() if place.is_file() else b""
        assert main([*words, str(place)]) == code
        told = capsys.readouterr()
        assert message in told.err
        assert told.out == ""
        assert before == (place.read_bytes() if place.is_file() else b"")


@pytest.mark.parametrize("verb", ["evaluate", "compare"])
def test_results_are_kept_if_they_can_not_be_printed(
    verb: str,
    tmp_path: Path,
    model_folder: Path,
    test_text: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    one, kept = written(tmp_path / "one.json", evaluation()), tmp_path / "new" / "kept.json"
    words = {"evaluate": [str(model_folder), "--test", str(test_text)], "compare": ["--system", one]}[verb]
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", Full())
        assert main([verb, *words, "--json", str(kept)]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "dragoman: standard output: No space left on device"
    assert json.loads(kept.read_text())


# ---- several


def test_each_run_is_compared_with_the_one_in_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = ([evaluation(seed, share) for seed in (1, 2)] for share in (0.1, 0.4))
    files = [[written(tmp_path / f"{n}-{i}.json", one) for i, one in enumerate((good, bad)[n])] for n in (0, 1)]
    out = tmp_path / "result.json"
    assert main(["compare", "--baseline", *files[1], "--system", *files[0], "--json", str(out)]) == 0
    shown, kept = capsys.readouterr().out, json.loads(out.read_text())
    assert [one["file"] for one in kept["system"] + kept["baseline"]] == [*files[0], *files[1]]
    assert [one["weights"]["sha256"] for one in kept["system"]] == ["01" * 32, "02" * 32]
    for metric, one in kept["result"].items():
        for place in range(2):
            texts = ([line["translation"] for line in side[place]["lines"]] for side in (bad, good))
            assert one["p"][place] == paired_bootstrap(*texts, LINES, "en")[metric]["p"]
        assert one["system"]["mean"] > one["baseline"]["mean"]
        assert "standard_deviation" in one["baseline"]
        assert all(0 < interval < 20 for interval in one["interval"])
    assert "bs:1000|seed:12345" in kept["result"]["bleu"]["resampling"]
    means = [kept["result"]["bleu"][side]["mean"] for side in ("baseline", "system")]
    assert "| metric | baseline | system | difference | p | 95 % interval of the system |" in shown
    assert f"| BLEU | {means[0]:.2f} ± " in shown
    assert f" (standard deviation of 2 runs) | {means[1] - means[0]:+.2f} | " in shown
    assert main(["compare", "--system", files[0][0]]) == 0
    bleu = good[0]["scores"]["bleu"]
    assert f"| metric | system |\n| --- | --- |\n| BLEU | {bleu:.2f} |" in capsys.readouterr().out


def test_runs_of_different_systems_are_not_averaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, same, beam, text, settings, run, engine, mean = (evaluation(seed) for seed in (1, 1, 2, 3, 4, 5, 6, 7))
    beam["settings"]["beam"] = 1
    text["model"][TEXT_FACT] = "another"
    settings["model"][RUN_FACT] = {SETTINGS_FACT: "another"}
    run["model"][RUN_FACT] = {"steps": 8}
    run["software"] = "dragoman 0.2.0, torch 2.14.0+cu126, fp32 on cuda"
    engine["software"] = "dragoman 0.1.0, ctranslate2 4.6.0, int8_float32 on cpu"
    mean["model"][AVERAGE_FACT] = "step-1, step-2"
    changed = evaluation(8)
    changed["model"][RUN_FACT] = {CHANGES_FACT: "max_steps was 3 and is 6"}
    everything = (first, same, beam, text, settings, run, engine, mean, changed)
    files = [written(tmp_path / f"{n}.json", one) for n, one in enumerate(everything, start=1)]
    for other, reason in (
        (files[1], f"has the same weights as {files[0]}"),
        (files[2], "differ in: search"),
        (files[3], "differ in: training text"),
        (files[4], "differ in: training settings"),
        (files[6], "differ in: engine"),
        (files[7], "differ in: number of checkpoints averaged"),
        (files[8], "differ in: changes on the way"),
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


def test_facts_of_version_0_1_0_are_those_of_today(tmp_path: Path) -> None:
    old, new = evaluation(1), evaluation(2)
    old["model"]["training text (SHA-256)"] = old["model"].pop(TEXT_FACT)
    files = [written(tmp_path / f"{n}.json", one) for n, one in enumerate((old, new))]
    assert main(["compare", "--system", *files]) == 0


def test_scores_of_other_texts_or_counted_otherwise_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, character, version, fewer = (evaluation(seed) for seed in (1, 2, 3, 4))
    signature = first["scores"]["bleu_signature"]
    character["scores"]["bleu_signature"] = signature.replace("tok:13a", "tok:char")
    version["scores"]["bleu_signature"] = signature.replace("version:2", "version:1")
    del fewer["scores"]["chrfpp"]
    others = [character, fewer, evaluation(5, tokenized=True), evaluation(6, lines=LINES[:-1])]
    one = written(tmp_path / "1.json", first)
    for n, (other, reason) in enumerate(zip(others, [*["scored in another way"] * 3, "another text"], strict=True)):
        path = written(tmp_path / f"other{n}.json", other)
        assert main(["compare", "--system", one, path]) == 1
        assert f"{path}: " in (told := capsys.readouterr().err)
        assert f"{reason} than {one}" in told
    assert main(["compare", "--system", one, written(tmp_path / "3.json", version)]) == 0
    tokenized = [written(tmp_path / f"t{seed}.json", evaluation(seed, tokenized=True)) for seed in (1, 2)]
    assert main(["compare", "--baseline", tokenized[0], "--system", tokenized[1]]) == 0
    assert "BLEU of lowercased tokens" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"languages": ["a", "b"]})])
def test_what_is_no_evaluation_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "it.json").write_text(content)
    with pytest.raises(DragomanError, match=r"it\.json: not what evaluate --json writes"):
        read_evaluation(str(tmp_path / "it.json"))
    for place in ("", "none.json"):
        with pytest.raises(DragomanError, match=r"(Is a|No such file or) directory$"):
            read_evaluation(str(tmp_path / place))


def test_each_run_needs_a_partner(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--system", "a.json", "b.json", "--baseline", "c.json"]) == 2
    assert "as many files as --system" in capsys.readouterr().err
