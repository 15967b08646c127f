"""Models small enough to compare number by number, and sentences for them."""

import dataclasses
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.config import BOS, EOS, PAD, ModelConfig
from dragoman.model.transformer import Transformer

Norm = Literal["post", "pre"]


NORMS: list[Norm] = ["post", "pre"]


TINY = ModelConfig(
    d_model=8,
    d_ff=20,
    num_heads=2,
    num_encoder_layers=2,
    num_decoder_layers=3,
    dropout=0.0,
    max_length=48,
    layer_norm_eps=1e-2,
    source_vocab_size=13,
    target_vocab_size=13,
)


SEPARATE = {"share_embeddings": False, "source_vocab_size": 11, "target_vocab_size": 17}


def tiny(**changes: Any) -> Transformer:
    """A tiny model in float64 whose biases and LayerNorms are not at their inert starting values."""
    torch.manual_seed(0)
    model = Transformer(dataclasses.replace(TINY, **changes)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.4)
    return model


def sentences(lengths: list[int], vocab_size: int = 11, seed: int = 1) -> Tensor:
    """Random ids (B, longest), padded on the right."""
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(EOS, vocab_size, (len(lengths), max(lengths)), generator=g)
    return torch.where(torch.arange(max(lengths)) < torch.tensor(lengths)[:, None], ids, PAD)


def batch(vocab_size: int = 11) -> tuple[Tensor, Tensor, Tensor]:
    """Sources, target inputs and target outputs of different lengths."""
    source, target = sentences([5, 2, 4], vocab_size), sentences([3, 6, 4], vocab_size, seed=2)
    target_input = torch.cat([torch.full((3, 1), BOS), target[:, :-1]], dim=1)
    return source, target_input.masked_fill(target == PAD, PAD), target


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def loss(logits: Tensor, target_output: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), target_output.flatten(), ignore_index=PAD, reduction="sum")
