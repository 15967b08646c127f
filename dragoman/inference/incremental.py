"""Incremental decoding: the decoder, one position at a time, for a whole beam. A search spends its time here.

It computes what Transformer.decode computes with a cache, in fewer and larger operations:

- One product makes self-attention's queries, keys and values; all weights are converted to the precision once.
- The W hypotheses of a sentence share one store of keys and values. Reordering the beam copies only the mask that says
  whose keys each hypothesis descends from.
- Finished sentences stay in the tensors until there are enough of them, so that tensors of few sizes occur: the
  processor's kernels are compiled for each size.
- Keys come in multiples of 16, the last ones masked: a kernel works on 16 numbers at once.

Shapes: B sentences, W beam width, N = B * W hypotheses (those of a sentence side by side), S source length, L slots of
keys (both multiples of 16), D d_model, H heads, K d_k, V vocabulary.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.model.layers import DecoderLayer
from dragoman.model.masks import own_position_mask
from dragoman.model.transformer import Transformer

_LANES = 16  # numbers that a kernel works on at once
_FIRST_SLOTS = 64


class Product:
    """x Wᵀ + b of one linear layer, or of several that read the same x, side by side; then an activation, if any."""

    def __init__(
        self, layers: Sequence[nn.Linear], dtype: torch.dtype, activation: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        """Copy the layers' weights in this precision; either all layers have a bias or none has."""
        self._weight = torch.cat([layer.weight.detach() for layer in layers]).to(dtype)
        biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
        self._bias = torch.cat(biases).to(dtype) if biases else None
        self._activation = activation

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply x (…, inputs), in the precision of the weights; returns (…, outputs)."""
        y = F.linear(x, self._weight, self._bias)
        return y if self._activation is None else self._activation(y)


class IncrementalState:
    """What a search remembers of its sentences and hypotheses. Masks are additive, 0 or -inf, as the fused kernel's."""

    def __init__(self, memory: Sequence[Tensor], source_mask: Tensor) -> None:
        """Start with one empty hypothesis for each sentence, and each layer's keys and values (2, B, H, S, K)."""
        self.length = 0  # tokens decoded so far
        self.memory = list(memory)
        self.source_mask = _additive(source_mask, memory[0].dtype)
        # Each layer's keys and values of all that was decoded, (2, B, H, at least L, K), then zeros.
        self.past = [layer[:, :, :, :0] for layer in memory]
        # Mask of the slots that hold a hypothesis' own past, (B, 1, W, L).
        self.descent = self.source_mask.new_empty(len(source_mask), 1, 1, 0)
        self.places: Tensor | None = None  # the sentences in the tensors still searched, int (B',); None if all are
        self._filled = 0  # slots that hold something
        self._own: Tensor | None = None

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        """Keep these hypotheses (N',) and these sentences (B',), as SearchState says.

        Example: of three sentences with two hypotheses each, 0 1 | 2 3 | 4 5, the second is done, and the first
        continues twice from its better hypothesis: hypotheses 0 0 4 5, sentences 0 2. If fewer sentences fit smaller
        tensors (there are few sizes), the two move together. Otherwise they stay where they are, and what is computed
        for the sentence between them is ignored.
        """
        batch, _, width, slots = self.descent.shape
        if sentences is None and self.places is None:
            self.descent = self.descent.view(-1, slots).index_select(0, hypotheses).view(batch, 1, -1, slots)
            return
        if sentences is not None:
            self.places = sentences if self.places is None else self.places[sentences]
        places = self.places
        assert places is not None
        parents = (hypotheses % width).view(len(places), -1)  # (B', W'), within their sentence
        if _rounded_up(len(places)) < batch:
            batch = _rounded_up(len(places))
            places = self._leave(places, batch)
        if len(places) < batch:  # finished sentences are computed along with the others, with any parents
            parents = parents.new_zeros(batch, parents.size(1)).index_copy_(0, places, parents)
        rows = parents + torch.arange(0, batch * width, width, device=parents.device)[:, None]
        self.descent = self.descent.view(-1, slots).index_select(0, rows.view(-1)).view(batch, 1, -1, slots)

    def begin_step(self, x: Tensor) -> Tensor:
        """Make room for one more position; x (N, 1, D) -> (B, W, D), for all sentences in the tensors."""
        batch = len(self.source_mask)
        x = x.view(batch if self.places is None else len(self.places), -1, x.size(-1))
        if self.places is not None:
            x = x.new_zeros(batch, *x.shape[1:]).index_copy_(0, self.places, x)
        if self._own is None or self._own.shape[::2] != (batch, x.size(1)):
            self._own = _additive(own_position_mask(x.size(1), x.device), x.dtype).expand(batch, -1, -1, -1)
        start, self._filled = self._filled, self._filled + x.size(1)
        self.length += 1
        if self._filled > self.descent.size(3):
            slots = _whole_lanes(self._filled)
            self.descent = F.pad(self.descent, (0, slots - self.descent.size(3)), value=-float("inf"))
            if slots > self.past[0].size(3):
                self.past = [_grown(layer, slots) for layer in self.past]
        self.descent[..., start : self._filled] = self._own
        return x

    def append(self, layer: int, newest: Tensor) -> Tensor:
        """Append a layer's newest keys and values (2, B, H, W, K); returns all, (2, B, H, L, K)."""
        past = self.past[layer]
        past[:, :, :, self._filled - newest.size(3) : self._filled] = newest
        return past[:, :, :, : self.descent.size(3)]

    def _leave(self, places: Tensor, size: int) -> Tensor:
        """Keep these sentences in tensors of this size; returns their new places."""
        used, count = self.descent.size(3), len(places)
        kept = torch.cat((places, places[:1].expand(size - count)))
        self.source_mask, self.descent = self.source_mask[kept], self.descent[kept]
        self.memory = [layer.index_select(1, kept) for layer in self.memory]
        self.past = [layer[:, :, :, :used].index_select(1, kept) for layer in self.past]
        places = torch.arange(count, device=places.device)
        self.places = places if count < size else None
        return places


def _rounded_up(size: int) -> int:
    """The next of 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, …"""
    step = 1 << max(0, (size - 1).bit_length() - 3)
    return -(-size // step) * step


def _whole_lanes(size: int) -> int:
    return -(-size // _LANES) * _LANES


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -float("inf"))


def _grown(old: Tensor, needed: int) -> Tensor:
    buffer = old.new_zeros(*old.shape[:3], max(_FIRST_SLOTS, 2 * needed), old.size(4))
    buffer[:, :, :, : old.size(3)] = old
    return buffer


class IncrementalDecoder:
    """A Transformer's decoder, ready to search, with the weights that the model had when it was made."""

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        """Copy the matrices of a model, which stays in evaluation mode, in the precision to compute in."""
        self._embedding, self._positions = model.target_embedding, model.target_positions
        self._dtype = dtype
        self._layers = [_Layer(layer, dtype) for layer in model.decoder.layers]  # type: ignore[arg-type]
        self._final_norm = model.decoder.final_norm
        self._softmax = Product([model.softmax], dtype)

    def start(self, memory: Tensor, source_mask: Tensor) -> IncrementalState:
        """Start decoding from memory (B, S, D) with source_mask, bool (B, 1, 1, S)."""
        missing = _whole_lanes(memory.size(1)) - memory.size(1)
        memory = F.pad(memory.to(self._dtype), (0, 0, 0, missing))
        source_mask = F.pad(source_mask, (0, missing))
        return IncrementalState([layer.project(memory) for layer in self._layers], source_mask)

    def step(self, last: Tensor, state: IncrementalState) -> Tensor:
        """Logits (N, V) of the next token after last, ids (N); moves the state on by one position."""
        x = self._positions(self._embedding(last[:, None]), state.length)  # (N, 1, D)
        x = state.begin_step(x.to(self._dtype))  # (B, W, D)
        for number, layer in enumerate(self._layers):
            x = layer.advance(x, number, state)
        logits = self._softmax(self._final_norm(x))  # (B, W, V)
        return (logits if state.places is None else logits.index_select(0, state.places)).flatten(0, 1)


class _Layer:
    """A decoder layer with its matrices joined."""

    def __init__(self, layer: DecoderLayer, dtype: torch.dtype) -> None:
        own, cross, network = layer.self_attention, layer.cross_attention, layer.feed_forward
        self._layer, self._heads = layer, own.num_heads
        self._own = Product([own.query, own.key, own.value], dtype)
        self._own_output = Product([own.output], dtype)
        self._memory = Product([cross.key, cross.value], dtype)
        self._cross_query, self._cross_output = Product([cross.query], dtype), Product([cross.output], dtype)
        self._inner = Product([network.inner], dtype, network.activation)
        self._outer = Product([network.outer], dtype)

    def project(self, memory: Tensor) -> Tensor:
        """Keys and values (2, B, H, S, K) of the memory (B, S, D)."""
        return self._split(self._memory(memory), 2).contiguous()

    def advance(self, x: Tensor, number: int, state: IncrementalState) -> Tensor:
        """One position: x (B, W, D) -> (B, W, D); number is the layer's."""
        x = self._layer.self_attention_connection(x, lambda y: self._look_back(y, number, state))
        x = self._layer.cross_attention_connection(x, lambda y: self._look_at_source(y, number, state))
        return self._layer.feed_forward_connection(x, lambda y: self._outer(self._inner(y)))  # type: ignore[no-any-return]

    def _look_back(self, x: Tensor, number: int, state: IncrementalState) -> Tensor:
        parts = self._split(self._own(x), 3)
        keys, values = state.append(number, parts[1:]).unbind()
        heads = F.scaled_dot_product_attention(parts[0], keys, values, state.descent)
        return self._own_output(heads.transpose(1, 2).flatten(2))

    def _look_at_source(self, x: Tensor, number: int, state: IncrementalState) -> Tensor:
        query = self._split(self._cross_query(x), 1)[0]
        keys, values = state.memory[number].unbind()
        heads = F.scaled_dot_product_attention(query, keys, values, state.source_mask)
        return self._cross_output(heads.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor, parts: int) -> Tensor:
        """(B, W, parts * D) -> (parts, B, H, W, K)."""
        batch, width, _ = x.shape
        return x.view(batch, width, parts, self._heads, -1).permute(2, 0, 3, 1, 4)
