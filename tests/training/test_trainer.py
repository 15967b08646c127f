"""The loop, on text small enough to learn by heart."""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.checkpoint import ModelFolder, read_weights
from dragoman.config import DragomanError, ModelConfig, OptimizerConfig, ValidationConfig
from dragoman.folder import list_checkpoints
from dragoman.training.run_state import list_states, settings_digest
from dragoman.training.step import StepBatches, Stepper
from dragoman.training.trainer import Trainer
from dragoman.training.validation import Validator

from .interruptions import Crash, before_each_step, same_runs
from .small_runs import configure, make, records, same, train, weights_of, write_corpus

SHORT = ModelConfig(d_model=16, d_ff=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, dropout=0.0)


# ---- learning


def test_every_step_is_recorded_with_its_rate_and_every_validation_with_the_health_of_its_translations(
    folder: Path,
) -> None:
    train(configure(folder))
    found = records(folder / "run")
    assert [step for step, name, _ in found if name == "train/loss"] == list(range(1, 13))
    rates = [value for _, name, value in found if name == "train/lr"]
    peak = 16**-0.5 * 4**-0.5
    assert rates[:4] == pytest.approx([peak * step / 4 for step in range(1, 5)])
    assert rates[4:] == pytest.approx([16**-0.5 * step**-0.5 for step in range(5, 13)])
    assert all(value > 0 for _, name, value in found if name == "train/grad_norm")
    for name in ("valid/loss", "valid/bleu", "valid/chrf", "health/empty", "health/length_ratio"):
        assert [step for step, other, _ in found if other == name] == [5, 10, 12]


def test_people_see_translations_and_are_warned(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "dragoman.training.validation.diagnose", lambda observations, warmup_steps: f"{len(observations)} so far"
    )
    train(configure(folder))
    shown = capsys.readouterr().err
    first_line = (folder / "valid.en").read_text().split("\n")[0]
    assert shown.count(f"    {first_line}\n    → {first_line.upper()}\n    = {first_line.upper()}\n") == 3
    assert [f"warning: {n} so far" in shown for n in (1, 2, 3, 4)] == [True, True, True, False]
    parameters = make(configure(folder, "again")).model.num_parameters
    assert f"training {parameters:,} parameters on cpu, fp32, " in shown


# ---- what is kept


def test_the_best_weights_are_kept_and_patience_ends_the_run(folder: Path) -> None:
    validation = ValidationConfig(every=2, patience=3, keep_last=1, metric="bleu")
    outcome = train(configure(folder, max_steps=100, validation=validation), bleu=[5.0, 9.0, 7.0, 8.0, 6.0, 1.0])
    assert outcome.reason == "patience"
    assert (outcome.progress.best_step, outcome.progress.step) == (4, 10)
    assert outcome.scores["bleu"] == 9.0
    kept = json.loads((folder / "run" / "config.json").read_text())["facts"]
    assert kept["validation"]["bleu"] == 9.0
    assert kept["steps"] == 4


def test_a_run_killed_at_the_end_of_its_patience_makes_no_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    validation = ValidationConfig(every=2, patience=2, keep_last=2, metric="bleu")
    bleu = [9.0, 5.0, 4.0, 3.0]
    train(configure(folder, "straight", max_steps=100, validation=validation), bleu)
    config = configure(folder, "killed", max_steps=100, validation=validation)

    def crash(self: Trainer) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_finish", crash)
        with pytest.raises(Crash):
            train(config, bleu)
    outcome = train(config, bleu[3:])
    assert (outcome.reason, outcome.progress.step) == ("patience", 6)
    assert same_runs(folder / "straight", folder / "killed")


def test_the_average_replaces_the_best_only_when_it_is_at_least_as_good(folder: Path) -> None:
    validation = ValidationConfig(every=4, metric="bleu", keep_last=3)
    config = configure(folder, "worse", validation=validation)
    train(config, bleu=[3.0, 5.0, 4.0, 2.0])  # three validations, then the average's
    best = read_weights(folder / "worse" / "checkpoints" / "step-00000008.safetensors")
    assert same(best, read_weights(folder / "worse" / "model.safetensors"))
    facts = ModelFolder.load(folder / "worse").direction.facts
    assert (facts["kept"], facts["steps"], facts["whole_run"]["steps"]) == ("step 8", 8, 12)
    assert facts["whole_run"]["settings_sha256"] == settings_digest(config)
    train(configure(folder, "better", validation=validation), bleu=[3.0, 5.0, 4.0, 6.0])
    assert ModelFolder.load(folder / "better").direction.facts["kept"] == "average of the last 3 checkpoints"
    checkpoints = [read_weights(path) for path in list_checkpoints(folder / "better")]
    kept = read_weights(folder / "better" / "model.safetensors")
    for name, value in kept.items():
        torch.testing.assert_close(value, sum(c[name] for c in checkpoints) / 3)


# ---- steps out of bounds


def spoil(monkeypatch: pytest.MonkeyPatch, outcome: Callable[[int, float, float], tuple[float, float]]) -> None:
    """Let the steps of a run have another loss and gradient norm than they have."""
    gradients = Stepper.gradients
    count = [0]

    def spoilt(self: Stepper, share: StepBatches, report: Callable[[str], None]) -> tuple[float, float]:
        count[0] += 1
        return outcome(count[0], *gradients(self, share, report))

    monkeypatch.setattr(Stepper, "gradients", spoilt)


def test_a_step_out_of_bounds_changes_nothing_and_is_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history: list[dict[str, torch.Tensor]] = []
    moments: list[float] = []

    def remember(trainer: Trainer) -> None:
        history.append(weights_of(trainer))
        moments.append(float(next(iter(trainer.stepper.optimizer.state.values()), {"step": torch.tensor(0.0)})["step"]))

    before_each_step(monkeypatch, remember)
    bad = {3: (math.nan, 1.0), 4: (5.0, math.inf), 7: (100.0, 1.0)}
    spoil(monkeypatch, lambda step, loss, norm: bad.get(step, (loss, norm)))
    trainer = make(configure(folder))
    progress = trainer.run().progress
    assert (progress.step, progress.skipped, progress.skipped_in_a_row) == (12, 3, 0)
    changed = [not same(before, after) for before, after in itertools.pairwise(history)]
    assert changed == [step not in (3, 4, 7) for step in range(1, 12)]
    assert moments == [0, 1, 2, 2, 2, 3, 4, 4, 5, 6, 7, 8]  # Adam has not seen them either


def test_twenty_steps_out_of_bounds_end_the_run_with_everything_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(folder, max_steps=100, validation=ValidationConfig(every=100, metric="loss"))
    train(replace(config, max_steps=5))
    model, state = (folder / "run" / "model.safetensors").read_bytes(), list_states(folder / "run")
    trainer = make(config)
    before = weights_of(trainer)
    spoil(monkeypatch, lambda step, loss, norm: (math.nan, norm))
    with pytest.raises(DragomanError, match=r"in 20 steps in a row: .* a lower --optimizer\.lr-scale"):
        trainer.run()
    assert same(before, weights_of(trainer))
    assert (folder / "run" / "model.safetensors").read_bytes() == model
    assert list_states(folder / "run") == state


# ---- memory


def test_short_memory_costs_time_and_nothing_else(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = configure(folder, "whole", model=SHORT)
    pieces = configure(folder, "pieces", model=SHORT)
    train(whole)
    with monkeypatch.context() as patch:
        patch.setattr("dragoman.training.dry_run.available_memory", lambda: None)
        patch.setattr(Stepper, "fits", lambda self, batch: batch.padded_tokens <= 60)
        assert train(replace(pieces, max_steps=7)).progress.piece_tokens in range(30, 61)
    trainer = make(pieces)
    trainer.run()  # goes on in the same pieces, without trying again
    assert trainer.stepper.piece_tokens in range(30, 61)
    expected, found = (records(folder / name, "train/loss") for name in ("whole", "pieces"))
    assert [step for step, *_ in found] == list(range(1, 13))
    assert [value for *_, value in found] == pytest.approx([value for *_, value in expected], rel=1e-5)


@pytest.mark.parametrize(("scale", "step"), [(0.1, 10), (10.0, 6)])
def test_patience_waits_for_a_young_model_whose_loss_falls(
    folder: Path, scale: float, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([5.0, 5.5, 4.0, 4.5, 4.2, 3.5])
    monkeypatch.setattr(Validator, "_measure_forced", lambda self, model, tokens: (next(losses), 0.5))
    validation = ValidationConfig(every=2, patience=2, keep_last=1, metric="bleu")
    bleu = [scale * score for score in (4.0, 1.0, 2.0, 1.0, 2.0, 1.0)]
    outcome = train(configure(folder, validation=validation), bleu)
    assert (outcome.reason, outcome.progress.step, outcome.progress.best_step) == ("patience", step, 2)


def test_of_equal_scores_the_lower_loss_is_kept_in_any_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([3.0, 2.0, 2.5])
    monkeypatch.setattr(Validator, "_measure_forced", lambda self, model, tokens: (next(losses), 0.5))
    validation = ValidationConfig(every=4, patience=0, keep_last=1, metric="bleu")
    assert train(configure(folder, validation=validation), bleu=[0.0]).progress.best_step == 8


def test_a_validation_tells_of_the_steps_since_the_one_before(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, lambda step, loss, norm: (step / 10, float(step**2)))
    trainer = make(configure(folder))
    trainer.run()
    assert [o.health.gradient_norm for o in trainer.validator.observations] == [9.0, 64.0, 132.5]  # medians
    assert [o.train_loss for o in trainer.validator.observations] == pytest.approx([0.3, 0.8, 1.15])  # means


@pytest.mark.parametrize(("limits", "warned"), [({"max_steps": 25}, True), ({"max_epochs": 10}, False)])
def test_a_run_that_will_not_reach_the_end_of_its_warm_up_is_told_after_the_first_steps(
    folder: Path, limits: dict[str, int], warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    optimizer = OptimizerConfig(batch_tokens=200, warmup_steps=30)
    validation = ValidationConfig(every=1000, metric="loss")
    train(configure(folder, optimizer=optimizer, validation=validation, **({"max_steps": 0} | limits)))
    line = "at this rate the run stops after about 25 steps, before the end of the warm-up (30 steps)"
    assert (line in capsys.readouterr().err) == warned


def test_the_pairs_of_each_text_in_a_step_are_recorded(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    for name in ("en", "xx"):
        lines = (tmp_path / f"train.{name}").read_text().splitlines(keepends=True)
        (tmp_path / f"few.{name}").write_text("".join(lines[:7]))
    texts = [str(tmp_path / name) for name in ("train", "few")]
    train(configure(tmp_path, train=texts, weights=[1.0, 4.0], max_steps=0, max_epochs=1))
    recorded = [pairs for _, _, pairs in records(tmp_path / "run", "pairs")]
    assert len(recorded) > 3
    assert np.sum(recorded, axis=0).tolist() == [100, 4 * 7]
