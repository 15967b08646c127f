from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.small_models import LINES, TARGETS, small_model

for needed in ("ctranslate2", "transformers", "onnxscript", "onnxruntime"):
    pytest.importorskip(needed, reason="needs the libraries that exports are for: pip install 'dragoman[all]'")
BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "exports.py"


@pytest.mark.slow
def test_every_export_of_a_trained_model_and_of_every_kind(tmp_path: Path) -> None:
    small_model().save(tmp_path / "model")
    (tmp_path / "test.en").write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "test.ne").write_text("".join(f"{line}\n" for line in TARGETS))
    command = [sys.executable, str(BENCHMARK), str(tmp_path / "model"), str(tmp_path / "test"), "--sentences", "20"]
    done = subprocess.run([*command, "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    for name in ("ctranslate2", "huggingface", "onnx"):
        assert result["trained model"][name]["identical at beam 4"].startswith("20 of 20")
    assert result["default search, PyTorch and CTranslate2"]["equal lines"] == "20 of 20"
    assert result["to Hugging Face and back"]["equal lines"] == "20 of 20"
    cells = [cell for cells in result["every kind of model"].values() for cell in cells.values()]
    assert len(cells) >= 8
    assert all(cell["passed"] == cell["kinds"] for cell in cells)
