"""Adam and the learning-rate schedules (section 5.3)."""

from __future__ import annotations

import math

import torch
from torch import nn

from dragoman.config import OptimizerConfig


def learning_rate(config: OptimizerConfig, d_model: int, step: int, progress: float = 0.0) -> float:
    """The learning rate of a step.

    The paper's schedule is d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (equation 3), times lr_scale. The others
    warm up linearly, too. "inverse-sqrt" reaches peak_lr at the end of the warm-up and then falls with the inverse
    square root of the step. "linear" and "cosine" fall from peak_lr at the first step to zero at the end of the run;
    during the warm-up that is multiplied by step / warmup_steps.

    Args:
        config: the schedule.
        d_model: width of the model; only the paper's schedule uses it.
        step: number of the step, from 1.
        progress: how much of the run is done, from 0 to 1; only linear and cosine use it.
    """
    if config.schedule == "paper":
        rise = step / math.pow(config.warmup_steps, 1.5)
        return config.lr_scale / math.sqrt(d_model) * min(1 / math.sqrt(step), rise)
    warmup = min(1.0, step / config.warmup_steps)
    if config.schedule == "inverse-sqrt":
        return config.peak_lr * min(warmup, math.sqrt(config.warmup_steps / step))
    remaining = 1.0 - min(1.0, max(0.0, progress))
    if config.schedule == "cosine":
        remaining = 0.5 * (1.0 - math.cos(math.pi * remaining))
    return config.peak_lr * warmup * remaining


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    """Adam with the paper's decay rates; fused into one pass over the parameters where the device can."""
    parameters = list(model.parameters())
    return torch.optim.AdamW(
        parameters,
        lr=0.0,  # set before every step
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=all(p.device.type in ("cpu", "cuda") for p in parameters),
    )
