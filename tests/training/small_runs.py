"""Runs on text small enough to learn by heart, for the tests of training."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman.checkpoint import ModelFolder, read_weights
from dragoman.config import BOS, EOS, ModelConfig, OptimizerConfig, TextConfig, TrainConfig, ValidationConfig
from dragoman.corpus_check.cleaning import clean_text
from dragoman.folder import LONGEST_FACT, Direction, list_checkpoints
from dragoman.model.transformer import Transformer
from dragoman.text.batches import Batch, pad_right
from dragoman.text.preprocess import prepare_text
from dragoman.training.distributed import Processes
from dragoman.training.loss import TrainingObjective
from dragoman.training.run_state import Outcome
from dragoman.training.step import StepBatches, Stepper
from dragoman.training.trainer import Trainer
from dragoman.training.validation import Validation

WORDS = ["red", "blue", "big", "old", "cat", "dog", "sees", "the", "a", "house"]
SHAPE = ModelConfig(d_model=16, d_ff=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
VOCABULARY = 40


# ---- text


def write_corpus(folder: Path, train: int = 100, valid: int = 20) -> None:
    """Sentences in train.en and valid.en, no two alike, and the same in capitals in train.xx and valid.xx."""
    choose = random.Random(1)
    lines: dict[str, None] = {}
    while len(lines) < train + valid:
        lines[" ".join(choose.choices(WORDS, k=choose.randint(2, 7)))] = None
    for name, part in (("train", list(lines)[:train]), ("valid", list(lines)[train:])):
        (folder / f"{name}.en").write_text("".join(line + "\n" for line in part))
        (folder / f"{name}.xx").write_text("".join(line.upper() + "\n" for line in part))


def configure(folder: Path, out: str = "run", **changes: Any) -> TrainConfig:
    """Twelve steps on the corpus in a folder."""
    config = TrainConfig(
        source="en",
        target="xx",
        train=[str(folder / "train")],
        valid=[str(folder / "valid")],
        out=str(folder / out),
        max_steps=12,
        precision="fp32",
        device="cpu",
        log_every=1,
        model=SHAPE,
        text=TextConfig(placeholders=0.0, vocab_size=320),
        optimizer=OptimizerConfig(batch_tokens=200, warmup_steps=4),
        validation=ValidationConfig(every=5, metric="loss", keep_last=2),
    )
    return replace(config, **changes)


# ---- runs


def make(config: TrainConfig, bleu: Sequence[float] = (1.0,)) -> Trainer:
    """A trainer whose validations report these BLEU scores, the last one for ever."""
    text = prepare_text(config, clean_text)
    torch.manual_seed(config.seed)
    sizes = {"source_vocab_size": len(text.vocabulary.source), "target_vocab_size": len(text.vocabulary.target)}
    direction = Direction("en", "xx", {LONGEST_FACT: 9})
    folder = ModelFolder(Transformer(replace(config.model, **sizes)), text.vocabulary, direction)
    scores = list(bleu)
    references = [reference for pairs in text.valid_pairs.values() for _, reference in pairs]
    translations = list(zip(references, text.vocabulary.target.encode(references), strict=True))

    def validate(model: Transformer, bf16: bool) -> Validation:
        score = scores.pop(0) if len(scores) > 1 else scores[0]
        return Validation({"bleu": score, "chrf": score}, {}, translations)

    return Trainer(config, folder, text, validate)


def train(config: TrainConfig, bleu: Sequence[float] = (1.0,)) -> Outcome:
    """Make a trainer and let it run."""
    return make(config, bleu).run()


def records(folder: Path, *kinds: str) -> list[tuple[int, str, float]]:
    """Step, name and value of all that a run has recorded, but for its time and speed; or of some kinds of it."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().split("\n") if line]
    return [
        (line["step"], name, value)
        for line in lines
        for name, value in line.items()
        if name not in ("step", "seconds", "train/tokens_per_second") and name.startswith(kinds or "")
    ]


def last_weights(folder: Path) -> dict[str, Tensor]:
    """The weights after the last step."""
    return read_weights(list_checkpoints(folder)[-1])


def weights_of(trainer: Trainer) -> dict[str, Tensor]:
    """A copy of the present weights."""
    return {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Whether two sets of weights are equal, bit for bit."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


# ---- steps


def random_batch(lengths: Sequence[tuple[int, int]], seed: int = 0) -> Batch:
    """A batch of sentences of these lengths (source, target), EOS included."""
    generator = np.random.default_rng(seed)

    def ids(length: int) -> list[int]:
        return [*generator.integers(4, VOCABULARY, length - 1).tolist(), EOS]

    sources, targets = ([ids(length) for length in side] for side in zip(*lengths, strict=True))
    return Batch(pad_right(sources), pad_right([[BOS, *target[:-1]] for target in targets]), pad_right(targets))


def small_model(**changes: Any) -> Transformer:
    """The same weights every time."""
    torch.manual_seed(5)
    sizes: dict[str, Any] = {"source_vocab_size": VOCABULARY, "target_vocab_size": VOCABULARY, "max_length": 64}
    return Transformer(replace(SHAPE, **(sizes | changes)))


def make_stepper(processes: Processes = Processes(), clip_norm: float = 0.0, **changes: Any) -> Stepper:  # noqa: B008
    """A stepper with a small model of its own."""
    config = configure(Path("nowhere"), optimizer=OptimizerConfig(clip_norm=clip_norm))
    return Stepper(small_model(**changes), config, False, processes)


def share(*batches: Batch, seeds: Sequence[int] = (11, 12, 13, 14), num_tokens: int = 0) -> StepBatches:
    """A step of these batches."""
    tokens = num_tokens or sum(batch.num_tokens for batch in batches)
    return StepBatches(list(zip(seeds, batches, strict=False)), tokens)


def gradients_of(stepper: Stepper) -> dict[str, Tensor]:
    """The gradients that a stepper has left."""
    parameters = stepper._model.named_parameters()
    return {name: p.grad.detach().clone() for name, p in parameters if p.grad is not None}


def limit_memory(patch: pytest.MonkeyPatch, room: int) -> list[int]:
    """Let batches of more padded tokens fail, as on a graphics card; the list gets the size of each that did."""
    failed: list[int] = []
    forward = TrainingObjective.forward

    def limited(self: TrainingObjective, source: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
        size = len(source) * max(source.size(1), target_output.size(1))
        if size > room:
            failed.append(size)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, source, target_input, target_output)

    patch.setattr(TrainingObjective, "forward", limited)
    return failed
