"""The decoder one position at a time, for a whole beam: what a search spends its time in.

Computes what Transformer.decode computes with a cache, in fewer and larger operations:

- Self-attention's queries, keys and values come from one product, and all weights are converted to the working
  precision once.
- The W hypotheses of a sentence share one store of keys and values. When the beam is reordered, nothing is copied but
  the mask that says whose keys each hypothesis descends from.
- Sentences that are done stay in the tensors until there are enough of them: few sizes of tensors occur, for which the
  processor's kernels are compiled one by one.
- Keys come in multiples of 16, the last ones masked: a kernel that works on 16 numbers at once takes twice as long for
  14 as for 16.

Shapes: B sentences, W beam width, N = B * W hypotheses (those of a sentence side by side), S source length, L slots
of keys, both in whole multiples, D d_model, H heads, K d_k, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from dragoman.inference.product import Product
from dragoman.model.layers import DecoderLayer
from dragoman.model.masks import own_position_mask
from dragoman.model.transformer import Transformer

_LANES = 16  # numbers that a kernel works on at once
_FIRST_SLOTS = 64


class StepwiseState:
    """What is remembered of the sentences and hypotheses of a search.

    Masks are kept in the additive form that the fused kernel works with, 0 or -inf.
    """

    def __init__(self, memory: Sequence[Tensor], source_mask: Tensor) -> None:
        """Begin with one hypothesis of no tokens for each sentence.

        Args:
            memory: each decoder layer's keys and values of the memory, (2, B, H, S, K).
            source_mask: bool (B, 1, 1, S), True = may attend.
        """
        self.length = 0
        """Tokens decoded so far."""
        self.memory = list(memory)
        self.source_mask = _additive(source_mask, memory[0].dtype)
        self.past = [layer[:, :, :, :0] for layer in memory]
        """Each layer's keys and values of whatever was decoded, (2, B, H, at least L, K), then zeros."""
        self.descent = self.source_mask.new_empty(len(source_mask), 1, 1, 0)
        """Which slots hold a hypothesis' own past, (B, 1, W, L)."""
        self.places: Tensor | None = None
        """Which of the sentences in the tensors are still searched, int (B',); None where all are."""
        self._filled = 0  # slots that hold something
        self._own: Tensor | None = None

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        """Keep these hypotheses, in this order, and these sentences.

        Of three sentences with two hypotheses each, 0 1 | 2 3 | 4 5, let the second be done, and both of the first go
        on from its better one: hypotheses 0 0 4 5, sentences 0 2. Where fewer sentences make smaller tensors (there
        are few sizes), these two move together; otherwise they stay where they are, and what is computed for the one
        between them means nothing.

        Args:
            hypotheses: int (N',), indices of the hypotheses before; repeats allowed.
            sentences: int (B',), indices of the sentences before; None where all stay.
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
        if len(places) < batch:  # those that are done keep up with the others, whatever comes of it
            parents = parents.new_zeros(batch, parents.size(1)).index_copy_(0, places, parents)
        rows = parents + torch.arange(0, batch * width, width, device=parents.device)[:, None]
        self.descent = self.descent.view(-1, slots).index_select(0, rows.view(-1)).view(batch, 1, -1, slots)

    def begin_step(self, x: Tensor) -> Tensor:
        """Make room for one more position; x (N, 1, D) -> (B, W, D) for all sentences that are in the tensors."""
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
        """Put the newest keys and values (2, B, H, W, K) of a layer behind the others; returns all, (2, B, H, L, K)."""
        past = self.past[layer]
        past[:, :, :, self._filled - newest.size(3) : self._filled] = newest
        return past[:, :, :, : self.descent.size(3)]

    def _leave(self, places: Tensor, size: int) -> Tensor:
        """Keep these sentences in the tensors and so many in all; returns their new places."""
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


class StepwiseDecoder:
    """A Transformer's decoder, ready to search; its matrices are those of the moment when it was made."""

    def __init__(self, model: Transformer, dtype: torch.dtype) -> None:
        """Copy the matrices of a model in the precision to compute in; the model stays in evaluation mode."""
        self._embedding, self._positions = model.target_embedding, model.target_positions
        self._dtype = dtype
        self._layers = [_Layer(layer, dtype) for layer in model.decoder.layers]  # type: ignore[arg-type]
        self._final_norm = model.decoder.final_norm
        self._softmax = Product([model.softmax], dtype)

    def start(self, memory: Tensor, source_mask: Tensor) -> StepwiseState:
        """Begin to decode from memory (B, S, D); source_mask bool (B, 1, 1, S)."""
        missing = _whole_lanes(memory.size(1)) - memory.size(1)
        memory = F.pad(memory.to(self._dtype), (0, 0, 0, missing))
        source_mask = F.pad(source_mask, (0, missing))
        return StepwiseState([layer.project(memory) for layer in self._layers], source_mask)

    def step(self, last: Tensor, state: StepwiseState) -> Tensor:
        """Logits (N, V) of the token after the last one, ids (N), of each hypothesis; the state moves on by one."""
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

    def advance(self, x: Tensor, number: int, state: StepwiseState) -> Tensor:
        """One position: x (B, W, D) -> (B, W, D); number is the layer's."""
        x = self._layer.self_attention_connection(x, lambda y: self._look_back(y, number, state))
        x = self._layer.cross_attention_connection(x, lambda y: self._look_at_source(y, number, state))
        return self._layer.feed_forward_connection(x, lambda y: self._outer(self._inner(y)))  # type: ignore[no-any-return]

    def _look_back(self, x: Tensor, number: int, state: StepwiseState) -> Tensor:
        parts = self._split(self._own(x), 3)
        keys, values = state.append(number, parts[1:]).unbind()
        heads = F.scaled_dot_product_attention(parts[0], keys, values, state.descent)
        return self._own_output(heads.transpose(1, 2).flatten(2))

    def _look_at_source(self, x: Tensor, number: int, state: StepwiseState) -> Tensor:
        query = self._split(self._cross_query(x), 1)[0]
        keys, values = state.memory[number].unbind()
        heads = F.scaled_dot_product_attention(query, keys, values, state.source_mask)
        return self._cross_output(heads.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor, parts: int) -> Tensor:
        """(B, W, parts * D) -> (parts, B, H, W, K)."""
        batch, width, _ = x.shape
        return x.view(batch, width, parts, self._heads, -1).permute(2, 0, 3, 1, 4)
