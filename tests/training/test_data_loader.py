"""Which batches make each step: together the processes do what one alone does, and each epoch everything once."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dragoman.config import EOS, ConfigError, ModelConfig, OptimizerConfig, TextConfig, TrainConfig
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text.batches import Batch, collate, plan_epoch
from dragoman.text.dataset import TokenStore
from dragoman.text.preprocess import PreparedText, prepare_text
from dragoman.text.subwords import Vocabulary, learn_subwords
from dragoman.training.data_loader import DataLoader
from dragoman.training.distributed import Processes
from dragoman.training.run_state import Progress
from dragoman.training.step import StepBatches, batch_seed

from .small_runs import configure as small_run
from .small_runs import write_corpus


class Sentences:
    """A store in memory: each sentence is its own number, repeated."""

    def __init__(self, lengths: list[tuple[int, int]]) -> None:
        self.lengths = np.array(lengths, dtype=np.int64).T

    def __getitem__(self, index: int) -> tuple[NDArray[np.int64], ...]:
        lengths = (side[index] for side in self.lengths)
        return tuple(np.array([index + 10] * (length - 1) + [EOS]) for length in lengths)


def store_of(lengths: list[tuple[int, int]]) -> TokenStore:
    return cast(TokenStore, Sentences(lengths))


def some_lengths(count: int = 60, seed: int = 3) -> list[tuple[int, int]]:
    generator = np.random.default_rng(seed)
    return [(int(a), int(b)) for a, b in generator.integers(2, 20, (count, 2))]


STORE = store_of(some_lengths())


def configure(accumulate: int = 1, **limits: Any) -> TrainConfig:
    optimizer = OptimizerConfig(batch_tokens=80, accumulate=accumulate)
    limits = limits or {"max_epochs": 2}
    return TrainConfig(source="en", target="xx", train=["text"], out="out", optimizer=optimizer, seed=7, **limits)


def shares_of(config: TrainConfig, rank: int = 0, size: int = 1, progress: Progress | None = None) -> list[StepBatches]:
    """All that one process does in a run."""
    progress = Progress() if progress is None else progress
    shares = DataLoader(STORE, config, Processes(rank, size))
    shares.settle_accumulation(progress)
    return list(shares.steps(progress))


def contents(share: StepBatches) -> list[tuple[int, list[list[int]]]]:
    return [(seed, batch.source.tolist()) for seed, batch in share.batches]


def sentences(batch: Batch) -> list[int]:
    return [int(row[0]) - 10 for row in batch.target_output]


PLAN = [plan_epoch(*STORE.lengths, 80, 7, epoch) for epoch in range(2)]


# ---- one process


@pytest.mark.parametrize("accumulate", [1, 3])
def test_each_epoch_is_the_plan_with_a_seed_for_each_batch(accumulate: int) -> None:
    found = [pair for share in shares_of(configure(accumulate)) for pair in share.batches]
    expected = [(batch_seed(7, epoch, n), batch) for epoch in range(2) for n, batch in enumerate(PLAN[epoch])]
    assert [seed for seed, _ in found] == [seed for seed, _ in expected]
    assert [sentences(batch) for _, batch in found] == [batch.tolist() for _, batch in expected]


# ---- several


@settings(max_examples=12)
@given(size=st.integers(1, 5), accumulate=st.integers(1, 6))
def test_together_the_processes_do_exactly_what_one_does(size: int, accumulate: int) -> None:
    config = configure(accumulate)
    ranks = [shares_of(config, rank, size) for rank in range(size)]
    progress = Progress()
    DataLoader(STORE, config, Processes(0, size)).settle_accumulation(progress)
    alone = shares_of(config, progress=progress)
    assert progress.accumulate % size == 0
    assert accumulate <= progress.accumulate < accumulate + size
    assert [len(shares) for shares in ranks] == [len(alone)] * size
    for together, one in zip(zip(*ranks, strict=True), alone, strict=True):
        assert sorted(pair for share in together for pair in contents(share)) == sorted(contents(one))
        assert {share.num_tokens for share in together} == {one.num_tokens}
        for share in together:
            assert (share.filler is None) == bool(share.batches)


# ---- subword dropout


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> PreparedText:
    folder = tmp_path_factory.mktemp("text")
    write_corpus(folder)
    return prepare_text(small_run(folder), clean_text)


def cut_anew(
    text: PreparedText,
    dropout: float,
    rank: int = 0,
    size: int = 1,
    progress: Progress | None = None,
    longest: int = 99,
) -> list[StepBatches]:
    config = replace(configure(accumulate=3), text=TextConfig(subword_dropout=dropout, max_length=longest))
    progress = Progress() if progress is None else progress
    shares = DataLoader(text.train, config, Processes(rank, size), text.vocabulary)
    shares.settle_accumulation(progress)
    return list(shares.steps(progress))


def lines_of(text: PreparedText, ids: NDArray[np.int64]) -> list[str]:
    return text.vocabulary.target.decode(ids.tolist())


def test_sentences_are_cut_anew_each_epoch_and_stay_the_same_text(text: PreparedText) -> None:
    plain, cut = ([batch for share in cut_anew(text, dropout) for _, batch in share.batches] for dropout in (0.0, 0.3))
    assert [lines_of(text, b.target_output) for b in cut] == [lines_of(text, b.target_output) for b in plain]
    assert [lines_of(text, b.source) for b in cut] == [lines_of(text, b.source) for b in plain]
    assert sum(b.num_tokens for b in cut) > 1.2 * sum(b.num_tokens for b in plain)
    spelt: dict[str, set[tuple[int, ...]]] = {}
    for batch in cut:
        for line, ids in zip(lines_of(text, batch.source), batch.source.tolist(), strict=True):
            spelt.setdefault(line, set()).add(tuple(i for i in ids if i))
        assert (batch.target_input[:, 1:] == np.where(batch.target_output == EOS, 0, batch.target_output)[:, :-1]).all()
    assert sum(len(ways) > 1 for ways in spelt.values()) > 0.8 * len(spelt)


def test_what_is_cut_anew_does_not_depend_on_who_does_it_or_on_a_break(text: PreparedText) -> None:
    alone = cut_anew(text, 0.3)
    ranks = [cut_anew(text, 0.3, rank, 3) for rank in range(3)]
    for together, one in zip(zip(*ranks, strict=True), alone, strict=True):
        assert sorted(pair for share in together for pair in contents(share)) == sorted(contents(one))
        assert {share.num_tokens for share in together} == {one.num_tokens}
        assert one.num_tokens == sum(batch.num_tokens for _, batch in one.batches)
    after = cut_anew(text, 0.3, progress=Progress(epoch=1))
    assert list(map(contents, after)) == list(map(contents, alone))[-len(after) :]


def test_subwords_without_merges_can_not_be_cut_anew(text: PreparedText) -> None:
    pairs = text.vocabulary.source.decode([text.train[i][0].tolist() for i in range(len(text.train))])
    unigram = learn_subwords(pairs, TextConfig(vocab_size=300, subwords="unigram"))
    config = replace(configure(), text=TextConfig(subword_dropout=0.1))
    with pytest.raises(ConfigError, match="BPE"):
        DataLoader(text.train, config, Processes(), Vocabulary(unigram, unigram))


# ---- the most demanding


@pytest.mark.parametrize("seed", [80, 81])
def test_no_batch_of_an_epoch_is_more_demanding_than_those_that_are_tried(seed: int) -> None:
    generator = np.random.default_rng(seed)
    batch_tokens = int(generator.integers(10, 200))
    config = replace(configure(), optimizer=OptimizerConfig(batch_tokens=batch_tokens))
    store = store_of(some_lengths(int(generator.integers(1, 60)), seed))
    tried = DataLoader(store, config, Processes()).largest_batches()
    plan = plan_epoch(*store.lengths, batch_tokens, 7, 0)
    batches = [collate(store, indices) for indices in plan]
    assert 1 <= len(tried) <= 2
    assert max(b.padded_tokens for b in tried) == max(b.padded_tokens for b in batches)
    assert max(b.longest for b in tried) == max(b.longest for b in batches)


def test_no_batch_is_padded_beyond_the_positions_of_the_model() -> None:
    lengths = [(n, n) for n in range(2, 19)] * 3
    config = replace(
        configure(accumulate=2, max_epochs=1), model=ModelConfig(max_length=18), text=TextConfig(max_length=17)
    )
    shares = DataLoader(store_of(lengths), config, Processes(1, 2))
    batches = [batch for share in shares.steps(Progress(accumulate=2)) for _, batch in share.batches]
    assert max(batch.longest for batch in [*batches, *shares.largest_batches()]) == 18
