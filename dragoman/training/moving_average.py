"""A moving average of the weights, kept beside them while they are trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """Exponential moving average of a model's weights (Polyak and Juditsky, 1992; Morales-Brotons et al., 2024).

    After each step, average ← d · average + (1 − d) · weights, where d is the decay or, for about the first
    9 / (1 − decay) steps, the lesser (1 + step) / (10 + step), so that the random first weights are forgotten soon.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        """Begin with the model's present weights; with a decay of 0, keep nothing and change nothing."""
        self._decay = decay
        self._weights: list[Tensor] = [p.detach() for p in model.parameters()] if decay else []
        self.average: list[Tensor] = [weight.clone() for weight in self._weights]

    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1."""
        if self.average:
            torch._foreach_lerp_(self.average, self._weights, 1 - min(self._decay, (1 + step) / (10 + step)))

    def restore(self, average: Sequence[Tensor]) -> None:
        """Continue with the average of a saved run, or, where that kept none, from the model's present weights.

        Raises:
            ValueError: it belongs to another model.
        """
        if self.average:
            for own, saved in zip(self.average, average or self._weights, strict=True):
                own.copy_(saved)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the model have the average for its weights, and its own ones again afterwards."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def _exchange(self) -> None:
        for weight, average in zip(self._weights, self.average, strict=True):
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)
