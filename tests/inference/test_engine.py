from __future__ import annotations

import pytest
import torch

from dragoman.config import EOS, DragomanError, ModelConfig, SearchConfig
from dragoman.inference.engine import Engine, in_batches
from dragoman.model.transformer import Transformer

LENGTHS = [3, 9, 4, 12, 5, 5, 8, 1, 2, 7]
ERRORS = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: …"),
    MemoryError(),
]


class Machine:
    """Computes the squares of places, but has memory for so many sentences only."""

    def __init__(self, room: int, error: BaseException) -> None:
        self.room, self.error = room, error
        self.tried: list[list[int]] = []

    def __call__(self, batch: list[int]) -> list[int]:
        self.tried.append(batch)
        if len(batch) > self.room:
            raise self.error
        return [place**2 for place in batch]


def test_results_come_in_order_and_batches_keep_to_the_budget() -> None:
    machine, done = Machine(100, MemoryError()), list[int]()
    assert in_batches(machine, LENGTHS, 24, "", done.append) == [i**2 for i in range(10)]
    assert all(len(batch) * max(LENGTHS[i] for i in batch) <= 24 for batch in machine.tried)
    assert sum(done) == 10
    assert in_batches(machine, [], 24, "") == []


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("room", [1, 3, 9])
def test_batches_are_halved_until_the_memory_suffices(room: int, error: BaseException) -> None:
    machine, done = Machine(room, error), list[int]()
    assert in_batches(machine, LENGTHS, 1000, "", done.append) == [i**2 for i in range(10)]
    assert sorted(place for batch in machine.tried if len(batch) <= room for place in batch) == list(range(10))
    assert sum(done) == 10
    lengths = [LENGTHS[batch[0]] for batch in machine.tried if len(batch) <= room]
    assert lengths == sorted(lengths, reverse=True)


def test_batches_that_wait_are_halved_too() -> None:
    machine = Machine(10, MemoryError())
    assert in_batches(machine, [8] * 80, 160, "") == [i**2 for i in range(80)]
    assert sum(len(batch) > 10 for batch in machine.tried) == 1  # the failure is not met again and again


def test_one_line_that_does_not_fit_is_an_error_that_names_the_cure() -> None:
    with pytest.raises(DragomanError, match=r"does not suffice for a line of 12 subwords: take a smaller --beam"):
        in_batches(Machine(0, ERRORS[1]), LENGTHS, 1000, "take a smaller --beam")


def test_other_errors_are_not_hidden() -> None:
    machine = Machine(0, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="shapes"):
        in_batches(machine, LENGTHS, 1000, "")
    assert len(machine.tried) == 1


def small_model(max_length: int) -> Transformer:
    """A model of 20 subwords, with random weights."""
    sizes = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1}
    return Transformer(ModelConfig(**sizes, max_length=max_length, source_vocab_size=20, target_vocab_size=20)).eval()


def test_a_search_finds_what_scoring_confirms() -> None:
    torch.manual_seed(1)
    model = small_model(max_length=12).train()
    engine = Engine(model, torch.device("cpu"), autocast=False)
    sources = [[5, 6, 7, EOS], [8, EOS]]
    for source, hypotheses in zip(sources, engine.search(sources, SearchConfig(beam=3, n_best=3)), strict=True):
        for hypothesis in hypotheses:
            (log_prob,) = engine.score([source], [[*hypothesis.tokens, EOS]])
            assert log_prob == pytest.approx(hypothesis.log_prob, abs=1e-4)
    assert model.training


@pytest.mark.parametrize("max_length", [9, 10, 11, 12])
def test_a_sentence_may_be_as_long_as_the_model_takes(max_length: int) -> None:
    torch.manual_seed(1)
    engine = Engine(small_model(max_length), torch.device("cpu"), autocast=False)
    longest = [*range(5, 4 + max_length), EOS]
    assert len(longest) == max_length
    alone, together = engine.score([longest], [longest])[0], engine.score([[6, EOS], longest], [[7, EOS], longest])[1]
    assert together == pytest.approx(alone, abs=1e-4)
    assert all(len(hypothesis.tokens) < max_length for hypothesis in engine.search([longest], SearchConfig())[0])


@pytest.mark.parametrize("value", [float("nan"), 1e38])
def test_a_model_that_computes_no_numbers_is_an_error(value: float) -> None:
    model = Transformer(
        ModelConfig(
            d_model=8,
            d_ff=8,
            num_heads=2,
            num_encoder_layers=1,
            num_decoder_layers=1,
            source_vocab_size=20,
            target_vocab_size=20,
            max_length=16,
        )
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "feed_forward" in name:
                parameter.fill_(value)
    with pytest.raises(DragomanError, match="no numbers"):
        Engine(model, torch.device("cpu"), False).search([[5, EOS], [6, 7, EOS]], SearchConfig(beam=2))
