from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import UNK
from dragoman.inference.engine import Engine
from dragoman.interop import ctranslate2
from dragoman.interop.backends import CTranslate2Side
from dragoman.interop.parity import Parity, Sample, prove
from dragoman.text.subwords import Vocabulary
from tests.small_models import LINES, kinds, small_model

library = pytest.importorskip("ctranslate2", reason="needs ctranslate2: pip install 'dragoman[ctranslate2]'")


def exported(loaded: ModelFolder, folder: Path, quantization: str = "float32") -> Parity:
    folder.mkdir(exist_ok=True)
    ctranslate2.write_model(loaded, folder, quantization)
    side = CTranslate2Side(folder, Vocabulary.load(folder), loaded.model.config, quantization == "float32")
    engine = Engine(loaded.model, loaded.model.softmax.weight.device, autocast=False)
    return prove(engine, loaded.vocabulary, side, Sample(LINES[:12], LINES[:12], "lines"), "en")


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", ["interleaved", "halves", "learned"])
@pytest.mark.parametrize("joint", [True, False])
def test_every_kind_of_model_answers_alike(norm: str, positions: str, joint: bool, tmp_path: Path) -> None:
    loaded = small_model(joint, norm=norm, positions=positions, softmax_bias=norm == "pre")
    parity = exported(loaded, tmp_path / "out")
    assert parity.passed, parity
    assert parity.identical == {"1": 12, "4": 12}, parity
    assert parity.largest_difference < 1e-4


def test_what_differs_because_the_unknown_symbol_was_kept_out_is_counted_apart(tmp_path: Path) -> None:
    """CTranslate2 then normalises what is left, which Dragoman does not."""
    loaded = small_model(softmax_bias=True)
    with torch.no_grad():
        loaded.model.softmax.bias[UNK] = 8.0
    parity = exported(loaded, tmp_path / "out")
    assert parity.passed, parity
    assert parity.identical["4"] + parity.endless["4"] < parity.sentences
    assert parity.forbidden["4"] > 0
    assert f", {parity.forbidden['4']} by keeping out <unk>" in " ".join(parity.lines())


def failures(some: Iterable[dict[str, Any]], folder: Path) -> list[Any]:
    failed: list[Any] = []
    for number, settings in enumerate(some):
        parity = exported(small_model(**settings), folder / str(number))
        if not parity.passed or min(parity.identical.values()) < parity.sentences:
            failed.append((settings, parity))
    return failed


@pytest.mark.slow
def test_a_fifth_of_all_kinds_answers_alike(tmp_path: Path) -> None:
    assert not failures(list(kinds())[::5], tmp_path)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_all_kinds_answer_alike(tmp_path: Path) -> None:
    assert not failures(kinds(), tmp_path)


@pytest.mark.parametrize("quantization", ["int8", "int16", "float16", "bfloat16"])
def test_quantized_weights_are_loaded_and_close(quantization: str, tmp_path: Path) -> None:
    parity = exported(small_model(), tmp_path / "out", quantization)
    assert parity.tokenized_alike
    assert 0 < parity.largest_difference < (0.5 if quantization in ("int8", "bfloat16") else 0.05)


def test_the_proof_notices_a_wrong_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = small_model()
    right = ctranslate2.sinusoids
    monkeypatch.setattr(ctranslate2, "sinusoids", lambda length, size, layout: right(length, size, "halves"))
    parity = exported(loaded, tmp_path / "out")
    assert not parity.passed
    assert parity.examples


def test_the_proof_notices_what_changes_no_translation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ctranslate2.specification

    def wrong(specs: Any, loaded: ModelFolder) -> Any:
        spec = right(specs, loaded)
        spec.config.layer_norm_epsilon = 1e-2
        return spec

    monkeypatch.setattr(ctranslate2, "specification", wrong)
    parity = exported(small_model(norm="pre"), tmp_path / "out")
    assert parity.identical == {"1": 12, "4": 12}
    assert parity.largest_difference < 1e-2
    assert not parity.passed


@pytest.mark.parametrize("positions", ["interleaved", "halves", "learned"])
def test_its_own_limits_are_within_the_positions(positions: str, tmp_path: Path) -> None:
    """Argos asks for no others."""
    ctranslate2.write_model(small_model(positions=positions, max_length=64), tmp_path)
    translator = library.Translator(str(tmp_path), intra_threads=1)
    (found,) = translator.translate_batch([["▁a"] * 2000], beam_size=1, min_decoding_length=256)
    assert len(found.hypotheses[0]) == 256


@pytest.mark.parametrize(
    "settings",
    [{"activation": "gelu"}, {"activation": "swish"}, *({"layer_norm_eps": 1e-2, "norm": n} for n in ("post", "pre"))],
    ids=str,
)
def test_activations_and_epsilon_are_those_of_ctranslate2(settings: dict[str, Any], tmp_path: Path) -> None:
    parity = exported(small_model(**settings), tmp_path / "out")
    assert parity.passed
    assert parity.largest_difference < 5e-5
