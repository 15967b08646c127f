"""Settings: the defaults are the paper's, and what is impossible is refused by name."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import (
    CleaningConfig,
    ConfigError,
    DragomanError,
    ModelConfig,
    OptimizerConfig,
    SearchConfig,
    TextConfig,
    TrainConfig,
    ValidationConfig,
    differences,
)

RUN: dict[str, Any] = {"source": "en", "target": "de", "train": ["text"], "out": "out"}

IMPOSSIBLE: list[tuple[type, str, list[Any]]] = [
    *((ModelConfig, name, [0, -1]) for name in ("d_model", "d_ff", "num_heads", "max_length")),
    *((ModelConfig, name, [0, -1]) for name in ("num_encoder_layers", "num_decoder_layers")),
    *((ModelConfig, name, [0, 3]) for name in ("source_vocab_size", "target_vocab_size")),
    *((ModelConfig, n, [-0.1, 1.0, 2, math.nan]) for n in ("dropout", "attention_dropout", "activation_dropout")),
    (ModelConfig, "num_heads", [7]),
    (ModelConfig, "d_model", [17]),
    (TextConfig, "vocab_size", [0, 256, 299]),
    (TextConfig, "character_coverage", [0.0, 0.89, 1.01, math.nan]),
    (TextConfig, "sample_lines", [0]),
    (TextConfig, "max_length", [0]),
    *((OptimizerConfig, name, [0, -5]) for name in ("batch_tokens", "accumulate", "warmup_steps")),
    *((OptimizerConfig, name, [0, -1e-3, math.nan]) for name in ("lr_scale", "peak_lr", "epsilon")),
    *((OptimizerConfig, name, [-0.1, 1.0, math.nan]) for name in ("beta1", "beta2", "label_smoothing")),
    *((OptimizerConfig, name, [-0.1, math.nan]) for name in ("weight_decay", "clip_norm")),
    *((SearchConfig, name, [0, -1]) for name in ("beam", "n_best", "max_length", "batch_tokens")),
    *((SearchConfig, name, [-1]) for name in ("min_length", "length_penalty")),
    (SearchConfig, "n_best", [5]),
    *((ValidationConfig, name, [0, -1]) for name in ("every", "beam", "max_lines", "keep_last")),
    (ValidationConfig, "patience", [-1]),
    (SearchConfig, "long", ["wrap", ""]),
    *((TrainConfig, name, [-1]) for name in ("max_minutes", "max_steps", "max_epochs", "seed")),
    (TrainConfig, "log_every", [0, -1]),
    (TrainConfig, "save_minutes", [0.0, -1.0, math.nan]),
    (TrainConfig, "train", [[]]),
    (TrainConfig, "source", [""]),
    (TrainConfig, "target", [""]),
]


def build(config: type, **values: Any) -> Any:
    """A config with what it requires, and these values."""
    return config(**((RUN if config is TrainConfig else {}) | values))


@pytest.mark.parametrize(
    ("config", "name", "value"), [(config, name, value) for config, name, values in IMPOSSIBLE for value in values]
)
def test_an_impossible_value_is_refused_by_the_name_of_its_field(config: type, name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"\b{name}\b") as error:
        build(config, **{name: value})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("config", "values", "named"),
    [
        (ModelConfig, {"d_model": 512, "num_heads": 6}, ["d_model", "num_heads", "512", "6"]),
        (ModelConfig, {"source_vocab_size": 100, "target_vocab_size": 200}, ["share_embeddings"]),
        (SearchConfig, {"beam": 3, "n_best": 4}, ["n_best", "beam", "3", "4"]),
        (TrainConfig, {"optimizer": OptimizerConfig(schedule="linear")}, ["linear", "max_steps", "max_minutes"]),
        (TrainConfig, {"optimizer": OptimizerConfig(schedule="cosine")}, ["cosine", "max_steps", "max_minutes"]),
        (TrainConfig, {"text": TextConfig(vocabulary="separate")}, ["model.share_embeddings"]),
        (TrainConfig, {"text": TextConfig(max_length=512)}, ["text.max_length", "model.max_length", "512"]),
        (TrainConfig, {"from_": "out"}, ["from", "out"]),
        (TrainConfig, {"from_": "elsewhere/../out/."}, ["from", "out"]),
    ],
)
def test_settings_that_exclude_each_other_are_both_named(
    config: type, values: dict[str, Any], named: list[str]
) -> None:
    with pytest.raises(ConfigError) as error:
        build(config, **values)
    assert all(name in str(error.value) for name in named)


@pytest.mark.parametrize(
    ("config", "values"),
    [
        (ModelConfig, {"d_model": 15, "num_heads": 3, "positions": "learned"}),
        (ModelConfig, {"share_embeddings": False, "source_vocab_size": 100, "target_vocab_size": 200}),
        (ModelConfig, {"num_heads": 1, "num_encoder_layers": 1, "dropout": 0.0, "max_length": 1}),
        (SearchConfig, {"beam": 1, "length_penalty": 0.0, "max_length": 1}),
        (SearchConfig, {"beam": 4, "n_best": 4}),
        (TrainConfig, {"optimizer": OptimizerConfig(schedule="linear"), "max_steps": 1}),
        (TrainConfig, {"optimizer": OptimizerConfig(schedule="cosine"), "max_minutes": 0.1}),
        (TrainConfig, {"model": ModelConfig(share_embeddings=False), "text": TextConfig(vocabulary="separate")}),
        (TrainConfig, {"text": TextConfig(max_length=511)}),
        (OptimizerConfig, {"clip_norm": 0.0, "label_smoothing": 0.0, "beta1": 0.0}),
        (ValidationConfig, {"patience": 0}),
        (TrainConfig, {"from_": "other", "save_minutes": 1e-6, "log_every": 1}),
    ],
)
def test_values_at_the_limit_are_possible(config: type, values: dict[str, Any]) -> None:
    built = build(config, **values)
    assert all(getattr(built, name) == value for name, value in values.items())


@pytest.mark.parametrize(
    "values",
    [
        {"norm": "both"},
        {"positions": "rotary"},
        {"activation": "tanh"},
        {"layer_norm_eps": -1.0},
        {"layer_norm_eps": math.nan},
        {"init_gain": 0.0},
        {"embedding_gain": 0.0},
    ],
)
def test_an_impossible_choice_is_refused_where_no_command_line_stands_before_it(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(values))):
        ModelConfig(**values)


def test_a_config_error_is_both_an_error_of_dragoman_and_a_value_error() -> None:
    with pytest.raises(ConfigError) as error:
        ModelConfig(d_model=0)
    assert isinstance(error.value, DragomanError)
    assert isinstance(error.value, ValueError)


# ---- the paper


def test_the_defaults_are_the_base_model_of_the_paper() -> None:
    model = ModelConfig()
    assert (model.num_encoder_layers, model.num_decoder_layers, model.d_model, model.d_ff) == (6, 6, 512, 2048)
    assert (model.num_heads, model.d_k, model.dropout) == (8, 64, 0.1)
    assert (model.norm, model.activation, model.positions) == ("post", "relu", "interleaved")
    assert model.share_embeddings
    assert model.tie_softmax
    assert model.attention_dropout == model.activation_dropout == 0.0


def test_the_defaults_are_the_optimisation_and_the_search_of_the_paper() -> None:
    optimizer, search = OptimizerConfig(), SearchConfig()
    assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon) == (0.9, 0.98, 1e-9)
    assert (optimizer.schedule, optimizer.warmup_steps, optimizer.label_smoothing) == ("paper", 4000, 0.1)
    assert optimizer.weight_decay == 0
    assert (search.beam, search.length_penalty, search.max_length) == (4, 0.6, 50)


def test_the_defaults_are_what_the_pages_and_the_recorded_results_suppose() -> None:
    run = TrainConfig(source="en", target="de", train=["text"], out="out")
    assert run.optimizer.clip_norm == 1.0
    assert (run.validation.metric, run.validation.patience, run.validation.keep_last) == ("bleu", 10, 5)
    assert (run.model.layer_norm_eps, run.model.max_length, run.text.max_length) == (1e-5, 512, 200)
    assert (run.text.subword_dropout, run.optimizer.r_drop, run.optimizer.ema_decay) == (0.0, 0.0, 0.0)


# ---- all of them


ALL = [ModelConfig, TextConfig, CleaningConfig, OptimizerConfig, SearchConfig, ValidationConfig, TrainConfig]


@pytest.mark.parametrize("config", ALL)
def test_settings_cannot_be_changed_afterwards(config: type) -> None:
    built = build(config)
    assert is_dataclass(built)
    name = fields(built)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(built, name, getattr(built, name))


def test_two_runs_share_no_list_of_texts() -> None:
    assert build(TrainConfig).valid is not build(TrainConfig).valid
    assert build(TrainConfig).test is not build(TrainConfig).test


def test_a_link_to_the_folder_to_write_is_that_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with pytest.raises(ConfigError, match="same folder"):
        build(TrainConfig, from_=str(tmp_path / "link"), out=str(tmp_path / "out"))


def test_only_what_would_flatter_the_scores_is_cleaned_unasked() -> None:
    clean = CleaningConfig()
    assert [field.name for field in fields(clean) if getattr(clean, field.name)] == ["overlap"]


def test_the_shape_of_a_model_is_all_but_its_dropout_and_beginning() -> None:
    model = ModelConfig(d_model=64, dropout=0.3, attention_dropout=0.2, activation_dropout=0.1)
    names = {field.name for field in fields(ModelConfig)}
    left_out = {"dropout", "attention_dropout", "activation_dropout", "init_gain", "embedding_gain"}
    assert names - model.shape().keys() == left_out
    assert model.shape()["d_model"] == 64
    assert ModelConfig(dropout=0.5).shape() == ModelConfig().shape()
    assert ModelConfig(num_heads=4).shape() != ModelConfig().shape()


# ---- differences

BEFORE: dict[str, Any] = {"seed": 1, "out": "here", "from_": "a", "model": {"d_model": 512, "norm": "post", "out": 1}}


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ({}, []),
        ({"seed": 2}, ["seed was 1 and is 2"]),
        ({"from_": "b"}, ["from was a and is b"]),
        ({"out": "there"}, []),
        ({"model": BEFORE["model"] | {"d_model": 256}}, ["model.d_model was 512 and is 256"]),
        ({"model": BEFORE["model"] | {"out": 2}}, ["model.out was 1 and is 2"]),  # only the outermost names are free
        (
            {"seed": 0, "model": BEFORE["model"] | {"norm": "pre"}},
            ["seed was 1 and is 0", "model.norm was post and is pre"],
        ),
        ({"new": 3, "model": BEFORE["model"] | {"new": 3}}, []),
        ({"model": None}, [f"model was {BEFORE['model']} and is None"]),
    ],
    ids=str,
)
def test_differences_are_named_with_both_values(now: dict[str, Any], found: list[str]) -> None:
    assert differences(BEFORE, BEFORE | now, free=["out"]) == found


def test_settings_that_only_one_side_knows_are_no_difference() -> None:
    assert differences({"old": 1, "seed": 1}, {"seed": 1}) == []
    assert differences({}, {"seed": 1}) == []
