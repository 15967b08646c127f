"""Dropout (Srivastava et al., 2014), with cheap random numbers on CPUs, where they cost most."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def dropout(x: Tensor, probability: float) -> Tensor:
    """Zero each element of x with this probability and scale the others up by 1 / (1 - probability).

    On a CPU, drawing one random float for each element takes longer than the layer before it, so eight random bits are
    drawn. Each call drops one of the two multiples of 1/256 around the probability, chosen so that the probability is
    met on average. It may be at most 255/256. In bf16 the scale is rounded, and the probability follows it, so that
    the mean is kept: 0.1 becomes 0.0986.
    """
    if probability == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, probability)
    count = x.numel()
    words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    numbers = words.view(torch.int8)[:count].view(x.shape)
    scale = float(torch.tensor(1.0 / (1.0 - probability), dtype=x.dtype))
    exact = 256 * (1.0 - 1.0 / scale)
    dropped = min(255, int(exact) + int(torch.rand(()).item() < exact % 1))  # of 256
    if dropped == 0:
        return x * scale
    # numbers >= dropped - 128 as 0 or 1, without the comparison, which takes ten times as long.
    keep = numbers.clamp_(dropped - 129, dropped - 128).sub_(dropped - 129)
    return x * keep.to(x.dtype).mul_(scale)


class Dropout(nn.Module):
    """Dropout as a layer; it does nothing in evaluation mode."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of x, of any shape."""
        return dropout(x, self.probability) if self.training else x
