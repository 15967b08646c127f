from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dragoman.config import EOS, SearchConfig
from dragoman.inference.engine import Engine
from dragoman.interop import ctranslate2, huggingface
from dragoman.interop.backends import CTranslate2Side, HuggingFaceSide
from dragoman.interop.parity import OtherSide
from dragoman.text.subwords import Vocabulary
from tests.small_models import LINES, small_model


@pytest.fixture(params=["ctranslate2", "huggingface"])
def side(request: pytest.FixtureRequest, tmp_path: Path) -> OtherSide:
    loaded = small_model()
    if request.param == "huggingface":
        pytest.importorskip("transformers", reason="needs transformers: pip install 'dragoman[huggingface]'")
        huggingface.write_model(loaded, tmp_path)
        return HuggingFaceSide(tmp_path)
    pytest.importorskip("ctranslate2", reason="needs ctranslate2: pip install 'dragoman[ctranslate2]'")
    ctranslate2.write_model(loaded, tmp_path)
    return CTranslate2Side(tmp_path, Vocabulary.load(tmp_path), loaded.model.config, exact=True)


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_a_library_searches_as_dragoman_does(side: OtherSide, beam: int) -> None:
    loaded = small_model()
    engine = Engine(loaded.model, torch.device("cpu"), autocast=False)
    config = SearchConfig(beam=beam, length_penalty=0.0)
    for source in side.encode(LINES[:20]):
        limit = min(len(source) + config.max_length, loaded.model.config.max_length - 1)
        assert side.search([source], beam, limit) == [engine.search([source], config)[0][0].tokens]


def test_a_limit_is_kept(side: OtherSide) -> None:
    (source,) = side.encode(LINES[8:9])
    assert len(side.search([source], 1, 2)[0]) <= 3
    assert source[-1] == EOS
