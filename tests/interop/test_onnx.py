from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.config import BOS
from dragoman.inference.engine import Engine
from dragoman.interop import onnx
from dragoman.interop.backends import OnnxSide
from dragoman.interop.parity import Sample, prove
from dragoman.text.subwords import Vocabulary
from tests.small_models import LINES, small_model

runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'dragoman[onnx]'")
pytest.importorskip("onnxscript", reason="needs onnxscript: pip install 'dragoman[onnx]'")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("joint", "settings"),
    [
        (True, {}),
        (False, {"norm": "pre", "positions": "learned", "activation": "swish"}),
        (True, {"positions": "halves", "activation": "gelu", "tie_softmax": False, "softmax_bias": True}),
    ],
)
def test_the_graphs_answer_alike(joint: bool, settings: dict[str, object], tmp_path: Path) -> None:
    loaded = small_model(joint, **settings)
    onnx.write_model(loaded, tmp_path)
    engine = Engine(loaded.model, torch.device("cpu"), autocast=False)
    side = OnnxSide(tmp_path, Vocabulary.load(tmp_path))
    parity = prove(engine, loaded.vocabulary, side, Sample(LINES[:12], LINES[:12], "lines"), "en")
    assert parity.passed, parity
    assert parity.identical == {"1": 12, "4": 12}
    assert parity.logits == "logits"
    assert parity.largest_difference < 1e-4


@pytest.mark.slow
def test_the_graphs_take_any_number_and_length_of_sentences(tmp_path: Path) -> None:
    loaded = small_model()
    onnx.write_model(loaded, tmp_path)
    encoder = runtime.InferenceSession(str(tmp_path / onnx.ENCODER_FILE), providers=["CPUExecutionProvider"])
    for shape in ((1, 1), (1, 40), (5, 7)):
        source = np.full(shape, 9, dtype=np.int64)
        keys, _ = encoder.run(None, {"source": source})
        assert keys.shape == (2, shape[0], 4, shape[1], 8)
    padded = np.array([[9, 8, 7, 3, 0, 0], [9, 8, 7, 6, 5, 3]])
    keys, _ = encoder.run(None, {"source": padded})
    alone, _ = encoder.run(None, {"source": padded[:1, :4]})
    np.testing.assert_allclose(keys[:, :1, :, :4], alone, atol=1e-5)


@pytest.mark.slow
def test_sentences_beside_longer_ones_are_translated_as_alone(tmp_path: Path) -> None:
    """The proof knows no padding: it takes sentences of one length together."""
    loaded = small_model()
    onnx.write_model(loaded, tmp_path)
    side = OnnxSide(tmp_path, Vocabulary.load(tmp_path))
    sources = side.encode(LINES[:9])
    assert len({len(source) for source in sources}) > 3
    for beam in (1, 4):
        alone = [side.search([source], beam, 40)[0] for source in sources]
        assert side.search(sources, beam, 40) == alone
    _, ours = side._step(torch.full((9,), BOS), side._start(sources))
    apart = [side._step(torch.tensor([BOS]), side._start([source]))[1] for source in sources]
    torch.testing.assert_close(ours, torch.cat(apart), atol=1e-5, rtol=1e-5)
