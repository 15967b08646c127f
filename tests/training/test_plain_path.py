"""Training against the plain path: 50 steps of Dragoman's own, and the same in float64 by PyTorch's loss and Adam.

What makes training fast (the fused loss, batches that add up to a step, fused Adam, bf16) must not change what is
learned. That the model itself is right is shown in tests/model. With ReLU, which turns its gradient on and off, what
differs in the last digit may after some steps of Adam differ in the fourth; so the comparison is made with GELU.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from dragoman.config import BOS, EOS, PAD, ModelConfig, OptimizerConfig, TrainConfig
from dragoman.model.transformer import Transformer
from dragoman.text.batches import Batch, pad_right
from dragoman.training.distributed import Processes
from dragoman.training.optimizer import learning_rate
from dragoman.training.step import StepBatches, Stepper

STEPS, WARMUP, PEAK, SMOOTHING, CLIP = 50, 10, 1e-3, 0.1, 1.0
VOCABULARY = 60
SHAPE = ModelConfig(48, 96, 4, 2, 2, dropout=0.0, activation="gelu", max_length=32)
OPTIMIZER = OptimizerConfig(
    schedule="inverse-sqrt", peak_lr=PEAK, warmup_steps=WARMUP, clip_norm=CLIP, label_smoothing=SMOOTHING
)


class Losses(NamedTuple):
    """What a run reported."""

    losses: list[float]
    """Nats per token, of each step."""
    norms: list[float]
    """Of each gradient before it was clipped."""


def model() -> Transformer:
    """The initial weights, the same every time."""
    torch.manual_seed(7)
    return Transformer(replace(SHAPE, source_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY))


@cache
def text() -> list[list[Batch]]:
    """Two batches for each step; a target is its source turned round, so that there is something to learn."""
    generator = np.random.default_rng(3)

    def batch() -> Batch:
        words = [generator.integers(4, VOCABULARY, generator.integers(3, 9)).tolist() for _ in range(10)]
        targets = [[*reversed(ids), EOS] for ids in words]
        inputs = [[BOS, *ids[:-1]] for ids in targets]
        return Batch(pad_right([[*ids, EOS] for ids in words]), pad_right(inputs), pad_right(targets))

    return [[batch(), batch()] for _ in range(STEPS)]


def dragoman_run(bf16: bool = False) -> Losses:
    """Train with the package."""
    config = TrainConfig(source="xx", target="yy", train=["-"], out="-", optimizer=OPTIMIZER)
    stepper = Stepper(model(), config, bf16, Processes())
    found = Losses([], [])
    for step, batches in enumerate(text(), start=1):
        share = StepBatches([(1, batch) for batch in batches], sum(batch.num_tokens for batch in batches))
        loss, norm = stepper.gradients(share, print)
        stepper.apply(learning_rate(OPTIMIZER, SHAPE.d_model, step))
        found.losses.append(loss)
        found.norms.append(norm)
    return found


@cache
def plain_run() -> Losses:
    """Train by plain autograd, each step on one batch with the sentences of both."""
    plain = model().double()
    adam = torch.optim.Adam(plain.parameters(), betas=(0.9, 0.98), eps=1e-9, foreach=False, fused=False)
    found = Losses([], [])
    for step, batches in enumerate(text(), start=1):
        source, target_input, target_output = (
            torch.from_numpy(pad_right([row for batch in batches for row in getattr(batch, side)]))
            for side in ("source", "target_input", "target_output")
        )
        loss = F.cross_entropy(
            plain(source, target_input).flatten(0, 1),
            target_output.flatten(),
            ignore_index=PAD,
            label_smoothing=SMOOTHING,
        )
        adam.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), CLIP)
        for group in adam.param_groups:
            group["lr"] = PEAK * min(step / WARMUP, math.sqrt(WARMUP / step))
        adam.step()
        found.losses.append(loss.item())
        found.norms.append(float(norm))
    return found


def largest(found: Sequence[float], expected: Sequence[float]) -> float:
    """The largest difference, as a share of what is expected."""
    return max(abs(a - b) / b for a, b in zip(found, expected, strict=True))


def test_in_fp32_every_loss_and_gradient_is_that_of_the_plain_path() -> None:
    found, plain = dragoman_run(), plain_run()
    assert plain.losses[-1] < 0.75 * plain.losses[0]  # it learns
    assert sum(norm > CLIP for norm in plain.norms) > STEPS / 10  # and gradients are clipped
    assert largest(found.losses, plain.losses) < 1e-5
    assert largest(found.norms, plain.norms) < 1e-3


def test_in_bf16_losses_stay_in_a_narrow_band_around_those_of_the_plain_path() -> None:
    found, plain = dragoman_run(bf16=True), plain_run()
    assert largest(found.losses, plain.losses) < 0.01
    assert abs(sum(found.losses[-20:]) / sum(plain.losses[-20:]) - 1) < 2e-3
