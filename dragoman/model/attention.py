"""Attention (section 3.2): the formula, its heads, and the cache of the positions decoded so far.

Shapes: B batch, T query length, S key length, D d_model, H heads, K d_k.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.dropout import dropout as drop

AttentionMaps = dict[str, Tensor]
"""Attention weights (B, H, T, S) by name: "encoder.0.self_attention", "decoder.0.cross_attention", …"""


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V (equation 1).

    Args:
        query: (B, H, T, K).
        key: (B, H, S, K).
        value: (B, H, S, K).
        mask: bool, broadcastable to (B, H, T, S), True = may attend. Every query must have something to attend to.
        dropout: probability of dropping a weight.
        need_weights: also return the weights.

    Returns:
        The output (B, H, T, K), and the weights (B, H, T, S) before dropout, or None.
    """
    # The fused kernel unless it is slower: on CPUs its gradient in bf16 takes five times as long as this formula's.
    if not need_weights and (query.is_cuda or query.dtype == torch.float32 or not torch.is_grad_enabled()):
        return F.scaled_dot_product_attention(query, key, value, mask, dropout), None
    scores = (query / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)  # (B, H, T, S)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    output = drop(weights, dropout) @ value  # (B, H, T, K)
    return output, weights if need_weights else None


class KeyValueCache:
    """The keys and values of the positions decoded so far, (B, H, length, K) each; None before the first."""

    def __init__(self, keys: Tensor | None = None, values: Tensor | None = None) -> None:
        self.keys, self.values = keys, values

    @property
    def length(self) -> int:
        """Number of positions."""
        return 0 if self.keys is None else self.keys.size(2)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add T positions, key and value (B, H, T, K); return all so far."""
        if self.keys is not None and self.values is not None:
            key, value = torch.cat((self.keys, key), dim=2), torch.cat((self.values, value), dim=2)
        self.keys, self.values = key, value
        return key, value

    def select(self, rows: Tensor) -> None:
        """Keep these rows (B'), in this order and perhaps repeated."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys.index_select(0, rows), self.values.index_select(0, rows)


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O (section 3.2.2)."""

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.0, name: str = "attention") -> None:
        """Create the four projections; name is the block's among the attention maps, dropout is on the weights."""
        super().__init__()
        self.name = name
        self.num_heads = num_heads
        self.dropout = dropout
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        """Attend from every query to the keys and values; returns (B, T, D).

        Args:
            query: (B, T, D).
            key: (B, S, D).
            value: (B, S, D).
            mask: bool, broadcastable to (B, H, T, S), True = may attend; S includes the cached positions.
            cache: earlier keys and values, which are attended to as well; the new ones are added.
            maps: where to put this block's weights under its name.
        """
        queries, keys, values = self._project((self.query, query), (self.key, key), (self.value, value))
        if cache is not None:
            keys, values = cache.append(keys, values)
        return self._attend(queries, keys, values, mask, maps)

    def project(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The heads' keys and values: (B, S, D) each -> (B, H, S, K) each."""
        keys, values = self._project((self.key, key), (self.value, value))
        return keys, values

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        """Attend from query (B, T, D) to projected keys and values (B, H, S, K); returns (B, T, D)."""
        return self._attend(self._split(self.query(query)), keys, values, mask, maps)

    def _project(self, *projections: tuple[nn.Linear, Tensor]) -> list[Tensor]:
        """Project states (B, S, D) to the heads, (B, H, S, K), by each layer.

        In training, states that all layers share are multiplied by all weights at once, which is faster.
        """
        layers, states = zip(*projections, strict=True)
        if self.training and all(x is states[0] for x in states):
            weight, bias = torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])
            projected = F.linear(states[0], weight, bias).chunk(len(layers), dim=-1)
        else:
            projected = tuple(layer(x) for layer, x in projections)
        return [self._split(x) for x in projected]

    def _split(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], self.num_heads, -1).transpose(1, 2)  # (B, S, D) -> (B, H, S, K)

    def _attend(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, maps: AttentionMaps | None
    ) -> Tensor:
        heads, weights = scaled_dot_product_attention(
            queries, keys, values, mask, self.dropout if self.training else 0.0, need_weights=maps is not None
        )
        if maps is not None and weights is not None:
            maps[self.name] = weights
        return self.output(heads.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]  # (B, T, D)
