"""Attention masks: who may attend to whom. Masks are made only here.

A mask is boolean, broadcastable to (B, H, T, S), and True means *may attend*.
B batch, H heads, T query length, S key length.
"""

from collections.abc import Collection

import torch
from torch import Tensor


def padding_mask(ids: Tensor, pad: int | Collection[int]) -> Tensor:
    """Hide the keys that are padding from every head and query: ids (B, S) -> bool (B, 1, 1, S).

    pad is the pad id, or several ids that all count as padding.
    """
    real = ids != pad if isinstance(pad, int) else ~torch.isin(ids, torch.tensor(sorted(pad), device=ids.device))
    return real[:, None, None, :]  # (B, 1, 1, S)


def causal_mask(length: int, offset: int = 0, device: torch.device | None = None) -> Tensor:
    """Hide the future: position i may attend to the positions j <= i (section 3.2.3); bool (1, 1, T, offset + T).

    With a cache the T = length queries are the positions offset, …, offset + T - 1; all earlier ones are visible.
    """
    everything = torch.ones(length, offset + length, dtype=torch.bool, device=device)  # (T, offset + T)
    return everything.tril(diagonal=offset)[None, None]  # (1, 1, T, offset + T)
