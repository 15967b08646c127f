"""Adam, the learning-rate schedules (section 5.3), and the moving average of the weights."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from dragoman.config import OptimizerConfig


def learning_rate(config: OptimizerConfig, d_model: int, step: int, progress: float = 0.0) -> float:
    """Return the learning rate of a step.

    The paper's schedule is d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (equation 3), times lr_scale. The others
    also warm up linearly. "inverse-sqrt" reaches peak_lr at the end of the warm-up and then falls with the inverse
    square root of the step. "linear" and "cosine" fall from peak_lr at the first step to zero at the end of the run;
    during the warm-up that is multiplied by step / warmup_steps. Steps count from 1; progress is the part of the run
    that is done, from 0 to 1.
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
    """Adam with decoupled weight decay, if any (AdamW); fused into one pass over the parameters where possible."""
    parameters = list(model.parameters())
    return torch.optim.AdamW(
        parameters,
        lr=0.0,  # set before every step
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=all(p.device.type in ("cpu", "cuda") for p in parameters),
    )


class MovingAverage:
    """Exponential moving average of a model's weights (Polyak and Juditsky, 1992; Morales-Brotons et al., 2024).

    After each step, average ← d · average + (1 − d) · weights, where d is the smaller of the decay and
    (1 + step) / (10 + step), so that the random initial weights are soon forgotten. With a decay of 0 nothing is kept.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._decay = decay
        self._weights: list[Tensor] = [p.detach() for p in model.parameters()] if decay else []
        self.average: list[Tensor] = [weight.clone() for weight in self._weights]

    def update(self, step: int) -> None:
        """Include the weights after a step, counted from 1."""
        if self.average:
            torch._foreach_lerp_(self.average, self._weights, 1 - min(self._decay, (1 + step) / (10 + step)))

    def restore(self, average: Sequence[Tensor]) -> None:
        """Resume with the average of a saved run; if that kept none, start from the model's current weights."""
        if self.average:
            for own, saved in zip(self.average, average or self._weights, strict=True):
                own.copy_(saved)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Give the model the averaged weights, and its own ones back when the block ends."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for weight, average in zip(self._weights, self.average, strict=True):
            own = weight.clone()
            weight.copy_(average)
            average.copy_(own)
