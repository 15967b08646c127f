"""The loss: cross-entropy against smoothed targets (section 5.4).

Shapes: B batch, S source length, T target length, N real positions, D d_model, V vocabulary, P passes: 1, or 2 with
R-Drop.
"""

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
    vocabulary (Szegedy et al., 2016); logits are (…, V), target_output ids (…), PAD where there is nothing to predict.

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
    """The label-smoothed cross-entropy of a whole model: source and target in, sum of losses out.

    Never holds more than a block of the N × V logits, which would be the largest tensor of a training step, and
    projects nothing where there is only padding.

    With R-Drop (Liang et al., 2021), r_drop > 0, every sentence goes through the model twice, with other random numbers
    for dropout. The loss is the mean of both, plus α / 4 · (KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁)) at each position: half of that
    paper's, to be of the size of a single pass's.
    """

    def __init__(self, model: Transformer, smoothing: float, r_drop: float = 0.0, compiled: bool = False) -> None:
        super().__init__()
        self.model = model
        self.smoothing, self.r_drop = smoothing, r_drop
        self._states = torch.compile(model.states, dynamic=True) if compiled else model.states

    def forward(self, source: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
        """The sum of the losses over the real positions, in nats: a float32 scalar; ids (B, S), (B, T) and (B, T)."""
        if self.r_drop:
            source, target_input, target_output = (ids.repeat(2, 1) for ids in (source, target_input, target_output))
        states = self._states(source, target_input).flatten(0, 1)  # (P · B · T, D)
        target, softmax, passes = target_output.flatten(), self.model.softmax, 2 if self.r_drop else 1
        real = target.ne(PAD).nonzero()[:, 0]  # found once: a GPU must be waited for
        loss: Tensor = _ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            states.index_select(0, real).view(passes, -1, states.size(-1)),
            softmax.weight,
            softmax.bias,
            target.index_select(0, real).view(passes, -1)[0],
            self.smoothing,
            self.r_drop,
        )
        return loss


class _ProjectedCrossEntropy(torch.autograd.Function):
    """label_smoothed_cross_entropy(states @ weightᵀ + bias, target), block by block.

    With logits z, the loss of a position is log Σ_v exp z(v) - (1 - ε) z(target) - ε / V · Σ_v z(v). The first two
    terms, and R-Drop's, are what _slicewise adds up; the last is a product with the mean of the projection's rows. The
    gradient with respect to the logits is p - q in closed form, so each block computes its share of all gradients at
    once and then forgets its logits. With two passes everything is added up for both, and halved in the end.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float, r_drop: float
    ) -> Tensor:
        """The loss; states (P, N, D), weight (V, D), bias (V), target (N). All gradients are ready when it returns."""
        device, passes = states.device.type, len(states)
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
            step = -(-_BLOCK // passes)
            for start in range(0, len(target), step):
                block = slice(start, start + step)
                inputs = rows[:, block].flatten(0, 1)
                logits = inputs @ projection.T
                if bias is not None:
                    logits += bias.to(dtype)
                loss -= (inputs.float() @ mean_weight).sum()
                loss += _slicewise(logits.view(passes, -1, len(weight)), target[block, None], 1.0 - smoothing, r_drop)
                grad = logits  # that is what is there now
                grad_states[:, block] = (grad @ projection).sub_(mean_weight.to(dtype)).view(passes, -1, inputs.size(1))
                grad_weight += grad.T @ inputs
                if grad_bias is not None:
                    grad_bias += grad.sum(dim=0, dtype=torch.float32)
            grad_weight -= spread * rows.float().sum(dim=(0, 1))
            if bias is not None and grad_bias is not None:
                loss -= spread * passes * len(target) * bias.float().sum()
                grad_bias -= spread * passes * len(target)
        ctx.save_for_backward(grad_states.to(states.dtype), grad_weight.to(weight.dtype), grad_bias)
        return loss / passes

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None, None, None]:
        """Scale the gradients that forward left."""
        grad_states, grad_weight, grad_bias = ctx.saved_tensors
        scale = gradients[0] / len(grad_states)
        scaled_bias = None if grad_bias is None else grad_bias * scale
        return grad_states * scale, grad_weight * scale, scaled_bias, None, None, None


def _slicewise(logits: Tensor, target: Tensor, certainty: float, r_drop: float) -> Tensor:
    """Σ (log Σ_v exp(logit) - certainty · logit of the target) over a block of logits (P, N, V), plus R-Drop's part.

    That is α / 2 · (KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁)) here, for the caller halves all.
    The gradient takes the place of the logits; target (N, 1).

    In float32, a slice at a time, so that a slice stays in the processor's cache from one operation to the next.
    """
    loss = torch.zeros((), device=logits.device)
    step = -(-_SLICE // len(logits)) if logits.device.type == "cpu" else logits.size(1)
    for start in range(0, logits.size(1), step):
        part, ids = slice(start, start + step), target[start : start + step].expand(len(logits), -1, -1)
        precise = logits[:, part].float()
        probs = precise.softmax(dim=-1)
        chosen, chance = precise.gather(2, ids), probs.gather(2, ids)
        # log Σ exp(logits) = logit - log(probability), of any subword whose probability is not next to nothing.
        log_norm = chosen - chance.log()
        if (chance < _NEXT_TO_NOTHING).any():
            log_norm = precise.logsumexp(dim=-1, keepdim=True)
        loss += (log_norm - certainty * chosen).sum()
        grad = probs.clone() if r_drop else probs
        grad.scatter_add_(2, ids, torch.full_like(chosen, -certainty))
        if r_drop:
            loss += 0.5 * r_drop * _add_divergence(precise - log_norm, probs, grad, 0.5 * r_drop)
        logits[:, part] = grad
    return loss


def _add_divergence(log_probs: Tensor, probs: Tensor, grad: Tensor, weight: float) -> Tensor:
    """Σ KL(p₁ ‖ p₂) + KL(p₂ ‖ p₁); all (2, N, V). Adds weight times its gradient with respect to the logits to grad."""
    ratio = log_probs[0] - log_probs[1]
    divergences = torch.stack([(probs[0] * ratio).sum(-1), -(probs[1] * ratio).sum(-1)])[..., None]  # (2, N, 1)
    difference = probs[0] - probs[1]
    grad[0] += weight * (probs[0] * (ratio - divergences[0]) + difference)
    grad[1] -= weight * (probs[1] * (ratio + divergences[1]) + difference)
    return divergences.sum()
