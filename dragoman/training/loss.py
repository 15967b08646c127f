"""The loss: cross-entropy against smoothed targets (section 5.4).

Shapes: B batch, S source length, T target length, N real positions, D d_model, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import PAD
from dragoman.model.transformer import Transformer

_BLOCK, _SLICE = 4096, 64  # positions whose logits exist at the same time, and in float32
_NEXT_TO_NOTHING = 1e-30  # probabilities below lose digits in float32


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


@torch.no_grad()
def measure(model: Transformer, source: Tensor, target_input: Tensor, target_output: Tensor) -> tuple[Tensor, Tensor]:
    """How well the model predicts each next subword when it is shown the true ones before (teacher forcing).

    Args:
        model: in evaluation mode.
        source: ids (B, S).
        target_input: ids (B, T), beginning with BOS.
        target_output: ids (B, T), ending in EOS; PAD where there is nothing to predict.

    Returns:
        The sum of the cross-entropies over the real positions in nats, without smoothing, and the number of
        positions where the most probable subword is the true one: scalars.
    """
    real = target_output != PAD
    states, ids = model.states(source, target_input)[real], target_output[real]  # (N, D), (N)
    loss, correct = (torch.zeros((), device=ids.device) for _ in range(2))
    for start in range(0, len(ids), _BLOCK):
        logits, expected = model.softmax(states[start : start + _BLOCK]), ids[start : start + _BLOCK]
        loss += label_smoothed_cross_entropy(logits, expected, smoothing=0.0)[0]
        correct += (logits.argmax(dim=-1) == expected).sum()
    return loss, correct


class TrainingObjective(nn.Module):
    """The same loss, for a whole model: source and target in, sum of losses out.

    Never holds more than a block of the N × V logits, which would be the largest tensor of a training step, and
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
            states[real], self.model.softmax.weight, self.model.softmax.bias, target_output[real], self.smoothing
        )
        return loss


class _ProjectedCrossEntropy(torch.autograd.Function):
    """label_smoothed_cross_entropy(states @ weightᵀ + bias, target), block by block.

    The gradient with respect to the logits is p - q in closed form, so each block computes its share of all
    gradients at once and then forgets its logits.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
    ) -> Tensor:
        """The loss; states (N, D), weight (V, D), bias (V), target (N). All gradients are ready when it returns."""
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        with torch.autocast(device, enabled=False):
            rows, projection = states.to(dtype), weight.to(dtype)
            loss = torch.zeros((), device=states.device)
            grad_states = torch.empty_like(rows)
            grad_weight = torch.zeros_like(weight, dtype=torch.float32)
            grad_bias = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
            # The evenly spread part of the targets, ε / V, is the same for every subword: it needs no N × V numbers.
            spread = smoothing / len(weight)
            mean_weight = weight.float().sum(dim=0) * spread  # (D)
            for start in range(0, len(rows), _BLOCK):
                block = slice(start, start + _BLOCK)
                logits = rows[block] @ projection.T
                if bias is not None:
                    logits += bias.to(dtype)
                block_loss, grad = _slicewise(logits, target[block, None], 1.0 - smoothing)
                loss += block_loss - (rows[block].float() @ mean_weight).sum()
                grad_states[block] = (grad @ projection).sub_(mean_weight.to(dtype))
                grad_weight += grad.T @ rows[block]
                if grad_bias is not None:
                    grad_bias += grad.sum(dim=0, dtype=torch.float32)
            grad_weight -= spread * rows.float().sum(dim=0)
            if bias is not None and grad_bias is not None:
                loss -= spread * len(rows) * bias.float().sum()
                grad_bias -= spread * len(rows)
        ctx.save_for_backward(grad_states.to(states.dtype), grad_weight.to(weight.dtype), grad_bias)
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None, None]:
        """Scale the gradients that forward left."""
        grad_states, grad_weight, grad_bias = ctx.saved_tensors
        scaled_bias = None if grad_bias is None else grad_bias * gradients[0]
        return grad_states * gradients[0], grad_weight * gradients[0], scaled_bias, None, None


def _slicewise(logits: Tensor, target: Tensor, certainty: float) -> tuple[Tensor, Tensor]:
    """Σ_n (log Σ_v exp(logit) - certainty · logit of the target) of a block of logits (N, V), and its gradient.

    The gradient takes the place of the logits; target (N, 1).

    In float32, a slice at a time, so that a slice stays in the processor's cache from one operation to the next.
    """
    loss = torch.zeros((), device=logits.device)
    step = _SLICE if logits.device.type == "cpu" else len(logits)
    for start in range(0, len(logits), step):
        precise, ids = logits[start : start + step].float(), target[start : start + step]
        probs = precise.softmax(dim=-1)
        chosen, chance = precise.gather(1, ids), probs.gather(1, ids)
        # log Σ exp(logits) = logit - log(probability), of any subword whose probability is not next to nothing.
        log_norm = chosen - chance.log()
        if (chance < _NEXT_TO_NOTHING).any():
            log_norm = precise.logsumexp(dim=-1, keepdim=True)
        loss += (log_norm - certainty * chosen).sum()
        probs.scatter_add_(1, ids, torch.full_like(chosen, -certainty))
        logits[start : start + step] = probs
    return loss, logits
