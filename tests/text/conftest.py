"""A run whose text can be prepared."""

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.config import TextConfig, TrainConfig
from tests.text.small_texts import sentences, write_text


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    pairs = sentences()
    (tmp_path / "out").mkdir()
    return TrainConfig(
        source="en",
        target="de",
        train=[write_text(tmp_path / "train", pairs[8:])],
        valid=[write_text(tmp_path / "valid", [*pairs[:8], ("", "leer"), ("empty", " ")])],
        out=str(tmp_path / "out"),
        text=TextConfig(placeholders=0.0, vocab_size=320),
    )


@pytest.fixture
def without_valid(config: TrainConfig, tmp_path: Path) -> TrainConfig:
    """Each source sentence with two translations."""
    pairs = sentences()
    write_text(tmp_path / "train", [*pairs, *((source, target + " !") for source, target in pairs)])
    return replace(config, valid=[])
