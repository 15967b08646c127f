"""A solution of each exercise of `exercises.ipynb`. The checks accept any other that computes the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import BOS, EOS, PAD


def positional_encoding(length: int, d_model: int) -> Tensor:
    position = torch.arange(length)[:, None]
    angles = position / 10_000 ** (torch.arange(0, d_model, 2) / d_model)  # (S, D / 2)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)  # (S, D)


def embed(ids: Tensor, table: Tensor) -> Tensor:
    return table[ids] * math.sqrt(table.size(1))


def padding_mask(ids: Tensor) -> Tensor:
    return (ids != PAD)[:, None, None, :]


def causal_mask(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (B, H, T, S)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights @ value, weights


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    batch, length, d_model = x.shape
    return x.view(batch, length, num_heads, d_model // num_heads).transpose(1, 2)


def merge_heads(heads: Tensor) -> Tensor:
    return heads.transpose(1, 2).flatten(2)


def multi_head_attention(block: Any, query: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    heads, _ = attention(
        split_heads(block.query(query), block.num_heads),
        split_heads(block.key(memory), block.num_heads),
        split_heads(block.value(memory), block.num_heads),
        mask,
    )
    return block.output(merge_heads(heads))


def feed_forward(x: Tensor, inner: nn.Linear, outer: nn.Linear) -> Tensor:
    return outer(inner(x).relu())


def layer_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return gain * (x - mean) / torch.sqrt(variance + eps) + bias


def dropout(x: Tensor, noise: Tensor, probability: float, training: bool) -> Tensor:
    if not training:
        return x
    return x * (noise >= probability) / (1 - probability)


def add_and_norm(x: Tensor, sublayer: Callable, norm: Callable, dropout: Callable) -> Tensor:
    return norm(x + dropout(sublayer(x)))


def pre_norm(x: Tensor, sublayer: Callable, norm: Callable, dropout: Callable) -> Tensor:
    return x + dropout(sublayer(norm(x)))


def encoder_layer(layer: Any, x: Tensor, source_mask: Tensor) -> Tensor:
    def look(y: Tensor) -> Tensor:
        return layer.self_attention(y, y, source_mask)

    x = add_and_norm(x, look, layer.self_attention_norm, layer.dropout)
    return add_and_norm(x, layer.feed_forward, layer.feed_forward_norm, layer.dropout)


def decoder_layer(layer: Any, x: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
    def look_back(y: Tensor) -> Tensor:
        return layer.self_attention(y, y, causal_mask(y.size(1)))

    def look_at_source(y: Tensor) -> Tensor:
        return layer.cross_attention(y, memory, source_mask)

    x = add_and_norm(x, look_back, layer.self_attention_norm, layer.dropout)
    x = add_and_norm(x, look_at_source, layer.cross_attention_norm, layer.dropout)
    return add_and_norm(x, layer.feed_forward, layer.feed_forward_norm, layer.dropout)


def tied_softmax(table: nn.Parameter) -> nn.Linear:
    vocab_size, d_model = table.shape
    layer = nn.Linear(d_model, vocab_size, bias=False)
    layer.weight = table
    return layer


def shifted_targets(sentences: list[list[int]]) -> tuple[Tensor, Tensor]:
    inputs = [torch.tensor([BOS, *ids]) for ids in sentences]
    outputs = [torch.tensor([*ids, EOS]) for ids in sentences]
    target_input = nn.utils.rnn.pad_sequence(inputs, batch_first=True, padding_value=PAD)
    target_output = nn.utils.rnn.pad_sequence(outputs, batch_first=True, padding_value=PAD)
    return target_input, target_output


def smoothed_targets(target_output: Tensor, vocab_size: int, smoothing: float) -> Tensor:
    one_hot = torch.nn.functional.one_hot(target_output, vocab_size)  # (B, T, V)
    smoothed = (1 - smoothing) * one_hot + smoothing / vocab_size
    return smoothed * (target_output != PAD)[..., None]


def loss_per_token(logits: Tensor, target_output: Tensor, smoothing: float) -> Tensor:
    targets = smoothed_targets(target_output, logits.size(-1), smoothing)
    total = -(targets * logits.log_softmax(dim=-1)).sum()
    return total / (target_output != PAD).sum()


def learning_rate(step: int, d_model: int, warmup: int) -> float:
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def greedy_decode(next_log_probs: Callable, limit: int) -> list[int]:
    prefix = [BOS]
    while len(prefix) <= limit:
        token = int(next_log_probs(torch.tensor([prefix]))[0].argmax())
        if token == EOS:
            break
        prefix.append(token)
    return prefix[1:]


def length_penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def beam_search(next_log_probs: Callable, beam: int, limit: int, alpha: float) -> list[int]:
    hypotheses = [(0.0, [BOS])]  # (log-probability, tokens)
    finished = []  # (score, tokens)
    for length in range(1, limit + 2):  # of the continuations, </s> included
        log_probs = next_log_probs(torch.tensor([tokens for _, tokens in hypotheses])).tolist()  # (N, V)
        continuations = []
        for (total, tokens), row in zip(hypotheses, log_probs, strict=True):
            finished.append(((total + row[EOS]) / length_penalty(length, alpha), tokens[1:]))
            continuations += [(total + p, [*tokens, i]) for i, p in enumerate(row) if i != EOS]
        hypotheses = sorted(continuations, reverse=True)[:beam]
    return max(finished)[1]
