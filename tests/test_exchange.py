from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from small_models import LINES, small_model

from dragoman.checkpoint import Direction, ModelFolder
from dragoman.cli import main
from dragoman.config import EOS, UNK, DragomanError, SearchConfig
from dragoman.exchange import _random_lines, _staging
from dragoman.inference.translator import Translator
from dragoman.interop import ctranslate2, huggingface
from dragoman.model.transformer import Transformer

NEEDED = {"ctranslate2": "ctranslate2", "huggingface": "transformers", "argos": "ctranslate2", "onnx": "onnxruntime"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    small_model().save(tmp_path / "model")
    (tmp_path / "valid.en").write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "valid.ne").write_text("".join(f"{line[::-1]}\n" for line in LINES))
    return tmp_path / "model"


def export(model: Path, to: str, *more: str) -> Path:
    pytest.importorskip(NEEDED[to], reason=f"needs {NEEDED[to]}")
    out = model.parent / to
    valid = str(model.parent / "valid")
    assert (
        main(["export", str(model), "--to", to, "--out", str(out), "--valid", valid, "--sentences", "10", *more]) == 0
    )
    return out


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


def test_exporting_again_replaces_an_export_and_nothing_else(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = export(model, "ctranslate2")
    (out / "parity.json").write_text("old")
    export(model, "ctranslate2")
    assert (out / "parity.json").read_text() != "old"
    (out / "mine.txt").write_text("mine")
    again = ["export", str(model), "--to", "ctranslate2", "--out", str(out), "--sentences", "2"]
    assert main(again) == 1
    assert "mine.txt, which would be lost" in capsys.readouterr().err
    assert (out / "mine.txt").read_text() == "mine"
    strange = model.parent / "strange"
    strange.mkdir()
    (strange / "thesis.txt").write_text("years of work")
    assert main(["export", str(model), "--to", "ctranslate2", "--out", str(strange)]) == 1
    assert "choose another --out" in capsys.readouterr().err
    assert (strange / "thesis.txt").read_text() == "years of work"
    assert main(["export", str(model), "--to", "ctranslate2", "--out", str(model)]) == 1


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


def test_a_disk_that_is_full_is_said_of_the_place_asked_for(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, back = export(model, "huggingface"), model.parent / "back"

    def full(folder: Path) -> None:
        raise DragomanError(f"{folder / 'model.safetensors'}: can't be written (No space left on device)")

    monkeypatch.setattr(ModelFolder, "save", lambda self, folder: full(folder))
    assert main(["import", str(out), "--out", str(back), "--sentences", "2"]) == 1
    assert f"{back}/model.safetensors: can't be written" in capsys.readouterr().err


def test_an_export_that_is_told_to_end_leaves_nothing_behind(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    monkeypatch.setattr("dragoman.exchange.prove", lambda *_: signal.raise_signal(signal.SIGTERM))
    before = sorted(model.parent.iterdir())
    with pytest.raises(SystemExit) as ended:
        main(["export", str(model), "--to", "ctranslate2", "--out", str(model.parent / "out"), "--sentences", "2"])
    assert ended.value.code == 143
    assert sorted(model.parent.iterdir()) == before


def test_a_folder_comes_back_where_the_new_one_can_not_take_its_place(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = export(model, "ctranslate2")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(errno.EBUSY, "Device or resource busy")
        return rename(self, target)

    again = ["export", str(model), "--to", "ctranslate2", "--out", str(out), "--sentences", "2"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        assert main(again) == 1
    assert "can't be written (Device or resource busy)" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in model.parent.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit(143), OSError(errno.EBUSY, "busy")], ids=repr)
@pytest.mark.parametrize("moved", ["out", "new"])
def test_whoever_interrupts_has_the_earlier_export_or_the_new_one(
    ending: BaseException, moved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal can arrive when one folder has gone and the other has not come."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "parity.json").write_text("old")
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        found = rename(self, target)
        if self.name == moved:
            raise ending
        return found

    def write() -> None:
        with _staging(out, "parity.json", ()) as folder:
            (folder / "parity.json").write_text("new")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupted)
        with pytest.raises((KeyboardInterrupt, SystemExit, DragomanError)):
            write()
    assert (out / "parity.json").read_text() == ("old" if moved == "out" else "new")
    assert list(tmp_path.iterdir()) == [out]


def test_a_disk_is_not_replaced_and_that_is_said_before_the_work(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = model.parent / "disk"
    out.mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "disk")
    assert main(["export", str(model), "--to", "ctranslate2", "--out", str(out), "--sentences", "2"]) == 1
    told = capsys.readouterr().err
    assert "disk: is where a disk is mounted, and can't be replaced; name a folder in it" in told
    assert "comparing" not in told
    assert not list(out.iterdir())


def test_files_of_an_earlier_export_go_and_strangers_are_told_before_the_work(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = export(model, "ctranslate2")
    described = json.loads((out / "dragoman.json").read_text())
    described["checksums"]["source_vocabulary.json"] = "of a model with two vocabularies"
    (out / "dragoman.json").write_text(json.dumps(described))
    (out / "source_vocabulary.json").write_text("[]")
    export(model, "ctranslate2")
    assert not (out / "source_vocabulary.json").exists()
    (out / "mine.txt").write_text("mine")
    capsys.readouterr()
    assert main(["export", str(model), "--to", "ctranslate2", "--out", str(out), "--sentences", "2"]) == 1
    told = capsys.readouterr().err
    assert "mine.txt, which would be lost" in told
    assert "comparing" not in told


def test_another_model_and_an_edited_card_are_not_replaced(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason="needs transformers")
    marian, arrived, other = (model.parent / name for name in ("marian", "arrived", "other"))
    marian.mkdir()
    huggingface.write_model(small_model(), marian)
    first = ["import", str(marian), "--out", str(arrived), "--sentences", "2"]
    assert main(first) == 0
    assert main(first) == 0, "the same again"
    capsys.readouterr()
    assert main([*first, "--target", "fr"]) == 1
    assert "another model is there (en → ne imported from marian); choose another --out" in capsys.readouterr().err
    (arrived / "README.md").write_text("my own words")
    assert main(first) == 1
    told = capsys.readouterr().err
    assert "README.md: was edited" in told
    assert "comparing" not in told
    assert (arrived / "README.md").read_text() == "my own words"
    replace(small_model(), direction=Direction("ne", "en")).save(other)
    out = export(model, "ctranslate2")
    assert main(["export", str(other), "--to", "ctranslate2", "--out", str(out), "--sentences", "2"]) == 1
    assert "another model is there (en → ne); choose another --out" in capsys.readouterr().err


@pytest.mark.parametrize("longest", [2, 5, 15])
def test_made_up_lines_are_short_enough_for_the_model(longest: int) -> None:
    vocabulary = small_model().vocabulary
    lines = _random_lines(vocabulary, 20, longest)
    assert lines
    assert all(0 < len(ids) < longest for ids in vocabulary.source.encode(lines))
    assert _random_lines(vocabulary, 20, 1) == []


def test_a_link_stays_a_link(model: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    place, link = model.parent / "disk" / "place", model.parent / "link"
    place.mkdir(parents=True)
    link.symlink_to(place)
    for _ in range(2):
        assert main(["export", str(model), "--to", "ctranslate2", "--out", str(link), "--sentences", "2"]) == 0
        assert link.is_symlink()
        assert (place / "parity.json").is_file()


def test_the_folder_in_which_one_is_will_do(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    here = model.parent / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert main(["export", str(model), "--to", "ctranslate2", "--out", ".", "--sentences", "2"]) == 0
    assert (here / "parity.json").is_file()


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
    from marian_folders import TAG, opus

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


def run_card(out: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the program on a card for a line; returns its variables."""
    code, names = (out / "README.md").read_text().split("```python\n")[1].split("```")[0], dict[str, Any]()
    assert '"…"' in code
    with monkeypatch.context() as patch:
        patch.chdir(out)
        exec(code.replace('"…"', repr(line)), names)
    return names


PROGRAMS = ["ctranslate2", "huggingface", pytest.param("onnx", marks=pytest.mark.slow)]


@pytest.mark.parametrize("to", PROGRAMS)
@pytest.mark.parametrize("most", [16, 64])
def test_the_program_on_a_card_keeps_the_limits_of_the_model(
    to: str, most: int, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here of one that never ends a translation; most is what it has positions for."""
    learnt = small_model(softmax_bias=True)
    endless = Transformer(replace(learnt.model.config, max_length=most)).eval()
    endless.load_state_dict(learnt.model.state_dict())
    with torch.no_grad():
        endless.softmax.bias[EOS] = -100.0
    replace(learnt, model=endless).save(model)
    out = model.parent / to
    pytest.importorskip(NEEDED[to], reason=f"needs {NEEDED[to]}")
    assert main(["export", str(model), "--to", to, "--out", str(out), "--sentences", "2"]) == 0
    for line in (LINES[2], " ".join(LINES[:12])):
        read = min(len(learnt.vocabulary.source.encode([line])[0]) + 1, most)
        names = run_card(out, line, monkeypatch)
        if to == "ctranslate2":
            written = len(names["results"][0].hypotheses[0])
        elif to == "onnx":
            written = len(names["tokens"]) - 1
        else:
            assert names["batch"]["input_ids"].shape[1] == read
            written = names["model"].generate(**names["batch"], max_length=names["room"]).shape[1] - 2
        assert 0 <= min(read + 50, most - 1) + 1 - written <= 2  # one library counts the end, another the beginning
    for empty in ("", "  "):
        capsys.readouterr()
        run_card(out, empty, monkeypatch)
        assert capsys.readouterr().out.strip() == ("" if to == "onnx" else "['']")


@pytest.mark.parametrize("to", PROGRAMS)
def test_the_program_on_a_card_never_writes_the_unknown_symbol(
    to: str, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(NEEDED[to], reason=f"needs {NEEDED[to]}")
    doubtful = small_model(softmax_bias=True)
    with torch.no_grad():
        doubtful.model.softmax.bias[UNK] = 8.0
    doubtful.save(model)
    out = export(model, to)
    capsys.readouterr()
    for line in LINES[1:6]:
        run_card(out, line, monkeypatch)
        assert "\u2047" not in capsys.readouterr().out


@pytest.mark.parametrize("to", [PROGRAMS[0], PROGRAMS[2]])
def test_the_card_of_a_model_that_was_imported_knows_its_subwords(
    to: str, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are numbered by a list, and can begin with a tag."""
    pytest.importorskip("transformers", reason="needs transformers")
    from marian_folders import TAG, opus

    imported, folder = model.parent / "imported", opus(model.parent / "opus")
    assert main(["import", str(folder), "--out", str(imported), "--target", "ne", "--sentences", "5"]) == 0
    out, source = export(imported, to), Translator.load(imported).vocabulary.source
    for line in (f"{TAG} {LINES[4]}", f">> {LINES[4]}", f">>deu<< {LINES[4]}", f">>{LINES[4]}<< a", ""):
        names = run_card(out, line, monkeypatch)
        cut = names["pieces"][0] if to == "ctranslate2" else [names["read"][i] for i in names["ids"][0][:-1]]
        expected = source.pieces(source.encode([line])[0])
        assert [piece if piece in source.listed else "<unk>" for piece in cut] == expected
    capsys.readouterr()
    run_card(out, f"{TAG} {LINES[4]}", monkeypatch)
    config = SearchConfig(beam={"ctranslate2": 4, "onnx": 1}[to], length_penalty=0.0)
    (whole,) = Translator.load(imported).translate([f"{TAG} {LINES[4]}"], config)
    shown = capsys.readouterr().out.strip()
    assert shown == (str([whole.text]) if to == "ctranslate2" else whole.text)


@pytest.mark.slow
def test_the_code_on_a_card_runs_without_dragoman(model: Path) -> None:
    for to in ("ctranslate2", "huggingface", "onnx"):
        out = export(model, to)
        code = (out / "README.md").read_text().split("```python\n")[1].split("```")[0].replace("…", LINES[4])
        guard = "import sys; sys.modules['dragoman'] = None\n"
        run = subprocess.run([sys.executable, "-c", guard + code], cwd=out, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert run.stdout.strip()
