"""What the verbs take: impossible values are refused by name, and every option is explained."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest
from docstring_parser import parse_from_object

from dragoman.cli.main import VERBS
from dragoman.cli.options import (
    ALONE,
    AverageConfig,
    CheckConfig,
    CompareConfig,
    DemoConfig,
    DownloadConfig,
    EvaluateConfig,
    ExportConfig,
    FiguresConfig,
    ImportConfig,
    InspectConfig,
    ReproduceConfig,
    ScoreConfig,
    SplitConfig,
    TranslateConfig,
)
from dragoman.config import ConfigError, TrainConfig

REQUIRED: dict[type, dict[str, Any]] = {
    SplitConfig: {"source": "en", "target": "de", "text": ["text"], "out": "data"},
    CheckConfig: {"source": "en", "target": "de", "train": ["text"]},
    DemoConfig: {},
    TranslateConfig: {"folder": "model"},
    EvaluateConfig: {"folder": "model", "test": ["text"]},
    ScoreConfig: {"folder": "model", "test": ["text"]},
    CompareConfig: {"system": ["a.json"]},
    ReproduceConfig: {"recipe": "recipe.yaml"},
    DownloadConfig: {},
    AverageConfig: {"folder": "run", "out": "model"},
    InspectConfig: {"folder": "model", "sentence": "a"},
    FiguresConfig: {"out": "pictures"},
    ExportConfig: {"folder": "model", "to": "onnx", "out": "exported"},
    ImportConfig: {"folder": "opus", "out": "model"},
}


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        (AverageConfig, "last", 0),
        (CompareConfig, "system", []),
        (CompareConfig, "baseline", ["b.json", "c.json"]),
        (ReproduceConfig, "seeds", ["1", "two"]),
        (SplitConfig, "pairs", 0),
        (SplitConfig, "text", []),
        (SplitConfig, "source", ""),
        (CheckConfig, "examples", -1),
        (CheckConfig, "source", ""),
        (CheckConfig, "target", ""),
        (ScoreConfig, "length_penalty", -0.5),
        (TranslateConfig, "alignment_layer", -1),
        (TranslateConfig, "beam", 0),
        (TranslateConfig, "workers", -1),
        (InspectConfig, "alignment_layer", -1),
        (InspectConfig, "beam", 0),
        (EvaluateConfig, "beam", 0),
        (EvaluateConfig, "workers", -1),
        (FiguresConfig, "dpi", 0),
        (FiguresConfig, "model", "folder"),
        (FiguresConfig, "sentence", "without a model"),
    ],
)
def test_an_impossible_value_is_refused_by_the_name_of_its_field(config: type, name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"\b{name}\b") as error:
        config(**(REQUIRED[config] | {name: value}))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("config", REQUIRED)
def test_settings_cannot_be_changed_afterwards(config: type) -> None:
    built = config(**REQUIRED[config])
    name = fields(built)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(built, name, getattr(built, name))


def test_every_verb_has_its_options_here_or_is_training() -> None:
    assert {verb.config for verb in VERBS.values()} == {*REQUIRED, TrainConfig}


@pytest.mark.parametrize("config", REQUIRED)
def test_every_option_is_explained(config: type) -> None:
    texts = {p.arg_name for base in config.__mro__[:-1] for p in parse_from_object(base).params if p.description}
    assert {field.name for field in fields(config)} <= texts


def test_an_option_that_may_stand_alone_then_has_a_possible_value() -> None:
    (alignments,) = [field for field in fields(TranslateConfig) if ALONE in field.metadata]
    assert alignments.name == "alignments"
    assert alignments.metadata[ALONE] in ("auto", "words", "subwords")
