from __future__ import annotations

import ast
import re
from dataclasses import replace

import pytest
import yaml

from dragoman.checkpoint import IMPORTED_FACT, TEXT_FACT, Direction
from dragoman.interop.cards import card
from dragoman.interop.parity import Parity
from tests.small_models import small_model

PARITY = Parity(
    "library 1.0", 10, "lines", "logits", 1e-6, identical={"1": 10}, endless={"1": 0}, ties={"1": 0},
    bleu={"1": [30.0, 30.0]}, passed=True,
)  # fmt: skip


def test_norwegian_is_a_language() -> None:
    loaded = small_model()
    loaded = replace(loaded, direction=Direction("en", "no"))
    for text in (card(loaded, "huggingface", "float32", PARITY), loaded._card()):
        assert yaml.safe_load(text.split("---")[1])["language"] == ["en", "no"]


@pytest.mark.parametrize("target", ["ctranslate2", "huggingface", "argos", "onnx"])
@pytest.mark.parametrize("joint", [True, False])
def test_a_card_can_be_read_by_hubs_and_run_by_people(target: str, joint: bool) -> None:
    if target == "argos":
        pytest.importorskip("babel", reason="needs babel: pip install 'dragoman[argos]'")
    loaded = small_model(joint)
    text = card(loaded, target, "float32", PARITY, "translate-en_ne-1_0")
    front = yaml.safe_load(text.split("---")[1])
    assert front["language"] == ["en", "ne"]
    assert front["pipeline_tag"] == "translation"
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    ast.parse(code)
    names = set(re.findall(r'model_file="(.+?)"', code))
    assert names <= set(loaded.vocabulary.files())
    assert names or target in ("huggingface", "argos")
    assert "10 of 10 translations identical" in text


def test_a_card_says_how_the_weights_are_kept_and_all_that_is_known_of_the_model() -> None:
    loaded = small_model().with_facts({"validation": {"bleu": 30.5}, "signatures": {"bleu": "a|b"}})
    text = card(loaded, "ctranslate2", "int8", PARITY)
    assert "its weights in int8" in text
    assert "`pip install ctranslate2 sentencepiece`" in text
    assert "at most 63 subwords" in text
    assert "| validation | bleu: 30.5 |" in text
    assert "| signatures | bleu: a\\|b |" in text


def test_a_card_says_who_trained_the_model() -> None:
    loaded = small_model()
    assert "trained with Dragoman. Exported for CTranslate2" in card(loaded, "ctranslate2", "float32", PARITY)
    arrived = loaded.with_facts({IMPORTED_FACT: "opus"})
    for text in (card(arrived, "huggingface", "float32", PARITY), arrived._card()):
        assert "imported into Dragoman from opus." in text
        assert "trained with" not in text
    facts = {"fine-tuned from": {"folder": "m", **arrived.direction.facts}, TEXT_FACT: "abc"}
    tuned = replace(loaded, direction=Direction("en", "no", facts))
    assert "imported into Dragoman from opus and fine-tuned there." in tuned._card()


def test_a_card_says_what_happens_to_what_is_too_long_and_what_argos_needs() -> None:
    loaded = small_model()
    for target in ("ctranslate2", "huggingface", "onnx"):
        assert "at most 63 subwords; what is beyond is left out." in card(loaded, target, "float32", PARITY)
    pytest.importorskip("babel", reason="needs babel: pip install 'dragoman[argos]'")
    packed = card(replace(loaded, direction=Direction("eng", "pt-BR")), "argos", "float32", PARITY)
    assert "pip install 'argostranslate>=1.10'" in packed
    assert 'translate("…", "en", "pb")' in packed
    assert "It takes any text: Argos finds the sentences, which are to be of at most 63 subwords." in packed


def test_nothing_that_a_model_says_of_itself_becomes_a_program() -> None:
    pytest.importorskip("babel", reason="needs babel: pip install 'dragoman[argos]'")
    loaded = small_model()
    object.__setattr__(loaded.direction, "target", 'ne"); print("')  # whatever lets it pass
    text = card(loaded, "argos", "float32", PARITY, 'translate-en_ne"); print("-1_0')
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    calls = [node.func for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    assert sum(isinstance(call, ast.Name) and call.id == "print" for call in calls) == 1
