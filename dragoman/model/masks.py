"""Attention masks: who may attend to whom. Masks are made only here.

A mask is boolean, broadcastable to (B, H, T, S), and True means *may attend*.
B batch, H heads, T query length, S key length.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor


def padding_mask(ids: Tensor, pad: int | Collection[int]) -> Tensor:
    """Hide padding: keys that are a pad symbol may not be attended to.

    Args:
        ids: token ids, (B, S).
        pad: the pad id, or several ids that all count as padding.

    Returns:
        bool (B, 1, 1, S): the same keys are hidden from every head and every query.
    """
    pads = [pad] if isinstance(pad, int) else sorted(pad)
    real = ids != pads[0]
    for other in pads[1:]:
        real = real & (ids != other)
    return real[:, None, None, :]  # (B, 1, 1, S)


def causal_mask(length: int, offset: int = 0, device: torch.device | None = None) -> Tensor:
    """Hide the future: position i may attend to the positions j <= i (section 3.2.3).

    Args:
        length: number of queries T.
        offset: number of earlier positions, all visible; with a cache the queries are positions
            offset, …, offset + T - 1.
        device: of the mask.

    Returns:
        bool (1, 1, T, offset + T).
    """
    everything = torch.ones(length, offset + length, dtype=torch.bool, device=device)  # (T, offset + T)
    return everything.tril(diagonal=offset)[None, None]  # (1, 1, T, offset + T)


def own_position_mask(width: int, device: torch.device | None = None) -> Tensor:
    """Hide what the other hypotheses of a sentence wrote at the same position.

    In a search the W hypotheses keep their positions side by side; each sees its own and those it descends from.

    Returns:
        bool (1, 1, W, W).
    """
    return torch.eye(width, dtype=torch.bool, device=device)[None, None]
