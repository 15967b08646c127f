"""What a run would take: true of the run, and without a trace of the rehearsal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.main import VERBS
from dragoman.cli.parsing import parse
from dragoman.cli.reproduce import read_recipe
from dragoman.config import EOS, ModelConfig, OptimizerConfig, TextConfig
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text.batches import plan_epoch
from dragoman.text.preprocess import prepare_text
from dragoman.training import dry_run as fit
from dragoman.training import dry_run as rehearsal
from dragoman.training.data_loader import DataLoader
from dragoman.training.distributed import Processes
from dragoman.training.dry_run import DryRun, SyntheticText, dry_run

from .small_runs import configure, train, write_corpus

CPU = torch.device("cpu")


def rehearsed(folder: Path, **changes: object) -> DryRun:
    config = configure(folder, **changes)
    text = prepare_text(config, clean_text)
    sizes = {"source_vocab_size": len(text.vocabulary.source), "target_vocab_size": len(text.vocabulary.target)}
    return dry_run(config, replace(config.model, **sizes), text.train, CPU, lambda line: None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_corpus(tmp_path)
    return tmp_path


def test_it_foretells_steps_tokens_and_size_of_the_run(folder: Path) -> None:
    found = rehearsed(folder, max_steps=0, max_epochs=3)
    outcome = train(configure(folder, max_steps=0, max_epochs=3))
    assert found.steps == outcome.progress.step == 3 * found.steps_per_epoch
    assert found.tokens_per_step * found.steps == pytest.approx(outcome.progress.tokens)
    assert found.pairs == 100
    assert 0 < found.padding < 1
    assert 0 < found.seconds_per_step < 10
    assert found.memory is None or found.memory > 2**20
    assert (found.device, found.precision, found.piece_tokens) == ("cpu", "fp32", 0)


def test_accumulated_batches_are_one_step(folder: Path) -> None:
    alone = rehearsed(folder)
    optimizer = OptimizerConfig(batch_tokens=200, accumulate=4)
    together = rehearsed(folder, optimizer=optimizer)
    assert together.steps_per_epoch == -(-alone.steps_per_epoch // 4)


@pytest.mark.parametrize(
    ("limits", "steps"),
    [({"max_steps": 7}, 7), ({"max_steps": 700, "max_epochs": 1}, None), ({"max_steps": 0, "max_minutes": 2.0}, 0)],
)
def test_the_first_limit_counts(folder: Path, limits: dict[str, float], steps: int | None) -> None:
    found = rehearsed(folder, **limits)
    assert found.steps == (found.steps_per_epoch if steps is None else steps)
    words = "\n".join(found.lines())
    assert (f"time: {found.steps:,} steps" in words) == bool(found.steps)
    assert ("time: the run ends after 2 minutes, about " in words) == ("max_minutes" in limits)


def test_short_memory_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "available_memory", lambda: 200_000)
    found = rehearsed(folder)
    assert 0 < found.piece_tokens < 200
    assert f"pieces of {found.piece_tokens:,} tokens" in "\n".join(found.lines())


def test_long_times_are_told_in_days() -> None:
    found = DryRun(63_000_000, "cpu", "bf16", 4_500_000, 5800, 21_000.0, 0.07, 100_000, 12.0, 7 * 2**30, 0, 0.0)
    assert found.lines() == [
        "model: 63,000,000 parameters, bf16 on cpu",
        "text: 4,500,000 pairs, 5,800 steps per epoch, 21,000 target tokens per step, 7% padding",
        "memory: 7.0 GiB",
        "speed: 12.00 seconds per step, 1,750 target tokens per second",
        "time: 100,000 steps (17.2 epochs) in 13 days, 21:20:00, without validation",
    ]
    short = replace(found, steps=100, memory=None)
    assert short.lines()[2] == "memory: unknown"
    assert "in 0:20:00, without validation" in short.lines()[-1]


def test_a_slow_machine_is_not_kept_for_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    gradients = rehearsal.Stepper.gradients

    def counted(self: rehearsal.Stepper, *arguments: object) -> tuple[float, float]:
        made.append(1)
        return gradients(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(rehearsal.Stepper, "gradients", counted)
    monkeypatch.setattr(rehearsal, "_SECONDS", 0.0)
    rehearsed(folder, max_steps=100)
    assert len(made) == rehearsal._WARMING_UP + 1


@given(
    pairs=st.integers(1, 3000),
    mean=st.floats(4, 60),
    longest=st.integers(10, 200),
    words=st.sampled_from([300, 8000, 37_000]),
)
def test_an_imagined_text_is_of_the_size_that_was_asked_for(pairs: int, mean: float, longest: int, words: int) -> None:
    text = SyntheticText(pairs, mean, longest, words)
    assert len(text.source_lengths) == len(text.target_lengths) == pairs
    assert max(text.source_lengths.max(), text.target_lengths.max()) <= longest
    if pairs > 1000 and longest > 5 * mean:
        assert text.target_lengths.mean() == pytest.approx(mean, rel=0.1)
    for index in (0, pairs - 1, pairs // 2):
        for ids, length in ((text.source(index), text.source_lengths), (text.target(index), text.target_lengths)):
            assert len(ids) == length[index]
            assert ids[-1] == EOS
            assert ((ids[:-1] > EOS) & (ids[:-1] < words)).all()


@pytest.mark.parametrize("name", ["base", "big"])
def test_the_papers_recipes_have_the_papers_batches(name: str) -> None:
    """25,000 target tokens (section 5.1)."""
    recipe = read_recipe(Path(__file__).parents[2] / "recipes" / f"wmt14-en-de-{name}.yaml")
    words = [f"--optimizer.batch-tokens={recipe.train['optimizer']['batch_tokens']}", "--preset", name]
    config = parse("train", VERBS["train"], ["--out", "x", "--source", "en", "--target", "de", "--train", "x", *words])
    text = SyntheticText(1_000_000, recipe.imagined["length"], config.text.max_length, config.text.vocab_size)
    batches = DataLoader(text, config, Processes()).batches_per_epoch()
    assert float(text.target_lengths.sum()) / batches == pytest.approx(25_000, rel=0.03)


def test_an_imagined_text_can_be_rehearsed(tmp_path: Path) -> None:
    config = configure(tmp_path, text=TextConfig(vocab_size=400, max_length=60), max_steps=1000)
    shape = ModelConfig(
        d_model=16, d_ff=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, source_vocab_size=400,
        target_vocab_size=400,
    )  # fmt: skip
    text = SyntheticText(500, 9, 60, 400)
    found = dry_run(config, shape, text, CPU, lambda line: None)
    plan = plan_epoch(text.source_lengths, text.target_lengths, 200, config.seed, 0)
    assert found.steps_per_epoch == len(plan)
    assert found.tokens_per_step == pytest.approx(np.mean([text.target_lengths[batch].sum() for batch in plan]))
