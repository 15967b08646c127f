"""torch.nn.Transformer, with the embeddings, positions and softmax that it leaves to its user.

Its layers would also drop attention weights and inner activations; that is switched off, as in the presets, so that
all do the same work. The stacks' extra LayerNorms at the end are left out: post-norm layers end normalised.

Shapes: B batch, S source length, T target length, D d_model, V vocabulary.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from peers.batches import PAD, read_batches
from peers.protocol import Message, serve
from peers.sessions import TrainingSession
from peers.shape import Shape
from peers.stepping import smoothed_cross_entropy, torch_step, wait_for


class TorchTransformer(nn.Module):
    """The whole model around torch.nn.Transformer."""

    positions: Tensor

    def __init__(self, shape: Shape) -> None:
        """Make it, with random weights."""
        super().__init__()
        common = (shape.d_model, shape.num_heads, shape.d_ff, shape.dropout)
        encoder_layer = nn.TransformerEncoderLayer(*common, layer_norm_eps=shape.layer_norm_eps, batch_first=True)
        decoder_layer = nn.TransformerDecoderLayer(*common, layer_norm_eps=shape.layer_norm_eps, batch_first=True)
        encoder = nn.TransformerEncoder(encoder_layer, shape.num_encoder_layers, enable_nested_tensor=False)
        decoder = nn.TransformerDecoder(decoder_layer, shape.num_decoder_layers)
        for layer in [*encoder.layers, *decoder.layers]:
            layer.dropout.p = 0.0  # inside the feed-forward network
        for module in [*encoder.modules(), *decoder.modules()]:
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
        self.transformer = nn.Transformer(
            shape.d_model, shape.num_heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True
        )
        self.embedding = nn.Embedding(shape.vocab_size, shape.d_model)
        nn.init.normal_(self.embedding.weight, std=shape.d_model**-0.5)
        self.register_buffer("positions", sinusoids(shape.max_length, shape.d_model), persistent=False)
        self.dropout = nn.Dropout(shape.dropout)
        self.scale = math.sqrt(shape.d_model)

    def forward(self, source: Tensor, target_input: Tensor) -> Tensor:
        """Logits (B, T, V) of source (B, S) and target_input (B, T)."""
        padding = source == PAD
        states = self.transformer(
            self._embed(source),
            self._embed(target_input),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(target_input.size(1), source.device, torch.bool),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,  # right padding needs no mask of its own under a causal one
        )
        return F.linear(states, self.embedding.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * self.scale + self.positions[: ids.size(1)]
        return self.dropout(x)  # type: ignore[no-any-return]


def sinusoids(length: int, d_model: int) -> Tensor:
    """Interleaved sines and cosines (length, D), as in "Attention Is All You Need", section 3.5."""
    angles = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


def prepare(request: Message) -> TrainingSession:
    """Make the model and warm it up."""
    torch.manual_seed(1)
    device = request.get("device", "cpu")
    model = TorchTransformer(Shape(**request["shape"])).train().to(device)
    if request.get("compile"):
        model.transformer.compile()

    def loss(source: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
        return smoothed_cross_entropy(model(source, target_input), target_output)

    step = torch_step(model.parameters(), loss, request["precision"] == "bf16")
    facts = {"versions": {"torch": torch.__version__}, "parameters": sum(p.numel() for p in model.parameters())}
    return TrainingSession(step, read_batches(request["batches"]), facts, partial(wait_for, device))


if __name__ == "__main__":
    serve(prepare)
