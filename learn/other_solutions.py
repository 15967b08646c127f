"""Some exercises of `exercises.ipynb` solved in another style: with loops, einsum, or a function of PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from dragoman.config import BOS, EOS, PAD


def positional_encoding(length: int, d: int) -> Any:
    table = torch.zeros(length, d)
    for pos in range(length):
        for i in range(0, d, 2):
            angle = pos / 10_000 ** (i / d)
            table[pos, i], table[pos, i + 1] = math.sin(angle), math.cos(angle)
    return table


def padding_mask(ids: Any) -> Any:
    return ids.ne(PAD).unsqueeze(1).unsqueeze(2).to(torch.uint8)


def causal_mask(n: int) -> Any:
    return torch.tensor([[[[j <= i for j in range(n)] for i in range(n)]]])


def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    s = torch.einsum("bhtk,bhsk->bhts", q, k) / q.size(-1) ** 0.5
    s = s.masked_fill(mask == 0, -1e9)
    w = F.softmax(s, dim=3)
    return torch.einsum("bhts,bhsk->bhtk", w, v), w


def split_heads(x: Any, h: int) -> Any:
    return torch.stack(x.chunk(h, dim=-1), dim=1)


def merge_heads(y: Any) -> Any:
    return torch.cat(y.unbind(dim=1), dim=-1)


def multi_head_attention(block: Any, x: Any, memory: Any, mask: Any) -> Any:
    q, k, v = (split_heads(y, block.num_heads) for y in (block.query(x), block.key(memory), block.value(memory)))
    y = F.scaled_dot_product_attention(q, k, v, mask)
    return block.output(y.transpose(1, 2).reshape(x.shape))


def layer_norm(x: Any, g: Any, b: Any, e: float) -> Any:
    x = x - x.mean(-1, True)
    return g * x / torch.sqrt(x.var(-1, keepdim=True, correction=0) + e) + b


def encoder_layer(layer: Any, x: Any, mask: Any) -> Any:
    x = layer.self_attention_norm(x + layer.dropout(layer.self_attention(x, x, mask)))
    return layer.feed_forward_norm(x + layer.dropout(layer.feed_forward(x)))


def decoder_layer(layer: Any, x: Any, memory: Any, source_mask: Any) -> Any:
    now = torch.ones(x.size(1), x.size(1)).tril() == 1
    x = layer.self_attention_norm(x + layer.dropout(layer.self_attention(x, x, now)))
    x = layer.cross_attention_norm(x + layer.dropout(layer.cross_attention(x, memory, source_mask)))
    return layer.feed_forward_norm(x + layer.dropout(layer.feed_forward(x)))


def shifted_targets(rows: list[list[int]]) -> Any:
    longest = max(len(row) for row in rows)
    seen = [[BOS, *row] + [PAD] * (longest - len(row)) for row in rows]
    said = [[*row, EOS] + [PAD] * (longest - len(row)) for row in rows]
    return torch.tensor(seen), torch.tensor(said)


def smoothed_targets(ids: Any, size: int, smoothing: float) -> Any:
    q = torch.zeros(*ids.shape, size).fill_(smoothing / size)
    q.scatter_(2, ids.unsqueeze(2), 1.0 - smoothing + smoothing / size)
    q[ids == PAD] = 0
    return q


def loss_per_token(z: Any, ids: Any, e: float) -> Any:
    return F.cross_entropy(z.transpose(1, 2), ids, ignore_index=PAD, label_smoothing=e)


def greedy_decode(model: Any, limit: int) -> Any:
    ids = torch.tensor([[BOS]])
    for _ in range(limit):
        new = model(ids).argmax(dim=-1)
        if new == EOS:
            break
        ids = torch.cat([ids, new[:, None]], dim=1)
    return ids[0, 1:]


def beam_search(model: Any, beam: int, limit: int, alpha: float) -> list[int]:
    beams = [(0.0, [BOS])]
    done = []
    for t in range(1, limit + 2):
        new = [(p + q, y, i) for p, y in beams for i, q in enumerate(model(torch.tensor([y]))[0].tolist())]
        new = sorted((x for x in new if t <= limit or x[2] == EOS), reverse=True)
        for p, y, i in new[:beam]:
            if i == EOS:
                done.append((p / ((5 + t) / 6) ** alpha, y[1:]))
        beams = [(p, [*y, i]) for p, y, i in new if i != EOS][:beam]
    return max(done)[1]
