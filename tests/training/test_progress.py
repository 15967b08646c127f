"""Where a run stands: how much of it is done, and when patience is at an end."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import CleaningConfig, OptimizerConfig, TextConfig, TrainConfig, ValidationConfig
from dragoman.training.run_state import Progress

from .small_runs import configure


def limits(**values: float) -> TrainConfig:
    return configure(Path("nowhere"), **({"max_steps": 0} | values))


def test_a_run_without_limits_is_never_done() -> None:
    assert Progress(step=10**9, epoch=10**6, seconds=1e9).done(limits()) == 0.0


@pytest.mark.parametrize(
    ("progress", "limit", "done"),
    [
        (Progress(step=25), {"max_steps": 100}, 0.25),
        (Progress(seconds=30.0), {"max_minutes": 2.0}, 0.25),
        (Progress(epoch=1, batch=500), {"max_epochs": 4}, 0.25),
        (Progress(epoch=1, part_of_epoch=0.5), {"max_epochs": 4}, 0.375),
        (Progress(step=100), {"max_steps": 100}, 1.0),
        (Progress(step=150), {"max_steps": 100}, 1.5),
    ],
)
def test_how_much_is_done_is_a_share_of_the_limit(progress: Progress, limit: dict[str, float], done: float) -> None:
    assert progress.done(limits(**limit)) == pytest.approx(done)


def test_of_several_limits_the_first_to_be_reached_counts() -> None:
    progress = Progress(step=10, epoch=3, seconds=60.0)
    assert progress.done(limits(max_steps=100, max_minutes=10, max_epochs=4)) == pytest.approx(0.75)
    assert progress.done(limits(max_steps=11, max_minutes=10, max_epochs=4)) == pytest.approx(10 / 11)
    assert progress.done(limits(max_steps=100, max_minutes=1, max_epochs=4)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("stale", "patience", "over"), [(0, 3, False), (2, 3, False), (3, 3, True), (4, 3, True), (99, 0, False)]
)
def test_patience_ends_after_so_many_validations_without_a_better_one(stale: int, patience: int, over: bool) -> None:
    config = limits(validation=ValidationConfig(patience=patience))  # type: ignore[arg-type]
    assert Progress(stale=stale).out_of_patience(config) is over


@pytest.mark.parametrize(
    ("change", "new_epoch", "new_best"),
    [
        ({}, False, False),
        ({"max_steps": 9, "save_minutes": 1.0}, False, False),
        ({"seed": 7}, True, False),
        ({"optimizer": OptimizerConfig(batch_tokens=999)}, True, False),
        ({"optimizer": OptimizerConfig(label_smoothing=0.0)}, False, False),
        ({"text": TextConfig(max_length=33)}, True, False),
        ({"clean": CleaningConfig(ratio=True)}, True, False),
        ({"validation": ValidationConfig(metric="chrf")}, False, True),
        ({"validation": ValidationConfig(beam=4)}, False, True),
        ({"validation": ValidationConfig(max_lines=50)}, False, True),
        ({"validation": ValidationConfig(every=50)}, False, False),
    ],
)
def test_what_means_nothing_with_other_settings_is_forgotten(
    change: dict[str, Any], new_epoch: bool, new_best: bool
) -> None:
    plain = replace(
        limits(), optimizer=OptimizerConfig(), text=TextConfig(), clean=CleaningConfig(), validation=ValidationConfig()
    )
    progress = Progress(epoch=2, batch=500, part_of_epoch=0.5, best_score=30.0, stale=3, accumulate=4)
    progress.apply_changes(asdict(plain), replace(plain, **change), new_text=False, new_valid=False)
    assert (progress.epoch, progress.batch) == ((3, 0) if new_epoch else (2, 500))
    assert (progress.best_score, progress.stale) == ((-math.inf, 0) if new_best else (30.0, 3))
    assert progress.accumulate == 4


def test_other_texts_begin_an_epoch_or_the_search_for_the_best() -> None:
    config = limits()
    progress = Progress(epoch=2, batch=500, best_score=30.0)
    progress.apply_changes(asdict(config), config, new_text=True, new_valid=False)
    assert (progress.epoch, progress.batch, progress.best_score) == (3, 0, 30.0)
    progress.apply_changes(asdict(config), config, new_text=False, new_valid=True)
    assert (progress.epoch, progress.best_score) == (3, -math.inf)


def test_any_score_is_better_than_none() -> None:
    assert Progress().best_score < -1e300


def test_two_runs_share_no_list() -> None:
    first, second = Progress(), Progress()
    first.losses.append(1.0)
    assert second.losses == []


def test_progress_comes_back_from_what_is_saved_of_it() -> None:
    progress = Progress(step=3, epoch=1, losses=[0.5], norms=[1.5], skipped=2, piece_tokens=64)
    assert Progress(**asdict(progress)) == progress
