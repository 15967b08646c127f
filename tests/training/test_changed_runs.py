"""A run that is called again with other settings, another text or another model."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import DragomanError, TextConfig, TrainConfig
from dragoman.training.run_state import load_state
from dragoman.training.trainer import Trainer

from .interruptions import interrupt_after
from .small_runs import configure, make, same, train, weights_of


def test_a_run_of_another_model_is_refused_even_if_changes_are_accepted(folder: Path) -> None:
    train(configure(folder))
    larger = configure(folder, model=replace(configure(folder).model, num_encoder_layers=2), accept_changes=True)
    with pytest.raises(DragomanError, match=r"another model shape or other subwords.*restart"):
        make(larger)
    other = make(configure(folder, "other", text=TextConfig(vocab_size=310)))
    with pytest.raises(DragomanError, match="other subwords"):
        Trainer(configure(folder, accept_changes=True), other.folder, other.text, other.validator._validate)


def change(config: TrainConfig, path: str, value: Any) -> TrainConfig:
    group, _, name = path.rpartition(".")
    if not group:
        return replace(config, **{name: value})
    return replace(config, **{group: replace(getattr(config, group), **{name: value})})


CHANGES = [("optimizer.peak_lr", 0.1, 0.2), ("precision", "fp32", "bf16")]


@pytest.mark.parametrize(("path", "before", "now"), CHANGES, ids=[path for path, *_ in CHANGES])
def test_changed_settings_are_refused_until_they_are_accepted(folder: Path, path: str, before: Any, now: Any) -> None:
    config = change(configure(folder, max_steps=6), path, before)
    train(config)
    changed = replace(change(config, path, now), max_steps=8)
    with pytest.raises(DragomanError) as error:
        make(changed)
    assert f"({path} was {before} and is {now})" in str(error.value)
    assert "--accept-changes" in str(error.value)
    assert train(replace(changed, accept_changes=True)).progress.step == 8
    assert make(changed).progress.step == 8  # accepted once and for all


def accepting(folder: Path, *changes: tuple[str, Any]) -> Trainer:
    """A run of six steps, which goes on to the eighth with other settings."""
    train(configure(folder, max_steps=6), bleu=[50.0])
    config = replace(configure(folder), max_steps=8, accept_changes=True)
    for path, value in changes:
        config = change(config, path, value)
    return make(config)


def test_accepted_settings_of_adam_are_those_that_it_takes(folder: Path) -> None:
    own = {"beta1": 0.5, "beta2": 0.6, "epsilon": 0.01, "weight_decay": 0.3}
    trainer = accepting(folder, *((f"optimizer.{name}", value) for name, value in own.items()))
    (group,) = trainer.stepper.optimizer.param_groups
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.5, 0.6), 0.01, 0.3)
    assert trainer.stepper.optimizer.state


def test_by_another_validation_text_the_best_model_is_found_anew(folder: Path) -> None:
    trainer = accepting(folder)
    assert trainer.progress.best_score > -math.inf
    trainer.text.valid.report = replace(trainer.text.valid.report, fingerprint="another")
    again = Trainer(trainer.config, trainer.folder, trainer.text, trainer.validator._validate)
    assert again.progress.best_score == -math.inf


def test_another_text_is_refused_until_it_is_accepted_and_begins_at_its_next_epoch(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_after(patch, 4)
        train(configure(folder))
    trainer = make(configure(folder))
    epoch = trainer.progress.epoch
    assert trainer.progress.batch > 0
    report = trainer.text.train.report
    trainer.text.train.report = replace(report, fingerprint="another")
    with pytest.raises(DragomanError, match="the training text has changed"):
        Trainer(trainer.config, trainer.folder, trainer.text, trainer.validator._validate)
    accepted = replace(trainer.config, accept_changes=True)
    again = Trainer(accepted, trainer.folder, trainer.text, trainer.validator._validate)
    assert (again.progress.step, again.progress.epoch, again.progress.batch) == (4, epoch + 1, 0)


def test_a_state_of_another_version_is_refused_with_the_way_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(configure(folder))
    state = load_state(folder / "run")
    assert state is not None
    for spoilt in ({}, state | {"progress": {"unheard_of": 1}}, state | {"model": {}}):
        monkeypatch.setattr("dragoman.training.trainer.load_state", lambda folder, report, spoilt=spoilt: spoilt)
        with pytest.raises(DragomanError, match=r"another version of Dragoman.*restart"):
            make(configure(folder))


def test_all_that_a_run_knows_is_in_its_state(folder: Path) -> None:
    trainer = make(configure(folder))
    trainer.run()
    again = make(configure(folder))
    assert asdict(again.progress) == asdict(trainer.progress)
    assert again.validator.observations == trainer.validator.observations
    assert again._kept_scores == trainer._kept_scores
    assert again.folder.direction == trainer.folder.direction
    assert same(weights_of(again), weights_of(trainer))
    ours, theirs = again.stepper.optimizer.state_dict(), trainer.stepper.optimizer.state_dict()
    for number, values in theirs["state"].items():
        assert same(values, ours["state"][number])
