"""Exports run where there is no Dragoman: in environments with nothing but the libraries that they are for."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.config import SearchConfig
from dragoman.inference.translator import Translator
from tests.small_models import LINES, small_model

ROOT = Path(__file__).resolve().parents[1]


def environment(folder: Path, *packages: str) -> Path:
    """A Python with these packages, and no Dragoman."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", "-c", str(ROOT / "constraints.txt")]
    done = subprocess.run([*install, *packages], capture_output=True, text=True, check=False)
    if done.returncode:
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up(f"{', '.join(packages)} can't be installed here: {done.stderr[-300:]}")
    alone = subprocess.run([str(python), "-E", "-c", "import dragoman"], cwd=folder, capture_output=True, check=False)
    assert alone.returncode, "there must be no Dragoman"
    return python


def run_the_card(python: Path, folder: Path, line: str, before: str = "") -> str:
    """What the program on an exported folder's card prints for a line."""
    code = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    code = re.sub(r'translate\("[^"]*"', f'translate("{line}"', code)
    command = [str(python), "-E", "-c", before + code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def exported(folder: Path, to: str, joint: bool = True, quantization: str = "float32") -> Path:
    small_model(joint).save(folder / "model")
    words = ["--to", to, "--out", str(folder / to), "--sentences", "3", "--quantization", quantization]
    assert main(["export", str(folder / "model"), *words]) == 0
    return folder / to


@pytest.mark.slow
def test_ctranslate2_and_sentencepiece_are_enough(tmp_path: Path) -> None:
    out = exported(tmp_path, "ctranslate2")
    python = environment(tmp_path / "env", "ctranslate2", "sentencepiece", "sentencex")
    (expected,) = Translator(small_model()).translate(LINES[6:7])
    assert run_the_card(python, out, LINES[6]).strip() == expected.text


@pytest.mark.slow
def test_onnxruntime_numpy_and_sentencepiece_are_enough(tmp_path: Path) -> None:
    out = exported(tmp_path, "onnx")
    python = environment(tmp_path / "env", "onnxruntime", "numpy", "sentencepiece", "sentencex")
    (expected,) = Translator(small_model()).translate(LINES[6:7], SearchConfig(beam=1))
    assert run_the_card(python, out, LINES[6]).strip() == expected.text
