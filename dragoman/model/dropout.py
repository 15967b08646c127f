"""Dropout (Srivastava et al., 2014), with cheap random numbers where they would otherwise cost most."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def dropout(x: Tensor, probability: float) -> Tensor:
    """Zero each element with this probability and scale the others up by 1 / (1 - probability).

    On a CPU, drawing one random float for each element takes longer than the layer it follows. Eight random bits do:
    each call drops one of the two multiples of 1/256 around the probability, one of them chosen so often that the
    probability is met on average.
    """
    if probability == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    count = x.numel()
    words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    numbers = words.view(torch.int8)[:count].view(x.shape)
    scale = float(torch.tensor(1.0 / (1.0 - probability), dtype=x.dtype))  # as bf16 has it, and the mean depends on it
    exact = 256 * (1.0 - 1.0 / scale)
    dropped = min(255, int(exact) + int(torch.rand(()).item() < exact % 1))  # of 256
    if dropped == 0:
        return x * scale
    # numbers >= dropped - 128 as 0 or 1, without the comparison, which takes ten times as long.
    keep = numbers.clamp_(dropped - 129, dropped - 128).sub_(dropped - 129)
    return x * keep.to(x.dtype).mul_(scale)


class Dropout(nn.Module):
    """Dropout as a layer: only while training."""

    def __init__(self, probability: float) -> None:
        """Drop with this probability."""
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of x, of any shape."""
        return dropout(x, self.probability) if self.training else x
