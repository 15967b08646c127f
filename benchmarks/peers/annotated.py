"""A Transformer in the manner of "The Annotated Transformer" (Rush, 2018): every formula spelt out, in fp32.

Written afresh for this comparison. Attention is the explicit softmax with masks for source and target; the generator
ends in log_softmax; label smoothing is a KL divergence from a full matrix of target probabilities; Adam is plain, a
parameter at a time. Unlike that text it is post-norm and drops no attention weights or inner activations, so that it
does the same work as the others.

Shapes: B batch, S source length, T target length, D d_model, H heads, K d_k, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from peers.batches import LABEL_SMOOTHING, PAD, read_batches
from peers.protocol import Message, serve
from peers.sessions import TrainingSession
from peers.shape import Shape
from peers.stepping import torch_step
from peers.torch_transformer import sinusoids


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """softmax(Q Kᵀ / √d_k) V; (B, H, T, K), (B, H, S, K) twice, mask broadcastable to (B, H, T, S) -> (B, H, T, K)."""
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    scores = scores.masked_fill(mask == 0, -1e9)
    return torch.matmul(scores.softmax(dim=-1), value)


class Attention(nn.Module):
    """Multi-head attention."""

    def __init__(self, shape: Shape) -> None:
        """Make the four projections."""
        super().__init__()
        self.num_heads = shape.num_heads
        self.query, self.key, self.value, self.output = (nn.Linear(shape.d_model, shape.d_model) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Attend from x (B, T, D) to memory (B, S, D)."""
        projected = ((self.query, x), (self.key, memory), (self.value, memory))
        heads = [layer(y).view(*y.shape[:2], self.num_heads, -1).transpose(1, 2) for layer, y in projected]
        query, key, value = heads
        mixed = attention(query, key, value, mask).transpose(1, 2).contiguous().view(x.shape)
        return self.output(mixed)  # type: ignore[no-any-return]


class Layer(nn.Module):
    """An encoder layer, or with cross-attention a decoder layer."""

    def __init__(self, shape: Shape, cross: bool) -> None:
        """Make the sub-layers and a LayerNorm for each."""
        super().__init__()
        self.self_attention = Attention(shape)
        self.cross_attention = Attention(shape) if cross else None
        self.inner, self.outer = nn.Linear(shape.d_model, shape.d_ff), nn.Linear(shape.d_ff, shape.d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(shape.d_model, eps=shape.layer_norm_eps) for _ in range(2 + cross))
        self.dropout = nn.Dropout(shape.dropout)

    def forward(
        self, x: Tensor, mask: Tensor, memory: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """x (B, T, D) -> (B, T, D); memory (B, S, D) with its mask for a decoder layer."""
        x = self.norms[0](x + self.dropout(self.self_attention(x, x, mask)))
        if self.cross_attention is not None:
            x = self.norms[1](x + self.dropout(self.cross_attention(x, memory, memory_mask)))
        return self.norms[-1](x + self.dropout(self.outer(self.inner(x).relu())))  # type: ignore[no-any-return]


class AnnotatedTransformer(nn.Module):
    """Encoder, decoder and generator."""

    positions: Tensor

    def __init__(self, shape: Shape) -> None:
        """Make it, with Glorot-uniform matrices."""
        super().__init__()
        self.encoder = nn.ModuleList(Layer(shape, cross=False) for _ in range(shape.num_encoder_layers))
        self.decoder = nn.ModuleList(Layer(shape, cross=True) for _ in range(shape.num_decoder_layers))
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        self.embedding = nn.Embedding(shape.vocab_size, shape.d_model)
        nn.init.normal_(self.embedding.weight, std=shape.d_model**-0.5)
        self.generator = nn.Linear(shape.d_model, shape.vocab_size, bias=False)
        self.generator.weight = self.embedding.weight
        self.register_buffer("positions", sinusoids(shape.max_length, shape.d_model), persistent=False)
        self.dropout = nn.Dropout(shape.dropout)
        self.scale = math.sqrt(shape.d_model)

    def forward(self, source: Tensor, target_input: Tensor) -> Tensor:
        """Log-probabilities (B, T, V) of source (B, S) and target_input (B, T)."""
        source_mask = (source != PAD)[:, None, None, :]
        length = target_input.size(1)
        future = torch.triu(torch.ones(1, 1, length, length), diagonal=1)
        target_mask = (target_input != PAD)[:, None, None, :] & (future == 0)
        memory = self._embed(source)
        for layer in self.encoder:
            memory = layer(memory, source_mask)
        x = self._embed(target_input)
        for layer in self.decoder:
            x = layer(x, target_mask, memory, source_mask)
        return self.generator(x).log_softmax(dim=-1)  # type: ignore[no-any-return]

    def _embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.size(1)])  # type: ignore[no-any-return]


def smoothed_divergence(log_probs: Tensor, target_output: Tensor) -> Tensor:
    """KL divergence of log_probs (B, T, V) from the smoothed targets, per real token."""
    log_probs, target = log_probs.flatten(0, 1), target_output.flatten()
    size = log_probs.size(1)
    truth = torch.full_like(log_probs, LABEL_SMOOTHING / (size - 2))  # neither the right token nor PAD
    truth.scatter_(1, target[:, None], 1.0 - LABEL_SMOOTHING)
    truth[:, PAD] = 0.0
    truth[target == PAD] = 0.0
    return nn.functional.kl_div(log_probs, truth, reduction="sum") / (target != PAD).sum()


def prepare(request: Message) -> TrainingSession:
    """Make the model and warm it up."""
    torch.manual_seed(1)
    model = AnnotatedTransformer(Shape(**request["shape"])).train()

    def loss(source: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
        return smoothed_divergence(model(source, target_input), target_output)

    step = torch_step(model.parameters(), loss, bf16=False, fused=False)
    facts = {"versions": {"torch": torch.__version__}, "parameters": sum(p.numel() for p in model.parameters())}
    return TrainingSession(step, read_batches(request["batches"]), facts)


if __name__ == "__main__":
    serve(prepare)
