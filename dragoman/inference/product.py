"""Matrix products with weights that stay as they are: prepared once, for inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_TYPICAL_ROWS = 256  # what the layout is chosen for; any number works


class Product:
    """x Wᵀ + b of one linear layer, or of several that read the same x, side by side; then an activation, if any.

    oneDNN multiplies bf16 in tiles and would lay the weights out for them at every call: for few rows that takes longer
    than the product itself. So they are laid out once, with the operations that torch.compile uses for its own output.
    """

    def __init__(
        self, layers: Sequence[nn.Linear], dtype: torch.dtype, activation: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        """Copy the layers' weights in this precision; all have a bias, or none."""
        self._weight = torch.cat([layer.weight.detach() for layer in layers]).to(dtype)
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        self._bias = torch.cat(biases).to(dtype) if biases else None
        self._tiles = _laid_out(self._weight)
        self._fused = "relu" if activation is F.relu else "none"  # done by the product itself, on its way out
        self._activation = activation

    def __call__(self, x: Tensor) -> Tensor:
        """x (…, inputs), in the precision of the weights -> (…, outputs)."""
        if self._tiles is None:
            y = F.linear(x, self._weight, self._bias)
        else:
            y = torch.ops.mkldnn._linear_pointwise(x, self._tiles, self._bias, self._fused, [], "")
            if self._fused != "none":
                return y  # type: ignore[no-any-return]
        return y if self._activation is None else self._activation(y)


def _laid_out(weight: Tensor) -> Tensor | None:
    """The weights in oneDNN's own order; None where that is of no use or not to be had."""
    if weight.device.type != "cpu" or weight.dtype != torch.bfloat16:
        return None
    try:
        tiles = torch.ops.mkldnn._reorder_linear_weight(weight, _TYPICAL_ROWS)
        torch.ops.mkldnn._linear_pointwise(weight[:1], tiles, None, "none", [], "")
    except (AttributeError, RuntimeError, TypeError):  # no oneDNN here, or operations that PyTorch did not keep
        return None
    return tiles  # type: ignore[no-any-return]
