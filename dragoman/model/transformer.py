"""The Transformer (figure 1): embeddings, encoder, decoder and softmax weights.

Shapes: B batch, S source length, T target length, D d_model, V target vocabulary.
"""

from torch import Tensor, nn

from dragoman.config import PAD, ModelConfig
from dragoman.model.attention import AttentionMaps
from dragoman.model.embedding import PositionalEncoding, ScaledEmbedding
from dragoman.model.layers import Decoder, Encoder, LayerCache
from dragoman.model.masks import causal_mask, padding_mask


class Transformer(nn.Module):
    """The model of "Attention Is All You Need": (source, target so far) -> logits of each next token.

    Sources end with `</s>`; targets start with `<s>`; both are padded on the right with PAD.
    """

    def __init__(self, config: ModelConfig) -> None:
        """Create the parts and initialise them: Glorot-uniform matrices, zero biases (as in Tensor2Tensor)."""
        super().__init__()
        self.config = config
        width, gain = config.d_model, config.embedding_gain
        self.source_embedding = ScaledEmbedding(config.source_vocab_size, width, gain)
        self.target_embedding = (
            self.source_embedding if config.share_embeddings else ScaledEmbedding(config.target_vocab_size, width, gain)
        )
        self.source_positions = PositionalEncoding(config.d_model, config.max_length, config.dropout, config.positions)
        self.target_positions = PositionalEncoding(config.d_model, config.max_length, config.dropout, config.positions)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.softmax = nn.Linear(config.d_model, config.target_vocab_size, bias=config.softmax_bias)
        self._initialise()
        if config.tie_softmax:
            self.softmax.weight = self.target_embedding.weight

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight, gain=self.config.init_gain)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    @property
    def num_parameters(self) -> int:
        """Number of learned values, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def encode(self, source: Tensor, source_mask: Tensor | None, maps: AttentionMaps | None = None) -> Tensor:
        """Encode source ids (B, S) with a mask (B, 1, 1, S), or None if nothing is padded; returns memory (B, S, D)."""
        return self.encoder(self.source_positions(self.source_embedding(source)), source_mask, maps)  # type: ignore[no-any-return]

    def start_cache(self, memory: Tensor) -> list[LayerCache]:
        """A cache for incremental decoding from memory (B, S, D)."""
        return self.decoder.start_cache(memory)

    def decode(
        self, target: Tensor, memory: Tensor, source_mask: Tensor | None, cache: list[LayerCache] | None = None
    ) -> Tensor:
        """Logits (B, T, V) of the token that follows each target position; for training and cached decoding.

        Args:
            target: ids (B, T).
            memory: what encode returned, (B, S, D).
            source_mask: as for encode.
            cache: from start_cache; target then contains only the positions that are not in it yet.
        """
        return self.softmax(self._decode_states(target, memory, source_mask, cache, None))  # type: ignore[no-any-return]

    def forward(self, source: Tensor, target_input: Tensor, maps: AttentionMaps | None = None) -> Tensor:
        """Teacher forcing: the logits (B, T, V) after every prefix of the target, in one pass.

        Args:
            source: ids (B, S), padded with PAD.
            target_input: ids (B, T), starting with BOS, padded with PAD. The padding needs no mask: it lies to
                the right of every real position, where the causal mask already hides it.
            maps: a dict to fill with every attention block's weights (B, H, T, S), by name.
        """
        return self.softmax(self.states(source, target_input, maps))  # type: ignore[no-any-return]

    def states(self, source: Tensor, target_input: Tensor, maps: AttentionMaps | None = None) -> Tensor:
        """The decoder's output (B, T, D), which forward projects onto the vocabulary; arguments as for forward."""
        source_mask = padding_mask(source, PAD)
        memory = self.encode(source, source_mask, maps)
        return self._decode_states(target_input, memory, source_mask, None, maps)

    def _decode_states(
        self,
        target: Tensor,
        memory: Tensor,
        source_mask: Tensor | None,
        cache: list[LayerCache] | None,
        maps: AttentionMaps | None,
    ) -> Tensor:
        cache = self.start_cache(memory) if cache is None else cache
        offset, length = cache[0].past.length, target.size(1)
        # A single new position may attend to the whole past.
        target_mask = causal_mask(length, offset, target.device) if length > 1 else None
        x = self.target_positions(self.target_embedding(target), offset)  # (B, T, D)
        return self.decoder(x, cache, target_mask, source_mask, maps)  # type: ignore[no-any-return]
