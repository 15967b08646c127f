"""The programs on the cards of exports run, and keep what the model promises."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.cli.main import main
from dragoman.config import EOS, UNK, SearchConfig
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from tests.small_models import LINES, small_model

from .exports import NEEDED, export


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
    from tests.marian_folders import TAG, opus

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
