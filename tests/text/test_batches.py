"""Batches: everything once, within the budget, in an order that only seed and epoch decide."""

import hashlib
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dragoman.config import BOS, EOS, PAD
from dragoman.text.batches import Batch, collate, pad_right, plan_epoch, plan_in_order
from dragoman.text.dataset import TokenStore

Lengths = NDArray[np.int64]


def realistic_lengths(count: int) -> tuple[Lengths, Lengths]:
    generator = np.random.default_rng(3)
    source = generator.lognormal(3.1, 0.6, count).clip(1, 200)
    target = (source * generator.normal(1.1, 0.2, count).clip(0.5, 2)).clip(1, 200)
    return source.astype(np.int64), target.astype(np.int64)


def padded_size(batch: Lengths, source: Lengths, target: Lengths) -> int:
    """What a batch costs: sentences × the longest side, as padded."""
    longest = max(source[batch].max(), target[batch].max())
    return len(batch) * len(pad_right([[0] * int(longest)])[0])


sentence_lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=80)


@settings(max_examples=50, deadline=None)
@given(sentence_lengths, st.integers(1, 400), st.integers(0, 3), st.integers(0, 3))
def test_every_sentence_is_in_exactly_one_batch_within_the_budget(
    pairs: list[tuple[int, int]], budget: int, seed: int, epoch: int
) -> None:
    source, target = np.array(pairs, dtype=np.int64).T
    plan = plan_epoch(source, target, budget, seed, epoch)
    assert sorted(np.concatenate(plan)) == list(range(len(pairs)))
    assert all(len(batch) == 1 or padded_size(batch, source, target) <= budget for batch in plan)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(1, 400))
def test_a_plan_in_order_covers_everything_longest_first_within_the_budget(values: list[int], budget: int) -> None:
    lengths = np.array(values, dtype=np.int64)
    plan = plan_in_order(values, budget)
    order = np.concatenate(plan)
    assert sorted(order) == list(range(len(values)))
    assert (np.diff(lengths[order]) <= 0).all()
    assert all(len(batch) == 1 or padded_size(batch, lengths, lengths) <= budget for batch in plan)


@pytest.mark.parametrize(("seed", "epoch"), [(7, 3), (8, 2), (2, 7)])
def test_another_seed_or_epoch_puts_other_sentences_together(seed: int, epoch: int) -> None:
    source, target = realistic_lengths(800)
    ours, other = plan_epoch(source, target, 1000, 7, 2), plan_epoch(source, target, 1000, seed, epoch)
    assert {frozenset(batch.tolist()) for batch in ours} != {frozenset(batch.tolist()) for batch in other}


def test_the_plan_is_the_one_that_published_scores_were_trained_with() -> None:
    lengths = np.arange(1, 2001, dtype=np.int64)
    plan = plan_epoch(lengths % 37 + 1, lengths % 53 + 1, 512, seed=7, epoch=2)
    digest = hashlib.sha256(" ".join(",".join(map(str, batch)) for batch in plan).encode()).hexdigest()
    assert digest[:16] == "803faaa86859c244"


LADDER = [*range(1, 9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=200), st.integers(1, 600))
def test_only_the_last_batch_may_have_a_size_that_is_not_in_the_ladder(values: list[int], budget: int) -> None:
    """The sizes are 1 to 8, and four for every doubling after that."""
    lengths = np.array(values, dtype=np.int64)
    *full, _ = (len(batch) for batch in plan_in_order(values, budget))
    assert set(full) <= set(LADDER)
    assert sum(len(batch) not in LADDER for batch in plan_epoch(lengths, lengths, budget, 1, 0)) <= 1


# ---- collating


def collated(pairs: list[tuple[list[int], list[int]]], indices: list[int], limit: int | None = None) -> Batch:
    store = [tuple(np.array([*ids, EOS], dtype=np.uint16) for ids in pair) for pair in pairs]
    return collate(cast(TokenStore, store), indices, limit)


ids = st.lists(st.integers(4, 65_535), min_size=1, max_size=12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=6))
def test_a_batch_is_its_sentences_with_padding_on_the_right_alone(pairs: list[tuple[list[int], list[int]]]) -> None:
    batch = collated(pairs, list(range(len(pairs))))
    for row, (source, target) in enumerate(pairs):
        for array, sentence in (
            (batch.source, [*source, EOS]),
            (batch.target_output, [*target, EOS]),
            (batch.target_input, [BOS, *target]),
        ):
            assert array[row, : len(sentence)].tolist() == sentence
            assert (array[row, len(sentence) :] == PAD).all()


def test_the_tokens_of_a_batch_are_its_target_tokens_without_padding() -> None:
    pairs = [([9] * 7, [9] * 2), ([9], [9] * 5)]
    assert collated(pairs, [0, 1]).num_tokens == 3 + 6
    assert collated(pairs, [1]).num_tokens == 6


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 40))
def test_padding_does_not_go_beyond_the_positions_of_a_model(lengths: list[int], limit: int) -> None:
    width = pad_right([[5] * length for length in lengths], limit).shape[1]
    assert width >= max(lengths)  # nothing is ever cut off
    assert width <= max(limit, max(lengths))
    assert width % 4 == 0 or width in (limit, max(lengths))
    free = pad_right([[5] * length for length in lengths])
    assert width == free.shape[1] or free.shape[1] > limit


def test_all_sides_of_a_batch_keep_to_the_limit() -> None:
    batch = collated([([9] * 8, [9] * 5), ([9], [9] * 8)], [0, 1], limit=9)
    assert batch.source.shape == batch.target_input.shape == batch.target_output.shape == (2, 9)


# ---- pieces


def some_batch(lengths: list[tuple[int, int]]) -> Batch:
    return collated([([9] * (s - 1), [9] * (t - 1)) for s, t in lengths], list(range(len(lengths))))


def test_the_size_of_a_batch_is_its_sentences_times_its_longer_side_as_padded() -> None:
    batch = some_batch([(2, 5), (3, 9), (4, 2)])
    assert (batch.longest, batch.padded_tokens) == (12, 36)
    other_way_round = some_batch([(5, 2), (9, 3)])
    assert (other_way_round.longest, other_way_round.padded_tokens) == (12, 24)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(2, 20), st.integers(2, 20)), min_size=1, max_size=30), st.integers(1, 700))
def test_pieces_are_the_same_sentences_in_order_within_the_budget(lengths: list[tuple[int, int]], budget: int) -> None:
    batch = some_batch(lengths)
    assert len(batch.pieces(0)) == 1
    pieces = batch.pieces(budget)
    for name in ("source", "target_input", "target_output"):
        assert np.array_equal(np.concatenate([getattr(piece, name) for piece in pieces]), getattr(batch, name))
    assert sum(piece.num_tokens for piece in pieces) == batch.num_tokens
    assert all(piece.padded_tokens <= budget or len(piece.source) == 1 for piece in pieces)
    # As few as the budget allows: all but the last are full.
    assert all(piece.padded_tokens + batch.longest > budget for piece in pieces[:-1])


def test_a_pair_is_in_as_many_batches_as_it_is_to_be_read() -> None:
    source, target = realistic_lengths(3000)
    times = np.repeat([0.5, 1.0, 2.3], 1000)
    plans = [np.concatenate(plan_epoch(source, target, 1000, 7, epoch, times)) for epoch in (1, 1, 2)]
    assert (plans[0] == plans[1]).all()
    counts = np.bincount(plans[0], minlength=3000).reshape(3, 1000)
    assert [set(own.tolist()) for own in counts] == [{0, 1}, {1}, {2, 3}]
    assert counts.mean(axis=1) == pytest.approx([0.5, 1.0, 2.3], abs=0.06)
    assert counts[0].tolist() != np.bincount(plans[2], minlength=3000)[:1000].tolist()  # another half
    rare = plan_epoch(source[:3], target[:3], 1000, 7, 1, np.array([1e-9, 2e-9, 1e-9]))
    assert [batch.tolist() for batch in rare] == [[1]]  # no pass is empty
