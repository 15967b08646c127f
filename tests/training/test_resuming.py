"""A run that was stopped goes on as if it had not been, and as the run it was."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import DragomanError, OptimizerConfig, TextConfig, ValidationConfig
from dragoman.folder import list_checkpoints
from dragoman.runtime import device as precision_module
from dragoman.training.run_state import list_states
from dragoman.training.trainer import Trainer

from .interruptions import Crash, before_each_step, crash_before, interrupt_after, interrupt_in_validation, same_runs
from .small_runs import SHAPE, configure, last_weights, make, records, same, train


@pytest.mark.parametrize("stop", [3, 5, 12])
def test_an_interrupted_run_continues_bit_for_bit(folder: Path, stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    straight, broken = configure(folder, "straight"), configure(folder, "broken")
    assert train(straight).reason == "limit"
    with monkeypatch.context() as patch:
        interrupt_after(patch, stop)
        outcome = train(broken)
    assert (outcome.reason, outcome.signal, outcome.progress.step) == ("interrupted", 15, stop)
    torch.manual_seed(999)  # whatever happened in between
    outcome = train(broken)
    assert (outcome.reason, outcome.progress.step) == ("limit", 12)
    assert len(records(folder / "straight", "train/loss")) == 12
    assert len(records(folder / "straight", "health/")) > 12
    assert same_runs(folder / "straight", folder / "broken")


@pytest.mark.parametrize(("number", "reason"), [(1, "interrupted"), (3, "limit")])
def test_a_signal_in_validation_counts(folder: Path, number: int, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also during the last of all: then the run ends as ever, but whoever called it knows."""
    straight, broken = (
        configure(folder, name, max_steps=10, validation=ValidationConfig(every=5, metric="loss"))
        for name in ("straight", "broken")
    )
    assert train(straight).signal == 0
    with monkeypatch.context() as patch:
        interrupt_in_validation(patch, number)
        outcome = train(broken)
    assert (outcome.reason, outcome.signal) == (reason, 15)
    assert outcome.progress.step == min(5 * number + (number == 1), 10)
    outcome = train(broken)
    assert outcome.signal == 0
    assert outcome.reason == ("limit" if reason == "interrupted" else "already finished")
    assert same_runs(folder / "straight", folder / "broken")


def test_with_all_that_small_texts_are_trained_with_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = {
        "model": replace(SHAPE, dropout=0.2),
        "text": TextConfig(placeholders=0.0, vocab_size=320, subword_dropout=0.2),
        "optimizer": OptimizerConfig(batch_tokens=200, warmup_steps=4, r_drop=2.0, ema_decay=0.9),
    }
    straight, broken = (configure(folder, name, **random) for name in ("straight", "broken"))
    train(straight)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 7)
        train(broken)
    torch.manual_seed(999)
    train(broken)
    assert same_runs(folder / "straight", folder / "broken")


@pytest.mark.parametrize("first", [True, False])
def test_the_precision_that_auto_chose_stays(folder: Path, first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    faster = first

    def seconds(dtype: torch.dtype) -> float:
        return 1.0 if (dtype == torch.bfloat16) == faster else 9.0

    monkeypatch.setattr(precision_module, "_product_seconds", seconds)
    config = configure(folder, precision="auto")
    with monkeypatch.context() as patch:
        interrupt_after(patch, 7)
        train(config)
    faster = not first
    assert make(config).bf16 is first
    assert make(configure(folder, "another", precision="auto")).bf16 is not first


@pytest.mark.parametrize("moment", [4, 7])
def test_a_crash_costs_the_steps_since_the_last_state_and_nothing_else(
    folder: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight, broken = configure(folder, "straight"), configure(folder, "broken", save_minutes=1e-6)
    broken = replace(broken, save_minutes=10.0) if moment > 5 else broken
    train(straight)
    with monkeypatch.context() as patch:
        crash_before(patch, moment)
        with pytest.raises(Crash):
            train(broken)
    assert train(broken).progress.step == 12
    assert same_runs(folder / "straight", folder / "broken")


def test_a_run_killed_between_a_validation_and_saving_records_the_validation_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(configure(folder, "straight"))
    save = Trainer._save_state

    def crash_after_validation(trainer: Trainer) -> None:
        if trainer.progress.validated == trainer.progress.step >= 5:
            raise Crash
        save(trainer)

    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "_save_state", crash_after_validation)
            with pytest.raises(Crash):
                train(configure(folder, "killed", save_minutes=1e-6))
    train(configure(folder, "killed", save_minutes=1e-6))
    assert same_runs(folder / "straight", folder / "killed")


def test_the_time_since_the_last_state_counts_not_the_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("dragoman.training.trainer.time.monotonic", lambda: clock[0])
    saved: list[int] = []
    save_state = Trainer._save_state

    def save(self: Trainer) -> None:
        saved.append(self.progress.step)
        save_state(self)

    monkeypatch.setattr(Trainer, "_save_state", save)

    def half_a_minute(trainer: Trainer) -> None:
        clock[0] += 30.0

    before_each_step(monkeypatch, half_a_minute)
    quiet = ValidationConfig(every=100, metric="loss")
    train(configure(folder, max_steps=9, save_minutes=1.4, validation=quiet))
    assert saved == [0, 3, 6, 9, 9, 9]  # the beginning, the last validation and the end save, too


def test_checkpoints_beyond_the_state_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configure(folder, "broken")
    train(configure(folder, "straight"))
    with monkeypatch.context() as patch:
        crash_before(patch, 11)  # after the validation at step 10
        with pytest.raises(Crash):
            train(config)
    for path in list_states(folder / "broken")[1:]:
        path.unlink()
    assert [path.stem for path in list_checkpoints(folder / "broken")] == ["step-00000005", "step-00000010"]
    trainer = make(config)
    assert trainer.progress.step == 5
    assert [path.stem for path in list_checkpoints(folder / "broken")] == ["step-00000005"]
    trainer.run()
    assert same_runs(folder / "straight", folder / "broken")


def test_more_room_is_the_same_as_having_had_it_from_the_start(folder: Path) -> None:
    steady = ValidationConfig(every=3, metric="loss", keep_last=2)
    train(configure(folder, "long", validation=steady))
    train(configure(folder, "short", validation=steady, max_steps=6))  # ends with an average, which leaves no trace …
    train(configure(folder, "short", validation=steady))
    assert records(folder / "long") == records(folder / "short")
    assert same(last_weights(folder / "long"), last_weights(folder / "short"))


def test_a_run_ends_after_its_minutes_with_its_rate_at_zero_also_after_a_break(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("dragoman.training.trainer.time.monotonic", lambda: clock[0])
    before_each_step(monkeypatch, lambda trainer: clock.__setitem__(0, clock[0] + 30.0))
    optimizer = OptimizerConfig(batch_tokens=200, warmup_steps=1, schedule="linear", peak_lr=1e-3)
    limits: dict[str, Any] = {"max_steps": 0, "max_minutes": 4.0, "optimizer": optimizer}
    with monkeypatch.context() as patch:
        interrupt_after(patch, 3)
        train(configure(folder, **limits))
    clock[0] += 3600.0  # nobody trained meanwhile
    outcome = train(configure(folder, **limits))
    assert (outcome.reason, outcome.progress.step) == ("limit", 8)
    rates = [rate for *_, rate in records(folder / "run", "train/lr")]
    assert rates == pytest.approx([1e-3 * (1 - n / 8) for n in range(8)])


@pytest.mark.parametrize("steps", [5, 12])
def test_a_damaged_model_is_refused_and_one_that_is_gone_comes_back(folder: Path, steps: int) -> None:
    train(configure(folder, max_steps=steps))
    model = folder / "run" / "model.safetensors"
    model.write_bytes(b"damaged")
    with pytest.raises(DragomanError, match=r"model\.safetensors: damaged"):
        train(configure(folder))
    model.unlink()
    outcome = train(configure(folder))
    assert (outcome.reason, outcome.progress.step) == ("limit", 12)
    assert outcome.scores["loss"] < 5.0
    ModelFolder.load(folder / "run")
