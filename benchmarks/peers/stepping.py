"""A training step as a user of plain PyTorch writes it; the peers that bring no training loop share it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from peers.batches import BETAS, CLIP_NORM, EPSILON, LABEL_SMOOTHING, LEARNING_RATE, PAD, Arrays

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(source (B, S), target_input (B, T), target_output (B, T)) -> mean loss of the real tokens."""


def adam(parameters: Iterable[nn.Parameter], fused: bool = True) -> torch.optim.Adam:
    """Adam for those of the parameters that are trained, with its fused kernel or without."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    return torch.optim.Adam(trained, lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, fused=fused)


def torch_step(
    parameters: Iterable[nn.Parameter],
    loss: Loss,
    bf16: bool,
    fused: bool = True,
    optimizer: torch.optim.Optimizer | None = None,
) -> Callable[[Arrays], Any]:
    """Forward, backward, clip, Adam; each step returns its loss, a scalar tensor, for those who look at it.

    Args:
        parameters: of the model, which is in training mode.
        loss: of the model.
        bf16: compute it under autocast.
        fused: use Adam's fused kernel.
        optimizer: for these parameters, where Adam at a constant rate is not what is wanted.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    optimizer, device = optimizer or adam(trained, fused), trained[0].device

    def step(batch: Arrays) -> Tensor:
        ids = [torch.from_numpy(array).to(device) for array in (batch.source, batch.target_input, batch.target_output)]
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            value = loss(*ids)
        value.backward()
        nn.utils.clip_grad_norm_(trained, CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return value.detach()

    return step


def wait_for(device: str) -> None:
    """Wait until a GPU has done what it was told."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def smoothed_cross_entropy(logits: Tensor, target_output: Tensor) -> Tensor:
    """PyTorch's own label-smoothed cross-entropy of logits (B, T, V), padding left out."""
    return F.cross_entropy(
        logits.flatten(0, 1), target_output.flatten(), ignore_index=PAD, label_smoothing=LABEL_SMOOTHING
    )
