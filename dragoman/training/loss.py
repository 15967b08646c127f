"""The loss: cross-entropy against smoothed targets (section 5.4).

Shapes: B batch, S source length, T target length, N real positions, D d_model, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import PAD
from dragoman.model.transformer import Transformer


def label_smoothed_cross_entropy(logits: Tensor, target_output: Tensor, smoothing: float) -> tuple[Tensor, int]:
    """Cross-entropy between the smoothed targets and the predictions, summed over the real positions.

    The target distribution is q(v) = (1 - ε) δ(v, target) + ε / V, the smoothing mass spread evenly over the whole
    vocabulary (Szegedy et al., 2016).

    Args:
        logits: (…, V).
        target_output: ids (…), PAD where there is nothing to predict.
        smoothing: ε_ls, at least 0 and less than 1.

    Returns:
        The sum of -Σ_v q(v) log p(v), in nats, and the number of real positions to divide it by.
    """
    real = target_output != PAD
    log_probs = logits[real].float().log_softmax(dim=-1)  # (N, V)
    correct = log_probs.gather(1, target_output[real][:, None]).sum()
    loss = -(1.0 - smoothing) * correct - smoothing * log_probs.mean(dim=-1).sum()
    return loss, int(real.sum())


class TrainingObjective(nn.Module):
    """The same loss, for a whole model: source and target in, sum of losses out.

    Never holds more than a slice of the N × V logits, which would be the largest tensor of a training step, and
    projects nothing where there is only padding.
    """

    def __init__(self, model: Transformer, smoothing: float) -> None:
        """Train this model with this ε_ls."""
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, source: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
        """The sum of the losses over the real positions.

        Args:
            source: ids (B, S).
            target_input: ids (B, T), beginning with BOS.
            target_output: ids (B, T), ending in EOS; PAD where there is nothing to predict.

        Returns:
            A float32 scalar, in nats.
        """
        states = self.model.states(source, target_input)  # (B, T, D)
        real = target_output != PAD
        loss: Tensor = _ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            states[real], self.model.softmax.weight, target_output[real], self.smoothing
        )
        return loss


class _ProjectedCrossEntropy(torch.autograd.Function):
    """label_smoothed_cross_entropy(states @ weightᵀ, target), slice by slice.

    The gradient with respect to the logits is p - q in closed form, so each slice computes its share of both
    gradients while its logits are still in the processor's cache, and then forgets them.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> Tensor:
        dtype = torch.get_autocast_dtype(states.device.type) if torch.is_autocast_enabled(states.device.type) else None
        with torch.autocast(states.device.type, enabled=False):
            projection = weight.to(dtype or states.dtype)
            rows = states.to(projection.dtype)
            loss = torch.zeros((), device=states.device)
            grad_states = torch.empty_like(rows)
            grad_weight = torch.zeros_like(weight, dtype=torch.float32)
            step = 256 if states.device.type == "cpu" else 8192
            for start in range(0, len(rows), step):
                piece, ids = rows[start : start + step], target[start : start + step, None]
                logits = (piece @ projection.T).float()  # (n, V)
                probs = logits.softmax(dim=-1)
                top, where = logits.max(dim=-1, keepdim=True)
                log_norm = top - probs.gather(1, where).log()  # log Σ exp(logits), the accurate way round
                chosen = (1.0 - smoothing) * logits.gather(1, ids) + smoothing * logits.mean(dim=-1, keepdim=True)
                loss += (log_norm - chosen).sum()
                grad = probs.sub_(smoothing / logits.size(1))
                grad.scatter_add_(1, ids, torch.full_like(top, smoothing - 1.0))
                grad = grad.to(projection.dtype)
                grad_states[start : start + step] = grad @ projection
                grad_weight += grad.T @ piece
        ctx.save_for_backward(grad_states.to(states.dtype), grad_weight.to(weight.dtype))
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_states, grad_weight = ctx.saved_tensors
        return grad_states * gradients[0], grad_weight * gradients[0], None, None
