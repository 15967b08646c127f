"""Matrix products prepared once: whatever lays the weights out, the result is that of the linear layers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.inference.incremental import Product

LEADING = [(), (1,), (0,), (3,), (4,), (257,), (2, 3), (1, 257), (2, 1, 4)]
SHAPES = [(5, [7]), (1, [1]), (16, [16, 16, 16]), (24, [8, 3]), (64, [300])]
"""Inputs, and the outputs of each layer: multiples of the processor's registers and not."""


def layers(inputs: int, outputs: list[int], bias: bool = True) -> list[nn.Linear]:
    torch.manual_seed(inputs + sum(outputs))
    return [nn.Linear(inputs, size, bias=bias) for size in outputs]


def joined(linear: list[nn.Linear], dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Weights and biases of the layers, one above the other."""
    bias = torch.cat([layer.bias for layer in linear]).to(dtype) if linear[0].bias is not None else None
    return torch.cat([layer.weight for layer in linear]).to(dtype), bias


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
@torch.no_grad()
def test_in_fp32_a_product_is_the_linear_layers_side_by_side(inputs: int, outputs: list[int], bias: bool) -> None:
    linear = layers(inputs, outputs, bias)
    product = Product(linear, torch.float32)
    for leading in LEADING:
        x = torch.randn(*leading, inputs)
        found = product(x)
        assert torch.equal(found, F.linear(x, *joined(linear, torch.float32)))
        torch.testing.assert_close(found, torch.cat([layer(x) for layer in linear], dim=-1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
@torch.no_grad()
def test_in_bf16_a_product_is_the_exact_one_rounded_once(inputs: int, outputs: list[int], bias: bool) -> None:
    linear = layers(inputs, outputs, bias)
    product = Product(linear, torch.bfloat16)
    weight, offset = joined(linear, torch.bfloat16)
    for leading in LEADING:
        x = torch.randn(*leading, inputs).bfloat16()
        found = product(x)
        exact = F.linear(x.double(), weight.double(), None if offset is None else offset.double())
        assert found.dtype == torch.bfloat16
        torch.testing.assert_close(found.double(), exact, rtol=2**-7, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activation", [F.relu, F.gelu, F.silu])
@torch.no_grad()
def test_the_activation_comes_after_the_product(dtype: torch.dtype, activation: Callable[[Tensor], Tensor]) -> None:
    linear = layers(16, [16, 8])
    plain, activated = Product(linear, dtype), Product(linear, dtype, activation)
    for leading in LEADING:
        x = torch.randn(*leading, 16).to(dtype)
        torch.testing.assert_close(activated(x), activation(plain(x)), rtol=2**-7, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_inputs_may_lie_in_memory_in_any_way(dtype: torch.dtype) -> None:
    product = Product(layers(16, [8]), dtype)
    x = torch.randn(6, 2, 32).to(dtype)
    for view in (x[:, :, ::2], x[:, :, 3:19], x[:, :1, :16].expand(6, 5, 16), x.view(2, 32, 6)[:, :16].mT):
        torch.testing.assert_close(product(view), product(view.contiguous()), rtol=2**-7, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_a_product_keeps_the_weights_it_was_made_of(dtype: torch.dtype) -> None:
    linear = layers(16, [4, 8])
    product, x = Product(linear, dtype), torch.randn(3, 16).to(dtype)
    before = product(x)
    for layer in linear:
        layer.weight.fill_(9.0)
        layer.bias.fill_(9.0)
    assert torch.equal(product(x), before)


def test_a_product_asks_for_no_gradient() -> None:
    x = torch.randn(2, 16)
    for bias in (True, False):
        assert not Product(layers(16, [4], bias), torch.float32)(x).requires_grad


def raising(error: type[Exception]) -> SimpleNamespace:
    def fail(*arguments: object) -> Tensor:
        raise error("no such operation here")

    return SimpleNamespace(_reorder_linear_weight=fail, _linear_pointwise=fail)


def half_there() -> SimpleNamespace:
    """Weights can be laid out, but nothing multiplies with them."""
    return SimpleNamespace(_reorder_linear_weight=lambda weight, rows: weight)


@pytest.mark.parametrize(
    "operations",
    [SimpleNamespace(), half_there(), raising(RuntimeError), raising(TypeError), raising(AttributeError)],
    ids=["missing", "half missing", "RuntimeError", "TypeError", "AttributeError"],
)
@torch.no_grad()
def test_without_the_operations_of_pytorchs_compiler_bf16_is_multiplied_as_ever(
    operations: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    linear, x = layers(16, [8, 8]), torch.randn(2, 3, 16).bfloat16()
    laid_out = Product(linear, torch.bfloat16)(x)
    monkeypatch.setattr(torch.ops, "mkldnn", operations)
    found = Product(linear, torch.bfloat16)(x)
    assert torch.equal(found, F.linear(x, *joined(linear, torch.bfloat16)))
    torch.testing.assert_close(found, laid_out, rtol=2**-7, atol=1e-5)


@torch.no_grad()
def test_in_fp32_no_private_operation_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.ops, "mkldnn", raising(ZeroDivisionError))
    assert Product(layers(16, [4]), torch.float32)(torch.randn(2, 16)).shape == (2, 4)
