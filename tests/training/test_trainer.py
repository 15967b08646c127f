"""The loop, on text small enough to learn by heart."""

from __future__ import annotations

import errno
import itertools
import json
import math
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

from dragoman.checkpoint import ModelFolder, list_checkpoints, read_weights
from dragoman.config import (
    DragomanError,
    ModelConfig,
    OptimizerConfig,
    TextConfig,
    TrainConfig,
    UnreadableError,
    ValidationConfig,
)
from dragoman.model import precision as precision_module
from dragoman.training import trainer as trainer_module
from dragoman.training.state import list_states, load_state, settings_digest
from dragoman.training.step import Share, Stepper
from dragoman.training.trainer import Trainer

from .small_runs import SHAPE, configure, last_weights, make, records, same, train, write_corpus

SHORT = ModelConfig(d_model=16, d_ff=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, dropout=0.0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a corpus."""
    write_corpus(tmp_path)
    return tmp_path


def interrupt_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Send a SIGTERM to this process after so many steps."""
    step = Trainer._train_step

    def train_step(self: Trainer, share: Share) -> None:
        if self.progress.step == steps - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        step(self, share)

    monkeypatch.setattr(Trainer, "_train_step", train_step)


def before_each_step(monkeypatch: pytest.MonkeyPatch, action: Callable[[Trainer], None]) -> None:
    step = Trainer._train_step

    def train_step(self: Trainer, share: Share) -> None:
        action(self)
        step(self, share)

    monkeypatch.setattr(Trainer, "_train_step", train_step)


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


# ---- learning


def test_the_loss_falls(folder: Path) -> None:
    train(configure(folder, max_steps=60, optimizer=OptimizerConfig(batch_tokens=200, warmup_steps=20)))
    values = [value for _, _, value in records(folder / "run", "valid/loss")]
    assert values[-1] < 0.8 * values[0]


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


def test_only_some_losses_are_recorded_where_that_is_asked_for(folder: Path) -> None:
    train(configure(folder, log_every=4))
    assert [step for step, _, _ in records(folder / "run", "train/loss")] == [4, 8, 12]


def test_people_see_translations_and_are_warned(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dragoman.training.trainer.diagnose", lambda observations: f"{len(observations)} so far")
    train(configure(folder))
    shown = capsys.readouterr().err
    first_line = (folder / "valid.en").read_text().split("\n")[0]
    assert shown.count(f"    {first_line}\n    → {first_line.upper()}\n    = {first_line.upper()}\n") == 3
    assert [f"warning: {n} so far" in shown for n in (1, 2, 3, 4)] == [True, True, True, False]
    parameters = make(configure(folder, "again")).model.num_parameters
    assert f"training {parameters:,} parameters on cpu, fp32, " in shown


# ---- stopping and going on


@pytest.mark.parametrize("stop", [1, 3, 5, 8, 12])
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


def test_with_all_that_small_texts_are_trained_with_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = {
        "model": replace(SHAPE, dropout=0.2),
        "text": TextConfig(vocab_size=320, subword_dropout=0.2),
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


@pytest.mark.parametrize("moment", [1, 4, 6, 7, 12])
def test_a_crash_costs_the_steps_since_the_last_state_and_nothing_else(
    folder: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight, broken = configure(folder, "straight"), configure(folder, "broken", save_minutes=1e-9)
    broken = replace(broken, save_minutes=10.0) if moment > 5 else broken
    train(straight)
    with monkeypatch.context() as patch:
        crash_before(patch, moment)
        with pytest.raises(Crash):
            train(broken)
    assert train(broken).progress.step == 12
    assert same_runs(folder / "straight", folder / "broken")


def test_saving_again_and_again_changes_nothing(folder: Path) -> None:
    train(configure(folder, "seldom"))
    train(configure(folder, "often", save_minutes=1e-9))
    assert same_runs(folder / "seldom", folder / "often")


@pytest.mark.parametrize(("minutes", "saves"), [(1e-9, 1 + 12 + 3 + 1), (10.0, 1 + 3 + 1)])
def test_the_state_is_saved_between_validations_too(folder: Path, minutes: float, saves: int) -> None:
    train(configure(folder, save_minutes=minutes))
    assert (
        int(list_states(folder / "run")[-1].name.split("-")[1]) == saves
    )  # before the first step, at 3 validations, at the end
    assert len(list_states(folder / "run")) == 2


def test_the_time_since_the_last_state_counts_and_not_that_of_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("stop", [4, 8])
def test_a_damaged_state_costs_only_the_steps_since_the_one_before(
    folder: Path, stop: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    straight, broken = configure(folder, "straight"), configure(folder, "broken", save_minutes=1e-9)
    train(straight)
    with monkeypatch.context() as patch:
        interrupt_after(patch, stop)
        train(broken)
    newest = list_states(folder / "broken")[-1]
    newest.write_bytes(newest.read_bytes()[:-500])
    capsys.readouterr()
    assert train(broken).progress.step == 12
    shown = capsys.readouterr().err
    assert f"{newest}: damaged" in shown
    assert "continuing after step" in shown
    assert same_runs(folder / "straight", folder / "broken")


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


def test_a_finished_run_is_not_trained_again_unless_it_gets_more_room(folder: Path) -> None:
    train(configure(folder))
    before = last_weights(folder / "run")
    again = train(configure(folder))
    assert again.reason == "already finished"
    assert again.scores["loss"] > 0
    assert same(before, last_weights(folder / "run"))
    assert train(configure(folder, max_steps=15)).progress.step == 15


def test_more_room_is_the_same_as_having_had_it_from_the_start(folder: Path) -> None:
    steady = ValidationConfig(every=3, metric="loss", keep_last=2)
    train(configure(folder, "long", validation=steady))
    train(configure(folder, "short", validation=steady, max_steps=6))  # ends with an average, which leaves no trace …
    train(configure(folder, "short", validation=steady))
    assert records(folder / "long") == records(folder / "short")
    assert same(last_weights(folder / "long"), last_weights(folder / "short"))


def test_more_room_never_makes_the_kept_model_worse(folder: Path) -> None:
    steady = ValidationConfig(every=3, metric="bleu", keep_last=2)
    train(configure(folder, validation=steady, max_steps=6), bleu=[5.0, 6.0, 9.0])  # … but may be the best model
    average = read_weights(folder / "run" / "model.safetensors")
    outcome = train(configure(folder, validation=steady), bleu=[8.0])
    assert outcome.progress.best_score == 9.0
    assert same(average, read_weights(folder / "run" / "model.safetensors"))


def test_accumulated_batches_make_fewer_steps_of_the_same_epoch(folder: Path) -> None:
    once, twice = (OptimizerConfig(batch_tokens=200, warmup_steps=4, accumulate=n) for n in (1, 2))
    one = train(configure(folder, "one", optimizer=once, max_steps=0, max_epochs=1)).progress
    two = train(configure(folder, "two", optimizer=twice, max_steps=0, max_epochs=1)).progress
    assert two.tokens == one.tokens
    assert two.step == math.ceil(one.step / 2)


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


def test_a_run_killed_when_its_patience_was_at_an_end_makes_no_step_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validation = ValidationConfig(every=2, patience=2, keep_last=2, metric="bleu")
    bleu = [9.0, 5.0, 4.0, 3.0]
    train(configure(folder, "straight", max_steps=100, validation=validation), bleu)
    config = configure(folder, "killed", max_steps=100, validation=validation)

    def crash(self: Trainer) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_conclude", crash)
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
    assert (facts["kept"], facts["steps"], facts["whole run"]["steps"]) == ("step 8", 8, 12)
    assert facts["whole run"]["settings (SHA-256)"] == settings_digest(config)
    train(configure(folder, "better", validation=validation), bleu=[3.0, 5.0, 4.0, 6.0])
    assert ModelFolder.load(folder / "better").direction.facts["kept"] == "average of the last 3 checkpoints"
    checkpoints = [read_weights(path) for path in list_checkpoints(folder / "better")]
    kept = read_weights(folder / "better" / "model.safetensors")
    for name, value in kept.items():
        torch.testing.assert_close(value, sum(c[name] for c in checkpoints) / 3)


def test_between_equal_scores_the_loss_decides(folder: Path) -> None:
    validation = ValidationConfig(every=2, patience=0, keep_last=1, metric="bleu")
    outcome = train(configure(folder, max_steps=12, validation=validation), bleu=[0.0])  # a young model: no BLEU yet
    best, step = min((loss, step) for step, _, loss in records(folder / "run", "valid/loss"))
    assert step > 2
    assert (outcome.progress.best_step, outcome.scores["loss"]) == (step, best)


def test_only_the_last_checkpoints_stay(folder: Path) -> None:
    train(configure(folder, validation=ValidationConfig(every=2, metric="loss", keep_last=3, patience=0)))
    assert [path.stem for path in list_checkpoints(folder / "run")] == [f"step-{n:08d}" for n in (8, 10, 12)]


def test_a_full_disk_while_saving_leaves_the_last_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(configure(folder, max_steps=5))
    model = (folder / "run" / "model.safetensors").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("dragoman.files.os.fsync", full)
        with pytest.raises(DragomanError, match="No space left"):
            train(configure(folder, max_steps=10))
    assert (folder / "run" / "model.safetensors").read_bytes() == model
    assert not list((folder / "run").rglob("*.partial"))
    assert train(configure(folder, max_steps=10)).progress.step == 10


# ---- steps out of bounds


def spoil(monkeypatch: pytest.MonkeyPatch, outcome: Callable[[int, float, float], tuple[float, float]]) -> None:
    """Let the steps of a run have another loss and gradient norm than they have."""
    gradients = Stepper.gradients
    count = [0]

    def spoilt(self: Stepper, share: Share, report: Callable[[str], None]) -> tuple[float, float]:
        count[0] += 1
        return outcome(count[0], *gradients(self, share, report))

    monkeypatch.setattr(Stepper, "gradients", spoilt)


def weights_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}


OUT_OF_BOUNDS: list[Callable[[float, float], tuple[float, float]]] = [
    lambda loss, norm: (math.nan, norm),
    lambda loss, norm: (math.inf, norm),
    lambda loss, norm: (loss, math.nan),
    lambda loss, norm: (loss, math.inf),
    lambda loss, norm: (100.0, norm),
]
KINDS = ["loss nan", "loss infinite", "gradient nan", "gradient infinite", "loss exploded"]


@pytest.mark.parametrize("bad", OUT_OF_BOUNDS, ids=KINDS)
def test_a_step_out_of_bounds_changes_nothing_and_is_counted(
    folder: Path, bad: Callable[[float, float], tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    history: list[dict[str, torch.Tensor]] = []
    moments: list[float] = []

    def remember(trainer: Trainer) -> None:
        history.append(weights_of(trainer))
        moments.append(float(next(iter(trainer.stepper.optimizer.state.values()), {"step": torch.tensor(0.0)})["step"]))

    before_each_step(monkeypatch, remember)
    spoil(monkeypatch, lambda step, loss, norm: bad(loss, norm) if step in (3, 4, 7) else (loss, norm))
    trainer = make(configure(folder))
    progress = trainer.run().progress
    assert (progress.step, progress.skipped, progress.skipped_in_a_row) == (12, 3, 0)
    changed = [not same(before, after) for before, after in itertools.pairwise(history)]
    assert changed == [step not in (3, 4, 7) for step in range(1, 12)]
    assert moments == [0, 1, 2, 2, 2, 3, 4, 4, 5, 6, 7, 8]  # Adam has not seen them either


def test_the_steps_left_out_are_told_to_the_doctor_of_the_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, lambda step, loss, norm: (math.nan, norm) if step in (3, 4, 7) else (loss, norm))
    trainer = make(configure(folder))
    trainer.run()
    assert [observation.skipped for observation in trainer._observations] == [2, 1, 0]


def test_a_loss_that_is_high_from_the_start_is_no_explosion(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, lambda step, loss, norm: (30.0 if step == 1 else 59.0 if step < 6 else 61.0, norm))
    progress = train(configure(folder)).progress
    assert progress.skipped == 12 - 5


@pytest.mark.parametrize("bad", OUT_OF_BOUNDS, ids=KINDS)
def test_twenty_steps_out_of_bounds_end_the_run_with_everything_as_it_was(
    folder: Path, bad: Callable[[float, float], tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configure(folder, max_steps=100, validation=ValidationConfig(every=100, metric="loss"))
    train(replace(config, max_steps=5))
    model, state = (folder / "run" / "model.safetensors").read_bytes(), list_states(folder / "run")
    trainer = make(config)
    before = weights_of(trainer)
    spoil(monkeypatch, lambda step, loss, norm: bad(loss, norm))
    with pytest.raises(DragomanError, match=r"for 20 steps in a row .*lower the learning rate") as error:
        trainer.run()
    assert "step 25" in str(error.value)
    assert "\n" not in str(error.value)
    assert trainer.progress.skipped == 20
    assert same(before, weights_of(trainer))
    assert (folder / "run" / "model.safetensors").read_bytes() == model
    assert list_states(folder / "run") == state


def test_nineteen_and_then_a_good_one_do_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, lambda step, loss, norm: (loss, norm) if step % 20 == 0 else (math.nan, norm))
    assert train(configure(folder, max_steps=41)).progress.skipped == 39


# ---- memory


def test_short_memory_costs_time_and_nothing_else(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = configure(folder, "whole", model=SHORT)
    pieces = configure(folder, "pieces", model=SHORT)
    train(whole)
    try_out = Stepper.try_out

    def limited(self: Stepper, batch: Any) -> None:
        if batch.padded_tokens > 60:
            raise torch.OutOfMemoryError("CUDA out of memory")
        try_out(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr("dragoman.training.fit.available_memory", lambda: None)
        patch.setattr(Stepper, "try_out", limited)
        assert train(replace(pieces, max_steps=7)).progress.piece_tokens in range(30, 61)
    trainer = make(pieces)
    trainer.run()  # goes on in the same pieces, without trying again
    assert trainer.stepper.piece_tokens in range(30, 61)
    expected, found = (records(folder / name, "train/loss") for name in ("whole", "pieces"))
    assert [step for step, *_ in found] == list(range(1, 13))
    assert [value for *_, value in found] == pytest.approx([value for *_, value in expected], rel=1e-5)


def test_batches_are_tried_again_where_a_run_continues_on_another_machine_or_with_larger_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    monkeypatch.setattr(trainer_module, "fit_memory", lambda stepper, batches, say: tried.append(stepper.piece_tokens))
    run = configure(folder, model=SHORT)
    train(replace(run, max_steps=3))
    assert tried == [0]
    train(replace(run, max_steps=6))
    assert tried == [0]
    larger = replace(run.optimizer, batch_tokens=2 * run.optimizer.batch_tokens)
    train(replace(run, max_steps=7, optimizer=larger, accept_changes=True))
    assert tried == [0, 0]
    monkeypatch.setattr(trainer_module, "describe_device", lambda device: "another")
    train(replace(run, max_steps=8, optimizer=larger))
    assert tried == [0, 0, 0]


def test_a_model_that_cannot_be_read_now_is_not_written_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = configure(folder, max_steps=5)
    train(run)

    def fail(path: Path) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("dragoman.checkpoint.safetensors.safe_open", lambda path, framework: fail(path))
        with pytest.raises(UnreadableError, match=r"model\.safetensors: can't be read \(Permission denied\)"):
            train(replace(run, max_steps=9))
    assert make(replace(run, max_steps=9)).progress.best_step == 5


# ---- another run in the folder


OTHER_MODELS = [{"d_model": 32}, {"num_heads": 4}, {"activation": "gelu"}, {"num_encoder_layers": 2}]


@pytest.mark.parametrize("change", OTHER_MODELS, ids=str)
def test_a_run_of_another_model_is_refused_even_if_changes_are_accepted(folder: Path, change: dict[str, Any]) -> None:
    train(configure(folder))
    other = configure(folder, model=replace(configure(folder).model, **change), accept_changes=True)
    with pytest.raises(DragomanError, match=r"another shape or other subwords.*restart"):
        make(other)


def change(config: TrainConfig, path: str, value: Any) -> TrainConfig:
    group, _, name = path.rpartition(".")
    if not group:
        return replace(config, **{name: value})
    return replace(config, **{group: replace(getattr(config, group), **{name: value})})


CHANGES = [
    ("optimizer.peak_lr", 0.1, 0.2),
    ("optimizer.batch_tokens", 200, 300),
    ("optimizer.warmup_steps", 4, 5),
    ("model.dropout", 0.1, 0.2),
    ("validation.every", 5, 6),
    ("seed", 1, 2),
    ("precision", "fp32", "bf16"),
]


@pytest.mark.parametrize(("path", "before", "now"), CHANGES, ids=[path for path, *_ in CHANGES])
def test_changed_settings_are_refused_by_name_until_they_are_accepted(
    folder: Path, path: str, before: Any, now: Any
) -> None:
    config = change(configure(folder, max_steps=6), path, before)
    train(config)
    text = make(config).text
    changed = replace(change(config, path, now), max_steps=8)

    def begin(config: TrainConfig) -> Trainer:
        trainer = make(configure(folder, "template"))
        return Trainer(config, trainer.folder, text, trainer.validator._validate)

    with pytest.raises(DragomanError) as error:
        begin(changed)
    assert f"({path} was {before} and is {now})" in str(error.value)
    assert "--accept-changes" in str(error.value)
    trainer = begin(replace(changed, accept_changes=True))
    assert trainer.run().progress.step == 8
    assert begin(changed).progress.step == 8  # accepted once and for all


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


def test_so_many_batches_make_a_step_as_was_accepted(folder: Path) -> None:
    trainer = accepting(folder, ("optimizer.accumulate", 3))
    trainer.run()
    assert trainer.progress.accumulate == 3


def test_by_another_metric_the_best_model_is_found_anew(folder: Path) -> None:
    trainer = accepting(folder, ("validation.metric", "bleu"))
    assert trainer.progress.best_score == -math.inf
    assert trainer.run().scores["bleu"] == 1.0


def test_by_another_validation_text_the_best_model_is_found_anew(folder: Path) -> None:
    trainer = accepting(folder)
    assert trainer.progress.best_score > -math.inf
    trainer.text.valid.report = replace(trainer.text.valid.report, fingerprint="another")
    again = Trainer(trainer.config, trainer.folder, trainer.text, trainer.validator._validate)
    assert again.progress.best_score == -math.inf


def test_what_is_known_of_the_text_is_what_the_run_goes_on_with(folder: Path) -> None:
    trainer = accepting(folder)
    trainer.folder = trainer.folder.with_facts({"training pairs": 100})
    trainer._save_state()
    grown = make(trainer.config).folder.with_facts({"training pairs": 200})
    facts = Trainer(trainer.config, grown, trainer.text, trainer.validator._validate).folder.direction.facts
    assert facts["training pairs"] == 200
    assert facts["steps"] == trainer.folder.direction.facts["steps"]


def test_several_changes_are_all_named(folder: Path) -> None:
    train(configure(folder))
    changed = change(change(configure(folder), "optimizer.clip_norm", 2.0), "validation.beam", 3)
    with pytest.raises(DragomanError, match=r"optimizer.clip_norm was 1.0 and is 2.0; validation.beam was 1 and is 3"):
        make(changed)


@pytest.mark.parametrize(
    "change",
    [{"max_steps": 20}, {"max_minutes": 5.0}, {"max_epochs": 9}, {"save_minutes": 1.0}, {"log_every": 7}],
    ids=str,
)
def test_how_far_it_goes_and_what_it_shows_may_change_while_a_run_continues(
    folder: Path, change: dict[str, Any]
) -> None:
    train(configure(folder))
    assert make(configure(folder, **change)).progress.step == 12


def test_a_folder_that_was_moved_goes_on(folder: Path) -> None:
    train(configure(folder, "straight", max_steps=15))
    train(configure(folder, "here"))
    (folder / "here").rename(folder / "there")
    assert train(configure(folder, "there", max_steps=15)).progress.step == 15


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
    with pytest.raises(DragomanError, match="the training text is another"):
        Trainer(trainer.config, trainer.folder, trainer.text, trainer.validator._validate)
    accepted = replace(trainer.config, accept_changes=True)
    again = Trainer(accepted, trainer.folder, trainer.text, trainer.validator._validate)
    assert (again.progress.step, again.progress.epoch, again.progress.batch) == (4, epoch + 1, 0)


def test_a_state_of_another_version_is_refused_with_the_way_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(configure(folder))
    state = load_state(folder / "run")
    assert state is not None
    for spoilt in ({}, state | {"progress": {"unheard_of": 1}}, state | {"optimizer": {}}, state | {"model": {}}):
        monkeypatch.setattr("dragoman.training.trainer.load_state", lambda folder, report, spoilt=spoilt: spoilt)
        with pytest.raises(DragomanError, match=r"another version of Dragoman.*restart"):
            make(configure(folder))


def test_all_that_a_run_knows_is_in_its_state(folder: Path) -> None:
    trainer = make(configure(folder))
    trainer.run()
    again = make(configure(folder))
    assert asdict(again.progress) == asdict(trainer.progress)
    assert again._observations == trainer._observations
    assert again._kept_scores == trainer._kept_scores
    assert again.folder.direction == trainer.folder.direction
    assert same(weights_of(again), weights_of(trainer))
    ours, theirs = again.stepper.optimizer.state_dict(), trainer.stepper.optimizer.state_dict()
    for number, values in theirs["state"].items():
        assert same(values, ours["state"][number])


def test_other_subwords_are_another_model(folder: Path) -> None:
    train(configure(folder))
    other = make(configure(folder, "other", text=TextConfig(vocab_size=310)))
    with pytest.raises(DragomanError, match="other subwords"):
        Trainer(configure(folder, accept_changes=True), other.folder, other.text, other.validator._validate)


@pytest.fixture(autouse=True)
def _leave_signals_alone() -> Iterator[None]:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


@pytest.mark.parametrize("steps", [5, 12])
def test_a_model_that_is_gone_comes_back(folder: Path, steps: int) -> None:
    train(configure(folder, max_steps=steps))
    (folder / "run" / "model.safetensors").write_bytes(b"damaged")
    outcome = train(configure(folder))
    assert (outcome.reason, outcome.progress.step) == ("limit", 12)
    assert outcome.scores["loss"] < 5.0
    ModelFolder.load(folder / "run")
