"""Embeddings and positions (sections 3.4 and 3.5).

Shapes: B batch, S length, D d_model, V vocabulary.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.model.dropout import Dropout


class ScaledEmbedding(nn.Module):
    """A learned vector for each token, multiplied by √d_model (section 3.4)."""

    def __init__(self, vocab_size: int, d_model: int, gain: float = 1.0) -> None:
        """Create the table (V, D) from a normal distribution that gives the output the variance gain²."""
        super().__init__()
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model).normal_(std=gain * d_model**-0.5))

    def forward(self, ids: Tensor) -> Tensor:
        """Look up ids (B, S); returns (B, S, D)."""
        return nn.functional.embedding(ids, self.weight) * self.scale  # (B, S, D)


def sinusoids(length: int, d_model: int, layout: Literal["interleaved", "halves"] = "interleaved") -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same (section 3.5).

    "interleaved" puts each sine next to its cosine, as the paper does; "halves" puts all sines first. Returns
    (length, D) in float32; D must be even.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10_000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = position * frequency  # (length, D / 2)
    waves = torch.stack((angles.sin(), angles.cos()), dim=-1 if layout == "interleaved" else 1)
    return waves.flatten(1).float()  # (length, D)


class PositionalEncoding(nn.Module):
    """Add each position's encoding, then dropout (sections 3.5 and 5.4)."""

    def __init__(
        self,
        d_model: int,
        max_length: int,
        dropout: float,
        positions: Literal["interleaved", "halves", "learned"] = "interleaved",
    ) -> None:
        """Create the table (max_length, D): fixed sinusoids (a buffer that is not saved) or learned."""
        super().__init__()
        self.dropout = Dropout(dropout)
        self.table: Tensor
        if positions == "learned":
            self.table = nn.Parameter(torch.empty(max_length, d_model).normal_(std=d_model**-0.5))
        else:
            self.register_buffer("table", sinusoids(max_length, d_model, positions), persistent=False)

    def forward(self, embedded: Tensor, offset: int = 0) -> Tensor:
        """Add the encodings of the positions offset, offset + 1, … to embedded (B, S, D)."""
        end = offset + embedded.size(1)
        if end > self.table.size(0):
            raise ValueError(f"{end} positions, but the model takes at most {self.table.size(0)}")
        x = embedded + self.table[offset:end]
        if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            x = x.to(torch.get_autocast_dtype("cpu"))  # or the residual sums would be converted at every layer
        return self.dropout(x)  # type: ignore[no-any-return]
