"""The loss: cross-entropy against smoothed targets (section 5.4).

Shapes: N positions, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dragoman.config import PAD


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Σ over positions of -Σ_v q(v) log p(v), with q = (1 - ε) δ(target) + ε / V.

    The gradient has a closed form, p - q. Writing it down spares autograd's copies of the N × V logits: they are the
    largest tensor of a training step, so each copy counts.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
        log_probs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)  # (N, V)
        correct = log_probs.gather(1, target[:, None]).sum()
        loss = -(1.0 - smoothing) * correct
        if smoothing:
            loss = loss - smoothing * log_probs.mean(dim=-1).sum()
        ctx.save_for_backward(log_probs, target)
        ctx.smoothing, ctx.dtype = smoothing, logits.dtype
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        log_probs, target = ctx.saved_tensors
        scale, vocabulary = gradients[0], log_probs.size(1)
        grad = log_probs.exp().sub_(ctx.smoothing / vocabulary)  # p - ε / V
        grad.scatter_add_(1, target[:, None], torch.full_like(grad[:, :1], ctx.smoothing - 1.0))  # - (1 - ε) δ
        return grad.mul_(scale).to(ctx.dtype), None, None


def label_smoothed_cross_entropy(logits: Tensor, target_output: Tensor, smoothing: float) -> tuple[Tensor, int]:
    """Cross-entropy between the smoothed targets and the predictions, summed over the real positions.

    The smoothing mass ε is spread evenly over the whole vocabulary (Szegedy et al., 2016), as in
    `torch.nn.functional.cross_entropy(…, label_smoothing=ε, reduction="sum", ignore_index=PAD)`.

    Args:
        logits: (…, V), in any floating type; the sum is taken in float32.
        target_output: ids (…), PAD where there is nothing to predict.
        smoothing: ε_ls, at least 0 and less than 1.

    Returns:
        The sum of the losses in nats, and the number of real positions to divide it by.
    """
    target = target_output.reshape(-1)
    logits = logits.reshape(target.numel(), -1)
    real = target != PAD
    num_tokens = int(real.sum())
    if num_tokens < target.numel():
        logits, target = logits[real], target[real]
    return _SmoothedCrossEntropy.apply(logits, target, smoothing), num_tokens  # type: ignore[no-untyped-call]
