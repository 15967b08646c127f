"""Stopping a run at a step of one's choice, and comparing it with one that was not stopped."""

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.checkpoint import read_weights
from dragoman.folder import list_checkpoints
from dragoman.training.step import StepBatches
from dragoman.training.trainer import Trainer
from dragoman.training.validation import Validation

from .small_runs import records, same


def interrupt_in_validation(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Send a SIGTERM to this process in its so manieth measurement of a model, from 1."""
    measure, count = Trainer._measure, itertools.count(1)

    def measure_and_more(self: Trainer, name: str = "") -> Validation:
        if next(count) == number:
            os.kill(os.getpid(), signal.SIGTERM)
        return measure(self, name)

    monkeypatch.setattr(Trainer, "_measure", measure_and_more)


def before_each_step(monkeypatch: pytest.MonkeyPatch, action: Callable[[Trainer], None]) -> None:
    step = Trainer._train_step

    def train_step(self: Trainer, share: StepBatches) -> None:
        action(self)
        step(self, share)

    monkeypatch.setattr(Trainer, "_train_step", train_step)


def interrupt_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Send a SIGTERM to this process after so many steps."""

    def interrupt(trainer: Trainer) -> None:
        if trainer.progress.step == steps - 1:
            os.kill(os.getpid(), signal.SIGTERM)

    before_each_step(monkeypatch, interrupt)


class Crash(BaseException):
    """The process is gone: nobody saves anything."""


def crash_before(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    def crash(trainer: Trainer) -> None:
        if trainer.progress.step == step - 1:
            raise Crash

    before_each_step(monkeypatch, crash)


def same_runs(first: Path, second: Path) -> bool:
    """Whether two runs recorded the same numbers and left the same weights, bit for bit."""
    same_numbers = records(first) == records(second)
    files = [path.relative_to(first) for path in [first / "model.safetensors", *list_checkpoints(first)]]
    assert [path.name for path in list_checkpoints(first)] == [path.name for path in list_checkpoints(second)]
    return same_numbers and all(same(read_weights(first / file), read_weights(second / file)) for file in files)
