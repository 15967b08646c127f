"""A run whose text can be prepared, and clean text for the doctor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.config import TextConfig, TrainConfig
from dragoman.corpus_check.duplicates import essence
from dragoman.text.blocks import Side
from dragoman.text.corpus import Pair
from tests.text.small_texts import sentences, write_text
from tests.texts_at_hand import phrasebook


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    pairs = sentences()
    return TrainConfig(
        source="en",
        target="de",
        train=[write_text(tmp_path / "train", pairs[8:])],
        valid=[write_text(tmp_path / "valid", [*pairs[:8], ("", "leer"), ("empty", " ")])],
        out=str(tmp_path / "out"),
        text=TextConfig(vocab_size=320),
    )


@pytest.fixture
def without_valid(config: TrainConfig, tmp_path: Path) -> TrainConfig:
    """Each source sentence with two translations."""
    pairs = sentences()
    write_text(tmp_path / "train", [*pairs, *((source, target + " !") for source, target in pairs)])
    return replace(config, valid=[])


@pytest.fixture(scope="module")
def clean() -> list[Pair]:
    """Two thousand English and French sentences without any fault."""
    pairs: dict[tuple[str, ...], Pair] = {}
    for pair in phrasebook().train:
        if min(map(len, pair)) >= 25:
            pairs.setdefault(tuple(essence(Side(list(pair)))), pair)
    return list(pairs.values())[:2000]
