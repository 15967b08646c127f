"""Dropout (Srivastava et al., 2014), with cheap random numbers where they would otherwise cost most."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def dropout(x: Tensor, probability: float) -> Tensor:
    """Zero each element with this probability and scale the others up by 1 / (1 - probability).

    On a CPU, drawing one random float for each element takes longer than the layer it follows. Sixteen random bits
    decide just as well: the probability is met to within 2^-16.
    """
    if probability == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, probability)
    count = x.numel()
    words = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[:count].view(x.shape)
    keep = bits >= round(probability * 2**16) - 2**15
    return x * keep.to(x.dtype).mul_(1.0 / (1.0 - probability))


class Dropout(nn.Module):
    """Dropout as a layer: only while training."""

    def __init__(self, probability: float) -> None:
        """Drop with this probability."""
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of x, of any shape."""
        return dropout(x, self.probability) if self.training else x
