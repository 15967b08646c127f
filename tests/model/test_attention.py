"""The attention formula, its heads and the cache of keys and values."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.attention import AttentionMaps, MultiHeadAttention, scaled_dot_product_attention
from dragoman.model.masks import causal_mask, padding_mask

B, H, T, S, K = 2, 3, 4, 6, 5  # all different, so that no wrong transpose can pass for the right one


def qkv(seed: int = 0, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    shapes = (B, H, T, K), (B, H, S, K), (B, H, S, K)
    query, key, value = (torch.randn(shape, generator=g, dtype=torch.float64) * scale for shape in shapes)
    return query, key, value


def some_mask() -> Tensor:
    """Hides cells without pattern, though from no query all of them."""
    mask = torch.rand(B, H, T, S, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[..., 2] = True
    return mask


def attention_by_hand(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Equation 1, one query at a time, in NumPy."""
    q, k, v, allowed = (x.numpy() for x in (query, key, value, mask.expand(B, H, T, S)))
    weights = np.zeros((B, H, T, S))
    output = np.zeros((B, H, T, K))
    for b, h, t in np.ndindex(B, H, T):
        for s in range(S):
            if allowed[b, h, t, s]:
                weights[b, h, t, s] = np.exp(np.dot(q[b, h, t], k[b, h, s]) / np.sqrt(K))
        weights[b, h, t] /= weights[b, h, t].sum()
        output[b, h, t] = sum(weights[b, h, t, s] * v[b, h, s] for s in range(S))
    return output, weights


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def heads_and_inputs(d_model: int = 12, num_heads: int = 3) -> tuple[MultiHeadAttention, Tensor, Tensor, Tensor]:
    torch.manual_seed(2)
    attention = MultiHeadAttention(d_model, num_heads).double()
    query, key, value = (torch.randn(B, n, d_model, dtype=torch.float64) for n in (T, S, S))
    return attention, query, key, value


# ---------------------------------------------------------------------------------------------- the formula


@pytest.mark.parametrize("masked", [False, True])
def test_output_and_weights_are_equation_1_computed_by_hand(masked: bool) -> None:
    query, key, value = qkv()
    mask = some_mask() if masked else None
    output, weights = scaled_dot_product_attention(query, key, value, mask, need_weights=True)
    by_hand = attention_by_hand(query, key, value, torch.ones(1, dtype=torch.bool) if mask is None else mask)
    assert weights is not None
    np.testing.assert_allclose(output.numpy(), by_hand[0], rtol=1e-12)
    np.testing.assert_allclose(weights.numpy(), by_hand[1], rtol=1e-12)


def test_weights_of_each_query_sum_to_one_and_masked_cells_are_exactly_zero() -> None:
    mask = some_mask()
    _, weights = scaled_dot_product_attention(*qkv(scale=3.0), mask, need_weights=True)
    assert weights is not None
    assert_close(weights.sum(-1), torch.ones(B, H, T, dtype=torch.float64))
    assert (weights[~mask] == 0).all()
    assert (weights[mask] > 0).all()


MASKS = {
    "none": None,
    "cells": some_mask(),
    "padding": padding_mask(torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]]), 0),
    "future": causal_mask(T, offset=S - T),
    "both": padding_mask(torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0]]), 0) & causal_mask(T, offset=S - T),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)]
)
def test_the_fused_kernel_of_pytorch_agrees(mask: Tensor | None, dtype: torch.dtype, tolerance: float) -> None:
    query, key, value = (x.to(dtype) for x in qkv())
    by_formula, _ = scaled_dot_product_attention(query, key, value, mask, need_weights=True)
    assert_close(by_formula, F.scaled_dot_product_attention(query, key, value, mask), tolerance)
    for needs_gradient in (True, False):
        with torch.set_grad_enabled(needs_gradient):
            output, none = scaled_dot_product_attention(query, key, value, mask)
        assert none is None
        assert_close(output, by_formula, tolerance)


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_gradients_do_not_depend_on_whether_the_weights_are_asked_for(mask: Tensor | None) -> None:
    gradients = []
    for need_weights in (True, False):
        query, key, value = (x.float().requires_grad_() for x in qkv())
        output, _ = scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights)
        (output * torch.arange(K)).square().sum().backward()
        gradients.append([query.grad, key.grad, value.grad])
    for ours, theirs in zip(*gradients, strict=True):
        assert ours is not None
        assert theirs is not None
        assert_close(ours, theirs, 1e-4)


def test_the_fused_kernel_computes_where_neither_weights_nor_gradients_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dropouts = []

    def spy(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
        dropouts.append(dropout)
        return query

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    for dtype in (torch.float32, torch.bfloat16):
        query, key, value = (x.to(dtype) for x in qkv())
        for without_gradient in (torch.no_grad, torch.inference_mode):
            with without_gradient():
                scaled_dot_product_attention(query, key, value, some_mask(), 0.3, need_weights=True)
                assert dropouts == []
                scaled_dot_product_attention(query, key, value, some_mask(), 0.3)
            assert dropouts == [0.3]
            dropouts.clear()
    scaled_dot_product_attention(query, key, value, some_mask(), 0.3)  # in bf16 with a gradient the formula is faster
    assert dropouts == []


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_query_that_may_attend_to_nothing_spreads_its_weights_and_has_finite_gradients(dtype: torch.dtype) -> None:
    query, key, value = (x.to(dtype).requires_grad_() for x in qkv())
    mask = some_mask()
    mask[0, :, 1] = False
    output, weights = scaled_dot_product_attention(query, key, value, mask, need_weights=True)
    assert weights is not None
    torch.testing.assert_close(weights[0, :, 1], torch.full((H, S), 1 / S, dtype=dtype))
    output.float().square().sum().backward()
    assert output.isfinite().all()
    for x in (query, key, value):
        assert x.grad is not None
        assert x.grad.isfinite().all()


def test_dropout_falls_on_the_weights_but_not_on_those_that_are_returned() -> None:
    torch.manual_seed(0)
    query, key, _ = qkv()
    value = torch.eye(S, dtype=torch.float64).expand(B, H, S, S)  # makes the output the weights themselves
    output, weights = scaled_dot_product_attention(query, key, value, dropout=0.5, need_weights=True)
    assert weights is not None
    assert_close(weights, scaled_dot_product_attention(query, key, value, need_weights=True)[1])  # type: ignore[arg-type]
    kept = output != 0
    assert 0.2 < kept.double().mean() < 0.8
    assert_close(output[kept], 2 * weights[kept])


# ---------------------------------------------------------------------------------------------- the heads


@pytest.mark.parametrize("num_heads", [1, 3, 12])
@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_attention_equals_pytorchs_with_the_same_weights(num_heads: int, masked: bool) -> None:
    ours, query, key, value = heads_and_inputs(12, num_heads)
    theirs = nn.MultiheadAttention(12, num_heads, batch_first=True).double()
    with torch.no_grad():
        for projection in (ours.query, ours.key, ours.value, ours.output):
            projection.bias.normal_()
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    may_attend = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]]).bool() if masked else None
    maps: AttentionMaps = {}
    output = ours(query, key, value, None if may_attend is None else may_attend[:, None, None], maps=maps)
    expected, weights = theirs(
        query, key, value, key_padding_mask=None if may_attend is None else ~may_attend, average_attn_weights=False
    )
    assert_close(output, expected)
    assert_close(maps["attention"], weights)


def test_queries_keys_and_values_each_have_a_projection_of_their_own() -> None:
    attention, query, key, value = heads_and_inputs()
    attention(query, key, value).square().sum().backward()
    for projection in (attention.query, attention.key, attention.value, attention.output):
        assert projection.weight.grad is not None
        assert projection.weight.grad.abs().max() > 1e-6
