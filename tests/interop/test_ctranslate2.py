"""CTranslate2: every kind of model answers there as it does here."""

from pathlib import Path
from typing import Any

import ctranslate2 as library
import pytest
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import UNK
from dragoman.inference import conversion
from dragoman.interop import ctranslate2
from dragoman.interop.parity import Parity, Sample, prove
from tests.small_models import LINES, kinds, small_model

LEARNED = {"norm": "pre", "positions": "learned", "activation": "swish", "joint": False, "softmax_bias": True}


def exported(loaded: ModelFolder, folder: Path, quantization: str = "float32", sentences: int = 12) -> Parity:
    folder.mkdir(exist_ok=True)
    ctranslate2.write_model(loaded, folder, quantization)
    backend = ctranslate2.CTranslate2Backend(folder, loaded.model.config, quantization == "float32")
    return prove(loaded, backend, Sample(LINES[:sentences], LINES[:sentences], "lines"))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"positions": "halves", "tie_softmax": False, "softmax_bias": True, "activation": "gelu"},
        LEARNED,
        {"norm": "pre", "share_embeddings": False, "layer_norm_eps": 1e-2},
    ],
    ids=str,
)
def test_kinds_of_models_answer_alike(settings: dict[str, Any], tmp_path: Path) -> None:
    parity = exported(small_model(**settings), tmp_path)
    assert parity.passed, parity
    assert parity.identical == {"1": 12, "4": 12}, parity
    assert parity.largest_difference < 5e-5


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_all_kinds_answer_alike(tmp_path: Path) -> None:
    for number, settings in enumerate(kinds()):
        parity = exported(small_model(**settings), tmp_path / str(number))
        assert parity.passed, (settings, parity)
        assert min(parity.identical.values()) == parity.sentences, (settings, parity)


def test_differences_by_keeping_out_the_unknown_symbol_are_counted_apart(tmp_path: Path) -> None:
    """CTranslate2 then renormalises the other probabilities, which Dragoman does not."""
    loaded = small_model(softmax_bias=True)
    with torch.no_grad():
        loaded.model.softmax.bias[UNK] = 8.0
    parity = exported(loaded, tmp_path, sentences=len(LINES))
    assert parity.passed, parity
    assert parity.identical["4"] + parity.endless["4"] < parity.sentences
    assert parity.forbidden["4"] > 0
    assert f", {parity.forbidden['4']} by keeping out <unk>" in " ".join(parity.lines())


@pytest.mark.parametrize("quantization", ["int8", "int16", "float16", "bfloat16"])
def test_quantized_weights_are_loaded_and_close(quantization: str, tmp_path: Path) -> None:
    parity = exported(small_model(), tmp_path, quantization)
    assert parity.tokenized_alike
    # Without 16 bits, the library computes int16 in 8, which may overflow; int8 is exported in 7 bits, which can't.
    most = {"int8": 0.5, "int16": 5.0, "float16": 0.05, "bfloat16": 0.5}[quantization]
    assert 0 < parity.largest_difference < most


def test_the_proof_notices_wrong_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = conversion.sinusoids
    monkeypatch.setattr(conversion, "sinusoids", lambda length, size, layout: right(length, size, "halves"))
    parity = exported(small_model(), tmp_path)
    assert not parity.passed
    assert parity.examples


@pytest.mark.parametrize("settings", [{}, LEARNED], ids=str)
def test_positions_cover_the_default_limits_of_ctranslate2(settings: dict[str, Any], tmp_path: Path) -> None:
    """Argos sets no others."""
    ctranslate2.write_model(small_model(**settings), tmp_path)
    translator = library.Translator(str(tmp_path), intra_threads=1)
    (found,) = translator.translate_batch([["▁a"] * 2000], beam_size=1, min_decoding_length=256)
    assert len(found.hypotheses[0]) == 256
