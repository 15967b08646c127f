"""The shape of a model, and how many operations one of its training steps has.

Shapes: S source length, T target length, D d_model, F d_ff, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peers.batches import PAD, Arrays


@dataclass(frozen=True)
class Shape:
    """What all competitors agree on: post-norm, ReLU, one embedding that is also the softmax's weight."""

    d_model: int
    d_ff: int
    num_heads: int
    num_encoder_layers: int
    num_decoder_layers: int
    dropout: float
    vocab_size: int
    max_length: int
    layer_norm_eps: float


def step_flops(shape: Shape, batches: Sequence[Arrays]) -> int:
    """Floating-point operations of the matrix products of one training step for each batch, added up.

    Model FLOPs: only what the real tokens need, at 2 operations for each multiplication and addition forward and
    twice as many backward; what is spent on padding, or computed again, does not count. Attention looks at all S or T
    positions, the causal one as well (as in Chowdhery et al., 2022, "PaLM", appendix B).
    """
    d, f = shape.d_model, shape.d_ff
    of_source = shape.num_encoder_layers * (4 * d * d + 2 * d * f)
    of_source += shape.num_decoder_layers * 2 * d * d  # keys and values of the cross-attention
    of_target = shape.num_decoder_layers * (6 * d * d + 2 * d * f) + d * shape.vocab_size
    products = 0
    for batch in batches:
        s, t = (batch.source != PAD).sum(axis=1), (batch.target_output != PAD).sum(axis=1)  # (B)
        products += of_source * int(s.sum()) + of_target * int(t.sum())
        attended = shape.num_encoder_layers * (s * s) + shape.num_decoder_layers * (t * t + s * t)
        products += 2 * d * int(attended.sum())  # Q Kᵀ, and the weights with V
    return 6 * products
