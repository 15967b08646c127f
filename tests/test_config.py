"""Settings and presets: the defaults are the paper's, and what is impossible is refused by name."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import (
    FINE_TUNING,
    PRESETS,
    ConfigError,
    ModelConfig,
    OptimizerConfig,
    SearchConfig,
    TextConfig,
    TrainConfig,
    ValidationConfig,
    differences,
    model_preset,
)

RUN: dict[str, Any] = {"source": "en", "target": "de", "train": ["text"], "out": "out"}

IMPOSSIBLE: list[tuple[type, str, list[Any]]] = [
    *((ModelConfig, name, [0, 10**12, 8.0, True]) for name in ("d_model", "d_ff", "num_heads", "max_length")),
    *((ModelConfig, name, [0, 10**6]) for name in ("num_encoder_layers", "num_decoder_layers")),
    *((ModelConfig, name, [3, 2**31]) for name in ("source_vocab_size", "target_vocab_size")),
    *((ModelConfig, n, [-0.1, 1.0, math.nan]) for n in ("dropout", "attention_dropout", "activation_dropout")),
    (ModelConfig, "layer_norm_eps", [0.0, -1.0, math.nan]),
    *((ModelConfig, name, [0.0, math.inf]) for name in ("init_gain", "embedding_gain")),
    (ModelConfig, "num_heads", [7]),
    (ModelConfig, "d_model", [17]),
    (ModelConfig, "norm", ["both"]),
    (ModelConfig, "positions", ["rotary"]),
    (ModelConfig, "activation", ["tanh"]),
    (TextConfig, "vocab_size", [299, 2**31]),
    (TextConfig, "character_coverage", [0.89, 1.01, math.nan]),
    *((TextConfig, name, [0]) for name in ("sample_lines", "max_length")),
    (TextConfig, "subword_dropout", [-0.1, 1.0]),
    *((OptimizerConfig, name, [0, -5]) for name in ("batch_tokens", "accumulate", "warmup_steps")),
    *((OptimizerConfig, name, [0, -1e-3, math.nan, math.inf]) for name in ("lr_scale", "peak_lr", "epsilon")),
    *((OptimizerConfig, n, [-0.1, 1.0, math.nan]) for n in ("beta1", "beta2", "label_smoothing", "ema_decay")),
    *((OptimizerConfig, name, [-0.1, math.inf]) for name in ("weight_decay", "clip_norm", "r_drop")),
    *((SearchConfig, name, [0, 10**12]) for name in ("beam", "n_best", "max_length", "batch_tokens")),
    (SearchConfig, "min_length", [-1]),
    (SearchConfig, "length_penalty", [-1, 300, math.inf, math.nan]),
    (SearchConfig, "n_best", [5]),
    (SearchConfig, "long", ["wrap"]),
    *((ValidationConfig, name, [0, -1]) for name in ("every", "beam", "max_lines", "keep_last")),
    (ValidationConfig, "patience", [-1]),
    *((TrainConfig, name, [-1, 2**64]) for name in ("max_minutes", "max_steps", "max_epochs", "seed")),
    (TrainConfig, "max_minutes", [math.inf, math.nan]),
    (TrainConfig, "log_every", [0]),
    (TrainConfig, "save_minutes", [0.0, math.nan]),
    (TrainConfig, "train", [[]]),
    (TrainConfig, "source", [""]),
    (TrainConfig, "target", [""]),
]


def build(config: type, **values: Any) -> Any:
    """A config with what it requires, and these values."""
    return config(**((RUN if config is TrainConfig else {}) | values))


@pytest.mark.parametrize(("config", "name", "values"), IMPOSSIBLE)
def test_an_impossible_value_is_refused_by_the_name_of_its_field(config: type, name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ConfigError, match=rf"\b{name}\b") as error:
            build(config, **{name: value})
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("config", "values", "named"),
    [
        (ModelConfig, {"d_model": 512, "num_heads": 6}, ["d_model", "num_heads", "512", "6"]),
        (ModelConfig, {"source_vocab_size": 100, "target_vocab_size": 200}, ["share_embeddings"]),
        (TextConfig, {"subword_dropout": 0.1, "subwords": "unigram"}, ["subword_dropout", "bpe"]),
        (SearchConfig, {"beam": 3, "n_best": 4}, ["n_best", "beam", "3", "4"]),
        (TrainConfig, {"optimizer": OptimizerConfig(schedule="linear")}, ["linear", "max_steps", "max_minutes"]),
        (TrainConfig, {"optimizer": OptimizerConfig(schedule="cosine")}, ["cosine", "max_steps", "max_minutes"]),
        (TrainConfig, {"text": TextConfig(vocabulary="separate")}, ["model.share_embeddings"]),
        (TrainConfig, {"text": TextConfig(max_length=512)}, ["text.max_length", "model.max_length", "512"]),
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
        (TrainConfig, {"optimizer": OptimizerConfig(schedule="linear"), "max_steps": 1}),
        (TrainConfig, {"optimizer": OptimizerConfig(schedule="cosine"), "max_minutes": 0.1}),
        (TrainConfig, {"model": ModelConfig(share_embeddings=False), "text": TextConfig(vocabulary="separate")}),
        (TrainConfig, {"text": TextConfig(max_length=511)}),
        (TrainConfig, {"from_": "other", "save_minutes": 1e-6, "log_every": 1, "seed": 2**63 - 1}),
        (OptimizerConfig, {"clip_norm": 0.0, "label_smoothing": 0.0, "beta1": 0.0}),
        (ValidationConfig, {"patience": 0}),
    ],
)
def test_values_at_the_limit_are_possible(config: type, values: dict[str, Any]) -> None:
    built = build(config, **values)
    assert all(getattr(built, name) == value for name, value in values.items())


# ---- the paper


def test_the_defaults_are_those_of_the_paper() -> None:
    model, optimizer, search = ModelConfig(), OptimizerConfig(), SearchConfig()
    assert (model.num_encoder_layers, model.num_decoder_layers, model.d_model, model.d_ff) == (6, 6, 512, 2048)
    assert (model.num_heads, model.d_k, model.dropout) == (8, 64, 0.1)
    assert (model.norm, model.activation, model.positions) == ("post", "relu", "interleaved")
    assert model.share_embeddings
    assert model.tie_softmax
    assert model.attention_dropout == model.activation_dropout == 0.0
    assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon) == (0.9, 0.98, 1e-9)
    assert (optimizer.schedule, optimizer.warmup_steps, optimizer.label_smoothing) == ("paper", 4000, 0.1)
    assert optimizer.weight_decay == 0
    assert (search.beam, search.length_penalty, search.max_length) == (4, 0.6, 50)


def test_the_defaults_are_those_of_the_recorded_results() -> None:
    run = build(TrainConfig)
    assert run.optimizer.clip_norm == 1.0
    assert (run.validation.metric, run.validation.patience, run.validation.keep_last) == ("bleu", 10, 5)
    assert (run.model.layer_norm_eps, run.model.max_length, run.text.max_length) == (1e-5, 512, 200)
    assert (run.text.subword_dropout, run.optimizer.r_drop, run.optimizer.ema_decay) == (0.0, 0.0, 0.0)


# ---- groups of settings


def test_a_link_to_the_folder_to_write_is_that_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with pytest.raises(ConfigError, match="same folder"):
        build(TrainConfig, from_=str(tmp_path / "link"), out=str(tmp_path / "out"))


def test_the_shape_of_a_model_is_all_except_dropout_and_initialisation() -> None:
    model = ModelConfig(d_model=64, dropout=0.3, attention_dropout=0.2, activation_dropout=0.1)
    names = {field.name for field in fields(ModelConfig)}
    left_out = {"dropout", "attention_dropout", "activation_dropout", "init_gain", "embedding_gain"}
    assert names - model.shape().keys() == left_out
    assert model.shape()["d_model"] == 64
    assert ModelConfig(dropout=0.5).shape() == ModelConfig().shape()


# ---- presets


def test_presets_are_the_models_of_their_papers() -> None:
    assert build(TrainConfig).preset == "base"
    assert model_preset("base") == ModelConfig()
    big, tiny = model_preset("big"), model_preset("tiny")
    assert (big.num_encoder_layers, big.d_model, big.d_ff, big.num_heads, big.dropout) == (6, 1024, 4096, 16, 0.3)
    assert (tiny.num_encoder_layers, tiny.d_model, tiny.d_ff, tiny.num_heads, tiny.dropout) == (4, 128, 256, 4, 0.3)
    with pytest.raises(ConfigError, match="tiny, small, base, big"):
        model_preset("huge")


def test_rates_of_short_runs_are_those_of_the_recorded_results() -> None:
    rates = {name: PRESETS[name].get("optimizer.peak_lr") for name in PRESETS}
    assert rates == {"tiny": 4e-3, "small": 2e-3, "base": None, "big": None}


@pytest.mark.parametrize("settings", [*PRESETS.values(), FINE_TUNING], ids=[*PRESETS, "fine-tuning"])
def test_presets_set_only_settings_that_exist(settings: dict[str, Any]) -> None:
    for key in settings:
        group, field = key.split(".")
        assert hasattr(getattr(build(TrainConfig), group), field)


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
