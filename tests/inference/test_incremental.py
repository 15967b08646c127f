"""The decoder for search against Transformer.decode of whole prefixes, which has no cache that could be wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman.config import BOS, EOS, PAD, ModelConfig
from dragoman.inference.incremental import IncrementalDecoder, IncrementalState, Product
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer

VOCABULARY = 13
TINY = ModelConfig(
    d_model=16,
    d_ff=24,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=2,
    dropout=0.1,
    max_length=96,
    source_vocab_size=VOCABULARY,
    target_vocab_size=VOCABULARY,
)
SEPARATE = {"share_embeddings": False, "source_vocab_size": 11, "target_vocab_size": 17}
LADDER = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]


def tiny(**changes: Any) -> Transformer:
    """A tiny model whose biases and LayerNorms are not at their inert starting values."""
    torch.manual_seed(0)
    model = Transformer(dataclasses.replace(TINY, **changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model.eval()


def sources(lengths: list[int], longest: int | None = None) -> Tensor:
    """Random ids (B, longest), padded on the right."""
    width = longest or max(lengths)
    ids = torch.randint(EOS, 11, (len(lengths), width), generator=torch.Generator().manual_seed(1))
    return torch.where(torch.arange(width) < torch.tensor(lengths)[:, None], ids, PAD)


class Search:
    """A beam that goes where a test sends it; every step is compared with the whole prefixes, decoded anew."""

    def __init__(self, model: Transformer, source: Tensor, tolerance: float = 1e-5) -> None:
        self.model, self.tolerance = model, tolerance
        self.mask = padding_mask(source, PAD)
        self.memory, self.sentences = model.encode(source, self.mask), len(source)
        self.decoder = IncrementalDecoder(model, self.memory.dtype)
        self.state = self.decoder.start(self.memory, self.mask)
        self.followers: list[IncrementalState] = []  # of other decoders, which are led the same way
        self.prefixes = torch.empty(len(source), 0, dtype=torch.long)
        self.generator = torch.Generator().manual_seed(2)

    def random(self, high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=self.generator)

    def step(self) -> Tensor:
        """Continue every hypothesis by some token; returns the logits that follow."""
        last = self.random(self.model.config.target_vocab_size, len(self.prefixes))
        last = last if self.prefixes.size(1) else torch.full_like(last, BOS)
        self.prefixes = torch.cat((self.prefixes, last[:, None]), dim=1)
        logits = self.decoder.step(last, self.state)
        expected = self.model.decode(self.prefixes, self.memory, self.mask)[:, -1]
        torch.testing.assert_close(logits, expected, rtol=self.tolerance, atol=self.tolerance)
        return logits

    def select(self, width: int, staying: list[int] | None = None) -> None:
        """So many hypotheses of each sentence go on, drawn with repeats, and only these sentences, if not all."""
        before = len(self.prefixes) // self.sentences
        kept = torch.arange(self.sentences) if staying is None else torch.tensor(staying)
        hypotheses = (kept[:, None] * before + self.random(before, len(kept), width)).view(-1)
        self.prefixes, self.memory, self.mask = (x[hypotheses] for x in (self.prefixes, self.memory, self.mask))
        self.sentences = len(kept)
        for state in (self.state, *self.followers):
            state.select(hypotheses, None if staying is None else kept)

    def leave(self, count: int) -> list[int]:
        """All but so many sentences, drawn at random, still in order."""
        return torch.randperm(self.sentences, generator=self.generator)[count:].sort().values.tolist()


def walk(search: Search, leaving: list[int], widths: list[int]) -> None:
    """A step and a selection for each number of sentences that leave; widths are taken in turn."""
    for turn, count in enumerate(leaving):
        search.step()
        search.select(widths[min(turn, len(widths) - 1)], search.leave(count) if count else None)
    search.step()


# ---------------------------------------------------------------------------------------------- whole prefixes


@pytest.mark.parametrize(
    ("norm", "positions", "activation", "sharing"),
    [
        ("post", "interleaved", "relu", {}),
        ("pre", "halves", "gelu", {"tie_softmax": False}),
        ("post", "learned", "swish", {"softmax_bias": True}),
        ("pre", "interleaved", "swish", SEPARATE),
        ("post", "halves", "gelu", SEPARATE | {"tie_softmax": False}),
        ("pre", "learned", "relu", SEPARATE | {"softmax_bias": True}),
    ],
)
@torch.no_grad()
def test_logits_are_those_of_whole_prefixes_for_every_kind_of_model(
    norm: str, positions: str, activation: str, sharing: dict[str, Any]
) -> None:
    model = tiny(norm=norm, positions=positions, activation=activation, **sharing)
    for lengths in ([5, 2, 4], [4, 4, 4]):
        walk(Search(model, sources(lengths)), leaving=[0, 0, 1, 0], widths=[3])


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize(
    ("batch", "leaving"),
    [
        (3, [0] * 8),
        (13, [1] * 12),  # one by one, at every step
        (13, [0, 1, 0, 1, 1, 0, 0, 1, 0]),
        (20, [0, 3, 0, 9, 1, 0, 6, 0, 0]),  # in bunches, to the last one
        (20, [0, 19, 0, 0, 0, 0]),  # all but one at once
        (9, [8, 0, 0, 0]),  # after the first word
        (1, [0] * 8),
    ],
)
@torch.no_grad()
def test_logits_stay_right_while_beams_move_and_sentences_end(width: int, batch: int, leaving: list[int]) -> None:
    lengths = [1 + i * 5 % 7 for i in range(batch)]
    walk(Search(tiny(), sources(lengths)), leaving, [width])


@pytest.mark.parametrize(("steps", "width"), [(70, 1), (66, 3)])
@torch.no_grad()
def test_nothing_is_lost_where_buffers_grow(steps: int, width: int) -> None:
    slots = []
    search = Search(tiny(), sources([4, 2, 3, 4]))
    for turn in range(steps):
        search.step()
        slots.append(search.state.past[0].size(3))
        search.select(width, search.leave(1) if turn in (20, 50) else None)
    search.step()
    assert len(set(slots)) >= 2
    assert search.state.length == steps + 1


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("autocast", [True, False])
@torch.no_grad()
def test_in_bf16_logits_are_right_within_its_precision(norm: str, autocast: bool) -> None:
    def working() -> AbstractContextManager[object]:
        return torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext()

    model, source = tiny(norm=norm), sources([5, 2, 4, 5, 5, 3, 1, 4, 2, 2])
    search, mask = Search(model, source), padding_mask(source, PAD)
    with working():
        decoder = IncrementalDecoder(model, torch.bfloat16)
        state = decoder.start(model.encode(source, mask), mask)
    search.followers.append(state)
    errors, sizes = [], []
    for turn in range(30):
        sizes.append(search.step())
        with working():
            logits = decoder.step(search.prefixes[:, -1], state)
        assert logits.dtype == torch.bfloat16
        errors.append(logits.float() - sizes[-1])
        search.select(3, search.leave(1) if turn % 5 == 4 else None)
    error, size = torch.cat(errors), torch.cat(sizes)
    assert error.square().mean().sqrt() < 0.02 * size.std()
    assert error.abs().max() < 0.15 * size.std()


# ---------------------------------------------------------------------------------------------- what stays behind


@torch.no_grad()
def test_sentences_that_are_done_but_still_in_the_tensors_do_not_reach_the_others() -> None:
    search = Search(tiny(), sources([3, 5, 1, 4, 4, 2, 5, 5, 3, 4, 2, 1]))
    walk(search, [0, 0], [3])
    search.select(3, [i for i in range(12) if i != 4])
    places = search.state.places
    assert places is not None
    (done,) = set(range(12)) - set(places.tolist())
    for layers in (search.state.memory, search.state.past):
        for layer in layers:
            layer[:, done] = float("nan")
    for _ in range(3):
        assert search.step().isfinite().all()
        search.select(3)


@pytest.mark.parametrize(("start", "bunch"), [(64, 2), (24, 1), (16, 5)])
@torch.no_grad()
def test_only_few_sizes_of_tensors_occur_and_none_is_larger_than_needed(start: int, bunch: int) -> None:
    search = Search(tiny(), sources([1 + i % 4 for i in range(start)]))
    search.step()
    while search.sentences > 1:
        search.select(2, search.leave(min(bunch, search.sentences - 1)))
        search.step()
        size = len(search.state.source_mask)
        assert size == min(step for step in LADDER if step >= search.sentences)
        assert (search.state.places is None) == (size == search.sentences)  # no rows to pick where all are wanted


# ---------------------------------------------------------------------------------------------- prepared products

LEADING = [(), (1,), (0,), (3,), (257,), (2, 1, 4)]
SHAPES = [(5, [7]), (1, [1]), (16, [16, 16, 16]), (24, [8, 3])]
"""Inputs, and the outputs of each layer: multiples of the processor's registers and not."""


def layers(inputs: int, outputs: list[int], bias: bool = True) -> list[nn.Linear]:
    torch.manual_seed(inputs + sum(outputs))
    return [nn.Linear(inputs, size, bias=bias) for size in outputs]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("inputs", "outputs"), SHAPES)
@torch.no_grad()
def test_a_product_is_that_of_the_linear_layers_side_by_side_rounded_once(
    inputs: int, outputs: list[int], dtype: torch.dtype, bias: bool
) -> None:
    linear = [layer.to(dtype) for layer in layers(inputs, outputs, bias)]
    product = Product(linear, dtype)
    for leading in LEADING:
        x = torch.randn(*leading, inputs).to(dtype)
        found = product(x)
        exact = torch.cat([layer.double()(x.double()) for layer in linear], dim=-1)
        assert found.dtype == dtype
        tolerance = 2**-7 if dtype == torch.bfloat16 else 1e-5
        torch.testing.assert_close(found.double(), exact, rtol=tolerance, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activation", [F.relu, F.gelu, F.silu])
@torch.no_grad()
def test_the_activation_comes_after_the_product(dtype: torch.dtype, activation: Callable[[Tensor], Tensor]) -> None:
    linear = layers(16, [16, 8])
    plain, activated = Product(linear, dtype), Product(linear, dtype, activation)
    x = torch.randn(6, 2, 32).to(dtype)
    for view in (x[:, :, ::2], x[:, :1, :16].expand(6, 5, 16), x.view(2, 32, 6)[:, :16].mT):  # not contiguous
        torch.testing.assert_close(activated(view), activation(plain(view)), rtol=2**-7, atol=1e-5)
