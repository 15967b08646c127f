import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import DragomanError, SearchConfig
from dragoman.folder import CONVERTED, EXPORT_FILE, MODEL_FILE
from dragoman.inference import conversion
from dragoman.inference.ctranslate2 import CTranslate2Engine
from dragoman.inference.engine import Engine
from dragoman.inference.translator import Translator
from tests.small_models import LINES, small_model

EXACT = SearchConfig(length_penalty=0.0)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    small_model().save(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def load(folder: Path) -> Translator:
    translator = Translator.load(folder, "cpu", precision="fp32")
    assert isinstance(translator.engine, CTranslate2Engine)
    return translator


def texts(translator: Translator) -> list[str]:
    return [translation.text for translation in translator.translate(LINES, EXACT)]


def test_a_model_is_converted_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = texts(Translator.load(folder, "cpu", "torch", "fp32"))
    assert not (folder / CONVERTED).exists()
    assert texts(load(folder)) == expected
    assert "making a copy for CTranslate2" in capsys.readouterr().err
    written = {path: path.stat().st_mtime_ns for path in (folder / CONVERTED).rglob("*")}
    assert texts(load(folder)) == expected
    assert not capsys.readouterr().err
    assert written == {path: path.stat().st_mtime_ns for path in (folder / CONVERTED).rglob("*")}


def test_other_weights_are_converted_again(folder: Path) -> None:
    before, other = texts(load(folder)), small_model()
    with torch.no_grad():
        other.model.target_embedding.weight.mul_(0.7)
    other.save(folder)
    assert texts(load(folder)) == texts(Translator(other)) != before


@pytest.mark.parametrize("name", [MODEL_FILE, EXPORT_FILE, "sentencepiece.model"])
@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_a_damaged_copy_is_made_again(folder: Path, name: str, content: bytes | None) -> None:
    expected = texts(load(folder))
    path = folder / CONVERTED / "float32" / name
    path.unlink() if content is None else path.write_bytes(content)
    assert texts(load(folder)) == expected


def test_a_copy_that_computes_something_else_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = conversion.specification

    def wrong(loaded: ModelFolder) -> object:
        spec = right(loaded)
        spec.decoder.layer[0].ffn.linear_0.bias += 0.1
        return spec

    monkeypatch.setattr(conversion, "specification", wrong)
    with pytest.raises(DragomanError, match="use --engine torch"):
        load(folder)
    assert not (folder / CONVERTED).exists()


def test_where_nothing_can_be_written_pytorch_translates(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    assert isinstance(Translator.load(folder, "cpu").engine, Engine)


def test_a_full_disk_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(contents: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(conversion, "write_together", full)
    with pytest.raises(DragomanError, match=r"ctranslate2: can't be made \(No space left on device\)"):
        load(folder)


def test_translating_does_not_import_pytorch(folder: Path) -> None:
    """Its import takes longer than translating a sentence."""
    load(folder)
    program = (
        "import sys\n"
        "from dragoman.cli.main import main\n"
        f"code = main(['translate', {str(folder)!r}, {str(folder / 'text')!r}, '--device', 'cpu'])\n"
        "sys.exit(code or 'torch' in sys.modules)"
    )
    (folder / "text").write_text(LINES[3] + "\n")
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.count("\n") == 1
