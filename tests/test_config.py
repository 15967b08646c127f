"""Settings and presets: the defaults are the paper's, and what is impossible is refused by name."""

import math
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest

from dragoman.config import (
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


def build(config: type, **values: Any) -> Any:
    """A config with what it requires, and these values."""
    return config(**((RUN if config is TrainConfig else {}) | values))


CONFIGS = [ModelConfig, TextConfig, OptimizerConfig, SearchConfig, ValidationConfig, TrainConfig]


@pytest.mark.parametrize("config", CONFIGS)
def test_every_number_has_bounds_and_what_is_outside_is_refused_by_name(config: type) -> None:
    for name, kind in get_type_hints(config, include_extras=True).items():
        assert kind not in (int, float), f"{name} has no bounds"
        if get_origin(kind) is Annotated:
            _, (least, most) = get_args(kind)
            for value in (least - 1, most + 1, math.nan, math.inf, True, "1"):
                with pytest.raises(ConfigError, match=f"^{name} must be .*, not {value!r}"):
                    build(config, **{name: value})
        if get_origin(kind) is Literal:
            with pytest.raises(ConfigError, match=f"^{name} must be one of .*, not 'other'"):
                build(config, **{name: "other"})


@pytest.mark.parametrize(
    ("config", "values", "named"),
    [
        (ModelConfig, {"d_model": 512, "num_heads": 6}, ["d_model", "num_heads", "512", "6"]),
        (ModelConfig, {"d_model": 17, "num_heads": 1}, ["d_model", "17"]),
        (ModelConfig, {"source_vocab_size": 100, "target_vocab_size": 200}, ["share_embeddings"]),
        (TextConfig, {"subword_dropout": 0.1, "subwords": "unigram"}, ["subword_dropout", "bpe"]),
        (SearchConfig, {"beam": 3, "n_best": 4}, ["n_best", "beam", "3", "4"]),
        (TrainConfig, {"optimizer": OptimizerConfig(schedule="linear")}, ["linear", "max_steps", "max_minutes"]),
        (TrainConfig, {"text": TextConfig(vocabulary="separate")}, ["model.share_embeddings"]),
        (TrainConfig, {"text": TextConfig(max_length=512)}, ["text.max_length", "model.max_length", "512"]),
    ],
)
def test_impossible_settings_are_named(config: type, values: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        build(config, **values)
    assert all(name in str(error.value) for name in named)


# ---- the paper


def test_the_defaults_are_those_of_the_paper() -> None:
    model, optimizer, search = ModelConfig(), OptimizerConfig(), SearchConfig()
    assert (model.num_encoder_layers, model.num_decoder_layers, model.d_model, model.d_ff) == (6, 6, 512, 2048)
    assert (model.num_heads, model.dropout) == (8, 0.1)
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
    assert model_preset("base") == ModelConfig()
    big, tiny = model_preset("big"), model_preset("tiny")
    assert (big.num_encoder_layers, big.d_model, big.d_ff, big.num_heads, big.dropout) == (6, 1024, 4096, 16, 0.3)
    assert (tiny.num_encoder_layers, tiny.d_model, tiny.d_ff, tiny.num_heads, tiny.dropout) == (4, 128, 256, 4, 0.3)
    with pytest.raises(ConfigError, match="tiny, small, fast, base, big"):
        model_preset("huge")


# ---- differences

BEFORE: dict[str, Any] = {"seed": 1, "out": "here", "from_": "a", "model": {"d_model": 512, "norm": "post", "out": 1}}


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ({"seed": 2, "out": "there", "new": 3}, ["seed was 1 and is 2"]),
        ({"from_": "b"}, ["from was a and is b"]),
        ({"model": BEFORE["model"] | {"d_model": 256, "new": 3}}, ["model.d_model was 512 and is 256"]),
        ({"model": BEFORE["model"] | {"out": 2}}, ["model.out was 1 and is 2"]),  # only the outermost names are free
        ({"model": None}, [f"model was {BEFORE['model']} and is None"]),
    ],
    ids=str,
)
def test_differences_are_named_with_both_values(now: dict[str, Any], found: list[str]) -> None:
    assert differences(BEFORE, BEFORE | now, free=["out"]) == found
