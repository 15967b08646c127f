"""What a search remembers against Transformer.decode of whole prefixes, which has no cache that could be wrong."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.config import BOS, EOS, PAD, ModelConfig
from dragoman.inference.engine import DecoderState
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
        self.state = DecoderState(model, source)
        self.followers: list[DecoderState] = []  # in another precision, and led the same way
        self.prefixes = torch.empty(len(source), 0, dtype=torch.long)
        self.generator = torch.Generator().manual_seed(2)

    def random(self, high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=self.generator)

    def step(self) -> Tensor:
        """Continue every hypothesis by some token; returns the logits that follow."""
        last = self.random(self.model.config.target_vocab_size, len(self.prefixes))
        last = last if self.prefixes.size(1) else torch.full_like(last, BOS)
        self.prefixes = torch.cat((self.prefixes, last[:, None]), dim=1)
        logits = self.state.step(last)
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


@pytest.mark.parametrize("norm", ["post", "pre"])
@torch.no_grad()
def test_in_bf16_logits_are_right_within_its_precision(norm: str) -> None:
    model, source = tiny(norm=norm), sources([5, 2, 4, 5, 5, 3, 1, 4, 2, 2])
    search = Search(model, source)
    with torch.autocast("cpu", torch.bfloat16):
        state = DecoderState(model, source)
    search.followers.append(state)
    errors, sizes = [], []
    for turn in range(30):
        sizes.append(search.step())
        with torch.autocast("cpu", torch.bfloat16):
            logits = state.step(search.prefixes[:, -1])
        assert logits.dtype == torch.bfloat16
        errors.append(logits.float() - sizes[-1])
        search.select(3, search.leave(1) if turn % 5 == 4 else None)
    error, size = torch.cat(errors), torch.cat(sizes)
    assert error.square().mean().sqrt() < 0.02 * size.std()
    assert error.abs().max() < 0.15 * size.std()
