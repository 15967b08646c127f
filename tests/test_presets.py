"""Presets are possible settings, and the paper's where they say so."""

from __future__ import annotations

import pytest

from dragoman.config import FINE_TUNING, PRESETS, ConfigError, ModelConfig, TrainConfig, model_preset

RUN = TrainConfig(source="en", target="de", train=["text"], out="out")


def test_the_default_preset_is_the_default_model() -> None:
    assert RUN.preset == "base"
    assert model_preset("base") == ModelConfig() == RUN.model


def test_the_big_preset_is_the_big_model_of_the_paper() -> None:
    big = model_preset("big")
    assert (big.num_encoder_layers, big.d_model, big.d_ff, big.num_heads, big.dropout) == (6, 1024, 4096, 16, 0.3)
    assert big.d_k == 64


def test_the_tiny_preset_is_the_tiny_model_of_wu_et_al() -> None:
    tiny = model_preset("tiny")
    assert (tiny.num_encoder_layers, tiny.d_model, tiny.d_ff, tiny.num_heads, tiny.dropout) == (4, 128, 256, 4, 0.3)


def test_rates_of_short_runs_are_those_of_the_recorded_results() -> None:
    rates = {name: PRESETS[name].get("optimizer.peak_lr") for name in PRESETS}
    assert rates == {"tiny": 4e-3, "small": 2e-3, "base": None, "big": None}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_possible_model_with_what_it_says(name: str) -> None:
    model = model_preset(name)
    assert model.d_k * model.num_heads == model.d_model
    assert all(getattr(model, key[6:]) == value for key, value in PRESETS[name].items() if key.startswith("model."))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_only_settings_that_exist(name: str) -> None:
    for key in PRESETS[name]:
        group, field = key.split(".")
        assert hasattr(getattr(RUN, group), field)


def test_presets_grow_from_tiny_to_big() -> None:
    sizes = [model_preset(name).d_model for name in ("tiny", "small", "base", "big")]
    assert sizes == sorted(set(sizes))
    assert set(PRESETS) == {"tiny", "small", "base", "big"}


def test_an_unknown_preset_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match="tiny, small, base, big"):
        model_preset("huge")


def test_what_fine_tuning_changes_exists_and_is_gentler_than_every_preset() -> None:
    for key in FINE_TUNING:
        group, field = key.split(".")
        assert hasattr(getattr(RUN, group), field)
    rates = [preset["optimizer.peak_lr"] for preset in PRESETS.values() if "optimizer.peak_lr" in preset]
    assert FINE_TUNING["optimizer.peak_lr"] < min(rates)
