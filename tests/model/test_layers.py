"""Layers: residual sums and LayerNorm, the feed-forward network, who attends to what, where dropout falls."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model import attention as attention_module
from dragoman.model import dropout as dropout_module
from dragoman.model.layers import Decoder, DecoderLayer, Encoder, EncoderLayer, SublayerConnection
from dragoman.model.masks import causal_mask

B, S, T, D = 2, 5, 3, 8
Norm = Literal["post", "pre"]
NORMS: list[Norm] = ["post", "pre"]
TINY = ModelConfig(
    d_model=D, d_ff=20, num_heads=2, num_encoder_layers=2, num_decoder_layers=2, dropout=0.0, layer_norm_eps=0.1
)  # an epsilon so large that its place matters


def config(**changes: Any) -> ModelConfig:
    return dataclasses.replace(TINY, **changes)


def randomised(module: Any) -> Any:
    """The module in float64, every parameter drawn anew: LayerNorms and biases would start where they do nothing."""
    torch.manual_seed(4)
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.7)
    return module


def rand(*shape: int, seed: int = 5) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-11)


def layer_norm_by_hand(x: Tensor, norm: nn.LayerNorm, eps: float) -> Tensor:
    """Ba et al. (2016): the biased variance, epsilon under the root (not std + epsilon, as some notes have)."""
    values = x.detach().numpy()
    mean = values.mean(-1, keepdims=True)
    variance = ((values - mean) ** 2).mean(-1, keepdims=True)
    gain, bias = norm.weight.detach().numpy(), norm.bias.detach().numpy()
    return torch.from_numpy(gain * (values - mean) / np.sqrt(variance + eps) + bias)


# ---------------------------------------------------------------------------------------------- residual + norm


def test_post_norm_is_the_layer_norm_of_the_residual_sum() -> None:
    connection, x = randomised(SublayerConnection(config(norm="post"))), rand(B, T, D)
    expected = layer_norm_by_hand(x + x.sin(), connection.layer_norm, eps=0.1)
    assert_close(connection(x, torch.sin), expected)


def test_pre_norm_is_a_bare_residual_around_the_normalised_sub_layer() -> None:
    connection, x = randomised(SublayerConnection(config(norm="pre"))), rand(B, T, D)
    expected = x + layer_norm_by_hand(x, connection.layer_norm, eps=0.1).sin()
    assert_close(connection(x, torch.sin), expected)


def test_the_residual_itself_is_never_dropped() -> None:
    x = rand(B, T, D)
    pre = randomised(SublayerConnection(config(norm="pre", dropout=0.5))).train()
    post = randomised(SublayerConnection(config(norm="post", dropout=0.5))).train()
    assert torch.equal(pre(x, torch.zeros_like), x)
    assert_close(post(x, torch.zeros_like), layer_norm_by_hand(x, post.layer_norm, eps=0.1))


def test_dropout_falls_on_the_output_of_the_sub_layer_before_the_sum() -> None:
    connection, x = randomised(SublayerConnection(config(norm="pre", dropout=0.75))).train(), rand(50, 40, D)
    added = connection(x, torch.ones_like) - x
    dropped = added.abs() < 1e-9
    assert_close(added[~dropped], torch.full_like(added[~dropped], 4.0))
    assert 0.73 < dropped.double().mean() < 0.77


# ---------------------------------------------------------------------------------------------- layers


def silence_self_attention(layer: DecoderLayer) -> None:
    """Make self-attention add nothing, whatever its queries, keys and values are."""
    with torch.no_grad():
        layer.self_attention.output.weight.zero_()
        layer.self_attention.output.bias.zero_()


def test_cross_attention_does_not_go_through_the_self_attention_block() -> None:
    # Some notes call the self-attention module for both. With that block silenced, the memory must still be heard, and
    # the block's other weights must have no say.
    layer, x, memory = randomised(DecoderLayer(TINY, "decoder.0")), rand(B, T, D), rand(B, S, D, seed=6)
    silence_self_attention(layer)

    def output(memory: Tensor) -> Tensor:
        return layer(x, layer.start_cache(memory), causal_mask(T), None)

    before = output(memory)
    before.square().sum().backward()
    for name, parameter in layer.cross_attention.named_parameters():
        if name != "key.bias":  # adds the same to all scores of a query
            assert parameter.grad.abs().max() > 1e-6, name
    for projection in (layer.self_attention.query, layer.self_attention.key, layer.self_attention.value):
        assert projection.weight.grad.abs().max() == 0
    assert not torch.allclose(output(memory + rand(B, S, D, seed=7)), before)
    with torch.no_grad():
        layer.self_attention.value.weight.normal_()
    assert torch.equal(output(memory), before)
    with torch.no_grad():
        layer.cross_attention.value.weight.normal_()
    assert not torch.allclose(output(memory), before)


# ---------------------------------------------------------------------------------------------- stacks


@pytest.mark.parametrize("norm", NORMS)
def test_stacks_apply_their_layers_in_order_and_only_pre_norm_ends_with_a_norm(norm: Norm) -> None:
    settings = config(norm=norm)
    encoder, decoder = randomised(Encoder(settings)), randomised(Decoder(settings))
    x, memory = rand(B, T, D), rand(B, S, D, seed=6)
    encoded, decoded = memory, x
    for layer in encoder.layers:
        encoded = layer(encoded, None)
    for layer in decoder.layers:
        decoded = layer(decoded, layer.start_cache(memory), causal_mask(T), None)
    if norm == "pre":
        encoded = layer_norm_by_hand(encoded, encoder.final_norm, eps=0.1)
        decoded = layer_norm_by_hand(decoded, decoder.final_norm, eps=0.1)
    assert_close(encoder(memory, None), encoded)
    assert_close(decoder(x, decoder.start_cache(memory), causal_mask(T), None), decoded)


# ---------------------------------------------------------------------------------------------- dropout


def dropped_shapes(monkeypatch: pytest.MonkeyPatch, run: Callable[[], object]) -> list[tuple[float, tuple[int, ...]]]:
    """The probability and the shape of everything that dropout falls on while running."""
    seen: list[tuple[float, tuple[int, ...]]] = []

    def spy(x: Tensor, probability: float) -> Tensor:
        if probability > 0:
            seen.append((probability, tuple(x.shape)))
        return x

    monkeypatch.setattr(dropout_module, "dropout", spy)
    monkeypatch.setattr(attention_module, "drop", spy)
    run()
    return seen


def test_by_default_dropout_falls_on_the_outputs_of_the_sub_layers_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = config(dropout=0.3)
    encoder, decoder = EncoderLayer(settings, "encoder.0").double(), DecoderLayer(settings, "decoder.0").double()
    memory, x = rand(B, S, D), rand(B, T, D)
    assert dropped_shapes(monkeypatch, lambda: encoder(memory, None)) == [(0.3, (B, S, D))] * 2
    seen = dropped_shapes(monkeypatch, lambda: decoder(x, decoder.start_cache(memory), causal_mask(T), None))
    assert seen == [(0.3, (B, T, D))] * 3


def test_dropout_on_attention_weights_and_inside_the_feed_forward_network_are_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = config(attention_dropout=0.2, activation_dropout=0.4)
    encoder, decoder = EncoderLayer(settings, "encoder.0").double(), DecoderLayer(settings, "decoder.0").double()
    memory, x = rand(B, S, D), rand(B, T, D)
    assert dropped_shapes(monkeypatch, lambda: encoder(memory, None)) == [(0.2, (B, 2, S, S)), (0.4, (B, S, 20))]
    seen = dropped_shapes(monkeypatch, lambda: decoder(x, decoder.start_cache(memory), causal_mask(T), None))
    assert seen == [(0.2, (B, 2, T, T)), (0.2, (B, 2, T, S)), (0.4, (B, T, 20))]
