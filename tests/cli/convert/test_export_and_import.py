"""The verbs export and import: what they write, what they prove, and what the result is good for."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dragoman.checkpoint import ModelFolder
from dragoman.cli.main import main
from dragoman.inference import conversion
from dragoman.inference.translator import Translator
from dragoman.interop import web
from dragoman.text.subwords import SubwordModel
from tests.small_models import LINES

from .exports import NEEDED, arguments, export


def reads_characters_as(model: Path, out: Path) -> bool:
    """Whether the subword model of an export reads unusual characters as Dragoman does."""
    (path,) = [*out.rglob("sentencepiece.model"), *out.rglob("source.spm")]
    typed, read = ["the\u00a0cat se\u00ades", "a ｄｏｇ"], ["the cat sees", "a dog"]
    return SubwordModel(path.read_bytes()).encode(typed) == Translator.load(model).vocabulary.source.encode(read)


@pytest.mark.parametrize("to", ["ctranslate2", "huggingface", pytest.param("onnx", marks=pytest.mark.slow)])
def test_an_export_proves_itself(to: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = export(model, to)
    said = capsys.readouterr().err
    assert "beam 4: 10 of 10 translations identical" in said
    assert "passed" in said
    parity = json.loads((out / "parity.json").read_text())
    assert parity["passed"]
    assert parity["identical"] == {"1": 10, "4": 10}
    assert parity["bleu"]["4"][0] == parity["bleu"]["4"][1]
    assert "# en → ne" in (out / "README.md").read_text()
    assert reads_characters_as(model, out)
    assert not [path for path in model.parent.iterdir() if path.name.startswith(".")]


def test_an_argos_package_is_one_file(model: Path) -> None:
    pytest.importorskip("babel", reason="needs babel")
    out = export(model, "argos", "--quantization", "int8", "--package-version", "2.1")
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md", "dragoman.json", "parity.json", "translate-en_ne-2_1.argosmodel",
    ]  # fmt: skip
    zipfile.ZipFile(out / "translate-en_ne-2_1.argosmodel").extractall(out)
    assert reads_characters_as(model, out)


def test_out_may_name_the_argos_package(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("babel", reason="needs babel")
    package = model.parent / "new" / "mine.argosmodel"
    for _ in range(2):
        assert main(arguments(model, "argos", package)) == 0
        assert list(package.parent.iterdir()) == [package]
    with zipfile.ZipFile(package) as content:
        card = content.read("translate-en_ne-1_0/README.md").decode()
    assert 'install_from_path("mine.argosmodel")' in card
    for to, out, message in (
        ("onnx", package, "only --to argos writes .argosmodel files; name a folder"),
        ("argos", package.parent, "already contains mine.argosmodel"),
    ):
        assert main(arguments(model, to, out)) != 0
        assert message in capsys.readouterr().err
    (model.parent / "old.argosmodel").mkdir()
    assert main(arguments(model, "argos", model.parent / "old.argosmodel")) == 2
    assert "this is a folder; name a file" in capsys.readouterr().err


def test_an_exported_folder_translates_like_the_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = export(model, "ctranslate2")
    capsys.readouterr()
    shown = []
    for folder, more in ((model, ["--precision", "fp32"]), (out, ["--engine", "ctranslate2"])):
        for words in (
            ["translate", str(folder), str(model.parent / "valid.en"), "--format", "moses"],
            ["evaluate", str(folder), "--test", str(model.parent / "valid")],
        ):
            assert main([*words, "--length-penalty", "0", *more]) == 0
        shown.append(capsys.readouterr().out)
    texts = [[line.split(" ||| ")[:2] for line in text.splitlines()] for text in shown]
    assert texts[0] == texts[1]
    assert Translator.load(out).translate(LINES[:3])
    assert main(["export", str(out), "--to", "huggingface", "--out", str(model.parent / "again")]) == 1
    assert "give the model folder that it was made from" in capsys.readouterr().err


def test_a_failed_proof_is_a_failed_export(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = conversion.sinusoids
    monkeypatch.setattr(conversion, "sinusoids", lambda length, size, layout: right(length, size, "halves"))
    assert main(arguments(model, "ctranslate2", model.parent / "out")) == 1
    said = capsys.readouterr().err
    assert "FAILED" in said
    assert "do not agree" in said
    assert sorted(path.name for path in model.parent.iterdir()) == ["model", "valid.en", "valid.ne"]


def test_a_fault_in_a_quantized_export_shows_in_float32(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With rounded weights it could pass for rounding; here the epsilon of a norm is a little wrong."""
    words = [*arguments(model, "ctranslate2", model.parent / "good"), "--quantization", "int8"]
    monkeypatch.setattr("tempfile.tempdir", str(model.parent / "no such folder"))
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "first the same in float32" in said
    assert said.count("passed") == 2
    right = conversion.specification

    def wrong(loaded: ModelFolder) -> Any:
        spec = right(loaded)
        spec.config.layer_norm_epsilon = 1e-2
        return spec

    monkeypatch.setattr(conversion, "specification", wrong)
    words[words.index("--out") + 1] = str(model.parent / "bad")
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "the two sides do not agree" in said
    assert "5 of 5 translations identical" in said, "only the numbers tell"
    assert not (model.parent / "bad").exists()


def test_other_targets_are_not_quantized(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(model), "--out", "x", "--to", "huggingface", "--quantization", "int8"]) == 2
    assert "no --quantization" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "--to web needs transformers.js: run npm install --ignore-scripts @huggingface/transformers@"),
        (["--assets", "nowhere"], "nowhere/@huggingface/transformers/dist/transformers.min.js: no such file; run npm"),
        (["--quantization", "float16"], "--to web has no --quantization float16"),
    ],
)
def test_a_site_needs_its_javascript_and_is_told_where_it_comes_from(
    more: list[str], message: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(model), "--to", "web", "--out", str(model.parent / "site"), *more]) in (1, 2)
    assert message in capsys.readouterr().err
    assert not (model.parent / "site").exists()


def test_only_sites_have_assets(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments(model, "ctranslate2", model.parent / "x"), "--assets", "node_modules"]) == 2
    assert "--assets is for --to web" in capsys.readouterr().err


@pytest.mark.slow
def test_a_site_proves_itself_and_can_be_exported_again(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assets = model.parent / "node_modules"
    for name in web.ASSETS:
        (assets / name).parent.mkdir(parents=True, exist_ok=True)
        (assets / name).touch()
    monkeypatch.setattr(web, "ASSETS", dict.fromkeys(web.ASSETS, hashlib.sha256().hexdigest()))
    out = model.parent / "site"
    words = [*arguments(model, "web", out), "--assets", str(assets)]
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "first the same in float32" in said
    assert said.count("passed") == 2
    card = (out / "README.md").read_text()
    assert "its weights in int8" in card
    assert "python -m http.server" in card
    (out / "model" / "notes.txt").write_text("mine")
    assert main(words) == 1
    assert f"{out}: already contains model" in capsys.readouterr().err
    (out / "model" / "notes.txt").unlink()
    assert main([*words, "--quantization", "float32"]) == 0
    assert {path.name for path in (out / "model" / "onnx").iterdir()} == {
        "encoder_model.onnx",
        "decoder_model_merged.onnx",
    }


def test_there_and_back(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, back = export(model, "huggingface"), model.parent / "back"
    assert main(["import", str(out), "--out", str(back), "--sentences", "6"]) == 0
    assert "beam 4: 6 of 6 translations identical" in capsys.readouterr().err
    assert json.loads((back / "parity.json").read_text())["passed"]
    first, second = (Translator.load(folder, precision="fp32") for folder in (model, back))
    assert [t.text for t in first.translate(LINES)] == [t.text for t in second.translate(LINES)]
    assert second.vocabulary.joint
    assert (second.config.share_embeddings, second.config.tie_softmax, second.config.softmax_bias) == (
        True,
        True,
        False,
    )
    assert second.direction == first.direction, "what is known about the model comes along"


def test_an_export_with_a_file_of_another_model_is_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = export(model, "ctranslate2")
    (out / "README.md").write_text("edited")
    (model.parent / "text").write_text("a\n")
    words = ["translate", str(out), str(model.parent / "text")]
    assert main(words) == 0
    with (out / "shared_vocabulary.json").open("ab") as file:
        file.write(b"\0")
    assert main(words) == 1
    assert "shared_vocabulary.json: missing, damaged, or of another model" in capsys.readouterr().err


def test_an_imported_model_can_be_fine_tuned_and_exported(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason="needs transformers")
    from tests.marian_folders import TAG, opus

    folder, valid = model.parent, str(model.parent / "valid")
    words = ["import", str(opus(folder / "opus")), "--out", str(folder / "imported"), "--target", "ne"]
    assert main([*words, "--valid", valid, "--sentences", "5"]) == 0
    imported = Translator.load(folder / "imported")
    assert imported.direction.facts == {"imported_from": "opus"}
    assert imported.longest_source == min(128, imported.config.max_length), "longer lines go sentence by sentence"
    for language, tag in (("en", f"{TAG} "), ("ne", "")):
        text = (folder / f"valid.{language}").read_text()
        (folder / f"tagged.{language}").write_text("".join(f"{tag}{line}\n" for line in text.splitlines()))
    words = ["train", "--source", "en", "--target", "ne", "--train", str(folder / "tagged"), "--valid", valid]
    words += ["--out", str(folder / "tuned"), "--from", str(folder / "imported"), "--max-steps", "2"]
    assert main([*words, "--text.max-length", "60", "--device", "cpu", "--precision", "fp32"]) == 0
    again = Translator.load(folder / "tuned")
    assert again.config.softmax_bias
    assert again.vocabulary.source.split_tag(f"{TAG} a") == (TAG, " a")
    pytest.importorskip(NEEDED["ctranslate2"])
    out = str(folder / "tuned-ctranslate2")
    assert main(["export", str(folder / "tuned"), "--to", "ctranslate2", "--out", out, "--sentences", "5"]) == 0
