"""Exports of a small model."""

from pathlib import Path

import pytest

from dragoman.cli.main import main

NEEDED = {
    "ctranslate2": "ctranslate2",
    "huggingface": "transformers",
    "argos": "ctranslate2",
    "onnx": "onnxruntime",
    "web": "tokenizers",
}


def arguments(model: Path, to: str, out: Path, sentences: int = 5) -> list[str]:
    pytest.importorskip(NEEDED[to], reason=f"needs {NEEDED[to]}")
    valid = ["--valid", str(model.parent / "valid"), "--sentences", str(sentences)]
    return ["export", str(model), "--to", to, "--out", str(out), *valid]


def export(model: Path, to: str, *more: str) -> Path:
    out = model.parent / to
    assert main([*arguments(model, to, out, 10), *more]) == 0
    return out
