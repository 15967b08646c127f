from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from dragoman.checkpoint import ModelFolder
from dragoman.cli.convert import _random_lines
from dragoman.cli.main import main
from dragoman.inference.translator import Translator
from dragoman.interop import ctranslate2
from tests.small_models import LINES, small_model

from .exports import NEEDED, export


@pytest.mark.parametrize("to", ["ctranslate2", "huggingface", pytest.param("onnx", marks=pytest.mark.slow)])
def test_an_export_proves_itself(to: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = export(model, to)
    told = capsys.readouterr().err
    assert "beam 4: 10 of 10 translations identical" in told
    assert "passed" in told
    parity = json.loads((out / "parity.json").read_text())
    assert parity["passed"]
    assert parity["identical"] == {"1": 10, "4": 10}
    assert parity["bleu"]["4"][0] == parity["bleu"]["4"][1]
    assert "# en → ne" in (out / "README.md").read_text()
    assert not [path for path in model.parent.iterdir() if path.name.startswith(".")]


def test_an_argos_package_is_one_file(model: Path) -> None:
    out = export(model, "argos", "--quantization", "int8", "--package-version", "2.1")
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md", "dragoman.json", "parity.json", "translate-en_ne-2_1.argosmodel",
    ]  # fmt: skip
    assert zipfile.is_zipfile(out / "translate-en_ne-2_1.argosmodel")


@pytest.mark.parametrize("engine", ["auto", "ctranslate2"])
def test_an_exported_folder_translates_and_evaluates_like_the_model(
    engine: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = export(model, "ctranslate2")
    capsys.readouterr()
    shown = []
    for folder, more in ((model, ["--precision", "fp32"]), (out, ["--engine", engine])):
        for arguments in (
            ["translate", str(folder), str(model.parent / "valid.en"), "--format", "moses"],
            ["evaluate", str(folder), "--test", str(model.parent / "valid")],
        ):
            assert main([*arguments, "--length-penalty", "0", *more]) == 0
        shown.append(capsys.readouterr().out)
    texts = [[line.split(" ||| ")[:2] for line in text.splitlines()] for text in shown]
    assert texts[0] == texts[1]
    assert Translator.load(out).translate(LINES[:3])


def test_what_would_be_lost_is_said_before_the_work(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = export(model, "ctranslate2")
    card = out / "README.md"
    written = card.read_text()
    capsys.readouterr()
    for to, message in (("onnx", "an export for ctranslate2"), ("ctranslate2", "README.md: was edited")):
        card.write_text("my own words")
        assert main(["export", str(model), "--to", to, "--out", str(out), "--sentences", "2"]) == 1
        told = capsys.readouterr().err
        assert message in told
        assert "choose another --out" in told
        assert "comparing" not in told
        assert card.read_text() == "my own words"
    card.write_text(written)
    export(model, "ctranslate2")


@pytest.mark.parametrize("longest", [2, 5, 15])
def test_made_up_lines_are_short_enough_for_the_model(longest: int) -> None:
    vocabulary = small_model().vocabulary
    lines = _random_lines(vocabulary, 20, longest)
    assert lines
    assert all(0 < len(ids) < longest for ids in vocabulary.source.encode(lines))
    assert _random_lines(vocabulary, 20, 1) == []


def test_an_export_is_no_model_folder(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = export(model, "ctranslate2")
    again = ["export", str(out), "--to", "huggingface", "--out", str(model.parent / "again")]
    assert main(again) == 1
    assert "give the model folder that it was made from" in capsys.readouterr().err


def test_a_failed_proof_is_a_failed_export(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    right = ctranslate2.sinusoids
    monkeypatch.setattr(ctranslate2, "sinusoids", lambda length, size, layout: right(length, size, "halves"))
    out = model.parent / "out"
    assert main(["export", str(model), "--to", "ctranslate2", "--out", str(out), "--sentences", "5"]) == 1
    told = capsys.readouterr().err
    assert "FAILED" in told
    assert "do not agree" in told
    assert not out.exists()
    assert not list(model.parent.glob("*.partial"))


def test_the_text_of_the_proof_is_that_of_the_run_or_made_up(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    arguments = ["export", str(model), "--to", "ctranslate2", "--out", str(model.parent / "out"), "--sentences", "4"]
    assert main(arguments) == 0
    told = capsys.readouterr().err
    assert "4 sentences (random subwords)" in told
    assert "--valid names a better one" in told
    settings = {"source": "en", "target": "ne", "valid": [str(model.parent / "valid")]}
    (model / "train.yaml").write_text(yaml.safe_dump(settings))
    assert main(arguments) == 0
    assert "4 sentences (valid)" in capsys.readouterr().err  # nobody else's business where that is


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "huggingface", "--quantization", "int8"], "no --quantization"),
        (["--to", "argos", "--package-version", "1.0b"], "package_version"),
        (["--to", "argos", "--package-version", "1."], "package_version"),
        (["--to", "onnx", "--package-version", "2.0"], "no --package-version"),
        (["--to", "nowhere"], "must be one of"),
    ],
)
def test_impossible_settings_are_refused(
    arguments: list[str], message: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["export", str(model), "--out", str(model.parent / "x"), "--sentences", "2", *arguments])
    except SystemExit as error:
        code = int(error.code or 0)
    assert code == 2
    assert message in capsys.readouterr().err
    assert not (model.parent / "x").exists()


def test_there_and_back(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, back = export(model, "huggingface"), model.parent / "back"
    assert main(["import", str(out), "--out", str(back), "--sentences", "6"]) == 0
    assert "beam 4: 6 of 6 translations identical" in capsys.readouterr().err
    assert json.loads((back / "parity.json").read_text())["passed"]
    first, second = Translator.load(model), Translator.load(back)
    assert [t.text for t in first.translate(LINES)] == [t.text for t in second.translate(LINES)]
    assert second.direction == first.direction, "what is known about the model, as where its lines are cut"


def test_an_agreement_on_nonsense_is_told(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(model, "ctranslate2")
    assert "warning" not in capsys.readouterr().err
    (model.parent / "valid.ne").write_text("".join(f"{word} .\n" for word in ["yes", "no", "maybe", "never"] * 10))
    export(model, "ctranslate2")
    assert "next to nothing in common with the references" in capsys.readouterr().err


def test_an_exported_folder_with_a_file_of_another_model_is_refused(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = export(model, "ctranslate2")
    (out / "README.md").write_text("edited")
    (model.parent / "text").write_text("a\n")
    arguments = ["translate", str(out), str(model.parent / "text")]
    assert main(arguments) == 0
    for name in ("sentencepiece.model", "config.json", "shared_vocabulary.json", "model.bin"):
        right = (out / name).read_bytes()
        (out / name).write_bytes(right + b"\0")
        assert main(arguments) == 1
        assert f"{name}: damaged, or of another model" in capsys.readouterr().err
        (out / name).unlink()
        assert main(arguments) == 1
        assert f"{name}: no such file; export the model again" in capsys.readouterr().err
        (out / name).write_bytes(right)


def test_an_imported_model_is_fine_tuned_and_exported_like_any_other(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers", reason="needs transformers")
    from tests.marian_folders import TAG, opus

    folder, valid = model.parent, str(model.parent / "valid")
    arguments = ["import", str(opus(folder / "opus")), "--out", str(folder / "imported"), "--target", "ne"]
    assert main([*arguments, "--valid", valid, "--sentences", "5"]) == 0
    arrived = Translator.load(folder / "imported")
    assert arrived.direction.facts == {"imported from": "opus"}
    assert arrived.longest_source == min(128, arrived.config.max_length), "longer lines go sentence by sentence"
    tagged = folder / "tagged"
    for language in ("en", "ne"):
        text = (folder / f"valid.{language}").read_text()
        tag = f"{TAG} " if language == "en" else ""
        Path(f"{tagged}.{language}").write_text("".join(f"{tag}{line}\n" for line in text.splitlines()))
    train = ["train", "--source", "en", "--target", "ne", "--train", str(tagged), "--valid", valid, "--out"]
    steps = [
        "--from",
        str(folder / "imported"),
        "--max-steps",
        "2",
        "--text.max-length",
        "60",
        "--device",
        "cpu",
        "--precision",
        "fp32",
    ]
    assert main([*train, str(folder / "tuned"), *steps]) == 0
    again = Translator.load(folder / "tuned")
    assert again.config.softmax_bias
    assert again.vocabulary.source.split_tag(f"{TAG} a") == (TAG, " a")
    for to in ("ctranslate2", "huggingface"):
        pytest.importorskip(NEEDED[to])
        out = folder / f"tuned-{to}"
        assert main(["export", str(folder / "tuned"), "--to", to, "--out", str(out), "--sentences", "5"]) == 0
    assert "identical" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--valid"]], ids=["random", "references"])
def test_a_fault_in_a_quantized_export_shows_in_float32(
    more: list[str], model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where weights are rounded it could pass for rounding; here a norm's epsilon is a little wrong."""
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    small_model(norm="pre").save(model)
    arguments = ["export", str(model), "--to", "ctranslate2", "--quantization", "int8", "--sentences", "6"]
    arguments += [*more, *([str(model.parent / "valid")] if more else []), "--out"]
    monkeypatch.setattr("tempfile.tempdir", str(model.parent / "no such folder"))
    assert main([*arguments, str(model.parent / "good")]) == 0
    told = capsys.readouterr().err
    assert "first the same in float32" in told
    assert told.count("passed") == 2
    right = ctranslate2.specification

    def wrong(specs: Any, loaded: ModelFolder) -> Any:
        spec = right(specs, loaded)
        spec.config.layer_norm_epsilon = 1e-2
        return spec

    monkeypatch.setattr(ctranslate2, "specification", wrong)
    assert main([*arguments, str(model.parent / "bad")]) == 1
    assert "the two sides do not agree" in capsys.readouterr().err
    assert not (model.parent / "bad").exists()
