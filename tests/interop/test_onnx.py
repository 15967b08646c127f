"""ONNX: the graphs take sentences of any number and length. test_web.py proves that they answer as the model does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.config import BOS, PAD
from dragoman.interop import onnx
from tests.small_models import LINES, small_model

runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'dragoman[onnx]'")
pytest.importorskip("onnxscript", reason="needs onnxscript: pip install 'dragoman[onnx]'")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx")
    onnx.write_model(small_model(), folder)
    return folder


def test_the_graphs_take_any_number_and_length_of_sentences(exported: Path) -> None:
    encoder = runtime.InferenceSession(str(exported / onnx.ENCODER_FILE), providers=["CPUExecutionProvider"])

    def encode(source: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        given = {"input_ids": source, "attention_mask": (source != PAD).astype(np.int64)}
        return encoder.run(None, given)[0]  # type: ignore[no-any-return]

    for shape in ((1, 1), (1, 40), (5, 7)):
        assert encode(np.full(shape, 9, dtype=np.int64)).shape == (*shape, 2 * 2 * 32)
    padded = np.array([[9, 8, 7, 3, 0, 0], [9, 8, 7, 6, 5, 3]])
    np.testing.assert_allclose(encode(padded)[:1, :4], encode(padded[:1, :4]), atol=1e-5)


def test_padding_changes_no_translation(exported: Path) -> None:
    backend = onnx.OnnxBackend(exported)
    sources = backend.encode(LINES[:9])
    assert len({len(source) for source in sources}) > 3
    for beam in (1, 4):
        alone = [backend.search([source], beam, [40])[0] for source in sources]
        assert backend.search(sources, beam, [40 for _ in sources]) == alone
    _, ours = backend._step(torch.full((9,), BOS), backend._start(sources))
    apart = [backend._step(torch.tensor([BOS]), backend._start([source]))[1] for source in sources]
    torch.testing.assert_close(ours, torch.cat(apart), atol=1e-5, rtol=1e-5)
