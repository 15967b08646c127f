"""What the exercises are checked with: right answers, inputs, and the classic mistakes with what to say about each.

The right answers come from Dragoman's modules, or from the formula where it has no such function. Don't read on before
you have solved the exercises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.config import BOS, EOS, PAD, UNK, ModelConfig, OptimizerConfig, SearchConfig
from dragoman.inference import hypotheses as lengths
from dragoman.inference.search import search
from dragoman.model import masks
from dragoman.model.attention import MultiHeadAttention, scaled_dot_product_attention
from dragoman.model.embedding import ScaledEmbedding, sinusoids
from dragoman.model.layers import DecoderLayer, EncoderLayer, PositionwiseFeedForward, SublayerConnection
from dragoman.training.loss import label_smoothed_cross_entropy
from dragoman.training.optimizer import learning_rate as paper_rate

Function = Callable[..., Any]


@dataclass(frozen=True)
class Exercise:
    """How one function is checked."""

    name: str
    right: Function
    inputs: Callable[[], list[tuple[Any, ...]]]
    """The arguments of each call, the same ones every time, chosen so that no two mistakes give the same results."""
    mistakes: dict[str, Function]
    """What to say to someone whose function returns what this one returns."""
    uses: tuple[str, ...] = ()
    """Earlier exercises whose functions are meant to be called."""
    result: Function = lambda result, *arguments: result
    """(result, *arguments) -> what of it counts."""


def _random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _drawn(module: nn.Module, seed: int = 1) -> Any:
    """The module with all its weights drawn again, so that no bias is 0 and no gain is 1."""
    generator = torch.Generator().manual_seed(seed)
    for weight in module.parameters():
        weight.data = torch.randn(weight.shape, generator=generator) * weight.shape[-1] ** -0.5
    return module.eval()


# ---------------------------------------------------------------------------------- 1, 2: positions and embeddings


def _waves(angles: Tensor) -> Tensor:
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)


def _angles(length: int, exponents: Tensor, first: int = 0, base: float = 10_000.0) -> Tensor:
    return torch.arange(first, first + length)[:, None] / base**exponents


def _even(d_model: int) -> Tensor:
    return torch.arange(0, d_model, 2) / d_model  # 2i / d_model


def _waves_of_own_frequency(length: int, d_model: int) -> Tensor:
    angles = _angles(length, torch.arange(d_model) / d_model)
    return torch.where(torch.arange(d_model) % 2 == 0, angles.sin(), angles.cos())


POSITIONAL_ENCODING = Exercise(
    "positional_encoding",
    sinusoids,
    lambda: [(3, 4), (20, 8)],
    {
        "All sines come first and then all cosines. The paper interleaves them: even columns are sines, odd ones "
        "cosines. Assign to table[:, 0::2] and table[:, 1::2], or stack both on a last axis and flatten it.": (
            lambda length, d_model: sinusoids(length, d_model, "halves")
        ),
        "Sine and cosine are exchanged: the even columns 2i are sines, the odd columns 2i + 1 cosines.": (
            lambda length, d_model: _waves(_angles(length, _even(d_model))).view(length, -1, 2).flip(-1).flatten(1)
        ),
        "Sine and cosine of a pair have different frequencies. Both columns 2i and 2i + 1 have the exponent "
        "2i / d_model: count the pairs, not the columns.": _waves_of_own_frequency,
        "The exponent is i / d_model, and should be 2i / d_model: the frequencies fall too slowly.": (
            lambda length, d_model: _waves(_angles(length, _even(d_model) / 2))
        ),
        "The exponent has the factor 2 twice. If you count i in steps of 2, it is i / d_model.": (
            lambda length, d_model: _waves(_angles(length, _even(d_model) * 2))
        ),
        "The angles are pos · 10000^(2i / d_model), and should be pos / 10000^(2i / d_model).": (
            lambda length, d_model: _waves(_angles(length, -_even(d_model)))
        ),
        "Positions count from 1 here, and should count from 0: the first row is sin 0 = 0, cos 0 = 1, …": (
            lambda length, d_model: _waves(_angles(length, _even(d_model), first=1))
        ),
        "The base is 1,000, and should be 10,000.": (
            lambda length, d_model: _waves(_angles(length, _even(d_model), base=1000.0))
        ),
    },
)


EMBED = Exercise(
    "embed",
    lambda ids, table: F.embedding(ids, table) * ScaledEmbedding(*table.shape).scale,
    lambda: [(torch.tensor([[3, 1, 2], [2, 2, 0]]), _random(5, 6))],
    {
        "√d_model is missing: section 3.4 multiplies the vectors by it. Without it, they are small beside the "
        "positions that are added to them.": lambda ids, table: table[ids],
        "The vectors are divided by √d_model, and should be multiplied.": lambda ids, table: (
            table[ids] / table.size(1) ** 0.5
        ),
        "The vectors are multiplied by d_model, and should be by its square root.": lambda ids, table: (
            table[ids] * table.size(1)
        ),
        "The vectors are multiplied by the root of the vocabulary's size. table is (V, D): d_model is its second "
        "dimension.": lambda ids, table: table[ids] * table.size(0) ** 0.5,
    },
)


# ------------------------------------------------------------------------------------------------ 3, 4: the masks


class WrongShape(str):
    """What is wrong with a mask that cannot be broadcast to the scores."""


def _broadcast(asked: Callable[..., tuple[int, ...]], scores: Callable[..., tuple[int, ...]]) -> Function:
    """Compare a mask as it is broadcast to the scores: (T, T) says the same as (1, 1, T, T)."""

    def result(mask: Any, *arguments: Any) -> Any:
        if not isinstance(mask, Tensor):
            return mask
        try:
            return mask.expand(scores(*arguments)) + 0
        except RuntimeError:
            return WrongShape(f"the shape is {tuple(mask.shape)}, and should be {asked(*arguments)}.")

    return result


def _additive(mask: Tensor) -> Tensor:
    return torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)


_ADDITIVE = (
    "This mask is to be added to the scores (0 and -inf). Here a mask is boolean, and True means: may attend. Return "
    "the comparison itself."
)

PADDING_MASK = Exercise(
    "padding_mask",
    lambda ids: masks.padding_mask(ids, PAD),
    lambda: [(torch.tensor([[5, 4, EOS, PAD], [6, EOS, PAD, PAD], [7, 8, 9, EOS]]),)],
    {
        "The mask is the wrong way round: True means *may attend*, so padding is False.": lambda ids: (ids == PAD)[
            :, None, None
        ],
        "The shape is (B, S). To be broadcast to the scores (B, H, T, S), it must be (B, 1, 1, S): add two axes in "
        "the middle with [:, None, None, :].": lambda ids: ids != PAD,
        "The mask hides queries, and should hide keys, which are the last "
        "axis of the scores (B, H, T, S). The shape is (B, 1, 1, S), not (B, 1, S, 1).": lambda ids: (ids != PAD)[
            :, None, :, None
        ],
        "The mask has three axes (B, 1, S). The scores have four, (B, H, T, S): B would be taken for heads. Return "
        "(B, 1, 1, S).": lambda ids: (ids != PAD)[:, None],
        "</s> is hidden as well. It is a real token, at which the model looks: only PAD is padding.": lambda ids: (
            (ids != PAD) & (ids != EOS)
        )[:, None, None],
        _ADDITIVE: lambda ids: _additive(masks.padding_mask(ids, PAD)),
    },
    result=_broadcast(lambda ids: (3, 1, 1, 4), lambda ids: (3, 2, 5, 4)),
)


def _square(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool)


CAUSAL_MASK = Exercise(
    "causal_mask",
    masks.causal_mask,
    lambda: [(1,), (4,)],
    {
        "The triangle is the wrong one: i ≤ j lets each position see itself and the future. Position i (row) may "
        "attend to positions j ≤ i (column): the lower triangle, tril.": lambda length: _square(length).triu(),
        "The polarity is wrong: this is True where a position must *not* look. Here True means: may attend.": (
            lambda length: _square(length).triu(1)
        ),
        "Positions may not see themselves here. j = i is allowed; the first position would have nothing to look "
        "at.": lambda length: _square(length).tril(-1),
        "Shifted by one: each position also sees the next one, which is what it has to predict. Its input at i is "
        "already the token before the one that it predicts.": lambda length: _square(length).tril(1),
        "Everything is visible, so the model would see the word that it has to predict.": _square,
        _ADDITIVE: lambda length: _additive(_square(length).tril()),
    },
    result=_broadcast(lambda length: (length, length), lambda length: (2, 2, length, length)),
)


# --------------------------------------------------------------------------------------------- 5 to 8: attention


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    scale: float | None = None,
    hide: Callable[[Tensor, Tensor], Tensor] = lambda scores, mask: scores.masked_fill(~mask, -torch.inf),
    softmax: Callable[[Tensor], Tensor] = lambda scores: scores.softmax(dim=-1),
    hide_weights: Callable[[Tensor, Tensor], Tensor] = lambda weights, mask: weights,
) -> tuple[Tensor, Tensor]:
    scores = query @ key.transpose(-2, -1) * (query.size(-1) ** -0.5 if scale is None else scale)
    weights = hide_weights(softmax(hide(scores, mask)), mask)
    return weights @ value, weights


def _scaled_by_the_model(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    return _attention(query, key, value, mask, scale=(query.size(1) * query.size(3)) ** -0.5)


def _visible(scores: Tensor, mask: Tensor) -> Tensor:
    return scores


def _attention_inputs() -> list[tuple[Tensor, ...]]:
    padding = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]).bool()[:, None, None]
    sides = [(_random(2, 3, 4, 6), _random(2, 3, 5, 6, seed=2), _random(2, 3, 5, 6, seed=3), padding)]
    return [*sides, (*(_random(1, 2, 4, 6, seed=seed) for seed in (4, 5, 6)), masks.causal_mask(4))]


ATTENTION = Exercise(
    "attention",
    partial(scaled_dot_product_attention, need_weights=True),
    _attention_inputs,
    {
        "The scores are not divided by √d_k. With long vectors, softmax would choose one key and have hardly any "
        "gradient.": partial(_attention, scale=1.0),
        "The scores are divided by √d_model, and should be divided by √d_k, the width of one head: the last "
        "dimension of query.": _scaled_by_the_model,
        "The scores are divided by d_k, and should be divided by its square root.": (
            lambda query, *rest: _attention(query, *rest, scale=1 / query.size(-1))
        ),
        "The scores are multiplied by √d_k, and should be divided by it.": (
            lambda query, *rest: _attention(query, *rest, scale=query.size(-1) ** 0.5)
        ),
        "Softmax is over the wrong axis. The weights of one query add up to 1 over the keys, the last axis of "
        "(B, H, T, S): dim=-1.": partial(_attention, softmax=lambda scores: scores.softmax(dim=-2)),
        "The mask has the wrong polarity: it hides what may be seen. True means *may attend*, so fill the scores "
        "where the mask is False: masked_fill(~mask, -inf).": partial(
            _attention, hide=lambda scores, mask: scores.masked_fill(mask, -torch.inf)
        ),
        "The mask is not used.": partial(_attention, hide=_visible),
        "The mask comes after softmax. The hidden keys already took their share, so the weights of a query no longer "
        "add up to 1. Fill the scores with -inf before softmax.": partial(
            _attention, hide=_visible, hide_weights=lambda weights, mask: weights * mask
        ),
        "Hidden scores become 0, which softmax turns into exp(0) = 1, a weight like any other. They must become -inf "
        "(or a very large negative number).": partial(_attention, hide=lambda scores, mask: scores * mask),
        "The mask fills the weights with -inf after softmax. It belongs to the scores, before softmax.": partial(
            _attention, hide=_visible, hide_weights=lambda weights, mask: weights.masked_fill(~mask, -torch.inf)
        ),
        "Softmax is missing: the weights must be positive and add up to 1 for each query.": partial(
            _attention, softmax=lambda scores: scores
        ),
        "The second result is the scores. Return the weights, which are the softmax of the scores.": (
            lambda *arguments: (_attention(*arguments)[0], _attention(*arguments, softmax=lambda scores: scores)[1])
        ),
        "Only the output is returned. Return two tensors, the output and the weights.": (
            lambda *arguments: _attention(*arguments)[0]
        ),
        "The two results are exchanged: the output comes first, then the weights.": (
            lambda *arguments: _attention(*arguments)[::-1]
        ),
    },
)

SPLIT_HEADS = Exercise(
    "split_heads",
    lambda x, num_heads: x.unflatten(-1, (num_heads, -1)).transpose(1, 2),
    lambda: [(_random(2, 5, 12), 3), (_random(1, 4, 8), 2), (_random(2, 3, 9), 3)],
    {
        "The heads are cut out by view or reshape alone, without a transposition. The shape is right, but each head "
        "gets whole positions instead of its part of every position. First view as (B, S, H, K), then "
        "transpose(1, 2).": lambda x, heads: x.reshape(len(x), heads, x.size(1), -1),
        "The transposition is missing: the shape is (B, S, H, K), and should be (B, H, S, K).": lambda x, heads: (
            x.unflatten(-1, (heads, -1))
        ),
        "Each head gets every H-th feature, and should get K neighbouring ones: view as (B, S, H, K), not as "
        "(B, S, K, H).": lambda x, heads: x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2),
        "Keys and features are exchanged: the shape is (B, H, K, S), and should be (B, H, S, K).": lambda x, heads: (
            x.unflatten(-1, (heads, -1)).permute(0, 2, 3, 1)
        ),
        "The batch is cut into heads as well: heads are the first axis. The shape should be (B, H, S, K).": (
            lambda x, heads: x.unflatten(-1, (heads, -1)).permute(2, 0, 1, 3)
        ),
    },
)

MERGE_HEADS = Exercise(
    "merge_heads",
    lambda heads: heads.transpose(1, 2).flatten(2),
    lambda: [(_random(2, 3, 5, 4),), (_random(1, 2, 4, 3),), (_random(2, 3, 3, 3),)],
    {
        "The heads are merged by view or reshape alone. The shape is right, but positions are mixed. First "
        "transpose(1, 2), so that the heads of one position stand side by side, then flatten.": lambda heads: (
            heads.reshape(len(heads), heads.size(2), -1)
        ),
        "The features of the heads are interleaved. The heads are to stand one after the other: flatten (B, T, H, K), "
        "not (B, T, K, H).": lambda heads: heads.permute(0, 2, 3, 1).flatten(2),
        "The heads are added up, and should be concatenated: D = H · K.": lambda heads: heads.sum(dim=1),
        "This is the mean of the heads, and should be their concatenation: D = H · K.": lambda heads: heads.mean(dim=1),
        "The heads are flattened into positions: the shape is (B, H · T, K), and should be (B, T, H · K).": (
            lambda heads: heads.flatten(1, 2)
        ),
    },
)


def _multi_head(
    block: MultiHeadAttention,
    query: Tensor,
    memory: Tensor,
    mask: Tensor | None,
    split: Function = SPLIT_HEADS.right,
    merge: Function = MERGE_HEADS.right,
    attend: Function = _attention,
    output: bool = True,
) -> Tensor:
    sides = (block.query(query), block.key(memory), block.value(memory))
    merged = merge(attend(*(split(side, block.num_heads) for side in sides), mask)[0])
    return block.output(merged) if output else merged


def _changed(block: MultiHeadAttention, **parts: Any) -> Any:
    return SimpleNamespace(**{**dict(block.named_children()), "num_heads": block.num_heads, **parts})


def _block_inputs() -> list[tuple[Any, ...]]:
    block = _drawn(MultiHeadAttention(12, 3))
    mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]]).bool()[:, None, None]
    x = _random(2, 4, 12, seed=2)
    return [
        (block, _random(2, 3, 12), _random(2, 5, 12, seed=3), mask),
        (block, _random(2, 5, 12), _random(2, 5, 12, seed=3), mask),
        (block, x, x, masks.causal_mask(4)),
    ]


_VIEWED: Function = next(iter(SPLIT_HEADS.mistakes.values()))
_UNMERGED: Function = next(iter(MERGE_HEADS.mistakes.values()))

MULTI_HEAD_ATTENTION = Exercise(
    "multi_head_attention",
    lambda block, query, memory, mask: block(query, memory, memory, mask),
    _block_inputs,
    {
        "The heads are split without a transposition (view or reshape alone): use split_heads.": partial(
            _multi_head, split=_VIEWED
        ),
        "The heads are merged without a transposition (view or reshape alone): use merge_heads.": partial(
            _multi_head, merge=_UNMERGED
        ),
        "The heads are split and merged by view or reshape alone. No error, right shapes, but each head sees whole "
        "positions. Use split_heads and merge_heads.": partial(_multi_head, split=_VIEWED, merge=_UNMERGED),
        "The output projection W^O is missing: apply block.output to the merged heads.": partial(
            _multi_head, output=False
        ),
        "The scores are divided by √d_model, and should be divided by √d_k = √(d_model / H): each head has its own "
        "scale.": partial(_multi_head, attend=_scaled_by_the_model),
        "The scores are not divided by √d_k: use attention.": partial(
            _multi_head, attend=partial(_attention, scale=1.0)
        ),
        "The mask is not used: pass it to attention.": partial(_multi_head, attend=partial(_attention, hide=_visible)),
        "This is one head as wide as the model. Split query, key and value into block.num_heads heads first.": (
            lambda block, *rest: _multi_head(
                block, *rest, split=lambda x, heads: x[:, None], merge=lambda heads: heads[:, 0]
            )
        ),
        "Key and value come from query, and should come from memory. In self-attention both are the same, but the "
        "decoder also attends to the encoder's output.": lambda block, query, memory, mask: _multi_head(
            block, query, query, mask[..., : query.size(1)]
        ),
        "The values are not projected: apply block.value to memory.": (
            lambda block, *rest: _multi_head(_changed(block, value=lambda memory: memory), *rest)
        ),
        "query and memory are exchanged: block.query belongs to query, block.key and block.value to memory.": (
            lambda block, query, memory, mask: _multi_head(block, memory, query, mask)
        ),
    },
    uses=("attention", "split_heads", "merge_heads"),
)

# ------------------------------------------------------------------- 9 to 13: what stands around and beside attention


class _EveryThird(nn.Module):
    """In place of dropout, to see where it is applied: every third element becomes 0, the others grow by half."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.where(torch.arange(x.numel()) % 3 == 0, 0.0, 1.5).view(x.shape)


def _feed_forward_right(x: Tensor, inner: nn.Linear, outer: nn.Linear) -> Tensor:
    network = PositionwiseFeedForward(ModelConfig(inner.in_features, inner.out_features, 1))
    network.inner, network.outer = inner, outer
    return network.eval()(x)  # type: ignore[no-any-return]


FEED_FORWARD = Exercise(
    "feed_forward",
    _feed_forward_right,
    lambda: [(_random(2, 3, 4), _drawn(nn.Linear(4, 8)), _drawn(nn.Linear(8, 4), seed=2))],
    {
        "The ReLU, max(0, …), between the two projections is missing. Without it they are only one linear map.": (
            lambda x, inner, outer: outer(inner(x))
        ),
        "The ReLU comes after the second projection, and should come between the two. The output may be negative.": (
            lambda x, inner, outer: outer(inner(x)).relu()
        ),
        "There is a ReLU after both projections. Only the inner one has it: the output may be negative.": (
            lambda x, inner, outer: outer(inner(x).relu()).relu()
        ),
        "The ReLU comes before the first projection, and should come between the two.": lambda x, inner, outer: outer(
            inner(x.relu())
        ),
        "The activation is GELU. Later models use it; the paper's is ReLU, max(0, x).": lambda x, inner, outer: outer(
            F.gelu(inner(x))
        ),
        "x is added to the result. The residual sum is the task of add_and_norm, around every sub-layer.": (
            lambda x, inner, outer: x + outer(inner(x).relu())
        ),
    },
)


def _layer_norm(
    x: Tensor,
    gain: Tensor,
    bias: Tensor,
    eps: float,
    axes: tuple[int, ...] = (-1,),
    unbiased: bool = False,
    eps_outside: bool = False,
    power: float = 0.5,
) -> Tensor:
    variance = x.var(dim=axes, keepdim=True, unbiased=unbiased)
    deviation = variance**power + eps if eps_outside else (variance + eps) ** power
    return gain * (x - x.mean(dim=axes, keepdim=True)) / deviation + bias


def _layer_norm_inputs() -> list[tuple[Any, ...]]:
    small = 1e-2 * _random(2, 3, 6)  # so small that eps counts
    return [(x, _random(6, seed=2), _random(6, seed=3), 1e-5) for x in (_random(2, 3, 6), small, 1e-3 * small)]


LAYER_NORM = Exercise(
    "layer_norm",
    lambda x, gain, bias, eps: F.layer_norm(x, gain.shape, gain, bias, eps),
    _layer_norm_inputs,
    {
        "The variance is divided by D - 1, which is what x.var() and x.std() do unless told otherwise. LayerNorm "
        "divides by D: unbiased=False.": partial(_layer_norm, unbiased=True),
        "eps is missing. Add it to the variance, or a constant vector would be divided by 0.": (
            lambda x, gain, bias, eps: _layer_norm(x, gain, bias, 0.0)
        ),
        "eps is added to the standard deviation, and should be added to the variance, inside the root.": partial(
            _layer_norm, eps_outside=True
        ),
        "Two differences: eps is added to the standard deviation instead of the variance, and the variance is divided "
        "by D - 1 (unbiased=False divides by D). The Annotated Transformer does both; PyTorch and the paper "
        "don't.": partial(_layer_norm, eps_outside=True, unbiased=True),
        "The vectors are divided by the variance, and should be divided by its root.": partial(_layer_norm, power=1.0),
        "Mean and variance are over the positions. Each position is normalised by itself, over its D features: "
        "dim=-1, keepdim=True.": partial(_layer_norm, axes=(1,)),
        "Mean and variance are over the batch, as in batch norm. Each position is normalised by itself, over its D "
        "features: dim=-1, keepdim=True.": partial(_layer_norm, axes=(0,)),
        "Mean and variance are over positions and features together. Each position is normalised by itself: dim=-1, "
        "keepdim=True.": partial(_layer_norm, axes=(1, 2)),
        "gain and bias are not used.": lambda x, gain, bias, eps: _layer_norm(x, torch.tensor(1), torch.tensor(0), eps),
        "gain is not used.": lambda x, gain, bias, eps: _layer_norm(x, torch.tensor(1), bias, eps),
        "bias is not added.": lambda x, gain, bias, eps: _layer_norm(x, gain, torch.tensor(0), eps),
        "The mean is not subtracted.": lambda x, gain, bias, eps: (
            gain * x / (x.var(dim=-1, keepdim=True, unbiased=False) + eps).sqrt() + bias
        ),
    },
)

DROPOUT = Exercise(
    "dropout",
    lambda x, noise, probability, training: (
        torch.where(noise < probability, 0.0, x / (1 - probability)) if training else x
    ),
    lambda: [
        (_random(3, 4), torch.rand(3, 4, generator=torch.Generator().manual_seed(3)), 0.3, t) for t in (True, False)
    ],
    {
        "What is kept is not scaled up. Divide by 1 - probability, so that the mean stays the same when dropout is "
        "switched off.": lambda x, noise, p, training: x * (noise >= p) if training else x,
        "Dropout is active in evaluation as well. If training is False, return x.": lambda x, noise, p, training: (
            x * (noise >= p) / (1 - p)
        ),
        "What is kept is scaled in evaluation, as the first paper on dropout did. Here it is scaled up in training, by "
        "1 / (1 - probability), and evaluation returns x.": lambda x, noise, p, training: (
            x * (noise >= p) if training else x * (1 - p)
        ),
        "The wrong elements are dropped: those where noise < probability become 0.": lambda x, noise, p, training: (
            x * (noise < p) / (1 - p) if training else x
        ),
        "The scale is 1 / probability, and should be 1 / (1 - probability), one over the share that is kept.": (
            lambda x, noise, p, training: x * (noise >= p) / p if training else x
        ),
        "probability is taken for the share that is kept. It is the share that is dropped.": (
            lambda x, noise, p, training: x * (noise < p) / p if training else x
        ),
        "Elements are dropped in evaluation instead of training: `training` is the wrong way round.": (
            lambda x, noise, p, training: x if training else x * (noise >= p) / (1 - p)
        ),
    },
)

Sublayer = Callable[[Tensor], Tensor]


def _connection(norm: str) -> Function:
    def right(x: Tensor, sublayer: Sublayer, layer_norm: nn.Module, dropout: nn.Module) -> Tensor:
        connection = SublayerConnection(ModelConfig(x.size(-1), num_heads=1, norm="pre" if norm == "pre" else "post"))
        connection.layer_norm, connection.dropout = layer_norm, dropout  # type: ignore[assignment]
        return connection(x, sublayer)  # type: ignore[no-any-return]

    return right


_POST, _PRE = _connection("post"), _connection("pre")


def _connection_inputs() -> list[tuple[Any, ...]]:
    return [(_random(2, 3, 4), _drawn(nn.Linear(4, 4)), _drawn(nn.LayerNorm(4), seed=2), _EveryThird())]


_NO_DROPOUT = "Dropout is missing: apply it to the sub-layer's output, before the sum (section 5.4)."
_DROPOUT_OF_SUM = (
    "Dropout is applied to the sum, which damages the residual path. Apply it to the sub-layer's output alone."
)

ADD_AND_NORM = Exercise(
    "add_and_norm",
    _POST,
    _connection_inputs,
    {
        "This is pre-norm, x + Dropout(Sublayer(LayerNorm(x))). The paper's is post-norm: the norm comes last, around "
        "the sum.": _PRE,
        "The residual sum is missing: x + … lets gradients pass by the sub-layer.": lambda x, sublayer, norm, dropout: (
            norm(dropout(sublayer(x)))
        ),
        "The norm is missing around the sum.": lambda x, sublayer, norm, dropout: x + dropout(sublayer(x)),
        "Only the sub-layer's output is normalised. The norm belongs around the sum: LayerNorm(x + …).": (
            lambda x, sublayer, norm, dropout: x + norm(dropout(sublayer(x)))
        ),
        _NO_DROPOUT: lambda x, sublayer, norm, dropout: norm(x + sublayer(x)),
        _DROPOUT_OF_SUM: lambda x, sublayer, norm, dropout: norm(dropout(x + sublayer(x))),
        "Dropout is applied to the result of the norm. Apply it to the sub-layer's output, before the sum.": (
            lambda x, sublayer, norm, dropout: dropout(norm(x + sublayer(x)))
        ),
        "The sub-layer gets x normalised, and the sum is normalised again. Post-norm has one norm, around the sum.": (
            lambda x, sublayer, norm, dropout: norm(x + dropout(sublayer(norm(x))))
        ),
    },
)

PRE_NORM = Exercise(
    "pre_norm",
    _PRE,
    _connection_inputs,
    {
        "This is post-norm, LayerNorm(x + Dropout(Sublayer(x))). In pre-norm, the norm comes first, and nothing "
        "follows the sum.": _POST,
        "The residual path is normalised as well: add x as it came in, and give only the sub-layer LayerNorm(x).": (
            lambda x, sublayer, norm, dropout: norm(x) + dropout(sublayer(norm(x)))
        ),
        "The residual sum is missing: x + …": lambda x, sublayer, norm, dropout: dropout(sublayer(norm(x))),
        "The norm is missing: the sub-layer gets LayerNorm(x).": lambda x, sublayer, norm, dropout: (
            x + dropout(sublayer(x))
        ),
        "The sub-layer's output is normalised, and its input should be.": lambda x, sublayer, norm, dropout: (
            x + dropout(norm(sublayer(x)))
        ),
        _NO_DROPOUT: lambda x, sublayer, norm, dropout: x + sublayer(norm(x)),
        _DROPOUT_OF_SUM: lambda x, sublayer, norm, dropout: dropout(x + sublayer(norm(x))),
        "The sum is normalised again. In pre-norm nothing follows it, so that x passes through unchanged.": (
            lambda x, sublayer, norm, dropout: norm(x + dropout(sublayer(norm(x))))
        ),
    },
)

# ------------------------------------------------------------------------------------------------ 14, 15: the layers


def _with_attention(block: MultiHeadAttention) -> Function:
    return lambda query, memory, mask=None: block(query, memory, memory, mask)


def _parts(layer: EncoderLayer | DecoderLayer, *names: str) -> SimpleNamespace:
    """A layer of the package as the exercises see it: its sub-layers as functions, its norms, its dropout."""
    parts: dict[str, Any] = {"dropout": _EveryThird(), "whole": layer}
    for name in names:
        connection, part = getattr(layer, f"{name}_connection"), getattr(layer, name)
        connection.dropout = parts["dropout"]
        parts[f"{name}_norm"] = connection.layer_norm
        parts[name] = _with_attention(part) if isinstance(part, MultiHeadAttention) else part
    return SimpleNamespace(**parts)


def _sublayers(layer: Any, x: Tensor, *steps: tuple[str, Sublayer], connect: Function = _POST) -> Tensor:
    for name, sublayer in steps:
        x = connect(x, sublayer, getattr(layer, f"{name}_norm"), layer.dropout)
    return x


def _encoder_layer(layer: Any, x: Tensor, mask: Tensor | None, fault: str = "") -> Tensor:
    def attend(y: Tensor) -> Tensor:
        return layer.self_attention(y, y, mask)  # type: ignore[no-any-return]

    def work(y: Tensor) -> Tensor:
        return layer.feed_forward(y)  # type: ignore[no-any-return]

    attention, feed_forward = ("self_attention", attend), ("feed_forward", work)
    if fault == "order":
        return _sublayers(layer, x, feed_forward, attention)
    if fault == "parallel":
        return _sublayers(layer, x, feed_forward) + 0 * _sublayers(layer, x, attention)
    if fault == "norms":
        return _sublayers(layer, x, ("feed_forward", attend), ("self_attention", work))
    if fault == "one norm":
        return _sublayers(layer, x, ("self_attention", attend), ("self_attention", work))
    if fault == "one sum":
        return _sublayers(layer, x, ("feed_forward", lambda y: work(attend(y))))
    connect = {"pre": _PRE, "no dropout": next(f for m, f in ADD_AND_NORM.mistakes.items() if m == _NO_DROPOUT)}
    return _sublayers(layer, x, attention, feed_forward, connect=connect.get(fault, _POST))


def _encoder_inputs() -> list[tuple[Any, ...]]:
    config = ModelConfig(d_model=12, d_ff=16, num_heads=3)
    layer = _parts(_drawn(EncoderLayer(config, "")), "self_attention", "feed_forward")
    return [(layer, _random(2, 4, 12), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool()[:, None, None])]


ENCODER_LAYER = Exercise(
    "encoder_layer",
    lambda layer, x, source_mask: layer.whole(x, source_mask),
    _encoder_inputs,
    {
        "The feed-forward network comes before self-attention, and should come after it.": partial(
            _encoder_layer, fault="order"
        ),
        "The mask is not used: pass source_mask to self-attention.": lambda layer, x, mask: _encoder_layer(
            layer, x, None
        ),
        "This is pre-norm. The paper's layer is post-norm: use add_and_norm.": partial(_encoder_layer, fault="pre"),
        "The feed-forward network gets the layer's input x. It should get what the first add_and_norm returned.": (
            partial(_encoder_layer, fault="parallel")
        ),
        "The two norms are exchanged: self_attention_norm belongs to self-attention, feed_forward_norm to the "
        "feed-forward network.": partial(_encoder_layer, fault="norms"),
        "The same norm is used twice. The second sub-layer has its own, layer.feed_forward_norm.": partial(
            _encoder_layer, fault="one norm"
        ),
        "There is only one add & norm. Each of the two sub-layers has its own.": partial(
            _encoder_layer, fault="one sum"
        ),
        _NO_DROPOUT: partial(_encoder_layer, fault="no dropout"),
    },
    uses=("add_and_norm",),
)


def _decoder_layer(layer: Any, x: Tensor, memory: Tensor, source_mask: Tensor | None, fault: str = "") -> Tensor:
    causal = masks.causal_mask(x.size(1))
    own = {"not causal": None, "source mask": source_mask, "reversed": causal.transpose(-2, -1)}.get(fault, causal)
    other = {"unmasked": None, "causal": causal}.get(fault, source_mask)

    def attend(y: Tensor) -> Tensor:
        return layer.self_attention(y, y, own)  # type: ignore[no-any-return]

    def look(y: Tensor) -> Tensor:
        if fault == "twice":
            return layer.cross_attention(y, y, causal)  # type: ignore[no-any-return]
        if fault == "exchanged":
            return layer.cross_attention(memory, y, None)  # type: ignore[no-any-return]
        return layer.cross_attention(y, memory, other)  # type: ignore[no-any-return]

    steps: list[tuple[str, Sublayer]] = [
        ("self_attention", attend),
        ("cross_attention", look),
        ("feed_forward", layer.feed_forward),
    ]
    if fault == "order":
        steps[:2] = steps[1::-1]
    if fault == "no cross":
        del steps[1]
    connect = {"pre": _PRE, "no dropout": next(f for m, f in ADD_AND_NORM.mistakes.items() if m == _NO_DROPOUT)}
    return _sublayers(layer, x, *steps, connect=connect.get(fault, _POST))


def _decoder_right(layer: Any, x: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
    whole: DecoderLayer = layer.whole
    return whole(x, whole.start_cache(memory), masks.causal_mask(x.size(1)), source_mask)  # type: ignore[no-any-return]


def _decoder_inputs() -> list[tuple[Any, ...]]:
    config = ModelConfig(d_model=12, d_ff=16, num_heads=3)
    layer = _parts(_drawn(DecoderLayer(config, "")), "self_attention", "cross_attention", "feed_forward")
    padding = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool()[:, None, None]
    memory = _random(2, 4, 12, seed=2)
    return [(layer, _random(2, length, 12, seed=length), memory, padding) for length in (4, 3)]


DECODER_LAYER = Exercise(
    "decoder_layer",
    _decoder_right,
    _decoder_inputs,
    {
        "Self-attention has no causal mask: each position sees the words that it has to predict. Training would look "
        "excellent, and translation fail.": partial(_decoder_layer, fault="not causal"),
        "Self-attention has the causal mask the wrong way round: it sees the future and not the past.": partial(
            _decoder_layer, fault="reversed"
        ),
        "Self-attention gets source_mask. That belongs to cross-attention; self-attention gets causal_mask(T).": (
            partial(_decoder_layer, fault="source mask")
        ),
        "Cross-attention gets no mask: pass source_mask, or it looks at the padding of the source.": partial(
            _decoder_layer, fault="unmasked"
        ),
        "Cross-attention gets the causal mask. The whole source is known from the start: it gets source_mask.": (
            partial(_decoder_layer, fault="causal")
        ),
        "Cross-attention attends to the target itself. Its keys and values come from memory.": partial(
            _decoder_layer, fault="twice"
        ),
        "query and memory are exchanged in cross-attention: the queries come from the target.": partial(
            _decoder_layer, fault="exchanged"
        ),
        "Cross-attention is missing between self-attention and the feed-forward network.": partial(
            _decoder_layer, fault="no cross"
        ),
        "Cross-attention comes before self-attention, and should come after it.": partial(
            _decoder_layer, fault="order"
        ),
        "This is pre-norm. The paper's layer is post-norm: use add_and_norm.": partial(_decoder_layer, fault="pre"),
        _NO_DROPOUT: partial(_decoder_layer, fault="no dropout"),
    },
    uses=("causal_mask", "add_and_norm"),
)

# ---------------------------------------------------------------------------------- 16 to 20: softmax and training


def _linear(table: nn.Parameter, weight: nn.Parameter | None, bias: bool = False) -> nn.Linear:
    layer = nn.Linear(table.size(1), table.size(0), bias=bias)
    if weight is not None:
        layer.weight = weight
    return layer


def _what_is_shared(layer: Any, table: nn.Parameter) -> Any:
    if not isinstance(layer, nn.Linear):
        return layer
    return {
        "the weight is the table itself": layer.weight is table,
        "the weight is equal to the table": torch.equal(layer.weight, table) if layer.weight is not table else True,
        "the layer has a bias": layer.bias is not None,
    }


TIED_SOFTMAX = Exercise(
    "tied_softmax",
    lambda table: _linear(table, table),
    lambda: [(nn.Parameter(_random(5, 4)),)],
    {
        "The weights are a copy of the table. They are equal now, and will differ after the first step. Assign the "
        "parameter itself: layer.weight = table.": lambda table: _linear(table, nn.Parameter(table.detach().clone())),
        "The layer has weights of its own. Assign the table to them: layer.weight = table.": lambda table: _linear(
            table, None
        ),
        "The layer has weights of its own, and a bias. Assign the table to the weights, and pass bias=False.": (
            lambda table: _linear(table, None, bias=True)
        ),
        "The weights are shared, but the layer also has a bias: pass bias=False.": lambda table: _linear(
            table, table, bias=True
        ),
        "The weights are a copy of the table, and the layer has a bias. Assign the parameter itself, and pass "
        "bias=False.": lambda table: _linear(table, nn.Parameter(table.detach().clone()), bias=True),
    },
    result=_what_is_shared,
)


def _padded(rows: Iterable[list[int]], pad: int = PAD, left: bool = False) -> Tensor:
    rows = list(rows)
    width = max(map(len, rows))
    return torch.tensor([[pad] * (width - len(r)) + r if left else r + [pad] * (width - len(r)) for r in rows])


def _shifted(
    sentences: list[list[int]],
    start: tuple[int, ...] = (BOS,),
    end: tuple[int, ...] = (EOS,),
    before: tuple[int, ...] = (),
    after: tuple[int, ...] = (),
    **padding: Any,
) -> tuple[Tensor, Tensor]:
    inputs = _padded([[*start, *ids, *after] for ids in sentences], **padding)
    return inputs, _padded([[*before, *ids, *end] for ids in sentences], **padding)


def _end_after_padding(sentences: list[list[int]]) -> tuple[Tensor, Tensor]:
    ids = _padded(sentences)
    column = torch.ones(len(ids), 1, dtype=torch.long)
    return torch.cat((BOS * column, ids), dim=1), torch.cat((ids, EOS * column), dim=1)


def _last_token_cut_off(sentences: list[list[int]]) -> tuple[Tensor, Tensor]:
    rows = _padded([[BOS, *ids, EOS] for ids in sentences])
    return rows[:, :-1], rows[:, 1:]


SHIFTED_TARGETS = Exercise(
    "shifted_targets",
    _shifted,
    lambda: [([[5, 6, 7], [8], [4, 9]],), ([[4, 5]],)],
    {
        "Input and output are exchanged: the decoder's input starts with <s>, and what it has to predict ends with "
        "</s>.": lambda sentences: _shifted(sentences)[::-1],
        "Input and output are the same. The output must be one ahead, or the model learns to copy what it sees.": (
            lambda sentences: _shifted(sentences, start=(), end=())
        ),
        "Input and output are the same, <s> … </s>. The input ends before </s>, the output begins after <s>, so that "
        "the output is one ahead.": lambda sentences: _shifted(sentences, before=(BOS,), after=(EOS,)),
        "Input and output are the same, both with </s>. The input starts with <s> and ends before </s>, so that the "
        "output is one ahead.": lambda sentences: _shifted(sentences, start=(), after=(EOS,)),
        "The output lacks </s>. Without it, the model never learns to stop.": lambda sentences: _shifted(
            sentences, end=()
        ),
        "The input lacks <s>. Without it, input and output are not shifted: position i sees the word that it has to "
        "predict.": lambda sentences: _shifted(sentences, start=()),
        "The output begins with <s>. That is given, not predicted: the output is one ahead of the input.": (
            lambda sentences: _shifted(sentences, before=(BOS,))
        ),
        "The input ends with </s>, after which nothing is left to predict: end it before </s>.": lambda sentences: (
            _shifted(sentences, after=(EOS,))
        ),
        "Shifted by two: the output is two ahead of the input. It starts with the first word.": lambda sentences: (
            _shifted(sentences)[0],
            _padded([[*ids[1:], EOS] for ids in sentences]),
        ),
        "</s> stands after the padding. Add it to each sentence before padding.": _end_after_padding,
        "The padding is on the left. Here it is on the right, where the causal mask hides it.": lambda sentences: (
            _shifted(sentences, left=True)
        ),
        f"Padded with {EOS}, which is </s>, and should be padded with PAD = {PAD}.": lambda sentences: _shifted(
            sentences, pad=EOS
        ),
        "The last column of the input is cut off after padding, so shorter sentences keep </s> in their input. Cut "
        "each sentence before padding.": _last_token_cut_off,
    },
    result=lambda result, sentences: tuple(result) if isinstance(result, list) else result,
)


def _smoothed(
    target_output: Tensor,
    vocab_size: int,
    smoothing: float,
    right: Callable[[float, int], float] = lambda e, v: 1 - e + e / v,
    other: Callable[[float, int], float] = lambda e, v: e / v,
    pad_word: bool = True,
    pad_positions: bool = False,
) -> Tensor:
    q = torch.full((*target_output.shape, vocab_size), other(smoothing, vocab_size))
    q.scatter_(-1, target_output[..., None], right(smoothing, vocab_size))
    if not pad_word:
        q[..., PAD] = 0.0
    return q if pad_positions else q * (target_output != PAD)[..., None]


SMOOTHED_TARGETS = Exercise(
    "smoothed_targets",
    _smoothed,
    lambda: [(torch.tensor([[4, 6, EOS], [5, EOS, PAD]]), 7, 0.1)],
    {
        "Padding gets a distribution as well. Nothing is to be predicted there: those positions are all 0.": partial(
            _smoothed, pad_positions=True
        ),
        "The right token gets 1 - ε, and the others ε / (V - 1). That also adds up to 1, but here the mass ε is spread "
        "over *all* V tokens, so the right one gets 1 - ε + ε / V.": partial(
            _smoothed, right=lambda e, v: 1 - e, other=lambda e, v: e / (v - 1)
        ),
        "The right token gets 1 - ε, the others ε / (V - 2), PAD 0, as in the Annotated Transformer. Here, as in "
        "Szegedy et al., every one of the V tokens gets ε / V, and the right one 1 - ε on top.": partial(
            _smoothed, right=lambda e, v: 1 - e, other=lambda e, v: e / (v - 2), pad_word=False
        ),
        "The right token lacks its own share of ε / V: it gets 1 - ε + ε / V, so that the sum is 1.": partial(
            _smoothed, right=lambda e, v: 1 - e
        ),
        "The right token gets 1 + ε / V, so the sum is more than 1: take ε away from it first.": partial(
            _smoothed, right=lambda e, v: 1 + e / v
        ),
        "The right token still gets 1: it gives ε to all V tokens.": partial(_smoothed, right=lambda e, v: 1.0),
        "ε and 1 - ε are exchanged: most of the mass stays with the right token.": partial(
            _smoothed, right=lambda e, v: e + (1 - e) / v, other=lambda e, v: (1 - e) / v
        ),
        "Each other token gets ε, and should get ε / V: the mass ε is shared.": partial(
            _smoothed, right=lambda e, v: 1 - e, other=lambda e, v: e
        ),
        "This is one-hot: smoothing is not used.": partial(_smoothed, right=lambda e, v: 1.0, other=lambda e, v: 0.0),
    },
)


def _loss_right(logits: Tensor, target_output: Tensor, smoothing: float) -> Tensor:
    total, count = label_smoothed_cross_entropy(logits, target_output, smoothing)
    return total / count


def _losses(
    logits: Tensor,
    target_output: Tensor,
    smoothing: float,
    log_probs: Callable[[Tensor], Tensor] = lambda logits: logits.log_softmax(dim=-1),
    targets: Function = _smoothed,
) -> Tensor:
    return -(targets(target_output, logits.size(-1), smoothing) * log_probs(logits)).sum(dim=-1)


def _mean_loss(logits: Tensor, target_output: Tensor, smoothing: float, **fault: Any) -> Tensor:
    return _losses(logits, target_output, smoothing, **fault).sum() / (target_output != PAD).sum()


def _mean_of_sentences(logits: Tensor, target_output: Tensor, smoothing: float) -> Tensor:
    return (_losses(logits, target_output, smoothing).sum(dim=1) / (target_output != PAD).sum(dim=1)).mean()


_OF_ALL = partial(_smoothed, pad_positions=True)

LOSS_PER_TOKEN = Exercise(
    "loss_per_token",
    _loss_right,
    lambda: [(2 * _random(2, 4, 7), torch.tensor([[4, 6, 5, EOS], [5, EOS, PAD, PAD]]), 0.1)],
    {
        "The mean is over all positions, padding included. Its loss is 0, so longer padding would make the loss "
        "smaller. Divide by the number of real tokens, (target_output != PAD).sum().": lambda *args: _losses(
            *args
        ).mean(),
        "The loss of padding positions is included. Leave them out of both the sum and the number of tokens.": (
            lambda *args: _losses(*args, targets=_OF_ALL).mean()
        ),
        "The loss of padding positions is in the sum, though only real tokens are counted.": partial(
            _mean_loss, targets=_OF_ALL
        ),
        "This is the sum over the tokens. Divide it by the number of real tokens.": lambda *args: _losses(*args).sum(),
        "The sum is divided by the number of sentences, and should be by the number of real tokens.": lambda *args: (
            _losses(*args).sum() / len(args[0])
        ),
        "This is the mean of the sentences' means, which counts a token of a short sentence more. Divide the whole sum "
        "by the number of real tokens.": _mean_of_sentences,
        "Softmax is over the wrong axis. The probabilities of one position add up to 1 over the vocabulary: dim=-1.": (
            partial(_mean_loss, log_probs=lambda logits: logits.log_softmax(dim=1))
        ),
        "logits are taken for log-probabilities: apply log_softmax(dim=-1) first.": partial(
            _mean_loss, log_probs=lambda logits: logits
        ),
        "Softmax is applied twice. F.cross_entropy and log_softmax expect logits, not probabilities.": partial(
            _mean_loss, log_probs=lambda logits: logits.softmax(dim=-1).log_softmax(dim=-1)
        ),
        "The logarithm is missing: softmax gives probabilities, log_softmax their logarithms.": partial(
            _mean_loss, log_probs=lambda logits: logits.softmax(dim=-1)
        ),
        "The sign is wrong: the loss is *minus* the log-probability, and never negative.": lambda *args: (
            -_mean_loss(*args)
        ),
        "The targets are not smoothed: smoothing is not used.": partial(
            _mean_loss, targets=lambda ids, size, smoothing: _smoothed(ids, size, 0.0)
        ),
        "The targets are not smoothed, and the mean is over all positions, padding included.": lambda *args: _losses(
            *args, targets=lambda ids, size, smoothing: _smoothed(ids, size, 0.0)
        ).mean(),
        "The smoothing mass leaves out PAD and the right token, as in the Annotated Transformer: ε / (V - 2). Here "
        "each of the V tokens gets ε / V. Use smoothed_targets.": partial(
            _mean_loss, targets=list(SMOOTHED_TARGETS.mistakes.values())[2]
        ),
    },
    uses=("smoothed_targets",),
)


def _rate(step: int, d_model: int, warmup: int) -> tuple[float, float]:
    return step**-0.5, step * warmup**-1.5


LEARNING_RATE = Exercise(
    "learning_rate",
    lambda step, d_model, warmup: paper_rate(OptimizerConfig(schedule="paper", warmup_steps=warmup), d_model, step),
    lambda: [(1, 512, 4000), (4000, 512, 4000), (16_000, 512, 4000), (10, 64, 400)],
    {
        "max instead of min: the rate starts far too high. It is the smaller of the two.": (
            lambda step, d_model, warmup: d_model**-0.5 * max(_rate(step, d_model, warmup))
        ),
        "d_model^-0.5 is missing: wider models learn with smaller steps.": lambda *args: min(_rate(*args)),
        "The rate is multiplied by √d_model, and should be divided by it.": lambda step, d_model, warmup: (
            d_model**0.5 * min(_rate(step, d_model, warmup))
        ),
        "The rate only rises: take the minimum with step^-0.5.": lambda step, d_model, warmup: (
            d_model**-0.5 * _rate(step, d_model, warmup)[1]
        ),
        "The rate only falls: the warm-up, step · warmup^-1.5, is missing.": lambda step, d_model, warmup: (
            d_model**-0.5 * _rate(step, d_model, warmup)[0]
        ),
        "The warm-up is step · warmup^-0.5. With the exponent -1.5, the two curves meet at step = warmup.": (
            lambda step, d_model, warmup: d_model**-0.5 * min(step**-0.5, step * warmup**-0.5)
        ),
        "The warm-up is step / warmup, which ends at 1. With step · warmup^-1.5 it ends at warmup^-0.5, where the "
        "other curve is.": lambda step, d_model, warmup: d_model**-0.5 * min(step**-0.5, step / warmup),
        "step and warmup are exchanged in the warm-up: it is step · warmup^-1.5, a straight line.": (
            lambda step, d_model, warmup: d_model**-0.5 * min(step**-0.5, warmup * step**-1.5)
        ),
        "Shifted by one: the rate of step + 1 is returned. Steps count from 1 here.": lambda step, d_model, warmup: (
            d_model**-0.5 * min(_rate(step + 1, d_model, warmup))
        ),
        "The rate falls with 1 / step, and should fall with the root, step^-0.5.": lambda step, d_model, warmup: (
            d_model**-0.5 * min(step**-1, step * warmup**-1.5)
        ),
    },
)

# ------------------------------------------------------------------------------------------- 21 to 23: decoding

_LETTERS = 5


class LanguageModel:
    """Log-probabilities (N, V) of the next token after each prefix (N, T), made up, the same ones every time.

    It raises an error if it is asked too often, so that a loop without end ends.
    """

    def __init__(self, seed: int, end: float = 0.0) -> None:
        """Higher numbers of end make </s> more probable."""
        self.seed, self.end, self.calls = seed, end, 0

    def __call__(self, prefixes: Tensor) -> Tensor:
        """Log-probabilities after prefixes, ids of shape (N, T)."""
        self.calls += 1
        if self.calls > 500:
            raise RuntimeError("next_log_probs was called 500 times. Does the loop ever end?")
        if prefixes.dim() != 2:
            raise ValueError(f"next_log_probs takes ids of shape (N, T), and got {tuple(prefixes.shape)}")
        return torch.stack([self._after(prefix) for prefix in prefixes.tolist()])

    def _after(self, prefix: list[int]) -> Tensor:
        seed = self.seed
        for token in prefix:
            seed = (seed * 1_000_003 + token + 7) % 2**31
        logits = 1.5 * torch.randn(EOS + 1 + _LETTERS, generator=torch.Generator().manual_seed(seed))
        logits[[PAD, UNK, BOS]] = -15.0
        logits[EOS] += self.end
        return logits.log_softmax(dim=0)


class _Prefixes:
    """What the package's search remembers: the hypotheses so far."""

    def __init__(self) -> None:
        self.ids = torch.empty(1, 0, dtype=torch.long)

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        self.ids = self.ids[hypotheses]


def _search(next_log_probs: Function, beam: int, limit: int, alpha: float) -> list[int]:
    def step(last: Tensor, state: Any) -> tuple[Tensor, Tensor]:
        state.ids = torch.cat((state.ids, last[:, None]), dim=1)
        return next_log_probs(state.ids).clone(), torch.zeros(len(state.ids))

    return search(step, _Prefixes(), [limit], SearchConfig(beam=beam, length_penalty=alpha))[0][0].tokens


def _ids(result: Any, *arguments: Any) -> Any:
    ids = result.tolist() if isinstance(result, Tensor) else result
    return [int(i) for i in ids] if isinstance(ids, list | tuple) and all(not isinstance(i, list) for i in ids) else ids


def _greedy(
    next_log_probs: Function,
    limit: int,
    start: int = BOS,
    seen: slice = slice(None),
    returned: slice = slice(1, None),
    keep_end: bool = False,
    endless: bool = False,
    best: Function = torch.argmax,
) -> list[int]:
    prefix = [start]
    while len(prefix) <= limit:
        token = int(best(next_log_probs(torch.tensor([prefix[seen]]))[0]))
        if token == EOS and not endless:
            return prefix[returned] + [EOS] * keep_end
        prefix.append(token)
    return prefix[returned]


GREEDY_DECODE = Exercise(
    "greedy_decode",
    lambda next_log_probs, limit: _search(next_log_probs, 1, limit, 0.0),
    lambda: [(LanguageModel(seed, end), limit) for seed, end, limit in ((1, 1.0, 12), (5, 1.0, 12), (3, -9.0, 4))],
    {
        "The loop does not stop at </s>: return as soon as it is the most probable token.": partial(
            _greedy, endless=True
        ),
        "The result contains </s>. Return only what comes before it.": partial(_greedy, keep_end=True),
        "The result contains <s>, which is given and not written.": partial(_greedy, returned=slice(None)),
        "The result contains <s> and </s>. Return only the tokens between them.": partial(
            _greedy, returned=slice(None), keep_end=True
        ),
        "The prefix starts with </s>, and should start with BOS, which is <s>.": partial(_greedy, start=EOS),
        "The prefix starts with PAD, and should start with BOS, which is <s>.": partial(_greedy, start=PAD),
        "The model sees only the last token. Give it the whole prefix, from <s> on: (1, T).": partial(
            _greedy, seen=slice(-1, None)
        ),
        "One token too many: at most `limit` tokens, <s> not counted.": lambda next_log_probs, limit: _greedy(
            next_log_probs, limit + 1
        ),
        "One token too few: `limit` tokens are allowed, and <s> is not counted.": lambda next_log_probs, limit: _greedy(
            next_log_probs, limit - 1
        ),
        "The least probable token is chosen: take the argmax.": partial(_greedy, best=torch.argmin),
    },
    result=_ids,
)

LENGTH_PENALTY = Exercise(
    "length_penalty",
    lengths.length_penalty,
    lambda: [(1, 0.6), (7, 0.6), (20, 1.0), (13, 0.0)],
    {
        "This is |Y|^α. Wu et al. soften it for short sentences: ((5 + |Y|) / 6)^α.": lambda n, alpha: n**alpha,
        "The exponent is negative. Scores are *divided* by the penalty, so it grows with the length.": (
            lambda n, alpha: ((5 + n) / 6) ** -alpha
        ),
        "α is outside of the parentheses: the whole quotient is raised to it, ((5 + |Y|) / 6)^α.": (
            lambda n, alpha: (5 + n) ** alpha / 6
        ),
        "A pair of parentheses is missing: (5 + |Y|) / 6, not 5 + |Y| / 6.": lambda n, alpha: (5 + n / 6) ** alpha,
        "α is a factor here, and should be the exponent.": lambda n, alpha: alpha * (5 + n) / 6,
        "α is not used: raise the quotient to the power of α.": lambda n, alpha: (5 + n) / 6,
        "5 and 6 are exchanged: ((5 + |Y|) / 6)^α, which is 1 for a length of 1.": lambda n, alpha: (
            ((6 + n) / 5) ** alpha
        ),
        "The division by 6 is missing: ((5 + |Y|) / 6)^α, which is 1 for a length of 1.": lambda n, alpha: (
            (5 + n) ** alpha
        ),
    },
)


def _beam_search(next_log_probs: Function, beam: int, limit: int, alpha: float, fault: str = "") -> list[int]:
    """A plain beam search to the limit: the best continuations of all hypotheses are finished or kept."""

    def score(log_prob: float, length: int) -> float:
        if fault == "no penalty":
            return log_prob
        if fault == "mean":
            return log_prob / length
        penalty = lengths.length_penalty(length - (fault == "end not counted"), alpha)
        return log_prob * penalty if fault == "multiplied" else log_prob / penalty

    def continuations(log_prob: float, tokens: list[int], row: list[float]) -> list[tuple[float, list[int]]]:
        allowed = [EOS] if len(tokens) == limit + 1 else sorted(range(len(row)), key=lambda token: -row[token])
        if fault == "own best":
            allowed = allowed[: beam if len(tokens) == 1 else 1]
        before = 0.0 if fault == "forgotten" else log_prob
        return [(before + (math.exp(row[i]) if fault == "added" else row[i]), [*tokens, i]) for i in allowed]

    hypotheses: list[tuple[float, list[int]]] = [(0.0, [EOS if fault == "start" else BOS])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(1, limit + 2):
        rows = next_log_probs(torch.tensor([ids[-1:] if fault == "last" else ids for _, ids in hypotheses])).tolist()
        found = [new for (p, ids), row in zip(hypotheses, rows, strict=True) for new in continuations(p, ids, row)]
        found.sort(key=lambda new: -new[0])
        ended = [(score(p, length), ids[1:-1]) for p, ids in found[:beam] if ids[-1] == EOS]
        if fault == "first" and ended:
            return ended[0][1]
        finished = ended if fault == "dropped" else finished + ended
        hypotheses = [(p, ids) for p, ids in found[: 2 * beam] if ids[-1] != EOS][:beam]
        if not hypotheses:
            break
    return max(finished)[1]


BEAM_CASES = [  # seed of the model, how it likes to end, beam, limit, alpha
    (5898, -1.0, 3, 6, 0.6),
    (9659, -2.0, 3, 6, 1.0),
    (1537, 0.5, 2, 6, 1.0),
    (3853, 1.0, 3, 4, 0.6),
    (7246, 0.5, 3, 6, 1.0),
]


BEAM_SEARCH = Exercise(
    "beam_search",
    _search,
    lambda: [(LanguageModel(seed, end), beam, limit, alpha) for seed, end, beam, limit, alpha in BEAM_CASES],
    {
        "Finished hypotheses are compared by their log-probability alone, which falls with every token, so short "
        "ones win. Divide it by length_penalty.": partial(_beam_search, fault="no penalty"),
        "Scores are divided by the length, and should be divided by length_penalty(length, alpha).": partial(
            _beam_search, fault="mean"
        ),
        "Log-probabilities are multiplied by the length penalty, and should be divided by it.": partial(
            _beam_search, fault="multiplied"
        ),
        "|Y| does not count </s>. Its probability is part of the score, so it counts.": partial(
            _beam_search, fault="end not counted"
        ),
        "Finished hypotheses are dropped. Keep them aside until the end, and return the best of them.": partial(
            _beam_search, fault="dropped"
        ),
        "The first hypothesis that ends is returned. An open one may still become better: keep it aside and go on.": (
            partial(_beam_search, fault="first")
        ),
        "This is greedy search: only one hypothesis is kept at each step. Keep the `beam` best.": (
            lambda next_log_probs, beam, limit, alpha: _beam_search(next_log_probs, 1, limit, alpha)
        ),
        "Each hypothesis is continued by its own best token only. All continuations of all hypotheses compete, so a "
        "good hypothesis may have several children.": partial(_beam_search, fault="own best"),
        "The score of the hypothesis so far is forgotten: add the new token's log-probability to it.": partial(
            _beam_search, fault="forgotten"
        ),
        "Probabilities are added up. Log-probabilities must be: their sum is the logarithm of the product.": partial(
            _beam_search, fault="added"
        ),
        "The model sees only the last tokens. Give it the whole prefixes, from <s> on: (N, T).": partial(
            _beam_search, fault="last"
        ),
        "The prefix starts with </s>, and should start with BOS, which is <s>.": partial(_beam_search, fault="start"),
        "The result contains </s>. Return only what comes before it.": lambda *args: [*_beam_search(*args), EOS],
        "The result contains <s>, which is given and not written.": lambda *args: [BOS, *_beam_search(*args)],
        "The result contains <s> and </s>. Return only the tokens between them.": lambda *args: [
            BOS,
            *_beam_search(*args),
            EOS,
        ],
        "One token too many: at most `limit` tokens, <s> and </s> not counted.": (
            lambda next_log_probs, beam, limit, alpha: _beam_search(next_log_probs, beam, limit + 1, alpha)
        ),
        "One token too few: `limit` tokens are allowed, and <s> and </s> are not counted.": (
            lambda next_log_probs, beam, limit, alpha: _beam_search(next_log_probs, beam, limit - 1, alpha)
        ),
    },
    uses=("length_penalty",),
    result=_ids,
)

EXERCISES: dict[str, Exercise] = {
    value.name: value for value in globals().copy().values() if isinstance(value, Exercise)
}
"""By name, in order."""
