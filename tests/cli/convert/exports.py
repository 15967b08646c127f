"""Exports of a small model."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli.main import main

NEEDED = {"ctranslate2": "ctranslate2", "huggingface": "transformers", "argos": "ctranslate2", "onnx": "onnxruntime"}


def export(model: Path, to: str, *more: str) -> Path:
    pytest.importorskip(NEEDED[to], reason=f"needs {NEEDED[to]}")
    out = model.parent / to
    valid = str(model.parent / "valid")
    assert (
        main(["export", str(model), "--to", to, "--out", str(out), "--valid", valid, "--sentences", "10", *more]) == 0
    )
    return out
