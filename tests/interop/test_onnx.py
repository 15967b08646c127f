"""ONNX: the graphs answer as the model does. PyTorch takes about ten seconds to export a model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, PAD
from dragoman.interop import onnx
from dragoman.interop.parity import Sample, prove
from tests.small_models import LINES, small_model

runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'dragoman[onnx]'")
pytest.importorskip("onnxscript", reason="needs onnxscript: pip install 'dragoman[onnx]'")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelFolder, Path]:
    folder, loaded = tmp_path_factory.mktemp("onnx"), small_model()
    onnx.write_model(loaded, folder)
    return loaded, folder


def assert_alike(loaded: ModelFolder, folder: Path) -> None:
    parity = prove(loaded, onnx.OnnxBackend(folder), Sample(LINES[:12], LINES[:12], "lines"))
    assert parity.passed, parity
    assert parity.identical == {"1": 12, "4": 12}
    assert parity.logits == "logits"
    assert parity.largest_difference < 1e-4


def test_the_graphs_answer_alike(exported: tuple[ModelFolder, Path]) -> None:
    assert_alike(*exported)


@pytest.mark.parametrize(
    ("joint", "settings"),
    [
        (False, {"norm": "pre", "positions": "learned", "activation": "swish", "softmax_bias": True}),
        (True, {"positions": "halves", "activation": "gelu", "tie_softmax": False, "softmax_bias": True}),
    ],
)
def test_graphs_of_other_kinds_answer_alike(joint: bool, settings: dict[str, object], tmp_path: Path) -> None:
    loaded = small_model(joint, **settings)
    onnx.write_model(loaded, tmp_path)
    assert_alike(loaded, tmp_path)


def test_the_graphs_take_any_number_and_length_of_sentences(exported: tuple[ModelFolder, Path]) -> None:
    encoder = runtime.InferenceSession(str(exported[1] / onnx.ENCODER_FILE), providers=["CPUExecutionProvider"])

    def encode(source: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        given = {"input_ids": source, "attention_mask": (source != PAD).astype(np.int64)}
        return encoder.run(None, given)[0]  # type: ignore[no-any-return]

    for shape in ((1, 1), (1, 40), (5, 7)):
        assert encode(np.full(shape, 9, dtype=np.int64)).shape == (*shape, 2 * 2 * 32)
    padded = np.array([[9, 8, 7, 3, 0, 0], [9, 8, 7, 6, 5, 3]])
    np.testing.assert_allclose(encode(padded)[:1, :4], encode(padded[:1, :4]), atol=1e-5)


def test_padding_changes_no_translation(exported: tuple[ModelFolder, Path]) -> None:
    backend = onnx.OnnxBackend(exported[1])
    sources = backend.encode(LINES[:9])
    assert len({len(source) for source in sources}) > 3
    for beam in (1, 4):
        alone = [backend.search([source], beam, [40])[0] for source in sources]
        assert backend.search(sources, beam, [40 for _ in sources]) == alone
    _, ours = backend._step(torch.full((9,), BOS), backend._start(sources))
    apart = [backend._step(torch.tensor([BOS]), backend._start([source]))[1] for source in sources]
    torch.testing.assert_close(ours, torch.cat(apart), atol=1e-5, rtol=1e-5)
