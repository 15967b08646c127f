"""Without a validation text, train holds some pairs out: good ones only, and never what is tested or trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.config import CleaningConfig, DragomanError, TextConfig, TrainConfig
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text.corpus import Pair, holds_out, read_pairs
from dragoman.text.preprocess import HELD_OUT_SHARE, PreparedText, prepare_text

PAIRS = [(f"number {n} is called {n * 7919}", f"Nummer {n} heißt {n * 7919}") for n in range(1000)]
HELD = [pair for pair in PAIRS if holds_out(pair[0], HELD_OUT_SHARE)]


def write_text(prefix: Path, pairs: list[Pair]) -> str:
    for side, language in enumerate(("en", "de")):
        Path(f"{prefix}.{language}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return str(prefix)


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    train = write_text(tmp_path / "train", PAIRS)
    text = TextConfig(vocab_size=320)
    return TrainConfig(source="en", target="de", train=[train], out=str(tmp_path / "out"), text=text)


def held_out(config: TrainConfig) -> list[Pair]:
    return list(read_pairs([str(Path(config.out) / "heldout")], "en", "de"))


def trained_on(prepared: PreparedText) -> list[Pair]:
    store, vocabulary = prepared.train, prepared.vocabulary
    sources = vocabulary.source.decode([store.source(n).tolist() for n in range(len(store))])
    targets = vocabulary.target.decode([store.target(n).tolist() for n in range(len(store))])
    return list(zip(sources, targets, strict=True))


def test_pairs_of_the_test_text_are_not_held_out_for_validation(config: TrainConfig, tmp_path: Path) -> None:
    tested = [*HELD[:5], *[pair for pair in PAIRS if pair not in HELD][:5]]
    config = replace(config, test=[write_text(tmp_path / "test", tested)])
    prepared = prepare_text(config, clean_text)
    assert held_out(config) == HELD[5:] == prepared.valid_pairs
    assert trained_on(prepared) == [pair for pair in PAIRS if pair not in [*HELD, *tested]]
    uncleaned = replace(config, out=f"{config.out}2", clean=CleaningConfig(overlap=False))
    prepare_text(uncleaned, clean_text)
    assert held_out(uncleaned) == HELD[5:]


def test_what_cleaning_takes_out_is_not_held_out_either(config: TrainConfig, tmp_path: Path) -> None:
    odd = [(HELD[0][0], HELD[0][1] + "\ufffd"), (HELD[1][0], "ja " * 60), (HELD[2][0], HELD[2][0])]
    write_text(tmp_path / "train", [*odd, *PAIRS])
    config = replace(config, clean=CleaningConfig(characters=True, ratio=True, copies=True))
    prepared = prepare_text(config, clean_text)
    assert held_out(config) == HELD
    assert trained_on(prepared) == [pair for pair in PAIRS if pair not in HELD]


def test_empty_and_repeated_pairs_are_not_held_out_and_all_pairs_are_accounted_for(
    config: TrainConfig, tmp_path: Path
) -> None:
    pairs = [*PAIRS, *HELD[:3], HELD[0], (HELD[1][0], ""), ("", "leer")]
    write_text(tmp_path / "train", pairs)
    lines: list[str] = []
    prepared = prepare_text(config, clean_text, lines.append)
    assert held_out(config) == HELD
    (line,) = [line for line in lines if line.startswith("no --valid")]
    passed_over = 5 + holds_out("", HELD_OUT_SHARE)
    assert f"held {len(HELD)} pairs" in line
    assert f"({passed_over} repeated or faulty ones that go with them are in neither)" in line

    assert len(HELD) + passed_over + prepared.train.report.pairs + prepared.train.report.empty == len(pairs)


def test_where_cleaning_leaves_only_what_is_held_out_a_validation_text_is_asked_for(
    config: TrainConfig, tmp_path: Path
) -> None:
    write_text(tmp_path / "train", [*HELD * 25, ("", "leer")])
    with pytest.raises(DragomanError, match="--valid"):
        prepare_text(config, clean_text)
