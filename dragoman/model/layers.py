"""The layers of the encoder and the decoder and their stacks (figure 1; sections 3.1 and 3.3).

Shapes: B batch, S source length, T target length, D d_model, H heads, K d_k.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.model.attention import AttentionMaps, KeyValueCache, MultiHeadAttention
from dragoman.model.dropout import Dropout

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "swish": nn.functional.silu,
}


class PositionwiseFeedForward(nn.Module):
    """FFN(x) = max(0, x W1 + b1) W2 + b2 (equation 2), or with another activation."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.inner = nn.Linear(config.d_model, config.d_ff)
        self.outer = nn.Linear(config.d_ff, config.d_model)
        self.dropout = Dropout(config.activation_dropout)
        self.activation = ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        """Apply the same two projections at every position of x (B, T, D)."""
        return self.outer(self.dropout(self.activation(self.inner(x))))  # type: ignore[no-any-return]


class SublayerConnection(nn.Module):
    """Residual sum, dropout and LayerNorm around one sub-layer: LayerNorm(x + Dropout(Sublayer(x))).

    This is the paper's post-norm (sections 3.1 and 5.4). Pre-norm is x + Dropout(Sublayer(LayerNorm(x))).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)
        self.pre_norm = config.norm == "pre"

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply the sub-layer to x (B, T, D)."""
        if self.pre_norm:
            return x + self.dropout(sublayer(self.layer_norm(x)))  # type: ignore[no-any-return]
        return self.layer_norm(x + self.dropout(sublayer(x)))  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network (section 3.1, "Encoder")."""

    def __init__(self, config: ModelConfig, name: str) -> None:
        """Create the two sub-layers; name is the prefix of the attention map."""
        super().__init__()
        self.self_attention = MultiHeadAttention(
            config.d_model, config.num_heads, config.attention_dropout, f"{name}.self_attention"
        )
        self.feed_forward = PositionwiseFeedForward(config)
        self.self_attention_connection = SublayerConnection(config)
        self.feed_forward_connection = SublayerConnection(config)

    def forward(self, x: Tensor, source_mask: Tensor | None, maps: AttentionMaps | None = None) -> Tensor:
        """One layer: x (B, S, D), source_mask (B, 1, 1, S) -> (B, S, D)."""
        x = self.self_attention_connection(x, lambda y: self.self_attention(y, y, y, source_mask, maps=maps))
        return self.feed_forward_connection(x, self.feed_forward)  # type: ignore[no-any-return]


@dataclass
class LayerCache:
    """What a decoder layer keeps while it decodes: the memory's keys and values, and its own past."""

    memory_keys: Tensor  # (B, H, S, K), as the values
    memory_values: Tensor
    past: KeyValueCache = field(default_factory=KeyValueCache)


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention to the memory, feed-forward network (section 3.1, "Decoder")."""

    def __init__(self, config: ModelConfig, name: str) -> None:
        """Create the three sub-layers; name is the prefix of the attention maps."""
        super().__init__()
        self.self_attention = MultiHeadAttention(
            config.d_model, config.num_heads, config.attention_dropout, f"{name}.self_attention"
        )
        self.cross_attention = MultiHeadAttention(
            config.d_model, config.num_heads, config.attention_dropout, f"{name}.cross_attention"
        )
        self.feed_forward = PositionwiseFeedForward(config)
        self.self_attention_connection = SublayerConnection(config)
        self.cross_attention_connection = SublayerConnection(config)
        self.feed_forward_connection = SublayerConnection(config)

    def start_cache(self, memory: Tensor) -> LayerCache:
        """Project the memory (B, S, D) to keys and values, once for the whole decoding."""
        return LayerCache(*self.cross_attention.project(memory, memory))

    def forward(
        self,
        x: Tensor,
        cache: LayerCache,
        target_mask: Tensor | None,
        source_mask: Tensor | None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        """One layer: x (B, T, D) at the positions after the cached ones -> (B, T, D)."""
        x = self.self_attention_connection(
            x, lambda y: self.self_attention(y, y, y, target_mask, cache=cache.past, maps=maps)
        )
        x = self.cross_attention_connection(
            x, lambda y: self.cross_attention.attend(y, cache.memory_keys, cache.memory_values, source_mask, maps)
        )
        return self.feed_forward_connection(x, self.feed_forward)  # type: ignore[no-any-return]


def _final_norm(config: ModelConfig) -> nn.Module:
    # Post-norm layers end with a norm; a pre-norm stack leaves a sum of residuals that is not normalised.
    return nn.LayerNorm(config.d_model, eps=config.layer_norm_eps) if config.norm == "pre" else nn.Identity()


class Encoder(nn.Module):
    """A stack of N encoder layers (section 3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config, f"encoder.{i}") for i in range(config.num_encoder_layers))
        self.final_norm = _final_norm(config)

    def forward(self, x: Tensor, source_mask: Tensor | None, maps: AttentionMaps | None = None) -> Tensor:
        """x (B, S, D) -> memory (B, S, D)."""
        for layer in self.layers:
            x = layer(x, source_mask, maps)
        return self.final_norm(x)  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """A stack of N decoder layers (section 3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config, f"decoder.{i}") for i in range(config.num_decoder_layers))
        self.final_norm = _final_norm(config)

    def start_cache(self, memory: Tensor) -> list[LayerCache]:
        """The caches of all layers, for decoding from memory (B, S, D)."""
        return [layer.start_cache(memory) for layer in self.layers]  # type: ignore[operator]

    def forward(
        self,
        x: Tensor,
        cache: list[LayerCache],
        target_mask: Tensor | None,
        source_mask: Tensor | None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        """x (B, T, D) -> (B, T, D) at the positions after the cached ones."""
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            x = layer(x, layer_cache, target_mask, source_mask, maps)
        return self.final_norm(x)  # type: ignore[no-any-return]
