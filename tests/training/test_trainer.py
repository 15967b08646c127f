"""The loop, on text small enough to learn by heart."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.checkpoint import Direction, ModelFolder, list_checkpoints, read_weights
from dragoman.config import DragomanError, ModelConfig, OptimizerConfig, TextConfig, TrainConfig, ValidationConfig
from dragoman.model.transformer import Transformer
from dragoman.text.preparation import prepare_text
from dragoman.training import trainer as trainer_module
from dragoman.training.trainer import Outcome, Trainer, Validation

WORDS = ["red", "blue", "big", "old", "cat", "dog", "sees", "the", "a", "house"]


def corpus(folder: Path) -> None:
    lines = [" ".join(WORDS[(i * (j + 1) + j) % len(WORDS)] for j in range(1 + i % 6)) for i in range(120)]
    for name, part in (("train", lines[:100]), ("valid", lines[100:])):
        (folder / f"{name}.en").write_text("".join(line + "\n" for line in part))
        (folder / f"{name}.xx").write_text("".join(line.upper() + "\n" for line in part))


def configure(folder: Path, out: str = "run", **changes: Any) -> TrainConfig:
    shape = ModelConfig(d_model=16, d_ff=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
    config = TrainConfig(
        source="en",
        target="xx",
        train=[str(folder / "train")],
        valid=[str(folder / "valid")],
        out=str(folder / out),
        max_steps=12,
        precision="fp32",
        device="cpu",
        model=shape,
        text=TextConfig(vocab_size=320),
        optimizer=OptimizerConfig(batch_tokens=200, warmup_steps=4),
        validation=ValidationConfig(every=5, metric="loss", keep_last=2),
    )
    return replace(config, **changes)


def make(config: TrainConfig, bleu: Sequence[float] = (1.0,)) -> Trainer:
    """A trainer whose validations report these BLEU scores, the last one for ever."""
    text = prepare_text(config)
    torch.manual_seed(config.seed)
    sizes = {"source_vocab_size": len(text.vocabulary.source), "target_vocab_size": len(text.vocabulary.target)}
    folder = ModelFolder(Transformer(replace(config.model, **sizes)), text.vocabulary, Direction("en", "xx"))
    scores = list(bleu)

    def validate(model: Transformer) -> Validation:
        score = scores.pop(0) if len(scores) > 1 else scores[0]
        return Validation({"bleu": score, "chrf": score}, {})

    return Trainer(config, folder, text, validate)


def train(config: TrainConfig, bleu: Sequence[float] = (1.0,)) -> Outcome:
    return make(config, bleu).run()


def losses(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if "valid/loss" in record]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_weights(list_checkpoints(folder)[-1])


def interrupt_after(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Send a SIGTERM to this process after so many steps."""
    step = Trainer._train_step

    def train_step(self: Trainer, batches: Any) -> None:
        step(self, batches)
        if self.progress.step == steps:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Trainer, "_train_step", train_step)


def test_the_loss_falls(tmp_path: Path) -> None:
    corpus(tmp_path)
    config = configure(tmp_path, max_steps=60, optimizer=OptimizerConfig(batch_tokens=200, warmup_steps=20))
    train(config)
    values = [record["valid/loss"] for record in losses(tmp_path / "run")]
    assert values[-1] < 0.8 * values[0]


@pytest.mark.parametrize("stop", [3, 5, 8])
def test_an_interrupted_run_continues_bit_for_bit(tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus(tmp_path)
    straight, broken = configure(tmp_path, "straight"), configure(tmp_path, "broken")
    assert train(straight).reason == "limit"
    with monkeypatch.context() as patch:
        interrupt_after(patch, stop)
        outcome = train(broken)
    assert (outcome.reason, outcome.signal, outcome.progress.step) == ("interrupted", 15, stop)
    torch.manual_seed(999)  # whatever happened in between
    assert train(broken).progress.step == 12
    expected, found = weights(tmp_path / "straight"), weights(tmp_path / "broken")
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert losses(tmp_path / "straight") == losses(tmp_path / "broken")


def test_a_finished_run_is_not_trained_again_unless_it_gets_more_room(tmp_path: Path) -> None:
    corpus(tmp_path)
    train(configure(tmp_path))
    before = weights(tmp_path / "run")
    again = train(configure(tmp_path))
    assert again.reason == "already finished"
    assert again.scores["loss"] > 0
    assert all(torch.equal(before[name], w) for name, w in weights(tmp_path / "run").items())
    assert train(configure(tmp_path, max_steps=15)).progress.step == 15


def test_more_room_is_the_same_as_having_had_it_from_the_start(tmp_path: Path) -> None:
    corpus(tmp_path)
    steady = ValidationConfig(every=6, metric="loss", keep_last=2)
    train(configure(tmp_path, "long", validation=steady))
    train(configure(tmp_path, "short", validation=steady, max_steps=6))
    train(configure(tmp_path, "short", validation=steady))
    expected, found = weights(tmp_path / "long"), weights(tmp_path / "short")
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_accumulated_batches_give_the_gradient_of_one_large_batch(tmp_path: Path) -> None:
    corpus(tmp_path)
    still = ModelConfig(d_model=16, d_ff=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, dropout=0.0)
    trainer = make(configure(tmp_path, model=still))
    store = trainer.text.train
    whole, parts = range(40), (range(3), range(3, 25), range(25, 40))
    gradients = []
    for batches in ([whole], parts):
        collected = [trainer_module.collate(store, list(indices)) for indices in batches]
        num_tokens = sum(batch.num_tokens for batch in collected)
        trainer.model.zero_grad()
        for batch in collected:
            (trainer._loss(batch, 0.1) / num_tokens).backward()  # type: ignore[no-untyped-call]
        gradients.append([p.grad.clone() for p in trainer.model.parameters() if p.grad is not None])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_the_best_weights_are_kept_and_patience_ends_the_run(tmp_path: Path) -> None:
    corpus(tmp_path)
    validation = ValidationConfig(every=2, patience=3, keep_last=1, metric="bleu")
    outcome = train(configure(tmp_path, max_steps=100, validation=validation), bleu=[5.0, 9.0, 7.0, 8.0, 6.0, 1.0])
    assert outcome.reason == "patience"
    assert (outcome.progress.best_step, outcome.progress.step) == (4, 10)
    assert outcome.scores["bleu"] == 9.0
    kept = json.loads((tmp_path / "run" / "config.json").read_text())["facts"]
    assert kept["validation"]["bleu"] == 9.0
    assert kept["steps"] == 4


def test_the_average_replaces_the_best_only_when_it_is_at_least_as_good(tmp_path: Path) -> None:
    corpus(tmp_path)
    validation = ValidationConfig(every=4, metric="bleu", keep_last=3)
    config = configure(tmp_path, "worse", validation=validation)
    train(config, bleu=[3.0, 5.0, 4.0, 2.0])  # three validations, then the average's
    best = read_weights(tmp_path / "worse" / "checkpoints" / "step-00000008.safetensors")
    kept = read_weights(tmp_path / "worse" / "model.safetensors")
    assert all(torch.equal(best[name], kept[name]) for name in best)
    train(configure(tmp_path, "better", validation=validation), bleu=[3.0, 5.0, 4.0, 6.0])
    checkpoints = [read_weights(path) for path in list_checkpoints(tmp_path / "better")]
    kept = read_weights(tmp_path / "better" / "model.safetensors")
    for name, value in kept.items():
        torch.testing.assert_close(value, sum(c[name] for c in checkpoints) / 3)


def test_only_the_last_checkpoints_stay(tmp_path: Path) -> None:
    corpus(tmp_path)
    train(configure(tmp_path, validation=ValidationConfig(every=2, metric="loss", keep_last=3, patience=0)))
    assert [path.stem for path in list_checkpoints(tmp_path / "run")] == [f"step-{n:08d}" for n in (8, 10, 12)]


def test_a_step_without_a_finite_gradient_changes_nothing_and_too_many_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus(tmp_path)
    trainer = make(configure(tmp_path, max_steps=100))
    before = [p.detach().clone() for p in trainer.model.parameters()]
    monkeypatch.setattr(trainer, "_loss", lambda batch, smoothing: Trainer._loss(trainer, batch, smoothing) * math.nan)
    with pytest.raises(DragomanError, match="not finite for 20 steps"):
        trainer.run()
    assert trainer.progress.skipped == 20
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))


def test_a_run_of_another_shape_is_refused(tmp_path: Path) -> None:
    corpus(tmp_path)
    train(configure(tmp_path))
    other = ModelConfig(d_model=32, d_ff=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
    with pytest.raises(DragomanError, match="restart"):
        make(configure(tmp_path, model=other))


def test_a_full_disk_while_saving_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus(tmp_path)
    train(configure(tmp_path, max_steps=5))
    model = (tmp_path / "run" / "model.safetensors").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("dragoman.checkpoint.os.fsync", full)
        with pytest.raises(DragomanError, match="No space left"):
            train(configure(tmp_path, max_steps=10))
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == model
    assert not list((tmp_path / "run").rglob("*.partial"))
    assert train(configure(tmp_path, max_steps=10)).progress.step == 10
