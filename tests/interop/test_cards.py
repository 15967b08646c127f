from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest
import yaml
from small_models import small_model

from dragoman.checkpoint import Direction
from dragoman.interop.cards import card
from dragoman.interop.parity import Parity

PARITY = Parity(
    "library 1.0", 10, "lines", "logits", 1e-6, identical={"1": 10}, endless={"1": 0}, ties={"1": 0},
    bleu={"1": [30.0, 30.0]}, passed=True,
)  # fmt: skip


def test_norwegian_is_a_language() -> None:
    loaded = small_model()
    loaded = replace(loaded, direction=Direction("en", "no"))
    for text in (card(loaded, "huggingface", PARITY), loaded._card()):
        assert yaml.safe_load(text.split("---")[1])["language"] == ["en", "no"]


@pytest.mark.parametrize("target", ["ctranslate2", "huggingface", "argos", "onnx"])
@pytest.mark.parametrize("joint", [True, False])
def test_a_card_can_be_read_by_hubs_and_run_by_people(target: str, joint: bool) -> None:
    loaded = small_model(joint)
    text = card(loaded, target, PARITY, "translate-en_ne-1_0")
    front = yaml.safe_load(text.split("---")[1])
    assert front["language"] == ["en", "ne"]
    assert front["pipeline_tag"] == "translation"
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    ast.parse(code)
    names = set(re.findall(r'model_file="(.+?)"', code))
    assert names <= set(loaded.vocabulary.files())
    assert names or target in ("huggingface", "argos")
    assert "10 of 10 translations identical" in text
